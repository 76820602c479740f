/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__linux__)
#define _GNU_SOURCE 1
#else
#define _POSIX_C_SOURCE 200809L
#endif

#include "hexloom_late.h"

#if defined(HEXLOOM_BARE)

struct hexloom_late {
  void (*work)(void *user, const hexloom_call *call);
  void *user;
};

hexloom_late *hexloom_late_open(void (*work)(void *user, const hexloom_call *call), void *user) {
  static hexloom_late late;
  late.work = work;
  late.user = user;
  return &late;
}

void hexloom_late_close(hexloom_late *late) { (void)late; }

int hexloom_late_send(hexloom_late *late, const hexloom_call *call, uint64_t rest_ns) {
  (void)rest_ns;
  late->work(late->user, call);
  hexloom_finish(call->run, call->task_index);
  return 0;
}

void hexloom_rest(uint64_t ns) { (void)ns; }

#else

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* A slice of a late task on its way: its kernel has returned, its result does not exist yet. */
typedef struct errand {
  hexloom_call call;
  uint64_t rest_ns;
  struct errand *next;
} errand;

struct hexloom_late {
  void (*work)(void *user, const hexloom_call *call);
  void *user;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  int closing;
  errand *waiting;
  errand **last;
};

void hexloom_rest(uint64_t ns) {
  struct timespec span;
  if (ns == 0u) return;
  span.tv_sec = (time_t)(ns / 1000000000u);
  span.tv_nsec = (long)(ns % 1000000000u);
  (void)nanosleep(&span, NULL);
}

int hexloom_late_send(hexloom_late *late, const hexloom_call *call, uint64_t rest_ns) {
  errand *mine = (errand *)malloc(sizeof *mine);
  if (mine == NULL) return 1;
  mine->call = *call;
  mine->rest_ns = rest_ns;
  mine->next = NULL;
  (void)pthread_mutex_lock(&late->lock);
  *late->last = mine;
  late->last = &mine->next;
  (void)pthread_cond_signal(&late->changed);
  (void)pthread_mutex_unlock(&late->lock);
  return 0;
}

/* Does errands, one after the other. */
static void *carry(void *argument) {
  hexloom_late *late = (hexloom_late *)argument;
  (void)pthread_mutex_lock(&late->lock);
  while (!late->closing) {
    errand *mine = late->waiting;
    if (mine == NULL) {
      (void)pthread_cond_wait(&late->changed, &late->lock);
      continue;
    }
    late->waiting = mine->next;
    if (late->waiting == NULL) late->last = &late->waiting;
    (void)pthread_mutex_unlock(&late->lock);
    hexloom_rest(mine->rest_ns);
    late->work(late->user, &mine->call);
    hexloom_finish(mine->call.run, mine->call.task_index);
    free(mine);
    (void)pthread_mutex_lock(&late->lock);
  }
  (void)pthread_mutex_unlock(&late->lock);
  return NULL;
}

hexloom_late *hexloom_late_open(void (*work)(void *user, const hexloom_call *call), void *user) {
  hexloom_late *late = (hexloom_late *)calloc(1u, sizeof *late);
  if (late == NULL) return NULL;
  late->work = work;
  late->user = user;
  late->last = &late->waiting;
  (void)pthread_mutex_init(&late->lock, NULL);
  (void)pthread_cond_init(&late->changed, NULL);
  if (pthread_create(&late->thread, NULL, carry, late) == 0) return late;
  (void)pthread_cond_destroy(&late->changed);
  (void)pthread_mutex_destroy(&late->lock);
  free(late);
  return NULL;
}

void hexloom_late_close(hexloom_late *late) {
  (void)pthread_mutex_lock(&late->lock);
  late->closing = 1;
  (void)pthread_cond_signal(&late->changed);
  (void)pthread_mutex_unlock(&late->lock);
  (void)pthread_join(late->thread, NULL);
  while (late->waiting != NULL) {
    errand *next = late->waiting->next;
    free(late->waiting);
    late->waiting = next;
  }
  (void)pthread_cond_destroy(&late->changed);
  (void)pthread_mutex_destroy(&late->lock);
  free(late);
}

#endif
