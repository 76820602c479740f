/* SPDX-License-Identifier: Apache-2.0
 *
 * Executes hexloom's tables: one thread for each queue, which waits on counters, runs kernels and moves data. This
 * header is C99 and C++11, the runtime itself C11; both need nothing but a port.
 *
 *   hexloom_run *run = hexloom_bind(&setup, memory, bytes, &status);   -- checks everything once
 *   while (there_is_work) code = hexloom_execute(run);                 -- 0, or what hexloom_status_of(run) explains
 *   hexloom_close(run);
 *
 * Every queue has a thread, a detached one too; one of them may be the caller's. Every wait has a deadline. The first
 * thing that goes wrong is what the status says; then all workers stop, end their transfers, and are joined. A kernel
 * that never returns cannot be stopped: it is counted in `stuck`, and until hexloom_join() returns 0 its memory and the
 * run's must stay.
 */
#ifndef HEXLOOM_RUNTIME_H
#define HEXLOOM_RUNTIME_H

#include "hexloom_port.h"
#include "hexloom_tables.h"

#ifdef __cplusplus
extern "C" {
#endif

/* what can go wrong; `detail` in the status says more */
#define HEXLOOM_OK (0u)
#define HEXLOOM_BAD_TABLE (1u)    /* `problem` says what; detail: the number of the record */
#define HEXLOOM_BAD_SETUP (2u)    /* `problem` says what */
#define HEXLOOM_BAD_BINDING (3u)  /* detail: its number; seen and expected: bytes, or the rest of an alignment */
#define HEXLOOM_NO_KERNEL (4u)    /* a task whose stage has none */
#define HEXLOOM_NO_MEMORY (5u)    /* less than hexloom_run_bytes(), or not aligned to HEXLOOM_LINE */
#define HEXLOOM_NO_THREAD (6u)    /* the port could not start or enter one; detail: what it returned */
#define HEXLOOM_TIMEOUT (7u)      /* of a wait of `task`, for `event`, or if there is none for a transfer or a kernel */
#define HEXLOOM_KERNEL_ERROR (8u) /* detail: what the kernel returned */
#define HEXLOOM_DMA_ERROR (9u)    /* detail: what the port returned */
#define HEXLOOM_STUCK (10u)       /* of hexloom_execute: a kernel of the run before has not returned yet */
#define HEXLOOM_BAD_PARAMETER (11u) /* detail: its number; seen: its value; expected: the nearest one that is proven */

#define HEXLOOM_LINE (128u) /* bytes of a cache line; what different threads write lies on different ones */

typedef struct hexloom_run hexloom_run;

/* The first thing that went wrong. Fields that do not apply are HEXLOOM_NONE, numbers of records are in the tables. */
typedef struct hexloom_status {
  uint32_t code;
  uint32_t task;
  uint32_t queue;
  uint32_t event;
  uint64_t seen;     /* the counter of the event, and what was waited for */
  uint64_t expected;
  int32_t detail;
  uint32_t stuck;     /* workers that have not come back from a kernel */
  uint32_t undrained; /* workers whose transfers the port could not end */
  uint32_t executed;  /* how often the tables have come to their end since the last error */
  const char *problem; /* in words, or NULL */
} hexloom_status;

/* A memory that the tables call a binding. */
typedef struct hexloom_memory {
  void *base;
  uint64_t bytes;
} hexloom_memory;

/* What a kernel is told. Of a transfer it is called at the START, and calls hexloom_push() for each of its parts. */
typedef struct hexloom_call {
  hexloom_run *run;
  const hexloom_view *view;
  const hexloom_task *task;
  const hexloom_operand *operands; /* of the task */
  const hexloom_memory *memories;
  void *user; /* from its hexloom_kernel */
  uint32_t task_index;
  uint32_t queue;
  uint32_t slice;
  uint32_t executed;  /* how often the tables were executed before */
  uint32_t iteration; /* of the group of the task */
  uint32_t tile;
  uint32_t trips;     /* iterations of the group that are not left out; HEXLOOM_NONE: as many as laps make, or one */
  uint32_t serial;    /* the number that the task would have if all laps were written out; without loops task_index */
} hexloom_call;

/* Returns 0, or its own error. `function` and `user` belong to a stage. */
typedef struct hexloom_kernel {
  int (*function)(const hexloom_call *call);
  void *user;
} hexloom_kernel;

/* flags of a setup */
/* Prove at binding that no timing overwrites a live buffer; takes entries^2 bits. Of tables with loops only that all
 * laps come to their end: what their buffers share is proven where they are made. */
#define HEXLOOM_PROVE (1u)
#define HEXLOOM_STAY (2u)  /* threads stay between executions; they are joined after an error, and by hexloom_close() */

typedef struct hexloom_setup {
  hexloom_view view;
  const hexloom_port *port;
  const hexloom_memory *memories; /* one for each binding of the tables */
  uint32_t memory_count;
  const hexloom_kernel *kernels; /* one for each stage, in the order of the side-car */
  uint32_t kernel_count;
  uint64_t timeout_ns;    /* of every wait, and so longer than any kernel; 0: one second */
  uint32_t spins;         /* looks at a counter before its waiter sleeps */
  uint32_t trace_records; /* kept per worker; 0: no trace */
  const uint32_t *parameters; /* one for each parameter of the tables; NULL: all as usual */
  uint32_t parameter_count;
  uint32_t main_queue;    /* executed by who calls hexloom_execute(); HEXLOOM_NONE: by a thread, as all others */
  uint32_t flags;
} hexloom_setup;

/* phases of trace records */
#define HEXLOOM_TRACE_WAIT (1u)  /* for the events of a task */
#define HEXLOOM_TRACE_RUN (2u)   /* its kernel */
#define HEXLOOM_TRACE_START (3u) /* issuing its transfer */
#define HEXLOOM_TRACE_DONE (4u)  /* waiting for its transfer: the end is when that was seen */

typedef struct hexloom_record {
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t task;
  uint16_t phase;
  uint16_t slice;
  uint32_t executed;
  uint32_t serial; /* of the task, as kernels are told */
} hexloom_record;

/* What one worker noted. A full ring drops what comes after, and counts it. */
typedef struct hexloom_trace {
  uint64_t entered_ns; /* of the last execution */
  uint64_t left_ns;
  uint32_t count;
  uint32_t dropped;
  uint32_t capacity;
  uint32_t queue;
  const hexloom_record *records;
} hexloom_trace;

/* Let a view point into the canonical bytes of tables, aligned to 8. Returns what is wrong, or NULL. */
const char *hexloom_open(const void *bytes, size_t length, hexloom_view *view);

/* Bytes of memory for a run of this setup; 0 when its header is none, or too large for this machine. */
size_t hexloom_run_bytes(const hexloom_setup *setup);

/* Check everything and return the run, which lies in `memory`; NULL with the reason in `status`. The tables, the port,
 * and the arrays of the setup must stay. */
hexloom_run *hexloom_bind(const hexloom_setup *setup, void *memory, size_t bytes, hexloom_status *status);

/* Find parameters of tables for so many iterations of every group (HEXLOOM_NONE: as usual): as many laps as are needed,
 * where all groups fill them first. `parameters` has one place for each of the tables. */
hexloom_status hexloom_fit(const hexloom_view *view, const uint32_t *trips, uint32_t *parameters);

/* Execute the tables once and return the code of the status. After an error the next call begins anew. */
uint32_t hexloom_execute(hexloom_run *run);

/* Join the threads that stay; the next execution starts them again. Before the memory of the run is given back. */
void hexloom_close(hexloom_run *run);

/* Wait again for workers that are stuck in a kernel; return how many still are. */
uint32_t hexloom_join(hexloom_run *run);

const hexloom_status *hexloom_status_of(const hexloom_run *run);
const char *hexloom_code_name(uint32_t code);

/* The trace of a queue, and forgetting all that was traced; not while it is executed. */
hexloom_trace hexloom_trace_of(const hexloom_run *run, uint32_t queue);
void hexloom_trace_clear(hexloom_run *run);

/* --- for kernels --- */

/* Operand `number` of the task, in this iteration. */
static inline const hexloom_operand *hexloom_operand_of(const hexloom_call *call, uint32_t number) {
  const hexloom_operand *operand = &call->operands[number];
  if (operand->flags != HEXLOOM_OPERAND_RING) return operand;
  return &call->view->operands[operand->offset + call->iteration % operand->buffer];
}

/* Where operand `number` of the task lies. */
static inline void *hexloom_at(const hexloom_call *call, uint32_t number) {
  const hexloom_operand *operand = hexloom_operand_of(call, number);
  return (unsigned char *)call->memories[operand->binding].base + operand->offset;
}

/* Rows (HEXLOOM_TAIL_ROWS) or columns (HEXLOOM_TAIL_COLUMNS) that there are in this iteration: the last one of a group
 * may have less than all others; HEXLOOM_NONE where the tables have no such parameter. */
uint32_t hexloom_tail(const hexloom_call *call, uint32_t kind);

/* Push a part of the transfer. Returns 0, or what the kernel must return. */
int hexloom_push(const hexloom_call *call, const hexloom_transfer *transfer);

/* Say that a slice of a task with HEXLOOM_TASK_ASYNC has its result: once for each call of its kernel, by any thread.
 * The run must stay until this has returned. */
void hexloom_finish(hexloom_run *run, uint32_t task);

/* Whether something went wrong elsewhere, so that a long kernel may give up. */
int hexloom_stopped(const hexloom_run *run);

#ifdef __cplusplus
}
#endif

HEXLOOM_STATIC_CHECK(record_size, sizeof(hexloom_record) == 32u);
HEXLOOM_STATIC_CHECK(record_phase, offsetof(hexloom_record, phase) == 20u);
HEXLOOM_STATIC_CHECK(record_executed, offsetof(hexloom_record, executed) == 24u);

#endif /* HEXLOOM_RUNTIME_H */
