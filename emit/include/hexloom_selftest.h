/* SPDX-License-Identifier: Apache-2.0
 *
 * Proves on any machine that tables are whole and safe: ranges, checksum, an order in which all queues come to their
 * end, and that buffers at the same addresses are never alive together, however long anything takes. C99 that is
 * also C++11; needs no library. Include it in one file.
 *
 *   size_t words = hexloom_selftest_words(view.header);   -- 0: not a header
 *   hexloom_verdict verdict = hexloom_selftest(&view, memory_of_that_many_words);
 *   verdict.problem == NULL: nothing wrong
 */
#ifndef HEXLOOM_SELFTEST_H
#define HEXLOOM_SELFTEST_H

#include "hexloom_tables.h"

/* What is wrong first, and the number of the record that shows it. */
typedef struct hexloom_verdict {
  const char *problem;
  uint32_t where;
} hexloom_verdict;

/* The tables, and scratch memory cut into arrays. Lists end with HEXLOOM_NONE. */
typedef struct hexloom_walk {
  const hexloom_view *view;
  uint32_t words_per_set;
  uint32_t *at;           /* per queue: entries done */
  uint32_t *begun;        /* per task: entries that have begun */
  uint32_t *counters;     /* per event */
  uint32_t *first_entry;  /* per task: list of its entries */
  uint32_t *next_entry;   /* per entry */
  uint32_t *first_task;   /* per event: list of the tasks that trigger it */
  uint32_t *next_task;    /* per task */
  uint32_t *user;         /* per operand: its task */
  uint32_t *first_use;    /* per buffer: list of operands */
  uint32_t *next_use;     /* per operand */
  uint32_t *before;       /* per entry: set of the entries that are over when it begins */
} hexloom_walk;

static hexloom_verdict hexloom_say(const char *problem, uint32_t where) {
  hexloom_verdict verdict;
  verdict.problem = problem;
  verdict.where = where;
  return verdict;
}

static uint32_t hexloom_crc_add(uint32_t crc, const void *data, size_t bytes) {
  const unsigned char *at = (const unsigned char *)data;
  size_t k;
  int bit;
  for (k = 0; k < bytes; k++) {
    crc ^= at[k];
    for (bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
  }
  return crc;
}

static uint32_t hexloom_checksum(const hexloom_view *view) {
  hexloom_header header = *view->header;
  uint32_t crc = 0xFFFFFFFFu;
  header.crc32 = 0u;
  crc = hexloom_crc_add(crc, &header, sizeof header);
  crc = hexloom_crc_add(crc, view->tasks, sizeof(hexloom_task) * header.task_count);
  crc = hexloom_crc_add(crc, view->operands, sizeof(hexloom_operand) * header.operand_count);
  crc = hexloom_crc_add(crc, view->waits, sizeof(hexloom_wait) * header.wait_count);
  crc = hexloom_crc_add(crc, view->events, sizeof(hexloom_event) * header.event_count);
  crc = hexloom_crc_add(crc, view->queues, sizeof(hexloom_queue) * header.queue_count);
  crc = hexloom_crc_add(crc, view->entries, sizeof(hexloom_entry) * header.entry_count);
  crc = hexloom_crc_add(crc, view->buffers, sizeof(hexloom_buffer) * header.buffer_count);
  crc = hexloom_crc_add(crc, view->bindings, sizeof(hexloom_binding) * header.binding_count);
  return crc ^ 0xFFFFFFFFu;
}

static hexloom_verdict hexloom_check_header(const hexloom_header *h) {
  const uint16_t one = 1u;
  hexloom_header blank = *h;
  if (*(const unsigned char *)&one != 1u) return hexloom_say("the tables are for little-endian machines", 0u);
  if (h->magic != HEXLOOM_MAGIC) return hexloom_say("these are not tables of hexloom", h->magic);
  if (h->abi_major != HEXLOOM_ABI_MAJOR) return hexloom_say("the tables have another ABI", h->abi_major);
  if (h->header_bytes != sizeof(hexloom_header) || h->task_bytes != sizeof(hexloom_task) ||
      h->operand_bytes != sizeof(hexloom_operand) || h->wait_bytes != sizeof(hexloom_wait) ||
      h->event_bytes != sizeof(hexloom_event) || h->queue_bytes != sizeof(hexloom_queue) ||
      h->entry_bytes != sizeof(hexloom_entry) || h->buffer_bytes != sizeof(hexloom_buffer) ||
      h->binding_bytes != sizeof(hexloom_binding))
    return hexloom_say("the records have other sizes", 0u);
  blank.crc32 = 0u;
  blank.header_crc32 = 0u;
  if ((hexloom_crc_add(0xFFFFFFFFu, &blank, sizeof blank) ^ 0xFFFFFFFFu) != h->header_crc32)
    return hexloom_say("the checksum does not fit the header", 0u);
  return hexloom_say(NULL, 0u);
}

/* Words of scratch memory that the quick test needs; 0 when the header is not one. */
static size_t hexloom_quick_words(const hexloom_header *h) {
  if (hexloom_check_header(h).problem != NULL) return 0u;
  return 1u + (size_t)h->queue_count + 3u * (size_t)h->task_count + 2u * (size_t)h->event_count +
         (size_t)h->entry_count + 2u * (size_t)h->operand_count + (size_t)h->buffer_count;
}

/* Words of scratch memory that the test needs; 0 when the header is not one. */
static size_t hexloom_selftest_words(const hexloom_header *h) {
  const size_t words = hexloom_quick_words(h);
  return words == 0u ? 0u : words + (size_t)h->entry_count * (h->entry_count / 32u + 1u);
}

static uint32_t *hexloom_cut(uint32_t **memory, uint32_t count, uint32_t value) {
  uint32_t *start = *memory;
  uint32_t k;
  for (k = 0; k < count; k++) start[k] = value;
  *memory += count;
  return start;
}

static void hexloom_prepare(hexloom_walk *w, const hexloom_view *view, uint32_t *memory, int with_sets) {
  const hexloom_header *h = view->header;
  size_t k;
  w->view = view;
  w->words_per_set = with_sets ? h->entry_count / 32u + 1u : 0u;
  w->at = hexloom_cut(&memory, h->queue_count, 0u);
  w->begun = hexloom_cut(&memory, h->task_count, 0u);
  w->counters = hexloom_cut(&memory, h->event_count, 0u);
  w->first_entry = hexloom_cut(&memory, h->task_count, HEXLOOM_NONE);
  w->next_entry = hexloom_cut(&memory, h->entry_count, HEXLOOM_NONE);
  w->first_task = hexloom_cut(&memory, h->event_count, HEXLOOM_NONE);
  w->next_task = hexloom_cut(&memory, h->task_count, HEXLOOM_NONE);
  w->user = hexloom_cut(&memory, h->operand_count, HEXLOOM_NONE);
  w->first_use = hexloom_cut(&memory, h->buffer_count, HEXLOOM_NONE);
  w->next_use = hexloom_cut(&memory, h->operand_count, HEXLOOM_NONE);
  w->before = memory;
  for (k = 0; k < (size_t)h->entry_count * w->words_per_set; k++) w->before[k] = 0u;
}

static hexloom_verdict hexloom_check_memory(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t k;
  for (k = 0; k < h->binding_count; k++)
    if (v->bindings[k].space == HEXLOOM_VTCM && v->bindings[k].bytes > h->vtcm_bytes)
      return hexloom_say("a binding is larger than the scratchpad", k);
  for (k = 0; k < h->buffer_count; k++) {
    const hexloom_buffer *b = &v->buffers[k];
    if (b->binding >= h->binding_count) return hexloom_say("a buffer names no binding", k);
    if (b->bytes > v->bindings[b->binding].bytes || b->offset > v->bindings[b->binding].bytes - b->bytes)
      return hexloom_say("a buffer lies outside its binding", k);
    if (b->align == 0u || b->offset % b->align != 0u) return hexloom_say("a buffer is not aligned", k);
  }
  for (k = 0; k < h->operand_count; k++) {
    const hexloom_operand *o = &v->operands[k];
    if (o->binding >= h->binding_count) return hexloom_say("an operand names no binding", k);
    if (o->space != v->bindings[o->binding].space) return hexloom_say("an operand is in another space", k);
    if (o->buffer == HEXLOOM_NONE) continue;
    if (o->buffer >= h->buffer_count) return hexloom_say("an operand names no buffer", k);
    if (o->offset != v->buffers[o->buffer].offset || o->binding != v->buffers[o->buffer].binding)
      return hexloom_say("an operand is not where its buffer is", k);
    w->next_use[k] = w->first_use[o->buffer];
    w->first_use[o->buffer] = k;
  }
  return hexloom_say(NULL, 0u);
}

static hexloom_verdict hexloom_check_tasks(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t t, k, operands = 0u, waits = 0u;
  for (t = 0; t < h->task_count; t++) {
    const hexloom_task *task = &v->tasks[t];
    if (task->kind < HEXLOOM_HMX || task->kind > HEXLOOM_OTHER) return hexloom_say("a task is of no kind", t);
    if (task->queue >= h->queue_count) return hexloom_say("a task names no queue", t);
    if (task->first_operand != operands || task->operand_count > h->operand_count - operands)
      return hexloom_say("the operands of a task do not follow those before", t);
    if (task->first_wait != waits || task->wait_count > h->wait_count - waits)
      return hexloom_say("the waits of a task do not follow those before", t);
    for (k = 0; k < task->operand_count; k++) w->user[operands + k] = t;
    operands += task->operand_count;
    waits += task->wait_count;
    if (task->trigger_event == HEXLOOM_NONE) continue;
    if (task->trigger_event >= h->event_count) return hexloom_say("a task triggers no event that exists", t);
    w->next_task[t] = w->first_task[task->trigger_event];
    w->first_task[task->trigger_event] = t;
    w->counters[task->trigger_event] += task->slice_count;
  }
  if (operands != h->operand_count) return hexloom_say("operands belong to no task", operands);
  if (waits != h->wait_count) return hexloom_say("waits belong to no task", waits);
  for (k = 0; k < h->event_count; k++) {
    if (w->counters[k] != v->events[k].triggers) return hexloom_say("an event is triggered another number of times", k);
    w->counters[k] = 0u;
  }
  for (k = 0; k < h->wait_count; k++) {
    if (v->waits[k].event >= h->event_count) return hexloom_say("a wait is for no event that exists", k);
    if (v->waits[k].threshold == 0u || v->waits[k].threshold > v->events[v->waits[k].event].triggers)
      return hexloom_say("a wait has a threshold that is never reached, or none", k);
    w->counters[v->waits[k].event]++;
  }
  for (k = 0; k < h->event_count; k++) {
    if (w->counters[k] != v->events[k].waiters) return hexloom_say("an event has another number of waiters", k);
    w->counters[k] = 0u;
  }
  return hexloom_say(NULL, 0u);
}

static hexloom_verdict hexloom_check_queues(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t q, k, e, next = 0u;
  for (q = 0; q < h->queue_count; q++) {
    if (v->queues[q].first_entry != next || v->queues[q].entry_count > h->entry_count - next)
      return hexloom_say("the entries of a queue do not follow those before", q);
    next += v->queues[q].entry_count;
  }
  if (next != h->entry_count) return hexloom_say("entries belong to no queue", next);
  for (k = h->entry_count; k-- > 0u;) {
    const hexloom_entry *entry = &v->entries[k];
    if (entry->task >= h->task_count) return hexloom_say("an entry names no task", k);
    w->next_entry[k] = w->first_entry[entry->task];
    w->first_entry[entry->task] = k;
  }
  for (k = 0; k < h->task_count; k++) {
    const hexloom_task *task = &v->tasks[k];
    const uint32_t first = v->queues[task->queue].first_entry;
    uint32_t slices = 0u, starts = 0u;
    e = w->first_entry[k];
    if (e == HEXLOOM_NONE) return hexloom_say("a task has no entry", k);
    if (e < first || e - first >= v->queues[task->queue].entry_count)
      return hexloom_say("a task does not name the queue it stands in first", k);
    for (e = w->first_entry[k]; e != HEXLOOM_NONE; e = w->next_entry[e]) {
      if (v->entries[e].action == HEXLOOM_START) {
        starts++;
      } else if (v->entries[e].action == (task->kind == HEXLOOM_DMA ? HEXLOOM_WAIT : HEXLOOM_RUN)) {
        if (task->kind == HEXLOOM_DMA && (starts == 0u || e - first >= v->queues[task->queue].entry_count))
          return hexloom_say("a transfer is awaited before it is started, or by another queue", k);
        if (v->entries[e].slice != slices) return hexloom_say("the slices of a task are not counted up", k);
        slices++;
      } else {
        return hexloom_say("an entry does not fit the kind of its task", e);
      }
    }
    if (slices == 0u || slices != task->slice_count) return hexloom_say("a task has another number of entries", k);
    if (starts != (task->kind == HEXLOOM_DMA ? slices : 0u))
      return hexloom_say("a transfer is not started and awaited once, or another task is", k);
    if (task->kind == HEXLOOM_DMA && slices != 1u) return hexloom_say("a transfer has more than one owner", k);
  }
  return hexloom_say(NULL, 0u);
}

static uint32_t *hexloom_set(const hexloom_walk *w, uint32_t entry) {
  return w->before + (size_t)entry * w->words_per_set;
}

static void hexloom_include(const hexloom_walk *w, uint32_t into, uint32_t from, int with_itself) {
  uint32_t *a = hexloom_set(w, into);
  const uint32_t *b = hexloom_set(w, from);
  uint32_t k;
  for (k = 0; k < w->words_per_set; k++) a[k] |= b[k];
  if (with_itself) a[from / 32u] |= (uint32_t)1u << (from % 32u);
}

/* Whether the waits of a task are over. */
static int hexloom_may_begin(const hexloom_walk *w, uint32_t t) {
  const hexloom_task *task = &w->view->tasks[t];
  uint32_t k;
  for (k = 0; k < task->wait_count; k++) {
    const hexloom_wait *wait = &w->view->waits[task->first_wait + k];
    if (w->counters[wait->event] < wait->threshold) return 0;
  }
  return 1;
}

/* Note what is surely over when an entry begins. */
static void hexloom_begin(const hexloom_walk *w, uint32_t queue, uint32_t entry) {
  const hexloom_view *v = w->view;
  const hexloom_task *task = &v->tasks[v->entries[entry].task];
  uint32_t k, t, e;
  if (w->words_per_set == 0u) return;
  if (w->at[queue] > 0u) {
    const hexloom_entry *last = &v->entries[entry - 1u];
    const int late = (v->tasks[last->task].flags & HEXLOOM_TASK_ASYNC) != 0u;
    hexloom_include(w, entry, entry - 1u, last->action != HEXLOOM_START && !late);
  }
  if (v->entries[entry].action == HEXLOOM_WAIT) return;
  for (k = 0; k < task->wait_count; k++) {
    const hexloom_wait *wait = &v->waits[task->first_wait + k];
    if (wait->threshold != v->events[wait->event].triggers) continue; /* says nothing about a certain producer */
    for (t = w->first_task[wait->event]; t != HEXLOOM_NONE; t = w->next_task[t])
      for (e = w->first_entry[t]; e != HEXLOOM_NONE; e = w->next_entry[e])
        if (v->entries[e].action != HEXLOOM_START) hexloom_include(w, entry, e, 1);
  }
}

/* Step all queues until none can go on. Counters only grow, so one run that ends proves that every run does. A task
 * of several slices begins when all its queues have come to it: if that ends, so does a run without meetings. */
static hexloom_verdict hexloom_check_run(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t q, left = h->entry_count;
  int moved = 1;
  while (left > 0u && moved) {
    moved = 0;
    for (q = 0; q < h->queue_count; q++) {
      while (w->at[q] < v->queues[q].entry_count) {
        const uint32_t e = v->queues[q].first_entry + w->at[q];
        const uint32_t t = v->entries[e].task;
        const hexloom_task *task = &v->tasks[t];
        uint32_t other;
        if (v->entries[e].action == HEXLOOM_RUN) {
          /* the queue that completes the meeting lets all of them go on */
          uint32_t standing = 0u;
          for (other = 0; other < h->queue_count; other++)
            if (w->at[other] < v->queues[other].entry_count) {
              const hexloom_entry *head = &v->entries[v->queues[other].first_entry + w->at[other]];
              if (head->task == t && head->action == HEXLOOM_RUN) standing++;
            }
          if (w->begun[t] == 0u && (standing != task->slice_count || !hexloom_may_begin(w, t))) break;
        } else if (v->entries[e].action == HEXLOOM_START) {
          if (!hexloom_may_begin(w, t)) break;
        }
        hexloom_begin(w, q, e);
        w->begun[t]++;
        if (v->entries[e].action != HEXLOOM_START && task->trigger_event != HEXLOOM_NONE)
          w->counters[task->trigger_event]++;
        w->at[q]++;
        left--;
        moved = 1;
      }
    }
  }
  for (q = 0; q < h->queue_count; q++)
    if (w->at[q] < v->queues[q].entry_count) return hexloom_say("a queue never comes to its end", q);
  return hexloom_say(NULL, 0u);
}

/* Whether all of task `a` is over when any of task `b` begins. */
static int hexloom_is_before(const hexloom_walk *w, uint32_t a, uint32_t b) {
  const hexloom_entry *entries = w->view->entries;
  uint32_t x, y;
  for (y = w->first_entry[b]; y != HEXLOOM_NONE; y = w->next_entry[y]) {
    const uint32_t *before = hexloom_set(w, y);
    if (entries[y].action == HEXLOOM_WAIT) continue;
    for (x = w->first_entry[a]; x != HEXLOOM_NONE; x = w->next_entry[x])
      if (entries[x].action != HEXLOOM_START && ((before[x / 32u] >> (x % 32u)) & 1u) == 0u) return 0;
  }
  return 1;
}

static int hexloom_all_before(const hexloom_walk *w, uint32_t one, uint32_t other) {
  const hexloom_buffer *a = &w->view->buffers[one];
  const hexloom_buffer *b = &w->view->buffers[other];
  const int over = (b->flags & HEXLOOM_BUFFER_OVERWRITES) != 0u && a->offset == b->offset && b->bytes <= a->bytes;
  uint32_t x, y;
  for (x = w->first_use[one]; x != HEXLOOM_NONE; x = w->next_use[x])
    for (y = w->first_use[other]; y != HEXLOOM_NONE; y = w->next_use[y])
      if (!(over && w->user[x] == w->user[y]) && !hexloom_is_before(w, w->user[x], w->user[y])) return 0;
  return 1;
}

/* Whether buffer `one` is over before buffer `other` begins. */
static int hexloom_hands_over(const hexloom_walk *w, uint32_t one, uint32_t other) {
  const hexloom_buffer *buffers = w->view->buffers;
  if ((buffers[one].flags & HEXLOOM_BUFFER_TO_END) != 0u) return 0;
  if ((buffers[other].flags & HEXLOOM_BUFFER_FROM_START) != 0u) return 0;
  return hexloom_all_before(w, one, other);
}

static hexloom_verdict hexloom_check_overlaps(const hexloom_walk *w) {
  const hexloom_view *v = w->view;
  uint32_t i, k;
  for (i = 0; i < v->header->buffer_count; i++)
    for (k = i + 1u; k < v->header->buffer_count; k++) {
      const hexloom_buffer *a = &v->buffers[i];
      const hexloom_buffer *b = &v->buffers[k];
      if (a->binding != b->binding || a->offset >= b->offset + b->bytes || b->offset >= a->offset + a->bytes) continue;
      if (a->bytes == 0u || b->bytes == 0u) continue;
      if (((a->flags | b->flags) & HEXLOOM_BUFFER_IN_PARTS) != 0u) continue; /* its parts are looked at */
      if (((a->flags | b->flags) & HEXLOOM_BUFFER_RESIDENT) != 0u) {
        const int idle_a = w->first_use[i] == HEXLOOM_NONE && (a->flags & HEXLOOM_BUFFER_RESIDENT) == 0u;
        const int idle_b = w->first_use[k] == HEXLOOM_NONE && (b->flags & HEXLOOM_BUFFER_RESIDENT) == 0u;
        if (idle_a || idle_b) continue;
        return hexloom_say("a buffer lies on a resident one", (b->flags & HEXLOOM_BUFFER_RESIDENT) ? i : k);
      }
      if (!hexloom_hands_over(w, i, k) && !hexloom_hands_over(w, k, i))
        return hexloom_say("two buffers share addresses and may be alive together; the first is", i);
    }
  return hexloom_say(NULL, 0u);
}

/* Whether every buffer in parts is covered by the parts behind it, of which each is used with it. */
static hexloom_verdict hexloom_check_parts(const hexloom_walk *w) {
  const hexloom_view *v = w->view;
  uint32_t i, k, x, y;
  for (i = 0; i < v->header->buffer_count; i++) {
    const hexloom_buffer *whole = &v->buffers[i];
    uint64_t at = whole->offset;
    if ((whole->flags & HEXLOOM_BUFFER_IN_PARTS) == 0u) continue;
    for (k = i + 1u; k < v->header->buffer_count; k++) {
      const hexloom_buffer *part = &v->buffers[k];
      if ((part->flags & HEXLOOM_BUFFER_PART) == 0u) break;
      if (part->offset != at || part->binding != whole->binding) return hexloom_say("a part lies elsewhere", k);
      at += part->bytes;
    }
    if (at != whole->offset + whole->bytes) return hexloom_say("the parts of a buffer do not cover it", i);
    for (x = w->first_use[i]; x != HEXLOOM_NONE; x = w->next_use[x]) {
      uint32_t used = 0u, p;
      for (p = i + 1u; p < k; p++)
        for (y = w->first_use[p]; y != HEXLOOM_NONE; y = w->next_use[y]) used += w->user[x] == w->user[y];
      if (used == 0u) return hexloom_say("a task uses a buffer, but none of its parts", w->user[x]);
    }
  }
  return hexloom_say(NULL, 0u);
}

static hexloom_verdict hexloom_test(const hexloom_view *view, uint32_t *memory, int thoroughly) {
  hexloom_walk walk;
  hexloom_verdict verdict = hexloom_check_header(view->header);
  if (verdict.problem != NULL) return verdict;
  if (hexloom_checksum(view) != view->header->crc32) return hexloom_say("the checksum does not fit the tables", 0u);
  hexloom_prepare(&walk, view, memory, thoroughly);
  verdict = hexloom_check_memory(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_tasks(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_queues(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_run(&walk);
  if (!thoroughly) return verdict;
  if (verdict.problem == NULL) verdict = hexloom_check_parts(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_overlaps(&walk);
  return verdict;
}

/* Return what is wrong with the tables first. `memory` has hexloom_selftest_words() words. */
static hexloom_verdict hexloom_selftest(const hexloom_view *view, uint32_t *memory) {
  return hexloom_test(view, memory, 1);
}

#endif /* HEXLOOM_SELFTEST_H */
