// Rows between memory and panels of shared memory without TMA: for strides, pointers and head dims
// that TMA cannot, and for rows that a table has scattered.
//
// A warp brings up to 32 rows at once. Each lane knows where one of them lies; the row's chunks, 8
// columns or 16 bytes each, are copied by neighbouring lanes, which learn its place by a shuffle.
#ifndef ATTN_SM90_GATHER_H
#define ATTN_SM90_GATHER_H

#include "../../shared/gpu_forward_params.h"
#include "../ptx/cp_async.h"
#include "../ptx/warp.h"
#include "sm90_staging.h"

enum { CHUNK_COLUMNS = 8, GATHER_ROWS = 32 };

DEVICE const uint16_t *shuffle_row(const uint16_t *row, uint32_t lane)
{
    uint64_t bits = (uint64_t)row;
    uint64_t low = shuffle_idx_u32((uint32_t)bits, lane);
    uint64_t high = shuffle_idx_u32((uint32_t)(bits >> 32), lane);
    return (const uint16_t *)(high << 32 | low);
}

// The first `count` elements at `src`, then zeros.
DEVICE void gather_chunk(uint32_t dst, const uint16_t *src, const attn_gpu_elements_t *elements,
                         int32_t count)
{
    if (elements->copy_bytes == 16) {
        cp_async_16_zfill(dst, src, (uint32_t)count * 2);
    } else if (elements->copy_bytes == 4) {
        UNROLL
        for (int32_t j = 0; j < CHUNK_COLUMNS; j += 2) {
            int32_t left = count - j;
            left = left < 0 ? 0 : left > 2 ? 2 : left;
            cp_async_4_zfill(dst + (uint32_t)j * 2, src + j, (uint32_t)left * 2);
        }
    } else {
        uint32_t words[CHUNK_COLUMNS / 2] = {0, 0, 0, 0};
        UNROLL
        for (int32_t j = 0; j < CHUNK_COLUMNS; j++) {
            if (j < count) {
                words[j / 2] |= ld_global_u16(src + j * elements->stride_d) << (j % 2 * 16);
            }
        }
        st_shared_v4_u32(dst, words);
    }
}

// This lane's row (NULL: zeros) becomes row row0 + lane of the panels. All lanes call; `rows`, a
// multiple of 16, have a place. The columns from d up to the last of `chunks` become zeros.
DEVICE void gather_rows(uint32_t base, uint32_t panel_bytes, uint32_t row0, const uint16_t *row,
                        const attn_gpu_elements_t *elements, int32_t d, uint32_t rows,
                        uint32_t chunks)
{
    NO_UNROLL
    for (uint32_t i = thread_idx() % 32; i < rows * chunks; i += 32) {
        uint32_t nth = i / chunks;
        uint32_t column = (i - nth * chunks) * CHUNK_COLUMNS;
        const uint16_t *src = shuffle_row(row, nth);
        int32_t count = src ? d - (int32_t)column : 0;
        count = count < 0 ? 0 : count > CHUNK_COLUMNS ? CHUNK_COLUMNS : count;
        gather_chunk(panel_address(base, panel_bytes, row0 + nth, column),
                     src + (int32_t)column * elements->stride_d, elements, count);
    }
}

// The first `count` elements of a chunk.
DEVICE void scatter_chunk(uint16_t *out, const attn_gpu_elements_t *elements, int32_t count,
                          const uint32_t *chunk)
{
    if (elements->copy_bytes == 16 && count >= CHUNK_COLUMNS) {
        st_global_v4_u32(out, chunk);
    } else {
        UNROLL
        for (int32_t j = 0; j < CHUNK_COLUMNS; j++) {
            if (j < count) {
                st_global_u16(out + j * elements->stride_d, chunk[j / 2] >> (j % 2 * 16));
            }
        }
    }
}

#endif
