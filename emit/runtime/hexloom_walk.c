/* SPDX-License-Identifier: Apache-2.0
 *
 * What the thread of a queue does: wait, call kernels, see its transfers done, trigger.
 */
#include "hexloom_run.h"

/* --- waiting ----------------------------------------------------------------------------------------------- */

/* Wait for an event until it has reached the threshold; 0 when the worker must stop. */
static int wait_for_event(worker *w, const hexloom_entry *entry, uint32_t event, uint32_t threshold) {
  hexloom_run *run = w->run;
  line *l = &run->events[event];
  const uint32_t grown = l->loop == HEXLOOM_NONE ? 0u : l->step * w->laps[l->loop];
  const uint32_t expected = run->executed * l->total + threshold + grown;
  enum outcome outcome;
  hexloom_status status;
  if (reached(l, expected)) return 1;
  atomic_store_explicit(&w->waits, 1u, memory_order_relaxed);
  outcome = hexloom_await(run, l, expected);
  atomic_store_explicit(&w->waits, 0u, memory_order_relaxed);
  if (outcome == REACHED) return 1;
  if (outcome == STOPPED) return 0;
  status = clean(HEXLOOM_TIMEOUT);
  status.task = task_at(&run->setup.view, (uint32_t)(entry - run->setup.view.entries));
  status.queue = w->queue;
  status.event = event;
  status.seen = atomic_load_explicit(&l->count, memory_order_relaxed);
  status.expected = expected;
  hexloom_fail(run, &status);
  return 0;
}

/* --- transfers --------------------------------------------------------------------------------------------- */

/* See parts of a transfer done, as long as the oldest one is. Returns what the port said of the one that is not. */
static int see_done(const hexloom_run *run, uint32_t queue, slot *mine) {
  const hexloom_port *p = run->setup.port;
  while (mine->tickets > 0u) {
    const int answer = p->dma_done(p->context, queue, mine->first_ticket);
    if (answer != 1) return answer;
    mine->first_ticket++;
    mine->tickets--;
  }
  return 1;
}

int hexloom_push(const hexloom_call *call, const hexloom_transfer *transfer) {
  hexloom_run *run = call->run;
  const hexloom_port *p = run->setup.port;
  /* it was counted when it was started */
  slot *mine = slot_of(run, call->task, run->slots[call->task->first_slot].started - 1u);
  uint64_t limit = 0u;
  uint32_t ticket = 0u, round;
  int answer;
  for (round = 0u;; round++) {
    answer = p->dma_push(p->context, call->queue, transfer, &ticket);
    if (answer != HEXLOOM_RING_FULL || stopped(run)) break;
    if (limit == 0u) limit = p->now_ns(p->context) + run->timeout_ns;
    if (p->now_ns(p->context) >= limit) break;
    p->relax(p->context, round);
  }
  if (answer != 0) {
    hexloom_fail_at(worker_of(run, call->queue), answer == HEXLOOM_RING_FULL ? HEXLOOM_TIMEOUT : HEXLOOM_DMA_ERROR,
            call->task_index, answer);
    return answer;
  }
  if (mine->tickets == 0u) mine->first_ticket = ticket;
  mine->tickets++;
  return 0;
}

/* Wait until all parts of a transfer are done, in any order; 0 when the worker must stop. */
static int wait_for_transfer(const worker *w, uint32_t task, slot *mine) {
  hexloom_run *run = w->run;
  const hexloom_port *p = run->setup.port;
  uint64_t limit = 0u;
  uint32_t round = 0u;
  for (;;) {
    const int answer = see_done(run, w->queue, mine);
    if (answer == 1) return 1;
    if (answer != 0) {
      hexloom_fail_at(w, HEXLOOM_DMA_ERROR, task, answer);
      return 0;
    }
    if (stopped(run)) return 0;
    if (limit == 0u) limit = p->now_ns(p->context) + run->timeout_ns;
    if (p->now_ns(p->context) >= limit) {
      hexloom_fail_at(w, HEXLOOM_TIMEOUT, task, 0);
      return 0;
    }
    p->relax(p->context, round++);
  }
}

/* --- late tasks -------------------------------------------------------------------------------------------- */

void hexloom_finish(hexloom_run *run, uint32_t task) {
  const uint32_t event = run->setup.view.tasks[task].trigger_event;
  if (event != HEXLOOM_NONE) trigger(run, &run->events[event]);
  (void)atomic_fetch_add_explicit(&run->finished[task], 1u, memory_order_release);
  trigger(run, &run->late);
}

int hexloom_stopped(const hexloom_run *run) { return stopped(run); }

/* --- walking ----------------------------------------------------------------------------------------------- */

static void note(worker *w, uint32_t task, uint32_t serial, uint16_t slice, uint16_t phase, uint64_t start,
                 uint64_t end) {
  hexloom_record *record;
  if (w->trace.count >= w->trace.capacity) {
    w->trace.dropped++;
    return;
  }
  record = &w->records[w->trace.count++];
  record->start_ns = start;
  record->end_ns = end;
  record->task = task;
  record->phase = phase;
  record->slice = slice;
  record->executed = w->run->executed;
  record->serial = serial;
}

/* The number that a task would have if all laps were written out. */
static uint32_t serial_of(const worker *w, uint32_t t) {
  const hexloom_view *v = &w->run->setup.view;
  uint32_t serial = t, k;
  for (k = 0u; k < v->header->loop_count; k++) {
    const uint32_t behind = t >= v->loops[k].first_task + v->loops[k].task_count;
    serial += v->loops[k].task_count * (w->laps[k] - behind);
  }
  return serial;
}

static uint32_t iteration_of(const worker *w, const hexloom_task *task) {
  const hexloom_view *v = &w->run->setup.view;
  uint32_t iteration = task->iteration, k;
  for (k = 0u; k < v->header->loop_count; k++)
    iteration += v->advances[k * v->header->group_count + task->group].iterations * w->laps[k];
  return iteration;
}

/* Whether a task has nothing to do in this iteration. */
static int is_left_out(const worker *w, const hexloom_task *task) {
  return (task->flags & HEXLOOM_TASK_REPEATED) != 0u && iteration_of(w, task) >= w->run->trips[task->group];
}

/* Whether this is the last iteration of the group that has something to do. */
static int is_last(const hexloom_call *call) {
  return (call->task->flags & HEXLOOM_TASK_REPEATED) != 0u && call->iteration + 1u == call->trips;
}

static hexloom_call call_of(const worker *w, uint32_t t, uint16_t slice) {
  hexloom_run *run = w->run;
  hexloom_call call;
  call.run = run;
  call.view = &run->setup.view;
  call.task = &call.view->tasks[t];
  call.operands = call.view->operands + call.task->first_operand;
  call.memories = run->setup.memories;
  call.user = NULL;
  call.task_index = t;
  call.queue = w->queue;
  call.slice = slice;
  call.executed = run->executed;
  call.iteration = iteration_of(w, call.task);
  call.trips = (call.task->flags & HEXLOOM_TASK_REPEATED) != 0u ? run->trips[call.task->group] : HEXLOOM_NONE;
  call.tile = call.task->tile + call.task->tile_step * (call.iteration - call.task->iteration);
  call.serial = serial_of(w, t);
  return call;
}

uint32_t hexloom_tail(const hexloom_call *call, uint32_t kind) {
  const hexloom_view *v = call->view;
  uint32_t k;
  for (k = 0u; k < v->header->parameter_count; k++)
    if (v->parameters[k].kind == kind && v->parameters[k].where == call->task->group)
      return is_last(call) ? call->run->values[k] : v->parameters[k].most;
  return HEXLOOM_NONE;
}

/* What a descriptor of a task says in this iteration. */
static hexloom_descriptor described(const hexloom_call *call, uint32_t number) {
  const hexloom_descriptor *written = &call->view->descriptors[call->task->first_descriptor + number];
  return hexloom_described(call->view, written, call->run->values, call->iteration - call->task->iteration,
                           is_last(call));
}

/* Push what the descriptors of a transfer say. */
static int push_descriptors(const hexloom_call *call) {
  uint32_t k;
  int answer = 0;
  for (k = 0u; k < call->task->descriptor_count && answer == 0; k++) {
    const hexloom_descriptor d = described(call, k);
    unsigned char *far_end = (unsigned char *)call->memories[d.binding].base + d.offset;
    unsigned char *near_end = (unsigned char *)hexloom_at(call, d.operand) + d.operand_offset;
    const int is_load = d.kind == HEXLOOM_TO_OPERAND;
    hexloom_transfer transfer;
    transfer.to = is_load ? near_end : far_end;
    transfer.from = is_load ? far_end : near_end;
    transfer.row_bytes = d.row_bytes;
    transfer.rows = d.rows;
    transfer.to_stride = is_load ? d.operand_stride : d.stride;
    transfer.from_stride = is_load ? d.stride : d.operand_stride;
    answer = hexloom_push(call, &transfer);
  }
  return answer;
}

/* Let the port do what the descriptors of a maintenance say; slices share them out. */
static int maintain(const hexloom_call *call) {
  const hexloom_port *p = call->run->setup.port;
  uint32_t k, row;
  int answer = 0;
  for (k = 0u; k < call->task->descriptor_count; k++) {
    const hexloom_descriptor d = described(call, k);
    unsigned char *start = (unsigned char *)call->memories[d.binding].base + d.offset;
    for (row = 0u; row < d.rows && answer == 0; row++)
      if ((k + row) % call->task->slice_count == call->slice)
        answer = p->maintain(p->context, d.kind, start + (size_t)row * d.stride, d.row_bytes);
  }
  return answer;
}

static int call_kernel(worker *w, const hexloom_task *task, uint32_t t, uint16_t slice) {
  hexloom_call call = call_of(w, t, slice);
  int answer;
  if (needs_no_kernel(w->run, task)) {
    answer = task->kind == HEXLOOM_DMA ? push_descriptors(&call) : maintain(&call);
  } else {
    const hexloom_kernel *kernel = &w->run->setup.kernels[task->stage];
    call.user = kernel->user;
    answer = kernel->function(&call);
  }
  if (answer == 0) return 1;
  hexloom_fail_at(w, HEXLOOM_KERNEL_ERROR, t, answer); /* if a push failed in it, the status says that already */
  return 0;
}

/* Begin a transfer: nothing of it is pushed yet. */
static void note_start(const worker *w, const hexloom_task *task, uint32_t t, int left_out) {
  slot *first = &w->run->slots[task->first_slot];
  slot *mine = slot_of(w->run, task, first->started++);
  mine->tickets = 0u;
  mine->task = t;
  mine->left_out = (uint32_t)left_out;
  mine->serial = w->run->setup.trace_records > 0u ? serial_of(w, t) : 0u;
}

/* Wait for the oldest transfer of a task, which may have begun laps ago; NULL when the worker must stop. */
static const slot *wait_for_oldest(worker *w, const hexloom_task *task) {
  slot *mine = slot_of(w->run, task, w->run->slots[task->first_slot].awaited++);
  atomic_store_explicit(&w->waits, 1u, memory_order_relaxed);
  if (!wait_for_transfer(w, mine->task, mine)) return NULL;
  atomic_store_explicit(&w->waits, 0u, memory_order_relaxed);
  return mine;
}

/* Execute one entry; 0 when the worker must stop. `traced` is a constant where this is inlined. */
static ALWAYS_INLINE int step(worker *w, const hexloom_entry *entry, const int traced) {
  hexloom_run *run = w->run;
  const hexloom_port *p = run->setup.port;
  const hexloom_task *task = &run->setup.view.tasks[entry->task];
  uint64_t before = 0u, start = 0u;
  uint16_t phase = HEXLOOM_TRACE_RUN;
  uint32_t t = entry->task, serial = traced ? serial_of(w, t) : 0u;
  int late = 0, left_out = 0;
  if (traced) before = start = p->now_ns(p->context);
  if (entry->action != HEXLOOM_WAIT) {
    if (task->wait_event != HEXLOOM_NONE && !wait_for_event(w, entry, task->wait_event, task->wait_threshold)) return 0;
    left_out = is_left_out(w, task);
    if (traced && task->wait_event != HEXLOOM_NONE && !left_out) {
      start = p->now_ns(p->context);
      note(w, t, serial, entry->slice, HEXLOOM_TRACE_WAIT, w->waits_since == 0u ? before : w->waits_since, start);
    }
    if (traced) w->waits_since = 0u;
  }
  HEXLOOM_STEP();
  if (entry->action == HEXLOOM_WAIT) {
    const slot *done = wait_for_oldest(w, task);
    if (done == NULL) return 0;
    phase = HEXLOOM_TRACE_DONE;
    t = done->task;
    left_out = done->left_out != 0u;
    serial = done->serial;
  } else {
    late = (task->flags & HEXLOOM_TASK_ASYNC) != 0u;
    if (late) w->late++;
    if (entry->action == HEXLOOM_START) {
      phase = HEXLOOM_TRACE_START;
      note_start(w, task, t, left_out);
    }
    if (!left_out && !call_kernel(w, task, t, entry->slice)) return 0;
    if (left_out && late) hexloom_finish(run, t);
  }
  if (traced && !left_out) note(w, t, serial, entry->slice, phase, start, p->now_ns(p->context));
  if (entry->action != HEXLOOM_START && !late && task->trigger_event != HEXLOOM_NONE)
    trigger(run, &run->events[task->trigger_event + ((task->flags & HEXLOOM_TASK_APART) ? entry->slice : 0u)]);
  return 1;
}

/* Execute the entries [from, to), whose numbers are in the tables; 0 when the worker must stop. */
static ALWAYS_INLINE int walk_entries(worker *w, uint32_t from, uint32_t to, const int traced) {
  const hexloom_run *run = w->run;
  const hexloom_port *p = run->setup.port;
  const hexloom_entry *entries = run->setup.view.entries;
  const uintptr_t tasks = (uintptr_t)run->setup.view.tasks;
  uint32_t k, at = atomic_load_explicit(&w->at, memory_order_relaxed);
  for (k = from; k < to; k++) {
    atomic_store_explicit(&w->at, ++at, memory_order_relaxed);
    atomic_store_explicit(&w->entry, k + 1u, memory_order_relaxed);
    /* of an AFTER it is no task, and any line: to look what comes costs more */
    if (k + 1u < to) PREFETCH((const void *)(tasks + (size_t)entries[k + 1u].task * sizeof(hexloom_task)));
    if (entries[k].action == HEXLOOM_AFTER) {
      if (traced && w->waits_since == 0u) w->waits_since = p->now_ns(p->context);
      if (!wait_for_event(w, &entries[k], entries[k].task, hexloom_threshold(&entries[k]))) return 0;
    } else if (!step(w, &entries[k], traced)) {
      return 0;
    }
    if (stopped(run)) return 0;
  }
  return 1;
}

static ALWAYS_INLINE int walk(worker *w, const int traced) {
  const hexloom_run *run = w->run;
  const hexloom_view *v = &run->setup.view;
  const hexloom_queue *queue = &v->queues[w->queue];
  const uint32_t loops = v->header->loop_count;
  uint32_t at = queue->first_entry, k;
  for (k = 0u; k < loops; k++) w->laps[k] = 0u;
  for (k = 0u; k < loops; k++) {
    const hexloom_body *body = &v->bodies[w->queue * loops + k];
    if (!walk_entries(w, at, body->first_entry, traced)) return 0;
    at = body->first_entry + body->entry_count;
    if (body->entry_count == 0u) w->laps[k] = run->laps[k];
    for (; w->laps[k] < run->laps[k]; w->laps[k]++)
      if (!walk_entries(w, body->first_entry, at, traced)) return 0;
  }
  return walk_entries(w, at, queue->first_entry + queue->entry_count, traced);
}

static int walk_untraced(worker *w) { return walk(w, 0); }

static int walk_traced(worker *w) {
  const hexloom_port *p = w->run->setup.port;
  int answer;
  w->trace.entered_ns = p->now_ns(p->context);
  w->waits_since = 0u;
  answer = walk(w, 1);
  w->trace.left_ns = p->now_ns(p->context);
  return answer;
}

void hexloom_work(worker *w) {
  hexloom_run *run = w->run;
  const hexloom_port *p = run->setup.port;
  const uint32_t kind = run->setup.view.queues[w->queue].kind;
  const int answer = p->enter == NULL ? 0 : p->enter(p->context, w->queue, kind);
  if (answer != 0) {
    hexloom_fail_at(w, HEXLOOM_NO_THREAD, HEXLOOM_NONE, answer);
    return;
  }
  if (!(run->setup.trace_records > 0u ? walk_traced(w) : walk_untraced(w))) {
    /* Others may still read and write what the transfers of this ring do: nobody returns before they have ended. */
    if (p->dma_drain != NULL && p->dma_drain(p->context, w->queue, run->timeout_ns) != 0)
      atomic_store_explicit(&w->undrained, 1u, memory_order_relaxed);
  }
  if (p->leave != NULL) p->leave(p->context, w->queue, kind);
}

/* Wait for the next execution; 0 when the thread must end. Between executions nothing is late, whatever the time. */
static int next_turn(worker *w) {
  enum outcome outcome = EXPIRED;
  w->turns++;
  while (outcome == EXPIRED) outcome = hexloom_await(w->run, &w->run->turns, w->turns + 1u);
  return outcome == REACHED;
}

void hexloom_be_worker(void *argument) {
  worker *w = (worker *)argument;
  hexloom_run *run = w->run;
  do {
    atomic_store_explicit(&w->left, 0u, memory_order_relaxed);
    atomic_store_explicit(&w->waits, 0u, memory_order_relaxed);
    hexloom_work(w);
    HEXLOOM_STEP();
    atomic_store_explicit(&w->left, 1u, memory_order_release);
    trigger(run, &run->exits);
  } while ((run->setup.flags & HEXLOOM_STAY) != 0u && next_turn(w));
}
