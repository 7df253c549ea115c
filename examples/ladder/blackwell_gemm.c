// Level 4: a matrix product on Blackwell's tensor cores, with the result in tensor memory.
//
// c[m][n] = sum over k of a[m][k] b[n][k], bf16 in, fp32 out; one tile of 128 x 128 per CTA, any m
// and n, k a multiple of 8 (TMA's strides) and not 0.
//
// What it shows beside level 2: one thread issues the matrix instruction for all, its result lies
// in tensor memory, and a commit tells an mbarrier when it is done. What level 2 needed three
// warpgroups for is the work of two threads; the other warps only carry the result out.
//
// Roles (192 threads, 6 warps)
//   store    warps 0 to 3             a row of c each: tensor memory to registers to global memory
//   load     warp 4, one thread       fills the ring
//   mma      warp 5                   allocates tensor memory; one thread issues all tcgen05.mma
//
// Pipeline: load runs up to GEMM_STAGES steps of k ahead; a commit behind the four mma of a step
// gives its buffers back. Nobody waits between the steps: all of them add to the same accumulator,
// and the tensor core keeps their order.
//
//   TMA          k0 k1 k2 k3 | k4 | k5 | ...
//   tensor core        | k0 | k1 | k2 | ...  k(n-1) |
//   store                                           | c
//
// Shared memory: GEMM_STAGES x (A tile, B tile), each 128 rows of 64 values = 128 bytes, swizzled;
// the mbarriers; the address of the tensor memory.
// Tensor memory: 128 columns, one for each of c; lane = row.
//
// Barriers      count   arrives                        waits
//   full [s]      1     load (bytes of A and B)        mma
//   empty [s]     1     commit after the step's mma    load
//   done          1     commit after the last mma      store
#include "../../src/device/common/tcgen05_descriptor.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tcgen05.h"
#include "../../src/device/ptx/tma.h"
#include "../../src/device/ptx/warp.h"

enum {
    GEMM_THREADS = 192,
    GEMM_LOAD_WARP = 4,
    GEMM_MMA_WARP = 5,
    GEMM_TILE = 128, // rows and columns of c
    GEMM_K = 64,     // of a stage: 128 bytes, a row of the swizzle
    GEMM_MMA_K = 16, // of one tcgen05.mma
    GEMM_STAGES = 4,
    GEMM_TILE_BYTES = GEMM_TILE * GEMM_K * 2,
    GEMM_STAGE_BYTES = 2 * GEMM_TILE_BYTES,
    GEMM_PATTERN_BYTES = 1024, // 8 rows: the swizzle repeats
    SMEM_RING = 0,
    SMEM_RING_FULL = SMEM_RING + GEMM_STAGES * GEMM_STAGE_BYTES,
    SMEM_RING_EMPTY = SMEM_RING_FULL + 8 * GEMM_STAGES,
    SMEM_DONE = SMEM_RING_EMPTY + 8 * GEMM_STAGES,
    SMEM_TENSOR_ADDRESS = SMEM_DONE + 8,
    GEMM_SMEM_BYTES = SMEM_TENSOR_ADDRESS + 8
};

struct blackwell_gemm_params {
    tensor_map a; // (k, m), bf16, box 64 x 128, 128-byte swizzle
    tensor_map b; // (k, n), likewise
    float *c;     // (m, n)
    int32_t m;
    int32_t n;
    int32_t k;
};

// The ring: which buffer, and the parity of its barriers when it is full.
struct ring {
    uint32_t stage;
    uint32_t phase;
};

DEVICE void ring_advance(struct ring *ring)
{
    ring->stage++;
    if (ring->stage == GEMM_STAGES) {
        ring->stage = 0;
        ring->phase ^= 1;
    }
}

DEVICE void load_ring(const struct blackwell_gemm_params *p, uint32_t smem, int32_t row,
                      int32_t column)
{
    struct ring ring = {0, 0};
    for (int32_t k = 0; k < p->k; k += GEMM_K) {
        uint32_t tiles = smem + SMEM_RING + ring.stage * GEMM_STAGE_BYTES;
        uint32_t full = smem + SMEM_RING_FULL + 8 * ring.stage;
        mbarrier_wait(smem + SMEM_RING_EMPTY + 8 * ring.stage, ring.phase ^ 1); // mma gave it back
        mbarrier_arrive_expect_tx(full, GEMM_STAGE_BYTES);
        tma_load_2d(tiles, &p->a, full, k, row);
        tma_load_2d(tiles + GEMM_TILE_BYTES, &p->b, full, k, column);
        ring_advance(&ring);
    }
}

// A k step of 16 is 32 bytes within a swizzled row.
DEVICE void issue_stage(uint32_t c, uint32_t a, uint32_t b, uint32_t accumulate)
{
    uint32_t idesc = tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, GEMM_TILE, GEMM_TILE, 0, 0);
    UNROLL
    for (uint32_t i = 0; i < GEMM_K / GEMM_MMA_K; i++) {
        tcgen05_mma_f16_ss(
            c, tcgen05_matrix_descriptor(a + 32 * i, 0, GEMM_PATTERN_BYTES, TCGEN05_SWIZZLE_128),
            tcgen05_matrix_descriptor(b + 32 * i, 0, GEMM_PATTERN_BYTES, TCGEN05_SWIZZLE_128),
            idesc, accumulate || i != 0);
    }
}

DEVICE void multiply_tile(const struct blackwell_gemm_params *p, uint32_t smem, uint32_t tensor)
{
    struct ring ring = {0, 0};
    for (int32_t k = 0; k < p->k; k += GEMM_K) {
        uint32_t tiles = smem + SMEM_RING + ring.stage * GEMM_STAGE_BYTES;
        mbarrier_wait(smem + SMEM_RING_FULL + 8 * ring.stage, ring.phase); // load brought A and B
        issue_stage(tensor, tiles, tiles + GEMM_TILE_BYTES, k != 0);
        tcgen05_commit(smem + SMEM_RING_EMPTY + 8 * ring.stage);
        ring_advance(&ring);
    }
    tcgen05_commit(smem + SMEM_DONE);
}

// A thread has a row; a warp may read its own 32 lanes only.
DEVICE void store_rows(const struct blackwell_gemm_params *p, uint32_t smem, uint32_t tensor,
                       int32_t row0, int32_t column0)
{
    uint32_t warp = thread_idx() / 32;
    int32_t row = row0 + (int32_t)thread_idx();
    mbarrier_wait(smem + SMEM_DONE, 0); // the last mma is done
    tcgen05_fence_after();
    for (int32_t part = 0; part < GEMM_TILE; part += 32) {
        uint32_t c[32];
        tcgen05_ld_32x32b(32, c, tensor + (warp * 32 << 16) + (uint32_t)part);
        tcgen05_wait_ld();
        UNROLL
        for (int32_t i = 0; i < 32; i++) {
            int32_t column = column0 + part + i;
            if (row < p->m && column < p->n) {
                st_global_f32(p->c + (int64_t)row * p->n + column, f32_of_bits(c[i]));
            }
        }
    }
}

KERNEL(192) blackwell_gemm(const GRID_CONSTANT struct blackwell_gemm_params p)
{
    uint32_t smem = dynamic_smem();
    uint32_t warp = thread_idx() / 32;
    int32_t column = (int32_t)block_idx_x() * GEMM_TILE;
    int32_t row = (int32_t)block_idx_y() * GEMM_TILE;
    if (thread_idx() == 0) {
        for (uint32_t s = 0; s < GEMM_STAGES; s++) {
            mbarrier_init(smem + SMEM_RING_FULL + 8 * s, 1);
            mbarrier_init(smem + SMEM_RING_EMPTY + 8 * s, 1);
        }
        mbarrier_init(smem + SMEM_DONE, 1);
        fence_mbarrier_init();
    }
    if (warp == GEMM_MMA_WARP) {
        tcgen05_alloc(smem + SMEM_TENSOR_ADDRESS, GEMM_TILE);
        tcgen05_relinquish();
    }
    cta_sync();
    uint32_t tensor = ld_shared_u32(smem + SMEM_TENSOR_ADDRESS);
    if (warp == GEMM_LOAD_WARP) {
        ROLE("load");
        if (thread_idx() % 32 == 0) {
            load_ring(&p, smem, row, column);
        }
    } else if (warp == GEMM_MMA_WARP) {
        ROLE("mma");
        if (thread_idx() % 32 == 0) {
            multiply_tile(&p, smem, tensor);
        }
    } else {
        ROLE("store");
        store_rows(&p, smem, tensor, row, column);
    }
    warp_sync(); // the lanes of load and mma meet their warp again
    cta_sync();
    if (warp == GEMM_MMA_WARP) {
        tcgen05_dealloc(tensor, GEMM_TILE);
    }
}
