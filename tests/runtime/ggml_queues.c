/* Plays the queues of ggml-hexagon on a host, as far as hexloom_ggml.c uses them. A transfer moves when the thread that
 * pushed it polls: those of a thread in random order, each after a random time. */
#define _GNU_SOURCE 1

#include "ggml_queues.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <HAP_perf.h>

#define JOBS (16u)
#define EVENTS (65536u)
#define STOP (0x8000u)

typedef struct move {
  dma_ptr at;
  size_t to_stride, from_stride, row_bytes, rows;
  uint64_t due_ns;
  uint32_t number; /* among all transfers */
} move;

/* A DMA queue with what it moves; the queue comes first. */
typedef struct engine {
  dma_queue queue;
  dma_ring ring;
  move *moves;
  uint64_t chance;
  int broken;
} engine;

struct work_queue_s {
  pthread_t threads[HTP_MAX_NTHREADS];
  uint32_t count;
  work_queue_func_t func;
  void *data;
  unsigned int jobs;
  _Atomic unsigned int number, running, killed;
};

struct hmx_queue_s {
  pthread_t thread;
  struct hmx_queue_desc jobs[JOBS];
  struct htp_thread_trace *trace;
  unsigned int popped;
  _Atomic unsigned int pushed, finished, killed;
};

static ggml_options with;
static _Atomic uint32_t pushed;
static _Thread_local engine *mine; /* what this thread has pushed into: dmpoll asks its engine */
static _Thread_local unsigned int pauses;

static uint64_t now(void) {
  struct timespec span;
  (void)clock_gettime(CLOCK_MONOTONIC, &span);
  return (uint64_t)span.tv_sec * UINT64_C(1000000000) + (uint64_t)span.tv_nsec;
}

unsigned long long HAP_perf_get_qtimer_count(void) { return now() * 12u / 625u; }

void hex_pause(void) {
  const struct timespec rest = {0, 20000};
  if (++pauses % 4u == 0u) /* others need the processor more than who only looks */
    (void)nanosleep(&rest, NULL);
  else
    (void)sched_yield();
}

void hex_l2flush(void *addr, size_t size) { (void)addr, (void)size; }

/* --- traces ------------------------------------------------------------------------------------------------ */

static void note(struct htp_thread_trace *tr, uint16_t id, uint16_t info) {
  if (tr->count >= tr->max_events) return;
  tr->events[tr->count].id = id;
  tr->events[tr->count].cycles = (uint32_t)now();
  tr->events[tr->count++].info = info;
}

void htp_trace_event_start(struct htp_thread_trace *tr, uint16_t id, uint16_t info) { note(tr, id, info); }

void htp_trace_event_stop(struct htp_thread_trace *tr, uint16_t id, uint16_t info) {
  note(tr, id, (uint16_t)(info | STOP));
}

/* Whether every start has its stop, and what is no transfer ends last in, first out. */
static int in_pairs(const struct htp_thread_trace *tr) {
  static uint16_t open[EVENTS];
  uint32_t depth = 0u, k;
  long transfers = 0;
  for (k = 0u; k < tr->count; k++) {
    const struct htp_trace_desc *e = &tr->events[k];
    if (e->id == HTP_TRACE_EVT_DMA) {
      transfers += (e->info & STOP) != 0u ? -1 : 1;
    } else if ((e->info & STOP) == 0u) {
      open[depth++] = e->info;
    } else if (depth == 0u || open[--depth] != (e->info & ~STOP)) {
      return 0;
    }
    if (transfers < 0) return 0;
  }
  return depth == 0u && transfers == 0;
}

/* --- work queue -------------------------------------------------------------------------------------------- */

typedef struct place {
  struct work_queue_s *queue;
  unsigned int number;
} place;

static void *work(void *argument) {
  const place at = *(place *)argument;
  struct work_queue_s *q = at.queue;
  unsigned int seen = 0u;
  free(argument);
  while (atomic_load(&q->killed) == 0u) {
    if (atomic_load(&q->number) == seen) {
      hex_pause();
      continue;
    }
    seen++;
    if (at.number < q->jobs) q->func(q->jobs, at.number, q->data);
    atomic_fetch_sub(&q->running, 1u);
  }
  return NULL;
}

bool work_queue_run(work_queue_t q, work_queue_func_t func, void *data, unsigned int n) {
  if (n > q->count) return false;
  q->func = func;
  q->data = data;
  q->jobs = n;
  atomic_store(&q->running, q->count - 1u);
  atomic_fetch_add(&q->number, 1u);
  func(n, 0u, data);
  while (atomic_load(&q->running) > 0u) hex_pause();
  return true;
}

/* --- HMX queue --------------------------------------------------------------------------------------------- */

static void *work_hmx(void *argument) {
  struct hmx_queue_s *q = (struct hmx_queue_s *)argument;
  while (atomic_load(&q->killed) == 0u) {
    const unsigned int k = atomic_load(&q->finished);
    if (k == atomic_load(&q->pushed)) {
      hex_pause();
      continue;
    }
    htp_trace_event_start(q->trace, HTP_TRACE_EVT_HMX_COMP, (uint16_t)(k % JOBS));
    q->jobs[k % JOBS].func(q->jobs[k % JOBS].data);
    htp_trace_event_stop(q->trace, HTP_TRACE_EVT_HMX_COMP, (uint16_t)(k % JOBS));
    atomic_store(&q->finished, k + 1u);
  }
  return NULL;
}

struct hmx_queue_desc hmx_queue_make_desc(hmx_queue_func func, void *data) {
  const struct hmx_queue_desc d = {func, data};
  return d;
}

bool hmx_queue_push(hmx_queue_t q, struct hmx_queue_desc d) {
  const unsigned int k = atomic_load(&q->pushed);
  if (k - q->popped >= JOBS - 1u) return false;
  q->jobs[k % JOBS] = d;
  atomic_store(&q->pushed, k + 1u);
  return true;
}

struct hmx_queue_desc hmx_queue_pop(hmx_queue_t q) {
  if (q->popped == atomic_load(&q->pushed)) return hmx_queue_make_desc(NULL, NULL);
  while (atomic_load(&q->finished) == q->popped) hex_pause();
  return q->jobs[q->popped++ % JOBS];
}

/* --- DMA queues -------------------------------------------------------------------------------------------- */

static uint64_t draw(engine *e, uint64_t below) {
  e->chance ^= e->chance << 13;
  e->chance ^= e->chance >> 7;
  e->chance ^= e->chance << 17;
  return e->chance % below;
}

dma_ptr dma_make_ptr(void *dst, const void *src) {
  const dma_ptr p = {dst, src};
  return p;
}

bool dma_queue_empty(dma_queue *q) { return q->ring->push_idx == q->ring->pop_idx; }

uint32_t dma_queue_depth(dma_queue *q) { return (q->ring->push_idx - q->ring->pop_idx) & q->ring->idx_mask; }

bool dma_queue_push(dma_queue *q, dma_ptr dptr, size_t dst_stride, size_t src_stride, size_t row_size, size_t nrows) {
  engine *e = (engine *)(void *)q;
  dma_ring *r = q->ring;
  move *m = &e->moves[r->push_idx];
  if (((r->push_idx + 1u) & r->idx_mask) == r->pop_idx) return false;
  mine = e;
  m->at = dptr;
  m->to_stride = dst_stride;
  m->from_stride = src_stride;
  m->row_bytes = row_size;
  m->rows = nrows;
  m->number = atomic_fetch_add(&pushed, 1u) + 1u;
  m->due_ns = now() + draw(e, with.delay_ns + 1u);
  r->desc[r->push_idx].done = 0u;
  htp_trace_event_start(r->trace, HTP_TRACE_EVT_DMA, (uint16_t)r->push_idx);
  r->push_idx = (r->push_idx + 1u) & r->idx_mask;
  return true;
}

dma_ptr dma_queue_pop(dma_queue *q) {
  dma_ring *r = q->ring;
  const dma_ptr at = ((engine *)(void *)q)->moves[r->pop_idx].at;
  while (r->desc[r->pop_idx].done == 0u) (void)dmpoll();
  htp_trace_event_stop(r->trace, HTP_TRACE_EVT_DMA, (uint16_t)r->pop_idx);
  r->pop_idx = (r->pop_idx + 1u) & r->idx_mask;
  return at;
}

/* Do one transfer of this thread's engine whose time has come. */
unsigned int dmpoll(void) {
  dma_ring *r = mine == NULL ? NULL : &mine->ring;
  uint32_t k, found = UINT32_MAX, candidates = 0u;
  size_t row;
  const move *m;
  if (r == NULL) return 0u;
  for (k = r->pop_idx; k != r->push_idx && !mine->broken; k = (k + 1u) & r->idx_mask) {
    if (r->desc[k].done || mine->moves[k].number == with.lost || mine->moves[k].due_ns > now()) continue;
    if (draw(mine, ++candidates) == 0u) found = k;
  }
  if (found != UINT32_MAX) {
    m = &mine->moves[found];
    mine->broken = m->number == with.failing;
    for (row = m->rows; row-- > 0u && !mine->broken;)
      memcpy((unsigned char *)m->at.dst + row * m->to_stride, (const unsigned char *)m->at.src + row * m->from_stride,
             m->row_bytes);
    if (!mine->broken) r->desc[found].done = 1u;
  }
  return mine->broken ? 2u : dma_queue_empty(&mine->queue) ? 0u : 1u;
}

/* --- opening and closing ----------------------------------------------------------------------------------- */

static engine *engine_of(struct htp_context *ctx, uint32_t number) {
  engine *e = (engine *)calloc(1u, sizeof *e);
  if (e == NULL) return NULL;
  e->queue.ring = &e->ring;
  e->ring.capacity = with.ring == 0u ? 256u : with.ring;
  e->ring.idx_mask = e->ring.capacity - 1u;
  e->ring.trace = &ctx->trace[number];
  e->ring.desc = (dma_descriptor_2d *)calloc(e->ring.capacity, sizeof(dma_descriptor_2d));
  e->moves = (move *)calloc(e->ring.capacity, sizeof(move));
  e->chance = (with.seed * 64u + number + 1u) * UINT64_C(0x9E3779B97F4A7C15);
  return e;
}

int ggml_queues_open(struct htp_context *ctx, const ggml_options *options) {
  uint32_t k;
  with = *options;
  memset(ctx, 0, sizeof *ctx);
  ctx->n_threads = with.threads;
  ctx->work_queue = (work_queue_t)calloc(1u, sizeof *ctx->work_queue);
  if (ctx->work_queue == NULL) return 0;
  ctx->work_queue->count = with.threads;
  for (k = 0u; k <= HTP_MAX_NTHREADS; k++) {
    ctx->trace[k].events = (struct htp_trace_desc *)calloc(EVENTS, sizeof(struct htp_trace_desc));
    ctx->trace[k].max_events = EVENTS;
    if (ctx->trace[k].events == NULL) return 0;
  }
  for (k = 0u; k < with.threads; k++) {
    place *at = (place *)malloc(sizeof *at);
    ctx->dma[k] = (dma_queue *)(void *)engine_of(ctx, k);
    if (ctx->dma[k] == NULL || at == NULL) return 0;
    at->queue = ctx->work_queue;
    at->number = k;
    if (k == 0u)
      free(at);
    else if (pthread_create(&ctx->work_queue->threads[k], NULL, work, at) != 0)
      return 0;
  }
  if (with.without_hmx) return 1;
  ctx->hmx_queue = (hmx_queue_t)calloc(1u, sizeof *ctx->hmx_queue);
  if (ctx->hmx_queue == NULL) return 0;
  ctx->hmx_queue->trace = &ctx->trace[HTP_MAX_NTHREADS];
  return pthread_create(&ctx->hmx_queue->thread, NULL, work_hmx, ctx->hmx_queue) == 0;
}

void ggml_queues_close(struct htp_context *ctx) {
  uint32_t k;
  atomic_store(&ctx->work_queue->killed, 1u);
  for (k = 1u; k < ctx->n_threads; k++) (void)pthread_join(ctx->work_queue->threads[k], NULL);
  for (k = 0u; k < ctx->n_threads; k++) {
    engine *e = (engine *)(void *)ctx->dma[k];
    free(e->ring.desc);
    free(e->moves);
    free(e);
  }
  free(ctx->work_queue);
  if (ctx->hmx_queue != NULL) {
    atomic_store(&ctx->hmx_queue->killed, 1u);
    (void)pthread_join(ctx->hmx_queue->thread, NULL);
    free(ctx->hmx_queue);
  }
  for (k = 0u; k <= HTP_MAX_NTHREADS; k++) free(ctx->trace[k].events);
}

const char *ggml_queues_left(struct htp_context *ctx) {
  uint32_t k;
  for (k = 0u; k < ctx->n_threads; k++)
    if (!dma_queue_empty(ctx->dma[k])) return "a DMA queue is not empty";
  if (ctx->hmx_queue != NULL && ctx->hmx_queue->popped != atomic_load(&ctx->hmx_queue->pushed))
    return "a job of HMX was not popped";
  for (k = 0u; k <= HTP_MAX_NTHREADS; k++)
    if (!in_pairs(&ctx->trace[k])) return "a trace does not come in pairs";
  return NULL;
}
