// Gradients of one row, or one key, computed by a warp with plain loads and fp32 arithmetic, for
// those that the tensor cores cannot be trusted with:
//
//   - a NaN or infinity in an operand of a hidden element: its weight is 0, but 0 * NaN is NaN in a
//     product of tiles;
//   - an lse so large that its rounding is felt in the weights;
//   - NaN in sight: then this says in which columns.
//
// Rare, so it is short and slow: a pair of row and key at a time, dims across the lanes.
#ifndef ATTN_DEVICE_CAREFUL_GRADIENT_H
#define ATTN_DEVICE_CAREFUL_GRADIENT_H

#include "../../shared/exp2.h"
#include "../ptx/math_ops.h"
#include "../ptx/memory_ops.h"
#include "careful_dot.h"

// The rows of a pair's operands in memory, and what belongs to the query row.
struct careful_pair {
    const uint16_t *q;
    const uint16_t *k;
    const uint16_t *v;
    const uint16_t *d_o;
    float lse;
    float delta;
    float scale;
};

// Of a pair: its weight and the gradient of its score.
struct careful_weight {
    float p;
    float ds;
};

DEVICE struct careful_weight careful_weight_of(const struct careful_pair *pair, int32_t d_qk,
                                               int32_t d_v)
{
    float exponent = warp_dot(pair->q, pair->k, d_qk) * pair->scale - pair->lse;
    struct careful_weight weight;
    weight.p = ex2_approx((exponent > 0.0f ? 0.0f : exponent) * ATTN_LOG2_E);
    weight.ds = weight.p * (warp_dot(pair->d_o, pair->v, d_v) - pair->delta);
    return weight;
}

// x[i] += factor * row[lane + 32 * i]
DEVICE void add_scaled_row(float *x, float factor, const uint16_t *row, int32_t d, int count)
{
    UNROLL
    for (int i = 0; i < count; i++) {
        int32_t column = (int32_t)(thread_idx() % 32) + 32 * i;
        if (column < d) {
            x[i] = fma_f32(factor, load_element(row + column), x[i]);
        }
    }
}

#endif
