/* SPDX-License-Identifier: Apache-2.0
 *
 * A port for Hexagon code without any library, by Linux system calls alone: for the emulator qemu-hexagon, which has
 * neither user DMA nor cycle counters. A transfer is done while its owner asks for one of its transfers, in random
 * order. The parts of a C library that compilers call (memcpy, memset, division) come with it.
 */
#ifndef HEXLOOM_HEXRAW_H
#define HEXLOOM_HEXRAW_H

#include <stddef.h>

#include "hexloom_port.h"

#define HEXLOOM_HEXRAW_WORKERS (64u)

/* Fill in a port for so many workers, each with a stack of so many bytes; 0, or an error number. */
int hexloom_hexraw_open(hexloom_port *port, uint32_t workers, size_t stack_bytes, uint32_t seed);

/* Memory from the system, zero, aligned to pages; NULL when there is none. */
void *hexloom_hexraw_memory(size_t bytes);

void hexloom_hexraw_print(const char *text);
void hexloom_hexraw_print_number(uint64_t number);
int hexloom_hexraw_write_file(const char *name, const void *bytes, size_t count, int append);

#endif /* HEXLOOM_HEXRAW_H */
