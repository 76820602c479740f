/* SPDX-License-Identifier: Apache-2.0
 *
 * A port for hosts: POSIX threads, futexes on Linux (elsewhere short sleeps), and a DMA engine played by a thread. It
 * does transfers in random order after random delays, and its owner sees that one is done only when it asks: what leans
 * on their order fails here.
 */
#ifndef HEXLOOM_POSIX_H
#define HEXLOOM_POSIX_H

#include <stddef.h>

#include "hexloom_port.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hexloom_posix_options {
  uint32_t workers;      /* queues of the tables */
  uint32_t ring_entries; /* of each worker; 0: 256 */
  uint64_t seed;         /* of order and delays */
  uint32_t most_delay_us; /* of a transfer */
  uint32_t lost;         /* the how-manieth transfer is never done; 0: none */
  uint32_t failing;      /* the how-manieth transfer fails; 0: none */
  size_t stack_bytes;    /* of a worker; 0: the system's default */
} hexloom_posix_options;

/* Fill in a port; 0, or an error number. */
int hexloom_posix_open(hexloom_port *port, const hexloom_posix_options *options);

/* Give back all of it. All workers have been joined. */
void hexloom_posix_close(hexloom_port *port);

#ifdef __cplusplus
}
#endif

#endif /* HEXLOOM_POSIX_H */
