// attn_merge on a GPU. Core has checked everything but what the pointers point to.
#include "gpu_merge.h"

#include "../core/checked.h"
#include "../shared/gpu_merge_params.h"
#include "gpu_element_of.h"
#include "gpu_shared_kernel.h"

enum {
    MERGE_THREADS = 128,
    MERGE_WARP_DIMS = 128, // that a warp takes at a time
    VECTOR = 4             // floats of an aligned access
};

// Whether a row of every part and of o begins at an aligned vector, and its dims lie side by side.
static int32_t is_vector(const attn_merge_desc_t *desc, const float *o_part, const void *o)
{
    const int64_t strides[] = {desc->d_v,
                               desc->o_part_stride_p,
                               desc->o_part_stride_b,
                               desc->o_part_stride_s,
                               desc->o_part_stride_h,
                               desc->o.stride_b,
                               desc->o.stride_s,
                               desc->o.stride_h};
    const uintptr_t o_bytes = VECTOR * attn_dtype_bytes(desc->o.dtype);
    int32_t is_aligned = desc->o.stride_d == 1 && (uintptr_t)o_part % (VECTOR * 4) == 0 &&
                         (uintptr_t)o % o_bytes == 0;
    for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
        is_aligned = is_aligned && strides[i] % VECTOR == 0;
    }
    return is_aligned;
}

attn_status_t attn_gpu_merge(const attn_context_t *context, const attn_gpu_t *gpu,
                             const attn_merge_desc_t *desc, const float *o_part,
                             const float *lse_part, void *o, float *lse, void *stream)
{
    const attn_gpu_merge_params_t params = {
        .o_part = o_part,
        .o_part_stride_p = desc->o_part_stride_p,
        .o_part_stride_b = desc->o_part_stride_b,
        .o_part_stride_s = desc->o_part_stride_s,
        .o_part_stride_h = desc->o_part_stride_h,
        .lse_part = lse_part,
        .lse_part_stride_p = desc->lse_part_stride_p,
        .lse_part_stride_b = desc->lse_part_stride_b,
        .lse_part_stride_h = desc->lse_part_stride_h,
        .lse_part_stride_s = desc->lse_part_stride_s,
        .o = o,
        .o_stride_b = desc->o.stride_b,
        .o_stride_s = desc->o.stride_s,
        .o_stride_h = desc->o.stride_h,
        .o_stride_d = desc->o.stride_d,
        .lse = lse,
        .lse_stride_b = desc->lse_stride_b,
        .lse_stride_h = desc->lse_stride_h,
        .lse_stride_s = desc->lse_stride_s,
        .parts = desc->parts,
        .rows = desc->batch * desc->s_q * desc->heads_q,
        .s_q = desc->s_q,
        .heads_q = desc->heads_q,
        .d_v = desc->d_v,
        .o_type = attn_gpu_element_of(desc->o.dtype),
        .is_vector = is_vector(desc, o_part, o),
    };
    const attn_gpu_grid_t grid = attn_gpu_warps_grid(
        gpu, params.rows * attn_ceil_div(desc->d_v, MERGE_WARP_DIMS), MERGE_THREADS);
    return attn_gpu_shared_launch(context, gpu, ATTN_GPU_MERGE, &grid, &params, stream);
}
