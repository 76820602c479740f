/* Executes tables of schedules with real work on this host, one thread pinned to one core per queue, and tells for each
 * execution when everything ran and how far the machine let it.
 *
 *   loop TABLES... : for each a file of the tables and, as NAME.work, a pair of 32-bit words per task: class and work.
 *
 * It reads lines from standard input: "JOB EXECUTIONS". Each execution is told in a line
 *
 *   run START_NS PROBE_BEFORE_PS PROBE_AFTER_PS then per queue: CORE PREEMPTED WALL_NS CPU_NS PACE_NS
 *
 * and its records in lines "QUEUE TASK SLICE PHASE START_NS END_NS"; "end" ends an answer. Threads begin together, at a
 * barrier that they spin on, and spin wherever they wait.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "hexloom_posix.h"
#include "hexloom_runtime.h"

#define MOST_QUEUES (8u)
#define ARENA_FLOATS ((size_t)1u << 24) /* 64 MiB per thread: far more than its caches */
#define CHUNK_FLOATS (16384u)           /* 64 KiB: one unit of work of all that stream */
#define TILE (32u)
#define BATCH_ROWS (8u)
#define PROBES (6u)
#define PASSES (200u)
#define WARM_NS (UINT64_C(300000))
#define PACE_UNITS (8u)

/* classes, as in closed_loop.py */
enum { GEMM, GEMM_STREAM, ADD, NORM, COPY };

typedef struct seen {
  uint64_t wall_ns, cpu_ns, pace_ns;
  long preempted;
  char pad[128];
} seen;

typedef struct lane {
  float *arena;
  size_t at;
  float tile[3][TILE * TILE];
  float sum;
  char pad[128];
} lane;

static lane lanes[MOST_QUEUES];
static seen begun[MOST_QUEUES], left[MOST_QUEUES];
static _Atomic uint32_t entered;
static uint32_t expected, cores;
static uint32_t core_at[MOST_QUEUES]; /* matrix work always runs on the first core, vector work on the second */
static uint64_t started_ns;

static uint64_t clock_of(clockid_t clock) {
  struct timespec now;
  (void)clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void relax(void *context, uint32_t round) {
  (void)context;
  (void)round;
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

static cpu_set_t only(uint32_t core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return set;
}

static void pin(uint32_t core) {
  const cpu_set_t set = only(core);
  (void)sched_setaffinity(0, sizeof set, &set);
}

/* A thread that begins on its own core: on that of its maker it would have to take it from him first. */
static int begin_thread(pthread_t *thread, uint32_t core, void *(*body)(void *argument), void *argument) {
  const cpu_set_t set = only(core);
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  error = pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
  if (error == 0) error = pthread_create(thread, &attributes, body, argument);
  (void)pthread_attr_destroy(&attributes);
  return error;
}

typedef struct task {
  void (*body)(void *argument);
  void *argument;
  pthread_t thread;
} task;

static task tasks[MOST_QUEUES];

static void *run_task(void *argument) {
  const task *mine = (const task *)argument;
  mine->body(mine->argument);
  return NULL;
}

static int start(void *context, uint32_t worker, void (*body)(void *argument), void *argument) {
  (void)context;
  if (worker >= MOST_QUEUES) return -1;
  tasks[worker].body = body;
  tasks[worker].argument = argument;
  return begin_thread(&tasks[worker].thread, core_at[worker], run_task, &tasks[worker]);
}

static void join(void *context, uint32_t worker) {
  (void)context;
  (void)pthread_join(tasks[worker].thread, NULL);
}

static void look(seen *s) {
  struct rusage usage;
  (void)getrusage(RUSAGE_THREAD, &usage);
  s->preempted = usage.ru_nivcsw;
  s->cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
  s->wall_ns = clock_of(CLOCK_MONOTONIC);
}

static void gemm(lane *l);

/* Nanoseconds of a little work that needs nothing but the core: what shares it with others of the host slows it. */
static uint64_t pace(uint32_t core) {
  const uint64_t from = clock_of(CLOCK_MONOTONIC);
  uint32_t k;
  for (k = 0u; k < PACE_UNITS; k++) gemm(&lanes[core]);
  return clock_of(CLOCK_MONOTONIC) - from;
}

static void leave(void *context, uint32_t worker, uint32_t kind) {
  (void)context;
  (void)kind;
  look(&left[worker]);
  left[worker].pace_ns = pace(core_at[worker]);
}

/* --- work -------------------------------------------------------------------------------------------------- */

/* The next chunk of what this thread streams over; what it saw before has left its caches by the time it comes back. */
static float *next(lane *l, size_t floats) {
  if (l->at + floats > ARENA_FLOATS) l->at = 0u;
  l->at += floats;
  return l->arena + l->at - floats;
}

static void gemm(lane *l) {
  float *a = l->tile[0], *b = l->tile[1], *c = l->tile[2];
  uint32_t i, j, k;
  for (i = 0u; i < TILE; i++)
    for (k = 0u; k < TILE; k++) {
      const float x = a[i * TILE + k];
      for (j = 0u; j < TILE; j++) c[i * TILE + j] += x * b[k * TILE + j];
    }
}

/* A few rows times weights that come from memory once. */
static void gemm_stream(lane *l) {
  const float *w = next(l, CHUNK_FLOATS);
  float out[BATCH_ROWS][TILE];
  uint32_t r, j, k;
  memset(out, 0, sizeof out);
  for (k = 0u; k < CHUNK_FLOATS / TILE; k++)
    for (r = 0u; r < BATCH_ROWS; r++) {
      const float x = l->tile[0][(k + r) % (TILE * TILE)];
      for (j = 0u; j < TILE; j++) out[r][j] += x * w[k * TILE + j];
    }
  for (r = 0u; r < BATCH_ROWS; r++) l->sum += out[r][r];
}

static void add(lane *l) {
  float *a = next(l, 3u * CHUNK_FLOATS);
  uint32_t k;
  for (k = 0u; k < CHUNK_FLOATS; k++) a[2u * CHUNK_FLOATS + k] = a[k] + a[CHUNK_FLOATS + k];
}

static void norm(lane *l) {
  float *a = next(l, CHUNK_FLOATS);
  float part[TILE], sum = 0.0f;
  uint32_t j, k;
  memset(part, 0, sizeof part);
  for (k = 0u; k < CHUNK_FLOATS; k += TILE)
    for (j = 0u; j < TILE; j++) part[j] += a[k + j] * a[k + j];
  for (j = 0u; j < TILE; j++) sum += part[j];
  sum = 1.0f / (1.0f + sum / (float)CHUNK_FLOATS);
  for (k = 0u; k < CHUNK_FLOATS; k++) a[k] = a[k] * sum + 1e-3f;
}

static void copy(lane *l) {
  float *a = next(l, 2u * CHUNK_FLOATS);
  memcpy(a + CHUNK_FLOATS, a, CHUNK_FLOATS * sizeof *a);
}

static void (*const classes[])(lane *) = {gemm, gemm_stream, add, norm, copy};

/* A new thread on a core that only waited: its clock, its caches and what it knows of addresses come first, outside of
 * what is measured; else the beginning would count as a part of the first ops, and the more, the shorter the run. */
static void warm(uint32_t core) {
  uint32_t k;
  const uint64_t until = clock_of(CLOCK_MONOTONIC) + WARM_NS;
  for (k = 0u; clock_of(CLOCK_MONOTONIC) < until; k++) classes[k % (sizeof classes / sizeof classes[0])](&lanes[core]);
}

static int enter(void *context, uint32_t worker, uint32_t kind) {
  (void)context;
  (void)kind;
  pin(core_at[worker]);
  warm(core_at[worker]);
  begun[worker].pace_ns = pace(core_at[worker]);
  look(&begun[worker]); /* who loses its core at the barrier begins late, and that counts */
  if (atomic_fetch_add(&entered, 1u) + 1u == expected) started_ns = clock_of(CLOCK_MONOTONIC);
  while (atomic_load_explicit(&entered, memory_order_acquire) < expected) relax(NULL, 0u);
  return 0;
}

static int kernel(const hexloom_call *call) {
  const uint32_t *pair = (const uint32_t *)call->user + 2u * call->task_index;
  uint32_t k;
  for (k = 0u; k < pair[1]; k++) classes[pair[0]](&lanes[core_at[call->queue]]);
  return 0;
}

/* --- where the cores are ----------------------------------------------------------------------------------- */

static _Atomic uint32_t ball;

static void *return_balls(void *argument) {
  uint32_t k;
  (void)argument;
  for (k = 0u; k < PROBES * PASSES; k++) {
    while (atomic_load_explicit(&ball, memory_order_acquire) != 2u * k + 1u) continue;
    atomic_store_explicit(&ball, 2u * k + 2u, memory_order_release);
  }
  return NULL;
}

/* Return picoseconds of a hand-over between the first two cores: the least of a few rounds. Nobody pauses here: on some
 * processors a pause takes longer than a hand-over. */
static uint64_t probe(void) {
  uint64_t best = UINT64_MAX;
  pthread_t other;
  uint32_t p, k, turn = 0u;
  if (cores < 2u) return 0u;
  atomic_store(&ball, 0u);
  pin(0u);
  if (begin_thread(&other, 1u, return_balls, NULL) != 0) return 0u;
  for (p = 0u; p < PROBES; p++) {
    const uint64_t from = clock_of(CLOCK_MONOTONIC);
    uint64_t took;
    for (k = 0u; k < PASSES; k++, turn += 2u) {
      atomic_store_explicit(&ball, turn + 1u, memory_order_release);
      while (atomic_load_explicit(&ball, memory_order_acquire) != turn + 2u) continue;
    }
    took = (clock_of(CLOCK_MONOTONIC) - from) * 1000u / (2u * PASSES);
    if (p > 0u && took < best) best = took; /* the first one waits for the thread */
  }
  (void)pthread_join(other, NULL);
  return best;
}

/* --- jobs -------------------------------------------------------------------------------------------------- */

static void *aligned(size_t bytes) { return aligned_alloc(4096u, (bytes / 4096u + 1u) * 4096u); }

static void *read_file(const char *name, size_t *length) {
  FILE *file = fopen(name, "rb");
  void *bytes = NULL;
  long size;
  if (file == NULL) return NULL;
  if (fseek(file, 0L, SEEK_END) == 0 && (size = ftell(file)) > 0 && fseek(file, 0L, SEEK_SET) == 0) {
    bytes = aligned((size_t)size);
    if (bytes != NULL && fread(bytes, 1u, (size_t)size, file) != (size_t)size) bytes = NULL;
    *length = (size_t)size;
  }
  (void)fclose(file);
  return bytes;
}

typedef struct job {
  hexloom_view view;
  hexloom_kernel *kernels;
  hexloom_memory *memories;
  hexloom_setup setup;
  hexloom_run *run;
} job;

static int open_job(job *j, const char *name, const hexloom_port *port) {
  char path[4096];
  size_t length = 0u, words = 0u, bytes;
  hexloom_status status;
  uint32_t k, stages = 1u;
  void *tables = read_file(name, &length), *work, *room;
  (void)snprintf(path, sizeof path, "%s.work", name);
  work = read_file(path, &words);
  if (tables == NULL || work == NULL || hexloom_open(tables, length, &j->view) != NULL) return 0;
  if (words < 8u * (size_t)j->view.header->task_count || j->view.header->queue_count > MOST_QUEUES) return 0;
  for (k = 0u; k < j->view.header->task_count; k++)
    if (j->view.tasks[k].stage >= stages) stages = j->view.tasks[k].stage + 1u;
  j->kernels = (hexloom_kernel *)calloc(stages, sizeof *j->kernels);
  j->memories = (hexloom_memory *)calloc(j->view.header->binding_count + 1u, sizeof *j->memories);
  if (j->kernels == NULL || j->memories == NULL) return 0;
  for (k = 0u; k < stages; k++) {
    j->kernels[k].function = kernel;
    j->kernels[k].user = work;
  }
  for (k = 0u; k < j->view.header->binding_count; k++) {
    j->memories[k].bytes = j->view.bindings[k].bytes;
    j->memories[k].base = aligned_alloc(65536u, ((size_t)j->memories[k].bytes / 65536u + 1u) * 65536u);
    if (j->memories[k].base == NULL) return 0;
  }
  memset(&j->setup, 0, sizeof j->setup);
  j->setup.view = j->view;
  j->setup.port = port;
  j->setup.memories = j->memories;
  j->setup.memory_count = j->view.header->binding_count;
  j->setup.kernels = j->kernels;
  j->setup.kernel_count = stages;
  j->setup.timeout_ns = UINT64_C(30000000000);
  j->setup.spins = UINT32_MAX;
  j->setup.trace_records = 4u * j->view.header->entry_count + 16u;
  j->setup.main_queue = 0u;
  bytes = hexloom_run_bytes(&j->setup);
  room = aligned(bytes);
  j->run = room == NULL ? NULL : hexloom_bind(&j->setup, room, bytes, &status);
  if (j->run == NULL) (void)fprintf(stderr, "loop: %s: %s\n", name, status.problem == NULL ? "?" : status.problem);
  return j->run != NULL;
}

static int execute(job *j) {
  const uint32_t queues = j->view.header->queue_count;
  uint64_t before, after;
  uint32_t q, k;
  hexloom_trace_clear(j->run);
  for (q = 0u; q < queues; q++) core_at[q] = j->view.queues[q].kind == HEXLOOM_HMX ? 0u : 1u % cores;
  before = probe();
  expected = queues;
  atomic_store(&entered, 0u);
  if (hexloom_execute(j->run) != HEXLOOM_OK) return 0;
  after = probe();
  (void)printf("run %llu %llu %llu", (unsigned long long)started_ns, (unsigned long long)before,
               (unsigned long long)after);
  for (q = 0u; q < queues; q++)
    (void)printf(" %u %ld %llu %llu %llu", (unsigned)core_at[q], left[q].preempted - begun[q].preempted,
                 (unsigned long long)(left[q].wall_ns - begun[q].wall_ns),
                 (unsigned long long)(left[q].cpu_ns - begun[q].cpu_ns),
                 (unsigned long long)(begun[q].pace_ns + left[q].pace_ns) / 2u);
  (void)printf("\n");
  for (q = 0u; q < queues; q++) {
    const hexloom_trace trace = hexloom_trace_of(j->run, q);
    for (k = 0u; k < trace.count; k++)
      (void)printf("%u %u %u %u %llu %llu\n", (unsigned)q, (unsigned)trace.records[k].task,
                   (unsigned)trace.records[k].slice, (unsigned)trace.records[k].phase,
                   (unsigned long long)trace.records[k].start_ns, (unsigned long long)trace.records[k].end_ns);
  }
  return 1;
}

int main(int argc, char **argv) {
  hexloom_posix_options options;
  hexloom_port port;
  job *jobs = (job *)calloc((size_t)argc, sizeof *jobs);
  unsigned which, times;
  cpu_set_t set;
  int k;
  size_t n;
  if (jobs == NULL || sched_getaffinity(0, sizeof set, &set) != 0) return 2;
  cores = (uint32_t)CPU_COUNT(&set);
  for (n = 0u; n < MOST_QUEUES; n++) {
    size_t i;
    lanes[n].arena = (float *)aligned(ARENA_FLOATS * sizeof(float));
    if (lanes[n].arena == NULL) return 2;
    if (n >= cores) break;
    for (i = 0u; i < ARENA_FLOATS; i++) lanes[n].arena[i] = (float)(i % 251u) * 1e-3f;
    for (i = 0u; i < TILE * TILE; i++) lanes[n].tile[0][i] = lanes[n].tile[1][i] = (float)(i % 7u) * 1e-3f;
  }
  memset(&options, 0, sizeof options);
  options.workers = MOST_QUEUES;
  if (hexloom_posix_open(&port, &options) != 0) return 2;
  port.relax = relax;
  port.start = start;
  port.join = join;
  port.enter = enter;
  port.leave = leave;
  (void)setpriority(PRIO_PROCESS, 0, -15); /* where that is allowed */
  for (k = 1; k < argc; k++)
    if (!open_job(&jobs[k - 1], argv[k], &port)) {
      (void)fprintf(stderr, "loop: %s cannot be opened\n", argv[k]);
      return 3;
    }
  while (scanf("%u %u", &which, &times) == 2) {
    if (which + 1u >= (unsigned)argc) return 4;
    while (times-- > 0u)
      if (!execute(&jobs[which])) return 5;
    (void)printf("end\n");
    (void)fflush(stdout);
  }
  return 0;
}
