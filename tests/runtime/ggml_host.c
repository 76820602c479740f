/* Opens what hexloom_host.c asks for: the port of hosts for its clock, that of ggml for its tables. */
#define GGML_HOST_ITSELF

#include "ggml_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml_queues.h"
#include "hexloom_ggml.h"

#define STAGES (64u)

static struct {
  ggml_options options;
  struct htp_context ctx;
  hexloom_ggml ggml;
  hexloom_port port;
  hexloom_ggml_stage stages[STAGES];
  hexloom_kernel kernels[STAGES];
  int is_open;
} here;

int ggml_open(hexloom_port *port, const hexloom_posix_options *options) {
  const char *threads = getenv("GGML_THREADS");
  here.options.threads = threads == NULL ? HTP_MAX_NTHREADS : (uint32_t)atoi(threads);
  here.options.without_hmx = getenv("GGML_WITHOUT_HMX") != NULL;
  here.options.ring = options->ring_entries;
  here.options.seed = options->seed;
  here.options.delay_ns = (uint64_t)options->most_delay_us * 1000u;
  here.options.lost = options->lost;
  here.options.failing = options->failing;
  here.is_open = ggml_queues_open(&here.ctx, &here.options);
  return here.is_open ? hexloom_posix_open(port, options) : 1;
}

void ggml_close(hexloom_port *port) {
  hexloom_posix_close(port);
  if (here.is_open) ggml_queues_close(&here.ctx);
}

/* Every stage stands in ggml's trace. */
hexloom_run *ggml_bind(const hexloom_setup *setup, void *memory, size_t bytes, hexloom_status *status) {
  hexloom_setup inner = *setup;
  const char *problem = hexloom_ggml_open(&here.ggml, &here.port, &here.ctx, &setup->view);
  uint32_t k;
  if (problem != NULL || setup->kernel_count > STAGES) {
    memset(status, 0, sizeof *status);
    status->code = HEXLOOM_BAD_SETUP;
    status->task = status->queue = status->event = HEXLOOM_NONE;
    status->problem = problem == NULL ? "there are too many stages for this test" : problem;
    return NULL;
  }
  for (k = 0u; k < setup->kernel_count; k++) {
    here.stages[k].ggml = &here.ggml;
    here.stages[k].kernel = setup->kernels[k];
    here.stages[k].event = HTP_TRACE_EVT_HVX_COMP;
    here.kernels[k].function = hexloom_ggml_kernel;
    here.kernels[k].user = &here.stages[k];
  }
  inner.kernels = here.kernels;
  inner.port = &here.port;
  inner.main_queue = here.ggml.main_queue;
  return hexloom_bind(&inner, memory, bytes, status);
}

uint32_t ggml_execute(hexloom_run *run) {
  const uint32_t code = hexloom_ggml_execute(&here.ggml, run);
  const char *left = ggml_queues_left(&here.ctx);
  const int answer = hexloom_ggml_status(hexloom_status_of(run));
  if (code != hexloom_status_of(run)->code) (void)fprintf(stderr, "another code than that of the status\n");
  if ((answer == HTP_STATUS_OK) != (code == HEXLOOM_OK)) (void)fprintf(stderr, "ggml is told %d\n", answer);
  if (hexloom_status_of(run)->stuck > 0u) (void)fprintf(stderr, "a thread of ggml is in a kernel\n");
  if (left != NULL && hexloom_status_of(run)->undrained == 0u) (void)fprintf(stderr, "%s\n", left);
  return code;
}
