/* Included before hexloom_host.c: its tables are executed by hexloom_ggml.c, on queues that ggml_queues.c plays. */
#ifndef GGML_HOST_H
#define GGML_HOST_H

#include "hexloom_posix.h"
#include "hexloom_runtime.h"

int ggml_open(hexloom_port *port, const hexloom_posix_options *options);
void ggml_close(hexloom_port *port);
hexloom_run *ggml_bind(const hexloom_setup *setup, void *memory, size_t bytes, hexloom_status *status);
uint32_t ggml_execute(hexloom_run *run);

#ifndef GGML_HOST_ITSELF
#define hexloom_posix_open ggml_open
#define hexloom_posix_close ggml_close
#define hexloom_bind ggml_bind
#define hexloom_execute ggml_execute
#endif

#endif
