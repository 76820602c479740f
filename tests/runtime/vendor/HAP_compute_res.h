/* What hexloom_qurt.c calls of the compute resource manager, as public code calls it (ggml-org/ggml d99724f2,
 * src/ggml-hexagon/htp/main.c and hmx-queue.c; haozixu/htp-ops-lib 426d1da): for compiling, not for linking. */
#ifndef HAP_COMPUTE_RES_H
#define HAP_COMPUTE_RES_H

typedef struct compute_res_attr {
  unsigned int words[32];
} compute_res_attr_t;

int HAP_compute_res_attr_init(compute_res_attr_t *attr);
int HAP_compute_res_attr_set_serialize(compute_res_attr_t *attr, unsigned char b_serialize);
int HAP_compute_res_attr_set_vtcm_param_v2(compute_res_attr_t *attr, unsigned int size, unsigned int min_page_size,
                                           unsigned int min_size);
int HAP_compute_res_attr_set_hmx_param(compute_res_attr_t *attr, unsigned char b_enable);
int HAP_compute_res_attr_get_vtcm_ptr_v2(compute_res_attr_t *attr, void **vtcm_ptr, unsigned int *vtcm_size);
unsigned int HAP_compute_res_acquire(compute_res_attr_t *attr, unsigned int timeout_us);
int HAP_compute_res_release(unsigned int context_id);
int HAP_compute_res_hmx_lock(unsigned int context_id);
int HAP_compute_res_hmx_unlock(unsigned int context_id);

#endif
