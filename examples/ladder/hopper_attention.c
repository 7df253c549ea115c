// Level 3: attention forward on Hopper, bf16, one 128-row tile of queries per CTA.
//
// out = softmax(scale * Q K^T) V, causal (bottom-right aligned) or not, with the log-sum-exp of
// each row.
//
// Roles (384 threads, 3 warpgroups)
//   load     warpgroup 0, one thread   brings Q once, then K and V blocks, last block first, into
//            STAGES buffers each
//   compute  warpgroups 1 and 2        64 query rows each: S = Q K^T, softmax in registers, O += P
//            V
//
// Pipeline of a compute warpgroup: S of block j + 1 is computed by the tensor core while O of block
// j is, and the softmax runs while O is still being computed:
//
//   tensor core   S0 |      S1  O0 |      S2  O1 |    ...   O(n-1)
//   threads          | softmax S0  | softmax S1  |    ...
//
// Shared memory (bytes from the base; tiles are panels of 64 columns, 128 bytes wide, swizzled)
//   Q  128 x d      later reused for the output tile
//   K  STAGES x 128 x d
//   V  STAGES x 128 x d
//   mbarriers
//
// Barriers             count   arrives                 waits
//   Q full               1     load (bytes of Q)       compute
//   K full, V full [s]   1     load (bytes)            compute
//   K empty, V empty [s] 2     compute, a thread each  load
//   barrier 1, 2        128    a compute warpgroup, before its output tile is stored
//
// Knobs: HEAD_DIM 64 or 128, STAGES. Online softmax in base 2; every block is rescaled (no
// threshold): the plainest form.
#include "../../src/device/common/descriptor.h"
#include "../../src/device/common/pipe.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/matrix.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/register.h"
#include "../../src/device/ptx/tma.h"
#include "../../src/device/ptx/warp.h"
#include "../../src/device/ptx/wgmma.h"

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif

#define LN_2 0.69314718f

enum {
    BLOCK_M = 128, // query rows of a CTA
    BLOCK_N = 128, // keys of a block
    STAGES = 2,
    WARPGROUP_M = 64,
    WARPGROUP_THREADS = 128,
    ATTENTION_THREADS = 3 * WARPGROUP_THREADS,
    LOAD_REGISTERS = 24,
    COMPUTE_REGISTERS = 240,
    PANEL_COLUMNS = 64, // of bf16: 128 bytes, a row of the swizzle
    PANEL_ROW_BYTES = 128,
    PANELS = HEAD_DIM / PANEL_COLUMNS,
    PATTERN_BYTES = 1024, // 8 rows: the swizzle repeats
    TILE_BYTES = 128 * HEAD_DIM * 2,
    PANEL_BYTES = 128 * PANEL_ROW_BYTES,
    SMEM_Q = 0,
    SMEM_K = SMEM_Q + TILE_BYTES,
    SMEM_V = SMEM_K + STAGES * TILE_BYTES,
    SMEM_Q_FULL = SMEM_V + STAGES * TILE_BYTES,
    SMEM_K_FULL = SMEM_Q_FULL + 8,
    SMEM_V_FULL = SMEM_K_FULL + 8 * STAGES,
    SMEM_K_EMPTY = SMEM_V_FULL + 8 * STAGES,
    SMEM_V_EMPTY = SMEM_K_EMPTY + 8 * STAGES,
    ATTENTION_SMEM_BYTES = SMEM_V_EMPTY + 8 * STAGES
};

struct hopper_attention_params {
    tensor_map q; // (d, s_q, h, b), box 64 x 128, as the others: bf16, 128-byte swizzle
    tensor_map k; // (d, s_kv, h, b)
    tensor_map v;
    tensor_map out; // (d, s_q, h, b), box 64 x 64
    float *lse;     // (b, h, s_q), natural log
    int32_t s_q;
    int32_t s_kv;
    int32_t heads;
    int32_t causal;
    float scale_log2; // softmax scale * log2(e)
};

// Where a CTA is in the problem, and how many key blocks it sees.
struct tile {
    int32_t row0;
    int32_t head;
    int32_t batch;
    int32_t blocks;
};

DEVICE int32_t min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

// Keys that the row may see: 0 .. limit - 1.
DEVICE int32_t key_limit(const struct hopper_attention_params *p, int32_t row)
{
    return p->causal ? min_i32(p->s_kv, row + 1 + p->s_kv - p->s_q) : p->s_kv;
}

DEVICE int32_t block_count(const struct hopper_attention_params *p, int32_t row0)
{
    int32_t limit = key_limit(p, row0 + BLOCK_M - 1);
    return limit <= 0 ? 0 : (limit + BLOCK_N - 1) / BLOCK_N;
}

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

DEVICE void load_tiles(const struct hopper_attention_params *p, uint32_t smem,
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
        mbarrier_wait(smem + SMEM_K_EMPTY + 8 * s, pipe.phase ^ 1); // compute gave K back
        mbarrier_arrive_expect_tx(smem + SMEM_K_FULL + 8 * s, TILE_BYTES);
        load_panels(smem + SMEM_K + s * TILE_BYTES, &p->k, smem + SMEM_K_FULL + 8 * s,
                    block * BLOCK_N, tile);
        mbarrier_wait(smem + SMEM_V_EMPTY + 8 * s, pipe.phase ^ 1); // compute gave V back
        mbarrier_arrive_expect_tx(smem + SMEM_V_FULL + 8 * s, TILE_BYTES);
        load_panels(smem + SMEM_V + s * TILE_BYTES, &p->v, smem + SMEM_V_FULL + 8 * s,
                    block * BLOCK_N, tile);
        pipe_advance(&pipe, STAGES);
    }
}

// ---- compute

// s[64][128] = Q K^T. A k step of 16 is 32 bytes within a swizzled row; four steps, then the next
// panel.
DEVICE void issue_s(float *s, uint32_t q, uint32_t k)
{
    UNROLL
    for (int i = 0; i < HEAD_DIM / 16; i++) {
        uint32_t offset = i / 4 * PANEL_BYTES + i % 4 * 32;
        wgmma_ss_bf16(128, s, matrix_descriptor(q + offset, 0, PATTERN_BYTES, DESC_SWIZZLE_128),
                      matrix_descriptor(k + offset, 0, PATTERN_BYTES, DESC_SWIZZLE_128), i != 0, 0,
                      0);
    }
    wgmma_commit_group();
}

// o[64][d] += P V: P from registers, V as it lies, keys by d: its contiguous side is n.
DEVICE void issue_o(float *o, const uint32_t *probabilities, uint32_t v)
{
    UNROLL
    for (int i = 0; i < BLOCK_N / 16; i++) {
        uint64_t desc = matrix_descriptor(v + i * 2 * PATTERN_BYTES, PANEL_BYTES, PATTERN_BYTES,
                                          DESC_SWIZZLE_128);
        wgmma_rs_bf16(HEAD_DIM, o, probabilities + 4 * i, desc, 1, 1);
    }
    wgmma_commit_group();
}

// A thread's two rows, h = 0 and 1, lie in the registers with i / 2 % 2 == h.
struct softmax {
    float max[2]; // raw scores
    float sum[2]; // of this thread's columns
    float rescale[2];
};

// Turns scores into probabilities (up to the row's sum); rescale is what O must be multiplied by.
DEVICE void softmax_block(float *s, struct softmax *state, const struct hopper_attention_params *p,
                          int32_t row, int32_t column)
{
    UNROLL
    for (int h = 0; h < 2; h++) {
        int32_t limit = key_limit(p, row + 8 * h);
        float max = state->max[h];
        UNROLL
        for (int i = 0; i < BLOCK_N / 2; i++) {
            if (i / 2 % 2 == h) {
                s[i] = column + i / 4 * 8 + i % 2 < limit ? s[i] : -INFINITY_F32;
                max = max_f32(max, s[i]);
            }
        }
        max = max_f32(max, shuffle_xor_f32(max, 1));
        max = max_f32(max, shuffle_xor_f32(max, 2));
        float base = max == -INFINITY_F32 ? 0.0f : max * p->scale_log2; // no key yet: all weights 0
        state->rescale[h] = ex2_approx(state->max[h] * p->scale_log2 - base);
        state->max[h] = max;
        float sum = 0.0f;
        UNROLL
        for (int i = 0; i < BLOCK_N / 2; i++) {
            if (i / 2 % 2 == h) {
                s[i] = ex2_approx(s[i] * p->scale_log2 - base);
                sum += s[i];
            }
        }
        state->sum[h] = state->sum[h] * state->rescale[h] + sum;
    }
}

// The accumulator layout of S is the A fragment layout of P: only pairs are packed.
DEVICE void pack_probabilities(uint32_t *probabilities, const float *s)
{
    UNROLL
    for (int i = 0; i < BLOCK_N / 4; i++) {
        probabilities[i] = pack_bf16x2(s[2 * i], s[2 * i + 1]);
    }
}

DEVICE void scale_rows(float *o, const float *factor)
{
    UNROLL
    for (int i = 0; i < HEAD_DIM / 2; i++) {
        o[i] *= factor[i / 2 % 2];
    }
}

DEVICE void give_back(uint32_t bar)
{
    if (thread_idx() % WARPGROUP_THREADS == 0) {
        mbarrier_arrive(bar);
    }
}

// Divides by the sums; writes LSE; a row without keys gives 0 and -inf.
DEVICE void finish_rows(float *o, struct softmax *state, const struct hopper_attention_params *p,
                        const struct tile *tile, int32_t row)
{
    float inverse[2];
    UNROLL
    for (int h = 0; h < 2; h++) {
        float sum = state->sum[h];
        sum += shuffle_xor_f32(sum, 1);
        sum += shuffle_xor_f32(sum, 2);
        inverse[h] = sum > 0.0f ? 1.0f / sum : 0.0f;
        if (thread_idx() % 4 == 0 && row + 8 * h < p->s_q) {
            float lse = (state->max[h] * p->scale_log2 + lg2_approx(sum)) * LN_2;
            int64_t at = ((int64_t)tile->batch * p->heads + tile->head) * p->s_q + row + 8 * h;
            st_global_f32(p->lse + at, sum > 0.0f ? lse : -INFINITY_F32);
        }
    }
    scale_rows(o, inverse);
}

// Through shared memory (the warpgroup's rows of Q, which nobody needs any more) to the output,
// clipped by TMA.
DEVICE void store_o(const struct hopper_attention_params *p, const float *o, uint32_t smem,
                    uint32_t group, const struct tile *tile)
{
    uint32_t lane = thread_idx() % 32;
    uint32_t r = thread_idx() / 32 % 4 * 16 + lane % 16;
    UNROLL
    for (int i = 0; i < HEAD_DIM / 16; i++) {
        uint32_t piece = (uint32_t)i % 4 * 2 + lane / 16;
        uint32_t row = smem + i / 4 * PANEL_BYTES + r * PANEL_ROW_BYTES;
        uint32_t packed[4];
        UNROLL
        for (int j = 0; j < 4; j++) {
            packed[j] = pack_bf16x2(o[8 * i + 2 * j], o[8 * i + 2 * j + 1]);
        }
        stmatrix_x4(row + ((piece ^ (r & 7)) << 4), packed);
    }
    fence_proxy_async(); // stmatrix before the TMA store
    barrier_sync(1 + group, WARPGROUP_THREADS);
    if (thread_idx() % WARPGROUP_THREADS == 0) {
        UNROLL
        for (int panel = 0; panel < PANELS; panel++) {
            tma_store_4d(&p->out, smem + panel * PANEL_BYTES, panel * PANEL_COLUMNS,
                         tile->row0 + (int32_t)group * WARPGROUP_M, tile->head, tile->batch);
        }
        bulk_commit_group();
        bulk_wait_group_read(0); // shared memory must outlive the store
    }
}

DEVICE void compute(const struct hopper_attention_params *p, uint32_t smem, uint32_t group,
                    const struct tile *tile)
{
    float o[HEAD_DIM / 2];
    float s[BLOCK_N / 2];
    uint32_t probabilities[BLOCK_N / 4];
    struct softmax state = {{-INFINITY_F32, -INFINITY_F32}, {0.0f, 0.0f}, {0.0f, 0.0f}};
    uint32_t q = smem + SMEM_Q + group * WARPGROUP_M * PANEL_ROW_BYTES;
    int32_t warp_row = (int32_t)(group * WARPGROUP_M + thread_idx() / 32 % 4 * 16);
    int32_t row = tile->row0 + warp_row + (int32_t)(thread_idx() % 32 / 4);
    int32_t column = (int32_t)(thread_idx() % 4 * 2);

    UNROLL
    for (int i = 0; i < HEAD_DIM / 2; i++) {
        o[i] = 0.0f;
    }
    if (tile->blocks > 0) {
        struct pipe k_pipe = {0, 0};
        struct pipe v_pipe = {0, 0};
        mbarrier_wait(smem + SMEM_Q_FULL, 0); // load brought Q
        mbarrier_wait(smem + SMEM_K_FULL, 0); // load brought the first K
        wgmma_fence();
        issue_s(s, q, smem + SMEM_K);
        wgmma_wait_group(0);
        give_back(smem + SMEM_K_EMPTY);
        softmax_block(s, &state, p, row, (tile->blocks - 1) * BLOCK_N + column);
        pack_probabilities(probabilities, s);
        pipe_advance(&k_pipe, STAGES);
        for (int32_t block = tile->blocks - 2; block >= 0; block--) {
            mbarrier_wait(smem + SMEM_K_FULL + 8 * k_pipe.stage, k_pipe.phase); // load brought K
            wgmma_fence();
            issue_s(s, q, smem + SMEM_K + k_pipe.stage * TILE_BYTES);
            mbarrier_wait(smem + SMEM_V_FULL + 8 * v_pipe.stage, v_pipe.phase); // load brought V
            wgmma_fence();
            issue_o(o, probabilities, smem + SMEM_V + v_pipe.stage * TILE_BYTES);
            wgmma_wait_group(1); // S is done, O still runs
            give_back(smem + SMEM_K_EMPTY + 8 * k_pipe.stage);
            softmax_block(s, &state, p, row, block * BLOCK_N + column);
            wgmma_wait_group(0); // O is done: it and P may be changed
            give_back(smem + SMEM_V_EMPTY + 8 * v_pipe.stage);
            scale_rows(o, state.rescale);
            pack_probabilities(probabilities, s);
            pipe_advance(&k_pipe, STAGES);
            pipe_advance(&v_pipe, STAGES);
        }
        mbarrier_wait(smem + SMEM_V_FULL + 8 * v_pipe.stage, v_pipe.phase); // the last V
        wgmma_fence();
        issue_o(o, probabilities, smem + SMEM_V + v_pipe.stage * TILE_BYTES);
        wgmma_wait_group(0);
    }
    finish_rows(o, &state, p, tile, row);
    store_o(p, o, q, group, tile);
}

DEVICE void init_barriers(uint32_t smem)
{
    mbarrier_init(smem + SMEM_Q_FULL, 1);
    for (uint32_t s = 0; s < STAGES; s++) {
        mbarrier_init(smem + SMEM_K_FULL + 8 * s, 1);
        mbarrier_init(smem + SMEM_V_FULL + 8 * s, 1);
        mbarrier_init(smem + SMEM_K_EMPTY + 8 * s, 2);
        mbarrier_init(smem + SMEM_V_EMPTY + 8 * s, 2);
    }
    fence_mbarrier_init();
}

KERNEL(384) hopper_attention(const GRID_CONSTANT struct hopper_attention_params p)
{
    uint32_t smem = dynamic_smem();
    uint32_t warpgroup = thread_idx() / WARPGROUP_THREADS;
    struct tile tile;
    tile.row0 = (int32_t)block_idx_x() * BLOCK_M;
    tile.head = (int32_t)block_idx_y();
    tile.batch = (int32_t)block_idx_z();
    tile.blocks = block_count(&p, tile.row0);
    if (thread_idx() == 0) {
        init_barriers(smem);
    }
    cta_sync();
    if (warpgroup == 0) {
        ROLE("load");
        setmaxnreg_dec(LOAD_REGISTERS);
        if (thread_idx() == 0) {
            load_tiles(&p, smem, &tile);
        }
    } else {
        ROLE("compute");
        setmaxnreg_inc(COMPUTE_REGISTERS);
        compute(&p, smem, warpgroup - 1, &tile);
    }
}
