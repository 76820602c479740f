/* SPDX-License-Identifier: Apache-2.0
 *
 * Proves on any machine that tables are whole and safe: ranges, checksum, an order in which all queues come to their
 * end, and that buffers at the same addresses are never alive together, however long anything takes. C99 that is
 * also C++11; needs no library. Include it in one file.
 *
 * Of tables with loops it proves the first three, for every number of laps; what buffers share there is proven where
 * the tables are made (`hexloom check`, and the writer of tables).
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
  uint32_t *per_lap;      /* per event: what one lap of its loop triggers */
  uint32_t *by_queue;     /* per event: the queue that triggers it in laps */
  uint32_t *under_way;    /* per slot: transfers begun and not seen done, of those that are noted from here on */
  uint32_t *noted;        /* per slot: a task whose transfers are noted there */
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
  crc = hexloom_crc_add(crc, view->events, sizeof(hexloom_event) * header.event_count);
  crc = hexloom_crc_add(crc, view->queues, sizeof(hexloom_queue) * header.queue_count);
  crc = hexloom_crc_add(crc, view->entries, sizeof(hexloom_entry) * header.entry_count);
  crc = hexloom_crc_add(crc, view->buffers, sizeof(hexloom_buffer) * header.buffer_count);
  crc = hexloom_crc_add(crc, view->bindings, sizeof(hexloom_binding) * header.binding_count);
  crc = hexloom_crc_add(crc, view->loops, sizeof(hexloom_loop) * header.loop_count);
  crc = hexloom_crc_add(crc, view->bodies, sizeof(hexloom_body) * header.body_count);
  crc = hexloom_crc_add(crc, view->parameters, sizeof(hexloom_parameter) * header.parameter_count);
  crc = hexloom_crc_add(crc, view->descriptors, sizeof(hexloom_descriptor) * header.descriptor_count);
  crc = hexloom_crc_add(crc, view->advances, sizeof(hexloom_advance) * header.advance_count);
  return crc ^ 0xFFFFFFFFu;
}

static hexloom_verdict hexloom_check_header(const hexloom_header *h) {
  const uint16_t one = 1u;
  hexloom_header blank = *h;
  if (*(const unsigned char *)&one != 1u) return hexloom_say("the tables are for little-endian machines", 0u);
  if (h->magic != HEXLOOM_MAGIC) return hexloom_say("these are not tables of hexloom", h->magic);
  if (h->abi_major != HEXLOOM_ABI_MAJOR) return hexloom_say("the tables have another ABI", h->abi_major);
  if (h->abi_minor > HEXLOOM_ABI_MINOR) return hexloom_say("the tables are newer than this code", h->abi_minor);
  if (h->header_bytes != sizeof(hexloom_header) || h->task_bytes != sizeof(hexloom_task) ||
      h->operand_bytes != sizeof(hexloom_operand) ||
      h->event_bytes != sizeof(hexloom_event) || h->queue_bytes != sizeof(hexloom_queue) ||
      h->entry_bytes != sizeof(hexloom_entry) || h->buffer_bytes != sizeof(hexloom_buffer) ||
      h->binding_bytes != sizeof(hexloom_binding) || h->loop_bytes != sizeof(hexloom_loop) ||
      h->body_bytes != sizeof(hexloom_body) || h->advance_bytes != sizeof(hexloom_advance) ||
      h->parameter_bytes != sizeof(hexloom_parameter) || h->descriptor_bytes != sizeof(hexloom_descriptor))
    return hexloom_say("the records have other sizes", 0u);
  blank.crc32 = 0u;
  blank.header_crc32 = 0u;
  if ((hexloom_crc_add(0xFFFFFFFFu, &blank, sizeof blank) ^ 0xFFFFFFFFu) != h->header_crc32)
    return hexloom_say("the checksum does not fit the header", 0u);
  if (h->body_count != (uint64_t)h->queue_count * h->loop_count)
    return hexloom_say("there is not one body of every loop for every queue", h->body_count);
  if (h->slot_count > h->entry_count) return hexloom_say("there are more slots than entries", h->slot_count);
  if (h->advance_count != (uint64_t)h->group_count * h->loop_count)
    return hexloom_say("there is not one advance in every loop for every group", h->advance_count);
  return hexloom_say(NULL, 0u);
}

/* Words of scratch memory that the quick test needs; 0 when the header is not one. */
static size_t hexloom_quick_words(const hexloom_header *h) {
  if (hexloom_check_header(h).problem != NULL) return 0u;
  return 1u + (size_t)h->queue_count + 3u * (size_t)h->task_count + 4u * (size_t)h->event_count +
         (size_t)h->entry_count + 2u * (size_t)h->operand_count + (size_t)h->buffer_count + 2u * (size_t)h->slot_count;
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
  w->per_lap = hexloom_cut(&memory, h->event_count, 0u);
  w->by_queue = hexloom_cut(&memory, h->event_count, HEXLOOM_NONE);
  w->under_way = hexloom_cut(&memory, h->slot_count, 0u);
  w->noted = hexloom_cut(&memory, h->slot_count, HEXLOOM_NONE);
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

static hexloom_verdict hexloom_check_buffers(const hexloom_view *v) {
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
  return hexloom_say(NULL, 0u);
}

static hexloom_verdict hexloom_check_memory(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t k, n;
  for (k = 0; k < h->operand_count; k++) {
    const hexloom_operand *o = &v->operands[k];
    if (o->flags == HEXLOOM_OPERAND_RING && h->loop_count > 0u) {
      if (o->buffer == 0u || o->offset > h->operand_count || o->buffer > h->operand_count - o->offset)
        return hexloom_say("an operand has no places", k);
      for (n = 0u; n < o->buffer; n++)
        if (v->operands[o->offset + n].flags != 0u) return hexloom_say("a place of an operand has places", k);
      continue;
    }
    if (o->flags != 0u) return hexloom_say("an operand has unknown flags", k);
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

/* The loop whose tasks, or events, a number is among, or HEXLOOM_NONE. */
static uint32_t hexloom_loop_of_task(const hexloom_view *v, uint32_t task) {
  uint32_t k;
  for (k = 0; k < v->header->loop_count; k++)
    if (task >= v->loops[k].first_task && task - v->loops[k].first_task < v->loops[k].task_count) return k;
  return HEXLOOM_NONE;
}

static uint32_t hexloom_loop_of_event(const hexloom_view *v, uint32_t event) {
  uint32_t k;
  for (k = 0; k < v->header->loop_count; k++)
    if (event >= v->loops[k].first_event && event - v->loops[k].first_event < v->loops[k].event_count) return k;
  return HEXLOOM_NONE;
}

/* The loop in whose body of a queue an entry stands, or HEXLOOM_NONE. */
static uint32_t hexloom_loop_of_entry(const hexloom_view *v, uint32_t queue, uint32_t entry) {
  const uint32_t loops = v->header->loop_count;
  uint32_t k;
  for (k = 0; k < loops; k++) {
    const hexloom_body *body = &v->bodies[queue * loops + k];
    if (entry >= body->first_entry && entry - body->first_entry < body->entry_count) return k;
  }
  return HEXLOOM_NONE;
}

static uint32_t hexloom_trigger_of(const hexloom_view *v, const hexloom_entry *entry) {
  const hexloom_task *task;
  if (entry->action == HEXLOOM_START || entry->action == HEXLOOM_AFTER) return HEXLOOM_NONE;
  task = &v->tasks[entry->task];
  if (task->trigger_event == HEXLOOM_NONE) return HEXLOOM_NONE;
  return task->trigger_event + ((task->flags & HEXLOOM_TASK_APART) != 0u ? entry->slice : 0u);
}

/* The first parameter of a kind that is about something, or HEXLOOM_NONE. */
static uint32_t hexloom_parameter_of(const hexloom_view *v, uint32_t kind, uint32_t where) {
  uint32_t k;
  for (k = 0; k < v->header->parameter_count; k++)
    if (v->parameters[k].kind == kind && v->parameters[k].where == where) return k;
  return HEXLOOM_NONE;
}

static hexloom_verdict hexloom_check_loops(const hexloom_view *v) {
  const hexloom_header *h = v->header;
  uint32_t k, q, tasks = 0u, events = 0u;
  for (k = 0; k < h->parameter_count; k++) {
    const hexloom_parameter *p = &v->parameters[k];
    if (p->kind == HEXLOOM_LAPS ? p->where >= h->loop_count || v->loops[p->where].parameter != k
                                : hexloom_parameter_of(v, p->kind, p->where) != k)
      return hexloom_say("a parameter is that of no loop, or another one is the same", k);
    if (p->kind == HEXLOOM_STRIDE ? p->where >= h->binding_count
                                  : p->kind != HEXLOOM_LAPS && (h->loop_count == 0u || p->where >= h->group_count))
      return hexloom_say("a parameter is about what does not exist", k);
    if (p->kind < HEXLOOM_LAPS || p->kind > HEXLOOM_TAIL_COLUMNS) return hexloom_say("a parameter is of no kind", k);
    if ((p->kind != HEXLOOM_TRIPS && p->least == 0u) || p->step == 0u || p->usual < p->least || p->usual > p->most)
      return hexloom_say("a parameter has no range that holds what is usual", k);
  }
  for (k = 0; k < h->loop_count; k++) {
    const hexloom_loop *loop = &v->loops[k];
    if (loop->parameter >= h->parameter_count || v->parameters[loop->parameter].where != k ||
        v->parameters[loop->parameter].kind != HEXLOOM_LAPS)
      return hexloom_say("a loop names no parameter of its own", k);
    if (loop->first_task < tasks || loop->first_task > h->task_count ||
        loop->task_count > h->task_count - loop->first_task)
      return hexloom_say("the tasks of a loop do not follow those before", k);
    if (loop->first_event < events || loop->first_event > h->event_count ||
        loop->event_count > h->event_count - loop->first_event)
      return hexloom_say("the events of a loop do not follow those before", k);
    tasks = loop->first_task + loop->task_count;
    events = loop->first_event + loop->event_count;
  }
  for (q = 0; q < h->queue_count; q++) {
    const hexloom_queue *queue = &v->queues[q];
    uint32_t at = queue->first_entry;
    for (k = 0; k < h->loop_count; k++) {
      const hexloom_body *body = &v->bodies[q * h->loop_count + k];
      if (body->first_entry < at || body->first_entry - queue->first_entry > queue->entry_count ||
          body->entry_count > queue->entry_count - (body->first_entry - queue->first_entry))
        return hexloom_say("the bodies of a queue do not follow each other", q);
      at = body->first_entry + body->entry_count;
    }
  }
  return hexloom_say(NULL, 0u);
}

/* Whether what a task is in its last iteration can be counted. */
static int hexloom_counts(const hexloom_view *v, const hexloom_task *task) {
  const hexloom_header *h = v->header;
  uint64_t last = task->iteration;
  uint32_t k;
  if (h->loop_count > 0u && task->group >= h->group_count) return 0;
  for (k = 0; k < h->loop_count; k++) {
    const uint64_t more = v->advances[k * h->group_count + task->group].iterations;
    last += more * v->parameters[v->loops[k].parameter].most;
    if (last > 0xFFFFFFFFu) return 0;
  }
  return 1;
}

static hexloom_verdict hexloom_check_slots(hexloom_walk *w, uint32_t t) {
  const hexloom_view *v = w->view;
  const hexloom_task *task = &v->tasks[t];
  uint32_t k;
  if ((task->kind == HEXLOOM_DMA) != (task->slots > 0u))
    return hexloom_say("a transfer has no slots, or another task has", t);
  if (task->slots == 0u) return hexloom_say(NULL, 0u);
  if (task->first_slot >= v->header->slot_count || task->slots > v->header->slot_count - task->first_slot)
    return hexloom_say("a transfer names slots that do not exist", t);
  for (k = task->first_slot; k < task->first_slot + task->slots; k++) {
    const hexloom_task *other = w->noted[k] == HEXLOOM_NONE ? task : &v->tasks[w->noted[k]];
    if (other->first_slot != task->first_slot || other->slots != task->slots || other->queue != task->queue ||
        (v->header->loop_count == 0u && other != task))
      return hexloom_say("transfers share slots that are not the same, or not of one queue", t);
    w->noted[k] = t;
  }
  return hexloom_say(NULL, 0u);
}

/* A parameter of those `given`; NULL: the most it can be. */
static uint32_t hexloom_value(const hexloom_view *v, const uint32_t *given, uint32_t parameter) {
  return given == NULL ? v->parameters[parameter].most : given[parameter];
}

/* How many iterations a task is further in its last lap than before the first one. */
static uint64_t hexloom_iterations_more(const hexloom_view *v, uint32_t t, const uint32_t *given) {
  const uint32_t groups = v->header->group_count;
  uint64_t more = 0u;
  uint32_t k;
  for (k = 0; k < v->header->loop_count; k++) {
    const hexloom_loop *loop = &v->loops[k];
    const uint64_t advance = v->advances[k * groups + v->tasks[t].group].iterations;
    const uint64_t made = hexloom_value(v, given, loop->parameter);
    if (t < loop->first_task) break;
    more += advance * (t - loop->first_task < loop->task_count ? made - 1u : made);
  }
  return more;
}

/* How many iterations of a group the laps make; 2^32 and more cannot be. */
static uint64_t hexloom_iterations_made(const hexloom_view *v, uint32_t group, const uint32_t *given) {
  uint64_t made = 0u;
  uint32_t t;
  for (t = 0; t < v->header->task_count; t++)
    if (v->tasks[t].group == group && (v->tasks[t].flags & HEXLOOM_TASK_REPEATED) != 0u) {
      const uint64_t last = v->tasks[t].iteration + hexloom_iterations_more(v, t, given);
      if (last >= made) made = last + 1u;
    }
  return made;
}

/* How many iterations further the last one of a task is that is not left out; all bits: there is none. */
static uint64_t hexloom_iterations_done(const hexloom_view *v, uint32_t t, const uint32_t *given) {
  const hexloom_task *task = &v->tasks[t];
  const uint64_t more = hexloom_iterations_more(v, t, given);
  uint32_t parameter = HEXLOOM_NONE, trips;
  if ((task->flags & HEXLOOM_TASK_REPEATED) != 0u) parameter = hexloom_parameter_of(v, HEXLOOM_TRIPS, task->group);
  if (parameter == HEXLOOM_NONE) return more;
  trips = hexloom_value(v, given, parameter);
  if (trips <= task->iteration) return UINT64_MAX;
  return more < trips - 1u - task->iteration ? more : trips - 1u - task->iteration;
}

/* The bytes up to the end of what a descriptor says; UINT64_MAX: more than can be counted. */
static uint64_t hexloom_end_of(const hexloom_view *v, const hexloom_descriptor *written, const uint32_t *given,
                               uint64_t further, int is_last) {
  const uint64_t most = UINT64_C(1) << 62;
  const hexloom_descriptor first = hexloom_described(v, written, given, 0u, 0);
  const uint64_t span = (uint64_t)(first.rows - 1u) * first.stride + first.row_bytes; /* below 2^64 */
  hexloom_descriptor d;
  if (span > most || first.offset > most || (first.step > 0u && further > most / first.step)) return UINT64_MAX;
  d = hexloom_described(v, written, given, further, is_last);
  return d.offset + (uint64_t)(d.rows - 1u) * d.stride + d.row_bytes;
}

/* The bytes that a memory must have for a descriptor in all iterations; UINT64_MAX: more than can be counted. */
static uint64_t hexloom_bytes_needed(const hexloom_view *v, uint32_t t, const hexloom_descriptor *d,
                                     const uint32_t *given) {
  const uint64_t done = hexloom_iterations_done(v, t, given);
  uint64_t last, before;
  if (done == UINT64_MAX) return 0u;
  last = hexloom_end_of(v, d, given, done, d->tail_parameter != 0u);
  before = done == 0u || d->tail_parameter == 0u ? 0u : hexloom_end_of(v, d, given, done - 1u, 0);
  return last > before ? last : before;
}

/* What a descriptor takes from parameters is what these are about, and leaves something to move. */
static hexloom_verdict hexloom_check_changes(const hexloom_view *v, uint32_t t, uint32_t number) {
  const hexloom_descriptor *d = &v->descriptors[number];
  const hexloom_parameter *p;
  if (d->stride_parameter != 0u) {
    if (d->stride_parameter > v->header->parameter_count) return hexloom_say("a descriptor has no such stride", number);
    p = &v->parameters[d->stride_parameter - 1u];
    if (p->kind != HEXLOOM_STRIDE || p->where != d->binding || (d->dimensions == 2u && d->stride != p->usual))
      return hexloom_say("a descriptor has no such stride", number);
    if ((d->offset / p->usual) >> 30 != 0u || (d->step / p->usual) >> 30 != 0u)
      return hexloom_say("a descriptor has more rows than can be counted", number);
    if (d->offset % p->usual + d->row_bytes > p->least)
      return hexloom_say("a row of a descriptor is longer than the least stride", number);
  }
  if (d->tail_parameter == 0u) return hexloom_say(NULL, 0u);
  if (d->tail_parameter > v->header->parameter_count || (v->tasks[t].flags & HEXLOOM_TASK_REPEATED) == 0u)
    return hexloom_say("a descriptor has no such tail", number);
  p = &v->parameters[d->tail_parameter - 1u];
  if ((p->kind != HEXLOOM_TAIL_ROWS && p->kind != HEXLOOM_TAIL_COLUMNS) || p->where != v->tasks[t].group ||
      d->tail < HEXLOOM_FEWER_ROWS || d->tail > HEXLOOM_SHORTER_ROWS ||
      (uint64_t)(d->tail == HEXLOOM_FEWER_ROWS ? d->rows : d->row_bytes) * p->least < p->most)
    return hexloom_say("a descriptor has no such tail", number);
  return hexloom_say(NULL, 0u);
}

/* A descriptor stays inside its operand, and without loops inside its binding. */
static hexloom_verdict hexloom_check_descriptor(const hexloom_view *v, uint32_t t, uint32_t number) {
  const hexloom_task *task = &v->tasks[t];
  const hexloom_descriptor *d = &v->descriptors[number];
  const int moves = d->kind == HEXLOOM_TO_OPERAND || d->kind == HEXLOOM_FROM_OPERAND;
  const hexloom_operand *o;
  uint64_t needed, span;
  uint32_t places, n;
  hexloom_verdict verdict;
  if (d->binding >= v->header->binding_count) return hexloom_say("a descriptor names no binding", number);
  if (v->bindings[d->binding].space != HEXLOOM_DDR_MAPPED && v->bindings[d->binding].space != HEXLOOM_DDR_DMA_ONLY)
    return hexloom_say("a descriptor is not of a tensor in DDR", number);
  if (!moves && d->kind != HEXLOOM_CLEAN && d->kind != HEXLOOM_INVALIDATE)
    return hexloom_say("a descriptor is of no kind", number);
  if (moves != (task->kind == HEXLOOM_DMA) || d->kind != v->descriptors[task->first_descriptor].kind)
    return hexloom_say("a descriptor does not fit the kind of its task", number);
  if (d->rows == 0u || d->row_bytes == 0u || d->dimensions < 1u || d->dimensions > 2u)
    return hexloom_say("a descriptor is empty, or has no dimensions", number);
  if (d->dimensions == 1u && d->rows != 1u) return hexloom_say("a descriptor of one dimension has rows", number);
  verdict = hexloom_check_changes(v, t, number);
  if (verdict.problem != NULL) return verdict;
  needed = hexloom_bytes_needed(v, t, d, NULL);
  if (needed == UINT64_MAX || (v->header->parameter_count == 0u && needed > v->bindings[d->binding].bytes))
    return hexloom_say("a descriptor goes beyond its binding", number);
  if (!moves) return hexloom_say(NULL, 0u);
  if (d->operand >= task->operand_count) return hexloom_say("a descriptor names no operand", number);
  span = (uint64_t)(d->rows - 1u) * d->operand_stride + d->row_bytes;
  o = &v->operands[task->first_operand + d->operand];
  places = o->flags == HEXLOOM_OPERAND_RING ? o->buffer : 1u;
  if (o->flags == HEXLOOM_OPERAND_RING) o = &v->operands[o->offset];
  for (n = 0; n < places; n++)
    if (o[n].buffer == HEXLOOM_NONE || v->buffers[o[n].buffer].bytes < d->operand_offset ||
        v->buffers[o[n].buffer].bytes - d->operand_offset < span)
      return hexloom_say("a descriptor goes beyond its operand", number);
  return hexloom_say(NULL, 0u);
}

static hexloom_verdict hexloom_check_tasks(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t t, k, operands = 0u, descriptors = 0u;
  for (t = 0; t < h->task_count; t++) {
    const hexloom_task *task = &v->tasks[t];
    const uint32_t apart = (task->flags & HEXLOOM_TASK_APART) != 0u ? task->slice_count : 1u;
    hexloom_verdict verdict;
    if (task->kind < HEXLOOM_HMX || task->kind > HEXLOOM_OTHER) return hexloom_say("a task is of no kind", t);
    if (task->flags > (HEXLOOM_TASK_ASYNC | HEXLOOM_TASK_APART | HEXLOOM_TASK_REPEATED) ||
        ((task->flags & HEXLOOM_TASK_REPEATED) != 0u &&
         hexloom_parameter_of(v, HEXLOOM_TRIPS, task->group) == HEXLOOM_NONE))
      return hexloom_say("a task has unknown flags, or is repeated as often as nothing says", t);
    if (task->queue >= h->queue_count) return hexloom_say("a task names no queue", t);
    if (task->first_operand != operands || task->operand_count > h->operand_count - operands)
      return hexloom_say("the operands of a task do not follow those before", t);
    if (task->wait_event != HEXLOOM_NONE && task->wait_event >= h->event_count)
      return hexloom_say("a task waits for no event that exists", t);
    if (task->first_descriptor != descriptors || task->descriptor_count > h->descriptor_count - descriptors)
      return hexloom_say("the descriptors of a task do not follow those before", t);
    if (!hexloom_counts(v, task)) return hexloom_say("a task has more iterations than can be counted", t);
    verdict = hexloom_check_slots(w, t);
    if (verdict.problem != NULL) return verdict;
    for (k = 0; k < task->descriptor_count; k++) {
      verdict = hexloom_check_descriptor(v, t, descriptors + k);
      if (verdict.problem != NULL) return verdict;
    }
    for (k = 0; k < task->operand_count; k++) w->user[operands + k] = t;
    operands += task->operand_count;
    descriptors += task->descriptor_count;
    if (task->trigger_event == HEXLOOM_NONE) continue;
    if (apart > h->event_count || task->trigger_event > h->event_count - apart || apart == 0u)
      return hexloom_say("a task triggers no event that exists", t);
    if ((task->flags & HEXLOOM_TASK_ASYNC) != 0u &&
        (apart != 1u || hexloom_loop_of_event(v, task->trigger_event) != HEXLOOM_NONE))
      return hexloom_say("a task of a loop has its result late", t);
    if (apart != 1u || h->loop_count > 0u) continue;
    w->next_task[t] = w->first_task[task->trigger_event];
    w->first_task[task->trigger_event] = t;
  }
  for (k = 0; k < h->parameter_count; k++)
    if (v->parameters[k].kind == HEXLOOM_TRIPS &&
        v->parameters[k].most > hexloom_iterations_made(v, v->parameters[k].where, NULL))
      return hexloom_say("a group may have more iterations than the most laps make", k);
  for (k = operands; k < h->operand_count; k++)
    if (h->loop_count == 0u || v->operands[k].flags != 0u) return hexloom_say("operands belong to no task", k);
  if (descriptors != h->descriptor_count) return hexloom_say("descriptors belong to no task", descriptors);
  return hexloom_say(NULL, 0u);
}

/* Whether an entry waits where it may: for an event, and before a task of the same queue and body that is begun. */
static hexloom_verdict hexloom_check_after(const hexloom_view *v, uint32_t q, uint32_t e) {
  const hexloom_queue *queue = &v->queues[q];
  if (v->entries[e].task >= v->header->event_count) return hexloom_say("an entry waits for no event that exists", e);
  if (e + 1u - queue->first_entry == queue->entry_count || v->entries[e + 1u].action == HEXLOOM_WAIT ||
      hexloom_loop_of_entry(v, q, e) != hexloom_loop_of_entry(v, q, e + 1u))
    return hexloom_say("an entry waits for an event, and nothing that begins follows", e);
  return hexloom_say(NULL, 0u);
}

/* Count the waits for events, and look at their thresholds where no lap changes them. */
static hexloom_verdict hexloom_check_waits(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t q, e, k;
  for (k = 0; k < h->task_count; k++) {
    const hexloom_task *task = &v->tasks[k];
    if (task->wait_event == HEXLOOM_NONE) continue;
    w->counters[task->wait_event]++;
    if (h->loop_count == 0u && task->wait_threshold - 1u >= v->events[task->wait_event].triggers)
      return hexloom_say("a task waits for what is never triggered so often, or for nothing", k);
  }
  for (q = 0; q < h->queue_count; q++)
    for (e = v->queues[q].first_entry; e < v->queues[q].first_entry + v->queues[q].entry_count; e++) {
      const hexloom_entry *entry = &v->entries[e];
      hexloom_verdict verdict;
      if (entry->action != HEXLOOM_AFTER) continue;
      verdict = hexloom_check_after(v, q, e);
      if (verdict.problem != NULL) return verdict;
      w->counters[entry->task]++;
      if (h->loop_count == 0u && hexloom_threshold(entry) - 1u >= v->events[entry->task].triggers)
        return hexloom_say("an entry waits for what is never triggered so often, or for nothing", e);
    }
  for (k = 0; k < h->event_count; k++) {
    if (w->counters[k] != v->events[k].waiters) return hexloom_say("an event has another number of waiters", k);
    w->counters[k] = 0u;
  }
  return hexloom_say(NULL, 0u);
}

/* Count what triggers events: outside of laps as often as they say, and in laps those of the loop by one queue each,
 * so that a count says whose turn it was. */
static hexloom_verdict hexloom_check_events(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t q, e, k;
  for (q = 0; q < h->queue_count; q++)
    for (e = v->queues[q].first_entry; e < v->queues[q].first_entry + v->queues[q].entry_count; e++) {
      const uint32_t event = hexloom_trigger_of(v, &v->entries[e]);
      const uint32_t loop = h->loop_count == 0u ? HEXLOOM_NONE : hexloom_loop_of_entry(v, q, e);
      if (event == HEXLOOM_NONE) continue;
      if (h->loop_count > 0u) {
        const uint32_t own = hexloom_loop_of_event(v, event);
        if (loop != HEXLOOM_NONE && loop != own) return hexloom_say("a lap triggers an event of no or another loop", e);
        if (own != HEXLOOM_NONE && w->by_queue[event] != HEXLOOM_NONE && w->by_queue[event] != q)
          return hexloom_say("two queues trigger an event of a loop", event);
        w->by_queue[event] = q;
      }
      if (loop == HEXLOOM_NONE)
        w->counters[event]++;
      else
        w->per_lap[event]++;
    }
  for (k = 0; k < h->event_count; k++) {
    const uint32_t loop = hexloom_loop_of_event(v, k);
    uint64_t most = v->events[k].triggers;
    if (w->counters[k] != v->events[k].triggers) return hexloom_say("an event is triggered another number of times", k);
    if (loop != HEXLOOM_NONE) most += (uint64_t)w->per_lap[k] * v->parameters[v->loops[loop].parameter].most;
    if (most >= 0x80000000u) return hexloom_say("an event is triggered more often than can be counted", k);
    w->counters[k] = 0u;
  }
  return hexloom_say(NULL, 0u);
}

/* Whether the entries of a transfer are those of its owner, and without loops one start, then one wait. */
static hexloom_verdict hexloom_check_transfer(const hexloom_walk *w, uint32_t t) {
  const hexloom_view *v = w->view;
  const hexloom_queue *owner = &v->queues[v->tasks[t].queue];
  uint32_t e, starts = 0u, ends = 0u;
  for (e = w->first_entry[t]; e != HEXLOOM_NONE; e = w->next_entry[e]) {
    const hexloom_entry *entry = &v->entries[e];
    if (entry->action != HEXLOOM_START && entry->action != HEXLOOM_WAIT)
      return hexloom_say("an entry does not fit the kind of its task", e);
    if (e < owner->first_entry || e - owner->first_entry >= owner->entry_count || (entry->action == HEXLOOM_WAIT &&
        v->header->loop_count == 0u && starts == 0u))
      return hexloom_say("a transfer is awaited before it is started, or by another queue", t);
    if (entry->slice != 0u) return hexloom_say("the slices of a task are not counted up", t);
    if (entry->action == HEXLOOM_START && v->header->loop_count > 0u &&
        hexloom_loop_of_entry(v, v->tasks[t].queue, e) != hexloom_loop_of_task(v, t))
      return hexloom_say("an entry of a loop is not that of a task of it", e);
    starts += entry->action == HEXLOOM_START;
    ends += entry->action == HEXLOOM_WAIT;
  }
  if (v->tasks[t].slice_count != 1u) return hexloom_say("a transfer has more than one owner", t);
  if (starts > 1u || (v->header->loop_count == 0u && (starts != 1u || ends != 1u)))
    return hexloom_say("a transfer is not started and awaited once", t);
  return hexloom_say(NULL, 0u);
}

static hexloom_verdict hexloom_check_slices(const hexloom_walk *w, uint32_t t) {
  const hexloom_view *v = w->view;
  const uint32_t loop = hexloom_loop_of_task(v, t);
  uint32_t e, q = 0u, slices = 0u;
  for (e = w->first_entry[t]; e != HEXLOOM_NONE; e = w->next_entry[e]) {
    if (v->entries[e].action != HEXLOOM_RUN) return hexloom_say("an entry does not fit the kind of its task", e);
    if (v->entries[e].slice != slices) return hexloom_say("the slices of a task are not counted up", t);
    slices++;
    if (v->header->loop_count == 0u) continue;
    while (e - v->queues[q].first_entry >= v->queues[q].entry_count) q++;
    if (hexloom_loop_of_entry(v, q, e) != loop) return hexloom_say("an entry of a loop is not that of a task of it", e);
    if (loop != HEXLOOM_NONE && (v->tasks[t].flags & HEXLOOM_TASK_ASYNC) != 0u)
      return hexloom_say("a task of a loop has its result late", t);
  }
  if (slices == 0u || slices != v->tasks[t].slice_count)
    return hexloom_say("a task has another number of entries", t);
  return hexloom_say(NULL, 0u);
}

static hexloom_verdict hexloom_check_queues(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t q, k, next = 0u;
  for (q = 0; q < h->queue_count; q++) {
    if (v->queues[q].first_entry != next || v->queues[q].entry_count > h->entry_count - next)
      return hexloom_say("the entries of a queue do not follow those before", q);
    next += v->queues[q].entry_count;
  }
  if (next != h->entry_count) return hexloom_say("entries belong to no queue", next);
  for (k = h->entry_count; k-- > 0u;) {
    const hexloom_entry *entry = &v->entries[k];
    if (entry->action == HEXLOOM_AFTER) continue; /* it names an event */
    if (entry->task >= h->task_count) return hexloom_say("an entry names no task", k);
    w->next_entry[k] = w->first_entry[entry->task];
    w->first_entry[entry->task] = k;
  }
  return hexloom_check_loops(v);
}

static hexloom_verdict hexloom_check_entries(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  uint32_t k, e;
  for (k = 0; k < v->header->task_count; k++) {
    const hexloom_task *task = &v->tasks[k];
    const uint32_t first = v->queues[task->queue].first_entry;
    hexloom_verdict verdict;
    e = w->first_entry[k];
    if (e == HEXLOOM_NONE) return hexloom_say("a task has no entry", k);
    if (e < first || e - first >= v->queues[task->queue].entry_count)
      return hexloom_say("a task does not name the queue it stands in first", k);
    verdict = task->kind == HEXLOOM_DMA ? hexloom_check_transfer(w, k) : hexloom_check_slices(w, k);
    if (verdict.problem != NULL) return verdict;
  }
  return hexloom_check_events(w);
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

/* How often a queue that stands at `at` has made a loop in this run, in which every loop is made once. */
static uint32_t hexloom_laps_at(const hexloom_view *v, uint32_t queue, uint32_t at, uint32_t loop) {
  const hexloom_body *body = &v->bodies[queue * v->header->loop_count + loop];
  return at >= body->first_entry - v->queues[queue].first_entry + body->entry_count;
}

/* Whether all queues have come to the loops that a queue is in or behind, and to the end of those that it is behind. */
static int hexloom_in_step(const hexloom_walk *w, uint32_t queue) {
  const hexloom_view *v = w->view;
  const uint32_t loops = v->header->loop_count;
  uint32_t k, q;
  for (k = 0; k < loops; k++) {
    const hexloom_body *mine = &v->bodies[queue * loops + k];
    const uint32_t behind = hexloom_laps_at(v, queue, w->at[queue], k);
    if (!behind && w->at[queue] < mine->first_entry - v->queues[queue].first_entry) continue;
    for (q = 0; q < v->header->queue_count; q++) {
      const hexloom_body *body = &v->bodies[q * loops + k];
      if (w->at[q] < body->first_entry - v->queues[q].first_entry) return 0;
      if (behind && !hexloom_laps_at(v, q, w->at[q], k)) return 0;
    }
  }
  return 1;
}

/* What an entry waits for itself: 1 with the event and its threshold, or 0. */
static int hexloom_wait_of(const hexloom_view *v, const hexloom_entry *entry, uint32_t *event, uint32_t *threshold) {
  const hexloom_task *task;
  if (entry->action == HEXLOOM_AFTER) {
    *event = entry->task;
    *threshold = hexloom_threshold(entry);
    return 1;
  }
  task = &v->tasks[entry->task];
  *event = task->wait_event;
  *threshold = task->wait_threshold;
  return entry->action != HEXLOOM_WAIT && task->wait_event != HEXLOOM_NONE;
}

/* Whether what an entry waits for is there for a queue that has come to it; -1: it never can be. */
static int hexloom_may_begin(const hexloom_walk *w, uint32_t queue, const hexloom_entry *entry) {
  const hexloom_view *v = w->view;
  uint32_t event, threshold, loop;
  if (!hexloom_wait_of(v, entry, &event, &threshold)) return 1;
  loop = v->header->loop_count == 0u ? HEXLOOM_NONE : hexloom_loop_of_event(v, event);
  if (loop != HEXLOOM_NONE && hexloom_laps_at(v, queue, w->at[queue], loop)) threshold += w->per_lap[event];
  if (threshold == 0u || threshold > v->events[event].triggers + w->per_lap[event]) return -1;
  return w->counters[event] >= threshold;
}

/* Note what is surely over when an entry begins. */
static void hexloom_begin(const hexloom_walk *w, uint32_t queue, uint32_t entry) {
  const hexloom_view *v = w->view;
  uint32_t event, threshold, t, e;
  if (w->words_per_set == 0u) return;
  if (w->at[queue] > 0u) {
    const hexloom_entry *last = &v->entries[entry - 1u];
    const int late = last->action != HEXLOOM_AFTER && (v->tasks[last->task].flags & HEXLOOM_TASK_ASYNC) != 0u;
    hexloom_include(w, entry, entry - 1u, last->action != HEXLOOM_START && !late);
  }
  if (!hexloom_wait_of(v, &v->entries[entry], &event, &threshold)) return;
  if (threshold != v->events[event].triggers) return; /* says nothing about a certain producer */
  for (t = w->first_task[event]; t != HEXLOOM_NONE; t = w->next_task[t])
    for (e = w->first_entry[t]; e != HEXLOOM_NONE; e = w->next_entry[e])
      if (v->entries[e].action != HEXLOOM_START) hexloom_include(w, entry, e, 1);
}

/* Whether all queues of a task have come to it, with `queue`. */
static int hexloom_all_stand(const hexloom_walk *w, uint32_t t) {
  const hexloom_view *v = w->view;
  uint32_t other, standing = 0u;
  for (other = 0; other < v->header->queue_count; other++)
    if (w->at[other] < v->queues[other].entry_count) {
      const hexloom_entry *head = &v->entries[v->queues[other].first_entry + w->at[other]];
      if (head->action == HEXLOOM_RUN && head->task == t) standing++;
    }
  return standing == v->tasks[t].slice_count;
}

/* Let a queue do its next entry if it may: 1; 0: not yet; -1: never. */
static int hexloom_step_queue(hexloom_walk *w, uint32_t q) {
  const hexloom_view *v = w->view;
  const uint32_t e = v->queues[q].first_entry + w->at[q];
  const hexloom_entry *entry = &v->entries[e];
  const uint32_t event = hexloom_trigger_of(v, entry);
  if (!hexloom_in_step(w, q)) return 0;
  /* the queue that completes the meeting lets all of them go on */
  if (entry->action != HEXLOOM_RUN || w->begun[entry->task] == 0u) {
    const int may = hexloom_may_begin(w, q, entry);
    if (may <= 0) return may;
    if (entry->action == HEXLOOM_RUN && !hexloom_all_stand(w, entry->task)) return 0;
  }
  if (entry->action == HEXLOOM_START || entry->action == HEXLOOM_WAIT) {
    const hexloom_task *task = &v->tasks[entry->task];
    if (entry->action == HEXLOOM_START && w->under_way[task->first_slot]++ >= task->slots) return -1;
    if (entry->action == HEXLOOM_WAIT && w->under_way[task->first_slot]-- == 0u) return -1;
  }
  hexloom_begin(w, q, e);
  if (entry->action == HEXLOOM_RUN) w->begun[entry->task]++;
  if (event != HEXLOOM_NONE) w->counters[event]++;
  w->at[q]++;
  return 1;
}

/* Whether every body of a queue starts as many transfers of each kind as it awaits. */
static hexloom_verdict hexloom_check_balance(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  uint32_t b, e, k;
  for (b = 0; b <= v->header->body_count; b++) {
    for (k = 0; k < v->header->slot_count; k++)
      if (w->under_way[k] != 0u) return hexloom_say("a transfer is not awaited as often as it is started", k);
    if (b == v->header->body_count) break;
    for (e = v->bodies[b].first_entry; e < v->bodies[b].first_entry + v->bodies[b].entry_count; e++) {
      if (v->entries[e].action == HEXLOOM_START) w->under_way[v->tasks[v->entries[e].task].first_slot]++;
      if (v->entries[e].action == HEXLOOM_WAIT) w->under_way[v->tasks[v->entries[e].task].first_slot]--;
    }
  }
  return hexloom_say(NULL, 0u);
}

/* Step all queues until none can go on. Counters only grow, so one run that ends proves that every run does. A task
 * of several slices begins when all its queues have come to it: if that ends, so does a run without meetings.
 *
 * Loops are made once, by all queues together: none is in a loop before all have come to it, and none behind it before
 * all have made it. If that ends, so does a run with any number of laps: made lap by lap, all counters that a lap waits
 * for are ahead of its thresholds by as much as they were in the first one, for what a lap triggers is what thresholds
 * grow by, and what is triggered elsewhere only adds to it. Behind a loop it is the same. */
static hexloom_verdict hexloom_check_run(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t q, left = h->entry_count;
  int moved = 1;
  while (left > 0u && moved) {
    moved = 0;
    for (q = 0; q < h->queue_count; q++) {
      int answer = 0;
      while (w->at[q] < v->queues[q].entry_count && (answer = hexloom_step_queue(w, q)) > 0) {
        left--;
        moved = 1;
      }
      if (answer < 0) return hexloom_say("a queue waits for what never is, or has more transfers than slots", q);
    }
  }
  for (q = 0; q < h->queue_count; q++)
    if (w->at[q] < v->queues[q].entry_count) return hexloom_say("a queue never comes to its end", q);
  return hexloom_check_balance(w);
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
  const int with_sets = thoroughly && view->header->loop_count == 0u;
  hexloom_verdict verdict = hexloom_check_header(view->header);
  if (verdict.problem != NULL) return verdict;
  if (hexloom_checksum(view) != view->header->crc32) return hexloom_say("the checksum does not fit the tables", 0u);
  hexloom_prepare(&walk, view, memory, with_sets);
  verdict = hexloom_check_buffers(view);
  if (verdict.problem == NULL) verdict = hexloom_check_memory(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_queues(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_tasks(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_entries(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_waits(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_run(&walk);
  if (!with_sets) return verdict;
  if (verdict.problem == NULL) verdict = hexloom_check_parts(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_overlaps(&walk);
  return verdict;
}

/* Return what is wrong with the tables first. `memory` has hexloom_selftest_words() words. */
static hexloom_verdict hexloom_selftest(const hexloom_view *view, uint32_t *memory) {
  return hexloom_test(view, memory, 1);
}

#endif /* HEXLOOM_SELFTEST_H */
