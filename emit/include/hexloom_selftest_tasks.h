/* SPDX-License-Identifier: Apache-2.0
 *
 * Of the self test: loops, tasks, waits, events and entries name what exists, and as often as they say.
 */
#ifndef HEXLOOM_SELFTEST_TASKS_H
#define HEXLOOM_SELFTEST_TASKS_H

#include "hexloom_selftest_memory.h"

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

/* Whether an event comes to a threshold that is one; where laps change both, the run says. */
static int hexloom_is_reached(const hexloom_view *v, uint32_t event, uint32_t threshold) {
  return v->header->loop_count > 0u || (threshold > 0u && threshold <= v->events[event].triggers);
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
    if (task->wait_event != HEXLOOM_NONE) {
      if (!hexloom_is_reached(v, task->wait_event, task->wait_threshold))
        return hexloom_say("a task waits for what is never triggered so often, or for nothing", t);
      w->counters[task->wait_event]++;
    }
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

/* Count the waits of entries to those of tasks. */
static hexloom_verdict hexloom_check_waits(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t q, e, k;
  for (q = 0; q < h->queue_count; q++)
    for (e = v->queues[q].first_entry; e < v->queues[q].first_entry + v->queues[q].entry_count; e++) {
      const hexloom_entry *entry = &v->entries[e];
      hexloom_verdict verdict;
      if (entry->action != HEXLOOM_AFTER) continue;
      verdict = hexloom_check_after(v, q, e);
      if (verdict.problem != NULL) return verdict;
      if (!hexloom_is_reached(v, entry->task, hexloom_threshold(entry)))
        return hexloom_say("an entry waits for what is never triggered so often, or for nothing", e);
      w->counters[entry->task]++;
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

#endif /* HEXLOOM_SELFTEST_TASKS_H */
