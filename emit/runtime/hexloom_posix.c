/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__linux__)
#define _GNU_SOURCE 1
#else
#define _POSIX_C_SOURCE 200809L
#endif

#include "hexloom_posix.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define NS_PER_S UINT64_C(1000000000)
#define DEFAULT_RING (256u)
#define PAUSES (64u)   /* looks before the processor is given to others */
#define YIELDS (1024u) /* looks before the thread rests */
#define REST_NS (20000u)

/* States of a slot. The engine moves PENDING to FINISHED or FAILED, its owner those to FREE, when it asks. */
enum { FREE, PENDING, MOVING, FINISHED, FAILED };

typedef struct slot {
  hexloom_transfer transfer;
  uint64_t due_ns;
  uint32_t ticket;
  uint32_t number; /* among all transfers */
  uint32_t worker;
  _Atomic uint32_t state;
} slot;

typedef struct hexloom_posix {
  hexloom_posix_options options;
  pthread_t *threads;
  pthread_t engine;
  pthread_mutex_t lock;
  pthread_cond_t changed; /* something is pending, or the port closes */
  pthread_cond_t rested;  /* the engine moves nothing */
  slot *slots;            /* ring_entries of each worker */
  uint32_t *tickets;      /* next one of each worker */
  slot **pending;
  uint32_t pending_count;
  uint32_t pushed;
  uint32_t moving_for; /* the worker whose transfer is being moved, or `workers` */
  int closing;
  uint64_t chance;
} hexloom_posix;

static uint64_t now_ns(void *context) {
  struct timespec now;
  (void)context;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static struct timespec span_of(uint64_t ns) {
  struct timespec span;
  span.tv_sec = (time_t)(ns / NS_PER_S);
  span.tv_nsec = (long)(ns % NS_PER_S);
  return span;
}

static void pause_processor(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void relax(void *context, uint32_t round) {
  (void)context;
  if (round < PAUSES) {
    pause_processor();
  } else if (round < YIELDS) {
    (void)sched_yield();
  } else {
    const struct timespec rest = span_of(REST_NS);
    (void)nanosleep(&rest, NULL);
  }
}

static void sleep_on(void *context, uint32_t *word, uint32_t seen, uint64_t most_ns) {
#if defined(__linux__)
  const struct timespec most = span_of(most_ns);
  (void)context;
  (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
#else
  const struct timespec rest = span_of(most_ns < REST_NS ? most_ns : REST_NS);
  (void)context;
  if (atomic_load((_Atomic uint32_t *)(void *)word) == seen) (void)nanosleep(&rest, NULL);
#endif
}

static void wake(void *context, uint32_t *word) {
  (void)context;
#if defined(__linux__)
  (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7FFFFFFF, NULL, NULL, 0);
#else
  (void)word;
#endif
}

/* --- threads ----------------------------------------------------------------------------------------------- */

typedef struct job {
  void (*body)(void *argument);
  void *argument;
} job;

static void *run_job(void *argument) {
  const job mine = *(const job *)argument;
  free(argument);
  mine.body(mine.argument);
  return NULL;
}

static int start(void *context, uint32_t worker, void (*body)(void *argument), void *argument) {
  hexloom_posix *posix = (hexloom_posix *)context;
  pthread_attr_t attributes;
  job *mine;
  int error;
  if (worker >= posix->options.workers) return EINVAL;
  mine = (job *)malloc(sizeof *mine);
  if (mine == NULL) return ENOMEM;
  mine->body = body;
  mine->argument = argument;
  error = pthread_attr_init(&attributes);
  if (error == 0) {
    if (posix->options.stack_bytes != 0u) error = pthread_attr_setstacksize(&attributes, posix->options.stack_bytes);
    if (error == 0) error = pthread_create(&posix->threads[worker], &attributes, run_job, mine);
    (void)pthread_attr_destroy(&attributes);
  }
  if (error != 0) free(mine);
  return error;
}

static void join(void *context, uint32_t worker) {
  (void)pthread_join(((hexloom_posix *)context)->threads[worker], NULL);
}

/* --- transfers --------------------------------------------------------------------------------------------- */

static uint64_t draw(hexloom_posix *posix, uint64_t below) {
  uint64_t x = posix->chance;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  posix->chance = x;
  return (x * UINT64_C(2685821657736338717)) % below;
}

static void move_rows(const hexloom_transfer *t, uint32_t first, uint32_t end) {
  uint32_t row;
  for (row = first; row < end; row++)
    (void)memcpy((unsigned char *)t->to + (size_t)row * t->to_stride,
                 (const unsigned char *)t->from + (size_t)row * t->from_stride, t->row_bytes);
}

/* Pick a pending transfer whose time has come; its place in the list, or the number of pending ones. */
static uint32_t pick(hexloom_posix *posix, uint64_t now, uint64_t *earliest) {
  uint32_t k, found = posix->pending_count, candidates = 0u;
  *earliest = UINT64_MAX;
  for (k = 0u; k < posix->pending_count; k++) {
    const slot *s = posix->pending[k];
    if (s->number == posix->options.lost) continue;
    if (s->due_ns > now) {
      if (s->due_ns < *earliest) *earliest = s->due_ns;
      continue;
    }
    candidates++;
    if (draw(posix, candidates) == 0u) found = k; /* each is as likely as any other */
  }
  return found;
}

static void *play_engine(void *argument) {
  hexloom_posix *posix = (hexloom_posix *)argument;
  (void)pthread_mutex_lock(&posix->lock);
  while (!posix->closing) {
    uint64_t earliest;
    const uint32_t k = pick(posix, now_ns(NULL), &earliest);
    slot *s;
    if (k == posix->pending_count) {
      const struct timespec at = span_of(earliest);
      if (earliest == UINT64_MAX)
        (void)pthread_cond_wait(&posix->changed, &posix->lock);
      else
        (void)pthread_cond_timedwait(&posix->changed, &posix->lock, &at);
      continue;
    }
    s = posix->pending[k];
    posix->pending[k] = posix->pending[--posix->pending_count];
    atomic_store_explicit(&s->state, MOVING, memory_order_relaxed);
    posix->moving_for = s->worker;
    (void)pthread_mutex_unlock(&posix->lock);
    if (s->number != posix->options.failing) {
      move_rows(&s->transfer, s->transfer.rows / 2u, s->transfer.rows);
      move_rows(&s->transfer, 0u, s->transfer.rows / 2u);
    }
    (void)pthread_mutex_lock(&posix->lock);
    atomic_store_explicit(&s->state, s->number == posix->options.failing ? FAILED : FINISHED, memory_order_release);
    posix->moving_for = posix->options.workers;
    (void)pthread_cond_broadcast(&posix->rested);
  }
  (void)pthread_mutex_unlock(&posix->lock);
  return NULL;
}

static slot *slot_of(const hexloom_posix *posix, uint32_t worker, uint32_t ticket) {
  return &posix->slots[(size_t)worker * posix->options.ring_entries + ticket % posix->options.ring_entries];
}

static int dma_push(void *context, uint32_t worker, const hexloom_transfer *transfer, uint32_t *ticket) {
  hexloom_posix *posix = (hexloom_posix *)context;
  slot *s;
  uint32_t state;
  if (worker >= posix->options.workers) return -EINVAL;
  s = slot_of(posix, worker, posix->tickets[worker]);
  state = atomic_load_explicit(&s->state, memory_order_acquire);
  if (state == FAILED) return -EIO;
  if (state != FREE && state != FINISHED) return HEXLOOM_RING_FULL;
  (void)pthread_mutex_lock(&posix->lock);
  s->transfer = *transfer;
  s->ticket = *ticket = posix->tickets[worker]++;
  s->number = ++posix->pushed;
  s->worker = worker;
  s->due_ns = now_ns(NULL) + draw(posix, (uint64_t)posix->options.most_delay_us * 1000u + 1u);
  atomic_store_explicit(&s->state, PENDING, memory_order_relaxed);
  posix->pending[posix->pending_count++] = s;
  (void)pthread_cond_signal(&posix->changed);
  (void)pthread_mutex_unlock(&posix->lock);
  return 0;
}

static int dma_done(void *context, uint32_t worker, uint32_t ticket) {
  slot *s = slot_of((hexloom_posix *)context, worker, ticket);
  const uint32_t state = atomic_load_explicit(&s->state, memory_order_acquire);
  if (s->ticket != ticket || state == FREE) return 1; /* seen before */
  if (state != FINISHED && state != FAILED) return 0;
  atomic_store_explicit(&s->state, FREE, memory_order_relaxed);
  return state == FINISHED ? 1 : -EIO;
}

/* Transfers of this port see what caches hold. */
static int maintain(void *context, uint32_t kind, void *start, uint64_t bytes) {
  (void)context, (void)kind, (void)start, (void)bytes;
  return 0;
}

static int dma_drain(void *context, uint32_t worker, uint64_t most_ns) {
  hexloom_posix *posix = (hexloom_posix *)context;
  const struct timespec limit = span_of(now_ns(NULL) + most_ns);
  uint32_t k, kept = 0u;
  int error = 0;
  if (worker >= posix->options.workers) return -EINVAL;
  (void)pthread_mutex_lock(&posix->lock);
  for (k = 0u; k < posix->pending_count; k++)
    if (posix->pending[k]->worker == worker)
      atomic_store_explicit(&posix->pending[k]->state, FREE, memory_order_relaxed);
    else
      posix->pending[kept++] = posix->pending[k];
  posix->pending_count = kept;
  while (posix->moving_for == worker && error == 0)
    error = pthread_cond_timedwait(&posix->rested, &posix->lock, &limit);
  if (error == 0)
    for (k = 0u; k < posix->options.ring_entries; k++)
      atomic_store_explicit(&slot_of(posix, worker, k)->state, FREE, memory_order_relaxed);
  (void)pthread_mutex_unlock(&posix->lock);
  return error;
}

/* --- opening and closing ----------------------------------------------------------------------------------- */

static void give_back(hexloom_posix *posix) {
  free(posix->threads);
  free(posix->slots);
  free(posix->tickets);
  free((void *)posix->pending);
  free(posix);
}

static int start_engine(hexloom_posix *posix) {
  pthread_condattr_t monotonic;
  int error = pthread_condattr_init(&monotonic);
  if (error != 0) return error;
#if !defined(__APPLE__)
  error = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
#endif
  if (error == 0) error = pthread_mutex_init(&posix->lock, NULL);
  if (error == 0) error = pthread_cond_init(&posix->changed, &monotonic);
  if (error == 0) error = pthread_cond_init(&posix->rested, &monotonic);
  (void)pthread_condattr_destroy(&monotonic);
  return error == 0 ? pthread_create(&posix->engine, NULL, play_engine, posix) : error;
}

int hexloom_posix_open(hexloom_port *port, const hexloom_posix_options *options) {
  hexloom_posix *posix = (hexloom_posix *)calloc(1u, sizeof *posix);
  size_t slots, workers;
  int error;
  if (posix == NULL) return ENOMEM;
  posix->options = *options;
  if (posix->options.ring_entries == 0u) posix->options.ring_entries = DEFAULT_RING;
  workers = options->workers == 0u ? 1u : options->workers;
  slots = workers * posix->options.ring_entries;
  posix->moving_for = posix->options.workers;
  posix->chance = options->seed * UINT64_C(0x9E3779B97F4A7C15) | 1u;
  posix->threads = (pthread_t *)calloc(workers, sizeof(pthread_t));
  posix->slots = (slot *)calloc(slots, sizeof(slot));
  posix->tickets = (uint32_t *)calloc(workers, sizeof(uint32_t));
  posix->pending = (slot **)calloc(slots, sizeof(slot *));
  if (posix->threads == NULL || posix->slots == NULL || posix->tickets == NULL || posix->pending == NULL)
    error = ENOMEM;
  else
    error = start_engine(posix);
  if (error != 0) {
    give_back(posix);
    return error;
  }
  port->context = posix;
  port->now_ns = now_ns;
  port->relax = relax;
  port->sleep = sleep_on;
  port->wake = wake;
  port->start = start;
  port->join = join;
  port->enter = NULL;
  port->leave = NULL;
  port->dma_push = dma_push;
  port->dma_done = dma_done;
  port->dma_drain = dma_drain;
  port->maintain = maintain;
  return 0;
}

void hexloom_posix_close(hexloom_port *port) {
  hexloom_posix *posix = (hexloom_posix *)port->context;
  (void)pthread_mutex_lock(&posix->lock);
  posix->closing = 1;
  (void)pthread_cond_signal(&posix->changed);
  (void)pthread_mutex_unlock(&posix->lock);
  (void)pthread_join(posix->engine, NULL);
  (void)pthread_cond_destroy(&posix->changed);
  (void)pthread_cond_destroy(&posix->rested);
  (void)pthread_mutex_destroy(&posix->lock);
  give_back(posix);
  port->context = NULL;
}
