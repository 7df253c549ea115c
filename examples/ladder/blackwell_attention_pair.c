// Level 6: attention forward on Blackwell by pairs of CTAs, bf16, head dim 128: 256 rows of queries
// for each pair.
//
// out = softmax(scale * Q K^T) V, causal (bottom-right aligned) or not, with the log-sum-exp of
// each row.
//
// What it shows beside level 5: two CTAs of a cluster multiply as one. Each has 128 rows of
// queries, scores and output, and half of every K and V block; one thread of CTA 0 issues for both,
// and the tensor cores read what they need from either shared memory. So a block is loaded once for
// 256 rows, and each CTA needs half the room for it.
//
// Who has what, CTA r of the pair:
//   Q, S, P, O   rows 128 r .. 128 r + 127
//   K            keys 64 r .. 64 r + 63 of the block, all of d: half of n of S = Q K^T
//   V            all keys of the block, columns 64 r .. 64 r + 63: half of n of O += P V
//
// Roles in each CTA (192 threads, 6 warps)
//   softmax  warps 0 to 3             a query row each: S to P, rescales O, at the end O to the
//   output load     warp 4, one thread       its part of Q once, then of K and V, last block first
//   mma      warp 5                   allocates tensor memory; in CTA 0 one thread issues for both
//
// Pipeline: as level 5, both CTAs in step.
//
//   tensor cores  S0 S1 |       O0 S2 |       O1 S3 | ...       O(n-1)
//   softmax             softmax S0 |  softmax S1 |  softmax S2 | ...   out
//
// Shared memory of a CTA (bytes from the base; tiles are panels of 64 columns, 128 bytes wide,
// swizzled)
//   Q  128 x 128    later reused for the output tile
//   K  STAGES x 64 x 128
//   V  STAGES x 128 x 64
//   mbarriers, the address of the tensor memory
//
// Tensor memory of a CTA, lane = query row (columns)
//   S0 0-127 | S1 128-255 | O 256-383 | P 384-447, two bf16 in each
//
// Barriers. Those that mma waits for are in CTA 0 and count what both CTAs do; those that it
// signals are in both: a commit arrives at the same offset in each.
//                        count   arrives                                waits
//   Q full                 1     load of CTA 0 (bytes of both)          mma
//   K full, V full [s]     1     load of CTA 0 (bytes of both)          mma
//   P full               256     softmax of both: P is written, O       mma
//                                rescaled, S has been read
//   K empty, V empty [s]   1     commit after S, after O                load of each
//   S full [2]             1     commit after S                         softmax of each
//   O full                 1     commit after O                         softmax of each
//   barrier 1            128     softmax of a CTA, before the output tile is stored
//   cluster                      at the start, for the mbarriers; at the end, since a CTA must not
//   leave
//                                while the other one's tensor core or arrivals may still reach it
//
// Knobs: STAGES. Online softmax in base 2; every block is rescaled (no threshold): the plainest
// form. Correct on the emulator; it never ran on a GPU.
#include "../../src/device/common/pipe.h"
#include "../../src/device/common/tcgen05_descriptor.h"
#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tcgen05.h"
#include "../../src/device/ptx/tma.h"
#include "../../src/device/ptx/tma_pair.h"
#include "../../src/device/ptx/warp.h"
#include "blackwell_softmax.h"

#if HEAD_DIM != 128
#error "half of V must be one panel of 64 columns: head dim 128"
#endif

enum {
    PAIR_M = 256,  // query rows of a pair
    BOTH_CTAS = 3, // a mask
    STAGES = 2,
    LOAD_WARP = 4,
    MMA_WARP = 5,
    ATTENTION_THREADS = 192,
    MMA_K = 16,                                    // of one tcgen05.mma
    TILE_BYTES = CTA_M * HEAD_DIM * 2,             // Q
    HALF_BYTES = BLOCK_N / 2 * HEAD_DIM * 2,       // of a block of K or V
    PANEL_BYTES_K = BLOCK_N / 2 * PANEL_ROW_BYTES, // 64 keys
    SMEM_Q = 0,
    SMEM_K = SMEM_Q + TILE_BYTES,
    SMEM_V = SMEM_K + STAGES * HALF_BYTES,
    SMEM_Q_FULL = SMEM_V + STAGES * HALF_BYTES,
    SMEM_K_FULL = SMEM_Q_FULL + 8,
    SMEM_V_FULL = SMEM_K_FULL + 8 * STAGES,
    SMEM_K_EMPTY = SMEM_V_FULL + 8 * STAGES,
    SMEM_V_EMPTY = SMEM_K_EMPTY + 8 * STAGES,
    SMEM_S_FULL = SMEM_V_EMPTY + 8 * STAGES,
    SMEM_P_FULL = SMEM_S_FULL + 8 * 2,
    SMEM_O_FULL = SMEM_P_FULL + 8,
    SMEM_TENSOR_ADDRESS = SMEM_O_FULL + 8,
    ATTENTION_SMEM_BYTES = SMEM_TENSOR_ADDRESS + 8,
    TENSOR_COLUMNS = 512, // allocated
    TENSOR_S = 0,         // two of BLOCK_N columns
    TENSOR_O = 256,       // HEAD_DIM columns
    TENSOR_P = 384        // BLOCK_N / 2 columns
};

// ---- load

// Into the own shared memory; the bytes count on CTA 0's mbarrier, which expects those of both.
DEVICE void load_panel(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t column,
                       int32_t row, const struct tile *tile)
{
    tma_load_pair_4d(dst, map, cluster_map(bar, 0), column, row, tile->head, tile->batch);
}

DEVICE void expect_both(uint32_t bar, uint32_t bytes)
{
    if (cluster_rank() == 0) {
        mbarrier_arrive_expect_tx(bar, 2 * bytes);
    }
}

DEVICE void load_q(const struct blackwell_attention_params *p, uint32_t smem,
                   const struct tile *tile)
{
    expect_both(smem + SMEM_Q_FULL, TILE_BYTES);
    UNROLL
    for (int panel = 0; panel < PANELS; panel++) {
        load_panel(smem + SMEM_Q + panel * PANEL_BYTES, &p->q, smem + SMEM_Q_FULL,
                   panel * PANEL_COLUMNS, tile->row0, tile);
    }
}

DEVICE void load_tiles(const struct blackwell_attention_params *p, uint32_t smem,
                       const struct tile *tile)
{
    if (tile->blocks == 0) {
        return;
    }
    load_q(p, smem, tile);
    struct pipe pipe = {0, 0};
    for (int32_t block = tile->blocks - 1; block >= 0; block--) {
        uint32_t s = pipe.stage;
        int32_t key = block * BLOCK_N;
        mbarrier_wait_cluster(smem + SMEM_K_EMPTY + 8 * s, pipe.phase ^ 1); // mma is done with K
        expect_both(smem + SMEM_K_FULL + 8 * s, HALF_BYTES);
        UNROLL
        for (int panel = 0; panel < PANELS; panel++) {
            load_panel(smem + SMEM_K + s * HALF_BYTES + panel * PANEL_BYTES_K, &p->k,
                       smem + SMEM_K_FULL + 8 * s, panel * PANEL_COLUMNS,
                       key + (int32_t)cluster_rank() * BLOCK_N / 2, tile);
        }
        mbarrier_wait_cluster(smem + SMEM_V_EMPTY + 8 * s, pipe.phase ^ 1); // mma is done with V
        expect_both(smem + SMEM_V_FULL + 8 * s, HALF_BYTES);
        load_panel(smem + SMEM_V + s * HALF_BYTES, &p->v, smem + SMEM_V_FULL + 8 * s,
                   (int32_t)cluster_rank() * PANEL_COLUMNS, key, tile);
        pipe_advance(&pipe, STAGES);
    }
}

// ---- mma, in CTA 0: the same offsets and columns are meant in both CTAs

// S[256][128] = Q K^T. A k step of 16 is 32 bytes within a swizzled row; four steps, then the next
// panel.
DEVICE void issue_s(uint32_t s, uint32_t q, uint32_t k)
{
    uint32_t idesc = tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, PAIR_M, BLOCK_N, 0, 0);
    UNROLL
    for (uint32_t i = 0; i < HEAD_DIM / MMA_K; i++) {
        uint32_t step = i % 4 * 32;
        tcgen05_mma_f16_ss_pair(s,
                                tcgen05_matrix_descriptor(q + i / 4 * PANEL_BYTES + step, 0,
                                                          PATTERN_BYTES, TCGEN05_SWIZZLE_128),
                                tcgen05_matrix_descriptor(k + i / 4 * PANEL_BYTES_K + step, 0,
                                                          PATTERN_BYTES, TCGEN05_SWIZZLE_128),
                                idesc, i != 0);
    }
}

// O[256][128] += P V: P from tensor memory, V as it lies, keys by d: its contiguous side is n.
DEVICE void issue_o(uint32_t tensor, uint32_t v, uint32_t accumulate)
{
    uint32_t idesc = tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, PAIR_M, HEAD_DIM, 0, 1);
    UNROLL
    for (uint32_t i = 0; i < BLOCK_N / MMA_K; i++) {
        tcgen05_mma_f16_ts_pair(tensor + TENSOR_O, tensor + TENSOR_P + i * MMA_K / 2,
                                tcgen05_matrix_descriptor(v + i * 2 * PATTERN_BYTES, PANEL_BYTES,
                                                          PATTERN_BYTES, TCGEN05_SWIZZLE_128),
                                idesc, accumulate || i != 0);
    }
}

// S of the block goes where S of the one before the last was, whose P has come since.
DEVICE void multiply_s(uint32_t smem, uint32_t tensor, struct pipe *pipe, int32_t block)
{
    mbarrier_wait_cluster(smem + SMEM_K_FULL + 8 * pipe->stage, pipe->phase); // load brought K
    issue_s(tensor + TENSOR_S + (uint32_t)block % 2 * BLOCK_N, smem + SMEM_Q,
            smem + SMEM_K + pipe->stage * HALF_BYTES);
    tcgen05_commit_pair_multicast(smem + SMEM_K_EMPTY + 8 * pipe->stage, BOTH_CTAS);
    tcgen05_commit_pair_multicast(smem + SMEM_S_FULL + 8 * ((uint32_t)block % 2), BOTH_CTAS);
    pipe_advance(pipe, STAGES);
}

// Blocks are counted from 0 here, in the order of the loads.
DEVICE void multiply_tiles(uint32_t smem, uint32_t tensor, const struct tile *tile)
{
    if (tile->blocks == 0) {
        return;
    }
    struct pipe k_pipe = {0, 0};
    struct pipe v_pipe = {0, 0};
    mbarrier_wait_cluster(smem + SMEM_Q_FULL, 0); // load brought Q
    multiply_s(smem, tensor, &k_pipe, 0);
    for (int32_t block = 0; block < tile->blocks; block++) {
        if (block + 1 < tile->blocks) {
            multiply_s(smem, tensor, &k_pipe, block + 1);
        }
        mbarrier_wait_cluster(smem + SMEM_V_FULL + 8 * v_pipe.stage,
                              v_pipe.phase);                            // load brought V
        mbarrier_wait_cluster(smem + SMEM_P_FULL, (uint32_t)block & 1); // softmax wrote P
        tcgen05_fence_after();
        issue_o(tensor, smem + SMEM_V + v_pipe.stage * HALF_BYTES, block != 0);
        tcgen05_commit_pair_multicast(smem + SMEM_V_EMPTY + 8 * v_pipe.stage, BOTH_CTAS);
        tcgen05_commit_pair_multicast(smem + SMEM_O_FULL, BOTH_CTAS);
        pipe_advance(&v_pipe, STAGES);
    }
}

// ---- softmax

DEVICE void softmax_tile(const struct blackwell_attention_params *p, uint32_t smem, uint32_t tensor,
                         const struct tile *tile)
{
    // A warp may touch only its own 32 lanes.
    uint32_t mine = tensor + (thread_idx() / 32 * 32 << 16);
    int32_t limit = key_limit(p, tile->row0 + (int32_t)thread_idx());
    struct softmax state = {-INFINITY_F32, 0.0f, 0.0f};
    for (int32_t block = 0; block < tile->blocks; block++) {
        uint32_t s[BLOCK_N];
        uint32_t packed[BLOCK_N / 2];
        uint32_t buffer = (uint32_t)block % 2;
        mbarrier_wait_cluster(smem + SMEM_S_FULL + 8 * buffer,
                              (uint32_t)block / 2 & 1); // mma made S
        tcgen05_fence_after();
        UNROLL
        for (uint32_t part = 0; part < BLOCK_N; part += 32) {
            tcgen05_ld_32x32b(32, s + part, mine + TENSOR_S + buffer * BLOCK_N + part);
        }
        tcgen05_wait_ld();
        softmax_row(packed, s, &state, p, limit, (tile->blocks - 1 - block) * BLOCK_N);
        if (block > 0) {
            mbarrier_wait_cluster(smem + SMEM_O_FULL,
                                  (uint32_t)(block - 1) & 1); // mma is done with P
            tcgen05_fence_after();
            rescale_o(mine + TENSOR_O, state.rescale);
        }
        tcgen05_st_32x32b(32, mine + TENSOR_P, packed);
        tcgen05_st_32x32b(32, mine + TENSOR_P + 32, packed + 32);
        tcgen05_wait_st();
        tcgen05_fence_before();
        mbarrier_arrive_cluster(cluster_map(smem + SMEM_P_FULL, 0)); // CTA 0 issues
    }
    if (tile->blocks > 0) {
        mbarrier_wait_cluster(smem + SMEM_O_FULL,
                              (uint32_t)(tile->blocks - 1) & 1); // O is complete
        tcgen05_fence_after();
    }
    store_tile(p, smem + SMEM_Q, mine + TENSOR_O, &state, tile);
}

DEVICE void init_barriers(uint32_t smem)
{
    mbarrier_init(smem + SMEM_Q_FULL, 1);
    for (uint32_t s = 0; s < STAGES; s++) {
        mbarrier_init(smem + SMEM_K_FULL + 8 * s, 1);
        mbarrier_init(smem + SMEM_V_FULL + 8 * s, 1);
        mbarrier_init(smem + SMEM_K_EMPTY + 8 * s, 1);
        mbarrier_init(smem + SMEM_V_EMPTY + 8 * s, 1);
    }
    mbarrier_init(smem + SMEM_S_FULL, 1);
    mbarrier_init(smem + SMEM_S_FULL + 8, 1);
    mbarrier_init(smem + SMEM_P_FULL, 2 * SOFTMAX_THREADS);
    mbarrier_init(smem + SMEM_O_FULL, 1);
    fence_mbarrier_init();
}

KERNEL_CLUSTER(192, 2)
blackwell_attention_pair(const GRID_CONSTANT struct blackwell_attention_params p)
{
    uint32_t smem = dynamic_smem();
    uint32_t warp = thread_idx() / 32;
    uint32_t rank = cluster_rank();
    struct tile tile;
    tile.row0 = (int32_t)block_idx_x() * CTA_M;
    tile.head = (int32_t)block_idx_y();
    tile.batch = (int32_t)block_idx_z();
    tile.blocks = block_count(&p, tile.row0 - (int32_t)rank * CTA_M, PAIR_M);
    if (thread_idx() == 0) {
        init_barriers(smem);
    }
    if (warp == MMA_WARP) {
        tcgen05_alloc_pair(smem + SMEM_TENSOR_ADDRESS, TENSOR_COLUMNS);
        tcgen05_relinquish_pair();
    }
    cluster_arrive();
    cluster_wait();
    uint32_t tensor = ld_shared_u32(smem + SMEM_TENSOR_ADDRESS);
    if (warp == LOAD_WARP) {
        ROLE("load");
        if (thread_idx() % 32 == 0) {
            load_tiles(&p, smem, &tile);
        }
    } else if (warp == MMA_WARP) {
        ROLE("mma");
        if (rank == 0 && thread_idx() % 32 == 0) {
            multiply_tiles(smem, tensor, &tile);
        }
    } else {
        ROLE("softmax");
        softmax_tile(&p, smem, tensor, &tile);
    }
    warp_sync(); // the lanes of load and mma meet their warp again
    cluster_arrive();
    cluster_wait();
    if (warp == MMA_WARP) {
        tcgen05_dealloc_pair(tensor, TENSOR_COLUMNS);
    }
}
