/* Executes tables whose transfers have descriptors: bindings 1 and 2 are tensors, the only kernel adds 1 to all bytes of
 * its first operand, into its second one. Arguments: tables, laps or -, bytes of the tensors. Prints the status, and
 * whether each byte of the second tensor is 1 more than that of the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hexloom_posix.h"
#include "hexloom_runtime.h"

static int add_one(const hexloom_call *call) {
  const hexloom_buffer *b = &call->view->buffers[hexloom_operand_of(call, 0u)->buffer];
  const unsigned char *from = (const unsigned char *)hexloom_at(call, 0u);
  unsigned char *to = (unsigned char *)hexloom_at(call, 1u);
  uint64_t k;
  for (k = 0u; k < b->bytes; k++) to[k] = (unsigned char)(from[k] + 1u);
  return 0;
}

int main(int argc, char **argv) {
  hexloom_posix_options options;
  hexloom_kernel kernels[8];
  hexloom_memory memories[3];
  hexloom_port port;
  hexloom_setup setup;
  hexloom_status status;
  hexloom_run *run;
  const size_t bytes = argc == 4 ? (size_t)strtoul(argv[3], NULL, 10) : 0u;
  uint32_t parameters[8];
  char *text = argc == 4 ? argv[2] : NULL;
  FILE *file = argc == 4 ? fopen(argv[1], "rb") : NULL;
  static unsigned char tables[1u << 20] __attribute__((aligned(128)));
  size_t length, k;
  unsigned long wrong = 0u;
  void *room;
  if (file == NULL) return 2;
  length = fread(tables, 1u, sizeof tables, file);
  (void)fclose(file);
  memset(&setup, 0, sizeof setup);
  memset(&options, 0, sizeof options);
  if (hexloom_open(tables, length, &setup.view) != NULL || setup.view.header->binding_count != 3u) return 3;
  for (k = 0u; k < 8u; k++) {
    kernels[k].function = add_one;
    kernels[k].user = NULL;
  }
  for (k = 0u; k < 3u; k++) {
    memories[k].bytes = k == 0u ? setup.view.bindings[0].bytes : bytes;
    memories[k].base = aligned_alloc(65536u, (size_t)(memories[k].bytes / 65536u + 1u) * 65536u);
    if (memories[k].base == NULL) return 4;
    memset(memories[k].base, 0, (size_t)memories[k].bytes);
  }
  for (k = 0u; k < bytes; k++) ((unsigned char *)memories[1].base)[k] = (unsigned char)(k * 7u + k / 251u);
  options.workers = setup.view.header->queue_count;
  options.seed = 3u;
  options.most_delay_us = 50u;
  if (hexloom_posix_open(&port, &options) != 0) return 5;
  setup.port = &port;
  setup.memories = memories;
  setup.memory_count = 3u;
  setup.kernels = kernels;
  setup.kernel_count = 8u;
  setup.main_queue = HEXLOOM_NONE;
  while (text != NULL && *text >= '0' && setup.parameter_count < 8u) {
    parameters[setup.parameter_count++] = (uint32_t)strtoul(text, &text, 10);
    if (*text == ',') text++;
  }
  if (setup.parameter_count > 0u) setup.parameters = parameters;
  length = hexloom_run_bytes(&setup);
  room = aligned_alloc(128u, (length / 128u + 1u) * 128u);
  run = hexloom_bind(&setup, room, length, &status);
  if (run != NULL) {
    (void)hexloom_execute(run);
    status = *hexloom_status_of(run);
    hexloom_close(run);
  }
  for (k = 0u; k < bytes; k++)
    wrong += ((unsigned char *)memories[2].base)[k] != (unsigned char)(((unsigned char *)memories[1].base)[k] + 1u);
  printf("%s %lu %lu %lu\n", hexloom_code_name(status.code), wrong, (unsigned long)status.seen,
         (unsigned long)status.expected);
  hexloom_posix_close(&port);
  for (k = 0u; k < 3u; k++) free(memories[k].base);
  free(room);
  return 0;
}
