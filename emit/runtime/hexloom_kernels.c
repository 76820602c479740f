/* SPDX-License-Identifier: Apache-2.0 */
#include "hexloom_kernels.h"

#if defined(__HVX__) && __HVX_LENGTH__ == 128
#include <hexagon_types.h>
#include <hvx_hexagon_protos.h>
#define HEXLOOM_VECTORS 1
#endif

#define EPSILON (1e-6f)
#define LOG2_E (1.44269504088896f)
/* ln 2 in two parts, of which the first has zeros at its end: n times it is exact */
#define LN2_HIGH (0.693145751953125f)
#define LN2_LOW (1.42860682030941723e-6f)

typedef union bits {
  float value;
  uint32_t word;
} bits;

/* --- numbers ----------------------------------------------------------------------------------------------- */

float hexloom_from_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u, fraction = half & 1023u;
  bits b;
  if (exponent == 31u) {
    b.word = sign | 0x7F800000u | fraction << 13;
  } else if (exponent != 0u) {
    b.word = sign | (exponent + 112u) << 23 | fraction << 13;
  } else {
    b.value = (float)fraction * (1.0f / 16777216.0f);
    b.word |= sign;
  }
  return b.value;
}

uint16_t hexloom_to_half(float value) {
  bits b;
  uint32_t sign, magnitude, half, rest, shift;
  b.value = value;
  sign = (b.word >> 16) & 0x8000u;
  magnitude = b.word & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u); /* not a number */
  if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7C00u);
  if (magnitude < 0x33000000u) return (uint16_t)sign;
  if (magnitude >= 0x38800000u) {
    half = (magnitude - 0x38000000u) >> 13;
    rest = magnitude & 0x1FFFu;
    shift = 13u;
  } else { /* a subnormal half */
    const uint32_t fraction = (magnitude & 0x7FFFFFu) | 0x800000u;
    shift = 126u - (magnitude >> 23);
    half = fraction >> shift;
    rest = fraction & ((1u << shift) - 1u);
  }
  if (rest > 1u << (shift - 1u) || (rest == 1u << (shift - 1u) && (half & 1u) != 0u)) half++;
  return (uint16_t)(sign | half);
}

float hexloom_exp(float x) {
  float n, r, p;
  bits scale;
  int32_t whole;
  if (x < -87.0f) return 0.0f;
  if (x > 88.0f) x = 88.0f;
  n = x * LOG2_E;
  whole = (int32_t)(n < 0.0f ? n - 0.5f : n + 0.5f);
  r = x - (float)whole * LN2_HIGH - (float)whole * LN2_LOW;
  p = 1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6.0f + r * (1.0f / 24.0f + r * (1.0f / 120.0f + r / 720.0f)))));
  scale.word = (uint32_t)(whole + 127) << 23;
  return p * scale.value;
}

float hexloom_sqrt(float x) {
  bits guess;
  int k;
  if (!(x > 0.0f)) return x == 0.0f ? x : 0.0f;
  guess.value = x;
  guess.word = (guess.word >> 1) + 0x1FC00000u;
  for (k = 0; k < 4; k++) guess.value = 0.5f * (guess.value + x / guess.value);
  return guess.value;
}

void hexloom_to_halves(const float *values, uint16_t *halves, size_t count) {
  size_t k;
  for (k = 0u; k < count; k++) halves[k] = hexloom_to_half(values[k]);
}

void hexloom_to_floats(const uint16_t *halves, float *values, size_t count) {
  size_t k;
  for (k = 0u; k < count; k++) values[k] = hexloom_from_half(halves[k]);
}

/* --- weights ----------------------------------------------------------------------------------------------- */

uint32_t hexloom_tile_bytes(uint32_t type) { return type == 4u ? 576u : type == 8u ? 1088u : type == 16u ? 2048u : 0u; }

static uint16_t half_at(const uint8_t *at) { return (uint16_t)(at[0] | (uint32_t)at[1] << 8); }

/* Element k of a block along the depth. */
static float element(uint32_t type, const uint8_t *block, uint32_t k) {
  if (type == 4u) {
    const uint32_t nibble = k < 16u ? block[2u + k] & 15u : (uint32_t)block[2u + k - 16u] >> 4;
    return hexloom_from_half(half_at(block)) * (float)((int32_t)nibble - 8);
  }
  if (type == 8u) return hexloom_from_half(half_at(block)) * (float)(int8_t)block[2u + k];
  return hexloom_from_half(half_at(block + (size_t)2u * k));
}

void hexloom_dequantize(uint32_t type, const uint8_t *quantized, uint16_t *tile) {
  const uint32_t block = hexloom_tile_bytes(type) / HEXLOOM_TILE;
  uint32_t column, k;
  for (column = 0u; column < HEXLOOM_TILE; column++)
    for (k = 0u; k < HEXLOOM_TILE; k++)
      tile[k * HEXLOOM_TILE + column] = hexloom_to_half(element(type, quantized + (size_t)column * block, k));
}

static void matmul_tile(const uint16_t *a, const uint16_t *w, uint16_t *out, uint32_t rows, uint32_t depth,
                        uint32_t columns) {
  float sums[HEXLOOM_TILE][HEXLOOM_TILE], tile[HEXLOOM_TILE][HEXLOOM_TILE];
  uint32_t r, d, k, c;
  for (r = 0u; r < rows; r++)
    for (c = 0u; c < HEXLOOM_TILE; c++) sums[r][c] = 0.0f;
  for (d = 0u; d < depth; d += HEXLOOM_TILE) {
    hexloom_to_floats(w + (size_t)d / HEXLOOM_TILE * HEXLOOM_TILE_HALVES, &tile[0][0], HEXLOOM_TILE_HALVES);
    for (r = 0u; r < rows; r++)
      for (k = 0u; k < HEXLOOM_TILE; k++) {
        const float x = hexloom_from_half(a[(size_t)r * depth + d + k]);
        for (c = 0u; c < HEXLOOM_TILE; c++) sums[r][c] += x * tile[k][c];
      }
  }
  for (r = 0u; r < rows; r++)
    for (c = 0u; c < HEXLOOM_TILE; c++) out[(size_t)r * columns + c] = hexloom_to_half(sums[r][c]);
}

void hexloom_matmul(const uint16_t *a, const uint16_t *w, uint16_t *out, uint32_t rows, uint32_t depth,
                    uint32_t columns) {
  uint32_t r, c;
  for (c = 0u; c < columns; c += HEXLOOM_TILE)
    for (r = 0u; r < rows; r += HEXLOOM_TILE)
      matmul_tile(a + (size_t)r * depth, w + (size_t)c * depth, out + (size_t)r * columns + c,
                  rows - r < HEXLOOM_TILE ? rows - r : HEXLOOM_TILE, depth, columns);
}

void hexloom_dot(uint32_t type, const uint16_t *x, const uint8_t *tiles, size_t stride, float *out, uint32_t depth) {
  const size_t block = hexloom_tile_bytes(type) / HEXLOOM_TILE;
  uint32_t column, d, k;
  for (column = 0u; column < HEXLOOM_TILE; column++) {
    float sum = 0.0f;
    for (d = 0u; d < depth / HEXLOOM_TILE; d++)
      for (k = 0u; k < HEXLOOM_TILE; k++)
        sum += hexloom_from_half(x[d * HEXLOOM_TILE + k]) * element(type, tiles + d * stride + column * block, k);
    out[column] = sum;
  }
}

/* --- whole numbers ----------------------------------------------------------------------------------------- */

static float largest(const float *values, uint32_t count) {
  float most = 0.0f;
  uint32_t k;
  for (k = 0u; k < count; k++) {
    const float magnitude = values[k] < 0.0f ? -values[k] : values[k];
    most = magnitude > most ? magnitude : most;
  }
  return most;
}

/* The nearest of -127 to 127; what is no number is -127. */
static int32_t nearest(float value) {
  const float inside = value > -127.0f ? (value < 127.0f ? value : 127.0f) : -127.0f;
  return (int32_t)(inside < 0.0f ? inside - 0.5f : inside + 0.5f);
}

void hexloom_quantize_q8_0(const float *values, uint8_t *block) {
  const float scale = largest(values, HEXLOOM_TILE) / 127.0f, inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  const uint16_t half = hexloom_to_half(scale);
  uint32_t k;
  block[0] = (uint8_t)(half & 255u);
  block[1] = (uint8_t)(half >> 8);
  for (k = 0u; k < HEXLOOM_TILE; k++) {
    const float scaled = values[k] * inverse;
    block[2u + k] = (uint8_t)nearest(scaled);
  }
}

float hexloom_quantize_row(const float *values, uint8_t *bytes, uint32_t count) {
  const float scale = largest(values, count) / 127.0f, inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  uint32_t k;
  for (k = 0u; k < count; k++) {
    const float scaled = values[k] * inverse;
    bytes[k] = (uint8_t)(nearest(scaled) + 128);
  }
  return scale;
}

uint32_t hexloom_integer_tile_bytes(uint32_t width) { return width == 4u ? 512u : width == 8u ? 1024u : 0u; }

static int32_t weight(uint32_t width, const uint8_t *column, uint32_t k) {
  if (width == 8u) return (int8_t)column[k];
  return (int32_t)(k < 16u ? column[k] & 15u : (uint32_t)column[k - 16u] >> 4) - 8;
}

#ifdef HEXLOOM_VECTORS
#define GROUPS (8u) /* vectors of a tile of 8 bits: four columns each */

/* 32 bytes of a row, four times. */
static HVX_Vector four_times(const uint8_t *row) {
  union {
    uint8_t bytes[128];
    HVX_Vector vector;
  } all;
  uint32_t k;
  for (k = 0u; k < 128u; k++) all.bytes[k] = row[k % HEXLOOM_TILE];
  return all.vector;
}

/* Write the sums of four columns, each of which has eight parts. */
static void write_sums(HVX_Vector parts, int32_t *sums) {
  union {
    int32_t numbers[32];
    HVX_Vector vector;
  } all;
  uint32_t column, k;
  all.vector = parts;
  for (column = 0u; column < 4u; column++) {
    sums[column] = 0;
    for (k = 0u; k < 8u; k++) sums[column] += all.numbers[8u * column + k];
  }
}

/* 32 columns of weights of 8 bits that begin at a vector: (a - 128) w = a w - 128 w, and both are sums of products of
 * bytes with and without a sign. */
static void matmul_vectors(const uint8_t *a, const HVX_Vector *w, int32_t *sums, uint32_t rows, uint32_t depth,
                           uint32_t columns) {
  const HVX_Vector half = Q6_V_vsplat_R((int32_t)0x80808080u);
  const uint32_t deep = depth / HEXLOOM_TILE;
  HVX_Vector found[GROUPS], less[GROUPS];
  uint32_t r, d, g;
  for (g = 0u; g < GROUPS; g++) less[g] = Q6_V_vzero();
  for (d = 0u; d < deep; d++)
    for (g = 0u; g < GROUPS; g++) less[g] = Q6_Vw_vrmpyacc_VwVubVb(less[g], half, w[d * GROUPS + g]);
  for (r = 0u; r < rows; r++) {
    for (g = 0u; g < GROUPS; g++) found[g] = Q6_V_vzero();
    for (d = 0u; d < deep; d++) {
      const HVX_Vector row = four_times(a + (size_t)r * depth + (size_t)d * HEXLOOM_TILE);
      for (g = 0u; g < GROUPS; g++) found[g] = Q6_Vw_vrmpyacc_VwVubVb(found[g], row, w[d * GROUPS + g]);
    }
    for (g = 0u; g < GROUPS; g++)
      write_sums(Q6_Vw_vsub_VwVw(found[g], less[g]), sums + (size_t)r * columns + (size_t)4u * g);
  }
}
#endif

void hexloom_matmul_integer(uint32_t width, const uint8_t *a, const uint8_t *w, int32_t *sums, uint32_t rows,
                            uint32_t depth, uint32_t columns) {
  const size_t tile = hexloom_integer_tile_bytes(width), column_bytes = tile / HEXLOOM_TILE;
  int32_t values[HEXLOOM_TILE];
  uint32_t c, d, k, r;
#ifdef HEXLOOM_VECTORS
  if (width == 8u && (uintptr_t)w % sizeof(HVX_Vector) == 0u) {
    for (c = 0u; c < columns; c += HEXLOOM_TILE)
      matmul_vectors(a, (const HVX_Vector *)(const void *)(w + (size_t)c * depth), sums + c, rows, depth, columns);
    return;
  }
#endif
  for (c = 0u; c < columns; c++)
    for (d = 0u; d < depth / HEXLOOM_TILE; d++) {
      const uint8_t *column = w + ((size_t)(c / HEXLOOM_TILE) * (depth / HEXLOOM_TILE) + d) * tile;
      for (k = 0u; k < HEXLOOM_TILE; k++) values[k] = weight(width, column + c % HEXLOOM_TILE * column_bytes, k);
      for (r = 0u; r < rows; r++) {
        const uint8_t *row = a + (size_t)r * depth + (size_t)d * HEXLOOM_TILE;
        int32_t *sum = &sums[(size_t)r * columns + c];
        if (d == 0u) *sum = 0;
        for (k = 0u; k < HEXLOOM_TILE; k++) *sum += ((int32_t)row[k] - 128) * values[k];
      }
    }
}

void hexloom_scale_sums(const int32_t *sums, float row_scale, const float *column_scales, float *out,
                        uint32_t columns) {
  uint32_t k;
  for (k = 0u; k < columns; k++) {
    const float scale = row_scale * column_scales[k];
    out[k] = (float)sums[k] * scale;
  }
}

/* --- memory ------------------------------------------------------------------------------------------------ */

void hexloom_copy_2d(uint8_t *to, size_t to_stride, const uint8_t *from, size_t from_stride, size_t row_bytes,
                     size_t rows) {
  size_t row, k;
  for (row = 0u; row < rows; row++)
    for (k = 0u; k < row_bytes; k++) to[row * to_stride + k] = from[row * from_stride + k];
}

/* --- attention --------------------------------------------------------------------------------------------- */

void hexloom_tile_key(const uint16_t *row, uint16_t *tiles, uint32_t key, uint32_t depth) {
  uint16_t *column = tiles + (size_t)(key / HEXLOOM_TILE) * depth * HEXLOOM_TILE + key % HEXLOOM_TILE;
  uint32_t d;
  for (d = 0u; d < depth; d++) column[(size_t)d * HEXLOOM_TILE] = row[d];
}

void hexloom_tile_value(const uint16_t *row, uint16_t *tiles, uint32_t key, uint32_t keys, uint32_t depth) {
  uint32_t d;
  for (d = 0u; d < depth; d++)
    tiles[(size_t)(d / HEXLOOM_TILE) * keys * HEXLOOM_TILE + (size_t)key * HEXLOOM_TILE + d % HEXLOOM_TILE] = row[d];
}

float hexloom_softmax_block(const uint16_t *scores, uint16_t *weights, uint32_t keys, uint32_t padded, float scale,
                            float state[2], int is_first) {
  float most = is_first ? hexloom_from_half(scores[0]) * scale : state[0], sum = 0.0f, factor;
  uint32_t k;
  for (k = 0u; k < keys; k++) {
    const float score = hexloom_from_half(scores[k]) * scale;
    most = score > most ? score : most;
  }
  for (k = 0u; k < padded; k++) {
    weights[k] = k < keys ? hexloom_to_half(hexloom_exp(hexloom_from_half(scores[k]) * scale - most)) : (uint16_t)0u;
    sum += hexloom_from_half(weights[k]);
  }
  factor = is_first ? 0.0f : hexloom_exp(state[0] - most);
  state[1] = is_first ? sum : state[1] * factor + sum;
  state[0] = most;
  return factor;
}

void hexloom_matmul_onto(const uint16_t *a, const uint16_t *w, const float *factors, uint16_t *out, uint32_t rows,
                         uint32_t depth, uint32_t columns) {
  uint32_t r, c, k;
  for (r = 0u; r < rows; r++)
    for (c = 0u; c < columns; c++) {
      const uint16_t *column = w + (size_t)(c / HEXLOOM_TILE) * depth * HEXLOOM_TILE + c % HEXLOOM_TILE;
      uint16_t *to = out + (size_t)r * columns + c;
      float sum = factors[r] > 0.0f ? hexloom_from_half(*to) * factors[r] : 0.0f;
      for (k = 0u; k < depth; k++)
        sum += hexloom_from_half(a[(size_t)r * depth + k]) * hexloom_from_half(column[(size_t)k * HEXLOOM_TILE]);
      *to = hexloom_to_half(sum);
    }
}

/* --- rows -------------------------------------------------------------------------------------------------- */

void hexloom_rmsnorm(const float *in, const float *gamma, float *out, uint32_t columns) {
  float sum = 0.0f, factor;
  uint32_t k;
  for (k = 0u; k < columns; k++) sum += in[k] * in[k];
  factor = 1.0f / hexloom_sqrt(sum / (float)columns + EPSILON);
  for (k = 0u; k < columns; k++) out[k] = in[k] * factor * gamma[k];
}

void hexloom_softmax(const float *in, float *out, uint32_t columns) {
  float most = in[0], sum = 0.0f;
  uint32_t k;
  for (k = 1u; k < columns; k++) most = in[k] > most ? in[k] : most;
  for (k = 0u; k < columns; k++) {
    out[k] = hexloom_exp(in[k] - most);
    sum += out[k];
  }
  for (k = 0u; k < columns; k++) out[k] /= sum;
}

void hexloom_swiglu(const float *gate, const float *in, float *out, uint32_t columns) {
  uint32_t k;
  for (k = 0u; k < columns; k++) out[k] = gate[k] / (1.0f + hexloom_exp(-gate[k])) * in[k];
}

void hexloom_add(const float *a, const float *b, float *out, uint32_t columns) {
  uint32_t k;
  for (k = 0u; k < columns; k++) out[k] = a[k] + b[k];
}

void hexloom_copy(const float *in, float *out, uint32_t columns) {
  uint32_t k;
  for (k = 0u; k < columns; k++) out[k] = in[k];
}
