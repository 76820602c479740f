/* SPDX-License-Identifier: Apache-2.0 */
#include "hexloom_flow.h"

#include <stdatomic.h>

#include "hexloom_late.h"

#if defined(HEXLOOM_BARE) /* without a library */
#include "hexloom_hexraw.h"
#else
#include <stdlib.h>
#endif

#define SAMPLE_ROWS (8u) /* of a stripe that a transfer reads */
#define SAMPLE_BYTES (16u)
#define SINK_BYTES ((size_t)SAMPLE_ROWS * SAMPLE_BYTES)
#define HEAD_WORDS (3u)
#define BUFFER_WORDS ((size_t)3u)
#define OPERAND_WORDS ((size_t)3u)

typedef struct stripe {
  unsigned char *at;
  size_t bytes;
} stripe;

struct hexloom_flow {
  const hexloom_view *view;
  const hexloom_memory *memories;
  const uint32_t *buffers;
  const uint32_t *operands;
  const uint32_t *seen;
  unsigned char **sources; /* per operand of a transfer: its stripe as it lies in DDR */
  unsigned char *source_bytes;
  unsigned char *sinks;    /* per seen stripe: the samples a transfer has read */
  uint64_t seed;
  uint32_t delay_us;
  uint32_t executed;
  _Atomic uint32_t faults;
  hexloom_flow_fault first; /* written by who counted the first one, read when all have ended */
  hexloom_late *late;
};

#if defined(HEXLOOM_BARE)
static void *zeros(size_t bytes) { return hexloom_hexraw_memory(bytes); }
static void give_back(void *memory) { (void)memory; }
#else
static void *zeros(size_t bytes) { return calloc(1u, bytes + 1u); }
static void give_back(void *memory) { free(memory); }
#endif

/* --- patterns ---------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 31);
}

static uint64_t key_of(uint32_t buffer, uint32_t number, uint32_t executed) {
  return mixed(((uint64_t)buffer << 40) ^ ((uint64_t)number << 16) ^ mixed(executed + 1u));
}

static unsigned char pattern(uint64_t key, size_t at) {
  return (unsigned char)((key >> (8u * (at % 8u))) ^ (at / 8u) * 167u);
}

static stripe stripe_of(const hexloom_flow *flow, uint32_t buffer, uint32_t number) {
  const hexloom_buffer *b = &flow->view->buffers[buffer];
  const uint64_t stripes = flow->buffers[BUFFER_WORDS * buffer];
  const uint64_t start = b->bytes * number / stripes, end = b->bytes * (number + 1u) / stripes;
  stripe s;
  s.at = (unsigned char *)flow->memories[b->binding].base + b->offset + start;
  s.bytes = (size_t)(end - start);
  return s;
}

static void write_pattern(unsigned char *at, size_t bytes, uint64_t key) {
  size_t k;
  for (k = 0u; k < bytes; k++) at[k] = pattern(key, k);
}

static void complain(hexloom_flow *flow, uint32_t task, uint32_t buffer, uint32_t number) {
  if (atomic_fetch_add(&flow->faults, 1u) != 0u) return;
  flow->first.task = task;
  flow->first.buffer = buffer;
  flow->first.stripe = number;
}

static void check_pattern(hexloom_flow *flow, uint32_t task, uint32_t buffer, uint32_t number) {
  const stripe s = stripe_of(flow, buffer, number);
  const uint64_t key = key_of(buffer, number, flow->executed);
  size_t k;
  for (k = 0u; k < s.bytes; k++)
    if (s.at[k] != pattern(key, k)) {
      complain(flow, task, buffer, number);
      return;
    }
}

/* --- what a slice does ------------------------------------------------------------------------------------- */

static uint32_t operand_word(const hexloom_flow *flow, uint32_t operand, uint32_t word) {
  return flow->operands[OPERAND_WORDS * operand + word];
}

static void work_on(hexloom_flow *flow, const hexloom_call *call) {
  const hexloom_task *task = &flow->view->tasks[call->serial];
  const hexloom_operand *operands = flow->view->operands;
  uint32_t k, n;
  for (k = 0u; k < task->operand_count; k++) {
    const uint32_t operand = task->first_operand + k, buffer = operands[operand].buffer;
    for (n = 0u; n < operand_word(flow, operand, 2u); n++)
      check_pattern(flow, call->serial, buffer, flow->seen[operand_word(flow, operand, 1u) + n]);
  }
  for (k = 0u; k < task->operand_count; k++) {
    const uint32_t first = operand_word(flow, task->first_operand + k, 0u);
    const uint32_t buffer = operands[task->first_operand + k].buffer;
    stripe s;
    if (first == HEXLOOM_NONE) continue;
    s = stripe_of(flow, buffer, first + call->slice);
    write_pattern(s.at, s.bytes, key_of(buffer, first + call->slice, flow->executed));
  }
}

/* Bytes of a sample, and how far apart they are: one row where the stripe is short. */
static hexloom_transfer sample_of(const stripe *s, unsigned char *sink) {
  hexloom_transfer t;
  t.to = sink;
  t.from = s->at;
  t.row_bytes = s->bytes < SAMPLE_BYTES ? (uint32_t)s->bytes : SAMPLE_BYTES;
  t.rows = s->bytes < SINK_BYTES ? 1u : SAMPLE_ROWS;
  t.to_stride = SAMPLE_BYTES;
  t.from_stride = t.rows == 1u ? 0u : (uint32_t)((s->bytes - SAMPLE_BYTES) / (SAMPLE_ROWS - 1u));
  return t;
}

static int issue(hexloom_flow *flow, const hexloom_call *call) {
  const hexloom_task *task = &flow->view->tasks[call->serial];
  const hexloom_operand *operands = flow->view->operands;
  uint32_t k, n;
  int answer = 0;
  for (k = 0u; k < task->operand_count && answer == 0; k++) {
    const uint32_t operand = task->first_operand + k, buffer = operands[operand].buffer;
    const uint32_t first_seen = operand_word(flow, operand, 1u);
    for (n = 0u; n < operand_word(flow, operand, 2u) && answer == 0; n++) {
      const stripe s = stripe_of(flow, buffer, flow->seen[first_seen + n]);
      const hexloom_transfer t = sample_of(&s, flow->sinks + (size_t)(first_seen + n) * SINK_BYTES);
      if (s.bytes > 0u) answer = hexloom_push(call, &t);
    }
  }
  for (k = 0u; k < task->operand_count && answer == 0; k++) {
    const uint32_t operand = task->first_operand + k, first = operand_word(flow, operand, 0u);
    hexloom_transfer t;
    stripe s;
    if (first == HEXLOOM_NONE) continue;
    s = stripe_of(flow, operands[operand].buffer, first);
    if (s.bytes == 0u) continue;
    t.to = s.at;
    t.from = flow->sources[operand];
    t.rows = s.bytes % 2u == 0u ? 2u : 1u;
    t.row_bytes = (uint32_t)(s.bytes / t.rows);
    t.to_stride = t.from_stride = t.row_bytes;
    answer = hexloom_push(call, &t);
  }
  return answer;
}

/* A random delay of the work of a slice; `which` tells several of it apart. */
static uint64_t delay_ns(const hexloom_flow *flow, const hexloom_call *call, uint64_t which) {
  const uint64_t slice = ((uint64_t)call->serial << 32) ^ ((uint64_t)call->slice << 20) ^ flow->executed;
  return mixed(flow->seed ^ mixed(slice + (which << 60))) % ((uint64_t)flow->delay_us * 1000u + 1u);
}

static void work_late(void *user, const hexloom_call *call) { work_on((hexloom_flow *)user, call); }

/* Whether a call is about the task that has its number when all laps are written out, and that one's operands. */
static int is_expected(const hexloom_flow *flow, const hexloom_call *call) {
  const hexloom_task *task;
  uint32_t k;
  if (call->serial >= flow->view->header->task_count) return 0;
  task = &flow->view->tasks[call->serial];
  if (task->stage != call->task->stage || task->tile != call->tile || task->iteration != call->iteration ||
      task->operand_count != call->task->operand_count || task->slice_count != call->task->slice_count)
    return 0;
  for (k = 0u; k < task->operand_count; k++) {
    const hexloom_operand *operand = &flow->view->operands[task->first_operand + k];
    if ((unsigned char *)flow->memories[operand->binding].base + operand->offset != hexloom_at(call, k)) return 0;
  }
  return 1;
}

int hexloom_flow_kernel(const hexloom_call *call) {
  hexloom_flow *flow = (hexloom_flow *)call->user;
  if (!is_expected(flow, call)) return -1;
  hexloom_rest(delay_ns(flow, call, 0u));
  if (call->task->kind == HEXLOOM_DMA) return issue(flow, call);
  if ((call->task->flags & HEXLOOM_TASK_ASYNC) != 0u)
    return hexloom_late_send(flow->late, call, delay_ns(flow, call, 1u));
  work_on(flow, call);
  return 0;
}

/* --- around the executions --------------------------------------------------------------------------------- */

void hexloom_flow_begin(hexloom_flow *flow, uint32_t executed) {
  const hexloom_header *h = flow->view->header;
  uint32_t b, t, k;
  flow->executed = executed;
  for (b = 0u; b < h->buffer_count; b++) {
    const uint32_t initial = flow->buffers[BUFFER_WORDS * b + 1u];
    stripe s;
    if (initial == HEXLOOM_NONE) continue;
    s = stripe_of(flow, b, initial);
    write_pattern(s.at, s.bytes, key_of(b, initial, executed));
  }
  for (t = 0u; t < h->task_count; t++)
    for (k = 0u; k < flow->view->tasks[t].operand_count; k++) {
      const uint32_t operand = flow->view->tasks[t].first_operand + k, first = operand_word(flow, operand, 0u);
      const uint32_t buffer = flow->view->operands[operand].buffer;
      if (flow->sources[operand] == NULL) continue;
      write_pattern(flow->sources[operand], stripe_of(flow, buffer, first).bytes, key_of(buffer, first, executed));
    }
}

/* Look at what transfers have read, and at what must still be there. */
void hexloom_flow_end(hexloom_flow *flow) {
  const hexloom_header *h = flow->view->header;
  uint32_t t, k, n, b;
  size_t byte;
  for (t = 0u; t < h->task_count; t++) {
    const hexloom_task *task = &flow->view->tasks[t];
    if (task->kind != HEXLOOM_DMA) continue;
    for (k = task->first_operand; k < task->first_operand + task->operand_count; k++)
      for (n = 0u; n < operand_word(flow, k, 2u); n++) {
        const uint32_t place = operand_word(flow, k, 1u) + n, buffer = flow->view->operands[k].buffer;
        unsigned char *sink = flow->sinks + (size_t)place * SINK_BYTES;
        const stripe s = stripe_of(flow, buffer, flow->seen[place]);
        const hexloom_transfer sample = sample_of(&s, sink);
        const uint64_t key = key_of(buffer, flow->seen[place], flow->executed);
        int right = 1;
        for (byte = 0u; byte < (size_t)sample.rows * sample.row_bytes; byte++) {
          const size_t row = byte / sample.row_bytes, column = byte % sample.row_bytes;
          right &= sink[row * SAMPLE_BYTES + column] == pattern(key, row * sample.from_stride + column);
        }
        if (!right) complain(flow, t, buffer, flow->seen[place]);
      }
  }
  for (b = 0u; b < h->buffer_count; b++)
    for (n = 0u; flow->buffers[BUFFER_WORDS * b + 2u] != 0u && n < flow->buffers[BUFFER_WORDS * b]; n++)
      check_pattern(flow, HEXLOOM_NONE, b, n);
}

hexloom_flow_fault hexloom_flow_fault_of(const hexloom_flow *flow) {
  hexloom_flow_fault fault = flow->first;
  fault.count = atomic_load(&flow->faults);
  return fault;
}

/* Whether the words speak of these tables, and of stripes that exist. */
static int words_fit(const hexloom_view *view, const uint32_t *words, size_t count) {
  const hexloom_header *h = view->header;
  const uint32_t *buffers = words + HEAD_WORDS, *operands, *seen;
  uint32_t t, k, n;
  if (count < HEAD_WORDS || words[0] != h->buffer_count || words[1] != h->operand_count) return 0;
  if (count != HEAD_WORDS + (size_t)BUFFER_WORDS * words[0] + (size_t)OPERAND_WORDS * words[1] + words[2]) return 0;
  operands = buffers + (size_t)BUFFER_WORDS * words[0];
  seen = operands + (size_t)OPERAND_WORDS * words[1];
  for (k = 0u; k < h->buffer_count; k++)
    if (buffers[BUFFER_WORDS * k + 1u] != HEXLOOM_NONE &&
        buffers[BUFFER_WORDS * k + 1u] >= buffers[BUFFER_WORDS * k])
      return 0;
  for (t = 0u; t < h->task_count; t++)
    for (k = view->tasks[t].first_operand; k < view->tasks[t].first_operand + view->tasks[t].operand_count; k++) {
      const uint32_t *operand = &operands[OPERAND_WORDS * k];
      const uint32_t stripes = view->operands[k].buffer == HEXLOOM_NONE
                                   ? 0u : buffers[BUFFER_WORDS * view->operands[k].buffer];
      if (operand[0] != HEXLOOM_NONE && (operand[0] >= stripes || view->tasks[t].slice_count > stripes - operand[0]))
        return 0;
      if (operand[2] > words[2] || operand[1] > words[2] - operand[2]) return 0;
      for (n = 0u; n < operand[2]; n++)
        if (seen[operand[1] + n] >= stripes) return 0;
    }
  return 1;
}

/* Whether a transfer writes into an operand, and how many bytes. */
static int is_loaded(const hexloom_flow *flow, uint32_t task, uint32_t operand, size_t *bytes) {
  const uint32_t first = operand_word(flow, operand, 0u);
  if (flow->view->tasks[task].kind != HEXLOOM_DMA || first == HEXLOOM_NONE) return 0;
  *bytes = stripe_of(flow, flow->view->operands[operand].buffer, first).bytes;
  return 1;
}

/* Cut the bytes of all sources, or count them where there are none yet. */
static size_t cut_sources(hexloom_flow *flow) {
  const hexloom_view *view = flow->view;
  size_t sum = 0u, bytes;
  uint32_t t, k;
  for (t = 0u; t < view->header->task_count; t++)
    for (k = view->tasks[t].first_operand; k < view->tasks[t].first_operand + view->tasks[t].operand_count; k++) {
      if (!is_loaded(flow, t, k, &bytes)) continue;
      if (flow->source_bytes != NULL) flow->sources[k] = flow->source_bytes + sum;
      sum += bytes;
    }
  return sum;
}

static int make_sources(hexloom_flow *flow) {
  flow->source_bytes = (unsigned char *)zeros(cut_sources(flow));
  if (flow->source_bytes == NULL) return 0;
  (void)cut_sources(flow);
  return 1;
}

hexloom_flow *hexloom_flow_open(const hexloom_view *plain, const hexloom_memory *memories, const uint32_t *words,
                                size_t count, uint64_t seed, uint32_t delay_us) {
  hexloom_flow *flow;
  if (!words_fit(plain, words, count)) return NULL;
  flow = (hexloom_flow *)zeros(sizeof *flow);
  if (flow == NULL) return NULL;
  flow->view = plain;
  flow->memories = memories;
  flow->buffers = words + HEAD_WORDS;
  flow->operands = flow->buffers + (size_t)BUFFER_WORDS * words[0];
  flow->seen = flow->operands + (size_t)OPERAND_WORDS * words[1];
  flow->seed = mixed(seed + 1u);
  flow->delay_us = delay_us;
  flow->first.task = flow->first.buffer = flow->first.stripe = HEXLOOM_NONE;
  flow->sources = (unsigned char **)zeros((size_t)words[1] * sizeof(unsigned char *));
  flow->sinks = (unsigned char *)zeros((size_t)words[2] * SINK_BYTES);
  if (flow->sources != NULL && flow->sinks != NULL && make_sources(flow))
    flow->late = hexloom_late_open(work_late, flow);
  if (flow->late != NULL) return flow;
  hexloom_flow_close(flow);
  return NULL;
}

void hexloom_flow_close(hexloom_flow *flow) {
  if (flow->late != NULL) hexloom_late_close(flow->late);
  give_back(flow->source_bytes);
  give_back((void *)flow->sources);
  give_back(flow->sinks);
  give_back(flow);
}
