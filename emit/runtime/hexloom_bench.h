/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures on a machine what nobody has published for it: what issuing a transfer costs, what each of its rows, a
 * hand-over between two threads that look or that sleep, starting and joining a thread. It uses a port and nothing
 * else, so it runs wherever the runtime does. The first thing to run on a device.
 */
#ifndef HEXLOOM_BENCH_H
#define HEXLOOM_BENCH_H

#include <stddef.h>

#include "hexloom_port.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One number: nanoseconds per step, the median of the rounds and their extremes. */
typedef struct hexloom_measure {
  const char *name;
  double median_ns;
  double low_ns;
  double high_ns;
  uint32_t steps;
} hexloom_measure;

#define HEXLOOM_MEASURES (7u)

/* Measure with workers 0 and 1 of a port. `from` is in DDR and `to` where transfers go (VTCM), `bytes` of each, at
 * least 262144. `rounds`, at most 64, of each measurement. Returns how many were made, fewer where the port has no
 * transfers; 0 if something failed. */
uint32_t hexloom_bench(const hexloom_port *port, void *to, const void *from, size_t bytes, uint32_t rounds,
                       hexloom_measure measures[HEXLOOM_MEASURES]);

#ifdef __cplusplus
}
#endif

#endif /* HEXLOOM_BENCH_H */
