/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading tables, and binding them: everything is checked here, so that nothing need be while they are executed.
 */
#include "hexloom_run.h"
#include "hexloom_selftest.h"

#define DEFAULT_TIMEOUT_NS UINT64_C(1000000000)
#define MOST_LOOPS (64u)

/* --- reading tables ---------------------------------------------------------------------------------------- */

static uint64_t table_bytes(const hexloom_header *h) {
  return (uint64_t)sizeof *h + (uint64_t)h->task_count * sizeof(hexloom_task) +
         (uint64_t)h->operand_count * sizeof(hexloom_operand) +
         (uint64_t)h->event_count * sizeof(hexloom_event) + (uint64_t)h->queue_count * sizeof(hexloom_queue) +
         (uint64_t)h->entry_count * sizeof(hexloom_entry) + (uint64_t)h->buffer_count * sizeof(hexloom_buffer) +
         (uint64_t)h->binding_count * sizeof(hexloom_binding) + (uint64_t)h->loop_count * sizeof(hexloom_loop) +
         (uint64_t)h->body_count * sizeof(hexloom_body) + (uint64_t)h->advance_count * sizeof(hexloom_advance) +
         (uint64_t)h->parameter_count * sizeof(hexloom_parameter) +
         (uint64_t)h->descriptor_count * sizeof(hexloom_descriptor);
}

static const void *take(const unsigned char **at, size_t size, uint32_t count) {
  const void *start = *at;
  *at += size * count;
  return start;
}

const char *hexloom_open(const void *bytes, size_t length, hexloom_view *view) {
  const unsigned char *at = (const unsigned char *)bytes;
  const hexloom_header *h = (const hexloom_header *)bytes;
  hexloom_verdict verdict;
  if ((uintptr_t)bytes % 8u != 0u) return "the tables are not aligned to 8 bytes";
  if (length < sizeof *h) return "the tables are shorter than their header";
  verdict = hexloom_check_header(h);
  if (verdict.problem != NULL) return verdict.problem;
  if (table_bytes(h) != length) return "the tables have another length than their header says";
  at += sizeof *h;
  view->header = h;
  view->tasks = (const hexloom_task *)take(&at, sizeof(hexloom_task), h->task_count);
  view->operands = (const hexloom_operand *)take(&at, sizeof(hexloom_operand), h->operand_count);
  view->events = (const hexloom_event *)take(&at, sizeof(hexloom_event), h->event_count);
  view->queues = (const hexloom_queue *)take(&at, sizeof(hexloom_queue), h->queue_count);
  view->entries = (const hexloom_entry *)take(&at, sizeof(hexloom_entry), h->entry_count);
  view->buffers = (const hexloom_buffer *)take(&at, sizeof(hexloom_buffer), h->buffer_count);
  view->bindings = (const hexloom_binding *)take(&at, sizeof(hexloom_binding), h->binding_count);
  view->loops = (const hexloom_loop *)take(&at, sizeof(hexloom_loop), h->loop_count);
  view->bodies = (const hexloom_body *)take(&at, sizeof(hexloom_body), h->body_count);
  view->parameters = (const hexloom_parameter *)take(&at, sizeof(hexloom_parameter), h->parameter_count);
  view->descriptors = (const hexloom_descriptor *)take(&at, sizeof(hexloom_descriptor), h->descriptor_count);
  view->advances = (const hexloom_advance *)take(&at, sizeof(hexloom_advance), h->advance_count);
  if (hexloom_checksum(view) != h->crc32) return "the checksum does not fit the tables";
  return NULL;
}

/* --- binding ----------------------------------------------------------------------------------------------- */

/* Where the parts of a run lie in its memory; the last one is the end. */
typedef struct layout {
  uint64_t events, workers, finished, slots, values, laps, trips, records, end;
} layout;

/* Words for the laps of one worker, on lines of their own. */
static uint64_t laps_bytes(const hexloom_header *h) { return whole_lines((uint64_t)h->loop_count * sizeof(uint32_t)); }

static layout layout_of(const hexloom_setup *setup) {
  const hexloom_header *h = setup->view.header;
  layout at;
  at.events = whole_lines(sizeof(hexloom_run));
  at.workers = at.events + (uint64_t)h->event_count * sizeof(line);
  at.finished = at.workers + h->queue_count * whole_lines(sizeof(worker));
  at.slots = at.finished + whole_lines((uint64_t)h->task_count * sizeof(word));
  at.values = at.slots + whole_lines((uint64_t)h->slot_count * sizeof(slot));
  at.laps = at.values + whole_lines((uint64_t)h->parameter_count * sizeof(uint32_t));
  at.trips = at.laps + (h->queue_count + UINT64_C(1)) * laps_bytes(h);
  at.records = at.trips + whole_lines((uint64_t)h->group_count * sizeof(uint32_t));
  at.end = at.records + (uint64_t)h->queue_count * setup->trace_records * sizeof(hexloom_record);
  return at;
}

size_t hexloom_run_bytes(const hexloom_setup *setup) {
  const hexloom_header *h = setup->view.header;
  uint64_t run, scratch;
  if (h == NULL || hexloom_check_header(h).problem != NULL) return 0u;
  run = layout_of(setup).end;
  if (setup->flags & HEXLOOM_PROVE) {
    /* in 64 bits, for hexloom_selftest_words() has those of the machine */
    scratch = 4u * ((uint64_t)hexloom_quick_words(h) + (uint64_t)h->entry_count * (h->entry_count / 32u + 1u));
    if (scratch / 4u != (uint64_t)hexloom_selftest_words(h)) return 0u;
  } else {
    scratch = 4u * (uint64_t)hexloom_quick_words(h);
  }
  if (scratch > run) run = scratch; /* the test ends before the run begins */
  return run > (uint64_t)SIZE_MAX / 2u ? 0u : (size_t)run;
}

static hexloom_status wrong(uint32_t code, const char *problem, uint32_t where) {
  hexloom_status status = clean(code);
  status.problem = problem;
  status.detail = (int32_t)where;
  return status;
}

/* The iterations of a group that are not left out. */
static uint32_t trips_of(const hexloom_run *run, uint32_t group) {
  const uint32_t parameter = hexloom_parameter_of(&run->setup.view, HEXLOOM_TRIPS, group);
  return parameter == HEXLOOM_NONE ? HEXLOOM_NONE : run->values[parameter];
}

static hexloom_status check_memories(const hexloom_setup *setup) {
  const hexloom_view *v = &setup->view;
  hexloom_status status = clean(HEXLOOM_OK);
  uint32_t k;
  if (setup->memory_count != v->header->binding_count)
    return wrong(HEXLOOM_BAD_SETUP, "there are more or fewer memories than bindings", setup->memory_count);
  for (k = 0u; k < setup->memory_count; k++) {
    const hexloom_binding *binding = &v->bindings[k];
    const uint64_t rest = binding->align == 0u ? 0u : (uint64_t)((uintptr_t)setup->memories[k].base % binding->align);
    const int described = (binding->flags & HEXLOOM_BINDING_DESCRIBED) != 0u;
    if ((described || setup->memories[k].bytes >= binding->bytes) && rest == 0u) continue;
    status = wrong(HEXLOOM_BAD_BINDING, rest != 0u ? "a memory is not aligned" : "a memory is too small", k);
    status.seen = rest != 0u ? rest : setup->memories[k].bytes;
    status.expected = rest != 0u ? 0u : binding->bytes;
    return status;
  }
  return status;
}

/* See that memories hold what descriptors name in all laps that are made. */
static hexloom_status check_descriptors(const hexloom_setup *setup, const uint32_t *values) {
  const hexloom_view *v = &setup->view;
  hexloom_status status = clean(HEXLOOM_OK);
  uint32_t t, k;
  for (t = 0u; t < v->header->task_count; t++)
    for (k = 0u; k < v->tasks[t].descriptor_count; k++) {
      const hexloom_descriptor *d = &v->descriptors[v->tasks[t].first_descriptor + k];
      const uint64_t needed = hexloom_bytes_needed(v, t, d, values);
      const uint32_t stride = d->stride_parameter == 0u ? HEXLOOM_NONE : values[d->stride_parameter - 1u];
      if (stride != HEXLOOM_NONE && needed > 0u) {
        const uint32_t usual = v->parameters[d->stride_parameter - 1u].usual;
        const uint64_t along = d->step % usual * hexloom_iterations_done(v, t, values);
        if (d->offset % usual + along + d->row_bytes > stride) {
          status = wrong(HEXLOOM_BAD_PARAMETER, "a stride is too short for so many iterations",
                         d->stride_parameter - 1u);
          status.task = t;
          status.seen = stride;
          status.expected = d->offset % usual + along + d->row_bytes;
          return status;
        }
      }
      if (needed <= setup->memories[d->binding].bytes) continue;
      status = wrong(HEXLOOM_BAD_BINDING, "a memory is too small for so many iterations", d->binding);
      status.task = t;
      status.seen = setup->memories[d->binding].bytes;
      status.expected = needed;
      return status;
    }
  return status;
}

static hexloom_status check_kernels(const hexloom_setup *setup) {
  const hexloom_view *v = &setup->view;
  hexloom_status status = clean(HEXLOOM_OK);
  uint32_t t;
  for (t = 0u; t < v->header->task_count; t++) {
    const hexloom_task *task = &v->tasks[t];
    if (task->kind == HEXLOOM_DMA &&
        (setup->port->dma_push == NULL || setup->port->dma_done == NULL || setup->port->dma_drain == NULL)) {
      status = wrong(HEXLOOM_BAD_SETUP, "a task is a transfer, and the port has none", 0u);
      status.task = t;
      return status;
    }
    if (task->descriptor_count > 0u && (task->kind == HEXLOOM_DMA || setup->port->maintain != NULL)) continue;
    if (task->stage < setup->kernel_count && setup->kernels[task->stage].function != NULL) continue;
    status = wrong(HEXLOOM_NO_KERNEL, "the stage of a task has no kernel", task->stage);
    status.task = t;
    return status;
  }
  return status;
}

/* See that every parameter has a value that the plan is proven for, and say which is nearest to one that is not. */
static hexloom_status check_parameters(const hexloom_setup *setup) {
  const hexloom_view *v = &setup->view;
  hexloom_status status = clean(HEXLOOM_OK);
  uint32_t k;
  if (v->header->loop_count > MOST_LOOPS) return wrong(HEXLOOM_BAD_TABLE, "there are more loops than 64", MOST_LOOPS);
  if (setup->parameters == NULL) return status;
  if (setup->parameter_count != v->header->parameter_count)
    return wrong(HEXLOOM_BAD_SETUP, "there are more or fewer parameters than in the tables", setup->parameter_count);
  for (k = 0u; k < setup->parameter_count; k++) {
    const hexloom_parameter *p = &v->parameters[k];
    const uint32_t value = setup->parameters[k], lowest = p->least + (p->usual - p->least) % p->step;
    if (p->kind == HEXLOOM_TRIPS && value == HEXLOOM_NONE) continue;
    if (value >= p->least && value <= p->most && value % p->step == p->usual % p->step) continue;
    status = wrong(HEXLOOM_BAD_PARAMETER, "a parameter is not in the range that the plan is proven for", k);
    status.seen = value;
    status.expected = lowest;
    if (value > lowest)
      status.expected += (uint64_t)(((value > p->most ? p->most : value) - lowest) / p->step) * p->step;
    return status;
  }
  return status;
}

/* Take parameters as given, or as usual; see that no group has more iterations than the laps make. */
static hexloom_status take_parameters(const hexloom_setup *setup, uint32_t *values) {
  const hexloom_view *v = &setup->view;
  hexloom_status status = clean(HEXLOOM_OK);
  uint32_t k;
  for (k = 0u; k < v->header->parameter_count; k++)
    values[k] = setup->parameters == NULL ? v->parameters[k].usual : setup->parameters[k];
  for (k = 0u; k < v->header->parameter_count; k++) {
    uint64_t made;
    if (v->parameters[k].kind != HEXLOOM_TRIPS) continue;
    made = hexloom_iterations_made(v, v->parameters[k].where, values);
    if (values[k] == HEXLOOM_NONE) values[k] = (uint32_t)made;
    if (values[k] <= made) continue;
    status = wrong(HEXLOOM_BAD_PARAMETER, "a group has more iterations than the laps make", k);
    status.seen = values[k];
    status.expected = made;
    return status;
  }
  return status;
}

/* How many iterations more are wanted of a group than so many laps make. */
static int64_t missing(const hexloom_view *v, uint32_t parameter, const uint32_t *values) {
  return (int64_t)values[parameter] - (int64_t)hexloom_iterations_made(v, v->parameters[parameter].where, values);
}

/* Make a loop longer by laps that take so many iterations, if it can be; by whole steps, `up` or down. */
static void add_laps(const hexloom_view *v, uint32_t loop, int64_t iterations, uint32_t advance, int up,
                     uint32_t *values) {
  const hexloom_parameter *p = &v->parameters[v->loops[loop].parameter];
  uint32_t *laps = &values[v->loops[loop].parameter];
  uint64_t more = ((uint64_t)iterations + (up ? advance - 1u : 0u)) / advance;
  more = (more + (up ? p->step - 1u : 0u)) / p->step * p->step;
  if (more > p->most - *laps) more = (uint64_t)((p->most - *laps) / p->step) * p->step;
  *laps += (uint32_t)more;
}

/* How many groups a loop has iterations of; HEXLOOM_NONE if of one of them none may be left out: its laps are fixed. */
static uint32_t groups_in(const hexloom_view *v, uint32_t loop) {
  uint32_t g, count = 0u;
  for (g = 0u; g < v->header->group_count; g++) {
    if (v->advances[loop * v->header->group_count + g].iterations == 0u) continue;
    if (hexloom_parameter_of(v, HEXLOOM_TRIPS, g) == HEXLOOM_NONE) return HEXLOOM_NONE;
    count++;
  }
  return count;
}

hexloom_status hexloom_fit(const hexloom_view *v, const uint32_t *trips, uint32_t *parameters) {
  const hexloom_header *h = v->header;
  uint32_t k, n, most;
  hexloom_status status;
  for (k = 0u; k < h->loop_count; k++) {
    const hexloom_parameter *p = &v->parameters[v->loops[k].parameter];
    parameters[v->loops[k].parameter] = groups_in(v, k) == HEXLOOM_NONE ? p->usual : p->least;
  }
  for (n = 0u; n < h->parameter_count; n++) {
    const hexloom_parameter *p = &v->parameters[n];
    if (p->kind != HEXLOOM_LAPS && p->kind != HEXLOOM_TRIPS) parameters[n] = p->usual;
    if (p->kind != HEXLOOM_TRIPS) continue;
    parameters[n] = trips[p->where] == HEXLOOM_NONE ? p->usual : trips[p->where];
    if (parameters[n] >= p->least && parameters[n] <= p->most) continue;
    status = wrong(HEXLOOM_BAD_PARAMETER, "a parameter is not in the range that the plan is proven for", n);
    status.seen = parameters[n];
    status.expected = parameters[n] > p->most ? p->most : p->least;
    return status;
  }
  for (k = 0u; k < h->loop_count; k++) { /* as many laps as all that run in them fill */
    int64_t fewest = -1;
    if (groups_in(v, k) == HEXLOOM_NONE) continue;
    for (n = 0u; n < h->parameter_count; n++) {
      const uint32_t group = v->parameters[n].where;
      int64_t fill;
      if (v->parameters[n].kind != HEXLOOM_TRIPS || v->advances[k * h->group_count + group].iterations == 0u) continue;
      fill = missing(v, n, parameters);
      fill = fill <= 0 ? 0 : (int64_t)((uint64_t)fill / v->advances[k * h->group_count + group].iterations);
      if (fewest < 0 || fill < fewest) fewest = fill;
    }
    if (fewest > 0) add_laps(v, k, fewest, 1u, 0, parameters);
  }
  for (n = 0u; n < h->parameter_count; n++) { /* then the rest, where fewest others run beside it */
    const uint32_t group = v->parameters[n].where;
    if (v->parameters[n].kind != HEXLOOM_TRIPS) continue;
    for (most = 1u; most <= h->group_count; most++)
      for (k = 0u; k < h->loop_count; k++) {
        const uint32_t advance = v->advances[k * h->group_count + group].iterations;
        const int64_t rest = missing(v, n, parameters);
        if (advance > 0u && rest > 0 && groups_in(v, k) == most) add_laps(v, k, rest, advance, 1, parameters);
      }
    if (missing(v, n, parameters) <= 0) continue;
    status = wrong(HEXLOOM_BAD_PARAMETER, "iterations of several groups are more than counters can count", n);
    status.seen = parameters[n];
    status.expected = hexloom_iterations_made(v, group, parameters);
    return status;
  }
  return clean(HEXLOOM_OK);
}

static hexloom_status check_setup(const hexloom_setup *setup, void *memory, size_t bytes) {
  const hexloom_port *p = setup->port;
  hexloom_status status;
  hexloom_verdict verdict;
  uint32_t *values;
  size_t needed;
  if (setup->view.header == NULL) return wrong(HEXLOOM_BAD_SETUP, "there is no header", 0u);
  verdict = hexloom_check_header(setup->view.header);
  if (verdict.problem != NULL) return wrong(HEXLOOM_BAD_TABLE, verdict.problem, verdict.where);
  if (p == NULL || p->now_ns == NULL || p->relax == NULL || p->sleep == NULL || p->wake == NULL || p->start == NULL ||
      p->join == NULL)
    return wrong(HEXLOOM_BAD_SETUP, "the port lacks a function", 0u);
  if (setup->main_queue != HEXLOOM_NONE && setup->main_queue >= setup->view.header->queue_count)
    return wrong(HEXLOOM_BAD_SETUP, "the main queue does not exist", setup->main_queue);
  needed = hexloom_run_bytes(setup);
  if (needed == 0u) return wrong(HEXLOOM_BAD_TABLE, "the tables are too large for this machine", 0u);
  if (memory == NULL || bytes < needed || (uintptr_t)memory % HEXLOOM_LINE != 0u) {
    status = wrong(HEXLOOM_NO_MEMORY, "the memory of the run is too small or not aligned", 0u);
    status.seen = bytes;
    status.expected = needed;
    return status;
  }
  if (setup->flags & HEXLOOM_PROVE)
    verdict = hexloom_selftest(&setup->view, (uint32_t *)memory);
  else
    verdict = hexloom_test(&setup->view, (uint32_t *)memory, 0);
  if (verdict.problem != NULL) return wrong(HEXLOOM_BAD_TABLE, verdict.problem, verdict.where);
  status = check_parameters(setup);
  values = (uint32_t *)(void *)((unsigned char *)memory + layout_of(setup).values); /* the test is over */
  if (status.code == HEXLOOM_OK) status = take_parameters(setup, values);
  if (status.code == HEXLOOM_OK) status = check_memories(setup);
  if (status.code == HEXLOOM_OK) status = check_descriptors(setup, values);
  return status.code != HEXLOOM_OK ? status : check_kernels(setup);
}

/* The loop of every event, and how often a lap and an execution trigger it. */
static void count_triggers(const hexloom_run *run) {
  const hexloom_view *v = &run->setup.view;
  uint32_t q, e, k;
  for (k = 0u; k < v->header->event_count; k++) {
    run->events[k].total = v->events[k].triggers;
    run->events[k].step = 0u;
    run->events[k].loop = hexloom_loop_of_event(v, k);
  }
  for (q = 0u; q < v->header->queue_count && v->header->loop_count > 0u; q++)
    for (e = v->queues[q].first_entry; e < v->queues[q].first_entry + v->queues[q].entry_count; e++) {
      const uint32_t event = hexloom_trigger_of(v, &v->entries[e]), loop = hexloom_loop_of_entry(v, q, e);
      if (event != HEXLOOM_NONE && loop != HEXLOOM_NONE) run->events[event].step++;
    }
  for (k = 0u; k < v->header->event_count; k++)
    if (run->events[k].loop != HEXLOOM_NONE)
      run->events[k].total += run->events[k].step * run->laps[run->events[k].loop];
}

hexloom_run *hexloom_bind(const hexloom_setup *setup, void *memory, size_t bytes, hexloom_status *status) {
  unsigned char *base = (unsigned char *)memory;
  hexloom_run *run = (hexloom_run *)memory;
  layout at;
  uint32_t q;
  *status = check_setup(setup, memory, bytes);
  if (status->code != HEXLOOM_OK) return NULL;
  at = layout_of(setup);
  run->setup = *setup;
  run->timeout_ns = setup->timeout_ns == 0u ? DEFAULT_TIMEOUT_NS : setup->timeout_ns;
  run->status = clean(HEXLOOM_OK);
  run->events = (line *)(void *)(base + at.events);
  run->workers = (worker *)(void *)(base + at.workers);
  run->finished = (word *)(void *)(base + at.finished);
  run->slots = (slot *)(void *)(base + at.slots);
  run->values = (uint32_t *)(void *)(base + at.values); /* they are there already */
  run->laps = (uint32_t *)(void *)(base + at.laps);
  run->trips = (uint32_t *)(void *)(base + at.trips);
  for (q = 0u; q < setup->view.header->group_count; q++) run->trips[q] = trips_of(run, q);
  for (q = 0u; q < setup->view.header->loop_count; q++) run->laps[q] = run->values[setup->view.loops[q].parameter];
  count_triggers(run);
  for (q = 0u; q < setup->view.header->queue_count; q++) {
    worker *w = worker_of(run, q);
    w->run = run;
    w->queue = q;
    w->late = 0u;
    w->started = 0u;
    w->turns = 0u;
    atomic_init(&w->left, 0u);
    atomic_init(&w->undrained, 0u);
    atomic_init(&w->waits, 0u);
    atomic_init(&w->at, 0u);
    atomic_init(&w->entry, 0u);
    w->laps = (uint32_t *)(void *)(base + at.laps + (q + UINT64_C(1)) * laps_bytes(setup->view.header));
    w->records = (hexloom_record *)(void *)(base + at.records) + (size_t)q * setup->trace_records;
    w->trace.queue = q;
    w->trace.capacity = setup->trace_records;
    w->trace.records = w->records;
  }
  atomic_init(&run->stop, 0u);
  atomic_init(&run->claimed, 0u);
  zero_line(&run->exits);
  zero_line(&run->turns);
  zero_line(&run->late);
  zero_counters(run);
  hexloom_trace_clear(run);
  return run;
}
