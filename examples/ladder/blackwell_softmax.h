// What levels 5 and 6 share: the problem, and what a softmax thread does with its query row, from
// scores to the output tile. Who waits for whom is the levels' own.
//
// A row lies in one lane of tensor memory and so in one thread: no shuffle. Scores are fp32, 128 of
// a block; probabilities bf16 in pairs.
#ifndef BLACKWELL_SOFTMAX_H
#define BLACKWELL_SOFTMAX_H

#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tcgen05.h"
#include "../../src/device/ptx/tma.h"

#ifndef HEAD_DIM
#define HEAD_DIM 128
#endif

#define LN_2 0.69314718f

enum {
    CTA_M = 128,   // query rows of a CTA
    BLOCK_N = 128, // keys of a block
    SOFTMAX_THREADS = CTA_M,
    PANEL_COLUMNS = 64, // of bf16: 128 bytes, a row of the swizzle
    PANEL_ROW_BYTES = 128,
    PANELS = HEAD_DIM / PANEL_COLUMNS,
    PANEL_BYTES = 128 * PANEL_ROW_BYTES, // of 128 rows
    PATTERN_BYTES = 1024                 // 8 rows: the swizzle repeats
};

struct blackwell_attention_params {
    tensor_map q;   // (d, s_q, h, b): bf16, 128-byte swizzle, as all; box 64 x 128
    tensor_map k;   // (d, s_kv, h, b), box 64 x 128; of a pair 64 x 64
    tensor_map v;   // (d, s_kv, h, b), box 64 x 128
    tensor_map out; // (d, s_q, h, b), box 64 x 128
    float *lse;     // (b, h, s_q), natural log
    int32_t s_q;
    int32_t s_kv;
    int32_t heads;
    int32_t causal;
    float scale_log2; // softmax scale * log2(e)
};

// Where a CTA is in the problem, and how many key blocks it, or its pair, sees.
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
DEVICE int32_t key_limit(const struct blackwell_attention_params *p, int32_t row)
{
    return p->causal ? min_i32(p->s_kv, row + 1 + p->s_kv - p->s_q) : p->s_kv;
}

// Key blocks that rows row0 .. row0 + rows - 1 see.
DEVICE int32_t block_count(const struct blackwell_attention_params *p, int32_t row0, int32_t rows)
{
    int32_t limit = key_limit(p, row0 + rows - 1);
    return limit <= 0 ? 0 : (limit + BLOCK_N - 1) / BLOCK_N;
}

// A thread's row.
struct softmax {
    float max; // raw scores
    float sum;
    float rescale; // what O must be multiplied by
};

// Turns the row's scores into probabilities (up to the row's sum), packed in pairs.
DEVICE void softmax_row(uint32_t *packed, uint32_t *scores, struct softmax *state,
                        const struct blackwell_attention_params *p, int32_t limit, int32_t column)
{
    float max = state->max;
    UNROLL
    for (int i = 0; i < BLOCK_N; i++) {
        scores[i] = column + i < limit ? scores[i] : bits_of_f32(-INFINITY_F32);
        max = max_f32(max, f32_of_bits(scores[i]));
    }
    float base = max == -INFINITY_F32 ? 0.0f : max * p->scale_log2; // no key yet: all weights 0
    state->rescale = ex2_approx(state->max * p->scale_log2 - base);
    state->max = max;
    float sum = 0.0f;
    UNROLL
    for (int i = 0; i < BLOCK_N; i += 2) {
        float low = ex2_approx(f32_of_bits(scores[i]) * p->scale_log2 - base);
        float high = ex2_approx(f32_of_bits(scores[i + 1]) * p->scale_log2 - base);
        sum += low + high;
        packed[i / 2] = pack_bf16x2(low, high);
    }
    state->sum = state->sum * state->rescale + sum;
}

DEVICE void rescale_o(uint32_t o, float factor)
{
    UNROLL
    for (uint32_t part = 0; part < HEAD_DIM; part += 32) {
        uint32_t values[32];
        tcgen05_ld_32x32b(32, values, o + part);
        tcgen05_wait_ld();
        UNROLL
        for (int i = 0; i < 32; i++) {
            values[i] = bits_of_f32(f32_of_bits(values[i]) * factor);
        }
        tcgen05_st_32x32b(32, o + part, values);
    }
}

// One row of the output tile, through shared memory.
DEVICE void write_row(uint32_t staging, uint32_t o, float factor, int has_keys)
{
    uint32_t row = thread_idx();
    UNROLL
    for (uint32_t part = 0; part < HEAD_DIM; part += 32) {
        uint32_t values[32];
        if (has_keys) {
            tcgen05_ld_32x32b(32, values, o + part);
            tcgen05_wait_ld();
        }
        UNROLL
        for (uint32_t piece = 0; piece < 4; piece++) {
            uint32_t packed[4];
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t at = 8 * piece + 2 * i;
                packed[i] = has_keys ? pack_bf16x2(f32_of_bits(values[at]) * factor,
                                                   f32_of_bits(values[at + 1]) * factor)
                                     : 0;
            }
            uint32_t swizzled = (part % 64 / 8 + piece) ^ (row & 7);
            st_shared_v4_u32(staging + part / 64 * PANEL_BYTES + row * PANEL_ROW_BYTES +
                                 (swizzled << 4),
                             packed);
        }
    }
}

// Divides by the sum; writes LSE; a row without keys gives 0 and -inf. TMA clips the tile.
DEVICE void store_tile(const struct blackwell_attention_params *p, uint32_t staging, uint32_t o,
                       const struct softmax *state, const struct tile *tile)
{
    int32_t row = tile->row0 + (int32_t)thread_idx();
    write_row(staging, o, state->sum > 0.0f ? 1.0f / state->sum : 0.0f, tile->blocks > 0);
    if (row < p->s_q) {
        float lse = (state->max * p->scale_log2 + lg2_approx(state->sum)) * LN_2;
        int64_t at = ((int64_t)tile->batch * p->heads + tile->head) * p->s_q + row;
        st_global_f32(p->lse + at, state->sum > 0.0f ? lse : -INFINITY_F32);
    }
    fence_proxy_async(); // the row before the TMA store
    barrier_sync(1, SOFTMAX_THREADS);
    if (thread_idx() == 0) {
        UNROLL
        for (int panel = 0; panel < PANELS; panel++) {
            tma_store_4d(&p->out, staging + panel * PANEL_BYTES, panel * PANEL_COLUMNS, tile->row0,
                         tile->head, tile->batch);
        }
        bulk_commit_group();
        bulk_wait_group_read(0); // shared memory must outlive the store
    }
}

#endif
