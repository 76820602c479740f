/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs tables on this host and says in one line of JSON how that went: those of a file, or those that the caller has
 * compiled in. Arguments are name=value:
 *
 *   tables=FILE   canonical bytes; not where tables are compiled in
 *   plain=FILE    those with all laps written out, where tables have loops and kernels do something
 *   parameters=N,N  one for each parameter of the tables
 *   flow=FILE     what each task must see (hexloom_flow.h); without it kernels do nothing
 *   numbers=FILE  kernels compute (hexloom_numeric.h) on memory=FILE, which is written to result=FILE at the end
 *   tensors=N:N,N:N  the last bindings are parts of that memory: offset and bytes of each
 *   trace=FILE    one line for each record: queue serial slice phase executed start_ns end_ns
 *   runs=N seed=N delay_us=N transfer_us=N timeout_ms=N spins=N ring=N records=N stack=BYTES main=QUEUE|none prove=1
 *   stay=1        threads stay between the executions
 *   lost=N        the n-th transfer is never done; failing=N: it fails
 *   fail=TASK     its kernel returns 7; silent=TASK: a late task that never has its result
 *   slow=TASK:MS[:SLICE]  its kernel (that slice of it) takes so long, deaf to what happens elsewhere
 *   short=BINDING its memory has a byte too few
 */
#ifndef HEXLOOM_HOST_H
#define HEXLOOM_HOST_H

#include "hexloom_tables.h"

/* 0: all executed and nothing wrong was seen; 1: not; 2: not understood. `view` may be NULL. */
int hexloom_host(const hexloom_view *view, int argc, char **argv);

#endif /* HEXLOOM_HOST_H */
