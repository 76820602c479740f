/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference kernels: what the tasks of the library compute, in portable C that needs no library. They are for checking
 * results, not for speed. C99 and C++11.
 *
 * Halves are IEEE 754 binary16 in a uint16_t, rounded to nearest, ties to even. A tile is 32 x 32: rows are the depth
 * k, columns those of the result. Quantized tiles are 32 columns one behind the other, each one block along k:
 *   q4_0  a half `scale`, 16 bytes: the low nibbles are k 0..15, the high ones k 16..31; scale * (nibble - 8)
 *   q8_0  a half `scale`, 32 signed bytes; scale * byte
 *   f16   32 halves
 */
#ifndef HEXLOOM_KERNELS_H
#define HEXLOOM_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEXLOOM_TILE (32u)
#define HEXLOOM_TILE_HALVES (1024u)

float hexloom_from_half(uint16_t half);
uint16_t hexloom_to_half(float value);
float hexloom_exp(float x); /* relative error below 3e-7; 0 below -87 */
float hexloom_sqrt(float x);

/* Bytes of a quantized tile; 0 for a type there is not. `type` is 4, 8 or 16. */
uint32_t hexloom_tile_bytes(uint32_t type);

/* Write the 32 x 32 halves of a quantized tile, row after row. */
void hexloom_dequantize(uint32_t type, const uint8_t *quantized, uint16_t *tile);

void hexloom_to_halves(const float *values, uint16_t *halves, size_t count);
void hexloom_to_floats(const uint16_t *halves, float *values, size_t count);

/* out[rows][columns] = a[rows][depth] * w, of which tile (d, c) lies at w[(c * depth / 32 + d) * 1024]. Sums are
 * floats. */
void hexloom_matmul(const uint16_t *a, const uint16_t *w, uint16_t *out, uint32_t rows, uint32_t depth,
                    uint32_t columns);

/* out[32] = x[depth] * the quantized tiles of 32 columns, `stride` bytes apart. */
void hexloom_dot(uint32_t type, const uint16_t *x, const uint8_t *tiles, size_t stride, float *out, uint32_t depth);

/* --- whole numbers. Activations are bytes with 128 for zero, one scale for a row; weights are signed, one scale for a
 * column, in tiles of 32 x 32 that are 32 columns one behind the other: of 8 bits 32 bytes along k, of 4 bits 16, the
 * low nibbles k 0..15, the high ones k 16..31; nibble - 8. Rounding is to nearest, halves away from zero. */

/* Write 32 values as a block of q8_0: the scale is the largest magnitude / 127. */
void hexloom_quantize_q8_0(const float *values, uint8_t *block);

/* Write a row as bytes, and return its scale: the largest magnitude / 127. */
float hexloom_quantize_row(const float *values, uint8_t *bytes, uint32_t count);

/* Bytes of a tile of weights that are `width` bits each: 4 or 8; 0 for others. */
uint32_t hexloom_integer_tile_bytes(uint32_t width);

/* sums[rows][columns] = (a[rows][depth] - 128) * w, of which tile (d, c) is number c * depth / 32 + d. Exact up to a
 * depth of 131072. */
void hexloom_matmul_integer(uint32_t width, const uint8_t *a, const uint8_t *w, int32_t *sums, uint32_t rows,
                            uint32_t depth, uint32_t columns);

/* One row of sums, times its scale and those of the columns. */
void hexloom_scale_sums(const int32_t *sums, float row_scale, const float *column_scales, float *out,
                        uint32_t columns);

/* --- attention, over keys in blocks. `keys` are a multiple of 32 where they count tiles. */

/* Write row `key` of K into tiles of K transposed, that of V into tiles of V; each `depth` halves wide. */
void hexloom_tile_key(const uint16_t *row, uint16_t *tiles, uint32_t key, uint32_t depth);
void hexloom_tile_value(const uint16_t *row, uint16_t *tiles, uint32_t key, uint32_t keys, uint32_t depth);

/* One row of scores of a block, times `scale`, to weights exp(score - the largest so far); `padded` - `keys` zeros
 * follow. `state` are the largest and the sum of all weights so far, of no block yet where `is_first`; returned is what
 * earlier weights are to be multiplied by, 0 where there are none. */
float hexloom_softmax_block(const uint16_t *scores, uint16_t *weights, uint32_t keys, uint32_t padded, float scale,
                            float state[2], int is_first);

/* out[rows][columns] = out * the factor of the row + a[rows][depth] * w, tiles as in hexloom_matmul. What is multiplied
 * by 0 is not read. */
void hexloom_matmul_onto(const uint16_t *a, const uint16_t *w, const float *factors, uint16_t *out, uint32_t rows,
                         uint32_t depth, uint32_t columns);

/* --- memory */

/* Copy rows that lie `to_stride` and `from_stride` bytes apart, and do not overlap. */
void hexloom_copy_2d(uint8_t *to, size_t to_stride, const uint8_t *from, size_t from_stride, size_t row_bytes,
                     size_t rows);

/* --- one row each. `out` may be an input. */
void hexloom_rmsnorm(const float *in, const float *gamma, float *out, uint32_t columns); /* epsilon 1e-6 */
void hexloom_softmax(const float *in, float *out, uint32_t columns);
void hexloom_swiglu(const float *gate, const float *in, float *out, uint32_t columns);
void hexloom_add(const float *a, const float *b, float *out, uint32_t columns);
void hexloom_copy(const float *in, float *out, uint32_t columns);

#ifdef __cplusplus
}
#endif

#endif /* HEXLOOM_KERNELS_H */
