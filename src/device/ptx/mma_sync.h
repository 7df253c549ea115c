// mma.sync: a warp multiplies fragments, D = A B + D, on every architecture from sm_80 (PTX ISA,
// "Warp-Level Matrix Instructions: mma"). D is 16 x 8 in fp32; A is 16 x k by rows, B k x 8 by
// columns.
//
// Lane t holds, with e elements to a register (2 of 16 bits, k = 16; 4 of 8 bits, k = 32):
//
//   a[i]   row t / 4 + 8 (i % 2), columns e (t % 4) + 4 e (i / 2) and the next e - 1
//   b[i]   column t / 4, rows e (t % 4) + 4 e i and the next e - 1
//   d[i]   row t / 4 + 8 (i / 2), column 2 (t % 4) + i % 2
//
// These are the fragments that ldmatrix_x4 and ldmatrix_x2 give (matrix.h), and the upper left part
// of a wgmma accumulator.
#ifndef ATTN_PTX_MMA_SYNC_H
#define ATTN_PTX_MMA_SYNC_H

#include "../common/kernel.h"

#ifdef __CUDACC__
#define MMA_SYNC_ASM(shape_and_types)                                                              \
    asm volatile("mma.sync.aligned." shape_and_types                                               \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#endif

// d[4], a[4], b[2].
PTX void mma_m16n8k16_f16(float *d, const uint32_t *a, const uint32_t *b)
    PTX_BODY(MMA_SYNC_ASM("m16n8k16.row.col.f32.f16.f16.f32"););
PTX void mma_m16n8k16_bf16(float *d, const uint32_t *a, const uint32_t *b)
    PTX_BODY(MMA_SYNC_ASM("m16n8k16.row.col.f32.bf16.bf16.f32"););

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
// The name says A's type, then B's.
PTX void mma_m16n8k32_e4m3(float *d, const uint32_t *a, const uint32_t *b)
    PTX_BODY(MMA_SYNC_ASM("m16n8k32.row.col.f32.e4m3.e4m3.f32"););
PTX void mma_m16n8k32_e5m2(float *d, const uint32_t *a, const uint32_t *b)
    PTX_BODY(MMA_SYNC_ASM("m16n8k32.row.col.f32.e5m2.e5m2.f32"););
PTX void mma_m16n8k32_e4m3_e5m2(float *d, const uint32_t *a, const uint32_t *b)
    PTX_BODY(MMA_SYNC_ASM("m16n8k32.row.col.f32.e4m3.e5m2.f32"););
PTX void mma_m16n8k32_e5m2_e4m3(float *d, const uint32_t *a, const uint32_t *b)
    PTX_BODY(MMA_SYNC_ASM("m16n8k32.row.col.f32.e5m2.e4m3.f32"););
#endif

#endif
