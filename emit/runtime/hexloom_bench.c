/* SPDX-License-Identifier: Apache-2.0 */
#include "hexloom_bench.h"

#include <stdatomic.h>

#define MOST_ROUNDS (64u)
#define HANDOVERS (1000u)
#define READS (1000u)
#define TRANSFERS (64u)
#define ROWS (256u)
#define ROW_BYTES (576u) /* a q4_0 tile of weights, the transfer this project has the most of */
#define PATIENCE_NS UINT64_C(10000000000)
#define SLEEP_NS UINT64_C(1000000000)

typedef struct bench bench;

/* What worker 0 does in one round of a measurement: how long it took in nanoseconds, 0 if it failed. */
typedef uint64_t (*round_of)(bench *b);

struct bench {
  const hexloom_port *port;
  unsigned char *to;
  const unsigned char *from;
  round_of round;
  uint32_t rounds;
  uint64_t took[MOST_ROUNDS];
  uint32_t sleeps; /* the second worker sleeps between hand-overs, it does not look */
  uint32_t turns;
  _Atomic uint32_t ball; /* even: worker 0 has it */
};

static uint64_t now(const bench *b) { return b->port->now_ns(b->port->context); }

/* --- hand-over --------------------------------------------------------------------------------------------- */

static void wait_for_ball(bench *b, uint32_t turn) {
  const uint64_t limit = now(b) + PATIENCE_NS;
  uint32_t round = 0u, seen;
  while ((seen = atomic_load_explicit(&b->ball, memory_order_acquire)) != turn) {
    if (b->sleeps)
      b->port->sleep(b->port->context, (uint32_t *)(void *)&b->ball, seen, SLEEP_NS);
    else
      b->port->relax(b->port->context, round++ % 64u);
    if ((round & 63u) == 0u && now(b) > limit) return;
  }
}

static void pass_ball(bench *b, uint32_t turn) {
  atomic_store_explicit(&b->ball, turn, memory_order_release);
  if (b->sleeps) b->port->wake(b->port->context, (uint32_t *)(void *)&b->ball);
}

static uint64_t play(bench *b) {
  const uint64_t begun = now(b);
  uint32_t k;
  for (k = 0u; k < HANDOVERS / 2u; k++) {
    pass_ball(b, b->turns + 1u);
    b->turns += 2u;
    wait_for_ball(b, b->turns);
  }
  return now(b) - begun;
}

static void return_balls(void *argument) {
  bench *b = (bench *)argument;
  uint32_t k;
  for (k = 0u; k < b->rounds * (HANDOVERS / 2u); k++) {
    wait_for_ball(b, 2u * k + 1u);
    pass_ball(b, 2u * k + 2u);
  }
}

/* --- the others -------------------------------------------------------------------------------------------- */

static void nothing(void *argument) { (void)argument; }

static uint64_t start_and_join(bench *b) {
  const uint64_t begun = now(b);
  if (b->port->start(b->port->context, 1u, nothing, b) != 0) return 0u;
  b->port->join(b->port->context, 1u);
  return now(b) - begun;
}

static uint64_t read_clock(bench *b) {
  const uint64_t begun = now(b);
  uint32_t k;
  for (k = 0u; k < READS; k++) (void)now(b);
  return now(b) - begun;
}

static int await_transfer(bench *b, uint32_t ticket) {
  const uint64_t limit = now(b) + PATIENCE_NS;
  int answer;
  while ((answer = b->port->dma_done(b->port->context, 0u, ticket)) == 0) {
    if (now(b) > limit) return 0;
    b->port->relax(b->port->context, 0u);
  }
  return answer == 1;
}

/* Issue many small transfers; what is measured is the issuing, not their end. */
static uint64_t issue(bench *b) {
  hexloom_transfer t = {b->to, b->from, ROW_BYTES, 1u, ROW_BYTES, ROW_BYTES};
  uint32_t tickets[TRANSFERS], k;
  const uint64_t begun = now(b);
  uint64_t took;
  for (k = 0u; k < TRANSFERS; k++)
    if (b->port->dma_push(b->port->context, 0u, &t, &tickets[k]) != 0) return 0u;
  took = now(b) - begun;
  for (k = 0u; k < TRANSFERS; k++)
    if (!await_transfer(b, tickets[k])) return 0u;
  return took;
}

static uint64_t move(bench *b, const hexloom_transfer *t) {
  const uint64_t begun = now(b);
  uint32_t ticket;
  if (b->port->dma_push(b->port->context, 0u, t, &ticket) != 0 || !await_transfer(b, ticket)) return 0u;
  return now(b) - begun;
}

static uint64_t move_rows(bench *b) {
  const hexloom_transfer t = {b->to, b->from, ROW_BYTES, ROWS, ROW_BYTES + 64u, ROW_BYTES};
  return move(b, &t);
}

static uint64_t move_at_once(bench *b) {
  const hexloom_transfer t = {b->to, b->from, ROW_BYTES * ROWS, 1u, ROW_BYTES * ROWS, ROW_BYTES * ROWS};
  return move(b, &t);
}

/* --- rounds ------------------------------------------------------------------------------------------------ */

/* Transfers belong to the thread that issues them: all rounds are those of worker 0. */
static void run_rounds(void *argument) {
  bench *b = (bench *)argument;
  uint32_t k;
  for (k = 0u; k < b->rounds; k++) b->took[k] = b->round(b);
}

static int measure(bench *b, const char *name, round_of round, uint32_t steps, int with_other, hexloom_measure *found) {
  uint32_t k, n;
  b->round = round;
  b->turns = 0u;
  atomic_store(&b->ball, 0u);
  if (with_other && b->port->start(b->port->context, 1u, return_balls, b) != 0) return 0;
  if (b->port->start(b->port->context, 0u, run_rounds, b) != 0) return 0; /* the other one loses patience */
  b->port->join(b->port->context, 0u);
  if (with_other) b->port->join(b->port->context, 1u);
  for (k = 1u; k < b->rounds; k++) /* few enough to be sorted by insertion */
    for (n = k; n > 0u && b->took[n] < b->took[n - 1u]; n--) {
      const uint64_t larger = b->took[n - 1u];
      b->took[n - 1u] = b->took[n];
      b->took[n] = larger;
    }
  k = b->rounds / 2u;
  found->name = name;
  found->low_ns = (double)b->took[0] / steps;
  found->median_ns = (double)b->took[k] / steps;
  found->high_ns = (double)b->took[b->rounds - 1u] / steps;
  found->steps = steps;
  return b->took[0] > 0u;
}

uint32_t hexloom_bench(const hexloom_port *port, void *to, const void *from, size_t bytes, uint32_t rounds,
                       hexloom_measure measures[HEXLOOM_MEASURES]) {
  static bench b; /* larger than a small stack */
  uint32_t n = 0u;
  if (rounds == 0u || rounds > MOST_ROUNDS || bytes < (size_t)(ROW_BYTES + 64u) * ROWS) return 0u;
  b.port = port;
  b.to = (unsigned char *)to;
  b.from = (const unsigned char *)from;
  b.rounds = rounds;
  b.sleeps = 0u;
  if (!measure(&b, "clock", read_clock, READS, 0, &measures[n++])) return 0u;
  if (!measure(&b, "start_join", start_and_join, 1u, 0, &measures[n++])) return 0u;
  if (!measure(&b, "handover_spin", play, HANDOVERS, 1, &measures[n++])) return 0u;
  b.sleeps = 1u;
  if (!measure(&b, "handover_sleep", play, HANDOVERS, 1, &measures[n++])) return 0u;
  if (port->dma_push == NULL) return n;
  if (!measure(&b, "dma_issue", issue, TRANSFERS, 0, &measures[n++])) return 0u;
  if (!measure(&b, "dma_row", move_rows, ROWS, 0, &measures[n++])) return 0u;
  if (!measure(&b, "dma_row_bytes_at_once", move_at_once, ROWS, 0, &measures[n++])) return 0u;
  return n;
}
