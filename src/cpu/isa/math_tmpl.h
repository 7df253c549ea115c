// exp, tanh and the like on vectors, from the operations of a simd_*.h.
#ifndef ATTN_CPU_MATH_TMPL_H
#define ATTN_CPU_MATH_TMPL_H

#include <float.h>
#include <math.h>

#include "../../shared/exp2.h"

// 2^x within 2 ulp; exactly 1 at 0, 0 from -150.1 down to -inf, inf from 128 up, NaN for NaN.
// Denormal results are right.
static inline vf vf_exp2(vf x)
{
    // The constants come first in max and min, so that NaN passes.
    const vf clamped = vf_min(vf_set1(ATTN_EXP2_HIGH), vf_max(vf_set1(ATTN_EXP2_LOW), x));
    const vf n = vf_round(clamped);
    const vf f = vf_sub(clamped, n);
    vf p = vf_set1(ATTN_EXP2_D6_C6);
    p = vf_fma(p, f, vf_set1(ATTN_EXP2_D6_C5));
    p = vf_fma(p, f, vf_set1(ATTN_EXP2_D6_C4));
    p = vf_fma(p, f, vf_set1(ATTN_EXP2_D6_C3));
    p = vf_fma(p, f, vf_set1(ATTN_EXP2_D6_C2));
    p = vf_fma(p, f, vf_set1(ATTN_EXP2_D6_C1));
    p = vf_fma(p, f, vf_set1(1.0f));
    return vf_scale2(p, n);
}

// The same to 18 bits (relative error 2.8e-6), for results that are rounded to bfloat16.
static inline vf vf_exp2_coarse(vf x)
{
    const vf clamped = vf_min(vf_set1(ATTN_EXP2_HIGH), vf_max(vf_set1(ATTN_EXP2_LOW), x));
    const vf n = vf_round(clamped);
    const vf f = vf_sub(clamped, n);
    vf p = vf_set1(ATTN_EXP2_D4_C4);
    p = vf_fma(p, f, vf_set1(ATTN_EXP2_D4_C3));
    p = vf_fma(p, f, vf_set1(ATTN_EXP2_D4_C2));
    p = vf_fma(p, f, vf_set1(ATTN_EXP2_D4_C1));
    p = vf_fma(p, f, vf_set1(1.0f));
    return vf_scale2(p, n);
}

// tanh x, relative error below 4 ulp. Below 0.625 the odd polynomial of Cephes' tanhf (S. L.
// Moshier), whose relative error stays small near 0; above, 1 - 2 / (e^2x + 1).
static inline vf vf_tanh(vf x)
{
    const vf magnitude = vf_abs(x);
    const vf z = vf_mul(x, x);
    vf p = vf_set1(-5.70498872745e-3f);
    p = vf_fma(p, z, vf_set1(2.06390887954e-2f));
    p = vf_fma(p, z, vf_set1(-5.37397155531e-2f));
    p = vf_fma(p, z, vf_set1(1.33314422036e-1f));
    p = vf_fma(p, z, vf_set1(-3.33332819422e-1f));
    const vf small = vf_fma(vf_mul(p, z), x, x);
    const vf e = vf_exp2(vf_mul(magnitude, vf_set1(2.0f * ATTN_LOG2_E)));
    const vf one = vf_set1(1.0f);
    const vf large = vf_sub(one, vf_div(vf_set1(2.0f), vf_add(e, one)));
    const vf signed_large = vf_select(vf_lt(x, vf_set1(0.0f)), vf_sub(vf_set1(0.0f), large), large);
    return vf_select(vf_lt(magnitude, vf_set1(0.625f)), small, signed_large);
}

#endif
