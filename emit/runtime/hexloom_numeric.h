/* SPDX-License-Identifier: Apache-2.0
 *
 * Binds tasks to reference kernels. What a task works on is told by twelve 64-bit words: which function, then its
 * arguments. Operands are numbers in the task's own list, DDR is an offset into one memory that the caller gives.
 *
 *   NOTHING   the work of the task is part of another one's, or leaves no trace on a host
 *   LOAD      operand, offset in it, rows, row bytes, stride in it, offset in DDR, stride in DDR: a transfer
 *   STORE     the same, out of the operand
 *   HALVES    operand of floats, operand of halves, first half to write, how many
 *   DEQUANTIZE  type, operand, first tile, tiles, bytes from tile to tile, operand of halves
 *   MATMUL    operand a, operand w, operand out, rows, depth, columns
 *   FLOATS    operand of halves, row in it, rows, columns, offset in DDR, stride in DDR
 *   ROWS      kernel, operand in, operand second or none, operand gamma or none, operand out, rows, columns
 *   ROWS_IN_DDR  the same with offsets in DDR for operands
 *   QUANTIZE  operand of floats, operand of bytes, first row there, rows, columns, offset of their scales in DDR
 *   PRODUCT   bits, operand of bytes, operand of weights, rows, depth, columns, offset of the sums in DDR
 *   READ_OUT  operand, rows, columns, offset of the sums in DDR
 *   SCALE     operand of sums, row in it, rows, columns, offset in DDR, stride in DDR, offset of the scales of the rows
 *             in DDR, of those of the columns
 *   KV_TILES  operand of rows of K, then V, operand of tiles, first row, rows, keys, columns
 *   WEIGHTS   operand of scores, operand of weights, first row, rows, keys, columns of Q, offset of two floats for each
 *             row in DDR, of factors of the rows, 1 for the first block of keys, else 0
 *   ATTEND    operand of weights, operand of tiles, operand out, rows, keys, columns, offset of factors in DDR
 *   NORMALIZE operand of halves, rows, columns, offset in DDR, offset of two floats for each row in DDR
 *   DOT       type, operand x, operand of tiles, bytes from tile to tile, depth, columns, offset in DDR
 *
 * Words are at most 2^30, or HEXLOOM_ABSENT. The slices of a task share tiles or rows out among themselves; of MATMUL,
 * PRODUCT, READ_OUT, ATTEND and DOT the first one does all. Sums between a product and its read-out are in DDR, as
 * there is no accumulator here.
 */
#ifndef HEXLOOM_NUMERIC_H
#define HEXLOOM_NUMERIC_H

#include "hexloom_runtime.h"

#define HEXLOOM_WORDS (12u)
#define HEXLOOM_ABSENT UINT64_MAX

enum hexloom_function {
  HEXLOOM_NOTHING,
  HEXLOOM_LOAD,
  HEXLOOM_STORE,
  HEXLOOM_HALVES,
  HEXLOOM_DEQUANTIZE,
  HEXLOOM_MATMUL,
  HEXLOOM_FLOATS,
  HEXLOOM_ROWS,
  HEXLOOM_ROWS_IN_DDR,
  HEXLOOM_DOT,
  HEXLOOM_QUANTIZE,
  HEXLOOM_PRODUCT,
  HEXLOOM_READ_OUT,
  HEXLOOM_SCALE,
  HEXLOOM_KV_TILES,
  HEXLOOM_WEIGHTS,
  HEXLOOM_ATTEND,
  HEXLOOM_NORMALIZE
};

enum hexloom_row_kernel { HEXLOOM_RMSNORM, HEXLOOM_SOFTMAX, HEXLOOM_SWIGLU, HEXLOOM_ADD, HEXLOOM_COPY };

typedef struct hexloom_numeric {
  const uint64_t *words; /* HEXLOOM_WORDS of each task, all laps of loops written out */
  unsigned char *ddr;
  uint64_t ddr_bytes;
} hexloom_numeric;

/* Whether all words speak of what exists: functions, operands, bytes of operands and of DDR. `plain` are the tables, or
 * if they have loops those with all laps written out. */
int hexloom_numeric_fits(const hexloom_numeric *numeric, const hexloom_view *plain, size_t word_count);

/* The kernel of every stage; its `user` is a hexloom_numeric. */
int hexloom_numeric_kernel(const hexloom_call *call);

#endif /* HEXLOOM_NUMERIC_H */
