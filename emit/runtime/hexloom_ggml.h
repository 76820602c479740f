/* SPDX-License-Identifier: Apache-2.0
 *
 * A port that rides on the queues of ggml-hexagon, inside one of its ops: the caller and the workers of its work queue
 * walk the queues of the plan, its HMX queue walks that of HMX, and transfers go over its DMA queues. It starts no
 * thread, takes no lock, and leaves HMX, HVX contexts, power and traces as ggml has them.
 *
 *   problem = hexloom_ggml_open(&ggml, &port, ctx, &view);   -- NULL, or why these tables cannot ride
 *   setup.port = &port; setup.main_queue = ggml.main_queue;  -- then hexloom_bind() as ever
 *   code = hexloom_ggml_execute(&ggml, run);                 -- in place of hexloom_execute()
 *
 * It is for the thread that processes ggml's ops, between its own uses of these queues. All threads spin, as ggml's do:
 * the machine has one more hardware thread than the work queue. Where a kernel never returns ggml's queues wait for it
 * for ever, as they do for one of ggml's own; all other waits have their deadline.
 *
 * Made after ggml-org/ggml d99724f2; it has not run on a device yet.
 */
#ifndef HEXLOOM_GGML_H
#define HEXLOOM_GGML_H

#include "hexloom_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEXLOOM_GGML_THREADS (11u) /* ggml's most of its work queue, and that of HMX */
#define HEXLOOM_GGML_QUEUES (16u)

/* What a thread of ggml is to execute; those of different threads are a line apart. */
typedef struct hexloom_ggml_seat {
  uint32_t state;
  uint32_t ticket; /* of the next transfer */
  void (*body)(void *argument);
  void *argument;
  unsigned char pad[HEXLOOM_LINE - 2u * sizeof(uint32_t) - 2u * sizeof(void *)];
} hexloom_ggml_seat;

typedef struct hexloom_ggml {
  struct htp_context *ctx;
  hexloom_run *run;
  uint32_t main_queue; /* the one of the caller: for the setup; HEXLOOM_NONE where all work is that of HMX */
  uint32_t threads;    /* of the work queue that take part, the caller's counted */
  uint32_t over;
  uint32_t code;
  uint32_t seat_of[HEXLOOM_GGML_QUEUES]; /* of a queue: its thread */
  hexloom_ggml_seat seats[HEXLOOM_GGML_THREADS];
} hexloom_ggml;

/* Fill in a port for tables, and say which queue is the caller's. Returns why ggml's queues cannot take them, or NULL.
 * `ggml` stays where it is. */
const char *hexloom_ggml_open(hexloom_ggml *ggml, hexloom_port *port, struct htp_context *ctx,
                              const hexloom_view *view);

/* Execute the tables once, and return the code of the status. No thread of ggml is in a kernel any more when it
 * returns. HEXLOOM_NO_THREAD without a status: the work queue has not taken it. */
uint32_t hexloom_ggml_execute(hexloom_ggml *ggml, hexloom_run *run);

/* The answer of an op of ggml, an `enum htp_status`: a scratchpad too small is what its host falls back on. */
int hexloom_ggml_status(const hexloom_status *status);

/* A stage whose tasks stand in ggml's trace: the user of hexloom_ggml_kernel. `event` is one of its
 * `enum htp_trace_event_id`. Transfers are traced by its DMA queues. */
typedef struct hexloom_ggml_stage {
  hexloom_ggml *ggml;
  hexloom_kernel kernel;
  uint16_t event;
} hexloom_ggml_stage;

int hexloom_ggml_kernel(const hexloom_call *call);

#ifdef __cplusplus
}
#endif

#endif /* HEXLOOM_GGML_H */
