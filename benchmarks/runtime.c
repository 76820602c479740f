/* Executes tables with kernels that only look at the clock, and prints for each execution in nanoseconds how long it
 * was from the first kernel of queue 0 until its last one, and in all.
 *
 *   runtime TABLES EXECUTIONS SPINS STAY
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hexloom_posix.h"
#include "hexloom_runtime.h"

static uint64_t first_ns, last_ns;

static int look(const hexloom_call *call) {
  const hexloom_view *view = call->view;
  const hexloom_queue *queue = &view->queues[0];
  const hexloom_port *port = (const hexloom_port *)call->user;
  if (call->queue != 0u) return 0;
  if (call->task_index == view->entries[queue->first_entry].task) first_ns = port->now_ns(port->context);
  if (call->task_index == view->entries[queue->first_entry + queue->entry_count - 1u].task)
    last_ns = port->now_ns(port->context);
  return 0;
}

static void *aligned(size_t bytes) { return aligned_alloc(128u, (bytes / 128u + 1u) * 128u); }

int main(int argc, char **argv) {
  hexloom_posix_options options;
  hexloom_kernel kernel;
  hexloom_memory memory;
  hexloom_port port;
  hexloom_setup setup;
  hexloom_status status;
  hexloom_run *run;
  FILE *file = argc == 5 ? fopen(argv[1], "rb") : NULL;
  void *bytes = aligned((size_t)1u << 26), *room;
  size_t length;
  long k;
  if (file == NULL || bytes == NULL) return 2;
  length = fread(bytes, 1u, (size_t)1u << 26, file);
  (void)fclose(file);
  memset(&setup, 0, sizeof setup);
  memset(&options, 0, sizeof options);
  if (hexloom_open(bytes, length, &setup.view) != NULL) return 3;
  options.workers = setup.view.header->queue_count;
  if (hexloom_posix_open(&port, &options) != 0) return 3;
  kernel.function = look;
  kernel.user = &port;
  memory.base = bytes;
  memory.bytes = 0u;
  setup.port = &port;
  setup.memories = &memory;
  setup.memory_count = 1u;
  setup.kernels = &kernel;
  setup.kernel_count = 1u;
  setup.spins = (uint32_t)strtoul(argv[3], NULL, 10);
  setup.flags = argv[4][0] == '1' ? HEXLOOM_STAY : 0u;
  setup.timeout_ns = UINT64_C(20000000000);
  room = aligned(hexloom_run_bytes(&setup));
  run = room == NULL ? NULL : hexloom_bind(&setup, room, hexloom_run_bytes(&setup), &status);
  if (run == NULL) return 4;
  for (k = 0; k < strtol(argv[2], NULL, 10); k++) {
    const uint64_t begun = port.now_ns(port.context);
    if (hexloom_execute(run) != HEXLOOM_OK) return 5;
    printf("%llu %llu\n", (unsigned long long)(last_ns - first_ns),
           (unsigned long long)(port.now_ns(port.context) - begun));
  }
  hexloom_close(run);
  hexloom_posix_close(&port);
  free(room);
  free(bytes);
  return 0;
}
