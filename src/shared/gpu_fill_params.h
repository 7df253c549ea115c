// What the host hands to the kernel that fills the results of a problem without keys. Strides count
// elements.
#ifndef ATTN_SHARED_GPU_FILL_PARAMS_H
#define ATTN_SHARED_GPU_FILL_PARAMS_H

#include "shared_types.h"

typedef struct attn_gpu_fill_params {
    void *o; // (batch, s_q, heads_q, d_v); packed: batch is 1
    int64_t o_stride_b;
    int64_t o_stride_s;
    int64_t o_stride_h;
    int64_t o_stride_d;
    float *lse; // (batch, heads_q, s_q); NULL: not wanted
    int64_t lse_stride_b;
    int64_t lse_stride_h;
    int64_t lse_stride_s;
    const float *sink; // (heads_q); NULL: none
    int64_t rows;      // batch * s_q * heads_q
    int64_t s_q;
    int64_t heads_q;
    int64_t d_v;
} attn_gpu_fill_params_t;

#endif
