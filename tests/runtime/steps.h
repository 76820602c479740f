/* Included before the runtime: between any two of its steps a thread may lose its processor, or rest for a while. */
#ifndef STEPS_H
#define STEPS_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

static _Thread_local uint64_t steps_chance;

static inline void steps_pause(void) {
  uint64_t x = steps_chance;
  if (x == 0u) x = (uint64_t)(uintptr_t)&steps_chance | 1u;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  steps_chance = x;
  if (x % 4u == 0u) {
    (void)sched_yield();
  } else if (x % 64u == 1u) {
    const struct timespec rest = {0, (long)(x / 64u % 100000u)};
    (void)nanosleep(&rest, NULL);
  }
}

#define HEXLOOM_STEP() steps_pause()

#endif
