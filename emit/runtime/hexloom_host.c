/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__linux__)
#define _GNU_SOURCE 1
#else
#define _POSIX_C_SOURCE 200809L
#endif

#include "hexloom_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hexloom_arguments.h"
#include "hexloom_flow.h"
#include "hexloom_numeric.h"
#include "hexloom_posix.h"
#include "hexloom_runtime.h"

#define MEMORY_ALIGN ((size_t)65536u)
#define MOST_PARAMETERS (64u)

/* Everything that is opened, so that it can be closed. */
typedef struct host {
  hexloom_arguments with;
  hexloom_view view;
  hexloom_view plain; /* with all laps written out */
  uint32_t parameters[MOST_PARAMETERS];
  uint32_t parameter_count;
  hexloom_port port;
  hexloom_memory *memories;
  uint32_t own_memories; /* the others are tensors */
  hexloom_kernel *kernels;
  uint32_t stages;
  hexloom_flow *flow;
  hexloom_numeric numeric;
  hexloom_run *run;
  hexloom_status status;
  void *table_bytes, *plain_bytes, *flow_words, *numeric_words, *memory;
  int port_is_open;
  uint64_t elapsed_ns;
} host;

static int failed(const char *what) {
  (void)fprintf(stderr, "hexloom_host: %s\n", what);
  return 2;
}

/* --- opening ----------------------------------------------------------------------------------------------- */

static void *read_file(const char *name, size_t *length) {
  FILE *file = fopen(name, "rb");
  unsigned char *bytes = NULL;
  long size;
  if (file == NULL) return NULL;
  size = fseek(file, 0L, SEEK_END) == 0 ? ftell(file) : -1L;
  if (size >= 0 && fseek(file, 0L, SEEK_SET) == 0) {
    bytes = (unsigned char *)aligned_alloc(HEXLOOM_LINE, ((size_t)size / HEXLOOM_LINE + 1u) * HEXLOOM_LINE);
    if (bytes != NULL && fread(bytes, 1u, (size_t)size, file) != (size_t)size) {
      free(bytes);
      bytes = NULL;
    }
    *length = (size_t)size;
  }
  (void)fclose(file);
  return bytes;
}

static size_t aligned_size(uint64_t bytes) {
  return ((size_t)bytes + MEMORY_ALIGN) / MEMORY_ALIGN * MEMORY_ALIGN;
}

static int kernel(const hexloom_call *call) {
  const host *h = (const host *)call->user;
  hexloom_call inner = *call;
  if (call->task_index == h->with.fail) return 7;
  if (call->task_index == h->with.slow && (h->with.slow_slice == HEXLOOM_NONE || h->with.slow_slice == call->slice)) {
    struct timespec span;
    span.tv_sec = (time_t)(h->with.slow_ms / 1000u);
    span.tv_nsec = (long)(h->with.slow_ms % 1000u * 1000000u);
    (void)nanosleep(&span, NULL);
  }
  if (call->task_index == h->with.silent) return 0;
  if (h->numeric.words != NULL) {
    inner.user = (void *)(uintptr_t)&h->numeric;
    return hexloom_numeric_kernel(&inner);
  }
  if (h->flow == NULL) {
    if ((call->task->flags & HEXLOOM_TASK_ASYNC) != 0u) hexloom_finish(call->run, call->task_index);
    return 0;
  }
  inner.user = h->flow;
  return hexloom_flow_kernel(&inner);
}

/* Let the last bindings be tensors in the memory of numbers; 0 when they are not in it. */
static int open_tensors(host *h) {
  const uint32_t count = h->view.header->binding_count;
  const char *at = h->with.tensors;
  uint32_t k, tensors = at == NULL ? 0u : 1u;
  h->own_memories = count;
  for (k = 0u; at != NULL && at[k] != '\0'; k++) tensors += at[k] == ',';
  if (tensors > count) return 0;
  h->own_memories = count - tensors;
  for (k = h->own_memories; k < count; k++) {
    char *end;
    const uint64_t offset = strtoull(at, &end, 10), bytes = *end == ':' ? strtoull(end + 1, &end, 10) : 0u;
    if (*end != (k + 1u < count ? ',' : '\0') || offset > h->numeric.ddr_bytes ||
        bytes > h->numeric.ddr_bytes - offset)
      return 0;
    h->memories[k].base = h->numeric.ddr + offset;
    h->memories[k].bytes = bytes;
    at = end + 1;
  }
  return 1;
}

static int open_memories(host *h) {
  const hexloom_header *head = h->view.header;
  size_t length = 0u;
  uint32_t k;
  if (h->with.memory != NULL) {
    h->numeric.ddr = (unsigned char *)read_file(h->with.memory, &length);
    h->numeric.ddr_bytes = length;
    if (h->numeric.ddr == NULL) return 0;
  }
  h->memories = (hexloom_memory *)calloc((size_t)head->binding_count + 1u, sizeof(hexloom_memory));
  if (h->memories == NULL || !open_tensors(h)) return 0;
  for (k = 0u; k < h->own_memories; k++) {
    h->memories[k].bytes = h->view.bindings[k].bytes;
    h->memories[k].base = aligned_alloc(MEMORY_ALIGN, aligned_size(h->memories[k].bytes));
    if (h->memories[k].base == NULL) return 0;
    (void)memset(h->memories[k].base, 0, aligned_size(h->memories[k].bytes));
    if (k == h->with.too_short) h->memories[k].bytes--;
  }
  return 1;
}

static int open_kernels(host *h) {
  const hexloom_header *head = h->view.header;
  uint32_t k, stages = 0u;
  for (k = 0u; k < head->task_count; k++)
    if (h->view.tasks[k].stage >= stages) stages = h->view.tasks[k].stage + 1u;
  h->stages = stages;
  h->kernels = (hexloom_kernel *)calloc((size_t)stages + 1u, sizeof(hexloom_kernel));
  if (h->kernels == NULL) return 0;
  for (k = 0u; k < stages; k++) {
    h->kernels[k].function = kernel;
    h->kernels[k].user = h;
  }
  return 1;
}

static hexloom_setup setup_of(const host *h) {
  const hexloom_header *head = h->view.header;
  hexloom_setup setup;
  (void)memset(&setup, 0, sizeof setup);
  setup.view = h->view;
  setup.port = &h->port;
  setup.memories = h->memories;
  setup.memory_count = head->binding_count;
  setup.kernels = h->kernels;
  setup.kernel_count = h->stages;
  setup.timeout_ns = h->with.timeout_ms * UINT64_C(1000000);
  setup.spins = (uint32_t)h->with.spins;
  setup.trace_records = (uint32_t)h->with.records;
  setup.parameters = h->parameter_count == 0u ? NULL : h->parameters;
  setup.parameter_count = h->parameter_count;
  setup.main_queue = h->with.main_queue < head->queue_count ? (uint32_t)h->with.main_queue : HEXLOOM_NONE;
  setup.flags = (h->with.prove != 0u ? HEXLOOM_PROVE : 0u) | (h->with.stay != 0u ? HEXLOOM_STAY : 0u);
  return setup;
}

static int open_port(host *h) {
  hexloom_posix_options options;
  (void)memset(&options, 0, sizeof options);
  options.workers = h->view.header->queue_count;
  options.ring_entries = (uint32_t)h->with.ring;
  options.seed = h->with.seed;
  options.most_delay_us = (uint32_t)h->with.transfer_us;
  options.lost = (uint32_t)h->with.lost;
  options.failing = (uint32_t)h->with.failing;
  options.stack_bytes = (size_t)h->with.stack;
  h->port_is_open = hexloom_posix_open(&h->port, &options) == 0;
  return h->port_is_open;
}

/* Bind the run; a setup that is refused is an answer, not a failure. */
static int open_run(host *h) {
  const hexloom_setup setup = setup_of(h);
  const size_t bytes = hexloom_run_bytes(&setup);
  h->memory = aligned_alloc(HEXLOOM_LINE, (bytes / HEXLOOM_LINE + 1u) * HEXLOOM_LINE);
  if (h->memory == NULL) return 0;
  h->run = hexloom_bind(&setup, h->memory, bytes, &h->status);
  return 1;
}

static int open_flow(host *h) {
  size_t length = 0u;
  if (h->with.flow == NULL) return 1;
  h->flow_words = read_file(h->with.flow, &length);
  if (h->flow_words == NULL) return 0;
  h->flow = hexloom_flow_open(&h->plain, h->memories, (const uint32_t *)h->flow_words, length / 4u, h->with.seed,
                              (uint32_t)h->with.delay_us);
  return h->flow != NULL;
}

static int open_numbers(host *h) {
  size_t words = 0u;
  if (h->with.numbers == NULL) return 1;
  h->numeric_words = read_file(h->with.numbers, &words);
  if (h->numeric_words == NULL || h->numeric.ddr == NULL) return 0;
  h->numeric.words = (const uint64_t *)h->numeric_words;
  return hexloom_numeric_fits(&h->numeric, &h->plain, words / sizeof(uint64_t));
}

static int write_result(const host *h) {
  FILE *file;
  size_t written;
  if (h->with.result == NULL || h->numeric.ddr == NULL) return 1;
  file = fopen(h->with.result, "wb");
  if (file == NULL) return 0;
  written = fwrite(h->numeric.ddr, 1u, (size_t)h->numeric.ddr_bytes, file);
  return fclose(file) == 0 && written == h->numeric.ddr_bytes;
}

static void close_all(host *h) {
  uint32_t k;
  if (h->flow != NULL) hexloom_flow_close(h->flow);
  if (h->port_is_open) hexloom_posix_close(&h->port);
  for (k = 0u; h->memories != NULL && k < h->own_memories; k++) free(h->memories[k].base);
  free(h->memories);
  free(h->kernels);
  free(h->memory);
  free(h->flow_words);
  free(h->numeric_words);
  free(h->numeric.ddr);
  free(h->plain_bytes);
  free(h->table_bytes);
}

/* --- executing and telling --------------------------------------------------------------------------------- */

static void execute(host *h) {
  const uint64_t begun = h->port.now_ns(h->port.context);
  uint32_t k;
  for (k = 0u; k < h->with.runs; k++) {
    if (h->flow != NULL) hexloom_flow_begin(h->flow, k);
    if (hexloom_execute(h->run) != HEXLOOM_OK) break;
    if (h->flow != NULL) hexloom_flow_end(h->flow);
  }
  h->status = *hexloom_status_of(h->run);
  h->elapsed_ns = h->port.now_ns(h->port.context) - begun;
  while (h->status.stuck > 0u && hexloom_join(h->run) > 0u) {
  }
  hexloom_close(h->run);
}

static int write_trace(const host *h, unsigned long *dropped) {
  FILE *file;
  uint32_t q, k;
  *dropped = 0u;
  if (h->with.trace == NULL || h->run == NULL) return 1;
  file = fopen(h->with.trace, "w");
  if (file == NULL) return 0;
  for (q = 0u; q < h->view.header->queue_count; q++) {
    const hexloom_trace trace = hexloom_trace_of(h->run, q);
    *dropped += trace.dropped;
    for (k = 0u; k < trace.count; k++) {
      const hexloom_record *r = &trace.records[k];
      (void)fprintf(file, "%u %u %u %u %u %llu %llu\n", (unsigned)q, (unsigned)r->serial, (unsigned)r->slice,
                    (unsigned)r->phase, (unsigned)r->executed, (unsigned long long)r->start_ns,
                    (unsigned long long)r->end_ns);
    }
  }
  return fclose(file) == 0;
}

static void say_number(const char *name, uint32_t value) {
  if (value == HEXLOOM_NONE)
    (void)printf("\"%s\": null, ", name);
  else
    (void)printf("\"%s\": %u, ", name, (unsigned)value);
}

static int tell(const host *h) {
  const hexloom_status *s = &h->status;
  hexloom_flow_fault fault = {0u, HEXLOOM_NONE, HEXLOOM_NONE, HEXLOOM_NONE};
  unsigned long dropped;
  if (h->flow != NULL) fault = hexloom_flow_fault_of(h->flow);
  if (!write_trace(h, &dropped)) return failed("the trace cannot be written");
  if (!write_result(h)) return failed("the result cannot be written");
  (void)printf("{\"code\": \"%s\", ", hexloom_code_name(s->code));
  say_number("task", s->task);
  say_number("queue", s->queue);
  say_number("event", s->event);
  (void)printf("\"seen\": %llu, \"expected\": %llu, \"detail\": %d, ", (unsigned long long)s->seen,
               (unsigned long long)s->expected, (int)s->detail);
  (void)printf("\"stuck\": %u, \"undrained\": %u, \"executed\": %u, ", (unsigned)s->stuck, (unsigned)s->undrained,
               (unsigned)s->executed);
  if (s->problem == NULL)
    (void)printf("\"problem\": null, ");
  else
    (void)printf("\"problem\": \"%s\", ", s->problem);
  (void)printf("\"faults\": %u, ", (unsigned)fault.count);
  say_number("fault_task", fault.task);
  say_number("fault_buffer", fault.buffer);
  say_number("fault_stripe", fault.stripe);
  (void)printf("\"dropped\": %lu, \"elapsed_ns\": %llu}\n", dropped, (unsigned long long)h->elapsed_ns);
  return s->code == HEXLOOM_OK && fault.count == 0u ? 0 : 1;
}

/* The tables with all laps written out, and how many these are: N,N */
static int open_plain(host *h) {
  const char *text = h->with.parameters;
  size_t length = 0u;
  h->plain = h->view;
  while (text != NULL && h->parameter_count < MOST_PARAMETERS) {
    char *end;
    h->parameters[h->parameter_count++] = (uint32_t)strtoul(text, &end, 10);
    if (end == text || (*end != '\0' && *end != ',')) return 0;
    text = *end == ',' ? end + 1 : NULL;
  }
  if (h->with.plain == NULL) return text == NULL;
  h->plain_bytes = read_file(h->with.plain, &length);
  return text == NULL && h->plain_bytes != NULL && hexloom_open(h->plain_bytes, length, &h->plain) == NULL;
}

static int open_tables(host *h, const hexloom_view *view) {
  size_t length = 0u;
  if (view != NULL) {
    h->view = *view;
    return 0;
  }
  if (h->with.tables == NULL) return failed("no tables=");
  h->table_bytes = read_file(h->with.tables, &length);
  if (h->table_bytes == NULL) return failed("the tables cannot be read");
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the host keeps it, and gives it back when all is closed */
  h->status.problem = hexloom_open(h->table_bytes, length, &h->view);
  if (h->status.problem == NULL) return 0;
  h->status.code = HEXLOOM_BAD_TABLE;
  return tell(h);
}

int hexloom_host(const hexloom_view *view, int argc, char **argv) {
  host h;
  int answer;
  (void)memset(&h, 0, sizeof h);
  h.status.task = h.status.queue = h.status.event = HEXLOOM_NONE;
  if (!hexloom_read_arguments(&h.with, argc, argv)) return failed("an argument is not understood; see hexloom_host.h");
  answer = open_tables(&h, view);
  if (answer != 0) {
    free(h.table_bytes);
    return answer;
  }
  if (!open_plain(&h)) {
    answer = failed("the plain tables or the parameters cannot be read");
  } else if (!open_memories(&h) || !open_kernels(&h) || !open_port(&h) || !open_run(&h)) {
    answer = failed("out of memory or threads, or a tensor is not in its memory");
  } else if (h.run == NULL) {
    answer = tell(&h);
  } else if (!open_flow(&h)) {
    answer = failed("the flow cannot be read, or does not fit the tables");
  } else if (!open_numbers(&h)) {
    answer = failed("the numbers cannot be read, or do not fit the tables");
  } else {
    execute(&h);
    answer = tell(&h);
  }
  close_all(&h);
  return answer;
}
