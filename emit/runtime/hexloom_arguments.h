/* SPDX-License-Identifier: Apache-2.0
 *
 * What hexloom_host.h is told on its command line.
 */
#ifndef HEXLOOM_ARGUMENTS_H
#define HEXLOOM_ARGUMENTS_H

#include <stdint.h>

typedef struct hexloom_arguments {
  const char *tables, *flow, *trace, *numbers, *memory, *result, *plain, *parameters, *tensors;
  uint64_t runs, seed, delay_us, transfer_us, timeout_ms, spins, ring, records, stack, main_queue, prove, stay;
  uint64_t lost, failing, fail, silent, slow, slow_ms, slow_slice, too_short;
} hexloom_arguments;

/* 0 when an argument is not understood. */
int hexloom_read_arguments(hexloom_arguments *with, int argc, char **argv);

#endif /* HEXLOOM_ARGUMENTS_H */
