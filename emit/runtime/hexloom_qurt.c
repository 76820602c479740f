/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the calls come from: threads and futexes from ggml-org/ggml d99724f2, src/ggml-hexagon/htp/work-queue.c and
 * hmx-queue.c; compute resources from the same main.c and haozixu/htp-ops-lib 426d1da, src/dsp/hmx_mgr.c; how DMA is
 * driven from qualcomm/hexagon-mlir 7a39f69, UserDMA; its descriptors are those of hexloom_udma.h. DMA is issued and
 * polled by the thread that owns the ring.
 */
#include "hexloom_qurt.h"

#include <stdatomic.h>

#include <HAP_compute_res.h>
#include <HAP_perf.h>
#include <qurt.h>

#include "hexloom_tables.h"
#include "hexloom_udma.h"

#define LINE 128
#define ALL_SLEEPERS 64
#define SLEEPERS (64u)
#define WATCH_US (2000u)   /* how often sleepers look at their deadline */
#define ACQUIRE_US (1000000u)
#if defined(__HVX_ARCH__) && __HVX_ARCH__ >= 75
#define IS_WIDE 1
#else
#define IS_WIDE 0
#endif

typedef struct descriptor {
  volatile uint32_t words[HEXLOOM_UDMA_WORDS];
} descriptor;

typedef struct ring {
  descriptor slots[HEXLOOM_QURT_RING] __attribute__((aligned(LINE)));
  descriptor *tail; /* the last one issued; NULL: none was */
  uint32_t next;    /* ticket */
  uint32_t oldest;  /* ticket that may not be done yet */
} ring;

static struct {
  hexloom_qurt_options options;
  qurt_thread_t threads[HEXLOOM_QURT_WORKERS + 1u];
  ring rings[HEXLOOM_QURT_WORKERS];
  _Atomic uintptr_t sleeping[SLEEPERS]; /* words that threads sleep on */
  _Atomic uint32_t closing;
  struct {
    void (*body)(void *argument);
    void *argument;
  } jobs[HEXLOOM_QURT_WORKERS];
} here;

/* --- clock and sleep --------------------------------------------------------------------------------------- */

static uint64_t now_ns(void *context) {
  (void)context;
  return HAP_perf_get_qtimer_count() * 625u / 12u; /* ticks of 19.2 MHz */
}

static void relax(void *context, uint32_t round) {
  (void)context;
  (void)round;
  __asm__ volatile("pause(#255)");
}

/* A futex of QuRT has no deadline: the watchdog wakes all sleepers now and then, and they look at the clock. */
static void sleep_on(void *context, uint32_t *word, uint32_t seen, uint64_t most_ns) {
  uint32_t k;
  (void)context;
  (void)most_ns;
  for (k = 0u; k < SLEEPERS; k++) {
    uintptr_t none = 0u;
    if (!atomic_compare_exchange_strong(&here.sleeping[k], &none, (uintptr_t)word)) continue;
    (void)qurt_futex_wait(word, (int)seen);
    atomic_store(&here.sleeping[k], 0u);
    return;
  }
  qurt_timer_sleep(WATCH_US);
}

static void wake(void *context, uint32_t *word) {
  (void)context;
  (void)qurt_futex_wake(word, ALL_SLEEPERS);
}

static void watch(void *argument) {
  uint32_t k;
  (void)argument;
  while (atomic_load(&here.closing) == 0u) {
    qurt_timer_sleep(WATCH_US);
    for (k = 0u; k < SLEEPERS; k++) {
      const uintptr_t word = atomic_load(&here.sleeping[k]);
      if (word != 0u) (void)qurt_futex_wake((void *)word, ALL_SLEEPERS);
    }
  }
  qurt_thread_exit(0);
}

/* --- threads ----------------------------------------------------------------------------------------------- */

static void run_job(void *argument) {
  const uintptr_t worker = (uintptr_t)argument;
  here.jobs[worker].body(here.jobs[worker].argument);
  qurt_thread_exit(0);
}

static int create(uint32_t place, void (*entry)(void *), void *argument) {
  qurt_thread_attr_t attributes;
  char name[] = "hexloom ?";
  name[8] = (char)('a' + place);
  qurt_thread_attr_init(&attributes);
  qurt_thread_attr_set_name(&attributes, name);
  qurt_thread_attr_set_stack_addr(&attributes, (unsigned char *)here.options.stacks + place * here.options.stack_bytes);
  qurt_thread_attr_set_stack_size(&attributes, (unsigned int)here.options.stack_bytes);
  qurt_thread_attr_set_priority(&attributes, here.options.priority);
  return qurt_thread_create(&here.threads[place], &attributes, entry, argument);
}

static int start(void *context, uint32_t worker, void (*body)(void *argument), void *argument) {
  (void)context;
  if (worker >= here.options.workers) return -1;
  here.jobs[worker].body = body;
  here.jobs[worker].argument = argument;
  return create(worker, run_job, (void *)(uintptr_t)worker);
}

static void join(void *context, uint32_t worker) {
  int status;
  (void)context;
  (void)qurt_thread_join(here.threads[worker], &status);
}

static int enter(void *context, uint32_t worker, uint32_t kind) {
  (void)context;
  (void)worker;
  if (kind == HEXLOOM_HVX && here.options.lock_hvx) return qurt_hvx_lock(QURT_HVX_MODE_128B);
  if (kind != HEXLOOM_HMX) return 0;
  return here.options.compute_res == 0u ? -1 : HAP_compute_res_hmx_lock(here.options.compute_res);
}

static void leave(void *context, uint32_t worker, uint32_t kind) {
  (void)context;
  (void)worker;
  if (kind == HEXLOOM_HVX && here.options.lock_hvx) (void)qurt_hvx_unlock();
  if (kind == HEXLOOM_HMX) (void)HAP_compute_res_hmx_unlock(here.options.compute_res);
}

/* --- user DMA ---------------------------------------------------------------------------------------------- */

static int is_done(const descriptor *d) { return (d->words[HEXLOOM_UDMA_STATE] & HEXLOOM_UDMA_DONE) != 0u; }

static int dma_push(void *context, uint32_t worker, const hexloom_transfer *transfer, uint32_t *ticket) {
  ring *r = &here.rings[worker];
  descriptor *d = &r->slots[r->next % HEXLOOM_QURT_RING];
  uint32_t words[HEXLOOM_UDMA_WORDS], k;
  (void)context;
  if (r->tail != NULL && !is_done(d)) {
    uint32_t polled;
    if (r->next - r->oldest >= HEXLOOM_QURT_RING) {
      __asm__ volatile("%0 = dmpoll" : "=r"(polled));
      return HEXLOOM_RING_FULL;
    }
  }
  if (!hexloom_udma_fill(words, transfer, IS_WIDE, !here.options.through_l2))
    return -2; /* longer than its fields: the kernel has to push it in parts */
  for (k = 0u; k < HEXLOOM_UDMA_WORDS; k++) d->words[k] = words[k];
  atomic_thread_fence(memory_order_seq_cst);
  if (r->tail == NULL)
    __asm__ volatile("dmstart(%0)" : : "r"(d) : "memory");
  else
    __asm__ volatile("dmlink(%0, %1)" : : "r"(r->tail), "r"(d) : "memory");
  r->tail = d;
  *ticket = r->next++;
  return 0;
}

static int dma_done(void *context, uint32_t worker, uint32_t ticket) {
  ring *r = &here.rings[worker];
  uint32_t polled;
  (void)context;
  __asm__ volatile("%0 = dmpoll" : "=r"(polled) : : "memory"); /* lets the engine go on, and shows its errors */
  if ((polled & 3u) == 2u) return -3;
  if (r->next - ticket > HEXLOOM_QURT_RING) return 1;
  if (!is_done(&r->slots[ticket % HEXLOOM_QURT_RING])) return 0;
  while (r->oldest != r->next && is_done(&r->slots[r->oldest % HEXLOOM_QURT_RING])) r->oldest++;
  return 1;
}

static int dma_drain(void *context, uint32_t worker, uint64_t most_ns) {
  ring *r = &here.rings[worker];
  const uint64_t limit = now_ns(NULL) + most_ns;
  uint32_t k;
  (void)context;
  for (k = r->oldest; k != r->next; k++)
    while (!is_done(&r->slots[k % HEXLOOM_QURT_RING])) {
      uint32_t polled;
      __asm__ volatile("%0 = dmpoll" : "=r"(polled) : : "memory");
      if ((polled & 3u) == 2u || now_ns(NULL) >= limit) {
        __asm__ volatile("%0 = dmpause" : "=r"(polled) : : "memory"); /* nothing moves after it */
        r->tail = NULL;
        r->oldest = r->next;
        return 0;
      }
    }
  r->oldest = r->next;
  return 0;
}

static int maintain(void *context, uint32_t kind, void *start, uint64_t bytes) {
  (void)context;
  return kind == HEXLOOM_CLEAN ? hexloom_qurt_clean(start, (size_t)bytes)
                               : hexloom_qurt_invalidate(start, (size_t)bytes);
}

/* --- opening and closing ----------------------------------------------------------------------------------- */

int hexloom_qurt_open(hexloom_port *port, const hexloom_qurt_options *options) {
  uint32_t k;
  if (options->workers > HEXLOOM_QURT_WORKERS) return -1;
  here.options = *options;
  for (k = 0u; k < HEXLOOM_QURT_WORKERS; k++) {
    here.rings[k].tail = NULL;
    here.rings[k].next = here.rings[k].oldest = 0u;
  }
  for (k = 0u; k < SLEEPERS; k++) atomic_store(&here.sleeping[k], 0u);
  atomic_store(&here.closing, 0u);
  port->context = NULL;
  port->now_ns = now_ns;
  port->relax = relax;
  port->sleep = sleep_on;
  port->wake = wake;
  port->start = start;
  port->join = join;
  port->enter = enter;
  port->leave = leave;
  port->dma_push = dma_push;
  port->dma_done = dma_done;
  port->dma_drain = dma_drain;
  port->maintain = maintain;
  return create(options->workers, watch, NULL);
}

void hexloom_qurt_close(hexloom_port *port) {
  int status;
  (void)port;
  atomic_store(&here.closing, 1u);
  (void)qurt_thread_join(here.threads[here.options.workers], &status);
}

uint32_t hexloom_qurt_vtcm(uint32_t bytes, int with_hmx, void **base) {
  compute_res_attr_t attributes;
  unsigned int got = 0u, id;
  HAP_compute_res_attr_init(&attributes);
  (void)HAP_compute_res_attr_set_serialize(&attributes, 0);
  (void)HAP_compute_res_attr_set_vtcm_param_v2(&attributes, bytes, bytes, bytes);
  if (with_hmx) (void)HAP_compute_res_attr_set_hmx_param(&attributes, 1);
  id = HAP_compute_res_acquire(&attributes, ACQUIRE_US);
  if (id == 0u) return 0u;
  if (HAP_compute_res_attr_get_vtcm_ptr_v2(&attributes, base, &got) == 0 && got >= bytes) return id;
  (void)HAP_compute_res_release(id);
  return 0u;
}

void hexloom_qurt_release(uint32_t compute_res) { (void)HAP_compute_res_release(compute_res); }

int hexloom_qurt_clean(void *start, size_t bytes) {
  return qurt_mem_cache_clean((qurt_addr_t)(uintptr_t)start, (qurt_size_t)bytes, QURT_MEM_CACHE_FLUSH, QURT_MEM_DCACHE);
}

int hexloom_qurt_invalidate(void *start, size_t bytes) {
  return qurt_mem_cache_clean((qurt_addr_t)(uintptr_t)start, (qurt_size_t)bytes, QURT_MEM_CACHE_FLUSH_INVALIDATE,
                              QURT_MEM_DCACHE);
}
