/* The queue to the host, of which htp-ctx.h of ggml-org/ggml d99724f2 names the type. */
#ifndef DSPQUEUE_H
#define DSPQUEUE_H

typedef struct dspqueue *dspqueue_t;

#endif
