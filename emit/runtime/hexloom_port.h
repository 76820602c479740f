/* SPDX-License-Identifier: Apache-2.0
 *
 * What the runtime asks of a machine: a clock, threads, sleeping on a word, and transfers. C99 that is also C++11.
 *
 * A port fills in a hexloom_port. Every function gets its `context`. Functions that return int return 0 when all went
 * well, unless they say otherwise. A worker is the thread of one queue and has the queue's number.
 */
#ifndef HEXLOOM_PORT_H
#define HEXLOOM_PORT_H

#include <stdint.h>

/* One transfer of `rows` rows. */
typedef struct hexloom_transfer {
  void *to;
  const void *from;
  uint32_t row_bytes;
  uint32_t rows;
  uint32_t to_stride; /* bytes from the start of a row to that of the next */
  uint32_t from_stride;
} hexloom_transfer;

#define HEXLOOM_RING_FULL (1) /* of dma_push: not taken, ask again */

typedef struct hexloom_port {
  void *context;
  uint64_t (*now_ns)(void *context); /* never goes back */

  /* Between two looks at something that has not happened yet; `round` counts the looks of one wait. */
  void (*relax)(void *context, uint32_t round);

  /* Sleep while *word is `seen`, at most so long; may return early. What is written before wake(word) is seen by who
   * was woken, and who finds another value in *word does not sleep. */
  void (*sleep)(void *context, uint32_t *word, uint32_t seen, uint64_t most_ns);
  void (*wake)(void *context, uint32_t *word); /* all that sleep on it */

  int (*start)(void *context, uint32_t worker, void (*body)(void *argument), void *argument);
  void (*join)(void *context, uint32_t worker); /* its body has returned or is about to */

  /* Called by the thread of a worker before and after its queue, of `kind` HEXLOOM_HMX and so on; may be NULL. */
  int (*enter)(void *context, uint32_t worker, uint32_t kind);
  void (*leave)(void *context, uint32_t worker, uint32_t kind);

  /* The ring of a worker; only its own thread calls these. Tickets of a worker count up by one, and wrap. Transfers
   * may be done in any order. What is done leaves its place to the next one, seen or not: plans have more under
   * way than they look at. NULL where no table has transfers. */
  int (*dma_push)(void *context, uint32_t worker, const hexloom_transfer *transfer, uint32_t *ticket);
  int (*dma_done)(void *context, uint32_t worker, uint32_t ticket); /* 1: done; 0: not yet; below 0: failed */
  /* End or abandon all transfers of a worker. When it returns 0, no transfer touches memory any more. */
  int (*dma_drain)(void *context, uint32_t worker, uint64_t most_ns);

  /* Write lines back (HEXLOOM_CLEAN), or write back and drop them (HEXLOOM_INVALIDATE). NULL: kernels do that. */
  int (*maintain)(void *context, uint32_t kind, void *start, uint64_t bytes);
} hexloom_port;

#endif /* HEXLOOM_PORT_H */
