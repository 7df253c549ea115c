// See backward_nonfinite.h.
#include "backward_nonfinite.h"

#include <math.h>
#include <string.h>

#include "../../core/element.h"

int attn_cpu_all_finite(const float *values, int64_t n)
{
    uint32_t bad = 0;
    for (int64_t c = 0; c < n; c++) {
        uint32_t bits;
        memcpy(&bits, values + c, sizeof(bits));
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

int attn_cpu_all_finite_pairs(const uint32_t *pairs, int64_t n)
{
    uint32_t bad = 0;
    for (int64_t c = 0; c < n; c++) {
        bad |= (pairs[c] & 0x7f800000u) == 0x7f800000u;
        bad |= (pairs[c] & 0x7f80u) == 0x7f80u;
    }
    return bad == 0;
}

// Whether the tile shows key n (from the block's first key) to row m.
static int is_seen(const attn_cpu_backward_tile_t *tile, int64_t m, int64_t n)
{
    if (!tile->masked) {
        return 1;
    }
    const int inside = (float)n >= tile->row_begin[m] && (float)n < tile->row_end[m];
    return inside && !(tile->add && tile->add[m * tile->tile_stride + n] == -INFINITY);
}

typedef enum weight_kind { WEIGHT_P, WEIGHT_DS } weight_kind_t;

static float weight_at(const attn_cpu_backward_tile_t *tile, weight_kind_t kind, int64_t m,
                       int64_t n)
{
    if (!tile->pairs) {
        return (kind == WEIGHT_P ? tile->p : tile->ds)[m * tile->tile_stride + n];
    }
    const uint32_t *pairs = kind == WEIGHT_P ? tile->pairs->p2 : tile->pairs->ds2;
    const uint32_t pair = pairs[m / 2 * tile->tile_stride + n];
    return attn_bf16_to_f32((uint16_t)(m % 2 ? pair >> 16 : pair));
}

// -------------------------------------------------------------------------------------------------
// Rows

// q or do of a tile's rows, with the sums that it is part of.
typedef struct row_operand {
    attn_cpu_rows_t memory;
    float *values; // the scratch copy, or
    uint32_t *along_d;
    uint32_t *along_rows;
    int64_t stride;
    int64_t along_d_stride;
    weight_kind_t kind;
    float *sums_t;
} row_operand_t;

static int is_finite_row(const row_operand_t *operand, int64_t m)
{
    if (operand->values) {
        return attn_cpu_all_finite(operand->values + m * operand->stride, operand->memory.cols);
    }
    return attn_cpu_all_finite_pairs(operand->along_d + m * operand->along_d_stride,
                                     (operand->memory.cols + 1) / 2);
}

static void clear_row(const row_operand_t *operand, int64_t m)
{
    const int64_t cols = operand->memory.cols;
    if (operand->values) {
        memset(operand->values + m * operand->stride, 0, (size_t)cols * sizeof(float));
        return;
    }
    uint32_t *row = operand->along_rows + m / 2 * operand->stride;
    for (int64_t col = 0; col < cols; col++) {
        row[col] &= m % 2 ? 0x0000ffffu : 0xffff0000u;
    }
}

// sums_t += weight * row m, for the keys that it sees.
static void add_row(const attn_cpu_backward_tile_t *tile, const row_operand_t *operand, int64_t m,
                    int64_t panel)
{
    const attn_tensor_t *tensor = operand->memory.tensor;
    const int64_t cols = operand->memory.cols;
    for (int64_t n = 0; n < tile->keys; n++) {
        if (!is_seen(tile, m, n)) {
            continue;
        }
        const float weight = weight_at(tile, operand->kind, m, n);
        float *sum = operand->sums_t + n / panel * panel * cols + n % panel;
        for (int64_t col = 0; col < cols; col++) {
            sum[col * panel] +=
                weight * attn_load_f32(tensor->dtype, operand->memory.data,
                                       m * tensor->stride_s + col * tensor->stride_d);
        }
    }
}

static void add_bad_rows_of(const attn_cpu_backward_tile_t *tile, const row_operand_t *operand,
                            int64_t panel)
{
    for (int64_t m = 0; operand->sums_t && m < tile->rows; m++) {
        if (!is_finite_row(operand, m)) {
            add_row(tile, operand, m, panel);
            clear_row(operand, m);
        }
    }
}

void attn_cpu_backward_add_bad_rows(const attn_cpu_backward_run_t *run,
                                    const attn_cpu_key_block_t *block,
                                    attn_cpu_backward_tile_t *tile, int64_t h, int64_t i)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_cpu_backward_pairs_t *pairs = tile->pairs;
    if (!tile->masked) {
        return;
    }
    const row_operand_t dout = {
        .memory = attn_cpu_rows_like_q(&block->seq, &desc->do_, run->args->do_, h, i, tile->rows,
                                       desc->d_v),
        .values = pairs ? NULL : tile->dout,
        .along_d = pairs ? pairs->dout2 : NULL,
        .along_rows = pairs ? pairs->dout_t2 : NULL,
        .stride = tile->dout_stride,
        .along_d_stride = pairs ? pairs->dout2_stride : 0,
        .kind = WEIGHT_P,
        .sums_t = tile->dv_t,
    };
    add_bad_rows_of(tile, &dout, run->kernels->panel);
    const row_operand_t q = {
        .memory = attn_cpu_rows_like_q(&block->seq, &desc->q, run->args->in.q, h, i, tile->rows,
                                       desc->d_qk),
        .values = pairs ? NULL : tile->q,
        .along_d = pairs ? pairs->q2 : NULL,
        .along_rows = pairs ? pairs->q_t2 : NULL,
        .stride = tile->q_stride,
        .along_d_stride = pairs ? pairs->q2_stride : 0,
        .kind = WEIGHT_DS,
        .sums_t = tile->dk_t,
    };
    add_bad_rows_of(tile, &q, run->kernels->panel);
}

// -------------------------------------------------------------------------------------------------
// Keys

static void add_key(const attn_cpu_rows_t *key, const attn_cpu_backward_tile_t *tile, int64_t n)
{
    for (int64_t m = 0; m < tile->rows; m++) {
        if (!is_seen(tile, m, n)) {
            continue;
        }
        const float ds = weight_at(tile, WEIGHT_DS, m, n);
        for (int64_t col = 0; col < key->cols; col++) {
            tile->dq[m * tile->dq_stride + col] +=
                ds * attn_load_f32(key->tensor->dtype, key->data, col * key->tensor->stride_d);
        }
    }
}

void attn_cpu_backward_add_bad_keys(const attn_cpu_backward_run_t *run,
                                    const attn_cpu_key_block_t *block, const uint8_t *bad_key,
                                    const attn_cpu_backward_tile_t *tile)
{
    const attn_desc_t *desc = &run->plan->desc;
    for (int64_t n = 0; block->has_bad && tile->dq && n < tile->keys; n++) {
        if (bad_key[n]) {
            const attn_cpu_rows_t key =
                attn_cpu_rows_like_k(&block->seq, &desc->k, run->args->in.k, block->h_kv,
                                     block->first + n, 1, desc->d_qk);
            add_key(&key, tile, n);
        }
    }
}
