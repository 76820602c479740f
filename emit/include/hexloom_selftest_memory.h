/* SPDX-License-Identifier: Apache-2.0
 *
 * Of the self test: buffers and operands lie inside their bindings, and what descriptors move inside both, in every
 * iteration.
 */
#ifndef HEXLOOM_SELFTEST_MEMORY_H
#define HEXLOOM_SELFTEST_MEMORY_H

#include "hexloom_selftest_base.h"

static hexloom_verdict hexloom_check_buffers(const hexloom_view *v) {
  const hexloom_header *h = v->header;
  uint32_t k;
  for (k = 0; k < h->binding_count; k++)
    if (v->bindings[k].space == HEXLOOM_VTCM && v->bindings[k].bytes > h->vtcm_bytes)
      return hexloom_say("a binding is larger than the scratchpad", k);
  for (k = 0; k < h->buffer_count; k++) {
    const hexloom_buffer *b = &v->buffers[k];
    if (b->binding >= h->binding_count) return hexloom_say("a buffer names no binding", k);
    if (b->bytes > v->bindings[b->binding].bytes || b->offset > v->bindings[b->binding].bytes - b->bytes)
      return hexloom_say("a buffer lies outside its binding", k);
    if (b->align == 0u || b->offset % b->align != 0u) return hexloom_say("a buffer is not aligned", k);
  }
  return hexloom_say(NULL, 0u);
}

static hexloom_verdict hexloom_check_memory(hexloom_walk *w) {
  const hexloom_view *v = w->view;
  const hexloom_header *h = v->header;
  uint32_t k, n;
  for (k = 0; k < h->operand_count; k++) {
    const hexloom_operand *o = &v->operands[k];
    if (o->flags == HEXLOOM_OPERAND_RING && h->loop_count > 0u) {
      if (o->buffer == 0u || o->offset > h->operand_count || o->buffer > h->operand_count - o->offset)
        return hexloom_say("an operand has no places", k);
      for (n = 0u; n < o->buffer; n++)
        if (v->operands[o->offset + n].flags != 0u) return hexloom_say("a place of an operand has places", k);
      continue;
    }
    if (o->flags != 0u) return hexloom_say("an operand has unknown flags", k);
    if (o->binding >= h->binding_count) return hexloom_say("an operand names no binding", k);
    if (o->space != v->bindings[o->binding].space) return hexloom_say("an operand is in another space", k);
    if (o->buffer == HEXLOOM_NONE) continue;
    if (o->buffer >= h->buffer_count) return hexloom_say("an operand names no buffer", k);
    if (o->offset != v->buffers[o->buffer].offset || o->binding != v->buffers[o->buffer].binding)
      return hexloom_say("an operand is not where its buffer is", k);
    w->next_use[k] = w->first_use[o->buffer];
    w->first_use[o->buffer] = k;
  }
  return hexloom_say(NULL, 0u);
}

/* A parameter of those `given`; NULL: the most it can be. */
static uint32_t hexloom_value(const hexloom_view *v, const uint32_t *given, uint32_t parameter) {
  return given == NULL ? v->parameters[parameter].most : given[parameter];
}

/* How many iterations a task is further in its last lap than before the first one. */
static uint64_t hexloom_iterations_more(const hexloom_view *v, uint32_t t, const uint32_t *given) {
  const uint32_t groups = v->header->group_count;
  uint64_t more = 0u;
  uint32_t k;
  for (k = 0; k < v->header->loop_count; k++) {
    const hexloom_loop *loop = &v->loops[k];
    const uint64_t advance = v->advances[k * groups + v->tasks[t].group].iterations;
    const uint64_t made = hexloom_value(v, given, loop->parameter);
    if (t < loop->first_task) break;
    more += advance * (t - loop->first_task < loop->task_count ? made - 1u : made);
  }
  return more;
}

/* How many iterations of a group the laps make; 2^32 and more cannot be. */
static uint64_t hexloom_iterations_made(const hexloom_view *v, uint32_t group, const uint32_t *given) {
  uint64_t made = 0u;
  uint32_t t;
  for (t = 0; t < v->header->task_count; t++)
    if (v->tasks[t].group == group && (v->tasks[t].flags & HEXLOOM_TASK_REPEATED) != 0u) {
      const uint64_t last = v->tasks[t].iteration + hexloom_iterations_more(v, t, given);
      if (last >= made) made = last + 1u;
    }
  return made;
}

/* How many iterations further the last one of a task is that is not left out; all bits: there is none. */
static uint64_t hexloom_iterations_done(const hexloom_view *v, uint32_t t, const uint32_t *given) {
  const hexloom_task *task = &v->tasks[t];
  const uint64_t more = hexloom_iterations_more(v, t, given);
  uint32_t parameter = HEXLOOM_NONE, trips;
  if ((task->flags & HEXLOOM_TASK_REPEATED) != 0u) parameter = hexloom_parameter_of(v, HEXLOOM_TRIPS, task->group);
  if (parameter == HEXLOOM_NONE) return more;
  trips = hexloom_value(v, given, parameter);
  if (trips <= task->iteration) return UINT64_MAX;
  return more < trips - 1u - task->iteration ? more : trips - 1u - task->iteration;
}

/* The bytes up to the end of what a descriptor says; UINT64_MAX: more than can be counted. */
static uint64_t hexloom_end_of(const hexloom_view *v, const hexloom_descriptor *written, const uint32_t *given,
                               uint64_t further, int is_last) {
  const uint64_t most = UINT64_C(1) << 62;
  const hexloom_descriptor first = hexloom_described(v, written, given, 0u, 0);
  const uint64_t span = (uint64_t)(first.rows - 1u) * first.stride + first.row_bytes; /* below 2^64 */
  hexloom_descriptor d;
  if (span > most || first.offset > most || (first.step > 0u && further > most / first.step)) return UINT64_MAX;
  d = hexloom_described(v, written, given, further, is_last);
  return d.offset + (uint64_t)(d.rows - 1u) * d.stride + d.row_bytes;
}

/* The bytes that a memory must have for a descriptor in all iterations; UINT64_MAX: more than can be counted. */
static uint64_t hexloom_bytes_needed(const hexloom_view *v, uint32_t t, const hexloom_descriptor *d,
                                     const uint32_t *given) {
  const uint64_t done = hexloom_iterations_done(v, t, given);
  uint64_t last, before;
  if (done == UINT64_MAX) return 0u;
  last = hexloom_end_of(v, d, given, done, d->tail_parameter != 0u);
  before = done == 0u || d->tail_parameter == 0u ? 0u : hexloom_end_of(v, d, given, done - 1u, 0);
  return last > before ? last : before;
}

/* What a descriptor takes from parameters is what these are about, and leaves something to move. */
static hexloom_verdict hexloom_check_changes(const hexloom_view *v, uint32_t t, uint32_t number) {
  const hexloom_descriptor *d = &v->descriptors[number];
  const hexloom_parameter *p;
  if (d->stride_parameter != 0u) {
    if (d->stride_parameter > v->header->parameter_count) return hexloom_say("a descriptor has no such stride", number);
    p = &v->parameters[d->stride_parameter - 1u];
    if (p->kind != HEXLOOM_STRIDE || p->where != d->binding || (d->dimensions == 2u && d->stride != p->usual))
      return hexloom_say("a descriptor has no such stride", number);
    if ((d->offset / p->usual) >> 30 != 0u || (d->step / p->usual) >> 30 != 0u)
      return hexloom_say("a descriptor has more rows than can be counted", number);
    if (d->offset % p->usual + d->row_bytes > p->least)
      return hexloom_say("a row of a descriptor is longer than the least stride", number);
  }
  if (d->tail_parameter == 0u) return hexloom_say(NULL, 0u);
  if (d->tail_parameter > v->header->parameter_count || (v->tasks[t].flags & HEXLOOM_TASK_REPEATED) == 0u)
    return hexloom_say("a descriptor has no such tail", number);
  p = &v->parameters[d->tail_parameter - 1u];
  if ((p->kind != HEXLOOM_TAIL_ROWS && p->kind != HEXLOOM_TAIL_COLUMNS) || p->where != v->tasks[t].group ||
      d->tail < HEXLOOM_FEWER_ROWS || d->tail > HEXLOOM_SHORTER_ROWS ||
      (uint64_t)(d->tail == HEXLOOM_FEWER_ROWS ? d->rows : d->row_bytes) * p->least < p->most)
    return hexloom_say("a descriptor has no such tail", number);
  return hexloom_say(NULL, 0u);
}

/* A descriptor stays inside its operand, and without loops inside its binding. */
static hexloom_verdict hexloom_check_descriptor(const hexloom_view *v, uint32_t t, uint32_t number) {
  const hexloom_task *task = &v->tasks[t];
  const hexloom_descriptor *d = &v->descriptors[number];
  const int moves = d->kind == HEXLOOM_TO_OPERAND || d->kind == HEXLOOM_FROM_OPERAND;
  const hexloom_operand *o;
  uint64_t needed, span;
  uint32_t places, n;
  hexloom_verdict verdict;
  if (d->binding >= v->header->binding_count) return hexloom_say("a descriptor names no binding", number);
  if (v->bindings[d->binding].space != HEXLOOM_DDR_MAPPED && v->bindings[d->binding].space != HEXLOOM_DDR_DMA_ONLY)
    return hexloom_say("a descriptor is not of a tensor in DDR", number);
  if (!moves && d->kind != HEXLOOM_CLEAN && d->kind != HEXLOOM_INVALIDATE)
    return hexloom_say("a descriptor is of no kind", number);
  if (moves != (task->kind == HEXLOOM_DMA) || d->kind != v->descriptors[task->first_descriptor].kind)
    return hexloom_say("a descriptor does not fit the kind of its task", number);
  if (d->rows == 0u || d->row_bytes == 0u || d->dimensions < 1u || d->dimensions > 2u)
    return hexloom_say("a descriptor is empty, or has no dimensions", number);
  if (d->dimensions == 1u && d->rows != 1u) return hexloom_say("a descriptor of one dimension has rows", number);
  verdict = hexloom_check_changes(v, t, number);
  if (verdict.problem != NULL) return verdict;
  needed = hexloom_bytes_needed(v, t, d, NULL);
  if (needed == UINT64_MAX || (v->header->parameter_count == 0u && needed > v->bindings[d->binding].bytes))
    return hexloom_say("a descriptor goes beyond its binding", number);
  if (!moves) return hexloom_say(NULL, 0u);
  if (d->operand >= task->operand_count) return hexloom_say("a descriptor names no operand", number);
  span = (uint64_t)(d->rows - 1u) * d->operand_stride + d->row_bytes;
  o = &v->operands[task->first_operand + d->operand];
  places = o->flags == HEXLOOM_OPERAND_RING ? o->buffer : 1u;
  if (o->flags == HEXLOOM_OPERAND_RING) o = &v->operands[o->offset];
  for (n = 0; n < places; n++)
    if (o[n].buffer == HEXLOOM_NONE || v->buffers[o[n].buffer].bytes < d->operand_offset ||
        v->buffers[o[n].buffer].bytes - d->operand_offset < span)
      return hexloom_say("a descriptor goes beyond its operand", number);
  return hexloom_say(NULL, 0u);
}

#endif /* HEXLOOM_SELFTEST_MEMORY_H */
