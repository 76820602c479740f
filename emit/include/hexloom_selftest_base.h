/* SPDX-License-Identifier: Apache-2.0
 *
 * Of the self test: what it says, the memory it needs, checksums, and who is asked about a loop or a parameter.
 */
#ifndef HEXLOOM_SELFTEST_BASE_H
#define HEXLOOM_SELFTEST_BASE_H

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

#endif /* HEXLOOM_SELFTEST_BASE_H */
