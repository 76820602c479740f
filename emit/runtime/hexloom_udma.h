/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a descriptor of user DMA: one-dimensional, two-dimensional with fields of 16 bits, and from v75 on
 * two-dimensional with fields of 24. Where fields lie is told by ggml-org/ggml d99724f2,
 * src/ggml-hexagon/htp/dma-queue.h; addresses have 32 bits, as all had before the 64-bit DMA of v81 (llama.cpp PR
 * 29197). C99 that is also C++11.
 */
#ifndef HEXLOOM_UDMA_H
#define HEXLOOM_UDMA_H

#include "hexloom_port.h"

#define HEXLOOM_UDMA_WORDS (8u) /* of them 4 are those of one dimension */
#define HEXLOOM_UDMA_STATE (1u) /* the word with the flags */
#define HEXLOOM_UDMA_TWO (1u << 24)
#define HEXLOOM_UDMA_PAST_L2 (3u << 28) /* at the target, and at the source */
#define HEXLOOM_UDMA_DONE (1u << 31)
#define HEXLOOM_UDMA_WIDE (9u) /* a kind of two dimensions; the other one is 0 */
#define HEXLOOM_UDMA_ROWS (65535u)
#define HEXLOOM_UDMA_LENGTH (0xFFFFFFu)
#define HEXLOOM_UDMA_FIELD(is_wide) ((is_wide) ? HEXLOOM_UDMA_LENGTH : 65535u)

/* Write the words of a transfer, whose addresses are below 2^32. 0: it is longer than the fields of one descriptor.
 * Rows that follow each other without a gap are one. */
static inline int hexloom_udma_fill(uint32_t *words, const hexloom_transfer *t, int is_wide, int past_l2) {
  const int is_dense = t->rows == 1u || (t->to_stride == t->row_bytes && t->from_stride == t->row_bytes);
  const uint64_t bytes = (uint64_t)t->row_bytes * t->rows;
  const uint32_t field = HEXLOOM_UDMA_FIELD(is_wide), flags = past_l2 ? HEXLOOM_UDMA_PAST_L2 : 0u;
  words[0] = words[4] = words[5] = words[6] = words[7] = 0u;
  words[2] = (uint32_t)(uintptr_t)t->from;
  words[3] = (uint32_t)(uintptr_t)t->to;
  if (is_dense && bytes <= HEXLOOM_UDMA_LENGTH) {
    words[1] = flags | (uint32_t)bytes;
    return 1;
  }
  if (t->rows == 1u || t->rows > HEXLOOM_UDMA_ROWS || t->row_bytes > field || t->to_stride > field ||
      t->from_stride > field)
    return 0;
  words[1] = flags | HEXLOOM_UDMA_TWO;
  if (is_wide) {
    words[1] |= t->to_stride;
    words[4] = HEXLOOM_UDMA_WIDE;
    words[5] = t->row_bytes | t->rows << 24;
    words[6] = t->rows >> 8 | t->from_stride << 8;
  } else {
    words[5] = t->row_bytes | t->rows << 16;
    words[6] = t->from_stride | t->to_stride << 16;
  }
  return 1;
}

#endif /* HEXLOOM_UDMA_H */
