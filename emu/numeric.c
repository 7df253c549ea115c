// 16- and 8-bit floats, bit by bit, and the arithmetic instructions of a thread.
//
// All narrow formats are alike: sign, exponent, mantissa. Rounding is to nearest even. e4m3 has no
// infinity and only the one NaN 0x7f; e5m2 is IEEE-like; 6 and 4 bits have neither. Conversions to
// 8 bits saturate (satfinite), as the instructions' only form does.
#include "../src/device/ptx/math_ops.h"
#include "count.h"
#include "state.h"
#include <math.h>

struct format {
    int exponent_bits;
    int mantissa_bits;
    enum { NO_SPECIALS, ONE_NAN, INFINITIES } specials;
};

static const struct format F16 = {5, 10, INFINITIES};
static const struct format E5M2 = {5, 2, INFINITIES};
static const struct format E4M3 = {4, 3, ONE_NAN};
static const struct format E2M3 = {2, 3, NO_SPECIALS};
static const struct format E3M2 = {3, 2, NO_SPECIALS};
static const struct format E2M1 = {2, 1, NO_SPECIALS};

// Any finite value; 0 and subnormals of the format included.
static float decode(uint32_t bits, struct format f)
{
    uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
    uint32_t exponent = bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
    uint32_t top = (1u << f.exponent_bits) - 1;
    bool negative = bits >> (f.mantissa_bits + f.exponent_bits) & 1;
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    float value;
    if (f.specials == INFINITIES && exponent == top) {
        value = mantissa ? (float)NAN : (float)INFINITY;
    } else if (f.specials == ONE_NAN && exponent == top && mantissa + 1 == 1u << f.mantissa_bits) {
        value = (float)NAN;
    } else if (exponent == 0) {
        value = ldexpf((float)mantissa, 1 - bias - f.mantissa_bits);
    } else {
        value = ldexpf((float)(mantissa | 1u << f.mantissa_bits),
                       (int)exponent - bias - f.mantissa_bits);
    }
    return negative ? -value : value;
}

// Bits of the largest finite value.
static uint32_t largest(struct format f)
{
    uint32_t all = (1u << (f.exponent_bits + f.mantissa_bits)) - 1;
    return f.specials == INFINITIES ? all - (1u << f.mantissa_bits) : all - 1;
}

static uint32_t encode(float x, struct format f, bool saturate)
{
    uint32_t sign = signbit(x) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
    uint32_t all = (1u << (f.exponent_bits + f.mantissa_bits)) - 1;
    if (isnan(x)) {
        return all; // the canonical NaN, without a sign
    }
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    float magnitude = fabsf(x);
    if (magnitude == 0.0f) {
        return sign;
    }
    int exponent = 0;
    frexpf(magnitude, &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    uint32_t bits;
    if (isinf(magnitude) || exponent > bias + 1) {
        bits = largest(f) + 1;
    } else {
        // In units of the last mantissa bit; rintf rounds to even. A carry moves into the exponent
        // by itself.
        uint32_t units = (uint32_t)rintf(ldexpf(magnitude, f.mantissa_bits - exponent));
        bits = units + ((uint32_t)(exponent + bias - 1) << f.mantissa_bits);
    }
    if (bits > largest(f)) {
        bits = saturate ? largest(f) : largest(f) + 1;
    }
    return bits | sign;
}

uint16_t f16_from_f32(float x)
{
    return (uint16_t)encode(x, F16, false);
}

uint8_t e4m3_from_f32(float x)
{
    return (uint8_t)encode(x, E4M3, true);
}

uint8_t e5m2_from_f32(float x)
{
    return (uint8_t)encode(x, E5M2, true);
}

float f32_from_f16(uint16_t x)
{
    return decode(x, F16);
}

float f32_from_e4m3(uint8_t x)
{
    return decode(x, E4M3);
}

float f32_from_e5m2(uint8_t x)
{
    return decode(x, E5M2);
}

float f32_from_e2m3(uint8_t x)
{
    return decode(x, E2M3);
}

float f32_from_e3m2(uint8_t x)
{
    return decode(x, E3M2);
}

float f32_from_e2m1(uint8_t x)
{
    return decode(x, E2M1);
}

// bf16 is the upper half of fp32.
float f32_from_bf16(uint16_t x)
{
    return f32_of_bits((uint32_t)x << 16);
}

uint16_t bf16_from_f32(float x)
{
    uint32_t bits = bits_of_f32(x);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return 0x7fff;
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint32_t element_bytes(emu_element element)
{
    static const uint32_t bytes[] = {
        [EMU_U8] = 1, [EMU_U16] = 2, [EMU_F16] = 2, [EMU_BF16] = 2, [EMU_U32] = 4, [EMU_F32] = 4};
    return bytes[element];
}

uint32_t bits_of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

uint32_t leading_zeros_u32(uint32_t x)
{
    return x ? (uint32_t)__builtin_clz(x) : 32;
}

float f32_of_bits(uint32_t x)
{
    float value;
    memcpy(&value, &x, sizeof value);
    return value;
}

static float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

// Arithmetic gives one NaN only (PTX ISA, "Floating Point": the canonical NaN), as seen on an H200.
static float canonical(float x)
{
    return isnan(x) ? f32_of_bits(0x7fffffff) : x;
}

float ex2_approx(float x)
{
    count_mufu();
    return canonical(flush(exp2f(flush(x))));
}

float lg2_approx(float x)
{
    count_mufu();
    return canonical(log2f(x));
}

float rcp_approx(float x)
{
    count_mufu();
    return canonical(flush(1.0f / flush(x)));
}

// The other one of a NaN, signalling or not; and +0 is larger than -0.
float max_f32(float a, float b)
{
    if (isnan(a) || isnan(b)) {
        return canonical(isnan(a) ? b : a);
    }
    return a > b || (a == b && signbit(b)) ? a : b;
}

float fma_f32(float a, float b, float c)
{
    count_fma(1);
    return canonical(fmaf(a, b, c));
}

float max3_f32(float a, float b, float c)
{
    return max_f32(max_f32(a, b), c);
}

struct f32x2 add_f32x2(struct f32x2 a, struct f32x2 b)
{
    count_fma(2);
    return (struct f32x2){canonical(a.x + b.x), canonical(a.y + b.y)};
}

struct f32x2 sub_f32x2(struct f32x2 a, struct f32x2 b)
{
    count_fma(2);
    return (struct f32x2){canonical(a.x - b.x), canonical(a.y - b.y)};
}

struct f32x2 mul_f32x2(struct f32x2 a, struct f32x2 b)
{
    count_fma(2);
    return (struct f32x2){canonical(a.x * b.x), canonical(a.y * b.y)};
}

struct f32x2 fma_f32x2(struct f32x2 a, struct f32x2 b, struct f32x2 c)
{
    count_fma(2);
    return (struct f32x2){canonical(fmaf(a.x, b.x, c.x)), canonical(fmaf(a.y, b.y, c.y))};
}

// Rounded towards minus infinity: from the rounded sum and its error, which is exact (Knuth's
// TwoSum).
static float add_down(float a, float b)
{
    double sum = (double)a + (double)b;
    double b_part = sum - (double)a;
    double error = ((double)a - (sum - b_part)) + ((double)b - b_part);
    float rounded = (float)sum;
    bool is_above = (double)rounded > sum || ((double)rounded == sum && error < 0.0);
    return is_above ? nextafterf(rounded, -INFINITY) : rounded;
}

struct f32x2 add_rm_f32x2(struct f32x2 a, struct f32x2 b)
{
    count_fma(2);
    return (struct f32x2){canonical(add_down(a.x, b.x)), canonical(add_down(a.y, b.y))};
}

uint32_t pack_bf16x2(float low, float high)
{
    count_conversion();
    return bf16_from_f32(low) | (uint32_t)bf16_from_f32(high) << 16;
}

uint32_t pack_f16x2(float low, float high)
{
    count_conversion();
    return f16_from_f32(low) | (uint32_t)f16_from_f32(high) << 16;
}

uint32_t pack_e4m3x2(float low, float high)
{
    count_conversion();
    return e4m3_from_f32(low) | (uint32_t)e4m3_from_f32(high) << 8;
}

uint32_t pack_e5m2x2(float low, float high)
{
    count_conversion();
    return e5m2_from_f32(low) | (uint32_t)e5m2_from_f32(high) << 8;
}

float f32_of_f16(uint32_t half)
{
    return canonical(f32_from_f16((uint16_t)half));
}

float f32_of_bf16(uint32_t half)
{
    return f32_from_bf16((uint16_t)half);
}
