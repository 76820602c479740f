/* SPDX-License-Identifier: Apache-2.0 */
#include "hexloom_hexraw.h"

#include <stdatomic.h>

/* numbers of system calls: the generic table of Linux, which Hexagon uses */
#define SYS_OPENAT 56
#define SYS_CLOSE 57
#define SYS_WRITE 64
#define SYS_EXIT_GROUP 94
#define SYS_FUTEX 98
#define SYS_NANOSLEEP 101
#define SYS_SCHED_YIELD 124
#define SYS_MMAP 222
#define SYS_CLOCK_GETTIME64 403

#define CURRENT_FOLDER (-100)
#define WRITE_CREATE (00101)
#define TRUNCATE (01000)
#define APPEND (02000)
#define READ_WRITE 3
#define PRIVATE_ANONYMOUS 0x22
#define FUTEX_WAIT 0
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129
#define CLOCK_MONOTONIC 1
#define NO_MEMORY 12

/* share memory, files, signals and the thread group; say the thread's number, and clear it when it ends */
#define CLONE_FLAGS (0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | 0x100000 | 0x200000)

#define RING (256u)
#define YIELDS (64u)
#define NS_PER_S UINT64_C(1000000000)

extern int hexraw_clone(int flags, void *stack_top, int *parent_tid, int *child_tid, void (*body)(void *),
                        void *argument);
int hexraw_main(void);

/* The child has the registers of the parent but for the result and the stack. */
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".globl hexraw_clone\n"
    "hexraw_clone:\n"
    "  r6 = #220\n"
    "  trap0(#1)\n"
    "  p0 = cmp.eq(r0,#0)\n"
    "  if (!p0) jumpr r31\n"
    "  r0 = r5\n"
    "  callr r4\n"
    "  r0 = #0\n"
    "  r6 = #93\n"
    "  trap0(#1)\n"
    ".p2align 4\n"
    ".globl _start\n"
    "_start:\n"
    "  r29 = and(r29,#-16)\n"
    "  call hexraw_main\n"
    "  r6 = #94\n"
    "  trap0(#1)\n");

static int32_t call6(int32_t number, int32_t a, int32_t b, int32_t c, int32_t d, int32_t e, int32_t f) {
  register int32_t r0 __asm__("r0") = a;
  register int32_t r1 __asm__("r1") = b;
  register int32_t r2 __asm__("r2") = c;
  register int32_t r3 __asm__("r3") = d;
  register int32_t r4 __asm__("r4") = e;
  register int32_t r5 __asm__("r5") = f;
  register int32_t r6 __asm__("r6") = number;
  __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6) : "memory");
  return r0;
}

static int32_t word_of(const void *pointer) { return (int32_t)(uintptr_t)pointer; }

/* --- what compilers call ----------------------------------------------------------------------------------- */

void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
void *__hexagon_memcpy_likely_aligned_min32bytes_mult8bytes(void *to, const void *from, size_t bytes);
uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b);
uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b);
uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b);
uint64_t __hexagon_umoddi3(uint64_t a, uint64_t b);

/* volatile, or the loop would be recognised as what it implements */
void *memcpy(void *to, const void *from, size_t bytes) {
  volatile unsigned char *t = (volatile unsigned char *)to;
  const unsigned char *f = (const unsigned char *)from;
  size_t k;
  for (k = 0u; k < bytes; k++) t[k] = f[k];
  return to;
}

void *__hexagon_memcpy_likely_aligned_min32bytes_mult8bytes(void *to, const void *from, size_t bytes) {
  return memcpy(to, from, bytes);
}

void *memset(void *to, int value, size_t bytes) {
  volatile unsigned char *t = (volatile unsigned char *)to;
  size_t k;
  for (k = 0u; k < bytes; k++) t[k] = (unsigned char)value;
  return to;
}

/* Bit by bit; a division by zero gives all ones. */
static uint64_t divide(uint64_t a, uint64_t b, uint64_t *rest) {
  uint64_t quotient = 0u, r = 0u;
  int bit;
  for (bit = 63; bit >= 0; bit--) {
    r = r << 1 | ((a >> bit) & 1u);
    quotient <<= 1;
    if (r >= b) {
      r -= b;
      quotient |= 1u;
    }
  }
  *rest = r;
  return quotient;
}

uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b) {
  uint64_t rest;
  return divide(a, b, &rest);
}

uint64_t __hexagon_umoddi3(uint64_t a, uint64_t b) {
  uint64_t rest;
  (void)divide(a, b, &rest);
  return rest;
}

uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b) { return (uint32_t)__hexagon_udivdi3(a, b); }
uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b) { return (uint32_t)__hexagon_umoddi3(a, b); }

/* --- the system -------------------------------------------------------------------------------------------- */

void *hexloom_hexraw_memory(size_t bytes) {
  const int32_t at = call6(SYS_MMAP, 0, (int32_t)(bytes + 1u), READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
  return at < 0 && at > -4096 ? NULL : (void *)(uintptr_t)at;
}

static void write_all(int32_t file, const void *bytes, size_t count) {
  const unsigned char *at = (const unsigned char *)bytes;
  while (count > 0u) {
    const int32_t written = call6(SYS_WRITE, file, word_of(at), (int32_t)count, 0, 0, 0);
    if (written <= 0) return;
    at += written;
    count -= (size_t)written;
  }
}

void hexloom_hexraw_print(const char *text) {
  size_t length = 0u;
  while (text[length] != '\0') length++;
  write_all(1, text, length);
}

void hexloom_hexraw_print_number(uint64_t number) {
  char digits[21];
  uint32_t at = sizeof digits - 1u;
  digits[at] = '\0';
  do {
    digits[--at] = (char)('0' + number % 10u);
    number /= 10u;
  } while (number > 0u);
  hexloom_hexraw_print(digits + at);
}

int hexloom_hexraw_write_file(const char *name, const void *bytes, size_t count, int append) {
  const int32_t flags = WRITE_CREATE | (append ? APPEND : TRUNCATE);
  const int32_t file = call6(SYS_OPENAT, CURRENT_FOLDER, word_of(name), flags, 0644, 0, 0);
  if (file < 0) return -file;
  write_all(file, bytes, count);
  return -call6(SYS_CLOSE, file, 0, 0, 0, 0, 0);
}

/* --- the port ---------------------------------------------------------------------------------------------- */

typedef struct slot {
  hexloom_transfer transfer;
  uint32_t ticket;
  uint32_t pending;
} slot;

typedef struct thread {
  unsigned char *stack;
  _Atomic int tid; /* cleared by the system when the thread has ended */
  uint32_t next_ticket;
  uint32_t chance;
  slot ring[RING];
} thread;

static thread *threads[HEXLOOM_HEXRAW_WORKERS];
static size_t stack_size;

static uint64_t now_ns(void *context) {
  int64_t now[2] = {0, 0}; /* the call writes it, which nobody sees but the kernel */
  (void)context;
  (void)call6(SYS_CLOCK_GETTIME64, CLOCK_MONOTONIC, word_of(now), 0, 0, 0, 0);
  return (uint64_t)now[0] * NS_PER_S + (uint64_t)now[1];
}

static void relax(void *context, uint32_t round) {
  const int32_t rest[2] = {0, 50000};
  (void)context;
  if (round < YIELDS)
    (void)call6(SYS_SCHED_YIELD, 0, 0, 0, 0, 0, 0);
  else
    (void)call6(SYS_NANOSLEEP, word_of(rest), 0, 0, 0, 0, 0);
}

static void sleep_on(void *context, uint32_t *word, uint32_t seen, uint64_t most_ns) {
  int32_t most[2];
  (void)context;
  most[0] = (int32_t)(most_ns / NS_PER_S);
  most[1] = (int32_t)(most_ns % NS_PER_S);
  (void)call6(SYS_FUTEX, word_of(word), FUTEX_WAIT_PRIVATE, (int32_t)seen, word_of(most), 0, 0);
}

static void wake(void *context, uint32_t *word) {
  (void)context;
  (void)call6(SYS_FUTEX, word_of(word), FUTEX_WAKE_PRIVATE, 0x7FFFFFFF, 0, 0, 0);
}

static int start(void *context, uint32_t worker, void (*body)(void *argument), void *argument) {
  thread *t = threads[worker];
  int parent_tid = 0, tid;
  (void)context;
  atomic_store(&t->tid, -1); /* not zero before the thread has ended */
  tid = hexraw_clone(CLONE_FLAGS, t->stack + stack_size, &parent_tid, (int *)(void *)&t->tid, body, argument);
  return tid > 0 ? 0 : -tid;
}

static void join(void *context, uint32_t worker) {
  thread *t = threads[worker];
  int tid;
  (void)context;
  /* the system wakes without PRIVATE */
  while ((tid = atomic_load(&t->tid)) != 0) (void)call6(SYS_FUTEX, word_of(&t->tid), FUTEX_WAIT, tid, 0, 0, 0);
}

static uint32_t draw(thread *t) {
  t->chance ^= t->chance << 13;
  t->chance ^= t->chance >> 17;
  t->chance ^= t->chance << 5;
  return t->chance;
}

static void move(slot *s) {
  const hexloom_transfer *t = &s->transfer;
  uint32_t row;
  for (row = 0u; row < t->rows; row++)
    (void)memcpy((unsigned char *)t->to + (size_t)row * t->to_stride,
                 (const unsigned char *)t->from + (size_t)row * t->from_stride, t->row_bytes);
  s->pending = 0u;
}

/* Do one pending transfer, or none. */
static void progress(thread *t) {
  const uint32_t first = draw(t) % RING;
  uint32_t k;
  for (k = 0u; k < RING; k++) {
    slot *s = &t->ring[(first + k) % RING];
    if (!s->pending) continue;
    move(s);
    return;
  }
}

static int dma_push(void *context, uint32_t worker, const hexloom_transfer *transfer, uint32_t *ticket) {
  thread *t = threads[worker];
  slot *s = &t->ring[t->next_ticket % RING];
  (void)context;
  if (s->pending) {
    progress(t);
    return HEXLOOM_RING_FULL;
  }
  s->transfer = *transfer;
  s->pending = 1u;
  s->ticket = *ticket = t->next_ticket++;
  return 0;
}

static int dma_done(void *context, uint32_t worker, uint32_t ticket) {
  thread *t = threads[worker];
  const slot *s = &t->ring[ticket % RING];
  (void)context;
  if (s->ticket != ticket || !s->pending) return 1;
  if (draw(t) % 4u == 0u) progress(t);
  return 0;
}

/* Transfers of this port see what caches hold. */
static int maintain(void *context, uint32_t kind, void *start, uint64_t bytes) {
  (void)context, (void)kind, (void)start, (void)bytes;
  return 0;
}

static int dma_drain(void *context, uint32_t worker, uint64_t most_ns) {
  uint32_t k;
  (void)context;
  (void)most_ns;
  for (k = 0u; k < RING; k++) threads[worker]->ring[k].pending = 0u;
  return 0;
}

int hexloom_hexraw_open(hexloom_port *port, uint32_t workers, size_t stack_bytes, uint32_t seed) {
  uint32_t k;
  if (workers > HEXLOOM_HEXRAW_WORKERS) return NO_MEMORY;
  stack_size = stack_bytes / 16u * 16u;
  for (k = 0u; k < workers; k++) {
    threads[k] = (thread *)hexloom_hexraw_memory(sizeof(thread));
    if (threads[k] == NULL) return NO_MEMORY;
    threads[k]->stack = (unsigned char *)hexloom_hexraw_memory(stack_size);
    if (threads[k]->stack == NULL) return NO_MEMORY;
    threads[k]->chance = (seed + k) * 2654435761u | 1u;
  }
  port->context = NULL;
  port->now_ns = now_ns;
  port->relax = relax;
  port->sleep = sleep_on;
  port->wake = wake;
  port->start = start;
  port->join = join;
  port->enter = NULL;
  port->leave = NULL;
  port->dma_push = dma_push;
  port->dma_done = dma_done;
  port->dma_drain = dma_drain;
  port->maintain = maintain;
  return 0;
}
