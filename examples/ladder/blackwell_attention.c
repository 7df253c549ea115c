// Level 5: attention forward on Blackwell, bf16, one 128-row tile of queries per CTA.
//
// out = softmax(scale * Q K^T) V, causal (bottom-right aligned) or not, with the log-sum-exp of
// each row.
//
// What it shows beside level 4: scores, probabilities and output all live in tensor memory; the
// softmax reads one and writes the other there, so that a thread needs no more registers than one
// row of scores, and no shuffle at all: a thread has a whole row. Who passes tensor memory on
// fences before the barrier, who takes it over fences after it.
//
// Roles (192 threads, 6 warps)
//   softmax  warps 0 to 3             a query row each: S to P, rescales O, at the end O to the
//   output load     warp 4, one thread       Q once, then K and V blocks, last block first, STAGES
//   buffers each mma      warp 5                   allocates tensor memory; one thread issues S = Q
//   K^T, O += P V
//
// Pipeline: S of the next block is computed while the softmax works on this one; there are two S,
// so that neither waits for the other. O(j) needs P(j), and P(j) may be written when O(j - 1) is
// done.
//
//   tensor core   S0 S1 |       O0 S2 |       O1 S3 | ...       O(n-1)
//   softmax             softmax S0 |  softmax S1 |  softmax S2 | ...   out
//
// Shared memory (bytes from the base; tiles are panels of 64 columns, 128 bytes wide, swizzled)
//   Q  128 x d      later reused for the output tile
//   K  STAGES x 128 x d
//   V  STAGES x 128 x d
//   mbarriers, the address of the tensor memory
//
// Tensor memory, lane = query row (columns)
//   S0 0-127 | S1 128-255 | O 256 .. 255 + d | P 384-447, two bf16 in each
// Nothing shares columns: PTX orders two mma of a thread only where they add to the same
// accumulator.
//
// Barriers             count   arrives                      waits
//   Q full               1     load (bytes of Q)            mma
//   K full, V full [s]   1     load (bytes)                 mma
//   K empty, V empty [s] 1     commit after S, after O      load
//   S full [2]           1     commit after S               softmax
//   P full             128     softmax: P is written, O     mma
//                              rescaled, S has been read
//   O full               1     commit after O               softmax
//   barrier 1          128     softmax, before the output tile is stored
//
// Knobs: HEAD_DIM 64 or 128, STAGES. Online softmax in base 2; every block is rescaled (no
// threshold): the plainest form. Correct on the emulator; it never ran on a GPU.
#include "../../src/device/common/pipe.h"
#include "../../src/device/common/tcgen05_descriptor.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tcgen05.h"
#include "../../src/device/ptx/tma.h"
#include "../../src/device/ptx/warp.h"
#include "blackwell_softmax.h"

enum {
    STAGES = 2,
    LOAD_WARP = 4,
    MMA_WARP = 5,
    ATTENTION_THREADS = 192,
    MMA_K = 16, // of one tcgen05.mma
    TILE_BYTES = 128 * HEAD_DIM * 2,
    SMEM_Q = 0,
    SMEM_K = SMEM_Q + TILE_BYTES,
    SMEM_V = SMEM_K + STAGES * TILE_BYTES,
    SMEM_Q_FULL = SMEM_V + STAGES * TILE_BYTES,
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

DEVICE void load_panels(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t row,
                        const struct tile *tile)
{
    UNROLL
    for (int panel = 0; panel < PANELS; panel++) {
        tma_load_4d(dst + panel * PANEL_BYTES, map, bar, panel * PANEL_COLUMNS, row, tile->head,
                    tile->batch);
    }
}

DEVICE void load_tiles(const struct blackwell_attention_params *p, uint32_t smem,
                       const struct tile *tile)
{
    if (tile->blocks == 0) {
        return;
    }
    mbarrier_arrive_expect_tx(smem + SMEM_Q_FULL, TILE_BYTES);
    load_panels(smem + SMEM_Q, &p->q, smem + SMEM_Q_FULL, tile->row0, tile);
    struct pipe pipe = {0, 0};
    for (int32_t block = tile->blocks - 1; block >= 0; block--) {
        uint32_t s = pipe.stage;
        mbarrier_wait(smem + SMEM_K_EMPTY + 8 * s, pipe.phase ^ 1); // mma is done with K
        mbarrier_arrive_expect_tx(smem + SMEM_K_FULL + 8 * s, TILE_BYTES);
        load_panels(smem + SMEM_K + s * TILE_BYTES, &p->k, smem + SMEM_K_FULL + 8 * s,
                    block * BLOCK_N, tile);
        mbarrier_wait(smem + SMEM_V_EMPTY + 8 * s, pipe.phase ^ 1); // mma is done with V
        mbarrier_arrive_expect_tx(smem + SMEM_V_FULL + 8 * s, TILE_BYTES);
        load_panels(smem + SMEM_V + s * TILE_BYTES, &p->v, smem + SMEM_V_FULL + 8 * s,
                    block * BLOCK_N, tile);
        pipe_advance(&pipe, STAGES);
    }
}

// ---- mma

// S[128][128] = Q K^T. A k step of 16 is 32 bytes within a swizzled row; four steps, then the next
// panel.
DEVICE void issue_s(uint32_t s, uint32_t q, uint32_t k)
{
    uint32_t idesc = tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, CTA_M, BLOCK_N, 0, 0);
    UNROLL
    for (uint32_t i = 0; i < HEAD_DIM / MMA_K; i++) {
        uint32_t offset = i / 4 * PANEL_BYTES + i % 4 * 32;
        tcgen05_mma_f16_ss(
            s, tcgen05_matrix_descriptor(q + offset, 0, PATTERN_BYTES, TCGEN05_SWIZZLE_128),
            tcgen05_matrix_descriptor(k + offset, 0, PATTERN_BYTES, TCGEN05_SWIZZLE_128), idesc,
            i != 0);
    }
}

// O[128][d] += P V: P from tensor memory, V as it lies, keys by d: its contiguous side is n.
DEVICE void issue_o(uint32_t tensor, uint32_t v, uint32_t accumulate)
{
    uint32_t idesc = tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, CTA_M, HEAD_DIM, 0, 1);
    UNROLL
    for (uint32_t i = 0; i < BLOCK_N / MMA_K; i++) {
        tcgen05_mma_f16_ts(tensor + TENSOR_O, tensor + TENSOR_P + i * MMA_K / 2,
                           tcgen05_matrix_descriptor(v + i * 2 * PATTERN_BYTES, PANEL_BYTES,
                                                     PATTERN_BYTES, TCGEN05_SWIZZLE_128),
                           idesc, accumulate || i != 0);
    }
}

// S of the block goes where S of the one before the last was, whose P has come since.
DEVICE void multiply_s(uint32_t smem, uint32_t tensor, struct pipe *pipe, int32_t block)
{
    mbarrier_wait(smem + SMEM_K_FULL + 8 * pipe->stage, pipe->phase); // load brought K
    issue_s(tensor + TENSOR_S + (uint32_t)block % 2 * BLOCK_N, smem + SMEM_Q,
            smem + SMEM_K + pipe->stage * TILE_BYTES);
    tcgen05_commit(smem + SMEM_K_EMPTY + 8 * pipe->stage);
    tcgen05_commit(smem + SMEM_S_FULL + 8 * ((uint32_t)block % 2));
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
    mbarrier_wait(smem + SMEM_Q_FULL, 0); // load brought Q
    multiply_s(smem, tensor, &k_pipe, 0);
    for (int32_t block = 0; block < tile->blocks; block++) {
        if (block + 1 < tile->blocks) {
            multiply_s(smem, tensor, &k_pipe, block + 1);
        }
        mbarrier_wait(smem + SMEM_V_FULL + 8 * v_pipe.stage, v_pipe.phase); // load brought V
        mbarrier_wait(smem + SMEM_P_FULL, (uint32_t)block & 1);             // softmax wrote P
        tcgen05_fence_after();
        issue_o(tensor, smem + SMEM_V + v_pipe.stage * TILE_BYTES, block != 0);
        tcgen05_commit(smem + SMEM_V_EMPTY + 8 * v_pipe.stage);
        tcgen05_commit(smem + SMEM_O_FULL);
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
        mbarrier_wait(smem + SMEM_S_FULL + 8 * buffer, (uint32_t)block / 2 & 1); // mma made S
        tcgen05_fence_after();
        UNROLL
        for (uint32_t part = 0; part < BLOCK_N; part += 32) {
            tcgen05_ld_32x32b(32, s + part, mine + TENSOR_S + buffer * BLOCK_N + part);
        }
        tcgen05_wait_ld();
        softmax_row(packed, s, &state, p, limit, (tile->blocks - 1 - block) * BLOCK_N);
        if (block > 0) {
            mbarrier_wait(smem + SMEM_O_FULL, (uint32_t)(block - 1) & 1); // mma is done with P
            tcgen05_fence_after();
            rescale_o(mine + TENSOR_O, state.rescale);
        }
        tcgen05_st_32x32b(32, mine + TENSOR_P, packed);
        tcgen05_st_32x32b(32, mine + TENSOR_P + 32, packed + 32);
        tcgen05_wait_st();
        tcgen05_fence_before();
        mbarrier_arrive(smem + SMEM_P_FULL);
    }
    if (tile->blocks > 0) {
        mbarrier_wait(smem + SMEM_O_FULL, (uint32_t)(tile->blocks - 1) & 1); // O is complete
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
    mbarrier_init(smem + SMEM_P_FULL, SOFTMAX_THREADS);
    mbarrier_init(smem + SMEM_O_FULL, 1);
    fence_mbarrier_init();
}

KERNEL(192) blackwell_attention(const GRID_CONSTANT struct blackwell_attention_params p)
{
    uint32_t smem = dynamic_smem();
    uint32_t warp = thread_idx() / 32;
    struct tile tile;
    tile.row0 = (int32_t)block_idx_x() * CTA_M;
    tile.head = (int32_t)block_idx_y();
    tile.batch = (int32_t)block_idx_z();
    tile.blocks = block_count(&p, tile.row0, CTA_M);
    if (thread_idx() == 0) {
        init_barriers(smem);
    }
    if (warp == MMA_WARP) {
        tcgen05_alloc(smem + SMEM_TENSOR_ADDRESS, TENSOR_COLUMNS);
        tcgen05_relinquish();
    }
    cta_sync();
    uint32_t tensor = ld_shared_u32(smem + SMEM_TENSOR_ADDRESS);
    if (warp == LOAD_WARP) {
        ROLE("load");
        if (thread_idx() % 32 == 0) {
            load_tiles(&p, smem, &tile);
        }
    } else if (warp == MMA_WARP) {
        ROLE("mma");
        if (thread_idx() % 32 == 0) {
            multiply_tiles(smem, tensor, &tile);
        }
    } else {
        ROLE("softmax");
        softmax_tile(&p, smem, tensor, &tile);
    }
    warp_sync(); // the lanes of load and mma meet their warp again
    cta_sync();
    if (warp == MMA_WARP) {
        tcgen05_dealloc(tensor, TENSOR_COLUMNS);
    }
}
