// Vectors of 4 floats in portable C, through the vector types of gcc and clang: what every 64-bit
// processor has (SSE2, NEON) without being asked, and plain scalar code elsewhere. The contract of
// every name is in simd_avx512.h.
#ifndef ATTN_CPU_SIMD_SCALAR_H
#define ATTN_CPU_SIMD_SCALAR_H

#include <stdint.h>
#include <string.h>

#include "../../shared/convert.h"

#define VF_LANES 4
// 4 rows x 2 accumulators, 2 vectors of B, a broadcast and a product: 12 of SSE2's 16 registers.
#define GEMM_ROWS 4

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef vi vm; // all ones or all zeros per lane

static inline vf vf_load(const float *p)
{
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}

static inline void vf_store(float *p, vf a)
{
    memcpy(p, &a, sizeof a);
}

static inline vf vf_load_n(const float *p, int64_t n)
{
    vf a = {0};
    memcpy(&a, p, (size_t)n * sizeof *p);
    return a;
}

static inline void vf_store_n(float *p, int64_t n, vf a)
{
    memcpy(p, &a, (size_t)n * sizeof *p);
}

static inline vf vf_set1(float x)
{
    return (vf){x, x, x, x};
}

static inline vf vf_add(vf a, vf b)
{
    return a + b;
}

static inline vf vf_sub(vf a, vf b)
{
    return a - b;
}

static inline vf vf_mul(vf a, vf b)
{
    return a * b;
}

static inline vf vf_div(vf a, vf b)
{
    return a / b;
}

// Rounds twice: no fused operation is assumed.
static inline vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}

static inline vf vf_select(vm m, vf a, vf b)
{
    return (vf)((m & (vi)a) | (~m & (vi)b));
}

static inline vm vf_lt(vf a, vf b)
{
    return a < b;
}

static inline vm vf_eq(vf a, vf b)
{
    return a == b;
}

static inline vm vf_isnan(vf a)
{
    return a != a;
}

static inline vf vf_max(vf a, vf b)
{
    return vf_select(a > b, a, b);
}

static inline vf vf_min(vf a, vf b)
{
    return vf_select(a < b, a, b);
}

static inline vf vf_abs(vf a)
{
    return (vf)((vi)a & 0x7fffffff);
}

// Adding 1.5 * 2^23 pushes the fraction out of the mantissa; larger numbers are integral already.
static inline vf vf_round(vf a)
{
    const vf magic = vf_set1(12582912.0f);
    const vf rounded = (a + magic) - magic;
    return vf_select(vf_abs(a) < vf_set1(4194304.0f), rounded, a);
}

// Two steps, so that each factor is a normal number. NaN is made 0 before the conversion, which it
// would make undefined.
static inline vf vf_scale2(vf a, vf n)
{
    const vi whole = __builtin_convertvector(vf_select(n == n, n, vf_set1(0.0f)), vi);
    const vi half = whole >> 1;
    const vf f0 = (vf)((half + 127) << 23);
    const vf f1 = (vf)((whole - half + 127) << 23);
    return a * f0 * f1;
}

static inline float vf_sum(vf a)
{
    return (a[0] + a[2]) + (a[1] + a[3]);
}

static inline vf vf_sum_each(const vf *a)
{
    return (vf){vf_sum(a[0]), vf_sum(a[1]), vf_sum(a[2]), vf_sum(a[3])};
}

static inline float vf_max_lane(vf a)
{
    const float x = a[0] > a[1] ? a[0] : a[1];
    const float y = a[2] > a[3] ? a[2] : a[3];
    return x > y ? x : y;
}

static inline vi vi_load(const int32_t *p)
{
    vi a;
    memcpy(&a, p, sizeof a);
    return a;
}

static inline void vi_store(int32_t *p, vi a)
{
    memcpy(p, &a, sizeof a);
}

static inline vi vi_set1(int32_t x)
{
    return (vi){x, x, x, x};
}

static inline vi vi_add(vi a, vi b)
{
    return a + b;
}

static inline vi vi_sub(vi a, vi b)
{
    return a - b;
}

static inline vm vi_lt(vi a, vi b)
{
    return a < b;
}

static inline vf vi_to_vf(vi a)
{
    return __builtin_convertvector(a, vf);
}

static inline vm vm_and(vm a, vm b)
{
    return a & b;
}

static inline vm vm_or(vm a, vm b)
{
    return a | b;
}

static inline vm vm_not(vm a)
{
    return ~a;
}

static inline uint32_t vm_bits(vm a)
{
    return (uint32_t)((a[0] & 1) | (a[1] & 2) | (a[2] & 4) | (a[3] & 8));
}

static inline int vm_any(vm a)
{
    return vm_bits(a) != 0;
}

static inline vm vm_from_bits(uint32_t bits)
{
    const vi lane_bit = {1, 2, 4, 8};
    return (vi_set1((int32_t)bits) & lane_bit) == lane_bit;
}

// Through copies, since rows may lie at odd addresses.
static inline vf vf_load_f16(const uint16_t *p)
{
    uint16_t h[VF_LANES];
    memcpy(h, p, sizeof h);
    return (vf){attn_f16_to_f32(h[0]), attn_f16_to_f32(h[1]), attn_f16_to_f32(h[2]),
                attn_f16_to_f32(h[3])};
}

static inline void vf_store_f16(uint16_t *p, vf a)
{
    const uint16_t h[VF_LANES] = {attn_f32_to_f16(a[0]), attn_f32_to_f16(a[1]),
                                  attn_f32_to_f16(a[2]), attn_f32_to_f16(a[3])};
    memcpy(p, h, sizeof h);
}

static inline vf vf_load_e5m2(const uint8_t *p)
{
    return (vf){attn_e5m2_to_f32(p[0]), attn_e5m2_to_f32(p[1]), attn_e5m2_to_f32(p[2]),
                attn_e5m2_to_f32(p[3])};
}

static inline vf vf_load_e4m3(const uint8_t *p)
{
    return (vf){attn_e4m3_to_f32(p[0]), attn_e4m3_to_f32(p[1]), attn_e4m3_to_f32(p[2]),
                attn_e4m3_to_f32(p[3])};
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    uint16_t h[VF_LANES];
    memcpy(h, p, sizeof h);
    const vi wide = {h[0], h[1], h[2], h[3]};
    return (vf)(wide << 16);
}

// In elements of the processor's own byte order.
static inline void vf_load_bf16_split(const uint16_t *p, vf *even, vf *odd)
{
    uint16_t h[2 * VF_LANES];
    memcpy(h, p, sizeof h);
    const vi low = {h[0], h[2], h[4], h[6]};
    const vi high = {h[1], h[3], h[5], h[7]};
    *even = (vf)(low << 16);
    *odd = (vf)(high << 16);
}

static inline void vf_store_bf16(uint16_t *p, vf a)
{
    const uint16_t h[VF_LANES] = {attn_f32_to_bf16(a[0]), attn_f32_to_bf16(a[1]),
                                  attn_f32_to_bf16(a[2]), attn_f32_to_bf16(a[3])};
    memcpy(p, h, sizeof h);
}

#endif
