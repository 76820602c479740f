/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of hexloom's tables: what every thread of a device executes in which order, what it waits for, and
 * where buffers lie. C99 that is also C++11. ABI 0 is not frozen: it may change until the number becomes 1.
 *
 * All fields are unsigned and little endian. There are no pointers in a table: memory is a binding, whose base the
 * caller gives, and an offset. A reserved field is zero.
 *
 * How a runtime reads them. Each queue belongs to one thread, which executes its entries in order:
 *   RUN    wait for all waits of the task; run slice `slice` of `slice_count`; then add 1 to its trigger event.
 *   START  wait for all waits of the task; issue its transfer.
 *   WAIT   block until that transfer is done; then add 1 to its trigger event.
 * A wait is over once the counter of its event has reached the threshold. The counters start at zero; in run n of
 * the same tables, counted from 0, without a reset, the threshold is n * triggers + threshold, compared so that the
 * counter may wrap. A task with HEXLOOM_TASK_ASYNC triggers when its result exists, not when its kernel returns.
 * Transfers may be done in any order; only WAIT says that one is.
 */
#ifndef HEXLOOM_TABLES_H
#define HEXLOOM_TABLES_H

#include <stddef.h>
#include <stdint.h>

#define HEXLOOM_MAGIC (0x4D4C5848u) /* the bytes H X L M */
#define HEXLOOM_ABI_MAJOR (0u)
#define HEXLOOM_ABI_MINOR (1u)
#define HEXLOOM_NONE (0xFFFFFFFFu) /* no event, no buffer */

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

/* spaces of bindings and operands */
#define HEXLOOM_VTCM (1u)
#define HEXLOOM_DDR_MAPPED (2u)
#define HEXLOOM_DDR_DMA_ONLY (3u) /* such a memory, in which only transfers use buffers */
#define HEXLOOM_POOL (4u) /* a memory beside the scratchpad, in the order of the problem's pools */

#define HEXLOOM_TASK_ASYNC (1u)      /* task flag */
#define HEXLOOM_BUFFER_RESIDENT (1u) /* buffer flag: alive for the whole run */
#define HEXLOOM_BUFFER_PINNED (2u)   /* buffer flag: the address was given */
#define HEXLOOM_BUFFER_FROM_START (4u) /* buffer flag: alive before the first task */
#define HEXLOOM_BUFFER_TO_END (8u)     /* buffer flag: alive after the last task */
#define HEXLOOM_BUFFER_OVERWRITES (16u) /* buffer flag: its first task reads what lies there, and overwrites it */
#define HEXLOOM_BUFFER_IN_PARTS (32u) /* buffer flag: its parts follow in the map, and say which bytes are alive */
#define HEXLOOM_BUFFER_PART (64u) /* buffer flag: bytes of the one in parts before it; a task lists its parts last */

/* What the tables are. The checksum of the header is the CRC-32 (reflected, 0xEDB88320) of this record with both
 * checksums zero: counts are believed after it. The other one is that of this record with `crc32` zero, followed by
 * tasks, operands, waits, events, queues, entries, buffers and bindings. */
typedef struct hexloom_header {
  uint32_t magic;
  uint16_t abi_major;
  uint16_t abi_minor;
  uint16_t header_bytes; /* sizes of the records */
  uint16_t task_bytes;
  uint16_t operand_bytes;
  uint16_t wait_bytes;
  uint16_t event_bytes;
  uint16_t queue_bytes;
  uint16_t entry_bytes;
  uint16_t buffer_bytes;
  uint16_t binding_bytes;
  uint16_t target_arch; /* 79 for v79; 0 for a machine without such a number */
  uint32_t flags;
  uint32_t task_count;
  uint32_t operand_count;
  uint32_t wait_count;
  uint32_t event_count;
  uint32_t queue_count;
  uint32_t entry_count;
  uint32_t buffer_count;
  uint32_t binding_count;
  uint64_t vtcm_bytes;    /* the scratchpad that the plan needs, from its base */
  uint64_t schedule_hash; /* of plan and problem */
  uint32_t crc32;
  uint32_t header_crc32;
  uint32_t reserved[10];
} hexloom_header;

/* One step of the work. `kind`, `stage` and `mode` say which kernel, `tile` which part, the operands on what. */
typedef struct hexloom_task {
  uint32_t op; /* its number in the problem and the side-car */
  uint8_t kind;
  uint8_t flags;
  uint16_t mode;
  uint16_t group; /* the task of the workload it belongs to */
  uint16_t stage;
  uint32_t tile;
  uint16_t queue; /* the first queue it stands in; of a transfer, its owner's */
  uint16_t slice_count;
  uint32_t reserved0;
  uint32_t first_operand;
  uint32_t operand_count;
  uint32_t first_wait;
  uint32_t wait_count;
  uint32_t trigger_event; /* or HEXLOOM_NONE */
  uint32_t reserved1[5];
} hexloom_task;

typedef struct hexloom_operand {
  uint16_t binding;
  uint8_t space;
  uint8_t flags;
  uint32_t buffer; /* its place in the map, or HEXLOOM_NONE */
  uint64_t offset; /* bytes from the base of the binding */
} hexloom_operand;

typedef struct hexloom_wait {
  uint32_t event;
  uint32_t threshold;
} hexloom_wait;

typedef struct hexloom_event {
  uint32_t triggers; /* how often one run triggers it */
  uint32_t waiters;  /* how many tasks wait for it */
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
  uint32_t task;
  uint8_t action;
  uint8_t flags;
  uint16_t slice;
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

/* All tables of one schedule; not a record, and not in the checksum. */
typedef struct hexloom_view {
  const hexloom_header *header;
  const hexloom_task *tasks;
  const hexloom_operand *operands;
  const hexloom_wait *waits;
  const hexloom_event *events;
  const hexloom_queue *queues;
  const hexloom_entry *entries;
  const hexloom_buffer *buffers;
  const hexloom_binding *bindings;
} hexloom_view;

/* A condition that stops the compiler when it does not hold; C99 has no static_assert. */
#define HEXLOOM_STATIC_CHECK(name, condition) typedef char hexloom_check_##name[(condition) ? 1 : -1]

HEXLOOM_STATIC_CHECK(header_size, sizeof(hexloom_header) == 128u);
HEXLOOM_STATIC_CHECK(header_magic, offsetof(hexloom_header, magic) == 0u);
HEXLOOM_STATIC_CHECK(header_abi_major, offsetof(hexloom_header, abi_major) == 4u);
HEXLOOM_STATIC_CHECK(header_abi_minor, offsetof(hexloom_header, abi_minor) == 6u);
HEXLOOM_STATIC_CHECK(header_header_bytes, offsetof(hexloom_header, header_bytes) == 8u);
HEXLOOM_STATIC_CHECK(header_task_bytes, offsetof(hexloom_header, task_bytes) == 10u);
HEXLOOM_STATIC_CHECK(header_operand_bytes, offsetof(hexloom_header, operand_bytes) == 12u);
HEXLOOM_STATIC_CHECK(header_wait_bytes, offsetof(hexloom_header, wait_bytes) == 14u);
HEXLOOM_STATIC_CHECK(header_event_bytes, offsetof(hexloom_header, event_bytes) == 16u);
HEXLOOM_STATIC_CHECK(header_queue_bytes, offsetof(hexloom_header, queue_bytes) == 18u);
HEXLOOM_STATIC_CHECK(header_entry_bytes, offsetof(hexloom_header, entry_bytes) == 20u);
HEXLOOM_STATIC_CHECK(header_buffer_bytes, offsetof(hexloom_header, buffer_bytes) == 22u);
HEXLOOM_STATIC_CHECK(header_binding_bytes, offsetof(hexloom_header, binding_bytes) == 24u);
HEXLOOM_STATIC_CHECK(header_target_arch, offsetof(hexloom_header, target_arch) == 26u);
HEXLOOM_STATIC_CHECK(header_flags, offsetof(hexloom_header, flags) == 28u);
HEXLOOM_STATIC_CHECK(header_task_count, offsetof(hexloom_header, task_count) == 32u);
HEXLOOM_STATIC_CHECK(header_operand_count, offsetof(hexloom_header, operand_count) == 36u);
HEXLOOM_STATIC_CHECK(header_wait_count, offsetof(hexloom_header, wait_count) == 40u);
HEXLOOM_STATIC_CHECK(header_event_count, offsetof(hexloom_header, event_count) == 44u);
HEXLOOM_STATIC_CHECK(header_queue_count, offsetof(hexloom_header, queue_count) == 48u);
HEXLOOM_STATIC_CHECK(header_entry_count, offsetof(hexloom_header, entry_count) == 52u);
HEXLOOM_STATIC_CHECK(header_buffer_count, offsetof(hexloom_header, buffer_count) == 56u);
HEXLOOM_STATIC_CHECK(header_binding_count, offsetof(hexloom_header, binding_count) == 60u);
HEXLOOM_STATIC_CHECK(header_vtcm_bytes, offsetof(hexloom_header, vtcm_bytes) == 64u);
HEXLOOM_STATIC_CHECK(header_schedule_hash, offsetof(hexloom_header, schedule_hash) == 72u);
HEXLOOM_STATIC_CHECK(header_crc32, offsetof(hexloom_header, crc32) == 80u);
HEXLOOM_STATIC_CHECK(header_header_crc32, offsetof(hexloom_header, header_crc32) == 84u);
HEXLOOM_STATIC_CHECK(header_reserved, offsetof(hexloom_header, reserved) == 88u);
HEXLOOM_STATIC_CHECK(task_size, sizeof(hexloom_task) == 64u);
HEXLOOM_STATIC_CHECK(task_op, offsetof(hexloom_task, op) == 0u);
HEXLOOM_STATIC_CHECK(task_kind, offsetof(hexloom_task, kind) == 4u);
HEXLOOM_STATIC_CHECK(task_flags, offsetof(hexloom_task, flags) == 5u);
HEXLOOM_STATIC_CHECK(task_mode, offsetof(hexloom_task, mode) == 6u);
HEXLOOM_STATIC_CHECK(task_group, offsetof(hexloom_task, group) == 8u);
HEXLOOM_STATIC_CHECK(task_stage, offsetof(hexloom_task, stage) == 10u);
HEXLOOM_STATIC_CHECK(task_tile, offsetof(hexloom_task, tile) == 12u);
HEXLOOM_STATIC_CHECK(task_queue, offsetof(hexloom_task, queue) == 16u);
HEXLOOM_STATIC_CHECK(task_slice_count, offsetof(hexloom_task, slice_count) == 18u);
HEXLOOM_STATIC_CHECK(task_reserved0, offsetof(hexloom_task, reserved0) == 20u);
HEXLOOM_STATIC_CHECK(task_first_operand, offsetof(hexloom_task, first_operand) == 24u);
HEXLOOM_STATIC_CHECK(task_operand_count, offsetof(hexloom_task, operand_count) == 28u);
HEXLOOM_STATIC_CHECK(task_first_wait, offsetof(hexloom_task, first_wait) == 32u);
HEXLOOM_STATIC_CHECK(task_wait_count, offsetof(hexloom_task, wait_count) == 36u);
HEXLOOM_STATIC_CHECK(task_trigger_event, offsetof(hexloom_task, trigger_event) == 40u);
HEXLOOM_STATIC_CHECK(task_reserved1, offsetof(hexloom_task, reserved1) == 44u);
HEXLOOM_STATIC_CHECK(operand_size, sizeof(hexloom_operand) == 16u);
HEXLOOM_STATIC_CHECK(operand_binding, offsetof(hexloom_operand, binding) == 0u);
HEXLOOM_STATIC_CHECK(operand_space, offsetof(hexloom_operand, space) == 2u);
HEXLOOM_STATIC_CHECK(operand_flags, offsetof(hexloom_operand, flags) == 3u);
HEXLOOM_STATIC_CHECK(operand_buffer, offsetof(hexloom_operand, buffer) == 4u);
HEXLOOM_STATIC_CHECK(operand_offset, offsetof(hexloom_operand, offset) == 8u);
HEXLOOM_STATIC_CHECK(wait_size, sizeof(hexloom_wait) == 8u);
HEXLOOM_STATIC_CHECK(wait_event, offsetof(hexloom_wait, event) == 0u);
HEXLOOM_STATIC_CHECK(wait_threshold, offsetof(hexloom_wait, threshold) == 4u);
HEXLOOM_STATIC_CHECK(event_size, sizeof(hexloom_event) == 8u);
HEXLOOM_STATIC_CHECK(event_triggers, offsetof(hexloom_event, triggers) == 0u);
HEXLOOM_STATIC_CHECK(event_waiters, offsetof(hexloom_event, waiters) == 4u);
HEXLOOM_STATIC_CHECK(queue_size, sizeof(hexloom_queue) == 16u);
HEXLOOM_STATIC_CHECK(queue_engine, offsetof(hexloom_queue, engine) == 0u);
HEXLOOM_STATIC_CHECK(queue_unit, offsetof(hexloom_queue, unit) == 2u);
HEXLOOM_STATIC_CHECK(queue_kind, offsetof(hexloom_queue, kind) == 4u);
HEXLOOM_STATIC_CHECK(queue_flags, offsetof(hexloom_queue, flags) == 5u);
HEXLOOM_STATIC_CHECK(queue_reserved, offsetof(hexloom_queue, reserved) == 6u);
HEXLOOM_STATIC_CHECK(queue_first_entry, offsetof(hexloom_queue, first_entry) == 8u);
HEXLOOM_STATIC_CHECK(queue_entry_count, offsetof(hexloom_queue, entry_count) == 12u);
HEXLOOM_STATIC_CHECK(entry_size, sizeof(hexloom_entry) == 8u);
HEXLOOM_STATIC_CHECK(entry_task, offsetof(hexloom_entry, task) == 0u);
HEXLOOM_STATIC_CHECK(entry_action, offsetof(hexloom_entry, action) == 4u);
HEXLOOM_STATIC_CHECK(entry_flags, offsetof(hexloom_entry, flags) == 5u);
HEXLOOM_STATIC_CHECK(entry_slice, offsetof(hexloom_entry, slice) == 6u);
HEXLOOM_STATIC_CHECK(buffer_size, sizeof(hexloom_buffer) == 24u);
HEXLOOM_STATIC_CHECK(buffer_offset, offsetof(hexloom_buffer, offset) == 0u);
HEXLOOM_STATIC_CHECK(buffer_bytes, offsetof(hexloom_buffer, bytes) == 8u);
HEXLOOM_STATIC_CHECK(buffer_align, offsetof(hexloom_buffer, align) == 16u);
HEXLOOM_STATIC_CHECK(buffer_binding, offsetof(hexloom_buffer, binding) == 20u);
HEXLOOM_STATIC_CHECK(buffer_flags, offsetof(hexloom_buffer, flags) == 22u);
HEXLOOM_STATIC_CHECK(binding_size, sizeof(hexloom_binding) == 16u);
HEXLOOM_STATIC_CHECK(binding_bytes, offsetof(hexloom_binding, bytes) == 0u);
HEXLOOM_STATIC_CHECK(binding_align, offsetof(hexloom_binding, align) == 8u);
HEXLOOM_STATIC_CHECK(binding_space, offsetof(hexloom_binding, space) == 12u);
HEXLOOM_STATIC_CHECK(binding_flags, offsetof(hexloom_binding, flags) == 13u);
HEXLOOM_STATIC_CHECK(binding_reserved, offsetof(hexloom_binding, reserved) == 14u);

#endif /* HEXLOOM_TABLES_H */
