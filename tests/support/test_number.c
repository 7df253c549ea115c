// See test_number.h. Formats: IEEE 754 (binary64, binary32, binary16), bfloat16, OCP OFP8.
#include "test_number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct number_format {
    int mantissa_bits; // stored ones
    int exponent_bits;
    bool has_inf; // e4m3 has none: its largest exponent holds numbers, all ones is NaN
} number_format_t;

static number_format_t format_of(attn_dtype_t dtype)
{
    switch (dtype) {
    case ATTN_F32: return (number_format_t){23, 8, true};
    case ATTN_F16: return (number_format_t){10, 5, true};
    case ATTN_BF16: return (number_format_t){7, 8, true};
    case ATTN_F8_E4M3: return (number_format_t){3, 4, false};
    case ATTN_F8_E5M2: return (number_format_t){2, 5, true};
    case ATTN_F64: break;
    }
    return (number_format_t){52, 11, true};
}

static int bias_of(number_format_t format)
{
    return (1 << (format.exponent_bits - 1)) - 1;
}

static double largest_of(number_format_t format)
{
    if (!format.has_inf) {
        return 448.0;
    }
    return ldexp(2.0 - ldexp(1.0, -format.mantissa_bits), bias_of(format));
}

double test_number_unit(attn_dtype_t dtype)
{
    return ldexp(1.0, -format_of(dtype).mantissa_bits - 1);
}

double test_number_round(attn_dtype_t dtype, double value)
{
    const number_format_t format = format_of(dtype);
    if (dtype == ATTN_F64 || isnan(value) || value == 0.0) {
        return value;
    }
    if (isinf(value)) {
        return format.has_inf ? value : NAN;
    }
    if (dtype == ATTN_F32) {
        return (double)(float)value;
    }
    int exponent;
    frexp(value, &exponent); // value = m * 2^exponent with 0.5 <= |m| < 1
    const int lowest = 1 - bias_of(format);
    const int ulp = (exponent - 1 < lowest ? lowest : exponent - 1) - format.mantissa_bits;
    const double rounded = ldexp(nearbyint(ldexp(value, -ulp)), ulp);
    if (fabs(rounded) > largest_of(format)) {
        return format.has_inf ? copysign(INFINITY, value) : NAN;
    }
    return rounded;
}

static double from_code(number_format_t format, unsigned code)
{
    const unsigned mantissa = code & ((1u << format.mantissa_bits) - 1u);
    const unsigned top = (1u << format.exponent_bits) - 1u;
    const unsigned exponent = (code >> format.mantissa_bits) & top;
    const double sign = code >> (format.mantissa_bits + format.exponent_bits) & 1u ? -1.0 : 1.0;
    if (exponent == top && format.has_inf) {
        return mantissa == 0 ? sign * INFINITY : NAN;
    }
    if (exponent == top && mantissa == (1u << format.mantissa_bits) - 1u) {
        return NAN;
    }
    const double fraction = ldexp(mantissa, -format.mantissa_bits) + (exponent == 0 ? 0.0 : 1.0);
    return sign * ldexp(fraction, (int)(exponent == 0 ? 1 : exponent) - bias_of(format));
}

static unsigned to_code(attn_dtype_t dtype, double value)
{
    const number_format_t format = format_of(dtype);
    const double rounded = test_number_round(dtype, value);
    const unsigned top = (1u << format.exponent_bits) - 1u;
    const unsigned sign = (signbit(value) ? 1u : 0u)
                          << (format.mantissa_bits + format.exponent_bits);
    if (isnan(rounded)) {
        const unsigned quiet =
            format.has_inf ? 1u << (format.mantissa_bits - 1) : (1u << format.mantissa_bits) - 1u;
        return sign | top << format.mantissa_bits | quiet;
    }
    if (isinf(rounded)) {
        return sign | top << format.mantissa_bits;
    }
    int exponent;
    frexp(rounded, &exponent);
    exponent += bias_of(format) - 1;
    if (rounded == 0.0 || exponent < 1) { // zero and subnormal numbers: multiples of the smallest
        const int smallest = 1 - bias_of(format) - format.mantissa_bits;
        return sign | (unsigned)ldexp(fabs(rounded), -smallest);
    }
    const double fraction = ldexp(fabs(rounded), bias_of(format) - exponent) - 1.0;
    return sign | (unsigned)exponent << format.mantissa_bits |
           (unsigned)ldexp(fraction, format.mantissa_bits);
}

double test_number_get(attn_dtype_t dtype, const void *data, int64_t index)
{
    const unsigned char *at =
        (const unsigned char *)data + index * (int64_t)attn_dtype_bytes(dtype);
    double wide;
    float single;
    uint16_t half;
    switch (dtype) {
    case ATTN_F64: memcpy(&wide, at, sizeof(wide)); return wide;
    case ATTN_F32: memcpy(&single, at, sizeof(single)); return (double)single;
    case ATTN_F16:
    case ATTN_BF16: memcpy(&half, at, sizeof(half)); return from_code(format_of(dtype), half);
    case ATTN_F8_E4M3:
    case ATTN_F8_E5M2: return from_code(format_of(dtype), *at);
    }
    return NAN;
}

void test_number_set(attn_dtype_t dtype, void *data, int64_t index, double value)
{
    unsigned char *at = (unsigned char *)data + index * (int64_t)attn_dtype_bytes(dtype);
    const float single = (float)value;
    uint16_t half;
    switch (dtype) {
    case ATTN_F64: memcpy(at, &value, sizeof(value)); break;
    case ATTN_F32: memcpy(at, &single, sizeof(single)); break;
    case ATTN_F16:
    case ATTN_BF16:
        half = (uint16_t)to_code(dtype, value);
        memcpy(at, &half, sizeof(half));
        break;
    case ATTN_F8_E4M3:
    case ATTN_F8_E5M2: *at = (unsigned char)to_code(dtype, value); break;
    }
}
