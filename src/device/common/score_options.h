// What a score is beside the product of a query and a key (docs/semantics.md), for one element, and
// which of it a kernel is compiled for:
//
//   ATTN_CFG_ANY_SCALE   1: the scale may be zero or negative
//   ATTN_CFG_SOFTCAP     1: softcap
//   ATTN_CFG_ALIBI       1: ALiBi slopes
//   ATTN_CFG_BIAS        1: f32, 2: f16, 3: bf16
//   ATTN_CFG_BOOL_MASK   1: a mask tensor of bytes
//   ATTN_CFG_BLOCK_LISTS 1: lists of the key blocks that are looked at, of whole tiles
//   ATTN_CFG_DROPOUT     1: weights are dropped
//
// One that is not defined is 0.
#ifndef ATTN_DEVICE_SCORE_OPTIONS_H
#define ATTN_DEVICE_SCORE_OPTIONS_H

#include "../../shared/exp2.h"
#include "../../shared/gpu_forward_params.h"
#include "../../shared/philox.h"
#include "tile_map.h"

#ifndef ATTN_CFG_ANY_SCALE
#define ATTN_CFG_ANY_SCALE 0
#endif
#ifndef ATTN_CFG_SOFTCAP
#define ATTN_CFG_SOFTCAP 0
#endif
#ifndef ATTN_CFG_ALIBI
#define ATTN_CFG_ALIBI 0
#endif
#ifndef ATTN_CFG_BIAS
#define ATTN_CFG_BIAS 0
#endif
#ifndef ATTN_CFG_BOOL_MASK
#define ATTN_CFG_BOOL_MASK 0
#endif
#ifndef ATTN_CFG_BLOCK_LISTS
#define ATTN_CFG_BLOCK_LISTS 0
#endif
#ifndef ATTN_CFG_DROPOUT
#define ATTN_CFG_DROPOUT 0
#endif

enum {
    // Scores are more than a product times a positive scale: the kernel works on them, in units of
    // log2, instead of on products.
    SCORES_ARE_MODIFIED = ATTN_CFG_ANY_SCALE || ATTN_CFG_SOFTCAP || ATTN_CFG_ALIBI || ATTN_CFG_BIAS,
    // Mask and lists have been surveyed: a map tells which tiles hide or show everything.
    HAS_TILE_MAP = ATTN_CFG_BOOL_MASK || ATTN_CFG_BLOCK_LISTS,
    // Keys can be hidden one by one, or far from each other: a row may see nothing in a tile full
    // of keys.
    KEYS_ARE_PICKED = ATTN_CFG_BIAS || HAS_TILE_MAP,
    BIAS_BYTES = ATTN_CFG_BIAS == 1 ? 4 : 2
};

DEVICE float abs_f32(float x)
{
    return f32_of_bits(bits_of_f32(x) & 0x7fffffffu);
}

// The hardware's own tanh is good to 11 bits, which a cap of 50 makes 0.02 of a score. This is good
// to 3 ulp: 1 - 2 / (e^2x + 1), and where that cancels the series up to x^9.
DEVICE float tanh_f32(float x)
{
    float a = abs_f32(x);
    float square = x * x;
    float series = fma_f32(square, 62.0f / 2835.0f, -17.0f / 315.0f);
    series = fma_f32(square, series, 2.0f / 15.0f);
    series = fma_f32(square, series, -1.0f / 3.0f);
    series = fma_f32(x * square, series, x);
    float quotient = fma_f32(-2.0f, rcp_approx(ex2_approx(a * (2.0f * ATTN_LOG2_E)) + 1.0f), 1.0f);
    quotient = f32_of_bits(bits_of_f32(quotient) | (bits_of_f32(x) & 0x80000000u));
    return a < 0.35f ? series : quotient;
}

// The product's part of the score, in the unit that `unit` is of: 1, or log2(e).
DEVICE float scaled_product(const attn_gpu_forward_params_t *p, float product, float unit)
{
    if (ATTN_CFG_SOFTCAP) {
        return tanh_f32(product * p->score.cap_inner) * (p->score.cap * unit);
    }
    return product * (p->scale * unit);
}

DEVICE float bias_of_bits(uint32_t bits)
{
    return ATTN_CFG_BIAS == 2 ? f32_of_f16(bits) : f32_of_bf16(bits);
}

DEVICE float load_bias(const unsigned char *element)
{
    return ATTN_CFG_BIAS == 1 ? ld_global_f32(element) : bias_of_bits(ld_global_u16(element));
}

DEVICE float alibi_slope(const attn_gpu_forward_params_t *p, int64_t b, int64_t h)
{
    return ld_global_f32(p->score.alibi_slopes + b * p->score.alibi_stride_b + h);
}

// Element 0 of a row of keys.
DEVICE const unsigned char *score_tensor_row(const attn_gpu_score_tensor_t *tensor, int64_t b,
                                             int64_t h, int64_t i, int64_t element_bytes)
{
    return (const unsigned char *)tensor->data +
           (b * tensor->stride_b + h * tensor->stride_h + i * tensor->stride_q) * element_bytes;
}

// The generator of a tile's dropout.
struct dropout {
    uint64_t seed;
    uint64_t offset;
    int64_t bh;
};

DEVICE uint64_t load_u64(const uint64_t *p)
{
    const uint32_t *words = (const uint32_t *)p;
    return ld_global_u32(words) | (uint64_t)ld_global_u32(words + 1) << 32;
}

DEVICE struct dropout dropout_of(const attn_gpu_forward_params_t *p, int64_t b, int64_t h)
{
    struct dropout dropout;
    dropout.seed = load_u64(p->score.dropout_state);
    dropout.offset = load_u64(p->score.dropout_state + 1);
    dropout.bh = b * p->heads_q + h;
    return dropout;
}

// A row of one head, element by element.
struct score_row {
    const attn_gpu_forward_params_t *p;
    int64_t b;
    int64_t h;
    int64_t i;
    int64_t position;      // i + offset
    const uint32_t *words; // of the tile map, for the row's tile
};

DEVICE float row_bias(const struct score_row *row, int64_t j)
{
    const attn_gpu_score_tensor_t *bias = &row->p->score.bias;
    return load_bias(score_tensor_row(bias, row->b, row->h, row->i, BIAS_BYTES) +
                     j * bias->stride_k * BIAS_BYTES);
}

DEVICE int row_hides(const struct score_row *row, int64_t j)
{
    int hides = 0;
    if (ATTN_CFG_BLOCK_LISTS) {
        int32_t block = (int32_t)(j / ATTN_CFG_BLOCK_N);
        hides = !(seen_word(row->words, block) >> block % 32 & 1);
    }
    if (ATTN_CFG_BOOL_MASK) {
        const attn_gpu_score_tensor_t *mask = &row->p->score.mask;
        hides = hides || !ld_global_u8(score_tensor_row(mask, row->b, row->h, row->i, 1) +
                                       j * mask->stride_k);
    }
    if (ATTN_CFG_BIAS) {
        hides = hides || row_bias(row, j) == -INFINITY_F32;
    }
    return hides;
}

// What a product becomes; where SCORES_ARE_MODIFIED.
DEVICE float row_score(const struct score_row *row, int64_t j, float product)
{
    float score = scaled_product(row->p, product, 1.0f);
    if (ATTN_CFG_BIAS) {
        score += row_bias(row, j);
    }
    if (ATTN_CFG_ALIBI) {
        int64_t distance = row->position - j;
        score = fma_f32(-alibi_slope(row->p, row->b, row->h),
                        (float)(distance < 0 ? -distance : distance), score);
    }
    return score;
}

DEVICE int row_drops(const struct score_row *row, int64_t j)
{
    int drops = 0;
    if (ATTN_CFG_DROPOUT) {
        struct dropout dropout = dropout_of(row->p, row->b, row->h);
        drops = !attn_dropout_keep(dropout.seed, dropout.offset, dropout.bh, row->i, j,
                                   row->p->score.dropout_threshold);
    }
    return drops;
}

#endif
