// Filling descriptors: defaults, plain shapes, layouts; and the list of operands that the checks
// walk.
#include "desc.h"

#include <math.h>
#include <string.h>

#include "checked.h"
#include "element.h"
#include "import.h"
#include "status.h"

size_t attn_dtype_bytes(attn_dtype_t dtype)
{
    return (size_t)attn_element_bytes(dtype);
}

void attn_desc_init_sized(attn_desc_t *desc, size_t struct_size, attn_dtype_t dtype)
{
    if (desc == NULL) {
        return;
    }
    const attn_tensor_t tensor = attn_tensor_auto(dtype);
    const attn_mask_tensor_t mask = {
        .dtype = ATTN_F32,
        .stride_b = ATTN_STRIDE_AUTO,
        .stride_h = ATTN_STRIDE_AUTO,
        .stride_q = ATTN_STRIDE_AUTO,
        .stride_k = ATTN_STRIDE_AUTO,
    };
    const attn_descale_t per_tensor = {.rows = 1};
    const attn_desc_t full = {
        .q = tensor,
        .k = tensor,
        .v = tensor,
        .o = tensor,
        .dq = tensor,
        .dk = tensor,
        .dv = tensor,
        .do_ = tensor,
        .lse_stride_b = ATTN_STRIDE_AUTO,
        .lse_stride_h = ATTN_STRIDE_AUTO,
        .lse_stride_s = ATTN_STRIDE_AUTO,
        .page_table_stride_b = ATTN_STRIDE_AUTO,
        .scale = NAN,
        .window_left = -1,
        .window_right = -1,
        .mask = mask,
        .bias = mask,
        .dbias = mask,
        .block_stride_b = ATTN_STRIDE_AUTO,
        .block_stride_h = ATTN_STRIDE_AUTO,
        .q_descale = per_tensor,
        .k_descale = per_tensor,
        .v_descale = per_tensor,
    };
    attn_export(desc, struct_size, &full, sizeof(full));
}

attn_status_t attn_desc_read(const attn_desc_t *source, attn_desc_t *desc_out)
{
    attn_desc_init(desc_out, ATTN_F32);
    return attn_import("desc", desc_out, sizeof(*desc_out), source);
}

void attn_desc_set_shape(attn_desc_t *desc, int64_t batch, int64_t s_q, int64_t s_kv,
                         int64_t heads_q, int64_t heads_kv, int64_t d)
{
    if (desc == NULL) {
        return;
    }
    desc->batch = batch;
    desc->s_q = s_q;
    desc->s_kv = s_kv;
    desc->heads_q = heads_q;
    desc->heads_kv = heads_kv;
    desc->d_qk = d;
    desc->d_v = d;
}

static attn_operand_t query_operand(const attn_desc_t *desc, const char *name,
                                    attn_tensor_t *tensor, int64_t d)
{
    return (attn_operand_t){
        .name = name,
        .tensor = tensor,
        .size_b = desc->varlen_q ? 1 : desc->batch,
        .size_s = desc->varlen_q ? desc->total_q : desc->s_q,
        .size_h = desc->heads_q,
        .size_d = d,
        .is_packed = desc->varlen_q,
    };
}

static attn_operand_t key_operand(const attn_desc_t *desc, const char *name, attn_tensor_t *tensor,
                                  int64_t d)
{
    attn_operand_t operand = {
        .name = name,
        .tensor = tensor,
        .size_b = desc->has_kv_batch_idx ? desc->kv_batch : desc->batch,
        .size_s = desc->s_kv,
        .size_h = desc->heads_kv,
        .size_d = d,
        .is_packed = desc->varlen_kv,
    };
    if (desc->varlen_kv) {
        operand.size_b = 1;
        operand.size_s = desc->total_kv;
    } else if (desc->paged_kv) {
        operand.size_b = desc->num_pages;
        operand.size_s = desc->page_size;
    }
    return operand;
}

int32_t attn_desc_operands(attn_desc_t *desc, attn_op_t op,
                           attn_operand_t list_out[ATTN_OPERANDS_MAX])
{
    list_out[0] = query_operand(desc, "q", &desc->q, desc->d_qk);
    list_out[1] = key_operand(desc, "k", &desc->k, desc->d_qk);
    list_out[2] = key_operand(desc, "v", &desc->v, desc->d_v);
    list_out[3] = query_operand(desc, "o", &desc->o, desc->d_v);
    if (op == ATTN_FORWARD) {
        list_out[3].is_output = 1;
        return 4;
    }
    list_out[4] = query_operand(desc, "do_", &desc->do_, desc->d_v);
    list_out[5] = query_operand(desc, "dq", &desc->dq, desc->d_qk);
    list_out[6] = key_operand(desc, "dk", &desc->dk, desc->d_qk);
    list_out[7] = key_operand(desc, "dv", &desc->dv, desc->d_v);
    for (int32_t i = 5; i < 8; i++) {
        list_out[i].is_output = 1;
    }
    return 8;
}

void attn_operand_dims(const attn_operand_t *operand, attn_dim_t dims_out[4])
{
    const attn_tensor_t *tensor = operand->tensor;
    dims_out[0] = (attn_dim_t){operand->size_d, tensor->stride_d};
    dims_out[1] = (attn_dim_t){operand->size_h, tensor->stride_h};
    dims_out[2] = (attn_dim_t){operand->size_s, tensor->stride_s};
    dims_out[3] = (attn_dim_t){operand->size_b, operand->is_packed ? 0 : tensor->stride_b};
}

int64_t attn_desc_query_blocks(const attn_desc_t *desc)
{
    return attn_ceil_div(desc->s_q, desc->block_q);
}

// (batch, heads, seqlen, dim); packed (heads, total, dim); paged (pages, heads, page, dim).
static attn_status_t set_bhsd(const attn_operand_t *operand)
{
    attn_dim_t dims[4] = {
        {operand->size_d, ATTN_STRIDE_AUTO},
        {operand->size_s, ATTN_STRIDE_AUTO},
        {operand->size_h, ATTN_STRIDE_AUTO},
        {operand->size_b, ATTN_STRIDE_AUTO},
    };
    ATTN_FORWARD_ERROR(attn_strides_resolve(operand->name, dims, 4));
    operand->tensor->stride_d = dims[0].stride;
    operand->tensor->stride_s = dims[1].stride;
    operand->tensor->stride_h = dims[2].stride;
    operand->tensor->stride_b = dims[3].stride;
    return ATTN_OK;
}

attn_status_t attn_desc_set_bhsd(attn_desc_t *desc)
{
    attn_desc_t full;
    ATTN_FORWARD_ERROR(attn_desc_read(desc, &full));
    ATTN_FORWARD_ERROR(attn_check_shape(&full));
    ATTN_FORWARD_ERROR(attn_check_lengths(&full, ATTN_FORWARD));
    attn_operand_t operands[ATTN_OPERANDS_MAX];
    const int32_t count = attn_desc_operands(&full, ATTN_BACKWARD, operands);
    for (int32_t i = 0; i < count; i++) {
        ATTN_FORWARD_ERROR(set_bhsd(&operands[i]));
    }
    // The caller's struct may be shorter than ours, and keeps its own size.
    const size_t size = desc->struct_size;
    memcpy(desc, &full, size < sizeof(full) ? size : sizeof(full));
    desc->struct_size = size;
    return ATTN_OK;
}
