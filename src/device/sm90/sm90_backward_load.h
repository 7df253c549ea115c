// The load role of the backward kernel: a thread of warp 0 brings K once a tile and Q with its lse
// block by block, for one query head of the group after the other; a thread of warp 2 does so with
// V, dO and delta. Two threads, because the registers of one do not hold all that they must know.
#ifndef ATTN_SM90_BACKWARD_LOAD_H
#define ATTN_SM90_BACKWARD_LOAD_H

#include "../common/pipe.h"
#include "../ptx/bulk.h"
#include "../ptx/mbarrier.h"
#include "../ptx/tma.h"
#include "sm90_backward_tile.h"

// Q and dO are read by the other key tiles of the head: keep them. K and V are read once.
#define POLICY_EVICT_LAST 0x14f0000000000000u
#define POLICY_EVICT_FIRST 0x12f0000000000000u

// Where a tile is in memory.
struct place {
    int32_t row;
    int32_t h;
    int32_t b;
};

// `rows` rows of a tile, in boxes.
DEVICE void load_panels(uint32_t dst, const tensor_map *map, uint32_t full,
                        const struct place *place, int panels, int rows, uint64_t policy)
{
    UNROLL
    for (int panel = 0; panel < panels; panel++) {
        UNROLL
        for (int box = 0; box < rows / BOX_ROWS; box++) {
            tma_load_4d_hint(dst + (uint32_t)(panel * rows * PANEL_ROW_BYTES + box * BOX_BYTES),
                             map, full, panel * PANEL_COLUMNS, place->row + box * BOX_ROWS,
                             place->h, place->b, policy);
        }
    }
}

// What a thread brings: Q with lse, and K; or dO with delta, and V. Literals to the compiler.
struct stream {
    const tensor_map *rows_map;
    const tensor_map *edge_map;
    const tensor_map *keys_map;
    uint32_t rows; // shared addresses of the first buffers and barriers
    uint32_t stats;
    uint32_t full;
    uint32_t keys;
    int panels;
    int stats_row; // 0: lse, 1: delta
};

DEVICE struct stream q_stream(const kernel_params_t *p, uint32_t smem)
{
    struct stream stream = {&p->q_map,     &p->q_edge_map,  &p->k_map,
                            smem + SMEM_Q, smem + SMEM_LSE, smem + SMEM_Q_FULL,
                            smem + SMEM_K, QK_PANELS,       0};
    return stream;
}

DEVICE struct stream do_stream(const kernel_params_t *p, uint32_t smem)
{
    struct stream stream = {&p->do_map,     &p->do_edge_map,   &p->v_map,
                            smem + SMEM_DO, smem + SMEM_DELTA, smem + SMEM_DO_FULL,
                            smem + SMEM_V,  V_PANELS,          1};
    return stream;
}

DEVICE void load_keys(const kernel_params_t *p, uint32_t smem, const struct stream *stream,
                      uint32_t slot)
{
    struct tile tile;
    tile_read(slot, &tile);
    struct place place = {tile.kv_start + tile.key0, tile.h_kv,
                          p->lengths.cu_seqlens_kv ? 0 : tile.b};
    mbarrier_arrive_expect_tx(smem + SMEM_KV_FULL, (uint32_t)stream->panels * KEYS_PANEL_BYTES);
    load_panels(stream->keys, stream->keys_map, smem + SMEM_KV_FULL, &place, stream->panels,
                BLOCK_N, POLICY_EVICT_FIRST);
}

// One block of one query head. Where the tile is, is read anew from its slot: few registers.
DEVICE void load_rows(const kernel_params_t *p, uint32_t smem, const struct stream *stream,
                      struct pipe *pipe, uint32_t slot, int32_t h, int32_t block)
{
    struct tile tile;
    tile_read(slot, &tile);
    uint32_t bytes = (uint32_t)stream->panels * ROWS_PANEL_BYTES;
    uint32_t full = stream->full + 8 * pipe->stage;
    int32_t row0 = block * BLOCK_M;
    struct place place = {tile.q_start + row0, h, p->lengths.cu_seqlens_q ? 0 : tile.b};
    const tensor_map *map = stream->rows_map;
    if (is_edge_block(p, row0, tile.len_q)) {
        place.row = 0;
        place.b = tile.b;
        map = stream->edge_map;
    }
    mbarrier_wait(smem + SMEM_Q_EMPTY + 8 * pipe->stage, pipe->phase ^ 1); // keys gave it back
    mbarrier_arrive_expect_tx(full, bytes + STATS_BYTES);
    load_panels(stream->rows + pipe->stage * bytes, map, full, &place, stream->panels, BLOCK_M,
                POLICY_EVICT_LAST);
    bulk_load(stream->stats + pipe->stage * STATS_BYTES,
              block_stats(p, block_index(p, h, tile.block0 + block)) + stream->stats_row * BLOCK_M,
              STATS_BYTES, full);
    pipe_advance(pipe, STAGES);
}

DEVICE void load_tile(const kernel_params_t *p, uint32_t smem, const struct stream *stream,
                      struct pipe *pipe, uint32_t kv_phase, uint32_t slot)
{
    struct tile tile;
    tile_read(slot, &tile);
    int32_t count = (tile.block_end - tile.block_begin) * p->group;
    if (count > 0) {
        load_rows(p, smem, stream, pipe, slot, tile.h_kv * p->group, block_at(&tile, 0));
    }
    mbarrier_wait(smem + SMEM_KV_EMPTY, kv_phase ^ 1); // the last tile is stored
    if (count == 0) {
        mbarrier_arrive(smem + SMEM_KV_FULL); // nothing sees the keys: the buffer alone, for dK, dV
        return;
    }
    load_keys(p, smem, stream, slot);
    NO_UNROLL
    for (int32_t i = 1; i < count; i++) {
        tile_read(slot, &tile);
        int32_t blocks = tile.block_end - tile.block_begin;
        load_rows(p, smem, stream, pipe, slot, tile.h_kv * p->group + i / blocks,
                  block_at(&tile, i % blocks));
    }
}

DEVICE void load_tiles(const kernel_params_t *p, uint32_t smem, struct stream stream)
{
    struct pipe pipe = {0, 0};
    NO_UNROLL
    for (uint32_t count = 0;; count++) {
        uint32_t s = count % TILE_SLOTS;
        uint32_t slot = smem + SMEM_TILES + TILE_BYTES * s;
        // schedule published a tile
        mbarrier_wait(smem + SMEM_TILE_FULL + 8 * s, count / TILE_SLOTS & 1);
        if (tile_is_end(slot)) {
            return;
        }
        load_tile(p, smem, &stream, &pipe, count & 1, slot);
        mbarrier_arrive(smem + SMEM_TILE_EMPTY + 8 * s);
        mbarrier_arrive(smem + SMEM_TILE_WANTED);
    }
}

#endif
