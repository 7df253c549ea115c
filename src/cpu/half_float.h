// fp16, bfloat16 and the two 8-bit floats as single values, in plain C: for the scalar instruction set, for odd ends of rows
// and for strides that no vector load can follow. Stores round to nearest even.
#ifndef ATTN_CPU_HALF_FLOAT_H
#define ATTN_CPU_HALF_FLOAT_H

#include <stdint.h>
#include <string.h>

#include "attn.h"

static inline float attn_bits_to_f32(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t attn_f32_to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float attn_bf16_to_f32(uint16_t bits)
{
    return attn_bits_to_f32((uint32_t)bits << 16);
}

static inline uint16_t attn_f32_to_bf16(float x)
{
    const uint32_t bits = attn_f32_to_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// The exponent field is moved by a multiplication, which also makes denormals right: 2^112 = 2^(127 - 15).
static inline float attn_f16_to_f32(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t magnitude = (uint32_t)(bits & 0x7fffu) << 13;
    if (magnitude >= 0x0f800000u) {
        return attn_bits_to_f32(sign | 0x7f800000u | (magnitude & 0x007fffffu));
    }
    const float x = attn_bits_to_f32(magnitude) * attn_bits_to_f32(0x77800000u);
    return attn_bits_to_f32(attn_f32_to_bits(x) | sign);
}

static inline uint16_t attn_f32_to_f16(float x)
{
    const uint32_t bits = attn_f32_to_bits(x);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    }
    // 65520 is halfway between the largest half, 65504, and 2^16: it and everything above is infinity.
    if (magnitude >= 0x477ff000u) {
        return (uint16_t)(sign | 0x7c00u);
    }
    // Below 2^-14 the half is denormal: adding 0.5 makes the fp32 adder round at bit 2^-24.
    if (magnitude < 0x38800000u) {
        const float shifted = attn_bits_to_f32(magnitude) + 0.5f;
        return (uint16_t)(sign | (attn_f32_to_bits(shifted) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

// OCP 8-bit floats: E5M2 is the upper half of an fp16; E4M3 has bias 7, no infinity, and NaN at 0x7f and 0xff.
static inline float attn_e5m2_to_f32(uint8_t bits)
{
    return attn_f16_to_f32((uint16_t)((uint32_t)bits << 8));
}

static inline float attn_e4m3_to_f32(uint8_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x80u) << 24;
    const uint32_t magnitude = bits & 0x7fu;
    if (magnitude == 0x7fu) {
        return attn_bits_to_f32(sign | 0x7fc00000u);
    }
    const float x = attn_bits_to_f32(magnitude << 20) * attn_bits_to_f32(0x7b800000u); // 2^120
    return attn_bits_to_f32(attn_f32_to_bits(x) | sign);
}

// One stored element as fp32; dtype is not ATTN_F64.
static inline float attn_load_f32(const void *p, attn_dtype_t dtype)
{
    uint16_t half;
    float full;
    switch (dtype) {
    case ATTN_F32: memcpy(&full, p, sizeof full); return full;
    case ATTN_F16: memcpy(&half, p, sizeof half); return attn_f16_to_f32(half);
    case ATTN_BF16: memcpy(&half, p, sizeof half); return attn_bf16_to_f32(half);
    case ATTN_F8_E4M3: return attn_e4m3_to_f32(*(const uint8_t *)p);
    default: return attn_e5m2_to_f32(*(const uint8_t *)p);
    }
}

// dtype is f32, f16 or bf16.
static inline void attn_store_f32(void *p, attn_dtype_t dtype, float x)
{
    if (dtype == ATTN_F32) {
        memcpy(p, &x, sizeof x);
    } else {
        const uint16_t half = dtype == ATTN_F16 ? attn_f32_to_f16(x) : attn_f32_to_bf16(x);
        memcpy(p, &half, sizeof half);
    }
}

#endif
