// Arithmetic that C does not have: approximations of the special function unit, conversions,
// reinterpretation (PTX ISA, "Floating Point Instructions" and "Data Movement and Conversion
// Instructions: cvt"). The emulator computes the approximations with the C library: compare with a
// tolerance.
#ifndef ATTN_PTX_MATH_OPS_H
#define ATTN_PTX_MATH_OPS_H

#include "../common/kernel.h"

// ex2.approx.ftz: 2^x, error 2 ulp; subnormals in and out are 0.
PTX float ex2_approx(float x) PTX_BODY(float r; asm("ex2.approx.ftz.f32 %0, %1;"
                                                    : "=f"(r)
                                                    : "f"(x));
                                       return r;);

// lg2.approx: log2(x).
PTX float lg2_approx(float x) PTX_BODY(float r; asm("lg2.approx.f32 %0, %1;"
                                                    : "=f"(r)
                                                    : "f"(x));
                                       return r;);

// rcp.approx.ftz: 1 / x, error 1 ulp.
PTX float rcp_approx(float x) PTX_BODY(float r; asm("rcp.approx.ftz.f32 %0, %1;"
                                                    : "=f"(r)
                                                    : "f"(x));
                                       return r;);

// max.f32: the other one if one is a NaN.
PTX float max_f32(float a, float b) PTX_BODY(float r; asm("max.f32 %0, %1, %2;"
                                                          : "=f"(r)
                                                          : "f"(a), "f"(b));
                                             return r;);

// fma.rn.f32
PTX float fma_f32(float a, float b, float c) PTX_BODY(return __fmaf_rn(a, b, c););

PTX uint32_t bits_of_f32(float x) PTX_BODY(return __float_as_uint(x););
PTX float f32_of_bits(uint32_t x) PTX_BODY(return __uint_as_float(x););

// clz.b32: zeros above the highest one; 32 of 0.
PTX uint32_t leading_zeros_u32(uint32_t x) PTX_BODY(return (uint32_t)__clz((int)x););

// cvt.rn: two values into one register, `low` in the low half.
PTX uint32_t pack_bf16x2(float low, float high)
    PTX_BODY(uint32_t r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
                             : "=r"(r)
                             : "f"(high), "f"(low));
             return r;);
PTX uint32_t pack_f16x2(float low, float high)
    PTX_BODY(uint32_t r; asm("cvt.rn.f16x2.f32 %0, %1, %2;"
                             : "=r"(r)
                             : "f"(high), "f"(low));
             return r;);

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
// cvt.rn.satfinite: two 8-bit values, `low` in the low byte; too large becomes the largest finite
// one.
PTX uint32_t pack_e4m3x2(float low, float high)
    PTX_BODY(uint16_t r; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
                             : "=h"(r)
                             : "f"(high), "f"(low));
             return r;);
PTX uint32_t pack_e5m2x2(float low, float high)
    PTX_BODY(uint16_t r; asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
                             : "=h"(r)
                             : "f"(high), "f"(low));
             return r;);
#endif

// cvt.f32.f16 and the bf16 of one half.
PTX float f32_of_f16(uint32_t half) PTX_BODY(float r; asm("cvt.f32.f16 %0, %1;"
                                                          : "=f"(r)
                                                          : "h"((uint16_t)half));
                                             return r;);
PTX float f32_of_bf16(uint32_t half) PTX_BODY(return __uint_as_float(half << 16););

// Two floats in one instruction, and the maximum of three: sm_100 and later.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000

struct f32x2 {
    float x;
    float y;
};

PTX struct f32x2 add_f32x2(struct f32x2 a, struct f32x2 b)
    PTX_BODY(struct f32x2 r; asm("{ .reg .b64 a, b, d; mov.b64 a, {%2, %3}; mov.b64 b, {%4, %5}; "
                                 "add.rn.f32x2 d, a, b; mov.b64 {%0, %1}, d; }"
                                 : "=f"(r.x), "=f"(r.y)
                                 : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));
             return r;);
PTX struct f32x2 sub_f32x2(struct f32x2 a, struct f32x2 b)
    PTX_BODY(struct f32x2 r; asm("{ .reg .b64 a, b, d; mov.b64 a, {%2, %3}; mov.b64 b, {%4, %5}; "
                                 "sub.rn.f32x2 d, a, b; mov.b64 {%0, %1}, d; }"
                                 : "=f"(r.x), "=f"(r.y)
                                 : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));
             return r;);
PTX struct f32x2 mul_f32x2(struct f32x2 a, struct f32x2 b)
    PTX_BODY(struct f32x2 r; asm("{ .reg .b64 a, b, d; mov.b64 a, {%2, %3}; mov.b64 b, {%4, %5}; "
                                 "mul.rn.f32x2 d, a, b; mov.b64 {%0, %1}, d; }"
                                 : "=f"(r.x), "=f"(r.y)
                                 : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));
             return r;);
// Rounds down: adding 1.5 * 2^23 this way and subtracting it is the floor of small numbers.
PTX struct f32x2 add_rm_f32x2(struct f32x2 a, struct f32x2 b)
    PTX_BODY(struct f32x2 r; asm("{ .reg .b64 a, b, d; mov.b64 a, {%2, %3}; mov.b64 b, {%4, %5}; "
                                 "add.rm.f32x2 d, a, b; mov.b64 {%0, %1}, d; }"
                                 : "=f"(r.x), "=f"(r.y)
                                 : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));
             return r;);
PTX struct f32x2 fma_f32x2(struct f32x2 a, struct f32x2 b, struct f32x2 c)
    PTX_BODY(struct f32x2 r;
             asm("{ .reg .b64 a, b, c, d; mov.b64 a, {%2, %3}; mov.b64 b, {%4, %5}; mov.b64 c, "
                 "{%6, %7}; fma.rn.f32x2 d, a, b, c; mov.b64 {%0, %1}, d; }"
                 : "=f"(r.x), "=f"(r.y)
                 : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y), "f"(c.x), "f"(c.y));
             return r;);

// max.f32 of three: NaN only if all are.
PTX float max3_f32(float a, float b, float c) PTX_BODY(float r; asm("max.f32 %0, %1, %2, %3;"
                                                                    : "=f"(r)
                                                                    : "f"(a), "f"(b), "f"(c));
                                                       return r;);

#endif

#endif
