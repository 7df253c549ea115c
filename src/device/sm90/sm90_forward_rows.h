// Where the rows of a tile lie in memory, for plain loads and stores.
#ifndef ATTN_SM90_FORWARD_ROWS_H
#define ATTN_SM90_FORWARD_ROWS_H

#include "../common/kv_rows.h"
#include "sm90_forward_tile.h"

// A row of Q or O: which element of memory it begins at.
DEVICE int64_t row_offset(const attn_gpu_forward_params_t *p, const attn_gpu_operand_t *x,
                          const struct tile *tile, int32_t row)
{
    int64_t b = p->lengths.cu_seqlens_q ? 0 : tile->b;
    return b * x->stride_b + (tile->q_start + position_of_row(row)) * x->stride_s +
           head_of_row(tile, row) * x->stride_h;
}

DEVICE const uint16_t *query_row(const attn_gpu_forward_params_t *p, const struct tile *tile,
                                 int32_t row)
{
    return (const uint16_t *)p->q.data + row_offset(p, &p->q, tile, row);
}

// The keys of the tile in x, which is p->k or p->v.
DEVICE struct kv_rows kv_rows_of(const attn_gpu_forward_params_t *p, const attn_gpu_operand_t *x,
                                 const struct tile *tile)
{
    int64_t b = p->lengths.cu_seqlens_kv ? 0 : tile->b;
    struct kv_rows rows;
    rows.pages = 0;
    if (ATTN_CFG_GATHER && p->gather.kv_batch_idx) {
        b = length_at(p->gather.kv_batch_idx, tile->b, p->gather.kv_batch - 1);
    }
    if (ATTN_CFG_GATHER && p->gather.page_table) {
        rows.pages = p->gather.page_table + b * p->gather.page_table_stride_b;
        b = 0;
    }
    rows.first = (const uint16_t *)x->data + b * x->stride_b + tile->kv_start * x->stride_s +
                 tile->h_kv * x->stride_h;
    rows.stride_s = x->stride_s;
    rows.stride_page = x->stride_b;
    rows.page_size = p->gather.page_size;
    rows.num_pages = p->gather.num_pages;
    return rows;
}

#endif
