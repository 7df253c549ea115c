// attn_merge: descriptor, checks, and the call of the backend.
#include "check.h"
#include "desc.h"
#include "import.h"
#include "plan.h"
#include "status.h"

void attn_merge_desc_init_sized(attn_merge_desc_t *desc, size_t struct_size, attn_dtype_t o_dtype)
{
    if (desc == NULL) {
        return;
    }
    const attn_merge_desc_t full = {
        .o_part_stride_p = ATTN_STRIDE_AUTO,
        .o_part_stride_b = ATTN_STRIDE_AUTO,
        .o_part_stride_s = ATTN_STRIDE_AUTO,
        .o_part_stride_h = ATTN_STRIDE_AUTO,
        .lse_part_stride_p = ATTN_STRIDE_AUTO,
        .lse_part_stride_b = ATTN_STRIDE_AUTO,
        .lse_part_stride_h = ATTN_STRIDE_AUTO,
        .lse_part_stride_s = ATTN_STRIDE_AUTO,
        .o = attn_tensor_auto(o_dtype),
        .lse_stride_b = ATTN_STRIDE_AUTO,
        .lse_stride_h = ATTN_STRIDE_AUTO,
        .lse_stride_s = ATTN_STRIDE_AUTO,
    };
    attn_export(desc, struct_size, &full, sizeof(full));
}

static attn_status_t check_shape(const attn_merge_desc_t *desc)
{
    ATTN_FORWARD_ERROR(attn_check_backend(desc->backend, desc->device_index));
    ATTN_FORWARD_ERROR(attn_check_range("parts", desc->parts, 0, ATTN_COUNT_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("batch", desc->batch, 0, ATTN_COUNT_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("s_q", desc->s_q, 0, ATTN_LENGTH_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("heads_q", desc->heads_q, 1, ATTN_COUNT_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("d_v", desc->d_v, 1, ATTN_DIM_MAX));
    ATTN_FORWARD_ERROR(attn_check_rows("s_q", desc->batch, desc->heads_q, desc->s_q));
    ATTN_FORWARD_ERROR(attn_check_dtype("o", desc->o.dtype));
    ATTN_RETURN_IF(attn_dtype_is_fp8(desc->o.dtype), ATTN_INVALID_ARGUMENT,
                   "o.dtype: %s, expected f32, f16, bf16 or f64", attn_dtype_name(desc->o.dtype));
    return ATTN_OK;
}

static attn_status_t resolve_parts(attn_merge_desc_t *desc)
{
    attn_dim_t o_part[5] = {
        {desc->d_v, 1},
        {desc->heads_q, desc->o_part_stride_h},
        {desc->s_q, desc->o_part_stride_s},
        {desc->batch, desc->o_part_stride_b},
        {desc->parts, desc->o_part_stride_p},
    };
    ATTN_FORWARD_ERROR(attn_strides_resolve("o_part", o_part, 5));
    desc->o_part_stride_h = o_part[1].stride;
    desc->o_part_stride_s = o_part[2].stride;
    desc->o_part_stride_b = o_part[3].stride;
    desc->o_part_stride_p = o_part[4].stride;
    ATTN_FORWARD_ERROR(attn_strides_check_extent("o_part", o_part, 5, (int64_t)sizeof(float)));
    attn_dim_t lse_part[4] = {
        {desc->s_q, desc->lse_part_stride_s},
        {desc->heads_q, desc->lse_part_stride_h},
        {desc->batch, desc->lse_part_stride_b},
        {desc->parts, desc->lse_part_stride_p},
    };
    ATTN_FORWARD_ERROR(attn_strides_resolve("lse_part", lse_part, 4));
    desc->lse_part_stride_s = lse_part[0].stride;
    desc->lse_part_stride_h = lse_part[1].stride;
    desc->lse_part_stride_b = lse_part[2].stride;
    desc->lse_part_stride_p = lse_part[3].stride;
    return attn_strides_check_extent("lse_part", lse_part, 4, (int64_t)sizeof(float));
}

static attn_status_t resolve_results(attn_merge_desc_t *desc, int has_lse)
{
    const attn_operand_t o = {
        .name = "o",
        .tensor = &desc->o,
        .size_b = desc->batch,
        .size_s = desc->s_q,
        .size_h = desc->heads_q,
        .size_d = desc->d_v,
        .is_output = 1,
    };
    ATTN_FORWARD_ERROR(attn_operand_resolve(&o));
    if (!has_lse) {
        return ATTN_OK;
    }
    attn_dim_t lse[3] = {
        {desc->s_q, desc->lse_stride_s},
        {desc->heads_q, desc->lse_stride_h},
        {desc->batch, desc->lse_stride_b},
    };
    ATTN_FORWARD_ERROR(attn_strides_resolve("lse", lse, 3));
    desc->lse_stride_s = lse[0].stride;
    desc->lse_stride_h = lse[1].stride;
    desc->lse_stride_b = lse[2].stride;
    ATTN_FORWARD_ERROR(attn_strides_check_extent("lse", lse, 3, (int64_t)sizeof(float)));
    return attn_strides_check_distinct("lse", lse, 3);
}

attn_status_t attn_merge(const attn_context_t *context, const attn_merge_desc_t *desc,
                         const float *o_part, const float *lse_part, void *o, float *lse,
                         void *stream)
{
    const attn_context_t *resolved = attn_context_resolve(context);
    ATTN_FORWARD_ERROR(attn_context_check(resolved));
    attn_merge_desc_t full;
    attn_merge_desc_init(&full, ATTN_F32);
    ATTN_FORWARD_ERROR(attn_import("desc", &full, sizeof(full), desc));
    ATTN_FORWARD_ERROR(check_shape(&full));
    ATTN_FORWARD_ERROR(resolve_parts(&full));
    ATTN_FORWARD_ERROR(resolve_results(&full, lse != NULL));
    const attn_backend_ops_t *const backend = attn_backend_find(full.backend);
    ATTN_RETURN_IF(stream != NULL && !backend->is_device, ATTN_INVALID_ARGUMENT,
                   "stream: given, expected NULL for a CPU");
    const int32_t has_rows = full.batch > 0 && full.s_q > 0;
    const attn_pointer_t pointers[] = {
        {"o_part", o_part, 1, has_rows && full.parts > 0, "the descriptor"},
        {"lse_part", lse_part, 1, has_rows && full.parts > 0, "the descriptor"},
        {"o", o, 1, has_rows, "the descriptor"},
    };
    ATTN_FORWARD_ERROR(
        attn_check_pointers(pointers, (int32_t)(sizeof(pointers) / sizeof(pointers[0]))));
    return backend->merge(resolved, &full, o_part, lse_part, o, lse, stream);
}
