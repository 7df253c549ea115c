// The first of the backward kernels on Hopper: what the main kernel (sm90_backward.c) needs of each
// query row, and a clean slate. A CTA has one query block of one head:
//
//   - lse in units of log2 and delta = sum over d of dO O - dlse, row by row. A row that has no
//     weights, or is not in use, gets lse +inf: exp2 makes its weights 0. A row whose lse is NaN
//     or too large to be trusted gets NaN in both, which makes every result that it reaches NaN:
//     postprocess computes these again;
//   - zeros where the main kernel adds dQ;
//   - a copy of the last block of a sequence, with zeros behind its rows, where the operands hold
//     something else there: another sequence, or garbage, which may be NaN.
//
// Bound by memory: reads O and dO, writes the sums of dQ. The last blocks go first, so that those
// that the main kernel begins with are still in L2.
#include "../../shared/exp2.h"
#include "../ptx/pdl.h"
#include "../ptx/warp.h"
#include "sm90_backward_block.h"

enum {
    PREPROCESS_THREADS = ATTN_SM90_BACKWARD_PREPROCESS_THREADS,
    // Lanes that share a row, 8 elements each.
    ROW_LANES = D_V <= 16    ? 2
                : D_V <= 32  ? 4
                : D_V <= 64  ? 8
                : D_V <= 128 ? 16
                             : 32,
    ROWS_AT_ONCE = PREPROCESS_THREADS / ROW_LANES
};

DEVICE float dot_x2(uint32_t a, uint32_t b)
{
    return fma_f32(F32_OF_ELEMENT(a & 0xffff), F32_OF_ELEMENT(b & 0xffff),
                   F32_OF_ELEMENT(a >> 16) * F32_OF_ELEMENT(b >> 16));
}

// Of dO and O, over the lanes of a row.
DEVICE float row_dot(const uint16_t *d_o, const uint16_t *o, int32_t d)
{
    int32_t column = (int32_t)(thread_idx() % ROW_LANES * 8);
    float sum = 0.0f;
    if (column < d) {
        uint32_t a[4];
        uint32_t b[4];
        ld_global_v4_u32(a, d_o + column);
        ld_global_v4_u32(b, o + column);
        UNROLL
        for (int i = 0; i < 4; i++) {
            sum += dot_x2(a[i], b[i]);
        }
    }
    UNROLL
    for (uint32_t lanes = ROW_LANES / 2; lanes > 0; lanes /= 2) {
        sum += shuffle_xor_f32(sum, lanes);
    }
    return sum;
}

// What the main kernel subtracts from scores.
DEVICE float lse_log2(float lse)
{
    float x = lse * ATTN_LOG2_E;
    if (lse == -INFINITY_F32) {
        return INFINITY_F32;
    }
    return x <= LSE_TRUSTED && x >= -LSE_TRUSTED ? x : f32_of_bits(0x7fc00000u);
}

DEVICE void write_stats(const kernel_params_t *p, const struct query_block *block)
{
    float *stats = (float *)block_stats(p, block->index);
    NO_UNROLL
    for (int32_t i = (int32_t)(thread_idx() / ROW_LANES); i < BLOCK_M; i += ROWS_AT_ONCE) {
        float lse = INFINITY_F32;
        float delta = 0.0f;
        int32_t row = block->row0 + i;
        if (row < block->sequence.len_q) {
            lse = lse_log2(ld_global_f32(p->lse + lse_index(p, block, row)));
        }
        // The lanes of a warp may have rows of both kinds: all must take part.
        uint32_t counts = row < block->sequence.len_q && !(lse == INFINITY_F32);
        if (vote_any(counts)) {
            float dot = row_dot(operand_row(&p->do_, block, row), operand_row(&p->o, block, row),
                                counts ? p->d_v : 0);
            delta = !counts ? 0.0f : lse == lse ? dot : lse;
        }
        if (counts && p->dlse) {
            delta -= ld_global_f32(p->dlse + lse_index(p, block, row));
        }
        if (thread_idx() % ROW_LANES == 0) {
            st_global_f32(stats + i, lse);
            st_global_f32(stats + BLOCK_M + i, delta);
        }
    }
}

DEVICE void clear_dq_sum(const kernel_params_t *p, const struct query_block *block)
{
    const uint32_t zeros[4] = {0, 0, 0, 0};
    float *sum = block_dq_sum(p, block->index);
    UNROLL
    for (uint32_t i = 0; i < DQ_BLOCK_FLOATS / 4; i += PREPROCESS_THREADS) {
        st_global_v4_u32(sum + 4 * (i + thread_idx()), zeros);
    }
}

// (BLOCK_M, d) of the block, zeros behind the last row.
DEVICE void copy_edge(uint16_t *edge, const attn_gpu_operand_t *operand, int32_t d,
                      const struct query_block *block)
{
    int32_t chunks = d / 8;
    for (int32_t i = (int32_t)thread_idx(); i < BLOCK_M * chunks; i += PREPROCESS_THREADS) {
        int32_t row = i / chunks;
        uint32_t chunk[4] = {0, 0, 0, 0};
        if (block->row0 + row < block->sequence.len_q) {
            ld_global_v4_u32(chunk, operand_row(operand, block, block->row0 + row) +
                                        (i - row * chunks) * 8);
        }
        st_global_v4_u32(edge + (int64_t)i * 8, chunk);
    }
}

KERNEL(ATTN_SM90_BACKWARD_PREPROCESS_THREADS)
ATTN_CFG_KERNEL(const GRID_CONSTANT attn_gpu_backward_params_t p)
{
    griddep_launch_dependents();
    struct query_block block = query_block_of(&p, grid_dim_x() - 1 - block_idx_x());
    if (block_idx_x() == 0 && thread_idx() == 0) {
        st_global_u32(p.scratch.counter, 0);
    }
    if (block.row0 >= block.sequence.len_q) {
        return; // nobody looks at it
    }
    if (ATTN_CFG_DETERMINISTIC && thread_idx() == 0) {
        st_global_u32(block_order(&p, block.index), 0);
    }
    write_stats(&p, &block);
    clear_dq_sum(&p, &block);
    if (is_edge_block(&p, block.row0, block.sequence.len_q)) {
        int64_t head = (int64_t)block.b * p.heads_q + block.h;
        copy_edge(p.scratch.q_edge + head * BLOCK_M * p.d_qk, &p.q, p.d_qk, &block);
        copy_edge(p.scratch.do_edge + head * BLOCK_M * p.d_v, &p.do_, p.d_v, &block);
    }
}
