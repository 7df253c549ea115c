// Where the keys of one sequence and head lie in memory: row after row, or in pages.
//
// A page number that is none hides its keys, as attn.h promises where the host cannot read the
// table: it is never followed.
#ifndef ATTN_DEVICE_KV_ROWS_H
#define ATTN_DEVICE_KV_ROWS_H

#include "../ptx/memory_ops.h"

struct kv_rows {
    const uint16_t *first; // of key 0; paged: of row 0 of page 0
    int64_t stride_s;
    int64_t stride_page;
    const int32_t *pages; // of the sequence; NULL: not paged
    int32_t page_size;
    int32_t num_pages;
};

// The row of a key of the sequence; NULL: the key is hidden.
DEVICE const uint16_t *kv_row_at(const struct kv_rows *rows, int64_t key)
{
    if (!ATTN_CFG_GATHER || !rows->pages) {
        return rows->first + key * rows->stride_s;
    }
    int32_t nth = (int32_t)key / rows->page_size;
    uint32_t page = ld_global_u32(rows->pages + nth);
    if (page >= (uint32_t)rows->num_pages) {
        return 0;
    }
    return rows->first + page * rows->stride_page +
           ((int32_t)key - nth * rows->page_size) * rows->stride_s;
}

#endif
