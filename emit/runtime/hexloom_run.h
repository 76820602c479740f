/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run consists of; for the files of the runtime alone. C11.
 */
#ifndef HEXLOOM_RUN_H
#define HEXLOOM_RUN_H

#include <stdatomic.h>

#include "hexloom_runtime.h"

/* Tests put delays here. */
#ifndef HEXLOOM_STEP
#define HEXLOOM_STEP() ((void)0)
#endif

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define PREFETCH(address) ((void)0)
#define ALWAYS_INLINE inline
#endif

typedef _Atomic uint32_t word;

/* A counter that threads wait on. */
typedef struct line {
  word count;
  word sleepers;
  word bell;
  uint32_t total; /* how often one execution triggers it */
  uint32_t step;  /* how often a lap of its loop does */
  uint32_t loop;  /* its loop, or HEXLOOM_NONE */
  uint32_t pad[HEXLOOM_LINE / 4u - 6u];
} line;

/* What its owner knows of a transfer that is under way. */
typedef struct slot {
  uint32_t first_ticket;
  uint32_t tickets;
  uint32_t task;
  uint32_t serial;
  uint32_t started; /* of the first slot of a transfer: how often it was started, and awaited */
  uint32_t awaited;
  uint32_t left_out; /* there is nothing to transfer in this iteration */
} slot;

typedef struct worker {
  word at;      /* entries begun */
  word entry;   /* the number after that of the last one */
  word left;    /* it has no more to do */
  word waits;   /* for an event or a transfer, with a deadline of its own */
  word undrained;
  uint32_t queue;
  uint32_t late; /* slices of late tasks it has called */
  uint32_t started; /* a thread runs it, or has not been joined */
  uint32_t turns;   /* of the thread: executions it has begun since it was started */
  hexloom_run *run;
  uint32_t *laps; /* made of every loop in this execution */
  uint64_t waits_since; /* traced: when the first AFTER of the next task was begun, or 0 */
  hexloom_record *records;
  hexloom_trace trace;
  uint32_t pad[HEXLOOM_LINE / 4u];
} worker;

struct hexloom_run {
  hexloom_setup setup;
  uint64_t timeout_ns;
  hexloom_status status;
  line *events;
  worker *workers;
  word *finished; /* per task: slices of a late one that are done */
  slot *slots;
  uint32_t *values; /* of the parameters */
  uint32_t *laps; /* that every loop makes */
  uint32_t *trips; /* of every group: iterations that are not left out */
  uint32_t executed; /* since the counters were zero */
  uint32_t dirty;    /* the last one failed: counters mean nothing */
  uint32_t pad[HEXLOOM_LINE / 4u];
  line exits; /* workers that have come to their end */
  line turns; /* executions since threads were started: who stays waits for the next one */
  line late; /* slices of late tasks that are done */
  word stop;
  word claimed; /* somebody writes the status */
  uint32_t pad_after[HEXLOOM_LINE / 4u];
};

HEXLOOM_STATIC_CHECK(word_size, sizeof(word) == sizeof(uint32_t));
HEXLOOM_STATIC_CHECK(line_size, sizeof(line) == HEXLOOM_LINE);

static inline uint64_t whole_lines(uint64_t bytes) { return (bytes + HEXLOOM_LINE - 1u) / HEXLOOM_LINE * HEXLOOM_LINE; }

static inline worker *worker_of(const hexloom_run *run, uint32_t queue) {
  return (worker *)(void *)((unsigned char *)run->workers + queue * whole_lines(sizeof(worker)));
}

static inline hexloom_status clean(uint32_t code) {
  hexloom_status status;
  status.code = code;
  status.task = status.queue = status.event = HEXLOOM_NONE;
  status.seen = status.expected = 0u;
  status.detail = 0;
  status.stuck = status.undrained = status.executed = 0u;
  status.problem = NULL;
  return status;
}

static inline void zero_line(line *l) {
  atomic_store_explicit(&l->count, 0u, memory_order_relaxed);
  atomic_store_explicit(&l->sleepers, 0u, memory_order_relaxed);
  atomic_store_explicit(&l->bell, 0u, memory_order_relaxed);
}

/* Make all counters zero, as before the first execution. */
static inline void zero_counters(hexloom_run *run) {
  const hexloom_header *h = run->setup.view.header;
  uint32_t k;
  for (k = 0u; k < h->event_count; k++) zero_line(&run->events[k]);
  for (k = 0u; k < h->task_count; k++) atomic_store_explicit(&run->finished[k], 0u, memory_order_relaxed);
  run->executed = 0u;
  run->dirty = 0u;
}

/* Let whoever sleeps on a line look again. */
static inline void ring(const hexloom_run *run, line *l) {
  HEXLOOM_STEP();
  if (atomic_fetch_add_explicit(&l->sleepers, 0u, memory_order_acq_rel) == 0u) return;
  (void)atomic_fetch_add_explicit(&l->bell, 1u, memory_order_release);
  HEXLOOM_STEP();
  run->setup.port->wake(run->setup.port->context, (uint32_t *)(void *)&l->bell);
}

static inline void trigger(const hexloom_run *run, line *l) {
  HEXLOOM_STEP();
  (void)atomic_fetch_add_explicit(&l->count, 1u, memory_order_release);
  ring(run, l);
}

static inline int reached(line *l, uint32_t expected) {
  if ((atomic_load_explicit(&l->count, memory_order_relaxed) - expected) >> 31 != 0u) return 0;
  /* The relaxed look found it; this one sees all that was written before the triggers. */
  (void)atomic_load_explicit(&l->count, memory_order_acquire);
  return 1;
}

/* The last one of the slots that transfers of a task take in turn, of which so many were counted before. */
static inline slot *slot_of(const hexloom_run *run, const hexloom_task *task, uint32_t counted) {
  return &run->slots[task->first_slot + (task->slots == 1u ? 0u : counted % task->slots)];
}

/* The task of an entry; of one that waits for an event that of the entry it waits for. */
static inline uint32_t task_at(const hexloom_view *view, uint32_t entry) {
  while (view->entries[entry].action == HEXLOOM_AFTER) entry++;
  return view->entries[entry].task;
}

/* Whether the descriptors of a task say all that there is to do. */
static inline int needs_no_kernel(const hexloom_run *run, const hexloom_task *task) {
  return task->descriptor_count > 0u && (task->kind == HEXLOOM_DMA || run->setup.port->maintain != NULL);
}

static inline int stopped(const hexloom_run *run) {
  return atomic_load_explicit(&run->stop, memory_order_acquire) != 0u;
}

enum outcome { REACHED, STOPPED, EXPIRED };

/* Wait until the counter of a line has reached what is expected; of hexloom_wait.c. */
enum outcome hexloom_await(const hexloom_run *run, line *l, uint32_t expected);

/* Write down what went wrong if it is the first, and stop everybody; of hexloom_wait.c. */
void hexloom_fail(hexloom_run *run, const hexloom_status *status);
void hexloom_fail_at(const worker *w, uint32_t code, uint32_t task, int32_t detail);

/* Execute the queue of a worker, and be the thread of one; of hexloom_walk.c. */
void hexloom_work(worker *w);
void hexloom_be_worker(void *argument);

#endif /* HEXLOOM_RUN_H */
