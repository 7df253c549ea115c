// Problems as Hopper kernels take them: see sm90_problem.h.
#include "sm90_problem.h"

#include <stdio.h>

#include "../core/checked.h"
#include "../core/status.h"
#include "../shared/sm90_forward_layout.h"
#include "gpu_tensor_map.h"

enum {
    D_MAX = 256,
    TMA_ALIGN = 16 // bytes
};

int64_t attn_sm90_rows_q(const attn_desc_t *desc)
{
    return desc->varlen_q ? desc->total_q : desc->s_q;
}

int64_t attn_sm90_rows_kv(const attn_desc_t *desc)
{
    return desc->varlen_kv ? desc->total_kv : desc->s_kv;
}

int attn_sm90_dtypes_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES])
{
    const attn_dtype_t dtype = desc->q.dtype;
    ATTN_REFUSE_IF(dtype != ATTN_F16 && dtype != ATTN_BF16, "q.dtype: %d, expected f16 or bf16",
                   (int)dtype);
    ATTN_REFUSE_IF(desc->k.dtype != dtype || desc->v.dtype != dtype,
                   "k.dtype, v.dtype: %d, %d, expected q's", (int)desc->k.dtype,
                   (int)desc->v.dtype);
    return 1;
}

int attn_sm90_shape_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES])
{
    const int64_t rows_q = attn_sm90_rows_q(desc);
    const int64_t rows_kv = attn_sm90_rows_kv(desc);
    ATTN_REFUSE_IF(desc->d_qk > D_MAX, "d_qk: %lld, expected at most %d", (long long)desc->d_qk,
                   D_MAX);
    ATTN_REFUSE_IF(desc->d_v > D_MAX, "d_v: %lld, expected at most %d", (long long)desc->d_v,
                   D_MAX);
    ATTN_REFUSE_IF(rows_q > ATTN_SM90_LENGTH_MAX || rows_kv > ATTN_SM90_LENGTH_MAX,
                   "rows of q and k: %lld, %lld, at most 2^30", (long long)rows_q,
                   (long long)rows_kv);
    ATTN_REFUSE_IF(rows_q == 0 || rows_kv == 0 || desc->batch == 0,
                   "batch, rows of q and k: %lld, %lld, %lld, nothing to multiply",
                   (long long)desc->batch, (long long)rows_q, (long long)rows_kv);
    // Tiles are counted in 32 bits.
    const int64_t heads = desc->batch > ATTN_SM90_LENGTH_MAX || desc->heads_q > ATTN_SM90_LENGTH_MAX
                              ? INT64_MAX
                              : desc->batch * desc->heads_q;
    const int64_t tiles = attn_smaller(desc->s_q, rows_q) / ATTN_SM90_WARPGROUP_M + 1;
    ATTN_REFUSE_IF(heads > INT32_MAX / tiles, "batch * heads_q * tiles: more than 2^31");
    return 1;
}

// -------------------------------------------------------------------------------------------------
// Operands

attn_sm90_operand_t attn_sm90_like_q(const char *name, const void *data, const attn_desc_t *desc,
                                     const attn_tensor_t *tensor, int64_t d)
{
    return (attn_sm90_operand_t){.name = name,
                                 .data = data,
                                 .tensor = tensor,
                                 .b = desc->varlen_q ? 1 : desc->batch,
                                 .s = attn_sm90_rows_q(desc),
                                 .h = desc->heads_q,
                                 .d = d};
}

attn_sm90_operand_t attn_sm90_like_k(const char *name, const void *data, const attn_desc_t *desc,
                                     const attn_tensor_t *tensor, int64_t d)
{
    return (attn_sm90_operand_t){.name = name,
                                 .data = data,
                                 .tensor = tensor,
                                 .b = desc->varlen_kv          ? 1
                                      : desc->paged_kv         ? desc->num_pages
                                      : desc->has_kv_batch_idx ? desc->kv_batch
                                                               : desc->batch,
                                 .s = desc->paged_kv ? desc->page_size : attn_sm90_rows_kv(desc),
                                 .h = desc->heads_kv,
                                 .d = d};
}

// TMA wants strides that are multiples of 16 bytes, but not of a dimension of size 1.
static int stride_legal(int64_t stride, int64_t size)
{
    const int64_t elements = TMA_ALIGN / 2;
    return size <= 1 || (stride > 0 && stride % elements == 0 && stride < (int64_t)1 << 38);
}

int attn_sm90_operand_legal(const attn_sm90_operand_t *operand, char reason[ATTN_REASON_BYTES])
{
    const attn_tensor_t *const tensor = operand->tensor;
    ATTN_REFUSE_IF(operand->d % 8 != 0, "head dim of %s: %lld, TMA needs a multiple of 8",
                   operand->name, (long long)operand->d);
    ATTN_REFUSE_IF(tensor->stride_d != 1, "%s.stride_d: %lld, TMA needs 1", operand->name,
                   (long long)tensor->stride_d);
    ATTN_REFUSE_IF(!stride_legal(tensor->stride_b, operand->b) ||
                       !stride_legal(tensor->stride_s, operand->s) ||
                       !stride_legal(tensor->stride_h, operand->h),
                   "%s strides b, s, h: %lld, %lld, %lld, TMA needs positive multiples of 8",
                   operand->name, (long long)tensor->stride_b, (long long)tensor->stride_s,
                   (long long)tensor->stride_h);
    return 1;
}

// Whether a run of elements may be copied in pieces of `bytes`: rows, heads and entries begin at
// multiples of it.
static int divides(const attn_sm90_operand_t *operand, int32_t bytes)
{
    const attn_tensor_t *const tensor = operand->tensor;
    const int64_t elements = bytes / (int64_t)attn_dtype_bytes(tensor->dtype);
    return tensor->stride_d == 1 && (uintptr_t)operand->data % (uintptr_t)bytes == 0 &&
           (operand->b <= 1 || tensor->stride_b % elements == 0) &&
           (operand->s <= 1 || tensor->stride_s % elements == 0) &&
           (operand->h <= 1 || tensor->stride_h % elements == 0);
}

attn_gpu_operand_t attn_sm90_gathered(const attn_sm90_operand_t *operand,
                                      attn_gpu_elements_t *elements_out)
{
    const attn_tensor_t *const tensor = operand->tensor;
    *elements_out = (attn_gpu_elements_t){
        .stride_d = tensor->stride_d,
        .copy_bytes = divides(operand, 16)  ? 16
                      : divides(operand, 4) ? 4
                                            : 2,
    };
    return (attn_gpu_operand_t){.data = operand->data,
                                .stride_b = operand->b > 1 ? tensor->stride_b : 0,
                                .stride_s = tensor->stride_s,
                                .stride_h = tensor->stride_h};
}

attn_status_t attn_sm90_plain(const attn_sm90_operand_t *operand, attn_gpu_operand_t *plain_out)
{
    ATTN_RETURN_IF((uintptr_t)operand->data % TMA_ALIGN != 0, ATTN_INVALID_ARGUMENT,
                   "%s: %p, this plan's kernel needs a multiple of %d", operand->name,
                   operand->data, TMA_ALIGN);
    const attn_tensor_t *const tensor = operand->tensor;
    *plain_out = (attn_gpu_operand_t){.data = operand->data,
                                      .stride_b = operand->b > 1 ? tensor->stride_b : 0,
                                      .stride_s = tensor->stride_s,
                                      .stride_h = tensor->stride_h};
    return ATTN_OK;
}

// A stride that TMA accepts for a dimension of size 1, whose own does not matter.
static uint64_t stride_bytes(int64_t stride, int64_t size)
{
    return size <= 1 ? TMA_ALIGN : (uint64_t)stride * 2;
}

static attn_tensor_map_desc_t map_of(const attn_sm90_operand_t *operand, int32_t box_rows)
{
    const attn_tensor_t *const tensor = operand->tensor;
    return (attn_tensor_map_desc_t){
        .data = operand->data,
        .type = tensor->dtype == ATTN_BF16 ? ATTN_TENSOR_BF16 : ATTN_TENSOR_F16,
        .rank = 4,
        .dims = {(uint64_t)operand->d, (uint64_t)operand->s, (uint64_t)operand->h,
                 (uint64_t)operand->b},
        .strides_bytes = {stride_bytes(tensor->stride_s, operand->s),
                          stride_bytes(tensor->stride_h, operand->h),
                          stride_bytes(tensor->stride_b, operand->b)},
        .box = {ATTN_SM90_PANEL_COLUMNS, (uint32_t)box_rows, 1, 1},
        .swizzle = ATTN_SWIZZLE_128,
        .l2_promotion = ATTN_L2_PROMOTION_256,
    };
}

attn_status_t attn_sm90_encode(const attn_gpu_t *gpu, const attn_sm90_operand_t *operand,
                               int32_t box_rows, tensor_map *map_out)
{
    const attn_tensor_map_desc_t desc = map_of(operand, box_rows);
    return attn_tensor_map_encode(gpu, &desc, map_out);
}

attn_status_t attn_sm90_encode_heads(const attn_gpu_t *gpu, const attn_sm90_operand_t *operand,
                                     int32_t box_heads, int32_t box_positions, tensor_map *map_out)
{
    const attn_tensor_map_desc_t rows_first = map_of(operand, 1);
    attn_tensor_map_desc_t desc = rows_first;
    desc.dims[1] = rows_first.dims[2];
    desc.dims[2] = rows_first.dims[1];
    desc.strides_bytes[0] = rows_first.strides_bytes[1];
    desc.strides_bytes[1] = rows_first.strides_bytes[0];
    desc.box[1] = (uint32_t)box_heads;
    desc.box[2] = (uint32_t)box_positions;
    return attn_tensor_map_encode(gpu, &desc, map_out);
}

// -------------------------------------------------------------------------------------------------
// Lengths

attn_gpu_lengths_t attn_sm90_lengths(const attn_desc_t *desc, const attn_forward_args_t *args)
{
    const int64_t rows_q = attn_sm90_rows_q(desc);
    const int64_t rows_kv = attn_sm90_rows_kv(desc);
    return (attn_gpu_lengths_t){
        .batch = (int32_t)desc->batch,
        .s_q = (int32_t)attn_smaller(desc->s_q, rows_q),
        .s_kv = (int32_t)attn_smaller(desc->s_kv, rows_kv),
        .total_q = (int32_t)rows_q,
        .total_kv = (int32_t)rows_kv,
        .cu_seqlens_q = desc->varlen_q ? args->cu_seqlens_q : NULL,
        .cu_seqlens_kv = desc->varlen_kv ? args->cu_seqlens_kv : NULL,
        .seqused_q = desc->has_seqused_q ? args->seqused_q : NULL,
        .seqused_kv = desc->has_seqused_kv ? args->seqused_kv : NULL,
        .leftpad_kv = desc->has_leftpad_kv ? args->leftpad_kv : NULL,
    };
}

int attn_sm90_has_unlike_tiles(const attn_desc_t *desc)
{
    return desc->window_right >= 0 || desc->window_left >= 0 || desc->varlen_q || desc->varlen_kv ||
           desc->has_seqused_q || desc->has_seqused_kv || desc->mask.present || desc->block_sparse;
}
