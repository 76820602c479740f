/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting, which is where timing could go wrong. An event is a counter that only grows, on a line of its own with a
 * count of sleepers and a bell. Who triggers adds to the counter, then looks at the sleepers; who waits adds itself to
 * the sleepers, reads the bell, and looks at the counter once more before it sleeps while the bell is as it was. Both
 * touch the sleepers by a read-modify-write that acquires and releases, so one comes first: either the waiter sees the
 * counter, or the trigger sees the sleeper and rings. Stopping rings every bell the same way.
 */
#include "hexloom_run.h"

/* Write down what went wrong if it is the first, and stop everybody. */
void hexloom_fail(hexloom_run *run, const hexloom_status *status) {
  uint32_t none = 0u, k;
  if (atomic_compare_exchange_strong_explicit(&run->claimed, &none, 1u, memory_order_acq_rel, memory_order_acquire)) {
    run->status = *status;
    run->status.executed = run->executed;
  }
  atomic_store_explicit(&run->stop, 1u, memory_order_release);
  for (k = 0u; k < run->setup.view.header->event_count; k++) ring(run, &run->events[k]);
  ring(run, &run->late);
  ring(run, &run->turns);
  ring(run, &run->exits);
}

void hexloom_fail_at(const worker *w, uint32_t code, uint32_t task, int32_t detail) {
  hexloom_status status = clean(code);
  status.task = task;
  status.queue = w->queue;
  status.detail = detail;
  hexloom_fail(w->run, &status);
}

/* Look a few times, then sleep until the counter is there, somebody stops, or the deadline has passed. It runs from
   the first look: where others are busy, each `relax` may take milliseconds. */
enum outcome hexloom_await(const hexloom_run *run, line *l, uint32_t expected) {
  const hexloom_port *p = run->setup.port;
  enum outcome outcome = EXPIRED;
  uint64_t now, limit;
  uint32_t round;
  if (reached(l, expected)) return REACHED;
  now = p->now_ns(p->context);
  limit = now + run->timeout_ns;
  for (round = 0u; round < run->setup.spins; round++) {
    if (reached(l, expected)) return REACHED;
    if (stopped(run)) return STOPPED;
    p->relax(p->context, round);
    if ((round & 15u) != 15u) continue; /* the clock costs more than a look */
    now = p->now_ns(p->context);
    if (now >= limit) return EXPIRED;
  }
  HEXLOOM_STEP();
  (void)atomic_fetch_add_explicit(&l->sleepers, 1u, memory_order_acq_rel);
  for (;;) {
    const uint32_t bell = atomic_load_explicit(&l->bell, memory_order_acquire);
    HEXLOOM_STEP();
    if (reached(l, expected)) {
      outcome = REACHED;
      break;
    }
    if (stopped(run)) {
      outcome = STOPPED;
      break;
    }
    if (now >= limit) break;
    p->sleep(p->context, (uint32_t *)(void *)&l->bell, bell, limit - now);
    now = p->now_ns(p->context);
  }
  (void)atomic_fetch_sub_explicit(&l->sleepers, 1u, memory_order_relaxed);
  return outcome;
}
