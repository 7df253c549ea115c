// The end of a tile: sums, sink and LSE; O through shared memory to the output by TMA.
#ifndef ATTN_SM90_FORWARD_STORE_H
#define ATTN_SM90_FORWARD_STORE_H

#include "../../shared/exp2.h"
#include "../common/careful_row.h"
#include "../ptx/barrier.h"
#include "../ptx/bulk.h"
#include "../ptx/fence.h"
#include "../ptx/tma.h"
#include "sm90_forward_rows.h"
#include "sm90_forward_softmax.h"
#include "sm90_gather.h"

// Beyond this the rounding of the anchor, 2^-24 of it, may be felt in exp2.
#define ANCHOR_TRUSTED 1048576.0f

// Of o, in memory.
enum { O_CHUNK = 16 / ATTN_CFG_O_BYTES }; // elements of 16 bytes

DEVICE unsigned char *output_row(const attn_gpu_forward_params_t *p, const struct tile *tile,
                                 int32_t row)
{
    return (unsigned char *)p->o.data + row_offset(p, &p->o, tile, row) * ATTN_CFG_O_BYTES;
}

// Between elements of a row. The compiler would work out its multiples before the loop over tiles,
// in registers that O needs.
DEVICE int64_t stride_of_elements(const attn_gpu_elements_t *elements)
{
    return ATTN_CFG_GATHER ? (int64_t)kept_u64((uint64_t)elements->stride_d) : 1;
}

DEVICE void store_element(const attn_gpu_forward_params_t *p, unsigned char *row, int32_t column,
                          float x)
{
    int64_t at = column * stride_of_elements(&p->gather.o);
    if (ATTN_CFG_O_BYTES == 4) {
        st_global_f32(row + 4 * at, x);
    } else {
        st_global_u16(row + 2 * at, PACK_X2(x, 0.0f));
    }
}

// A thread's two rows: whether they are in use, and then what their heads have for a sink.
struct row_pair {
    int is_used[2];
    float sink[2];
};

// What became of them.
struct row_ends {
    float factor[2]; // O is multiplied by it
    float lse[2];
    uint32_t is_careful[2]; // to be computed again, the same in the row's four lanes
};

DEVICE float quad_sum(float x)
{
    x += shuffle_xor_f32(x, 1);
    return x + shuffle_xor_f32(x, 2);
}

DEVICE float sink_of(const attn_gpu_forward_params_t *p, int32_t h)
{
    return p->sink ? ld_global_f32(p->sink + h) : -INFINITY_F32;
}

DEVICE struct row_pair row_pair_of(const attn_gpu_forward_params_t *p, const struct tile *tile,
                                   int32_t row)
{
    struct row_pair pair;
    UNROLL
    for (int r = 0; r < 2; r++) {
        int32_t of_tile = row + 8 * r;
        int is_used = row_is_there(p, tile, of_tile) && position_of_row(of_tile) < tile->len_q;
        pair.is_used[r] = is_used;
        pair.sink[r] = is_used ? sink_of(p, head_of_row(tile, of_tile)) : -INFINITY_F32;
    }
    return pair;
}

// A row that is not in use has been through blocks without mask code: what it has is dropped here.
// An anchor that never moved belongs to a row that sees nothing, or only scores below all floats.
// Such a row is common where keys are picked one by one: no weight at all says that every score was
// -inf.
DEVICE void end_rows(const attn_gpu_forward_params_t *p, const float *o,
                     const struct softmax *state, const struct row_pair *rows,
                     struct row_ends *ends)
{
    UNROLL
    for (int r = 0; r < 2; r++) {
        float sum = quad_sum(state->sum[r]);
        float anchor = state->anchor[r];
        int is_used = rows->is_used[r];
        float sink = rows->sink[r];
        int is_empty = KEYS_ARE_PICKED && anchor == ANCHOR_NONE && sum == 0.0f;
        float sink_log2 = sink * ATTN_LOG2_E;
        float high = max_f32(anchor, sink_log2);
        float rescale = ex2_approx(anchor - high);
        sum = fma_f32(sum, rescale, ex2_approx(sink_log2 - high));
        ends->factor[r] = is_used && !is_empty ? rescale * rcp_approx(sum) : 0.0f;
        ends->lse[r] = !is_used   ? -INFINITY_F32
                       : is_empty ? sink
                                  : (high + lg2_approx(sum)) * ATTN_LN_2;
        ends->is_careful[r] =
            !(quad_sum(not_finite(o, D_V / 2, r)) == 0.0f) ||
            !((anchor <= ANCHOR_TRUSTED && anchor >= -ANCHOR_TRUSTED) || is_empty);
        if (ATTN_CFG_DROPOUT) {
            ends->factor[r] *= p->score.dropout_scale;
        }
    }
}

// A tile that looked at no key.
DEVICE void end_empty_rows(const struct row_pair *rows, struct row_ends *ends)
{
    UNROLL
    for (int r = 0; r < 2; r++) {
        ends->factor[r] = 0.0f;
        ends->lse[r] = rows->sink[r];
        ends->is_careful[r] = 0;
    }
}

DEVICE void store_lse(const attn_gpu_forward_params_t *p, const struct tile *tile, int32_t row,
                      float lse)
{
    if (p->lse && row_is_there(p, tile, row)) {
        int64_t b = p->lengths.cu_seqlens_q ? 0 : tile->b;
        int64_t at = b * p->lse_stride_b + head_of_row(tile, row) * p->lse_stride_h +
                     (tile->q_start + position_of_row(row)) * p->lse_stride_s;
        st_global_f32(p->lse + at, lse);
    }
}

// The rows of a warp that need it, one after the other, over what was staged for them.
DEVICE void redo_rows(const attn_gpu_forward_params_t *p, uint32_t staging, uint32_t group,
                      const struct tile *tile, const struct row_ends *ends)
{
    uint32_t lane = thread_idx() % 32;
    uint32_t careful_0 = vote_ballot(ends->is_careful[0]);
    uint32_t careful_8 = vote_ballot(ends->is_careful[1]);
    NO_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t careful = r ? careful_8 : careful_0;
        NO_UNROLL
        for (uint32_t quad = 0; quad < 8; quad++) {
            uint32_t row = thread_idx() / 32 % 4 * 16 + quad + 8 * r;
            int32_t tile_row = tile->row0 + (int32_t)(group * WARPGROUP_M + row);
            if (!(careful >> (4 * quad) & 1) || !row_is_there(p, tile, tile_row)) {
                continue;
            }
            int32_t i = position_of_row(tile_row);
            int32_t h = head_of_row(tile, tile_row);
            attn_mask_shape_t shape = mask_shape(p, tile);
            attn_range_t keys = attn_row_kv_range(&shape, i);
            uint32_t is_used = i < tile->len_q;
            struct careful_row careful_row;
            careful_row.q = query_row(p, tile, tile_row);
            careful_row.k = kv_rows_of(p, &p->k, tile);
            careful_row.v = kv_rows_of(p, &p->v, tile);
            careful_row.q_stride_d = stride_of_elements(&p->gather.q);
            careful_row.k_stride_d = stride_of_elements(&p->gather.k);
            careful_row.v_stride_d = stride_of_elements(&p->gather.v);
            careful_row.key_begin = keys.begin;
            careful_row.key_end = is_used ? keys.end : keys.begin;
            careful_row.scale = SCORES_ARE_MODIFIED ? 1.0f : p->scale;
            careful_row.sink = is_used ? sink_of(p, h) : -INFINITY_F32;
            careful_row.score.p = p;
            careful_row.score.b = tile->b;
            careful_row.score.h = h;
            careful_row.score.i = i;
            careful_row.score.position = i + shape.offset;
            if (HAS_TILE_MAP) {
                careful_row.score.words = tile_words(p, tile);
            }
            float o[(D_V + 31) / 32];
            float lse = careful_row_forward(&careful_row, p->d_qk, p->d_v, o);
            UNROLL
            for (uint32_t n = 0; n < (D_V + 31) / 32; n++) {
                uint32_t column = lane + 32 * n;
                if (ATTN_CFG_O_BYTES == 4 && column < (uint32_t)p->d_v) {
                    store_element(p, output_row(p, tile, tile_row), (int32_t)column, o[n]);
                }
                if (ATTN_CFG_O_BYTES == 2 && column < D_V) {
                    st_shared_u16(panel_address(staging, ROWS_PANEL_BYTES, row, column),
                                  PACK_X2(o[n], 0.0f) & 0xffff);
                }
            }
            if (lane == 0) {
                store_lse(p, tile, tile_row, lse);
            }
        }
    }
}

// A thread's columns of an fp32 row whose elements may lie apart. Their addresses are walked: kept,
// they would be many registers.
DEVICE void scatter_fragment_row(const attn_gpu_forward_params_t *p, unsigned char *row, int r,
                                 const float *o, float factor)
{
    int32_t columns = p->d_v - (int32_t)(thread_idx() % 4 * 2); // from the thread's first one on
    uint64_t step = (uint64_t)stride_of_elements(&p->gather.o) * 4;
    unsigned char *element = row + thread_idx() % 4 * 2 * step;
    UNROLL
    for (int n = 0; n < D_V / 8; n++) {
        if (8 * n < columns) {
            st_global_f32(element, o[4 * n + 2 * r] * factor);
        }
        if (8 * n + 1 < columns) {
            st_global_f32(element + step, o[4 * n + 2 * r + 1] * factor);
        }
        element += kept_u64(8 * step);
    }
}

// An fp32 O straight from the registers: four lanes write 32 bytes of a row.
DEVICE void store_fragments(const attn_gpu_forward_params_t *p, const struct tile *tile,
                            int32_t row0, const float *o, const struct row_ends *ends)
{
    int32_t column = (int32_t)(thread_idx() % 4 * 2);
    UNROLL
    for (int r = 0; r < 2; r++) {
        int32_t row = row0 + 8 * r;
        if (!row_is_there(p, tile, row) || ends->is_careful[r]) {
            continue;
        }
        unsigned char *out = output_row(p, tile, row);
        if (ATTN_CFG_GATHER) {
            scatter_fragment_row(p, out, r, o, ends->factor[r]);
        }
        UNROLL
        for (int n = 0; n < D_V / 8; n++) {
            if (!ATTN_CFG_GATHER && column + 8 * n < p->d_v) {
                st_global_v2_f32(out + 4 * (column + 8 * n), o[4 * n + 2 * r] * ends->factor[r],
                                 o[4 * n + 2 * r + 1] * ends->factor[r]);
            }
        }
    }
}

// What was staged, for rows and columns that a TMA store would not stop at.
DEVICE void copy_staged(const attn_gpu_forward_params_t *p, const struct tile *tile, int32_t row0,
                        uint32_t staging)
{
    int32_t chunks = (p->d_v + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS;
    NO_UNROLL
    for (int32_t i = (int32_t)(thread_idx() % WARPGROUP_THREADS); i < WARPGROUP_M * chunks;
         i += WARPGROUP_THREADS) {
        int32_t row = i / chunks;
        int32_t column = (i - row * chunks) * CHUNK_COLUMNS;
        uint32_t chunk[CHUNK_COLUMNS / 2];
        if (!row_is_there(p, tile, row0 + row)) {
            continue;
        }
        ld_shared_v4_u32(chunk,
                         panel_address(staging, ROWS_PANEL_BYTES, (uint32_t)row, (uint32_t)column));
        uint16_t *out = (uint16_t *)output_row(p, tile, row0 + row);
        if (ATTN_CFG_GATHER) {
            scatter_chunk(out + column * p->gather.o.stride_d, &p->gather.o, p->d_v - column,
                          chunk);
        } else {
            st_global_v4_u32(out + column, chunk);
        }
    }
}

// Whether a TMA store's box ends where the sequence and the group of heads do: memory behind them
// belongs to others.
DEVICE int box_is_ours(const attn_gpu_forward_params_t *p, const struct tile *tile, int32_t row0)
{
    int ends_in_sequence =
        !p->lengths.cu_seqlens_q || position_of_row(row0) + WARPGROUP_M / PACK_HEADS <= tile->rows;
    int ends_in_group = PACK_HEADS == 1 || tile->h + PACK_HEADS <= (tile->h_kv + 1) * p->group;
    return ends_in_sequence && ends_in_group;
}

DEVICE void store_box(const attn_gpu_forward_params_t *p, const struct tile *tile, int32_t row0,
                      uint32_t staging)
{
    int32_t position = tile->q_start + position_of_row(row0);
    UNROLL
    for (int panel = 0; panel < V_PANELS; panel++) {
        tma_store_4d(&p->o_map, staging + panel * ROWS_PANEL_BYTES, panel * PANEL_COLUMNS,
                     PACK_HEADS > 1 ? tile->h : position, PACK_HEADS > 1 ? position : tile->h,
                     p->lengths.cu_seqlens_q ? 0 : tile->b);
    }
    bulk_commit_group();
}

DEVICE void store_tile(const attn_gpu_forward_params_t *p, uint32_t staging, uint32_t group,
                       uint32_t slot, const float *o, const struct softmax *state)
{
    struct tile tile;
    tile_read(slot, &tile);
    int32_t row0 = tile.row0 + (int32_t)group * WARPGROUP_M;
    int32_t row = row0 + row_of_thread();
    uint32_t is_first = thread_idx() % WARPGROUP_THREADS == 0;
    struct row_pair rows = row_pair_of(p, &tile, row);
    struct row_ends ends;
    if (tile.block_begin < tile.block_end) {
        end_rows(p, o, state, &rows, &ends);
    } else {
        end_empty_rows(&rows, &ends);
    }
    if (ATTN_CFG_O_BYTES == 4) {
        store_fragments(p, &tile, row, o, &ends);
    } else {
        if (is_first) {
            bulk_wait_group_read(0); // the last tile's store has read the staging buffer
        }
        barrier_sync(BARRIER_GROUP + group, WARPGROUP_THREADS);
        stage_rows(staging, ROWS_PANEL_BYTES, thread_idx() / 32 % 4 * 16, o, D_V, ends.factor);
    }
    UNROLL
    for (int r = 0; r < 2; r++) {
        if (thread_idx() % 4 == 0 && !ends.is_careful[r]) {
            store_lse(p, &tile, row + 8 * r, ends.lse[r]);
        }
    }
    if (vote_any(ends.is_careful[0] | ends.is_careful[1])) {
        warp_sync(); // what was staged, before what goes over it
        redo_rows(p, staging, group, &tile, &ends);
    }
    if (ATTN_CFG_O_BYTES == 4) {
        return;
    }
    fence_proxy_async(); // staging before the TMA store
    barrier_sync(BARRIER_GROUP + group, WARPGROUP_THREADS);
    if (ATTN_CFG_GATHER || !box_is_ours(p, &tile, row0)) {
        copy_staged(p, &tile, row0, staging);
        barrier_sync(BARRIER_GROUP + group, WARPGROUP_THREADS); // read before it is staged again
    } else if (is_first) {
        store_box(p, &tile, row0, staging);
    }
}

// Rows of the pack behind the last sequence: o = 0, lse = -inf. Shared out over the grid, in chunks
// of 16 bytes where memory allows.
DEVICE void store_padding(const attn_gpu_forward_params_t *p, uint32_t thread, uint32_t threads)
{
    int32_t first = length_at(p->lengths.cu_seqlens_q, p->lengths.batch, p->lengths.total_q);
    const uint32_t zeros[4] = {0, 0, 0, 0};
    int32_t chunks = ATTN_CFG_GATHER ? p->d_v : p->d_v / O_CHUNK;
    int64_t count = (int64_t)(p->lengths.total_q - first) * p->heads_q * chunks;
    for (int64_t i = (int64_t)block_idx_x() * threads + thread; i < count;
         i += (int64_t)grid_dim_x() * threads) {
        int64_t row = first + i / chunks / p->heads_q;
        int64_t h = i / chunks % p->heads_q;
        unsigned char *out = (unsigned char *)p->o.data +
                             (row * p->o.stride_s + h * p->o.stride_h) * ATTN_CFG_O_BYTES;
        if (ATTN_CFG_GATHER) {
            store_element(p, out, (int32_t)(i % chunks), 0.0f);
        } else {
            st_global_v4_u32(out + i % chunks * 16, zeros);
        }
        if (p->lse && i % chunks == 0) {
            st_global_f32(p->lse + h * p->lse_stride_h + row * p->lse_stride_s, -INFINITY_F32);
        }
    }
}

#endif
