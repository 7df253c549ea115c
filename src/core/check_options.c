// Masks and options of a descriptor. Strides of the tensors that belong to them are resolved here
// too.
#include <inttypes.h>
#include <math.h>

#include "check.h"
#include "checked.h"
#include "desc.h"
#include "element.h"
#include "status.h"

// -------------------------------------------------------------------------------------------------
// Mask tensors

static attn_status_t resolve_mask_tensor(const attn_desc_t *desc, const char *name,
                                         attn_mask_tensor_t *tensor, int64_t element_bytes,
                                         attn_dim_t dims_out[4])
{
    const attn_dim_t dims[4] = {
        {desc->s_kv, tensor->stride_k},
        {desc->s_q, tensor->stride_q},
        {desc->heads_q, tensor->stride_h},
        {desc->batch, tensor->stride_b},
    };
    for (int32_t i = 0; i < 4; i++) {
        dims_out[i] = dims[i];
    }
    ATTN_FORWARD_ERROR(attn_strides_resolve(name, dims_out, 4));
    tensor->stride_k = dims_out[0].stride;
    tensor->stride_q = dims_out[1].stride;
    tensor->stride_h = dims_out[2].stride;
    tensor->stride_b = dims_out[3].stride;
    return attn_strides_check_extent(name, dims_out, 4, element_bytes);
}

static attn_status_t check_bias(attn_desc_t *desc)
{
    const attn_dtype_t dtype = desc->bias.dtype;
    ATTN_RETURN_IF(dtype != ATTN_F32 && dtype != ATTN_F16 && dtype != ATTN_BF16,
                   ATTN_INVALID_ARGUMENT, "bias.dtype: %s, expected f32, f16 or bf16",
                   attn_dtype_name(dtype));
    attn_dim_t dims[4];
    return resolve_mask_tensor(desc, "bias", &desc->bias, attn_element_bytes(dtype), dims);
}

static attn_status_t check_dbias(attn_desc_t *desc)
{
    ATTN_RETURN_IF(!desc->bias.present, ATTN_INVALID_ARGUMENT,
                   "dbias.present: 1, expected 0 without a bias");
    ATTN_RETURN_IF(desc->dbias.dtype != ATTN_F32 && desc->dbias.dtype != desc->bias.dtype,
                   ATTN_INVALID_ARGUMENT, "dbias.dtype: %s, expected f32 or %s like bias",
                   attn_dtype_name(desc->dbias.dtype), attn_dtype_name(desc->bias.dtype));
    attn_dim_t dims[4];
    ATTN_FORWARD_ERROR(resolve_mask_tensor(desc, "dbias", &desc->dbias,
                                           attn_element_bytes(desc->dbias.dtype), dims));
    // Stride 0 sums over the dimension: one element, written once. Without elements there is no
    // output at all.
    for (int32_t i = 0; i < 4; i++) {
        if (dims[i].stride == 0 && dims[i].size > 1) {
            dims[i].size = 1;
        }
    }
    return attn_strides_check_distinct("dbias", dims, 4);
}

// -------------------------------------------------------------------------------------------------
// Block lists

static attn_status_t check_blocks(attn_desc_t *desc)
{
    ATTN_FORWARD_ERROR(attn_check_range("block_q", desc->block_q, 1, ATTN_LENGTH_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("block_kv", desc->block_kv, 1, ATTN_LENGTH_MAX));
    ATTN_FORWARD_ERROR(
        attn_check_range("blocks_per_row", desc->blocks_per_row, 0, ATTN_LENGTH_MAX));
    attn_dim_t dims[4] = {
        {attn_desc_query_blocks(desc), 1},
        {desc->heads_q, desc->block_stride_h},
        {desc->batch, desc->block_stride_b},
    };
    ATTN_FORWARD_ERROR(attn_strides_resolve("block_count", dims, 3));
    desc->block_stride_h = dims[1].stride;
    desc->block_stride_b = dims[2].stride;
    ATTN_FORWARD_ERROR(attn_strides_check_extent("block_count", dims, 3, (int64_t)sizeof(int32_t)));
    // block_index has blocks_per_row entries where block_count has one.
    for (int32_t i = 0; i < 3; i++) {
        ATTN_RETURN_IF(!attn_checked_mul(dims[i].stride, desc->blocks_per_row, &dims[i].stride),
                       ATTN_INVALID_ARGUMENT,
                       "block_index: its strides reach offsets that do not fit in 63 bits");
    }
    dims[3] = (attn_dim_t){desc->blocks_per_row, 1};
    return attn_strides_check_extent("block_index", dims, 4, (int64_t)sizeof(int32_t));
}

// -------------------------------------------------------------------------------------------------

static attn_status_t check_mask_flags(const attn_desc_t *desc)
{
    ATTN_FORWARD_ERROR(attn_check_flag("causal", desc->causal));
    ATTN_FORWARD_ERROR(attn_check_flag("mask.present", desc->mask.present));
    ATTN_FORWARD_ERROR(attn_check_flag("bias.present", desc->bias.present));
    ATTN_FORWARD_ERROR(attn_check_flag("has_alibi", desc->has_alibi));
    ATTN_FORWARD_ERROR(attn_check_flag("has_sink", desc->has_sink));
    ATTN_FORWARD_ERROR(attn_check_flag("block_sparse", desc->block_sparse));
    ATTN_RETURN_IF(desc->align != ATTN_ALIGN_BOTTOM_RIGHT && desc->align != ATTN_ALIGN_TOP_LEFT,
                   ATTN_INVALID_ARGUMENT, "align: %d, expected an attn_align_t", (int)desc->align);
    return ATTN_OK;
}

static attn_status_t check_alibi(attn_desc_t *desc)
{
    attn_dim_t dims[2] = {{desc->heads_q, 1}, {desc->batch, desc->alibi_stride_b}};
    ATTN_FORWARD_ERROR(attn_strides_resolve("alibi_slopes", dims, 2));
    desc->alibi_stride_b = dims[1].stride;
    return attn_strides_check_extent("alibi_slopes", dims, 2, (int64_t)sizeof(float));
}

attn_status_t attn_check_mask(attn_desc_t *desc, attn_op_t op)
{
    ATTN_FORWARD_ERROR(check_mask_flags(desc));
    ATTN_FORWARD_ERROR(attn_check_range("window_left", desc->window_left, -1, INT64_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("window_right", desc->window_right, -1, INT64_MAX));
    if (desc->mask.present) {
        attn_dim_t dims[4];
        ATTN_FORWARD_ERROR(resolve_mask_tensor(desc, "mask", &desc->mask, 1, dims));
    }
    if (desc->bias.present) {
        ATTN_FORWARD_ERROR(check_bias(desc));
    }
    if (op == ATTN_BACKWARD) {
        ATTN_FORWARD_ERROR(attn_check_flag("dbias.present", desc->dbias.present));
        if (desc->dbias.present) {
            ATTN_FORWARD_ERROR(check_dbias(desc));
        }
    }
    if (desc->has_alibi) {
        ATTN_FORWARD_ERROR(check_alibi(desc));
    }
    return desc->block_sparse ? check_blocks(desc) : ATTN_OK;
}

// -------------------------------------------------------------------------------------------------
// Options

static attn_status_t check_descale(const char *name, attn_descale_t *descale,
                                   const attn_operand_t *operand, int64_t batch, int64_t rows)
{
    ATTN_FORWARD_ERROR(attn_check_flag(name, descale->present));
    if (!descale->present) {
        return ATTN_OK;
    }
    ATTN_RETURN_IF(!attn_dtype_is_fp8(operand->tensor->dtype), ATTN_INVALID_ARGUMENT,
                   "%s: 1, expected 0: %s is %s, factors belong to 8-bit operands", name,
                   operand->name, attn_dtype_name(operand->tensor->dtype));
    ATTN_RETURN_IF(descale->rows < 1, ATTN_INVALID_ARGUMENT,
                   "%s_descale.rows: %" PRId32 ", expected >= 1", operand->name, descale->rows);
    attn_dim_t dims[3] = {
        {attn_ceil_div(rows, descale->rows), descale->stride_s},
        {operand->size_h, descale->stride_h},
        {batch, descale->stride_b},
    };
    ATTN_FORWARD_ERROR(attn_strides_resolve(name, dims, 3));
    descale->stride_s = dims[0].stride;
    descale->stride_h = dims[1].stride;
    descale->stride_b = dims[2].stride;
    return attn_strides_check_extent(name, dims, 3, (int64_t)sizeof(float));
}

static attn_status_t check_descales(attn_desc_t *desc)
{
    attn_operand_t list[ATTN_OPERANDS_MAX];
    attn_desc_operands(desc, ATTN_FORWARD, list);
    ATTN_FORWARD_ERROR(
        check_descale("q_descale.present", &desc->q_descale, &list[0], desc->batch, desc->s_q));
    ATTN_FORWARD_ERROR(
        check_descale("k_descale.present", &desc->k_descale, &list[1], desc->batch, desc->s_kv));
    return check_descale("v_descale.present", &desc->v_descale, &list[2], desc->batch, desc->s_kv);
}

static attn_status_t check_numbers(const attn_desc_t *desc)
{
    ATTN_RETURN_IF(isinf(desc->scale), ATTN_INVALID_ARGUMENT,
                   "scale: %g, expected a finite number, or NaN for 1 / sqrt(d_qk)",
                   (double)desc->scale);
    ATTN_RETURN_IF(!(desc->softcap >= 0.0f) || isinf(desc->softcap), ATTN_INVALID_ARGUMENT,
                   "softcap: %g, expected a finite number >= 0", (double)desc->softcap);
    ATTN_RETURN_IF(!(desc->dropout_p >= 0.0f && desc->dropout_p < 1.0f), ATTN_INVALID_ARGUMENT,
                   "dropout_p: %g, expected 0 <= p < 1", (double)desc->dropout_p);
    return ATTN_OK;
}

static attn_status_t check_backward_options(const attn_desc_t *desc)
{
    ATTN_FORWARD_ERROR(attn_check_flag("has_dlse", desc->has_dlse));
    ATTN_FORWARD_ERROR(attn_check_flag("wants_dsink", desc->wants_dsink));
    ATTN_RETURN_IF(desc->wants_dsink && !desc->has_sink, ATTN_INVALID_ARGUMENT,
                   "wants_dsink: 1, expected 0 without a sink");
    return ATTN_OK;
}

attn_status_t attn_check_options(attn_desc_t *desc, attn_op_t op)
{
    ATTN_FORWARD_ERROR(check_numbers(desc));
    ATTN_FORWARD_ERROR(check_descales(desc));
    if (op == ATTN_BACKWARD) {
        ATTN_FORWARD_ERROR(check_backward_options(desc));
    }
    ATTN_FORWARD_ERROR(attn_check_range("num_splits", desc->num_splits, 0, INT32_MAX));
    ATTN_FORWARD_ERROR(attn_check_flag("deterministic", desc->deterministic));
    return attn_check_flag("batch_invariant", desc->batch_invariant);
}
