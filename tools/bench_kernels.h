// bench_kernels.h: inner loops with which attn bench finds out what the machine can do at best.
#ifndef ATTN_TOOLS_BENCH_KERNELS_H
#define ATTN_TOOLS_BENCH_KERNELS_H

#include <stdint.h>

#include "attn.h"

struct bench_kernels {
    // fp32 multiply-adds on registers alone; does `flops` operations per iteration.
    float (*fma)(int64_t iterations);
    double fma_flops;
    // c (rows x columns, rows ldc apart) += a (k x rows, packed) * b (k x columns, packed).
    void (*gemm_tile)(int64_t k, const float *a, const float *b, float *c, int64_t ldc);
    int64_t rows, columns;
    // Reads n floats, a multiple of 128, and gives some sum of them.
    float (*sum)(const float *data, int64_t n);
};

// The kernels of an instruction set; scalar means what the compiler makes of plain C.
const struct bench_kernels *bench_kernels_get(attn_isa_t isa);

#endif
