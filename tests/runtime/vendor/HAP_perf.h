/* What hexloom_qurt.c calls of the timers, as public code calls it (ggml-org/ggml d99724f2): for compiling only. */
#ifndef HAP_PERF_H
#define HAP_PERF_H

unsigned long long HAP_perf_get_qtimer_count(void);

#endif
