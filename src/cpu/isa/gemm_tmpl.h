// The one matrix product of the CPU backend, compiled once per instruction set:
//
//   C[i][0..PANEL) = (accumulate ? C[i] : 0) + sum_k A(i, k) * B[k][0..PANEL)
//   A(i, k) = a[i * a_row + k * a_col]
//
// A's elements are broadcast, B and C are vectors: PANEL = 2 vectors wide, GEMM_ROWS rows of C at a
// time stay in registers over the whole sum. Each element of C is one chain of additions in the
// order of k, so its bits do not depend on m, on the row's place in a strip, or on how callers cut
// the columns.
#ifndef ATTN_CPU_GEMM_TMPL_H
#define ATTN_CPU_GEMM_TMPL_H

#include <stdint.h>

#define PANEL (2 * VF_LANES)

typedef struct gemm_operands {
    const float *a;
    int64_t a_row;
    int64_t a_col;
    const float *b; // k rows of at least PANEL floats
    int64_t b_row;
    float *c; // m rows of at least PANEL floats
    int64_t c_row;
    int32_t accumulate;
} gemm_operands_t;

#define GEMM_INLINE static inline __attribute__((always_inline))

// A loop over a strip's rows, whose count is a constant: whole, or the accumulators would live in
// memory.
#ifdef __clang__
#define GEMM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GEMM_UNROLL _Pragma("GCC unroll 16")
#endif

// rows, and a_row or a_col where they are 1, are constants after inlining: the arrays become
// registers.
GEMM_INLINE void gemm_strip(const int rows, int64_t k_count, const gemm_operands_t *g, int64_t i,
                            int64_t a_row, int64_t a_col)
{
    vf c0[GEMM_ROWS];
    vf c1[GEMM_ROWS];
    float *c = g->c + i * g->c_row;
    const float *a = g->a + i * a_row;
    const float *b = g->b;
    GEMM_UNROLL
    for (int r = 0; r < rows; r++) {
        c0[r] = g->accumulate ? vf_load(c + r * g->c_row) : vf_set1(0.0f);
        c1[r] = g->accumulate ? vf_load(c + r * g->c_row + VF_LANES) : vf_set1(0.0f);
    }
    const int64_t b_row = g->b_row;
    for (int64_t k = 0; k < k_count; k++) {
        const vf b0 = vf_load(b);
        const vf b1 = vf_load(b + VF_LANES);
        GEMM_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf x = vf_set1(a[r * a_row]);
            c0[r] = vf_fma(x, b0, c0[r]);
            c1[r] = vf_fma(x, b1, c1[r]);
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

GEMM_INLINE void gemm_strips(int64_t m, int64_t k_count, const gemm_operands_t *g, int64_t a_row,
                             int64_t a_col)
{
    int64_t i = 0;
    for (; i + GEMM_ROWS <= m; i += GEMM_ROWS) {
        gemm_strip(GEMM_ROWS, k_count, g, i, a_row, a_col);
    }
#if GEMM_ROWS > 4
    if (i + 4 <= m) {
        gemm_strip(4, k_count, g, i, a_row, a_col);
        i += 4;
    }
#endif
    if (i + 2 <= m) {
        gemm_strip(2, k_count, g, i, a_row, a_col);
        i += 2;
    }
    if (i < m) {
        gemm_strip(1, k_count, g, i, a_row, a_col);
    }
}

// m rows of C, k_count terms each; both may be 0. Never inlined: three copies of the strips per
// instruction set are enough.
__attribute__((noinline)) static void gemm(int64_t m, int64_t k_count, const gemm_operands_t *g)
{
    if (g->a_col == 1) {
        gemm_strips(m, k_count, g, g->a_row, 1);
    } else if (g->a_row == 1) {
        gemm_strips(m, k_count, g, 1, g->a_col);
    } else {
        gemm_strips(m, k_count, g, g->a_row, g->a_col);
    }
}

#endif
