/* SPDX-License-Identifier: Apache-2.0
 *
 * A port for Hexagon under QuRT: its threads and futexes, HVX and HMX taken by the thread that uses them, user DMA, the
 * 19.2 MHz timer. It is compiled against declarations of these calls, and has never run on a device: what calls look
 * like is taken from public sources, named beside each use.
 *
 * Clocks, corners and the votes for HVX and HMX are the caller's, who has them already where a session is open. Without
 * a vote for HMX its instructions hang.
 */
#ifndef HEXLOOM_QURT_H
#define HEXLOOM_QURT_H

#include <stddef.h>

#include "hexloom_port.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEXLOOM_QURT_WORKERS (16u)
#define HEXLOOM_QURT_RING (256u) /* descriptors of one worker */

typedef struct hexloom_qurt_options {
  uint32_t workers;
  void *stacks;         /* workers + 1 times stack_bytes, aligned to 8: the last one is that of the watchdog */
  size_t stack_bytes;   /* 16384 is enough for the runtime; kernels need what they need */
  uint16_t priority;    /* of all threads; that of the caller is usual */
  uint16_t lock_hvx;    /* 1: workers of HVX queues call qurt_hvx_lock; 0: contexts attach at their first use */
  uint32_t compute_res; /* what hexloom_qurt_vtcm() gave: HMX is locked with it; 0: there are no HMX queues */
  uint32_t through_l2;  /* 0: transfers go past it, as plans assume, which clean and drop lines themselves */
} hexloom_qurt_options;

/* Fill in a port; there is one at a time. 0, or what a call of the system returned. */
int hexloom_qurt_open(hexloom_port *port, const hexloom_qurt_options *options);
void hexloom_qurt_close(hexloom_port *port);

/* Acquire `bytes` of VTCM in one page, and HMX with it where wanted. Returns the id of the resource, 0 when there is
 * none; give it back with hexloom_qurt_release(). Content is lost between two of them. */
uint32_t hexloom_qurt_vtcm(uint32_t bytes, int with_hmx, void **base);
void hexloom_qurt_release(uint32_t compute_res);

/* Write dirty lines of a range back, or write back and drop them: for tasks that are cache maintenance. */
int hexloom_qurt_clean(void *start, size_t bytes);
int hexloom_qurt_invalidate(void *start, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* HEXLOOM_QURT_H */
