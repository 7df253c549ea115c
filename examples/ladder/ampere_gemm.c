// Level 0: a matrix product as GPUs before Hopper make it, which all later ones still run.
//
// c[m][n] = sum over k of a[m][k] b[n][k], bf16 in, fp32 out; one tile of 64 x 64 per CTA, any m
// and n, k a multiple of 8 (16-byte copies). The k of a tile may be split over several CTAs, which
// add to c in turn: the order of the sum, and so every bit of c, is always the same.
//
// What it shows: cp.async with groups, ldmatrix, mma.sync, and CTAs that wait for each other.
//
// Roles (128 threads): every warp loads, and multiplies 16 rows of the tile.
//
// Pipeline: copies run two steps of k ahead of the products.
//
//   cp.async   k0 k1 | k2 | k3 | ...
//   products         | k0 | k1 | ...
//
// One barrier for each step says both that all threads' copies of it have come and that all threads
// are done with the buffer that the next copies overwrite.
//
// Shared memory: GEMM_STAGES x (A tile, B tile), each 64 rows of 32 values = 64 bytes. The four
// 16-byte pieces of a row are swapped by bits 1 and 2 of its number, so that the eight rows that
// ldmatrix reads at a time lie in different banks.
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/cp_async.h"
#include "../../src/device/ptx/matrix.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/mma_sync.h"

enum {
    GEMM_THREADS = 128,
    GEMM_TILE = 64, // rows and columns of c
    GEMM_K = 32,    // of a stage
    GEMM_STAGES = 3,
    GEMM_ROW_BYTES = GEMM_K * 2,
    GEMM_TILE_BYTES = GEMM_TILE * GEMM_ROW_BYTES,
    GEMM_STAGE_BYTES = 2 * GEMM_TILE_BYTES,
    GEMM_PIECES = GEMM_TILE_BYTES / 16, // of a tile
    GEMM_N_TILES = GEMM_TILE / 8,       // of a warp's products
    GEMM_SMEM_BYTES = GEMM_STAGES * GEMM_STAGE_BYTES
};

struct ampere_gemm_params {
    const uint16_t *a; // (m, k), bf16
    const uint16_t *b; // (n, k)
    float *c;          // (m, n)
    uint32_t *turns;   // of each tile whose split comes next; all 0 before and after
    int32_t m;
    int32_t n;
    int32_t k;
};

// Steps of k, of this CTA.
struct split {
    int32_t first;
    int32_t end;
};

DEVICE uint32_t piece_offset(uint32_t row, uint32_t piece)
{
    return row * GEMM_ROW_BYTES + ((piece ^ (row >> 1 & 3)) << 4);
}

// Rows and columns of k outside the matrix become zeros.
DEVICE void copy_tile(uint32_t tile, const uint16_t *x, int32_t first_row, int32_t rows, int32_t k0,
                      int32_t k)
{
    UNROLL
    for (uint32_t i = 0; i < GEMM_PIECES / GEMM_THREADS; i++) {
        uint32_t index = thread_idx() + i * GEMM_THREADS;
        uint32_t piece = index % 4;
        int32_t row = first_row + (int32_t)(index / 4);
        int32_t column = k0 + (int32_t)piece * 8;
        int inside = row < rows && column < k;
        cp_async_16_zfill(tile + piece_offset(index / 4, piece),
                          inside ? x + (int64_t)row * k + column : x, inside ? 16 : 0);
    }
}

// One group for each step; past the end an empty one keeps the count.
DEVICE void start_step(const struct ampere_gemm_params *p, uint32_t smem, const struct split *split,
                       int32_t step)
{
    if (step < split->end) {
        uint32_t stage = (uint32_t)(step - split->first) % GEMM_STAGES;
        uint32_t tiles = smem + stage * GEMM_STAGE_BYTES;
        copy_tile(tiles, p->a, (int32_t)block_idx_y() * GEMM_TILE, p->m, step * GEMM_K, p->k);
        copy_tile(tiles + GEMM_TILE_BYTES, p->b, (int32_t)block_idx_x() * GEMM_TILE, p->n,
                  step * GEMM_K, p->k);
    }
    cp_async_commit_group();
}

DEVICE void multiply_step(uint32_t tiles, float (*acc)[4])
{
    uint32_t warp = thread_idx() / 32;
    uint32_t lane = thread_idx() % 32;
    UNROLL
    for (uint32_t half = 0; half < GEMM_K / 16; half++) {
        uint32_t a[4];
        ldmatrix_x4(a, tiles + piece_offset(16 * warp + lane % 16, 2 * half + lane / 16));
        UNROLL
        for (uint32_t j = 0; j < GEMM_N_TILES; j += 2) {
            uint32_t b[4]; // two tiles of 8 columns, each in two halves of k
            ldmatrix_x4(
                b, tiles + GEMM_TILE_BYTES +
                       piece_offset(8 * j + lane % 8 + lane / 16 * 8, 2 * half + lane / 8 % 2));
            mma_m16n8k16_bf16(acc[j], a, b);
            mma_m16n8k16_bf16(acc[j + 1], a, b + 2);
        }
    }
}

DEVICE void add_to_c(const struct ampere_gemm_params *p, float (*acc)[4], int is_first)
{
    uint32_t warp = thread_idx() / 32;
    uint32_t lane = thread_idx() % 32;
    UNROLL
    for (uint32_t j = 0; j < GEMM_N_TILES; j++) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            int32_t row = (int32_t)(block_idx_y() * GEMM_TILE + 16 * warp + lane / 4 + i / 2 * 8);
            int32_t column = (int32_t)(block_idx_x() * GEMM_TILE + 8 * j + lane % 4 * 2 + i % 2);
            if (row < p->m && column < p->n) {
                float *c = p->c + (int64_t)row * p->n + column;
                st_global_f32(c, is_first ? acc[j][i] : ld_global_f32(c) + acc[j][i]);
            }
        }
    }
}

// Grid: tiles of n, tiles of m, splits of k. All splits of a tile must be resident together.
KERNEL(GEMM_THREADS) ampere_gemm(const GRID_CONSTANT struct ampere_gemm_params p)
{
    uint32_t smem = dynamic_smem();
    int32_t steps = (p.k + GEMM_K - 1) / GEMM_K;
    int32_t part = (int32_t)block_idx_z();
    int32_t parts = (int32_t)grid_dim_z();
    struct split split = {steps * part / parts, steps * (part + 1) / parts};
    float acc[GEMM_N_TILES][4];
    UNROLL
    for (uint32_t j = 0; j < GEMM_N_TILES; j++) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            acc[j][i] = 0.0f;
        }
    }
    ROLE("multiply");
    start_step(&p, smem, &split, split.first);
    start_step(&p, smem, &split, split.first + 1);
    for (int32_t step = split.first; step < split.end; step++) {
        cp_async_wait_group(GEMM_STAGES - 2); // my copies of this step
        cta_sync();                           // everybody's, and the stage before is free
        start_step(&p, smem, &split, step + GEMM_STAGES - 1);
        multiply_step(smem + (uint32_t)(step - split.first) % GEMM_STAGES * GEMM_STAGE_BYTES, acc);
    }
    ROLE("add");
    uint32_t *turn = p.turns + block_idx_y() * grid_dim_x() + block_idx_x();
    if (part > 0) {
        if (thread_idx() == 0) {
            wait_equal_gpu_u32(turn, (uint32_t)part); // the split before has added
        }
        cta_sync();
    }
    add_to_c(&p, acc, part == 0);
    if (parts > 1) {
        cta_sync();
        if (thread_idx() == 0) {
            st_release_gpu_u32(turn, part + 1 == parts ? 0 : (uint32_t)part + 1);
        }
    }
}
