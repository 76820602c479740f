/* SPDX-License-Identifier: Apache-2.0
 *
 * Executing: threads are started, watched, stopped where something goes wrong, and joined.
 */
#include "hexloom_run.h"

static uint32_t entries_begun(const hexloom_run *run) {
  uint32_t k, sum = 0u;
  for (k = 0u; k < run->setup.view.header->queue_count; k++)
    sum += atomic_load_explicit(&worker_of(run, k)->at, memory_order_relaxed);
  return sum;
}

/* Say that a worker has been in a kernel for too long; 0 when all only wait, and so will say for what themselves. */
static int fail_for_worker(hexloom_run *run) {
  const hexloom_view *v = &run->setup.view;
  uint32_t k, entry;
  for (k = 0u; k < v->header->queue_count; k++) {
    const worker *w = worker_of(run, k);
    if (w->started == 0u || atomic_load_explicit(&w->left, memory_order_acquire) != 0u) continue;
    if (atomic_load_explicit(&w->waits, memory_order_relaxed) != 0u) continue;
    entry = atomic_load_explicit(&w->entry, memory_order_relaxed);
    hexloom_fail_at(w, HEXLOOM_TIMEOUT, entry == 0u ? HEXLOOM_NONE : task_at(v, entry - 1u), 0);
    return 1;
  }
  return 0;
}

/* Wait until `threads` workers have left. While they come on from entry to entry, they may take their time; and once
 * they were told to stop, they have that time to do so. Nothing ends this wait but they and the clock, and it is more
 * patient than they are. */
static void wait_for_workers(hexloom_run *run, uint32_t threads) {
  const hexloom_port *p = run->setup.port;
  line *l = &run->exits;
  const uint64_t patience = run->timeout_ns + run->timeout_ns / 4u;
  uint64_t now = p->now_ns(p->context), limit = now + patience;
  uint32_t begun = entries_begun(run);
  int told = stopped(run);
  (void)atomic_fetch_add_explicit(&l->sleepers, 1u, memory_order_acq_rel);
  for (;;) {
    const uint32_t bell = atomic_load_explicit(&l->bell, memory_order_acquire);
    const uint32_t at = entries_begun(run);
    if (reached(l, threads)) break;
    if (at != begun || stopped(run) != told) {
      begun = at;
      told = stopped(run);
      limit = now + patience;
    }
    if (now >= limit) {
      if (told) break;
      if (!fail_for_worker(run)) limit = now + patience;
      continue;
    }
    p->sleep(p->context, (uint32_t *)(void *)&l->bell, bell, limit - now);
    now = p->now_ns(p->context);
  }
  (void)atomic_fetch_sub_explicit(&l->sleepers, 1u, memory_order_relaxed);
}

/* Join who has left; count who has not. */
static void join_workers(hexloom_run *run) {
  const hexloom_port *p = run->setup.port;
  uint32_t k;
  run->status.stuck = 0u;
  run->status.undrained = 0u;
  for (k = 0u; k < run->setup.view.header->queue_count; k++) {
    worker *w = worker_of(run, k);
    run->status.undrained += atomic_load_explicit(&w->undrained, memory_order_relaxed);
    if (w->started == 0u) continue;
    if (atomic_load_explicit(&w->left, memory_order_acquire) == 0u) {
      run->status.stuck++;
      continue;
    }
    p->join(p->context, k);
    w->started = 0u;
  }
}

/* Wait for the late tasks whose kernels have returned, and name one that does not come. */
static void wait_for_late(hexloom_run *run) {
  const hexloom_view *v = &run->setup.view;
  hexloom_status status = clean(HEXLOOM_TIMEOUT);
  uint32_t k, calls = 0u;
  for (k = 0u; k < v->header->queue_count; k++) calls += worker_of(run, k)->late;
  if (hexloom_await(run, &run->late, calls) != EXPIRED) return;
  for (k = 0u; k < v->header->task_count; k++) {
    const uint32_t expected = (run->executed + 1u) * v->tasks[k].slice_count;
    const uint32_t seen = atomic_load_explicit(&run->finished[k], memory_order_relaxed);
    if ((v->tasks[k].flags & HEXLOOM_TASK_ASYNC) == 0u || seen == expected) continue;
    status.task = k;
    status.queue = v->tasks[k].queue;
    status.event = v->tasks[k].trigger_event;
    status.seen = seen;
    status.expected = expected;
    break;
  }
  hexloom_fail(run, &status);
}

static void begin(hexloom_run *run) {
  uint32_t k;
  if (run->dirty) zero_counters(run);
  run->status = clean(HEXLOOM_OK);
  atomic_store_explicit(&run->stop, 0u, memory_order_relaxed);
  atomic_store_explicit(&run->claimed, 0u, memory_order_relaxed);
  zero_line(&run->exits);
  zero_line(&run->late);
  for (k = 0u; k < run->setup.view.header->slot_count; k++) run->slots[k].started = run->slots[k].awaited = 0u;
  for (k = 0u; k < run->setup.view.header->queue_count; k++) {
    worker *w = worker_of(run, k);
    w->late = 0u;
    /* who stays has left the last turn, and says itself when it is in the next one */
    if (w->started == 0u) atomic_store_explicit(&w->left, 0u, memory_order_relaxed);
    atomic_store_explicit(&w->undrained, 0u, memory_order_relaxed);
    atomic_store_explicit(&w->at, 0u, memory_order_relaxed);
    atomic_store_explicit(&w->entry, 0u, memory_order_relaxed);
  }
}

/* Let all threads begin: start those that are not there, then give all others a new turn, but not where something went
 * wrong before. Returns how many will come to their end. */
static uint32_t let_begin(hexloom_run *run) {
  const hexloom_port *p = run->setup.port;
  const uint32_t turn = atomic_load_explicit(&run->turns.count, memory_order_relaxed);
  uint32_t k, fresh = 0u, staying = 0u;
  for (k = 0u; k < run->setup.view.header->queue_count && !stopped(run); k++) {
    worker *w = worker_of(run, k);
    int answer;
    if (k == run->setup.main_queue) continue;
    if (w->started != 0u) {
      staying++;
      continue;
    }
    w->started = 1u;
    w->turns = turn; /* it takes part in the one that is about to begin */
    answer = p->start(p->context, k, hexloom_be_worker, w);
    if (answer == 0) {
      fresh++;
      continue;
    }
    w->started = 0u;
    hexloom_fail_at(w, HEXLOOM_NO_THREAD, HEXLOOM_NONE, answer);
  }
  if (stopped(run)) return fresh;
  trigger(run, &run->turns);
  return fresh + staying;
}

uint32_t hexloom_execute(hexloom_run *run) {
  const uint32_t main_queue = run->setup.main_queue;
  uint32_t threads;
  if (run->status.stuck > 0u && hexloom_join(run) > 0u) return HEXLOOM_STUCK;
  begin(run);
  threads = let_begin(run);
  if (main_queue != HEXLOOM_NONE && !stopped(run)) hexloom_work(worker_of(run, main_queue));
  wait_for_workers(run, threads);
  if (!stopped(run)) wait_for_late(run);
  if (stopped(run) || (run->setup.flags & HEXLOOM_STAY) == 0u) join_workers(run);
  run->executed++;
  if (run->status.code != HEXLOOM_OK) run->dirty = 1u;
  if (run->dirty == 0u) run->status.executed = run->executed;
  return run->status.code;
}

void hexloom_close(hexloom_run *run) {
  if (run->status.stuck > 0u) return; /* they are joined by hexloom_join() alone */
  atomic_store_explicit(&run->stop, 1u, memory_order_release);
  ring(run, &run->turns);
  join_workers(run);
  atomic_store_explicit(&run->stop, 0u, memory_order_relaxed);
}

uint32_t hexloom_join(hexloom_run *run) {
  uint32_t k, threads = 0u;
  for (k = 0u; k < run->setup.view.header->queue_count; k++) threads += worker_of(run, k)->started;
  if (threads == 0u) return 0u;
  /* those who were joined before have counted, too */
  for (k = 0u; k < run->setup.view.header->queue_count; k++) {
    const worker *w = worker_of(run, k);
    threads += w->started == 0u && atomic_load_explicit(&w->left, memory_order_acquire) != 0u;
  }
  wait_for_workers(run, threads);
  join_workers(run);
  return run->status.stuck;
}

const hexloom_status *hexloom_status_of(const hexloom_run *run) { return &run->status; }

const char *hexloom_code_name(uint32_t code) {
  static const char *const names[] = {"OK",        "BAD_TABLE", "BAD_SETUP", "BAD_BINDING",  "NO_KERNEL", "NO_MEMORY",
                                      "NO_THREAD", "TIMEOUT",   "KERNEL_ERROR", "DMA_ERROR", "STUCK",
                                      "BAD_PARAMETER"};
  return code < sizeof names / sizeof names[0] ? names[code] : "?";
}

hexloom_trace hexloom_trace_of(const hexloom_run *run, uint32_t queue) { return worker_of(run, queue)->trace; }

void hexloom_trace_clear(hexloom_run *run) {
  uint32_t q;
  for (q = 0u; q < run->setup.view.header->queue_count; q++) {
    hexloom_trace *trace = &worker_of(run, q)->trace;
    trace->entered_ns = trace->left_ns = 0u;
    trace->count = trace->dropped = 0u;
  }
}
