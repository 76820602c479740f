/* Turns over every bit of tables in memory. Prints: bits; how many are refused as they are; and of every n-th bit how
 * many are taken, and executed, with checksums that fit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hexloom_posix.h"
#include "hexloom_runtime.h"

#define MOST ((size_t)262144u)
#define MEMORIES (4u)

static uint32_t crc(uint32_t sum, const unsigned char *at, size_t bytes) {
  size_t k;
  int bit;
  for (k = 0; k < bytes; k++) {
    sum ^= at[k];
    for (bit = 0; bit < 8; bit++) sum = (sum >> 1) ^ (0xEDB88320u & (0u - (sum & 1u)));
  }
  return sum;
}

static void seal(unsigned char *bytes, size_t length) {
  const size_t at = offsetof(hexloom_header, crc32);
  uint32_t sum;
  memset(bytes + at, 0, 8u);
  sum = crc(0xFFFFFFFFu, bytes, sizeof(hexloom_header)) ^ 0xFFFFFFFFu;
  memcpy(bytes + at + 4u, &sum, 4u);
  sum = crc(0xFFFFFFFFu, bytes, length) ^ 0xFFFFFFFFu;
  memcpy(bytes + at, &sum, 4u);
}

/* The kernels touch the first and the last byte of all they are given. */
static int kernel(const hexloom_call *call) {
  uint32_t k;
  if ((call->task->flags & HEXLOOM_TASK_ASYNC) != 0u) hexloom_finish(call->run, call->task_index);
  for (k = 0; k < call->task->operand_count; k++) {
    const hexloom_operand *o = hexloom_operand_of(call, k);
    const hexloom_buffer *b = &call->view->buffers[o->buffer == HEXLOOM_NONE ? 0u : o->buffer];
    const volatile unsigned char *at = (const volatile unsigned char *)hexloom_at(call, k);
    if (o->buffer != HEXLOOM_NONE && b->bytes > 0u) (void)(at[0] + at[b->bytes - 1u]);
  }
  return 0;
}

static uint32_t memory_count; /* as the unchanged tables need */

/* 1 if the tables were taken. The view is that of the unchanged tables, as if they were compiled in. */
static int try_tables(const hexloom_view *view, const hexloom_port *port, unsigned char *memory, int execute) {
  static unsigned char pads[MEMORIES][65536] __attribute__((aligned(65536)));
  hexloom_kernel kernels[64];
  hexloom_memory memories[MEMORIES];
  hexloom_setup setup;
  hexloom_status status;
  hexloom_run *run;
  int k;
  memset(&setup, 0, sizeof setup);
  for (k = 0; k < 64; k++) {
    kernels[k].function = kernel;
    kernels[k].user = NULL;
  }
  for (k = 0; k < (int)MEMORIES; k++) {
    memories[k].base = pads[k];
    memories[k].bytes = sizeof pads[k];
  }
  setup.view = *view;
  setup.port = port;
  setup.memories = memories;
  setup.memory_count = memory_count;
  setup.kernels = kernels;
  setup.kernel_count = 64u;
  setup.timeout_ns = 2000000u;
  setup.main_queue = 0u;
  setup.flags = HEXLOOM_PROVE;
  run = hexloom_bind(&setup, memory, MOST, &status);
  if (run == NULL) return 0;
  if (execute) (void)hexloom_execute(run);
  while (hexloom_join(run) > 0u) {
  }
  return 1;
}

int main(int argc, char **argv) {
  const hexloom_posix_options options = {64u, 4u, 1u, 0u, 0u, 0u, 0u};
  unsigned char *bytes = (unsigned char *)aligned_alloc(128u, MOST), *memory;
  FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  const unsigned long every = argc == 3 ? strtoul(argv[2], NULL, 10) : 1ul;
  unsigned long bit, refused = 0u, taken = 0u;
  hexloom_view view;
  hexloom_port port;
  size_t length;
  if (file == NULL || bytes == NULL || every == 0ul) return 2;
  length = fread(bytes, 1u, MOST, file);
  (void)fclose(file);
  bytes = (unsigned char *)realloc(bytes, length); /* what lies behind them is not theirs */
  memory = (unsigned char *)aligned_alloc(128u, MOST);
  if (bytes == NULL || memory == NULL || hexloom_open(bytes, length, &view) != NULL) return 3;
  memory_count = view.header->binding_count;
  if (memory_count > MEMORIES) return 3;
  if (hexloom_posix_open(&port, &options) != 0 || !try_tables(&view, &port, memory, 1)) return 4;
  for (bit = 0; bit < 8u * length; bit++) {
    hexloom_view ignored;
    unsigned char header[sizeof(hexloom_header)];
    memcpy(header, bytes, sizeof header);
    bytes[bit / 8u] ^= (unsigned char)(1u << (bit % 8u));
    refused += !try_tables(&view, &port, memory, 1) && hexloom_open(bytes, length, &ignored) != NULL;
    if (bit % every == 0u) {
      seal(bytes, length);
      /* counts are believed after the checksum of the header: only those of the whole length are tried */
      if (hexloom_open(bytes, length, &ignored) == NULL)
        taken += (unsigned long)try_tables(&ignored, &port, memory, 1);
    }
    bytes[bit / 8u] ^= (unsigned char)(1u << (bit % 8u));
    memcpy(bytes, header, sizeof header);
    if (bit / 8u < sizeof header) seal(bytes, length); /* as before: the checksum of the rest is in the header, too */
  }
  hexloom_posix_close(&port);
  free(bytes);
  free(memory);
  printf("%lu %lu %lu\n", 8ul * (unsigned long)length, refused, taken);
  return 0;
}
