// What the host hands to the kernel that joins partial results. Strides count elements.
#ifndef ATTN_SHARED_GPU_MERGE_PARAMS_H
#define ATTN_SHARED_GPU_MERGE_PARAMS_H

#include "gpu_element_type.h"
#include "shared_types.h"

typedef struct attn_gpu_merge_params {
    const float *o_part; // (parts, batch, s_q, heads_q, d_v), last stride 1
    int64_t o_part_stride_p;
    int64_t o_part_stride_b;
    int64_t o_part_stride_s;
    int64_t o_part_stride_h;
    const float *lse_part; // (parts, batch, heads_q, s_q)
    int64_t lse_part_stride_p;
    int64_t lse_part_stride_b;
    int64_t lse_part_stride_h;
    int64_t lse_part_stride_s;
    void *o; // (batch, s_q, heads_q, d_v)
    int64_t o_stride_b;
    int64_t o_stride_s;
    int64_t o_stride_h;
    int64_t o_stride_d;
    float *lse; // (batch, heads_q, s_q); NULL: not wanted
    int64_t lse_stride_b;
    int64_t lse_stride_h;
    int64_t lse_stride_s;
    int64_t parts;
    int64_t rows; // batch * s_q * heads_q
    int64_t s_q;
    int64_t heads_q;
    int64_t d_v;
    int32_t o_type;    // ATTN_GPU_*
    int32_t is_vector; // four dims of a row are one aligned access, in the parts and in o
} attn_gpu_merge_params_t;

#endif
