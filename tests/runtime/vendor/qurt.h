/* What hexloom_qurt.c calls of QuRT, as public code calls it (ggml-org/ggml d99724f2, src/ggml-hexagon/htp; Halide's
 * qurt runtime): for compiling without the vendor's SDK, not for linking. Values of constants are not the vendor's. */
#ifndef QURT_H
#define QURT_H

typedef unsigned int qurt_thread_t;
typedef unsigned int qurt_addr_t;
typedef unsigned int qurt_size_t;

typedef struct qurt_thread_attr {
  char name[16];
  unsigned int words[12];
} qurt_thread_attr_t;

typedef enum { QURT_MEM_CACHE_FLUSH, QURT_MEM_CACHE_INVALIDATE, QURT_MEM_CACHE_FLUSH_INVALIDATE } qurt_mem_cache_op_t;
typedef enum { QURT_MEM_ICACHE, QURT_MEM_DCACHE } qurt_mem_cache_type_t;
typedef enum { QURT_HVX_MODE_64B, QURT_HVX_MODE_128B } qurt_hvx_mode_t;

void qurt_thread_attr_init(qurt_thread_attr_t *attr);
void qurt_thread_attr_set_name(qurt_thread_attr_t *attr, char *name);
void qurt_thread_attr_set_stack_addr(qurt_thread_attr_t *attr, void *stack_addr);
void qurt_thread_attr_set_stack_size(qurt_thread_attr_t *attr, unsigned int stack_size);
void qurt_thread_attr_set_priority(qurt_thread_attr_t *attr, unsigned short priority);
int qurt_thread_create(qurt_thread_t *thread_id, qurt_thread_attr_t *attr, void (*entrypoint)(void *), void *arg);
int qurt_thread_join(unsigned int tid, int *status);
void qurt_thread_exit(int status);
int qurt_futex_wait(void *lock, int val);
int qurt_futex_wake(void *lock, int n_to_wake);
int qurt_timer_sleep(unsigned long long duration_us);
int qurt_hvx_lock(qurt_hvx_mode_t lock_mode);
int qurt_hvx_unlock(void);
int qurt_mem_cache_clean(qurt_addr_t addr, qurt_size_t size, qurt_mem_cache_op_t opcode, qurt_mem_cache_type_t type);

#endif
