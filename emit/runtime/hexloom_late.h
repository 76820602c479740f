/* SPDX-License-Identifier: Apache-2.0
 *
 * Late tasks of kernels that only try tables: a thread does their work after their kernels have returned. Where there
 * is no library (HEXLOOM_BARE) it is done at once, and nobody rests.
 */
#ifndef HEXLOOM_LATE_H
#define HEXLOOM_LATE_H

#include "hexloom_runtime.h"

typedef struct hexloom_late hexloom_late;

/* NULL when there is no memory or no thread. */
hexloom_late *hexloom_late_open(void (*work)(void *user, const hexloom_call *call), void *user);
void hexloom_late_close(hexloom_late *late); /* what has not begun is forgotten */

/* Do the work of a late task after a rest, then say that it is finished. 0, or 1 when there is no memory. */
int hexloom_late_send(hexloom_late *late, const hexloom_call *call, uint64_t rest_ns);

void hexloom_rest(uint64_t ns);

#endif /* HEXLOOM_LATE_H */
