// Conversions between fp32 and the small floating types, bit exact: round to nearest, ties to even;
// NaN stays NaN (quiet, upper payload bits kept) as the machines' own instructions do it. Integer
// arithmetic alone, so that neither the rounding mode nor flush-to-zero of the calling thread
// changes a result. Kernels with conversion instructions use those; this is what they must agree
// with.
//
// Formats: IEEE 754 binary16, bfloat16, OCP 8-bit floating point specification (OFP8) rev. 1.0 for
// e4m3 and e5m2. Overflow gives infinity; e4m3 has none and gives NaN, so that a value out of range
// is never mistaken for a number.
#ifndef ATTN_SHARED_CONVERT_H
#define ATTN_SHARED_CONVERT_H

#include "shared_types.h"

ATTN_SHARED uint32_t attn_f32_bits(float value)
{
    union {
        float f;
        uint32_t u;
    } cast;
    cast.f = value;
    return cast.u;
}

ATTN_SHARED float attn_bits_f32(uint32_t bits)
{
    union {
        float f;
        uint32_t u;
    } cast;
    cast.u = bits;
    return cast.f;
}

// value / 2^shift, ties to even. value < 2^24.
ATTN_SHARED uint32_t attn_shift_round(uint32_t value, int32_t shift)
{
    if (shift > 25) {
        return 0;
    }
    const uint32_t odd = (value >> shift) & 1u;
    return (value + (1u << (shift - 1)) - 1u + odd) >> shift;
}

// Magnitude of a finite fp32 in a format of so many mantissa bits and this exponent bias, without a
// limit above: the caller compares with its largest code. A mantissa that rounds up carries into
// the exponent, which is right by construction.
ATTN_SHARED uint32_t attn_small_magnitude(uint32_t magnitude, int32_t mantissa_bits, int32_t bias)
{
    const int32_t exponent = (int32_t)(magnitude >> 23) - 127 + bias;
    if (exponent >= 1) {
        const uint32_t mantissa = attn_shift_round(magnitude & 0x7fffffu, 23 - mantissa_bits);
        return ((uint32_t)exponent << mantissa_bits) + mantissa;
    }
    // A subnormal result; fp32 subnormals lie far below half of the smallest one.
    const uint32_t full = (magnitude & 0x7fffffu) | 0x800000u;
    return attn_shift_round(full, 24 - mantissa_bits - exponent);
}

// A code of sign-free bits as fp32. Only for codes that are not infinity or NaN.
ATTN_SHARED float attn_small_value(uint32_t code, int32_t mantissa_bits, int32_t bias)
{
    const uint32_t mantissa = code & ((1u << mantissa_bits) - 1u);
    const uint32_t exponent = code >> mantissa_bits;
    if (exponent > 0) {
        return attn_bits_f32(((exponent + 127u - (uint32_t)bias) << 23) |
                             (mantissa << (23 - mantissa_bits)));
    }
    // mantissa * 2^(1 - bias - mantissa_bits): an exact product of two normal numbers.
    return (float)mantissa * attn_bits_f32((uint32_t)(127 + 1 - bias - mantissa_bits) << 23);
}

ATTN_SHARED float attn_with_sign(float magnitude, uint32_t sign_bit)
{
    return attn_bits_f32(attn_f32_bits(magnitude) | sign_bit);
}

ATTN_SHARED float attn_f16_to_f32(uint16_t value)
{
    const uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    const uint32_t code = value & 0x7fffu;
    if (code < 0x7c00u) {
        return attn_with_sign(attn_small_value(code, 10, 15), sign);
    }
    const uint32_t payload = (code & 0x3ffu) << 13;
    return attn_bits_f32(sign | 0x7f800000u | payload | (payload != 0 ? 0x400000u : 0u));
}

ATTN_SHARED uint16_t attn_f32_to_f16(float value)
{
    const uint32_t bits = attn_f32_bits(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    const uint32_t code = attn_small_magnitude(magnitude, 10, 15);
    return (uint16_t)(sign | (code > 0x7c00u ? 0x7c00u : code));
}

ATTN_SHARED float attn_bf16_to_f32(uint16_t value)
{
    return attn_bits_f32((uint32_t)value << 16);
}

ATTN_SHARED uint16_t attn_f32_to_bf16(float value)
{
    const uint32_t bits = attn_f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

ATTN_SHARED float attn_e4m3_to_f32(uint8_t value)
{
    const uint32_t sign = (uint32_t)(value & 0x80u) << 24;
    const uint32_t code = value & 0x7fu;
    if (code == 0x7fu) {
        return attn_bits_f32(sign | 0x7fc00000u);
    }
    return attn_with_sign(attn_small_value(code, 3, 7), sign);
}

ATTN_SHARED uint8_t attn_f32_to_e4m3(float value)
{
    const uint32_t bits = attn_f32_bits(value);
    const uint32_t sign = (bits >> 24) & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t code = magnitude >= 0x7f800000u ? 0x7fu : attn_small_magnitude(magnitude, 3, 7);
    return (uint8_t)(sign | (code > 0x7fu ? 0x7fu : code));
}

ATTN_SHARED float attn_e5m2_to_f32(uint8_t value)
{
    return attn_f16_to_f32((uint16_t)((uint32_t)value << 8));
}

ATTN_SHARED uint8_t attn_f32_to_e5m2(float value)
{
    const uint32_t bits = attn_f32_bits(value);
    const uint32_t sign = (bits >> 24) & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint8_t)(sign | 0x7eu | ((magnitude >> 21) & 3u));
    }
    const uint32_t code = attn_small_magnitude(magnitude, 2, 15);
    return (uint8_t)(sign | (code > 0x7cu ? 0x7cu : code));
}

#endif
