// Products of rows in memory by a whole warp: what the careful computations are made of.
#ifndef ATTN_DEVICE_CAREFUL_DOT_H
#define ATTN_DEVICE_CAREFUL_DOT_H

#include "../ptx/math_ops.h"
#include "../ptx/memory_ops.h"
#include "../ptx/warp.h"

DEVICE float warp_sum(float x)
{
    UNROLL
    for (uint32_t lane = 16; lane > 0; lane /= 2) {
        x += shuffle_xor_f32(x, lane);
    }
    return x;
}

DEVICE float load_element(const uint16_t *p)
{
    return F32_OF_ELEMENT(ld_global_u16(p));
}

// The same in all lanes. Strides are between elements.
DEVICE float warp_dot_strided(const uint16_t *a, int64_t a_stride, const uint16_t *b,
                              int64_t b_stride, int32_t d)
{
    float dot = 0.0f;
    NO_UNROLL
    for (int32_t i = (int32_t)(thread_idx() % 32); i < d; i += 32) {
        dot = fma_f32(load_element(a + i * a_stride), load_element(b + i * b_stride), dot);
    }
    return warp_sum(dot);
}

DEVICE float warp_dot(const uint16_t *a, const uint16_t *b, int32_t d)
{
    return warp_dot_strided(a, 1, b, 1, d);
}

#endif
