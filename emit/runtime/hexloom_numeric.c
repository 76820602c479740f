/* SPDX-License-Identifier: Apache-2.0 */
#include "hexloom_numeric.h"

#include "hexloom_kernels.h"

#define MOST_DEPTH (131072u) /* sums of products of bytes are whole numbers of 32 bits */

/* --- what the words say ------------------------------------------------------------------------------------ */

/* One range of bytes that a function touches: in an operand, or in DDR. */
typedef struct range {
  uint64_t operand; /* HEXLOOM_ABSENT: DDR */
  uint64_t offset, rows, row_bytes, stride;
} range;

static range span(uint64_t operand, uint64_t offset, uint64_t bytes) {
  const range r = {operand, offset, 1u, bytes, bytes};
  return r;
}

static range strided(uint64_t operand, uint64_t offset, uint64_t rows, uint64_t row_bytes, uint64_t stride) {
  const range r = {operand, offset, rows, row_bytes, stride};
  return r;
}

static uint64_t in_tiles(uint64_t count) { return (count + HEXLOOM_TILE - 1u) / HEXLOOM_TILE * HEXLOOM_TILE; }

/* The ranges of a task; how many, or -1 for a function that does not exist. `w` are its words. */
static int ranges_of(const uint64_t *w, range found[4]) {
  const uint64_t tile = w[0] == HEXLOOM_DEQUANTIZE || w[0] == HEXLOOM_DOT ? hexloom_tile_bytes((uint32_t)w[1]) : 0u;
  int count = 0, k;
  switch (w[0]) {
    case HEXLOOM_NOTHING:
      return 0;
    case HEXLOOM_LOAD:
    case HEXLOOM_STORE:
      found[0] = strided(w[1], w[2], w[3], w[4], w[5]);
      found[1] = strided(HEXLOOM_ABSENT, w[6], w[3], w[4], w[7]);
      return 2;
    case HEXLOOM_HALVES:
      found[0] = span(w[1], 0u, 4u * w[4]);
      found[1] = span(w[2], 2u * w[3], 2u * w[4]);
      return 2;
    case HEXLOOM_DEQUANTIZE:
      if (tile == 0u) return -1;
      found[0] = strided(w[2], w[3] * w[5], w[4], tile, w[5]);
      found[1] = span(w[6], UINT64_C(2) * HEXLOOM_TILE_HALVES * w[3], UINT64_C(2) * HEXLOOM_TILE_HALVES * w[4]);
      return 2;
    case HEXLOOM_MATMUL:
      found[0] = span(w[1], 0u, 2u * w[4] * w[5]);
      found[1] = span(w[2], 0u, 2u * w[5] * w[6]);
      found[2] = span(w[3], 0u, 2u * w[4] * w[6]);
      return w[5] % HEXLOOM_TILE == 0u && w[6] % HEXLOOM_TILE == 0u ? 3 : -1;
    case HEXLOOM_FLOATS:
      found[0] = span(w[1], 2u * w[2] * w[4], 2u * w[3] * w[4]);
      found[1] = strided(HEXLOOM_ABSENT, w[5], w[3], 4u * w[4], w[6]);
      return 2;
    case HEXLOOM_ROWS:
    case HEXLOOM_ROWS_IN_DDR:
      if (w[1] > HEXLOOM_COPY) return -1;
      if ((w[1] == HEXLOOM_RMSNORM) != (w[4] != HEXLOOM_ABSENT)) return -1;
      if ((w[1] == HEXLOOM_SWIGLU || w[1] == HEXLOOM_ADD) != (w[3] != HEXLOOM_ABSENT)) return -1;
      for (k = 2; k <= 5; k++) {
        const uint64_t bytes = 4u * w[7] * (k == 4 ? 1u : w[6]);
        if (w[k] == HEXLOOM_ABSENT) continue;
        found[count++] = w[0] == HEXLOOM_ROWS ? span(w[k], 0u, bytes) : span(HEXLOOM_ABSENT, w[k], bytes);
      }
      return count;
    case HEXLOOM_DOT:
      if (tile == 0u || w[5] % HEXLOOM_TILE != 0u || w[6] % HEXLOOM_TILE != 0u) return -1;
      found[0] = span(w[2], 0u, 2u * w[5]);
      found[1] = strided(w[3], 0u, w[5] / HEXLOOM_TILE * (w[6] / HEXLOOM_TILE), tile, w[4]);
      found[2] = span(HEXLOOM_ABSENT, w[7], 4u * w[6]);
      return 3;
    case HEXLOOM_QUANTIZE:
      found[0] = span(w[1], 0u, 4u * w[4] * w[5]);
      found[1] = span(w[2], w[3] * w[5], w[4] * w[5]);
      found[2] = span(HEXLOOM_ABSENT, w[6], 4u * w[4]);
      return 3;
    case HEXLOOM_PRODUCT:
      if (hexloom_integer_tile_bytes((uint32_t)w[1]) == 0u || w[5] % HEXLOOM_TILE != 0u || w[5] == 0u ||
          w[5] > MOST_DEPTH || w[6] % HEXLOOM_TILE != 0u)
        return -1;
      found[0] = span(w[2], 0u, w[4] * w[5]);
      found[1] = span(w[3], 0u, w[5] * w[6] * w[1] / 8u);
      found[2] = span(HEXLOOM_ABSENT, w[7], 4u * w[4] * w[6]);
      return 3;
    case HEXLOOM_READ_OUT:
      found[0] = span(w[1], 0u, 4u * w[2] * w[3]);
      found[1] = span(HEXLOOM_ABSENT, w[4], 4u * w[2] * w[3]);
      return 2;
    case HEXLOOM_SCALE:
      found[0] = span(w[1], 4u * w[2] * w[4], 4u * w[3] * w[4]);
      found[1] = strided(HEXLOOM_ABSENT, w[5], w[3], 4u * w[4], w[6]);
      found[2] = span(HEXLOOM_ABSENT, w[7], 4u * w[3]);
      found[3] = span(HEXLOOM_ABSENT, w[8], 4u * w[4]);
      return 4;
    case HEXLOOM_KV_TILES:
      if (w[6] % HEXLOOM_TILE != 0u || w[3] + w[4] > 2u * w[5]) return -1;
      found[0] = span(w[1], 2u * w[3] * w[6], 2u * w[4] * w[6]);
      found[1] = span(w[2], 0u, 4u * in_tiles(w[5]) * w[6]);
      return 2;
    case HEXLOOM_WEIGHTS:
      if (w[5] == 0u || w[6] == 0u) return -1;
      found[0] = span(w[1], 2u * w[3] * in_tiles(w[5]), 2u * w[4] * in_tiles(w[5]));
      found[1] = span(w[2], 2u * w[3] * in_tiles(w[5]), 2u * w[4] * in_tiles(w[5]));
      found[2] = span(HEXLOOM_ABSENT, w[7] + 8u * w[3], 8u * w[4]);
      found[3] = span(HEXLOOM_ABSENT, w[8] + 4u * w[3], 4u * w[4]);
      return 4;
    case HEXLOOM_ATTEND:
      if (w[6] % HEXLOOM_TILE != 0u) return -1;
      found[0] = span(w[1], 0u, 2u * w[4] * in_tiles(w[5]));
      found[1] = span(w[2], 2u * in_tiles(w[5]) * w[6], 2u * in_tiles(w[5]) * w[6]);
      found[2] = span(w[3], 0u, 2u * w[4] * w[6]);
      found[3] = span(HEXLOOM_ABSENT, w[7], 4u * w[4]);
      return 4;
    case HEXLOOM_NORMALIZE:
      found[0] = span(w[1], 0u, 2u * w[2] * w[3]);
      found[1] = span(HEXLOOM_ABSENT, w[4], 4u * w[2] * w[3]);
      found[2] = span(HEXLOOM_ABSENT, w[5], 8u * w[2]);
      return 3;
    default:
      return -1;
  }
}

/* Words are at most this, so that four times a product of two of them does not wrap. */
#define MOST (UINT64_C(1) << 30)

static int range_fits(const hexloom_numeric *numeric, const hexloom_view *view, const hexloom_task *task,
                      const range *r) {
  uint64_t room = numeric->ddr_bytes;
  if (r->operand != HEXLOOM_ABSENT) {
    const hexloom_operand *operand;
    if (r->operand >= task->operand_count) return 0;
    operand = &view->operands[task->first_operand + r->operand];
    if (operand->buffer == HEXLOOM_NONE) return 0;
    room = view->buffers[operand->buffer].bytes;
  }
  if (r->offset > room || r->row_bytes > room - r->offset || r->rows == 0u) return r->rows == 0u;
  if (r->rows > 1u && r->stride != 0u && r->rows - 1u > (room - r->offset - r->row_bytes) / r->stride) return 0;
  return 1;
}

int hexloom_numeric_fits(const hexloom_numeric *numeric, const hexloom_view *view, size_t word_count) {
  uint32_t t, k;
  int n;
  if (word_count != (size_t)HEXLOOM_WORDS * view->header->task_count) return 0;
  for (t = 0u; t < view->header->task_count; t++) {
    const uint64_t *w = numeric->words + (size_t)HEXLOOM_WORDS * t;
    range found[4];
    for (k = 0u; k < HEXLOOM_WORDS; k++)
      if (w[k] > MOST && w[k] != HEXLOOM_ABSENT) return 0;
    n = ranges_of(w, found);
    if (n < 0 || (view->tasks[t].kind == HEXLOOM_DMA && w[0] > HEXLOOM_STORE)) return 0;
    if (view->tasks[t].kind != HEXLOOM_DMA && (w[0] == HEXLOOM_LOAD || w[0] == HEXLOOM_STORE)) return 0;
    while (n > 0)
      if (!range_fits(numeric, view, &view->tasks[t], &found[--n])) return 0;
  }
  return 1;
}

/* --- doing it ---------------------------------------------------------------------------------------------- */

static unsigned char *at(const hexloom_call *call, uint64_t operand) {
  return (unsigned char *)hexloom_at(call, (uint32_t)operand);
}

/* The share of this slice in `count`: from *first on, how many. */
static uint64_t share(const hexloom_call *call, uint64_t count, uint64_t *first) {
  *first = count * call->slice / call->task->slice_count;
  return count * (call->slice + 1u) / call->task->slice_count - *first;
}

static void halves(const hexloom_call *call, const uint64_t *w) {
  uint64_t first;
  const uint64_t count = share(call, w[4], &first);
  hexloom_to_halves((const float *)(const void *)at(call, w[1]) + first,
                    (uint16_t *)(void *)at(call, w[2]) + w[3] + first, (size_t)count);
}

static int move(const hexloom_call *call, const uint64_t *w, unsigned char *ddr) {
  unsigned char *mine = at(call, w[1]) + w[2];
  hexloom_transfer t;
  const int is_load = w[0] == HEXLOOM_LOAD;
  t.to = is_load ? mine : ddr + w[6];
  t.from = is_load ? ddr + w[6] : mine;
  t.rows = (uint32_t)w[3];
  t.row_bytes = (uint32_t)w[4];
  t.to_stride = (uint32_t)(is_load ? w[5] : w[7]);
  t.from_stride = (uint32_t)(is_load ? w[7] : w[5]);
  return hexloom_push(call, &t);
}

static void dequantize(const hexloom_call *call, const uint64_t *w) {
  uint64_t first, k;
  const uint64_t tiles = share(call, w[4], &first);
  uint16_t *halves = (uint16_t *)(void *)at(call, w[6]);
  for (k = w[3] + first; k < w[3] + first + tiles; k++)
    hexloom_dequantize((uint32_t)w[1], at(call, w[2]) + k * w[5], halves + k * HEXLOOM_TILE_HALVES);
}

static void floats(const hexloom_call *call, const uint64_t *w, unsigned char *ddr) {
  uint64_t first, row;
  const uint64_t rows = share(call, w[3], &first);
  const uint16_t *halves = (const uint16_t *)(const void *)at(call, w[1]);
  for (row = first; row < first + rows; row++)
    hexloom_to_floats(halves + (w[2] + row) * w[4], (float *)(void *)(ddr + w[5] + row * w[6]), (size_t)w[4]);
}

static float *floats_at(const hexloom_call *call, const uint64_t *w, uint32_t word, unsigned char *ddr) {
  if (w[word] == HEXLOOM_ABSENT) return NULL;
  return (float *)(void *)(w[0] == HEXLOOM_ROWS ? at(call, w[word]) : ddr + w[word]);
}

static void rows(const hexloom_call *call, const uint64_t *w, unsigned char *ddr) {
  const float *in = floats_at(call, w, 2u, ddr), *second = floats_at(call, w, 3u, ddr);
  const float *gamma = floats_at(call, w, 4u, ddr);
  float *out = floats_at(call, w, 5u, ddr);
  const uint32_t columns = (uint32_t)w[7];
  uint64_t first, row;
  const uint64_t count = share(call, w[6], &first);
  for (row = first; row < first + count; row++) {
    const size_t k = (size_t)(row * columns);
    switch (w[1]) {
      case HEXLOOM_RMSNORM:
        hexloom_rmsnorm(in + k, gamma, out + k, columns);
        break;
      case HEXLOOM_SOFTMAX:
        hexloom_softmax(in + k, out + k, columns);
        break;
      case HEXLOOM_SWIGLU:
        hexloom_swiglu(in + k, second + k, out + k, columns);
        break;
      case HEXLOOM_ADD:
        hexloom_add(in + k, second + k, out + k, columns);
        break;
      default:
        hexloom_copy(in + k, out + k, columns);
        break;
    }
  }
}

static void dot(const hexloom_call *call, const uint64_t *w, unsigned char *ddr) {
  const uint64_t deep = w[5] / HEXLOOM_TILE;
  float *out = (float *)(void *)(ddr + w[7]);
  uint64_t c;
  for (c = 0u; c < w[6] / HEXLOOM_TILE; c++)
    hexloom_dot((uint32_t)w[1], (const uint16_t *)(const void *)at(call, w[2]), at(call, w[3]) + c * deep * w[4],
                (size_t)w[4], out + c * HEXLOOM_TILE, (uint32_t)w[5]);
}

static void quantize(const hexloom_call *call, const uint64_t *w, unsigned char *ddr) {
  uint64_t first, row;
  const uint64_t count = share(call, w[4], &first);
  const float *in = (const float *)(const void *)at(call, w[1]);
  float *scales = (float *)(void *)(ddr + w[6]);
  for (row = first; row < first + count; row++)
    scales[row] = hexloom_quantize_row(in + row * w[5], at(call, w[2]) + (w[3] + row) * w[5], (uint32_t)w[5]);
}

static void scale(const hexloom_call *call, const uint64_t *w, unsigned char *ddr) {
  uint64_t first, row;
  const uint64_t count = share(call, w[3], &first);
  const int32_t *sums = (const int32_t *)(const void *)at(call, w[1]);
  const float *of_rows = (const float *)(const void *)(ddr + w[7]);
  const float *of_columns = (const float *)(const void *)(ddr + w[8]);
  for (row = first; row < first + count; row++)
    hexloom_scale_sums(sums + (w[2] + row) * w[4], of_rows[row], of_columns,
                       (float *)(void *)(ddr + w[5] + row * w[6]), (uint32_t)w[4]);
}

static uint16_t *halves_at(const hexloom_call *call, uint64_t operand) {
  return (uint16_t *)(void *)at(call, operand);
}

/* Whoever has the last row fills V up to whole tiles: what lay there may be no number. */
static void kv_tiles(const hexloom_call *call, const uint64_t *w) {
  uint64_t first, row;
  const uint64_t count = share(call, w[4], &first), keys = w[5], padded = in_tiles(keys);
  const uint32_t depth = (uint32_t)w[6];
  const uint16_t *raw = halves_at(call, w[1]);
  uint16_t *of_keys = halves_at(call, w[2]), *of_values = of_keys + padded * depth;
  for (row = w[3] + first; row < w[3] + first + count; row++) {
    if (row < keys) {
      hexloom_tile_key(raw + row * depth, of_keys, (uint32_t)row, depth);
    } else {
      hexloom_tile_value(raw + row * depth, of_values, (uint32_t)(row - keys), (uint32_t)padded, depth);
    }
  }
  if (count == 0u || w[3] + first + count < 2u * keys) return;
  for (row = keys; row < padded; row++) {
    uint32_t d;
    for (d = 0u; d < depth; d++)
      of_values[d / HEXLOOM_TILE * padded * HEXLOOM_TILE + row * HEXLOOM_TILE + d % HEXLOOM_TILE] = 0u;
  }
}

static void weights(const hexloom_call *call, const uint64_t *w, unsigned char *ddr) {
  uint64_t first, row;
  const uint64_t count = share(call, w[4], &first), padded = in_tiles(w[5]);
  const float scale = 1.0f / hexloom_sqrt((float)w[6]);
  const uint16_t *scores = halves_at(call, w[1]);
  uint16_t *out = halves_at(call, w[2]);
  float *states = (float *)(void *)(ddr + w[7]), *factors = (float *)(void *)(ddr + w[8]);
  for (row = w[3] + first; row < w[3] + first + count; row++)
    factors[row] = hexloom_softmax_block(scores + row * padded, out + row * padded, (uint32_t)w[5], (uint32_t)padded,
                                         scale, states + 2u * row, w[9] != 0u);
}

static void normalize(const hexloom_call *call, const uint64_t *w, unsigned char *ddr) {
  uint64_t first, row, k;
  const uint64_t count = share(call, w[2], &first);
  const uint16_t *in = halves_at(call, w[1]);
  float *out = (float *)(void *)(ddr + w[4]);
  const float *states = (const float *)(const void *)(ddr + w[5]);
  for (row = first; row < first + count; row++)
    for (k = row * w[3]; k < (row + 1u) * w[3]; k++) out[k] = hexloom_from_half(in[k]) / states[2u * row + 1u];
}

int hexloom_numeric_kernel(const hexloom_call *call) {
  const hexloom_numeric *numeric = (const hexloom_numeric *)call->user;
  const uint64_t *w = numeric->words + (size_t)HEXLOOM_WORDS * call->serial;
  switch (w[0]) {
    case HEXLOOM_LOAD:
    case HEXLOOM_STORE:
      return move(call, w, numeric->ddr);
    case HEXLOOM_HALVES:
      halves(call, w);
      break;
    case HEXLOOM_DEQUANTIZE:
      dequantize(call, w);
      break;
    case HEXLOOM_MATMUL:
      if (call->slice > 0u) break;
      hexloom_matmul((const uint16_t *)(const void *)at(call, w[1]), (const uint16_t *)(const void *)at(call, w[2]),
                     (uint16_t *)(void *)at(call, w[3]), (uint32_t)w[4], (uint32_t)w[5], (uint32_t)w[6]);
      break;
    case HEXLOOM_FLOATS:
      floats(call, w, numeric->ddr);
      break;
    case HEXLOOM_ROWS:
    case HEXLOOM_ROWS_IN_DDR:
      rows(call, w, numeric->ddr);
      break;
    case HEXLOOM_DOT:
      if (call->slice == 0u) dot(call, w, numeric->ddr);
      break;
    case HEXLOOM_QUANTIZE:
      quantize(call, w, numeric->ddr);
      break;
    case HEXLOOM_PRODUCT:
      if (call->slice == 0u)
        hexloom_matmul_integer((uint32_t)w[1], at(call, w[2]), at(call, w[3]), (int32_t *)(void *)(numeric->ddr + w[7]),
                               (uint32_t)w[4], (uint32_t)w[5], (uint32_t)w[6]);
      break;
    case HEXLOOM_READ_OUT:
      if (call->slice == 0u)
        hexloom_copy_2d(at(call, w[1]), (size_t)(4u * w[3]), numeric->ddr + w[4], (size_t)(4u * w[3]),
                        (size_t)(4u * w[3]), (size_t)w[2]);
      break;
    case HEXLOOM_SCALE:
      scale(call, w, numeric->ddr);
      break;
    case HEXLOOM_KV_TILES:
      kv_tiles(call, w);
      break;
    case HEXLOOM_WEIGHTS:
      weights(call, w, numeric->ddr);
      break;
    case HEXLOOM_ATTEND:
      if (call->slice == 0u)
        hexloom_matmul_onto(halves_at(call, w[1]), halves_at(call, w[2]) + in_tiles(w[5]) * w[6],
                            (const float *)(const void *)(numeric->ddr + w[7]), halves_at(call, w[3]), (uint32_t)w[4],
                            (uint32_t)in_tiles(w[5]), (uint32_t)w[6]);
      break;
    case HEXLOOM_NORMALIZE:
      normalize(call, w, numeric->ddr);
      break;
    default:
      break;
  }
  if ((call->task->flags & HEXLOOM_TASK_ASYNC) != 0u) hexloom_finish(call->run, call->task_index);
  return 0;
}
