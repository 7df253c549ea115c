// Dtypes and strides of a descriptor's operands: types that belong together, offsets that fit,
// outputs that do not overlap.
#include "check.h"
#include "checked.h"
#include "desc.h"
#include "element.h"
#include "status.h"

// -------------------------------------------------------------------------------------------------
// Dtypes

// k and v: q's dtype, or an 8-bit cache for wider queries.
static attn_status_t check_key_dtype(const char *name, attn_dtype_t dtype, attn_dtype_t q)
{
    ATTN_FORWARD_ERROR(attn_check_dtype(name, dtype));
    const int is_legal = attn_dtype_is_fp8(dtype) ? q != ATTN_F64 : dtype == q;
    ATTN_RETURN_IF(!is_legal, ATTN_INVALID_ARGUMENT, "%s.dtype: %s, expected %s like q", name,
                   attn_dtype_name(dtype),
                   attn_dtype_is_fp8(q) ? "e4m3 or e5m2" : attn_dtype_name(q));
    return ATTN_OK;
}

static attn_status_t check_output_dtype(attn_dtype_t o, attn_dtype_t q)
{
    ATTN_FORWARD_ERROR(attn_check_dtype("o", o));
    if (attn_dtype_is_fp8(q)) {
        ATTN_RETURN_IF(o == ATTN_F64, ATTN_INVALID_ARGUMENT,
                       "o.dtype: f64, expected f32 or narrower for %s inputs", attn_dtype_name(q));
        return ATTN_OK;
    }
    ATTN_RETURN_IF(o != q && o != ATTN_F32, ATTN_INVALID_ARGUMENT,
                   "o.dtype: %s, expected %s like q, or f32", attn_dtype_name(o),
                   attn_dtype_name(q));
    return ATTN_OK;
}

static attn_status_t check_gradient_dtype(const char *name, attn_dtype_t dtype, const char *of,
                                          attn_dtype_t expected)
{
    ATTN_FORWARD_ERROR(attn_check_dtype(name, dtype));
    ATTN_RETURN_IF(dtype != expected && dtype != ATTN_F32, ATTN_INVALID_ARGUMENT,
                   "%s.dtype: %s, expected %s like %s, or f32", name, attn_dtype_name(dtype),
                   attn_dtype_name(expected), of);
    return ATTN_OK;
}

static attn_status_t check_backward_dtypes(const attn_desc_t *desc)
{
    const attn_dtype_t inputs[3] = {desc->q.dtype, desc->k.dtype, desc->v.dtype};
    const char *const names[3] = {"q", "k", "v"};
    for (int32_t i = 0; i < 3; i++) {
        ATTN_RETURN_IF(attn_dtype_is_fp8(inputs[i]), ATTN_UNSUPPORTED,
                       "%s.dtype: %s, the backward pass has no kernel for 8-bit inputs", names[i],
                       attn_dtype_name(inputs[i]));
    }
    ATTN_FORWARD_ERROR(check_gradient_dtype("do_", desc->do_.dtype, "o", desc->o.dtype));
    ATTN_FORWARD_ERROR(check_gradient_dtype("dq", desc->dq.dtype, "q", desc->q.dtype));
    ATTN_FORWARD_ERROR(check_gradient_dtype("dk", desc->dk.dtype, "k", desc->k.dtype));
    return check_gradient_dtype("dv", desc->dv.dtype, "v", desc->v.dtype);
}

attn_status_t attn_check_dtypes(const attn_desc_t *desc, attn_op_t op)
{
    const attn_dtype_t q = desc->q.dtype;
    ATTN_FORWARD_ERROR(attn_check_dtype("q", q));
    ATTN_FORWARD_ERROR(check_key_dtype("k", desc->k.dtype, q));
    ATTN_FORWARD_ERROR(check_key_dtype("v", desc->v.dtype, q));
    ATTN_FORWARD_ERROR(check_output_dtype(desc->o.dtype, q));
    ATTN_RETURN_IF(q == ATTN_F64 && desc->backend != ATTN_BACKEND_REFERENCE, ATTN_UNSUPPORTED,
                   "q.dtype: f64, only ATTN_BACKEND_REFERENCE computes in it");
    return op == ATTN_BACKWARD ? check_backward_dtypes(desc) : ATTN_OK;
}

// -------------------------------------------------------------------------------------------------
// Strides

attn_status_t attn_operand_resolve(const attn_operand_t *operand)
{
    attn_dim_t dims[4];
    attn_operand_dims(operand, dims);
    ATTN_FORWARD_ERROR(attn_strides_resolve(operand->name, dims, 4));
    operand->tensor->stride_d = dims[0].stride;
    operand->tensor->stride_h = dims[1].stride;
    operand->tensor->stride_s = dims[2].stride;
    operand->tensor->stride_b = dims[3].stride;
    ATTN_FORWARD_ERROR(attn_strides_check_extent(operand->name, dims, 4,
                                                 attn_element_bytes(operand->tensor->dtype)));
    return operand->is_output ? attn_strides_check_distinct(operand->name, dims, 4) : ATTN_OK;
}

static attn_status_t resolve_lse(attn_desc_t *desc, int is_output)
{
    attn_dim_t dims[3] = {
        {desc->varlen_q ? desc->total_q : desc->s_q, desc->lse_stride_s},
        {desc->heads_q, desc->lse_stride_h},
        {desc->varlen_q ? 1 : desc->batch, desc->varlen_q ? 0 : desc->lse_stride_b},
    };
    ATTN_FORWARD_ERROR(attn_strides_resolve("lse", dims, 3));
    desc->lse_stride_s = dims[0].stride;
    desc->lse_stride_h = dims[1].stride;
    desc->lse_stride_b = dims[2].stride;
    ATTN_FORWARD_ERROR(attn_strides_check_extent("lse", dims, 3, (int64_t)sizeof(float)));
    return is_output ? attn_strides_check_distinct("lse", dims, 3) : ATTN_OK;
}

static attn_status_t resolve_page_table(attn_desc_t *desc)
{
    attn_dim_t dims[2] = {
        {desc->pages_per_seq, 1},
        {desc->batch, desc->page_table_stride_b},
    };
    ATTN_FORWARD_ERROR(attn_strides_resolve("page_table", dims, 2));
    desc->page_table_stride_b = dims[1].stride;
    return attn_strides_check_extent("page_table", dims, 2, (int64_t)sizeof(int32_t));
}

attn_status_t attn_check_tensors(attn_desc_t *desc, attn_op_t op)
{
    attn_operand_t operands[ATTN_OPERANDS_MAX];
    const int32_t count = attn_desc_operands(desc, op, operands);
    for (int32_t i = 0; i < count; i++) {
        ATTN_FORWARD_ERROR(attn_operand_resolve(&operands[i]));
    }
    ATTN_FORWARD_ERROR(attn_check_flag("wants_lse", desc->wants_lse));
    ATTN_FORWARD_ERROR(resolve_lse(desc, op == ATTN_FORWARD && desc->wants_lse));
    return desc->paged_kv ? resolve_page_table(desc) : ATTN_OK;
}
