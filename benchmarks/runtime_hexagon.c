/* Executes the tables in tables.bin HEXLOOM_RUNS times, with kernels that do nothing, all on the first thread: in the
 * emulator, which counts what that takes. */
#include "hexloom_hexraw.h"
#include "hexloom_runtime.h"

__asm__(".section .data\n.p2align 7\n.globl tables\ntables:\n.incbin \"tables.bin\"\n.globl tables_end\ntables_end:\n"
        ".p2align 3\n.text\n");
extern const unsigned char tables[];
extern const unsigned char tables_end[];

int hexraw_main(void);

static int nothing(const hexloom_call *call) {
  (void)call;
  return 0;
}

int hexraw_main(void) {
  static hexloom_setup setup;
  static hexloom_memory memory;
  static hexloom_kernel kernel;
  hexloom_port port;
  hexloom_status status;
  hexloom_run *run;
  size_t bytes;
  int k;
  kernel.function = nothing;
  if (hexloom_open(tables, (size_t)((uintptr_t)tables_end - (uintptr_t)tables), &setup.view) != NULL) return 2;
  if (hexloom_hexraw_open(&port, 1u, 65536u, 1u) != 0) return 3;
  memory.base = hexloom_hexraw_memory(4096u);
  setup.port = &port;
  setup.memories = &memory;
  setup.memory_count = 1u;
  setup.kernels = &kernel;
  setup.kernel_count = 1u;
  bytes = hexloom_run_bytes(&setup);
  run = hexloom_bind(&setup, hexloom_hexraw_memory(bytes), bytes, &status);
  if (run == NULL) return 4;
  for (k = 0; k < HEXLOOM_RUNS; k++)
    if (hexloom_execute(run) != HEXLOOM_OK) return 5;
  return 0;
}
