/* SPDX-License-Identifier: Apache-2.0
 *
 * Proves on any machine that tables are whole and safe: ranges, checksum, an order in which all queues come to their
 * end, and that buffers at the same addresses are never alive together, however long anything takes. C99 that is
 * also C++11; needs no library. Include it in one file.
 *
 * Of tables with loops it proves the first three, for every number of laps; what buffers share there is proven where
 * the tables are made (`hexloom check`, and the writer of tables).
 *
 *   size_t words = hexloom_selftest_words(view.header);   -- 0: not a header
 *   hexloom_verdict verdict = hexloom_selftest(&view, memory_of_that_many_words);
 *   verdict.problem == NULL: nothing wrong
 */
#ifndef HEXLOOM_SELFTEST_H
#define HEXLOOM_SELFTEST_H

#include "hexloom_selftest_run.h"

/* Whether all of task `a` is over when any of task `b` begins. */
static int hexloom_is_before(const hexloom_walk *w, uint32_t a, uint32_t b) {
  const hexloom_entry *entries = w->view->entries;
  uint32_t x, y;
  for (y = w->first_entry[b]; y != HEXLOOM_NONE; y = w->next_entry[y]) {
    const uint32_t *before = hexloom_set(w, y);
    if (entries[y].action == HEXLOOM_WAIT) continue;
    for (x = w->first_entry[a]; x != HEXLOOM_NONE; x = w->next_entry[x])
      if (entries[x].action != HEXLOOM_START && ((before[x / 32u] >> (x % 32u)) & 1u) == 0u) return 0;
  }
  return 1;
}

static int hexloom_all_before(const hexloom_walk *w, uint32_t one, uint32_t other) {
  const hexloom_buffer *a = &w->view->buffers[one];
  const hexloom_buffer *b = &w->view->buffers[other];
  const int over = (b->flags & HEXLOOM_BUFFER_OVERWRITES) != 0u && a->offset == b->offset && b->bytes <= a->bytes;
  uint32_t x, y;
  for (x = w->first_use[one]; x != HEXLOOM_NONE; x = w->next_use[x])
    for (y = w->first_use[other]; y != HEXLOOM_NONE; y = w->next_use[y])
      if (!(over && w->user[x] == w->user[y]) && !hexloom_is_before(w, w->user[x], w->user[y])) return 0;
  return 1;
}

/* Whether buffer `one` is over before buffer `other` begins. */
static int hexloom_hands_over(const hexloom_walk *w, uint32_t one, uint32_t other) {
  const hexloom_buffer *buffers = w->view->buffers;
  if ((buffers[one].flags & HEXLOOM_BUFFER_TO_END) != 0u) return 0;
  if ((buffers[other].flags & HEXLOOM_BUFFER_FROM_START) != 0u) return 0;
  return hexloom_all_before(w, one, other);
}

static hexloom_verdict hexloom_check_overlaps(const hexloom_walk *w) {
  const hexloom_view *v = w->view;
  uint32_t i, k;
  for (i = 0; i < v->header->buffer_count; i++)
    for (k = i + 1u; k < v->header->buffer_count; k++) {
      const hexloom_buffer *a = &v->buffers[i];
      const hexloom_buffer *b = &v->buffers[k];
      if (a->binding != b->binding || a->offset >= b->offset + b->bytes || b->offset >= a->offset + a->bytes) continue;
      if (a->bytes == 0u || b->bytes == 0u) continue;
      if (((a->flags | b->flags) & HEXLOOM_BUFFER_IN_PARTS) != 0u) continue; /* its parts are looked at */
      if (((a->flags | b->flags) & HEXLOOM_BUFFER_RESIDENT) != 0u) {
        const int idle_a = w->first_use[i] == HEXLOOM_NONE && (a->flags & HEXLOOM_BUFFER_RESIDENT) == 0u;
        const int idle_b = w->first_use[k] == HEXLOOM_NONE && (b->flags & HEXLOOM_BUFFER_RESIDENT) == 0u;
        if (idle_a || idle_b) continue;
        return hexloom_say("a buffer lies on a resident one", (b->flags & HEXLOOM_BUFFER_RESIDENT) ? i : k);
      }
      if (!hexloom_hands_over(w, i, k) && !hexloom_hands_over(w, k, i))
        return hexloom_say("two buffers share addresses and may be alive together; the first is", i);
    }
  return hexloom_say(NULL, 0u);
}

/* Whether every buffer in parts is covered by the parts behind it, of which each is used with it. */
static hexloom_verdict hexloom_check_parts(const hexloom_walk *w) {
  const hexloom_view *v = w->view;
  uint32_t i, k, x, y;
  for (i = 0; i < v->header->buffer_count; i++) {
    const hexloom_buffer *whole = &v->buffers[i];
    uint64_t at = whole->offset;
    if ((whole->flags & HEXLOOM_BUFFER_IN_PARTS) == 0u) continue;
    for (k = i + 1u; k < v->header->buffer_count; k++) {
      const hexloom_buffer *part = &v->buffers[k];
      if ((part->flags & HEXLOOM_BUFFER_PART) == 0u) break;
      if (part->offset != at || part->binding != whole->binding) return hexloom_say("a part lies elsewhere", k);
      at += part->bytes;
    }
    if (at != whole->offset + whole->bytes) return hexloom_say("the parts of a buffer do not cover it", i);
    for (x = w->first_use[i]; x != HEXLOOM_NONE; x = w->next_use[x]) {
      uint32_t used = 0u, p;
      for (p = i + 1u; p < k; p++)
        for (y = w->first_use[p]; y != HEXLOOM_NONE; y = w->next_use[y]) used += w->user[x] == w->user[y];
      if (used == 0u) return hexloom_say("a task uses a buffer, but none of its parts", w->user[x]);
    }
  }
  return hexloom_say(NULL, 0u);
}

static hexloom_verdict hexloom_test(const hexloom_view *view, uint32_t *memory, int thoroughly) {
  hexloom_walk walk;
  const int with_sets = thoroughly && view->header->loop_count == 0u;
  hexloom_verdict verdict = hexloom_check_header(view->header);
  if (verdict.problem != NULL) return verdict;
  if (hexloom_checksum(view) != view->header->crc32) return hexloom_say("the checksum does not fit the tables", 0u);
  hexloom_prepare(&walk, view, memory, with_sets);
  verdict = hexloom_check_buffers(view);
  if (verdict.problem == NULL) verdict = hexloom_check_memory(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_queues(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_tasks(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_waits(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_entries(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_run(&walk);
  if (!with_sets) return verdict;
  if (verdict.problem == NULL) verdict = hexloom_check_parts(&walk);
  if (verdict.problem == NULL) verdict = hexloom_check_overlaps(&walk);
  return verdict;
}

/* Return what is wrong with the tables first. `memory` has hexloom_selftest_words() words. */
static hexloom_verdict hexloom_selftest(const hexloom_view *view, uint32_t *memory) {
  return hexloom_test(view, memory, 1);
}

#endif /* HEXLOOM_SELFTEST_H */
