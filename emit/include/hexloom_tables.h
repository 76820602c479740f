/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of hexloom's tables: what every thread of a device executes in which order, what it waits for, and
 * where buffers lie. C99 that is also C++11.
 *
 * All fields are unsigned and little endian. There are no pointers in a table: memory is a binding, whose base the
 * caller gives, and an offset. A reserved field is zero.
 *
 * How a runtime reads them. Each queue belongs to one thread, which executes its entries in order:
 *   RUN    wait for the event of the task, if it names one; run slice `slice` of `slice_count`; then add 1 to its
 *          trigger event.
 *   START  wait for the event of the task, if it names one; issue its transfer.
 *   WAIT   block until that transfer is done; then add 1 to its trigger event.
 *   AFTER  wait for an event that a task needs beside its own: the one of the next RUN or START, which follows at once.
 * So an entry comes to two cache lines at most: its own, and that of its task. A wait is over once the counter of
 * its event has reached the threshold. The counters start at zero; in run n of the same tables, counted from 0,
 * without a reset, the threshold is n * (triggers of a run) + threshold, compared so that the counter may wrap. A
 * task with HEXLOOM_TASK_ASYNC triggers when its result exists, not when its kernel returns. Transfers may be done
 * in any order; only WAIT says that one is.
 *
 * Loops. The entries of a queue that belong to a loop, its body there, are executed again and again, so many laps as
 * the parameter of the loop says; all queues do equally many. Every queue counts its own laps of a loop: none before
 * it, and all of them after it. What an event of a loop is triggered in one lap, its thresholds grow by with each lap
 * of the queue that waits. A transfer may be started in one lap and awaited in a later one, by the same queue: the
 * oldest one first; a task says how many of them are under way at most. From the laps follows which iteration of its
 * group a task is (`advances`), from that its tile, and which one of the places of an operand in a ring.
 *
 * Trips. Where a group has a parameter HEXLOOM_TRIPS, its iterations from that one on are left out: a task with
 * HEXLOOM_TASK_REPEATED waits and triggers as ever, but calls no kernel and moves nothing. So laps are rounded up, and
 * any number of iterations below what they make is the same plan, in which some tasks take no time. Where it has one of
 * HEXLOOM_TAIL_ROWS or HEXLOOM_TAIL_COLUMNS, the last of these iterations has less to do: so many rows or columns. Its
 * buffers lie as ever, and are not filled. HEXLOOM_STRIDE says how far apart the rows of a memory lie.
 */
#ifndef HEXLOOM_TABLES_H
#define HEXLOOM_TABLES_H

#include <stddef.h>
#include <stdint.h>

#define HEXLOOM_MAGIC (0x4D4C5848u) /* the bytes H X L M */
#define HEXLOOM_ABI_MAJOR (1u)
#define HEXLOOM_ABI_MINOR (0u)
#define HEXLOOM_NONE (0xFFFFFFFFu) /* no event, no buffer */

/* How tables are placed where a compiler is asked: a task lies on one cache line. */
#if defined(__GNUC__)
#define HEXLOOM_ALIGNED(bytes) __attribute__((aligned(bytes)))
#else
#define HEXLOOM_ALIGNED(bytes)
#endif

/* kinds of tasks and queues; a detached queue has no hardware thread in the plan: the caller lends one */
#define HEXLOOM_HMX (1u)
#define HEXLOOM_HVX (2u)
#define HEXLOOM_DMA (3u)
#define HEXLOOM_OTHER (4u)
#define HEXLOOM_DETACHED (5u)

/* actions of queue entries */
#define HEXLOOM_RUN (1u)
#define HEXLOOM_START (2u)
#define HEXLOOM_WAIT (3u)
#define HEXLOOM_AFTER (4u)

/* kinds of parameters */
#define HEXLOOM_LAPS (1u)  /* how often the loop `where` runs */
#define HEXLOOM_TRIPS (2u) /* iterations of group `where` that are not left out; HEXLOOM_NONE: all that laps make */
#define HEXLOOM_STRIDE (3u)       /* bytes from row to row of binding `where` */
#define HEXLOOM_TAIL_ROWS (4u)    /* rows of the last iteration of group `where`; all others have the most */
#define HEXLOOM_TAIL_COLUMNS (5u) /* columns of it */

/* kinds of descriptors */
#define HEXLOOM_TO_OPERAND (1u)
#define HEXLOOM_FROM_OPERAND (2u)
#define HEXLOOM_CLEAN (3u)      /* lines are written back */
#define HEXLOOM_INVALIDATE (4u) /* lines are dropped */

/* what of a descriptor is shorter in the last iteration, by as much as its tail is less than the most */
#define HEXLOOM_FEWER_ROWS (1u)
#define HEXLOOM_SHORTER_ROWS (2u)

/* spaces of bindings and operands */
#define HEXLOOM_VTCM (1u)
#define HEXLOOM_DDR_MAPPED (2u)
#define HEXLOOM_DDR_DMA_ONLY (3u) /* such a memory, in which only transfers use buffers */
#define HEXLOOM_POOL (4u) /* a memory beside the scratchpad, in the order of the problem's pools */

#define HEXLOOM_TASK_ASYNC (1u)      /* task flag */
#define HEXLOOM_TASK_APART (2u)      /* task flag: slice n triggers event trigger_event + n */
#define HEXLOOM_TASK_REPEATED (4u)   /* task flag: one of every iteration of its group, which may be left out */
#define HEXLOOM_BINDING_DESCRIBED (1u) /* binding flag: descriptors say which bytes it must have */
#define HEXLOOM_OPERAND_RING (1u)    /* operand flag: `buffer` places from operand `offset` on, one per iteration */
#define HEXLOOM_BUFFER_RESIDENT (1u) /* buffer flag: alive for the whole run */
#define HEXLOOM_BUFFER_PINNED (2u)   /* buffer flag: the address was given */
#define HEXLOOM_BUFFER_FROM_START (4u) /* buffer flag: alive before the first task */
#define HEXLOOM_BUFFER_TO_END (8u)     /* buffer flag: alive after the last task */
#define HEXLOOM_BUFFER_OVERWRITES (16u) /* buffer flag: its first task reads what lies there, and overwrites it */
#define HEXLOOM_BUFFER_IN_PARTS (32u) /* buffer flag: its parts follow in the map, and say which bytes are alive */
#define HEXLOOM_BUFFER_PART (64u) /* buffer flag: bytes of the one in parts before it; a task lists its parts last */

/* What the tables are. The checksum of the header is the CRC-32 (reflected, 0xEDB88320) of this record with both
 * checksums zero: counts are believed after it. The other one is that of this record with `crc32` zero, followed by
 * the other tables in the order of their counts. */
typedef struct hexloom_header {
  uint32_t magic;
  uint16_t abi_major;
  uint16_t abi_minor;
  uint16_t header_bytes; /* sizes of the records */
  uint16_t task_bytes;
  uint16_t operand_bytes;
  uint16_t event_bytes;
  uint16_t queue_bytes;
  uint16_t entry_bytes;
  uint16_t buffer_bytes;
  uint16_t binding_bytes;
  uint16_t loop_bytes;
  uint16_t body_bytes;
  uint16_t parameter_bytes;
  uint16_t descriptor_bytes;
  uint16_t advance_bytes;
  uint16_t target_arch; /* 79 for v79; 0 for a machine without such a number */
  uint32_t flags;
  uint32_t task_count;
  uint32_t operand_count;
  uint32_t event_count;
  uint32_t queue_count;
  uint32_t entry_count;
  uint32_t buffer_count;
  uint32_t binding_count;
  uint32_t loop_count;
  uint32_t body_count;    /* loops of the first queue, then those of the next one */
  uint32_t parameter_count;
  uint32_t descriptor_count;
  uint32_t advance_count; /* groups of the first loop, then those of the next one */
  uint32_t group_count;
  uint32_t slot_count;    /* transfers that may be under way, of all tasks together */
  uint64_t vtcm_bytes;    /* the scratchpad that the plan needs, from its base */
  uint64_t schedule_hash; /* of plan and problem */
  uint32_t crc32;
  uint32_t header_crc32;
  uint32_t reserved[18];
} hexloom_header;

/* One step of the work. `kind`, `stage` and `mode` say which kernel, `tile` which part, the operands on what. */
typedef struct hexloom_task {
  uint32_t op; /* its number in the problem and the side-car */
  uint8_t kind;
  uint8_t flags;
  uint16_t mode;
  uint16_t group; /* the task of the workload it belongs to */
  uint16_t stage;
  uint32_t tile;  /* of its first iteration */
  uint16_t queue; /* the first queue it stands in; of a transfer, its owner's */
  uint16_t slice_count;
  uint32_t tile_step; /* tiles from one iteration to the next */
  uint32_t first_operand;
  uint32_t operand_count;
  uint32_t wait_event;    /* it begins when that has reached its threshold; or HEXLOOM_NONE */
  uint32_t wait_threshold;
  uint32_t trigger_event; /* or HEXLOOM_NONE */
  uint32_t first_slot;    /* of a transfer: where it is noted while it is under way */
  uint32_t iteration;     /* of its group, where all loops have made no lap */
  uint32_t first_descriptor;
  uint16_t descriptor_count; /* 0: its kernel pushes what the transfer is */
  uint16_t slots;
  uint32_t reserved;
} hexloom_task;

typedef struct hexloom_operand {
  uint16_t binding;
  uint8_t space;
  uint8_t flags;
  uint32_t buffer; /* its place in the map, or HEXLOOM_NONE */
  uint64_t offset; /* bytes from the base of the binding */
} hexloom_operand;

typedef struct hexloom_event {
  uint32_t triggers; /* how often one run triggers it, beside what laps do */
  uint32_t waiters;  /* how many waits there are for it, of tasks and entries */
} hexloom_event;

typedef struct hexloom_queue {
  uint16_t engine; /* its number in the side-car */
  uint16_t unit;
  uint8_t kind;
  uint8_t flags;
  uint16_t reserved;
  uint32_t first_entry;
  uint32_t entry_count;
} hexloom_queue;

typedef struct hexloom_entry {
  uint32_t task; /* AFTER: the event */
  uint8_t action;
  uint8_t flags;  /* AFTER: the third byte of the threshold */
  uint16_t slice; /* AFTER: the lower two */
} hexloom_entry;

/* The map of the scratchpad: buffers may share bytes where their users are ordered. */
typedef struct hexloom_buffer {
  uint64_t offset;
  uint64_t bytes;
  uint32_t align;
  uint16_t binding;
  uint16_t flags;
} hexloom_buffer;

/* A memory whose base the caller gives: what the plan needs of it. */
typedef struct hexloom_binding {
  uint64_t bytes;
  uint32_t align;
  uint8_t space;
  uint8_t flags;
  uint16_t reserved;
} hexloom_binding;

/* Tasks and events of a loop, and the parameter that says how many laps it makes. */
typedef struct hexloom_loop {
  uint32_t first_task;
  uint32_t task_count;
  uint32_t first_event;
  uint32_t event_count;
  uint32_t parameter;
  uint32_t reserved;
} hexloom_loop;

/* What of a loop stands in a queue; without entries it says where the loop is passed. */
typedef struct hexloom_body {
  uint32_t first_entry;
  uint32_t entry_count;
} hexloom_body;

/* A number that is given when tables are bound: it is `usual` + n * `step`, for some n, from `least` to `most`. */
typedef struct hexloom_parameter {
  uint16_t kind;
  uint16_t where;
  uint32_t least;
  uint32_t most;
  uint32_t step;
  uint32_t usual;
  uint32_t reserved;
} hexloom_parameter;

/* A part of a transfer between an operand and a memory, or lines of a memory that are written back or dropped. */
typedef struct hexloom_descriptor {
  uint64_t offset; /* in the binding, for the first iteration of its task */
  uint64_t step;   /* bytes from one iteration to the next */
  uint32_t rows;
  uint32_t row_bytes;
  uint32_t stride;         /* from row to row in the binding */
  uint32_t operand_offset; /* in the operand */
  uint32_t operand_stride;
  uint16_t binding;
  uint16_t operand; /* of the task: its number there */
  uint8_t kind;
  uint8_t dimensions; /* 1: its bytes lie together on both sides; 2 */
  uint16_t stride_parameter; /* its number and 1, or 0: so far apart are then the rows, also in `offset` and `step` */
  uint16_t tail_parameter;   /* its number and 1, or 0 */
  uint16_t tail;             /* what is shorter then */
} hexloom_descriptor;

/* How many iterations of a group a lap of a loop has. */
typedef struct hexloom_advance {
  uint32_t iterations;
} hexloom_advance;

/* All tables of one schedule; not a record, and not in the checksum. */
typedef struct hexloom_view {
  const hexloom_header *header;
  const hexloom_task *tasks;
  const hexloom_operand *operands;
  const hexloom_event *events;
  const hexloom_queue *queues;
  const hexloom_entry *entries;
  const hexloom_buffer *buffers;
  const hexloom_binding *bindings;
  const hexloom_loop *loops;
  const hexloom_body *bodies;
  const hexloom_parameter *parameters;
  const hexloom_descriptor *descriptors;
  const hexloom_advance *advances;
} hexloom_view;

/* The threshold of an AFTER: 24 bits with a sign, for behind a loop it may lie below what the laps add. */
static inline uint32_t hexloom_threshold(const hexloom_entry *entry) {
  const uint32_t sign = 0x800000u;
  return (((uint32_t)entry->flags << 16 | entry->slice) ^ sign) - sign;
}

/* What a descriptor says in the iteration that is so much further than the first one of its task, with parameters as
 * `given` (NULL: the most they can be). */
static inline hexloom_descriptor hexloom_described(const hexloom_view *view, const hexloom_descriptor *written,
                                                   const uint32_t *given, uint64_t further, int is_last) {
  hexloom_descriptor d = *written;
  if (d.stride_parameter != 0u) {
    const hexloom_parameter *p = &view->parameters[d.stride_parameter - 1u];
    const uint64_t stride = given == NULL ? p->most : given[d.stride_parameter - 1u];
    d.offset = written->offset / p->usual * stride + written->offset % p->usual;
    d.step = written->step / p->usual * stride + written->step % p->usual;
    if (d.dimensions == 2u) d.stride = (uint32_t)stride;
  }
  d.offset += d.step * further;
  if (is_last && d.tail_parameter != 0u) {
    const hexloom_parameter *p = &view->parameters[d.tail_parameter - 1u];
    const uint64_t tail = given == NULL ? p->most : given[d.tail_parameter - 1u];
    if (d.tail == HEXLOOM_FEWER_ROWS)
      d.rows = (uint32_t)(written->rows * tail / p->most);
    else
      d.row_bytes = (uint32_t)(written->row_bytes * tail / p->most);
  }
  return d;
}

/* A condition that stops the compiler when it does not hold; C99 has no static_assert. */
#define HEXLOOM_STATIC_CHECK(name, condition) typedef char hexloom_check_##name[(condition) ? 1 : -1]

#include "hexloom_layout.h"

#endif /* HEXLOOM_TABLES_H */
