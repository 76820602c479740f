/* What hexloom_ggml.c uses of ggml-hexagon, as ggml-org/ggml d99724f2 declares it in src/ggml-hexagon/htp (htp-ctx.h,
 * work-queue.h, hmx-queue.h, dma-queue.h, hex-profile.h, hex-utils.h, htp-ops.h); what is inline there is a function
 * here. For compiling without that tree; tests/runtime/ggml_queues.c plays these queues on a host. */
#ifndef HTP_CTX_H
#define HTP_CTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTP_MAX_NTHREADS 10

enum htp_status {
  HTP_STATUS_OK = 1,
  HTP_STATUS_INTERNAL_ERR = 2,
  HTP_STATUS_NO_SUPPORT = 3,
  HTP_STATUS_INVAL_PARAMS = 4,
  HTP_STATUS_VTCM_TOO_SMALL = 5
};

enum htp_trace_event_id { HTP_TRACE_EVT_DMA = 0, HTP_TRACE_EVT_HVX_COMP = 20, HTP_TRACE_EVT_HMX_COMP = 40 };

struct htp_trace_desc {
  uint32_t cycles;
  uint16_t id;
  uint16_t info; /* bit 15: a stop */
};

struct htp_thread_trace {
  uint32_t count;
  uint32_t max_events;
  struct htp_trace_desc *events;
};

void htp_trace_event_start(struct htp_thread_trace *tr, uint16_t id, uint16_t info);
void htp_trace_event_stop(struct htp_thread_trace *tr, uint16_t id, uint16_t info);

typedef void (*work_queue_func_t)(unsigned int n, unsigned int i, void *);
typedef struct work_queue_s *work_queue_t;
bool work_queue_run(work_queue_t q, work_queue_func_t func, void *data, unsigned int n);

typedef void (*hmx_queue_func)(void *);
typedef struct hmx_queue_s *hmx_queue_t;
struct hmx_queue_desc {
  hmx_queue_func func;
  void *data;
};
struct hmx_queue_desc hmx_queue_make_desc(hmx_queue_func func, void *data);
bool hmx_queue_push(hmx_queue_t q, struct hmx_queue_desc d);
struct hmx_queue_desc hmx_queue_pop(hmx_queue_t q);

typedef struct dma_descriptor_2d_s {
  uint32_t size : 31;
  uint32_t done : 1;
} dma_descriptor_2d;

typedef struct {
  void *dst;
  const void *src;
} dma_ptr;

typedef struct dma_ring_s {
  dma_descriptor_2d *desc;
  uint32_t push_idx;
  uint32_t pop_idx;
  uint32_t capacity;
  uint32_t idx_mask;
  struct htp_thread_trace *trace;
} dma_ring;

typedef struct dma_queue_s {
  dma_ring *ring;
} dma_queue;
typedef dma_queue *dma_queue_t;

dma_ptr dma_make_ptr(void *dst, const void *src);
bool dma_queue_push(dma_queue *q, dma_ptr dptr, size_t dst_stride, size_t src_stride, size_t row_size, size_t nrows);
dma_ptr dma_queue_pop(dma_queue *q);
bool dma_queue_empty(dma_queue *q);
uint32_t dma_queue_depth(dma_queue *q);
unsigned int dmpoll(void);

void hex_pause(void);
void hex_l2flush(void *addr, size_t size);

struct htp_context {
  dma_queue_t dma[HTP_MAX_NTHREADS];
  work_queue_t work_queue;
  hmx_queue_t hmx_queue;
  uint32_t n_threads;
  struct htp_thread_trace trace[HTP_MAX_NTHREADS + 1];
};

#endif
