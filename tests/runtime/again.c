/* Executes tables whose last task fails now and then, and for which once a thread cannot be started: what comes after
 * an error is as if nothing had been before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hexloom_posix.h"
#include "hexloom_runtime.h"

static int fails;

/* What the port does, but for one thread that cannot be started while `lacking` is not 0. */
static int lacking;
static hexloom_port inner;

static int start(void *context, uint32_t worker, void (*body)(void *argument), void *argument) {
  return lacking && worker == 2u ? 11 : inner.start(context, worker, body, argument);
}

static int kernel(const hexloom_call *call) { return fails && call->task_index == call->view->header->task_count - 1u; }

int main(int argc, char **argv) {
  static _Alignas(4096) unsigned char bytes[65536], run_memory[65536], pad[65536];
  const hexloom_posix_options options = {16u, 0u, 1u, 100u, 0u, 0u, 0u};
  hexloom_kernel kernels[16];
  hexloom_memory memory;
  hexloom_port port;
  hexloom_setup setup;
  hexloom_status status;
  hexloom_run *run;
  FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  size_t length;
  int k;
  if (file == NULL) return 2;
  length = fread(bytes, 1u, sizeof bytes, file);
  (void)fclose(file);
  memset(&setup, 0, sizeof setup);
  memory.base = pad;
  memory.bytes = sizeof pad;
  for (k = 0; k < 16; k++) {
    kernels[k].function = kernel;
    kernels[k].user = NULL;
  }
  if (hexloom_open(bytes, length, &setup.view) != NULL || hexloom_posix_open(&port, &options) != 0) return 3;
  setup.port = &port;
  setup.memories = &memory;
  setup.memory_count = 1u;
  setup.kernels = kernels;
  setup.kernel_count = 16u;
  setup.main_queue = 0u;
  setup.flags = argv[2][0] == '1' ? HEXLOOM_STAY : 0u;
  inner = port;
  port.start = start;
  run = hexloom_bind(&setup, run_memory, sizeof run_memory, &status);
  if (run == NULL) return 4;
  for (k = 0; k < 8; k++) {
    static const uint32_t executed[] = {0u, 1u, 2u, 2u, 1u, 1u, 1u, 2u}; /* one that fails does not count */
    fails = k == 0 || k == 3;
    lacking = k == 5;
    if (lacking) hexloom_close(run); /* one that is there need not be started */
    printf("%s%s", hexloom_code_name(hexloom_execute(run)), k < 7 ? " " : "\n");
    if (hexloom_status_of(run)->executed != executed[k] || hexloom_status_of(run)->stuck != 0u) return 5 + k;
  }
  hexloom_close(run);
  hexloom_posix_close(&port);
  return 0;
}
