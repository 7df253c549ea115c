// The matrix product on bfloat16 pairs, for instruction sets with a pair dot product
// (VF_HAS_BF16_DOT): gemm_tmpl.h's shape with every step of the sum two terms long,
//
//   C[i][0..PANEL) = (accumulate ? C[i] : 0) + sum_k A(i, k).low * B[k][0..PANEL).low + A(i,
//   k).high * B[k][0..PANEL).high
//
// where A and B hold pairs of bfloat16 as uint32 (low half: the even term) and C is fp32.
#ifndef ATTN_CPU_GEMM_PAIRS_TMPL_H
#define ATTN_CPU_GEMM_PAIRS_TMPL_H

#include "gemm_tmpl.h"

#ifdef VF_HAS_BF16_DOT

typedef struct gemm_pairs_operands {
    const uint32_t *a; // A(i, k) = a[i * a_row + k * a_col]
    int64_t a_row;
    int64_t a_col;
    const uint32_t *b; // k rows of at least PANEL pairs
    int64_t b_row;
    float *c; // m rows of at least PANEL floats
    int64_t c_row;
    int32_t accumulate;
} gemm_pairs_operands_t;

// As gemm_strip.
GEMM_INLINE void gemm_pairs_strip(const int rows, int64_t k_count, const gemm_pairs_operands_t *g,
                                  int64_t i, int64_t a_row, int64_t a_col)
{
    vf c0[GEMM_ROWS];
    vf c1[GEMM_ROWS];
    float *c = g->c + i * g->c_row;
    const uint32_t *a = g->a + i * a_row;
    const uint32_t *b = g->b;
    GEMM_UNROLL
    for (int r = 0; r < rows; r++) {
        c0[r] = g->accumulate ? vf_load(c + r * g->c_row) : vf_set1(0.0f);
        c1[r] = g->accumulate ? vf_load(c + r * g->c_row + VF_LANES) : vf_set1(0.0f);
    }
    const int64_t b_row = g->b_row;
    for (int64_t k = 0; k < k_count; k++) {
        const vb b0 = vb_load((const uint16_t *)(const void *)b);
        const vb b1 = vb_load((const uint16_t *)(const void *)(b + VF_LANES));
        GEMM_UNROLL
        for (int r = 0; r < rows; r++) {
            const vb x = vb_set1_pair(a[r * a_row]);
            c0[r] = vb_dot(c0[r], x, b0);
            c1[r] = vb_dot(c1[r], x, b1);
        }
        a += a_col;
        b += b_row;
    }
    GEMM_UNROLL
    for (int r = 0; r < rows; r++) {
        vf_store(c + r * g->c_row, c0[r]);
        vf_store(c + r * g->c_row + VF_LANES, c1[r]);
    }
}

GEMM_INLINE void gemm_pairs_strips(int64_t m, int64_t k_count, const gemm_pairs_operands_t *g,
                                   int64_t a_row, int64_t a_col)
{
    int64_t i = 0;
    for (; i + GEMM_ROWS <= m; i += GEMM_ROWS) {
        gemm_pairs_strip(GEMM_ROWS, k_count, g, i, a_row, a_col);
    }
    for (; i < m; i++) {
        gemm_pairs_strip(1, k_count, g, i, a_row, a_col);
    }
}

// m rows of C, k_count pairs of terms each; both may be 0. a_row or a_col is 1.
__attribute__((noinline)) static void gemm_pairs(int64_t m, int64_t k_count,
                                                 const gemm_pairs_operands_t *g)
{
    if (g->a_col == 1) {
        gemm_pairs_strips(m, k_count, g, g->a_row, 1);
    } else {
        gemm_pairs_strips(m, k_count, g, 1, g->a_col);
    }
}

#endif
#endif
