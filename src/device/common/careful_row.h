// One row of attention computed by a warp with plain loads and fp32 arithmetic, for the rows that
// the tensor cores cannot be trusted with:
//
//   - a NaN or infinity in V of a hidden key: its weight is 0, but 0 * NaN is NaN in a product of
//     tiles. The same for the padding behind a sequence;
//   - scores so large that the rounding of the anchor alone could overflow exp2;
//   - NaN in sight: then the row is NaN, and this says in which columns.
//
// Rare, so it is short and slow: a key at a time, dims across the lanes. Differences of scores are
// taken before they are scaled, which is exact where fp32 scores are; modified scores have no
// scale.
#ifndef ATTN_DEVICE_CAREFUL_ROW_H
#define ATTN_DEVICE_CAREFUL_ROW_H

#include "careful_dot.h"
#include "kv_rows.h"
#include "score_options.h"

// A row, its keys and the rows of the operands in memory.
struct careful_row {
    const uint16_t *q;
    struct kv_rows k;
    struct kv_rows v;
    int64_t q_stride_d; // in elements
    int64_t k_stride_d;
    int64_t v_stride_d;
    int64_t key_begin;
    int64_t key_end;
    float scale;
    float sink; // -inf: none
    struct score_row score;
};

// Joins the sink: gives what o must be multiplied by, and lse.
DEVICE float careful_row_total(const struct careful_row *row, float max, float sum, float *lse)
{
    float top = max == -INFINITY_F32 ? -INFINITY_F32 : max * row->scale;
    float high = row->sink > top ? row->sink : top;
    if (high == -INFINITY_F32) {
        *lse = -INFINITY_F32;
        return 0.0f;
    }
    float factor = max == -INFINITY_F32 ? 0.0f : ex2_approx((top - high) * ATTN_LOG2_E);
    float total = fma_f32(sum, factor, ex2_approx((row->sink - high) * ATTN_LOG2_E));
    *lse = high + lg2_approx(total) * ATTN_LN_2;
    return factor / total;
}

// o: dims lane, lane + 32, ... of this lane. Gives lse to all lanes.
DEVICE float careful_row_forward(const struct careful_row *row, int32_t d_qk, int32_t d_v, float *o)
{
    int32_t lane = (int32_t)(thread_idx() % 32);
    float max = -INFINITY_F32; // of the products, not scaled
    float sum = 0.0f;
    UNROLL
    for (int i = 0; i < (D_V + 31) / 32; i++) {
        o[i] = 0.0f;
    }
    NO_UNROLL
    for (int64_t key = row->key_begin; key < row->key_end; key++) {
        const uint16_t *k = kv_row_at(&row->k, key);
        if ((ATTN_CFG_GATHER && !k) || row_hides(&row->score, key)) {
            continue;
        }
        const uint16_t *v = kv_row_at(&row->v, key);
        float product = warp_dot_strided(row->q, row->q_stride_d, k, row->k_stride_d, d_qk);
        if (SCORES_ARE_MODIFIED) {
            product = row_score(&row->score, key, product);
        }
        float rescale = 1.0f;
        float weight = 0.0f; // of a score of -inf
        if (product != -INFINITY_F32) {
            float high = product <= max ? max : product;
            rescale =
                max == -INFINITY_F32 ? 0.0f : ex2_approx((max - high) * row->scale * ATTN_LOG2_E);
            weight = ex2_approx((product - high) * row->scale * ATTN_LOG2_E);
            max = high;
        }
        sum = fma_f32(sum, rescale, weight);
        if (row_drops(&row->score, key)) {
            weight = 0.0f;
        }
        UNROLL
        for (int i = 0; i < (D_V + 31) / 32; i++) {
            int32_t d = lane + 32 * i;
            float x = d < d_v ? load_element(v + d * row->v_stride_d) : 0.0f;
            o[i] = fma_f32(o[i], rescale, weight * x);
        }
    }
    float lse;
    float factor = careful_row_total(row, max, sum, &lse);
    if (ATTN_CFG_DROPOUT) {
        factor *= row->score.p->score.dropout_scale;
    }
    UNROLL
    for (int i = 0; i < (D_V + 31) / 32; i++) {
        o[i] *= factor;
    }
    return lse;
}

#endif
