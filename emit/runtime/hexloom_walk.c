/* SPDX-License-Identifier: Apache-2.0
 *
 * What the thread of a queue does: wait, call kernels, see its transfers done, trigger.
 */
#include "hexloom_run.h"

/* --- waiting ----------------------------------------------------------------------------------------------- */

/* Wait for one event of a task; 0 when the worker must stop. */
static int wait_for_event(worker *w, uint32_t task, const hexloom_wait *wait) {
  hexloom_run *run = w->run;
  line *l = &run->events[wait->event];
  const uint32_t expected = run->executed * run->setup.view.events[wait->event].triggers + wait->threshold;
  enum outcome outcome;
  hexloom_status status;
  if (reached(l, expected)) return 1;
  atomic_store_explicit(&w->waits, 1u, memory_order_relaxed);
  outcome = hexloom_await(run, l, expected);
  atomic_store_explicit(&w->waits, 0u, memory_order_relaxed);
  if (outcome == REACHED) return 1;
  if (outcome == STOPPED) return 0;
  status = clean(HEXLOOM_TIMEOUT);
  status.task = task;
  status.queue = w->queue;
  status.event = wait->event;
  status.seen = atomic_load_explicit(&l->count, memory_order_relaxed);
  status.expected = expected;
  hexloom_fail(run, &status);
  return 0;
}

/* --- transfers --------------------------------------------------------------------------------------------- */

/* See parts of a transfer done, as long as the oldest one is. Returns what the port said of the one that is not. */
static int see_done(const hexloom_run *run, uint32_t queue, progress *mine) {
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
  progress *mine = &run->tasks[call->task_index];
  uint64_t limit = 0u;
  uint32_t ticket = 0u, round;
  int answer;
  for (round = 0u;; round++) {
    answer = p->dma_push(p->context, call->queue, transfer, &ticket);
    if (answer != HEXLOOM_RING_FULL || stopped(run)) break;
    if (limit == 0u) limit = p->now_ns(p->context) + run->timeout_ns;
    if (p->now_ns(p->context) >= limit) break;
    if (see_done(run, call->queue, mine) < 0) { /* its own parts may fill the ring, and make room once they are seen */
      answer = -1;
      break;
    }
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
static int wait_for_transfer(const worker *w, uint32_t task) {
  hexloom_run *run = w->run;
  const hexloom_port *p = run->setup.port;
  progress *mine = &run->tasks[task];
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
  (void)atomic_fetch_add_explicit(&run->tasks[task].finished, 1u, memory_order_release);
  trigger(run, &run->late);
}

int hexloom_stopped(const hexloom_run *run) { return stopped(run); }

/* --- walking ----------------------------------------------------------------------------------------------- */

static void note(worker *w, uint32_t task, uint16_t slice, uint16_t phase, uint64_t start, uint64_t end) {
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
  record->reserved = 0u;
}

static int call_kernel(worker *w, const hexloom_task *task, uint32_t t, uint16_t slice) {
  hexloom_run *run = w->run;
  const hexloom_kernel *kernel = &run->setup.kernels[task->stage];
  hexloom_call call;
  int answer;
  call.run = run;
  call.view = &run->setup.view;
  call.task = task;
  call.operands = run->setup.view.operands + task->first_operand;
  call.memories = run->setup.memories;
  call.user = kernel->user;
  call.task_index = t;
  call.queue = w->queue;
  call.slice = slice;
  call.executed = run->executed;
  answer = kernel->function(&call);
  if (answer == 0) return 1;
  hexloom_fail_at(w, HEXLOOM_KERNEL_ERROR, t, answer); /* if a push failed in it, the status says that already */
  return 0;
}

/* Execute one entry; 0 when the worker must stop. `traced` is a constant where this is inlined. */
static ALWAYS_INLINE int step(worker *w, const hexloom_entry *entry, const int traced) {
  hexloom_run *run = w->run;
  const hexloom_port *p = run->setup.port;
  const hexloom_task *task = &run->setup.view.tasks[entry->task];
  uint64_t before = 0u, start = 0u;
  uint16_t phase = HEXLOOM_TRACE_RUN;
  uint32_t k;
  int late = 0;
  if (traced) before = start = p->now_ns(p->context);
  if (entry->action != HEXLOOM_WAIT) {
    for (k = 0u; k < task->wait_count; k++)
      if (!wait_for_event(w, entry->task, &run->setup.view.waits[task->first_wait + k])) return 0;
    if (traced && task->wait_count > 0u) {
      start = p->now_ns(p->context);
      note(w, entry->task, entry->slice, HEXLOOM_TRACE_WAIT, before, start);
    }
  }
  HEXLOOM_STEP();
  if (entry->action == HEXLOOM_WAIT) {
    phase = HEXLOOM_TRACE_DONE;
    atomic_store_explicit(&w->waits, 1u, memory_order_relaxed);
    if (!wait_for_transfer(w, entry->task)) return 0;
    atomic_store_explicit(&w->waits, 0u, memory_order_relaxed);
  } else {
    late = (task->flags & HEXLOOM_TASK_ASYNC) != 0u;
    if (late) w->late++;
    if (entry->action == HEXLOOM_START) {
      phase = HEXLOOM_TRACE_START;
      run->tasks[entry->task].tickets = 0u;
    }
    if (!call_kernel(w, task, entry->task, entry->slice)) return 0;
  }
  if (traced) note(w, entry->task, entry->slice, phase, start, p->now_ns(p->context));
  if (entry->action != HEXLOOM_START && !late && task->trigger_event != HEXLOOM_NONE)
    trigger(run, &run->events[task->trigger_event]);
  return 1;
}

static ALWAYS_INLINE int walk(worker *w, const int traced) {
  const hexloom_run *run = w->run;
  const hexloom_queue *queue = &run->setup.view.queues[w->queue];
  const hexloom_entry *entries = run->setup.view.entries + queue->first_entry;
  uint32_t k;
  for (k = 0u; k < queue->entry_count; k++) {
    atomic_store_explicit(&w->at, k + 1u, memory_order_relaxed);
    if (k + 1u < queue->entry_count) PREFETCH(&run->setup.view.tasks[entries[k + 1u].task]);
    if (!step(w, &entries[k], traced)) return 0;
    if (stopped(run)) return 0;
  }
  return 1;
}

static int walk_untraced(worker *w) { return walk(w, 0); }

static int walk_traced(worker *w) {
  const hexloom_port *p = w->run->setup.port;
  int answer;
  w->trace.entered_ns = p->now_ns(p->context);
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

void hexloom_body(void *argument) {
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
