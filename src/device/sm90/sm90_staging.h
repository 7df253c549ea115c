// Results on their way out: from accumulators into panels of shared memory, and from there to
// memory where TMA cannot store them.
#ifndef ATTN_SM90_STAGING_H
#define ATTN_SM90_STAGING_H

#include "../ptx/matrix.h"
#include "sm90_operand.h"

// Where an element lies in panels of `panel_bytes` that begin at `base`.
DEVICE uint32_t panel_address(uint32_t base, uint32_t panel_bytes, uint32_t row, uint32_t column)
{
    uint32_t chunk = column % PANEL_COLUMNS / 8;
    return base + column / PANEL_COLUMNS * panel_bytes + row * PANEL_ROW_BYTES +
           ((chunk ^ (row & 7)) << 4) + column % 8 * 2;
}

// A warp's 16 rows, the first at `row0` of the panels; a thread's two rows times their factors.
DEVICE void stage_rows(uint32_t base, uint32_t panel_bytes, uint32_t row0, const float *x,
                       int columns, const float *factor)
{
    uint32_t lane = thread_idx() % 32;
    UNROLL
    for (int i = 0; i < columns / 16; i++) {
        uint32_t packed[4];
        UNROLL
        for (int j = 0; j < 4; j++) {
            packed[j] =
                PACK_X2(x[8 * i + 2 * j] * factor[j % 2], x[8 * i + 2 * j + 1] * factor[j % 2]);
        }
        stmatrix_x4(
            panel_address(base, panel_bytes, row0 + lane % 16, (uint32_t)i * 16 + lane / 16 * 8),
            packed);
    }
}

// Rows 0 .. rows - 1 of the panels to memory, d elements each, by `threads` threads of which this
// is the one numbered `thread`.
DEVICE void copy_rows_out(uint16_t *out, int64_t stride, uint32_t base, uint32_t panel_bytes,
                          int32_t rows, int32_t d, uint32_t thread, int32_t threads)
{
    int32_t chunks = d / 8;
    for (int32_t i = (int32_t)thread; i < rows * chunks; i += threads) {
        int32_t row = i / chunks;
        int32_t column = (i - row * chunks) * 8;
        uint32_t chunk[4];
        ld_shared_v4_u32(chunk, panel_address(base, panel_bytes, (uint32_t)row, (uint32_t)column));
        st_global_v4_u32(out + row * stride + column, chunk);
    }
}

#endif
