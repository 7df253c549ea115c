// wgmma: the matrix instruction of a Hopper warpgroup, D[64][n] = A[64][k] B[k][n] (+ D) in fp32,
// asynchronous (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions";
// operands: its "Register Fragments and Shared Memory Matrix Layouts").
//
//   wgmma_ss_TYPE(n, d, desc_a, desc_b, accumulate, ...)    A and B in shared memory
//   wgmma_rs_TYPE(n, d, a, desc_b, accumulate, ...)         A in registers
//
// n is a literal multiple of 8 up to 256. d: n / 2 floats of each of the 128 threads. k is 16 for
// f16 and bf16 and 32 for the 8-bit types. The 16-bit types end with the major-ness of their shared
// operands, literals: 0 = k is contiguous, 1 = m or n is contiguous; 8-bit operands always have k
// contiguous. accumulate == 0 overwrites D.
//
// Thread t of the warpgroup, warp w = t / 32, lane l = t % 32, holds in d[i] row 16 w + l / 4 + 8
// (i / 2 % 2), column 8 (i / 4) + 2 (l % 4) + i % 2; in a[r], packed, rows as bit 0 of r and
// columns 2 (l % 4).. of the k half r / 2 (16-bit; for 8-bit types 4 (l % 4).. of the half).
//
// Between wgmma_fence and wgmma_wait_group nobody may touch d or a; the buffers may be overwritten
// only after the wait.
#ifndef ATTN_PTX_WGMMA_H
#define ATTN_PTX_WGMMA_H

#include "../common/kernel.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900

// wgmma.fence: before the first wgmma of a group, and whenever registers were written
// before one.
PTX void wgmma_fence(void) PTX_BODY(asm volatile("wgmma.fence.sync.aligned;" ::: "memory"););

// wgmma.commit_group
PTX void wgmma_commit_group(void) PTX_BODY(asm volatile("wgmma.commit_group.sync.aligned;" ::
                                                            : "memory"););

#ifdef __CUDACC__

#include "wgmma_lists.h"

// wgmma.wait_group: until at most n of my groups are not done.
#define wgmma_wait_group(n)                                                                        \
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"((int)(n)) : "memory")

// Keeps the compiler from moving an accumulator, or a fragment of A, across this point.
#define WGMMA_PIN(x) asm volatile("" : "+f"(x)::"memory")
#define WGMMA_PIN_U32(x) asm volatile("" : "+r"(x)::"memory")

#define WGMMA_SS(n, k, types, tail, d, desc_a, desc_b, accumulate)                                 \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " WGMMA_SS_P_##n                                  \
                 ", 0; wgmma.mma_async.sync.aligned.m64n" #n k ".f32." types " {" WGMMA_D_##n      \
                 "}, " WGMMA_SS_##n tail "; }"                                                     \
                 : WGMMA_OUT_##n(d)                                                                \
                 : "l"((uint64_t)(desc_a)), "l"((uint64_t)(desc_b)), "r"((int)(accumulate)))
#define WGMMA_RS(n, k, types, tail, d, a, desc_b, accumulate)                                      \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " WGMMA_RS_P_##n                                  \
                 ", 0; wgmma.mma_async.sync.aligned.m64n" #n k ".f32." types " {" WGMMA_D_##n      \
                 "}, " WGMMA_RS_##n tail "; }"                                                     \
                 : WGMMA_OUT_##n(d)                                                                \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"((uint64_t)(desc_b)),    \
                   "r"((int)(accumulate)))
// One step more, so that n and the majors may be macros.
#define WGMMA_TEXT(x) #x
#define WGMMA_SS_16BIT(n, types, d, da, db, acc, ma, mb)                                           \
    WGMMA_SS(n, "k16", types, ", " WGMMA_TEXT(ma) ", " WGMMA_TEXT(mb), d, da, db, acc)
#define WGMMA_RS_16BIT(n, types, d, a, db, acc, mb)                                                \
    WGMMA_RS(n, "k16", types, ", " WGMMA_TEXT(mb), d, a, db, acc)
#define WGMMA_SS_8BIT(n, types, d, da, db, acc) WGMMA_SS(n, "k32", types, "", d, da, db, acc)
#define WGMMA_RS_8BIT(n, types, d, a, db, acc) WGMMA_RS(n, "k32", types, "", d, a, db, acc)
#define wgmma_ss_f16(n, d, desc_a, desc_b, accumulate, major_a, major_b)                           \
    WGMMA_SS_16BIT(n, "f16.f16", d, desc_a, desc_b, accumulate, major_a, major_b)
#define wgmma_rs_f16(n, d, a, desc_b, accumulate, major_b)                                         \
    WGMMA_RS_16BIT(n, "f16.f16", d, a, desc_b, accumulate, major_b)
#define wgmma_ss_bf16(n, d, desc_a, desc_b, accumulate, major_a, major_b)                          \
    WGMMA_SS_16BIT(n, "bf16.bf16", d, desc_a, desc_b, accumulate, major_a, major_b)
#define wgmma_rs_bf16(n, d, a, desc_b, accumulate, major_b)                                        \
    WGMMA_RS_16BIT(n, "bf16.bf16", d, a, desc_b, accumulate, major_b)
#define wgmma_ss_e4m3(n, d, desc_a, desc_b, accumulate)                                            \
    WGMMA_SS_8BIT(n, "e4m3.e4m3", d, desc_a, desc_b, accumulate)
#define wgmma_rs_e4m3(n, d, a, desc_b, accumulate)                                                 \
    WGMMA_RS_8BIT(n, "e4m3.e4m3", d, a, desc_b, accumulate)
#define wgmma_ss_e5m2(n, d, desc_a, desc_b, accumulate)                                            \
    WGMMA_SS_8BIT(n, "e5m2.e5m2", d, desc_a, desc_b, accumulate)
#define wgmma_rs_e5m2(n, d, a, desc_b, accumulate)                                                 \
    WGMMA_RS_8BIT(n, "e5m2.e5m2", d, a, desc_b, accumulate)
#define wgmma_ss_e4m3_e5m2(n, d, desc_a, desc_b, accumulate)                                       \
    WGMMA_SS_8BIT(n, "e4m3.e5m2", d, desc_a, desc_b, accumulate)
#define wgmma_rs_e4m3_e5m2(n, d, a, desc_b, accumulate)                                            \
    WGMMA_RS_8BIT(n, "e4m3.e5m2", d, a, desc_b, accumulate)
#define wgmma_ss_e5m2_e4m3(n, d, desc_a, desc_b, accumulate)                                       \
    WGMMA_SS_8BIT(n, "e5m2.e4m3", d, desc_a, desc_b, accumulate)
#define wgmma_rs_e5m2_e4m3(n, d, a, desc_b, accumulate)                                            \
    WGMMA_RS_8BIT(n, "e5m2.e4m3", d, a, desc_b, accumulate)

#else

#define WGMMA_PIN(x) ((void)(x))
#define WGMMA_PIN_U32(x) ((void)(x))
void wgmma_wait_group(uint32_t n);
void wgmma_ss_f16(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate, int major_a,
                  int major_b);
void wgmma_rs_f16(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate, int major_b);
void wgmma_ss_bf16(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate, int major_a,
                   int major_b);
void wgmma_rs_bf16(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate,
                   int major_b);
void wgmma_ss_e4m3(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate);
void wgmma_rs_e4m3(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate);
void wgmma_ss_e5m2(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate);
void wgmma_rs_e5m2(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate);
void wgmma_ss_e4m3_e5m2(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate);
void wgmma_rs_e4m3_e5m2(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate);
void wgmma_ss_e5m2_e4m3(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate);
void wgmma_rs_e5m2_e4m3(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate);

#endif

#endif

#endif
