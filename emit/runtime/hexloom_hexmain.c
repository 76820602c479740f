/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs tables on an emulated Hexagon. Tables, those with all laps written out, flow, numbers and memory are files of
 * the folder in which it is compiled; where there is a flow, kernels move patterns, else they compute. It prints one
 * line of JSON, writes the memory to result.bin, and its trace to trace.bin: the queue in 32 bits before each record.
 */
#include "hexloom_flow.h"
#include "hexloom_hexraw.h"
#include "hexloom_numeric.h"
#include "hexloom_runtime.h"

#define STACK_BYTES (32768u)
#define STAGES (1024u)
#define MEMORIES (16u)

#ifndef HEXLOOM_RECORDS
#define HEXLOOM_RECORDS 0
#endif
#ifndef HEXLOOM_RUNS
#define HEXLOOM_RUNS 1
#endif
#ifndef HEXLOOM_SEED
#define HEXLOOM_SEED 1
#endif
#ifndef HEXLOOM_TIMEOUT_MS
#define HEXLOOM_TIMEOUT_MS 60000
#endif

#define INCLUDE_FILE(name, file)                                                         \
  __asm__(".section .data\n.p2align 7\n.globl " #name "\n" #name ":\n.incbin \"" file "\"\n" \
          ".globl " #name "_end\n" #name "_end:\n.p2align 3\n.text\n");                  \
  extern unsigned char name[]; /* NOLINT(bugprone-macro-parentheses): a name */         \
  extern unsigned char name##_end[]

INCLUDE_FILE(hexmain_tables, "tables.bin");
INCLUDE_FILE(hexmain_plain, "plain.bin");
INCLUDE_FILE(hexmain_flow, "flow.bin");
INCLUDE_FILE(hexmain_numbers, "numbers.bin");
INCLUDE_FILE(hexmain_ddr, "memory.bin");

int hexraw_main(void);

/* The symbols of an included file are two objects for C: their distance is one of addresses. */
static size_t bytes_of(const unsigned char *start, const unsigned char *end) {
  return (size_t)((uintptr_t)end - (uintptr_t)start);
}

static void say(const char *name, uint64_t value, int is_none) {
  hexloom_hexraw_print("\"");
  hexloom_hexraw_print(name);
  hexloom_hexraw_print("\": ");
  if (is_none)
    hexloom_hexraw_print("null");
  else
    hexloom_hexraw_print_number(value);
  hexloom_hexraw_print(", ");
}

static hexloom_numeric numeric;
static hexloom_flow *flow; /* NULL: kernels compute */

static int tell(const hexloom_status *s, uint64_t elapsed_ns) {
  hexloom_flow_fault fault = {0u, HEXLOOM_NONE, HEXLOOM_NONE, HEXLOOM_NONE};
  if (flow != NULL) fault = hexloom_flow_fault_of(flow);
  hexloom_hexraw_print("{\"code\": \"");
  hexloom_hexraw_print(hexloom_code_name(s->code));
  hexloom_hexraw_print("\", ");
  say("task", s->task, s->task == HEXLOOM_NONE);
  say("queue", s->queue, s->queue == HEXLOOM_NONE);
  say("event", s->event, s->event == HEXLOOM_NONE);
  say("seen", s->seen, 0);
  say("expected", s->expected, 0);
  say("stuck", s->stuck, 0);
  say("executed", s->executed, 0);
  say("elapsed_ns", elapsed_ns, 0);
  say("faults", fault.count, 0);
  say("fault_task", fault.task, fault.task == HEXLOOM_NONE);
  say("fault_buffer", fault.buffer, fault.buffer == HEXLOOM_NONE);
  hexloom_hexraw_print("\"dropped\": 0, \"problem\": ");
  if (s->problem == NULL) {
    hexloom_hexraw_print("null}\n");
  } else {
    hexloom_hexraw_print("\"");
    hexloom_hexraw_print(s->problem);
    hexloom_hexraw_print("\"}\n");
  }
  return s->code == HEXLOOM_OK && fault.count == 0u ? 0 : 1;
}

static int refused(const char *problem) {
  static hexloom_status status;
  status.code = HEXLOOM_BAD_TABLE;
  status.task = status.queue = status.event = HEXLOOM_NONE;
  status.problem = problem;
  return tell(&status, 0u);
}

static void write_trace(const hexloom_run *run, uint32_t queues) {
  uint32_t q, k;
  (void)hexloom_hexraw_write_file("trace.bin", "", 0u, 0);
  for (q = 0u; q < queues; q++) {
    const hexloom_trace trace = hexloom_trace_of(run, q);
    for (k = 0u; k < trace.count; k++) {
      unsigned char line[4u + sizeof(hexloom_record)];
      unsigned char *at = line;
      const unsigned char *from = (const unsigned char *)&trace.records[k];
      uint32_t n;
      for (n = 0u; n < 4u; n++) *at++ = (unsigned char)(q >> (8u * n));
      for (n = 0u; n < sizeof(hexloom_record); n++) *at++ = from[n];
      (void)hexloom_hexraw_write_file("trace.bin", line, sizeof line, 1);
    }
  }
}

/* Let all stages move patterns or compute; what is wrong, or NULL. */
static const char *choose_kernels(hexloom_setup *setup, const hexloom_memory *memories) {
  static hexloom_view plain;
  const char *problem = hexloom_open(hexmain_plain, bytes_of(hexmain_plain, hexmain_plain_end), &plain);
  static hexloom_kernel kernels[STAGES];
  const size_t flow_words = bytes_of(hexmain_flow, hexmain_flow_end) / 4u;
  const size_t words = bytes_of(hexmain_numbers, hexmain_numbers_end) / 8u;
  uint32_t k;
  if (problem != NULL) return problem;
  numeric.words = (const uint64_t *)(const void *)hexmain_numbers;
  numeric.ddr = hexmain_ddr;
  numeric.ddr_bytes = bytes_of(hexmain_ddr, hexmain_ddr_end);
  if (flow_words > 0u) {
    flow = hexloom_flow_open(&plain, memories, (const uint32_t *)(const void *)hexmain_flow, flow_words, 1u, 0u);
    if (flow == NULL) return "the flow does not fit the tables";
  } else if (!hexloom_numeric_fits(&numeric, &plain, words)) {
    return "the numbers do not fit the tables";
  }
  for (k = 0u; k < STAGES; k++) {
    kernels[k].function = flow != NULL ? hexloom_flow_kernel : hexloom_numeric_kernel;
    kernels[k].user = flow != NULL ? (void *)flow : (void *)&numeric;
  }
  setup->kernels = kernels;
  setup->kernel_count = STAGES;
  return NULL;
}

int hexraw_main(void) {
  static hexloom_memory memories[MEMORIES];
  static hexloom_setup setup; /* zero */
  hexloom_port port;
  hexloom_status status;
  hexloom_run *run;
  const char *problem = hexloom_open(hexmain_tables, bytes_of(hexmain_tables, hexmain_tables_end), &setup.view);
  const hexloom_header *head = setup.view.header;
  uint64_t begun;
  uint32_t k;
  void *room;
  if (problem != NULL) return refused(problem);
  if (head->binding_count > MEMORIES) return refused("there are more bindings than this program has room for");
  for (k = 0u; k < head->binding_count; k++) {
    memories[k].bytes = setup.view.bindings[k].bytes;
    memories[k].base = hexloom_hexraw_memory((size_t)memories[k].bytes);
    if (memories[k].base == NULL) return refused("there is no memory for a binding");
  }
  problem = choose_kernels(&setup, memories);
  if (problem != NULL) return refused(problem);
  if (hexloom_hexraw_open(&port, head->queue_count, STACK_BYTES, HEXLOOM_SEED) != 0)
    return refused("there is no memory for threads");
  setup.port = &port;
  setup.memories = memories;
  setup.memory_count = head->binding_count;
  setup.timeout_ns = (uint64_t)HEXLOOM_TIMEOUT_MS * 1000000u;
  setup.trace_records = HEXLOOM_RECORDS;
#ifdef HEXLOOM_PARAMETERS
  {
    static const uint32_t parameters[] = {HEXLOOM_PARAMETERS};
    setup.parameters = parameters;
    setup.parameter_count = sizeof parameters / sizeof parameters[0];
  }
#endif
  room = hexloom_hexraw_memory(hexloom_run_bytes(&setup));
  run = hexloom_bind(&setup, room, hexloom_run_bytes(&setup), &status);
  if (run == NULL) return tell(&status, 0u);
  begun = port.now_ns(NULL);
  for (k = 0u; k < HEXLOOM_RUNS; k++) {
    if (flow != NULL) hexloom_flow_begin(flow, k);
    if (hexloom_execute(run) != HEXLOOM_OK) break;
    if (flow != NULL) hexloom_flow_end(flow);
  }
  status = *hexloom_status_of(run);
  begun = port.now_ns(NULL) - begun;
  write_trace(run, head->queue_count);
  (void)hexloom_hexraw_write_file("result.bin", hexmain_ddr, (size_t)numeric.ddr_bytes, 0);
  return tell(&status, begun);
}
