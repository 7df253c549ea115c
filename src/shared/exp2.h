// Polynomials for 2^f on [-1/2, 1/2], for every place that computes exp2 without the hardware's
// own.
//
//   p(f) = 1 + f * (C1 + f * (C2 + ...))      p(0) is exactly 1: so is a weight at the maximum
//
// The coefficients minimise the largest relative error with the constant term pinned (iteratively
// reweighted least squares on 4000 Chebyshev nodes). Largest relative error before rounding, in
// units of 2^-24 (half an ulp of fp32):
//
//   degree 3: 1.0e-4 (1700)   degree 4: 2.8e-6 (47)
//   degree 5: 9.1e-8 (1.5)    degree 6: 2.0e-9 (0.03)
//
// Degree 3 and 4 serve results that are rounded to 8 or 16 bits, degree 6 the fp32 kernels.
#ifndef ATTN_SHARED_EXP2_H
#define ATTN_SHARED_EXP2_H

#include "shared_types.h"

#define ATTN_EXP2_D3_C1 0.69328293f
#define ATTN_EXP2_D3_C2 0.24221096f
#define ATTN_EXP2_D3_C3 0.055008931f

#define ATTN_EXP2_D4_C1 0.69312419f
#define ATTN_EXP2_D4_C2 0.24024099f
#define ATTN_EXP2_D4_C3 0.055906425f
#define ATTN_EXP2_D4_C4 0.0095828531f

#define ATTN_EXP2_D5_C1 0.69314698f
#define ATTN_EXP2_D5_C2 0.24022242f
#define ATTN_EXP2_D5_C3 0.055507337f
#define ATTN_EXP2_D5_C4 0.0096715126f
#define ATTN_EXP2_D5_C5 0.0013264727f

#define ATTN_EXP2_D6_C1 0.69314720f
#define ATTN_EXP2_D6_C2 0.24022648f
#define ATTN_EXP2_D6_C3 0.055503325f
#define ATTN_EXP2_D6_C4 0.0096184374f
#define ATTN_EXP2_D6_C5 0.0013398874f
#define ATTN_EXP2_D6_C6 0.00015353362f

// Arguments are clamped to this range first: 2^-160 rounds to 0 and 2^129 to infinity in fp32, and
// the exponent stays a small integer.
#define ATTN_EXP2_LOW (-160.0f)
#define ATTN_EXP2_HIGH 129.0f

#define ATTN_LOG2_E 1.44269504088896340736f
#define ATTN_LN_2 0.69314718055994530942f

#endif
