// attn_append on a GPU. Core has checked the descriptor and that the pointers are there; lengths
// and tables are for the kernel to look at.
#include "gpu_append.h"

#include "../core/checked.h"
#include "../shared/gpu_append_params.h"
#include "gpu_element_of.h"
#include "gpu_shared_kernel.h"

enum {
    APPEND_THREADS = 128,
    VECTOR_BYTES = 16 // of an aligned access
};

// One side of an operand.
typedef struct side {
    const void *data;
    const attn_tensor_t *tensor;
    int32_t is_packed;
} side_t;

static attn_gpu_strides_t strides_of(const side_t *side)
{
    return (attn_gpu_strides_t){.b = side->is_packed ? 0 : side->tensor->stride_b,
                                .s = side->tensor->stride_s,
                                .h = side->tensor->stride_h,
                                .d = side->tensor->stride_d};
}

// Whether every row, and what follows its rotated dims, begins at an aligned vector.
static int32_t has_vectors(const side_t *side, int64_t d, int64_t rotated_dims)
{
    const int64_t elements = VECTOR_BYTES / (int64_t)attn_dtype_bytes(side->tensor->dtype);
    const attn_gpu_strides_t strides = strides_of(side);
    return strides.d == 1 && (uintptr_t)side->data % VECTOR_BYTES == 0 &&
           strides.b % elements == 0 && strides.s % elements == 0 && strides.h % elements == 0 &&
           d % elements == 0 && rotated_dims % elements == 0;
}

static attn_gpu_append_operand_t operand_of(const side_t *from, const side_t *to, int64_t heads,
                                            int64_t d, int64_t rotated_dims)
{
    return (attn_gpu_append_operand_t){.from = from->data,
                                       .to = (void *)(uintptr_t)to->data,
                                       .from_strides = strides_of(from),
                                       .to_strides = strides_of(to),
                                       .heads = (int32_t)heads,
                                       .d = (int32_t)d,
                                       .rotated_dims = (int32_t)rotated_dims,
                                       .type = attn_gpu_element_of(from->tensor->dtype),
                                       .is_vector = has_vectors(from, d, rotated_dims) &&
                                                    has_vectors(to, d, rotated_dims)};
}

// Positions that a sequence's part of the cache has room for, and the rotation tables too.
static int64_t positions_of(const attn_append_desc_t *desc)
{
    int64_t positions = desc->capacity;
    if (desc->paged_kv && !attn_checked_mul(desc->page_size, desc->pages_per_seq, &positions)) {
        positions = INT64_MAX;
    }
    return desc->rotary == ATTN_ROTARY_NONE ? positions
                                            : attn_smaller(positions, desc->rotary_positions);
}

static void set_operands(const attn_append_desc_t *desc, const attn_append_args_t *args,
                         attn_gpu_append_params_t *params)
{
    const int32_t is_packed = desc->varlen_new;
    const int64_t rotated = desc->rotary == ATTN_ROTARY_NONE ? 0 : desc->rotary_dim;
    const side_t k_new = {args->k_new, &desc->k_new, is_packed};
    const side_t v_new = {args->v_new, &desc->v_new, is_packed};
    const side_t q = {args->q, &desc->q, is_packed};
    const side_t k_cache = {args->k_cache, &desc->k_cache, 0};
    const side_t v_cache = {args->v_cache, &desc->v_cache, 0};
    const side_t q_out = {args->q_out, &desc->q_out, is_packed};
    params->operands[0] = operand_of(&k_new, &k_cache, desc->heads_kv, desc->d_qk, rotated);
    params->operands[1] = operand_of(&v_new, &v_cache, desc->heads_kv, desc->d_v, 0);
    params->operands[2] = operand_of(&q, &q_out, desc->heads_q, desc->d_qk, rotated);
    params->operands[0].is_cached = params->operands[1].is_cached = 1;
}

attn_status_t attn_gpu_append(const attn_context_t *context, const attn_gpu_t *gpu,
                              const attn_append_desc_t *desc, const attn_append_args_t *args,
                              void *stream)
{
    attn_gpu_append_params_t params = {
        .cache_seqlens = args->cache_seqlens,
        .cu_seqlens_new = desc->varlen_new ? args->cu_seqlens_new : NULL,
        .cache_batch_idx = desc->has_cache_batch_idx ? args->cache_batch_idx : NULL,
        .page_table = desc->paged_kv ? args->page_table : NULL,
        .rotary_cos = args->rotary_cos,
        .rotary_sin = args->rotary_sin,
        .page_table_stride_b = desc->page_table_stride_b,
        .page_size = desc->page_size,
        .entries = desc->paged_kv ? desc->num_pages : desc->cache_batch,
        .positions = positions_of(desc),
        .tokens = desc->varlen_new ? desc->total_new : desc->batch * desc->s_new,
        .s_new = desc->s_new,
        .batch = desc->batch,
        .is_interleaved = desc->rotary == ATTN_ROTARY_INTERLEAVED,
    };
    if (desc->batch == 0 || params.positions == 0) {
        return ATTN_OK; // no token has a place
    }
    set_operands(desc, args, &params);
    const attn_gpu_grid_t grid = attn_gpu_warps_grid(
        gpu, params.tokens * (2 * desc->heads_kv + desc->heads_q), APPEND_THREADS);
    return attn_gpu_shared_launch(context, gpu, ATTN_GPU_APPEND, &grid, &params, stream);
}
