// Level 2: a matrix product on Hopper's tensor cores, fed by a ring of TMA loads.
//
// c[m][n] = sum over k of a[m][k] b[n][k], bf16 in, fp32 out; one tile of 128 x 128 per CTA, any
// m and n, k a multiple of 8 (TMA's strides).
//
// What it shows: producer and consumer with a ring of full and empty barriers, matrix descriptors,
// and the three steps of wgmma: fence, issue and commit, wait.
//
// Roles (384 threads, 3 warpgroups)
//   load     warpgroup 0, one thread   fills the ring
//   compute  warpgroups 1 and 2        64 rows of the tile each
//
// Pipeline: load runs up to GEMM_STAGES steps of k ahead of compute; compute keeps one step in
// flight and gives the buffers of the step before back.
//
//   TMA          k0 k1 k2 k3 | k4 | k5 | ...
//   tensor core        | k0 | k1 | k2 | ...
//
// Shared memory: GEMM_STAGES x (A tile, B tile), each 128 rows of 64 values = 128 bytes, swizzled;
// mbarriers full[s] (1 arrival and the bytes) and empty[s] (2 arrivals, a thread of each
// warpgroup).
#include "../../src/device/common/descriptor.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tma.h"
#include "../../src/device/ptx/wgmma.h"

enum {
    GEMM_THREADS = 384,
    GEMM_WARPGROUP = 128,
    GEMM_TILE = 128, // rows and columns of c
    GEMM_K = 64,     // of a stage: 128 bytes, a row of the swizzle
    GEMM_STAGES = 4,
    GEMM_TILE_BYTES = GEMM_TILE * GEMM_K * 2,
    GEMM_STAGE_BYTES = 2 * GEMM_TILE_BYTES,
    GEMM_PATTERN_BYTES = 1024, // 8 rows: the swizzle repeats
    SMEM_RING = 0,
    SMEM_RING_FULL = SMEM_RING + GEMM_STAGES * GEMM_STAGE_BYTES,
    SMEM_RING_EMPTY = SMEM_RING_FULL + 8 * GEMM_STAGES,
    GEMM_SMEM_BYTES = SMEM_RING_EMPTY + 8 * GEMM_STAGES
};

struct hopper_gemm_params {
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

DEVICE void load_ring(const struct hopper_gemm_params *p, uint32_t smem, int32_t row,
                      int32_t column)
{
    struct ring ring = {0, 0};
    for (int32_t k = 0; k < p->k; k += GEMM_K) {
        uint32_t tiles = smem + SMEM_RING + ring.stage * GEMM_STAGE_BYTES;
        uint32_t full = smem + SMEM_RING_FULL + 8 * ring.stage;
        mbarrier_wait(smem + SMEM_RING_EMPTY + 8 * ring.stage, ring.phase ^ 1); // from compute
        mbarrier_arrive_expect_tx(full, GEMM_STAGE_BYTES);
        tma_load_2d(tiles, &p->a, full, k, row);
        tma_load_2d(tiles + GEMM_TILE_BYTES, &p->b, full, k, column);
        ring_advance(&ring);
    }
}

DEVICE void issue_stage(float *c, uint32_t a, uint32_t b, int accumulate)
{
    wgmma_fence();
    UNROLL
    for (int i = 0; i < GEMM_K / 16; i++) {
        uint64_t desc_a = matrix_descriptor(a + i * 32, 0, GEMM_PATTERN_BYTES, DESC_SWIZZLE_128);
        uint64_t desc_b = matrix_descriptor(b + i * 32, 0, GEMM_PATTERN_BYTES, DESC_SWIZZLE_128);
        wgmma_ss_bf16(128, c, desc_a, desc_b, accumulate || i != 0, 0, 0);
    }
    wgmma_commit_group();
}

DEVICE void give_back_stage(uint32_t smem, uint32_t stage)
{
    if (thread_idx() % GEMM_WARPGROUP == 0) {
        mbarrier_arrive(smem + SMEM_RING_EMPTY + 8 * stage);
    }
}

DEVICE void store_c(const struct hopper_gemm_params *p, const float *c, int32_t row, int32_t column)
{
    int32_t thread_row = row + (int32_t)(thread_idx() / 32 % 4 * 16 + thread_idx() % 32 / 4);
    int32_t thread_column = column + (int32_t)(thread_idx() % 4 * 2);
    UNROLL
    for (int i = 0; i < GEMM_TILE / 2; i++) {
        int32_t m = thread_row + i / 2 % 2 * 8;
        int32_t n = thread_column + i / 4 * 8 + i % 2;
        if (m < p->m && n < p->n) {
            st_global_f32(p->c + (int64_t)m * p->n + n, c[i]);
        }
    }
}

DEVICE void compute_tile(const struct hopper_gemm_params *p, uint32_t smem, uint32_t group,
                         int32_t row, int32_t column)
{
    float c[GEMM_TILE / 2];
    struct ring ring = {0, 0};
    uint32_t previous = 0;
    UNROLL
    for (int i = 0; i < GEMM_TILE / 2; i++) {
        c[i] = 0.0f;
    }
    for (int32_t k = 0; k < p->k; k += GEMM_K) {
        uint32_t tiles = smem + SMEM_RING + ring.stage * GEMM_STAGE_BYTES;
        mbarrier_wait(smem + SMEM_RING_FULL + 8 * ring.stage, ring.phase); // from load
        issue_stage(c, tiles + group * 64 * 128, tiles + GEMM_TILE_BYTES, k != 0);
        wgmma_wait_group(1); // the step before is done
        if (k != 0) {
            give_back_stage(smem, previous);
        }
        previous = ring.stage;
        ring_advance(&ring);
    }
    wgmma_wait_group(0);
    store_c(p, c, row + (int32_t)group * 64, column);
}

KERNEL(384) hopper_gemm(const GRID_CONSTANT struct hopper_gemm_params p)
{
    uint32_t smem = dynamic_smem();
    int32_t column = (int32_t)block_idx_x() * GEMM_TILE;
    int32_t row = (int32_t)block_idx_y() * GEMM_TILE;
    if (thread_idx() == 0) {
        for (uint32_t s = 0; s < GEMM_STAGES; s++) {
            mbarrier_init(smem + SMEM_RING_FULL + 8 * s, 1);
            mbarrier_init(smem + SMEM_RING_EMPTY + 8 * s, 2);
        }
        fence_mbarrier_init();
    }
    cta_sync();
    if (thread_idx() / GEMM_WARPGROUP == 0) {
        ROLE("load");
        if (thread_idx() == 0) {
            load_ring(&p, smem, row, column);
        }
    } else {
        ROLE("compute");
        compute_tile(&p, smem, thread_idx() / GEMM_WARPGROUP - 1, row, column);
    }
}
