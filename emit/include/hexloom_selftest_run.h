/* SPDX-License-Identifier: Apache-2.0
 *
 * Of the self test: one run in which all queues come to their end, and what is over when each entry begins.
 */
#ifndef HEXLOOM_SELFTEST_RUN_H
#define HEXLOOM_SELFTEST_RUN_H

#include "hexloom_selftest_tasks.h"

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

#endif /* HEXLOOM_SELFTEST_RUN_H */
