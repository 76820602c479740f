/* SPDX-License-Identifier: Apache-2.0
 *
 * All calls are used as in ggml-org/ggml d99724f2, src/ggml-hexagon/htp:
 *   work_queue_run(queue, func, data, n)           work-queue.h; matmul-ops.c, unary-ops.c. The caller is job 0
 *   hmx_queue_push(queue, hmx_queue_make_desc(..)) hmx-queue.h; flash-attn-ops.c. One producer, popped in order
 *   hmx_queue_pop(queue)                           hmx-queue.h; flash-attn-ops.c. Waits until the job is done
 *   dma_queue_push(queue, dma_make_ptr(..), ..)    dma-queue.h; matmul-ops.c. False: the ring is full
 *   dma_queue_pop, dma_queue_empty, dma_queue_depth, dmpoll, and the ring's `desc` and `done`  dma-queue.h
 *   htp_trace_event_start, htp_trace_event_stop    hex-profile.h; matmul-ops.c
 *   hex_pause, hex_l2flush(start, bytes)           hex-utils.h; htp-tensor.c. Writes lines back and drops them
 *   HAP_perf_get_qtimer_count()                    cumsum-ops.c; ticks of 19.2 MHz
 * DMA queues: those of `ctx->dma`, which go past the caches; the thread that pushes is the one that polls. What dmpoll
 * says in its two lowest bits (2: an error) is from apache/tvm, src/runtime/hexagon/hexagon_user_dma_registers.h.
 */
#include "hexloom_ggml.h"

#include <stdatomic.h>

#include <HAP_perf.h>

#include "htp-ctx.h"

enum { EMPTY, FULL, DONE }; /* a seat */

#define POLL_ERROR (2u)
#define MOST_ROWS (65535u)
#define MOST_LENGTH (0xFFFFFFu)
#if defined(__HVX_ARCH__) && __HVX_ARCH__ >= 75
#define MOST_FIELD MOST_LENGTH
#else
#define MOST_FIELD (65535u)
#endif
/* ggml traces an HMX job with its place in the queue, which is small; tasks within it are told apart by this bit. */
#define WITHIN_JOB (0x4000u)
#define MOST_TILE (0x3FFFu)

static uint32_t look(uint32_t *word) {
  return atomic_load_explicit((_Atomic uint32_t *)(void *)word, memory_order_acquire);
}

static void put(uint32_t *word, uint32_t value) {
  atomic_store_explicit((_Atomic uint32_t *)(void *)word, value, memory_order_release);
}

static hexloom_ggml_seat *seat_of(void *context, uint32_t worker) {
  hexloom_ggml *ggml = (hexloom_ggml *)context;
  return &ggml->seats[ggml->seat_of[worker]];
}

static dma_queue *queue_of(void *context, uint32_t worker) {
  const hexloom_ggml *ggml = (const hexloom_ggml *)context;
  return ggml->ctx->dma[ggml->seat_of[worker]];
}

/* --- clock and sleep --------------------------------------------------------------------------------------- */

static uint64_t now_ns(void *context) {
  (void)context;
  return HAP_perf_get_qtimer_count() * 625u / 12u;
}

static void relax(void *context, uint32_t round) {
  (void)context;
  (void)round;
  hex_pause();
}

/* Threads of a batch do not sleep in ggml either: who wakes them need only write the word. */
static void sleep_on(void *context, uint32_t *word, uint32_t seen, uint64_t most_ns) {
  const uint64_t limit = now_ns(context) + most_ns;
  while (look(word) == seen && now_ns(context) < limit) hex_pause();
}

static void wake(void *context, uint32_t *word) {
  (void)context;
  (void)word;
}

/* --- threads ----------------------------------------------------------------------------------------------- */

static void take_seat(hexloom_ggml_seat *seat) {
  seat->body(seat->argument);
  put(&seat->state, DONE);
}

/* A job of the HMX queue. */
static void ride_hmx(void *data) { take_seat((hexloom_ggml_seat *)data); }

/* A job of the work queue: the first one executes the tables, all others do what it gives them until it is over. */
static void ride(unsigned int count, unsigned int number, void *data) {
  hexloom_ggml *ggml = (hexloom_ggml *)data;
  hexloom_ggml_seat *seat = &ggml->seats[number];
  uint32_t over = 0u;
  (void)count;
  if (number == 0u) {
    ggml->code = hexloom_execute(ggml->run);
    hexloom_close(ggml->run); /* nobody stays in a queue of ggml */
    put(&ggml->over, 1u);
    return;
  }
  while (over == 0u) {
    over = look(&ggml->over); /* before the seat: what was given before it was over is seen */
    if (look(&seat->state) == FULL)
      take_seat(seat);
    else
      hex_pause();
  }
}

static int start(void *context, uint32_t worker, void (*body)(void *argument), void *argument) {
  hexloom_ggml *ggml = (hexloom_ggml *)context;
  const uint32_t number = ggml->seat_of[worker];
  hexloom_ggml_seat *seat = &ggml->seats[number];
  if (number == 0u) return -1; /* the main queue of the setup is another one than that of the caller */
  seat->body = body;
  seat->argument = argument;
  put(&seat->state, FULL);
  if (number < ggml->threads) return 0;
  return hmx_queue_push(ggml->ctx->hmx_queue, hmx_queue_make_desc(ride_hmx, seat)) ? 0 : -2;
}

static void join(void *context, uint32_t worker) {
  const hexloom_ggml *ggml = (const hexloom_ggml *)context;
  hexloom_ggml_seat *seat = seat_of(context, worker);
  if (ggml->seat_of[worker] >= ggml->threads) (void)hmx_queue_pop(ggml->ctx->hmx_queue);
  while (look(&seat->state) != DONE) hex_pause();
  put(&seat->state, EMPTY);
}

/* --- transfers --------------------------------------------------------------------------------------------- */

/* Whether one descriptor takes a transfer: of a longer one dma_queue_push() makes several before v75, and waits. */
static int fits(const hexloom_transfer *t) {
  const int is_dense = t->rows <= 1u || (t->row_bytes == t->to_stride && t->row_bytes == t->from_stride);
  if (t->rows <= MOST_ROWS && t->row_bytes <= MOST_FIELD &&
      (t->rows <= 1u || (t->to_stride <= MOST_FIELD && t->from_stride <= MOST_FIELD)))
    return 1;
  return MOST_FIELD < MOST_LENGTH && is_dense && (uint64_t)t->row_bytes * t->rows <= MOST_LENGTH;
}

/* Give places of the ring back, oldest first; -3 when the engine has stopped with an error. */
static int retire(dma_queue *queue) {
  const dma_ring *ring = queue->ring;
  if ((dmpoll() & 3u) == POLL_ERROR) return -3;
  while (!dma_queue_empty(queue) && ring->desc[ring->pop_idx].done) (void)dma_queue_pop(queue);
  return 0;
}

static int dma_push(void *context, uint32_t worker, const hexloom_transfer *t, uint32_t *ticket) {
  dma_queue *queue = queue_of(context, worker);
  hexloom_ggml_seat *seat = seat_of(context, worker);
  const int is_2d = t->rows > 1u;
  if (!fits(t)) return -2; /* longer than its fields: the kernel has to push it in parts */
  if (!dma_queue_push(queue, dma_make_ptr(t->to, t->from), is_2d ? t->to_stride : t->row_bytes,
                      is_2d ? t->from_stride : t->row_bytes, t->row_bytes, t->rows)) {
    const int answer = retire(queue);
    return answer != 0 ? answer : HEXLOOM_RING_FULL;
  }
  *ticket = seat->ticket++;
  return 0;
}

static int dma_done(void *context, uint32_t worker, uint32_t ticket) {
  dma_queue *queue = queue_of(context, worker);
  const dma_ring *ring = queue->ring;
  const uint32_t behind = seat_of(context, worker)->ticket - ticket; /* 1: the last one that was pushed */
  const int answer = retire(queue);
  if (answer != 0) return answer;
  if (behind > dma_queue_depth(queue)) return 1;
  return ring->desc[(ring->push_idx - behind) & ring->idx_mask].done ? 1 : 0;
}

/* What is on its way comes to its end, for ggml pushes into the same ring afterwards. */
static int dma_drain(void *context, uint32_t worker, uint64_t most_ns) {
  dma_queue *queue = queue_of(context, worker);
  const uint64_t limit = now_ns(context) + most_ns;
  for (;;) {
    const int answer = retire(queue);
    if (answer != 0) return answer;
    if (dma_queue_empty(queue)) return 0;
    if (now_ns(context) >= limit) return -4;
    hex_pause();
  }
}

static int maintain(void *context, uint32_t kind, void *start_of, uint64_t bytes) {
  (void)context;
  (void)kind; /* one does for both: what it writes back, it drops */
  hex_l2flush(start_of, (size_t)bytes);
  return 0;
}

/* --- opening and executing --------------------------------------------------------------------------------- */

/* Give every queue a thread of ggml. */
static const char *seat_queues(hexloom_ggml *ggml, const hexloom_view *view) {
  const hexloom_queue *its;
  uint32_t q, hmx = HEXLOOM_NONE;
  for (q = 0u; q < view->header->queue_count; q++) {
    if (view->queues[q].kind == HEXLOOM_HMX) {
      if (hmx != HEXLOOM_NONE) return "there is more than one queue of HMX";
      hmx = q;
      continue;
    }
    if (ggml->threads == 0u) ggml->main_queue = q;
    ggml->seat_of[q] = ggml->threads++;
  }
  if (ggml->threads == 0u) ggml->threads = 1u; /* the caller, who only waits */
  if (ggml->threads > ggml->ctx->n_threads || ggml->threads >= HEXLOOM_GGML_THREADS)
    return "there are more queues than threads of the work queue";
  if (hmx == HEXLOOM_NONE) return NULL;
  if (ggml->ctx->hmx_queue == NULL) return "a queue is that of HMX, and this session has none";
  ggml->seat_of[hmx] = ggml->threads;
  its = &view->queues[hmx];
  if (its->entry_count > view->header->entry_count || its->first_entry > view->header->entry_count - its->entry_count)
    return "the queue of HMX is not in the tables"; /* they have not been checked yet */
  for (q = 0u; q < its->entry_count; q++)
    if (view->entries[its->first_entry + q].action == HEXLOOM_START ||
        view->entries[its->first_entry + q].action == HEXLOOM_WAIT)
      return "the queue of HMX has transfers, and its thread has no DMA queue";
  return NULL;
}

const char *hexloom_ggml_open(hexloom_ggml *ggml, hexloom_port *port, struct htp_context *ctx,
                              const hexloom_view *view) {
  uint32_t k;
  if (view->header->queue_count > HEXLOOM_GGML_QUEUES) return "there are more queues than 16";
  ggml->ctx = ctx;
  ggml->run = NULL;
  ggml->main_queue = HEXLOOM_NONE;
  ggml->threads = ggml->over = ggml->code = 0u;
  for (k = 0u; k < HEXLOOM_GGML_QUEUES; k++) ggml->seat_of[k] = 0u;
  for (k = 0u; k < HEXLOOM_GGML_THREADS; k++) ggml->seats[k].state = ggml->seats[k].ticket = 0u;
  port->context = ggml;
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
  return seat_queues(ggml, view);
}

uint32_t hexloom_ggml_execute(hexloom_ggml *ggml, hexloom_run *run) {
  ggml->run = run;
  put(&ggml->over, 0u);
  if (!work_queue_run(ggml->ctx->work_queue, ride, ggml, ggml->threads)) return HEXLOOM_NO_THREAD;
  while (hexloom_status_of(run)->stuck > 0u && hexloom_join(run) > 0u) hex_pause();
  return ggml->code;
}

int hexloom_ggml_status(const hexloom_status *status) {
  switch (status->code) {
    case HEXLOOM_OK:
      return HTP_STATUS_OK;
    case HEXLOOM_BAD_BINDING:
      return status->detail == 0 ? HTP_STATUS_VTCM_TOO_SMALL : HTP_STATUS_INVAL_PARAMS; /* 0 is the scratchpad */
    case HEXLOOM_BAD_PARAMETER:
    case HEXLOOM_BAD_SETUP:
      return HTP_STATUS_INVAL_PARAMS;
    default:
      return HTP_STATUS_INTERNAL_ERR;
  }
}

int hexloom_ggml_kernel(const hexloom_call *call) {
  const hexloom_ggml_stage *stage = (const hexloom_ggml_stage *)call->user;
  hexloom_ggml *ggml = stage->ggml;
  const uint32_t seat = ggml->seat_of[call->queue];
  const int is_hmx = seat >= ggml->threads;
  struct htp_thread_trace *trace = &ggml->ctx->trace[is_hmx ? HTP_MAX_NTHREADS : seat];
  const uint16_t info = (uint16_t)(is_hmx ? WITHIN_JOB | (call->tile & MOST_TILE) : call->tile & 0x7FFFu);
  hexloom_call inner = *call;
  int answer;
  inner.user = stage->kernel.user;
  htp_trace_event_start(trace, stage->event, info);
  answer = stage->kernel.function(&inner);
  htp_trace_event_stop(trace, stage->event, info);
  return answer;
}
