// The last of the backward kernels on Hopper: turns the sums of the main kernel (sm90_backward.c)
// into dq, and computes again what is not finite.
//
//   - dq: a CTA has one query block of one head, a warp 16 rows at a time. Sums come in the order
//     of the accumulators, are scaled, rounded and turned into rows in shared memory;
//   - dsink: a CTA has one head;
//   - suspects: keys whose dk or dv the main kernel found not finite. Usually none;
//   - rows of packs behind the last sequence: zeros.
//
// Bound by memory: reads the sums of dQ, writes dq. The last blocks go first: their sums are still
// in L2.
#include "../ptx/pdl.h"
#include "sm90_backward_sink.h"
#include "sm90_staging.h"

#include "../common/careful_gradient.h"

enum {
    POSTPROCESS_THREADS = ATTN_SM90_BACKWARD_POSTPROCESS_THREADS,
    POSTPROCESS_WARPS = POSTPROCESS_THREADS / 32,
    WARP_ROWS = 16,
    WARP_PANEL_BYTES = WARP_ROWS * PANEL_ROW_BYTES,
    POSTPROCESS_SMEM_BYTES = POSTPROCESS_WARPS * QK_PANELS * WARP_PANEL_BYTES,
    DQ_FLOATS = QK_PANELS * 32, // a thread's, of 16 rows of a warp
    QK_LANE_COLUMNS = (D_QK + 31) / 32,
    V_LANE_COLUMNS = (D_V + 31) / 32
};

// -------------------------------------------------------------------------------------------------
// Again, with care

// Where a sequence's keys are.
DEVICE uint16_t *key_row(const kernel_params_t *p, const attn_gpu_operand_t *operand,
                         const struct query_block *block, int64_t key)
{
    return (uint16_t *)operand->data +
           (p->lengths.cu_seqlens_kv ? 0 : block->b) * operand->stride_b +
           (block->sequence.kv_start + key) * operand->stride_s +
           block->h / p->group * operand->stride_h;
}

DEVICE struct careful_pair careful_row_of(const kernel_params_t *p, const struct query_block *block,
                                          int32_t row)
{
    struct careful_pair pair;
    pair.q = operand_row(&p->q, block, row);
    pair.d_o = operand_row(&p->do_, block, row);
    pair.lse = ld_global_f32(p->lse + lse_index(p, block, row));
    pair.delta = warp_dot(pair.d_o, operand_row(&p->o, block, row), p->d_v);
    if (p->dlse) {
        pair.delta -= ld_global_f32(p->dlse + lse_index(p, block, row));
    }
    pair.scale = p->scale;
    pair.k = 0;
    pair.v = 0;
    return pair;
}

DEVICE uint32_t all_nan(const float *x, int count)
{
    uint32_t is_nan = 1;
    UNROLL
    for (int i = 0; i < count; i++) {
        is_nan &= x[i] != x[i];
    }
    return vote_all(is_nan);
}

// One row of dq to its place in shared memory.
DEVICE void redo_row(const kernel_params_t *p, const struct query_block *block, int32_t row,
                     uint32_t base, uint32_t staged_row)
{
    struct careful_pair pair = careful_row_of(p, block, row);
    attn_mask_shape_t shape =
        mask_shape(p, block->sequence.len_q, block->sequence.len_kv, block->sequence.leftpad);
    attn_range_t keys = attn_row_kv_range(&shape, row);
    float dq[QK_LANE_COLUMNS];
    UNROLL
    for (int i = 0; i < QK_LANE_COLUMNS; i++) {
        dq[i] = 0.0f;
    }
    NO_UNROLL
    for (int32_t key = (int32_t)keys.begin; key < keys.end && pair.lse != -INFINITY_F32; key++) {
        pair.k = key_row(p, &p->k, block, key);
        pair.v = key_row(p, &p->v, block, key);
        struct careful_weight weight = careful_weight_of(&pair, p->d_qk, p->d_v);
        add_scaled_row(dq, weight.ds, pair.k, p->d_qk, QK_LANE_COLUMNS);
        if (all_nan(dq, QK_LANE_COLUMNS)) {
            break;
        }
    }
    UNROLL
    for (int i = 0; i < QK_LANE_COLUMNS; i++) {
        uint32_t column = thread_idx() % 32 + 32 * (uint32_t)i;
        if (column < D_QK) {
            st_shared_u16(panel_address(base, WARP_PANEL_BYTES, staged_row, column),
                          PACK_X2(dq[i] * p->scale, 0.0f) & 0xffff);
        }
    }
}

DEVICE void store_key(const kernel_params_t *p, const attn_gpu_operand_t *out,
                      const struct query_block *block, int32_t key, const float *x, float factor,
                      int32_t d, int count)
{
    if (!out->data) {
        return;
    }
    uint16_t *row = key_row(p, out, block, key);
    UNROLL
    for (int i = 0; i < count; i++) {
        int32_t column = (int32_t)(thread_idx() % 32) + 32 * i;
        if (column < d) {
            st_global_u16(row + column, PACK_X2(x[i] * factor, 0.0f) & 0xffff);
        }
    }
}

// dk and dv of one key: over the rows of all query heads that see it. block: of the sequence, with
// the first head of the group.
DEVICE void redo_key(const kernel_params_t *p, const struct query_block *first, int32_t key)
{
    struct query_block block = *first;
    attn_mask_shape_t shape =
        mask_shape(p, block.sequence.len_q, block.sequence.len_kv, block.sequence.leftpad);
    attn_range_t rows = attn_tile_full_q_range(&shape, key, key + 1);
    float dk[QK_LANE_COLUMNS];
    float dv[V_LANE_COLUMNS];
    UNROLL
    for (int i = 0; i < QK_LANE_COLUMNS; i++) {
        dk[i] = 0.0f;
    }
    UNROLL
    for (int i = 0; i < V_LANE_COLUMNS; i++) {
        dv[i] = 0.0f;
    }
    NO_UNROLL
    for (int32_t i = 0; i < p->group; i++) {
        block.h = first->h + i;
        NO_UNROLL
        for (int32_t row = (int32_t)rows.begin; row < rows.end; row++) {
            struct careful_pair pair = careful_row_of(p, &block, row);
            if (pair.lse == -INFINITY_F32) {
                continue;
            }
            pair.k = key_row(p, &p->k, &block, key);
            pair.v = key_row(p, &p->v, &block, key);
            struct careful_weight weight = careful_weight_of(&pair, p->d_qk, p->d_v);
            add_scaled_row(dk, weight.ds, pair.q, p->d_qk, QK_LANE_COLUMNS);
            add_scaled_row(dv, weight.p, pair.d_o, p->d_v, V_LANE_COLUMNS);
            if (all_nan(dk, QK_LANE_COLUMNS) && all_nan(dv, V_LANE_COLUMNS)) {
                break;
            }
        }
    }
    store_key(p, &p->dk, &block, key, dk, p->scale, p->d_qk, QK_LANE_COLUMNS);
    store_key(p, &p->dv, &block, key, dv, 1.0f, p->d_v, V_LANE_COLUMNS);
}

// Whether a warp's 16 keys are: of a pair either result.
DEVICE uint32_t is_suspect(const kernel_params_t *p, uint32_t number, uint32_t warp)
{
    const uint32_t *words = p->scratch.suspects + (int64_t)number * (4 * WARPGROUPS);
    uint32_t found = 0;
    UNROLL
    for (uint32_t i = 0; i < WARPGROUPS / KEY_GROUPS; i++) {
        found |= ld_global_u32(words + 4 * i + warp);
    }
    return found;
}

// The suspects of a tile: 16 keys, one warp each.
DEVICE void redo_suspects(const kernel_params_t *p, uint32_t number)
{
    struct tile_place place = tile_place_of(&p->tiles, number);
    int32_t heads_kv = p->heads_q / p->group;
    struct query_block block;
    block.b = place.bh / heads_kv;
    block.h = (place.bh - block.b * heads_kv) * p->group;
    block.sequence = sequence_at(&p->lengths, block.b);
    int32_t tile_key0 = place.block * BLOCK_N;
    NO_UNROLL
    for (uint32_t warp = thread_idx() / 32; warp < 4 * KEY_GROUPS; warp += POSTPROCESS_WARPS) {
        int32_t key0 = tile_key0 + (int32_t)warp * WARP_ROWS;
        if (tile_key0 >= block.sequence.keys || !is_suspect(p, number, warp)) {
            continue;
        }
        NO_UNROLL
        for (int32_t key = key0; key < key0 + WARP_ROWS && key < block.sequence.keys; key++) {
            redo_key(p, &block, key);
        }
    }
}

// -------------------------------------------------------------------------------------------------
// dQ

// A warp's 16 rows of a block, `part` of them.
DEVICE void load_dq(const kernel_params_t *p, const struct query_block *block, uint32_t part,
                    float *dq)
{
    const float *sum = block_dq_sum(p, block->index) + part / 4 * (QK_PANELS * DQ_UNIT_FLOATS) +
                       part % 4 * (DQ_UNIT_FLOATS / 4) + thread_idx() % 32 * 4;
    UNROLL
    for (int i = 0; i < DQ_FLOATS / 4; i++) {
        uint32_t words[4];
        ld_global_v4_u32(words, sum + i / 8 * DQ_UNIT_FLOATS + i % 8 * 128);
        UNROLL
        for (int j = 0; j < 4; j++) {
            dq[4 * i + j] = f32_of_bits(words[j]);
        }
    }
}

// Rows whose sums are not finite, over what was staged for them.
DEVICE void redo_rows(const kernel_params_t *p, const struct query_block *block, int32_t row0,
                      uint32_t base, const float *dq)
{
    NO_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        float sum = r ? not_finite(dq, DQ_FLOATS, 1) : not_finite(dq, DQ_FLOATS, 0);
        uint32_t suspects = vote_ballot(!(sum == 0.0f));
        NO_UNROLL
        for (uint32_t quad = 0; quad < 8; quad++) {
            uint32_t staged_row = quad + 8 * r;
            int32_t row = row0 + (int32_t)staged_row;
            if ((suspects >> (4 * quad) & 0xf) && row < block->sequence.len_q) {
                redo_row(p, block, row, base, staged_row);
            }
        }
    }
}

DEVICE void convert_dq(const kernel_params_t *p, uint32_t base, const struct query_block *block,
                       uint32_t part)
{
    int32_t row0 = block->row0 + (int32_t)part * WARP_ROWS;
    int32_t rows = block->sequence.rows - row0;
    float factor[2];
    float dq[DQ_FLOATS];
    factor[0] = factor[1] = p->scale;
    if (rows <= 0) {
        return;
    }
    UNROLL
    for (int i = 0; i < DQ_FLOATS; i++) {
        dq[i] = 0.0f;
    }
    if (row0 < block->sequence.len_q) {
        load_dq(p, block, part, dq);
    }
    stage_rows(base, WARP_PANEL_BYTES, 0, dq, QK_PANELS * PANEL_COLUMNS, factor);
    warp_sync(); // what was staged, before what goes over it
    redo_rows(p, block, row0, base, dq);
    warp_sync();
    copy_rows_out(operand_row(&p->dq, block, row0), p->dq.stride_s, base, WARP_PANEL_BYTES,
                  rows < WARP_ROWS ? rows : WARP_ROWS, p->d_qk, thread_idx() % 32, 32);
    warp_sync(); // read before it is staged again
}

// -------------------------------------------------------------------------------------------------
// Padding

// Rows of a pack behind the last sequence. Shared out over the grid.
DEVICE void clear_padding(const attn_gpu_operand_t *out, const int32_t *cu_seqlens, int32_t batch,
                          int32_t total, int32_t heads, int32_t d)
{
    if (!out->data || !cu_seqlens) {
        return;
    }
    const uint32_t zeros[4] = {0, 0, 0, 0};
    int32_t first = length_at(cu_seqlens, batch, total);
    int32_t chunks = d / 8;
    int64_t count = (int64_t)(total - first) * heads * chunks;
    for (int64_t i = (int64_t)block_idx_x() * POSTPROCESS_THREADS + thread_idx(); i < count;
         i += (int64_t)grid_dim_x() * POSTPROCESS_THREADS) {
        int64_t row = first + i / chunks / heads;
        int64_t h = i / chunks % heads;
        st_global_v4_u32((uint16_t *)out->data + row * out->stride_s + h * out->stride_h +
                             i % chunks * 8,
                         zeros);
    }
}

KERNEL(ATTN_SM90_BACKWARD_POSTPROCESS_THREADS)
ATTN_CFG_KERNEL(const GRID_CONSTANT attn_gpu_backward_params_t p)
{
    uint32_t base = dynamic_smem() + thread_idx() / 32 * (QK_PANELS * WARP_PANEL_BYTES);
    int32_t heads_kv = p.heads_q / p.group;
    griddep_wait(); // the main kernel is over
    if (p.dq.data) {
        struct query_block block = query_block_of(&p, grid_dim_x() - 1 - block_idx_x());
        NO_UNROLL
        for (uint32_t part = thread_idx() / 32; part < BLOCK_M / WARP_ROWS;
             part += POSTPROCESS_WARPS) {
            convert_dq(&p, base, &block, part);
        }
    }
    NO_UNROLL
    for (uint32_t number = block_idx_x(); number < p.tiles.count; number += grid_dim_x()) {
        redo_suspects(&p, number);
    }
    NO_UNROLL
    for (uint32_t h = block_idx_x(); p.sink && h < (uint32_t)p.heads_q; h += grid_dim_x()) {
        sum_dsink(&p, (int32_t)h, dynamic_smem(), POSTPROCESS_THREADS);
    }
    clear_padding(&p.dq, p.lengths.cu_seqlens_q, p.lengths.batch, p.lengths.total_q, p.heads_q,
                  p.d_qk);
    clear_padding(&p.dk, p.lengths.cu_seqlens_kv, p.lengths.batch, p.lengths.total_kv, heads_kv,
                  p.d_qk);
    clear_padding(&p.dv, p.lengths.cu_seqlens_kv, p.lengths.batch, p.lengths.total_kv, heads_kv,
                  p.d_v);
}
