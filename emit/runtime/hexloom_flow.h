/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that compute nothing, but see every wrong order. A buffer is cut into stripes, one for each slice of each
 * task that uses it. A slice checks the stripes of those that must have come before it, then writes its own; so it
 * sees who has not written yet, and who has overwritten what is still needed. Transfers move their stripes by DMA.
 * What must be seen is told by a file of 32-bit words that is made from the problem, not from the tables:
 *
 *   buffers, operands, seen stripes: how many there are
 *   for each buffer: its stripes; the one that is there from the start, or HEXLOOM_NONE; 1 if it is kept to the end
 *   for each operand: its first stripe, or HEXLOOM_NONE if it writes none; first seen stripe; how many it sees
 *   seen stripes
 */
#ifndef HEXLOOM_FLOW_H
#define HEXLOOM_FLOW_H

#include "hexloom_runtime.h"

typedef struct hexloom_flow hexloom_flow;

/* What was wrong first: a task did not find in a buffer what should have been there. */
typedef struct hexloom_flow_fault {
  uint32_t count;
  uint32_t task; /* HEXLOOM_NONE: after the last one */
  uint32_t buffer;
  uint32_t stripe;
} hexloom_flow_fault;

/* NULL when there is no memory, or the words do not fit the tables. They must stay. `plain` are the tables, if they
 * have loops with all laps written out: the task of a call has its serial number there, and its operands must lie where
 * they do there. `delay_us`: most of a random delay of each kernel. */
hexloom_flow *hexloom_flow_open(const hexloom_view *plain, const hexloom_memory *memories, const uint32_t *words,
                                size_t count, uint64_t seed, uint32_t delay_us);
void hexloom_flow_close(hexloom_flow *flow);

/* Before and after each execution; `executed` is how often it was executed before. */
void hexloom_flow_begin(hexloom_flow *flow, uint32_t executed);
void hexloom_flow_end(hexloom_flow *flow);

hexloom_flow_fault hexloom_flow_fault_of(const hexloom_flow *flow);

/* The kernel of every stage; its `user` is the flow. */
int hexloom_flow_kernel(const hexloom_call *call);

#endif /* HEXLOOM_FLOW_H */
