/* Queues like those of ggml-hexagon, played by threads of this host. */
#ifndef GGML_QUEUES_H
#define GGML_QUEUES_H

#include "htp-ctx.h"

typedef struct ggml_options {
  uint32_t threads;  /* of the work queue, the caller's counted */
  uint32_t ring;     /* places of a DMA queue, a power of two of which one stays free; 0: 256 */
  uint64_t seed;     /* of the order of transfers */
  uint64_t delay_ns; /* the most that one takes */
  uint32_t lost;     /* the how-manieth transfer is never done; 0: none */
  uint32_t failing;  /* the how-manieth one fails, and with it its engine; 0: none */
  uint32_t without_hmx;
} ggml_options;

/* 0 when there is no memory or no thread. */
int ggml_queues_open(struct htp_context *ctx, const ggml_options *options);
void ggml_queues_close(struct htp_context *ctx);

/* What ggml's other ops would find wrong after an op; NULL when queues are empty and traces come in pairs. */
const char *ggml_queues_left(struct htp_context *ctx);

#endif
