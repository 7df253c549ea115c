// dtype.c: the table of element types and their scalar conversions.
//
// The four small floats share one decoder and one encoder that follow the definition of a binary
// float: sign, exponent of E bits, fraction of M bits. Clarity over speed, as said in dtype.h.
#include "dtype.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct dtype_row {
    size_t bytes;
    const char *name;
    const char *safetensors;
    const char *npy;
};

static const struct dtype_row rows[IO_DTYPE_COUNT] = {[IO_DTYPE_NONE] = {0, "none", "none", "none"},
#define DTYPE_ROW(suffix, bytes, name, safetensors, npy)                                           \
    [IO_##suffix] = {bytes, name, safetensors, npy},
                                                      IO_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};

static const struct dtype_row *row_of(enum io_dtype dtype)
{
    const bool known = (int)dtype > IO_DTYPE_NONE && (int)dtype < IO_DTYPE_COUNT;
    return &rows[known ? dtype : IO_DTYPE_NONE];
}

size_t io_dtype_bytes(enum io_dtype dtype)
{
    return row_of(dtype)->bytes;
}

const char *io_dtype_name(enum io_dtype dtype)
{
    return row_of(dtype)->name;
}

const char *io_dtype_safetensors_name(enum io_dtype dtype)
{
    return row_of(dtype)->safetensors;
}

const char *io_dtype_npy_code(enum io_dtype dtype)
{
    return row_of(dtype)->npy;
}

enum io_dtype io_dtype_from_name(const char *name)
{
    for (int i = IO_DTYPE_NONE + 1; i < IO_DTYPE_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return (enum io_dtype)i;
        }
    }
    return IO_DTYPE_NONE;
}

enum io_dtype io_dtype_from_safetensors_name(const char *name)
{
    for (int i = IO_DTYPE_NONE + 1; i < IO_DTYPE_COUNT; i++) {
        if (strcmp(rows[i].safetensors, name) == 0) {
            return (enum io_dtype)i;
        }
    }
    return IO_DTYPE_NONE;
}

// A binary float narrower than 32 bits.
struct small_float {
    int fraction_bits;
    int exponent_bits;
    int bias;
    bool has_inf;  // the largest exponent is inf and NaN; otherwise only all ones is NaN
    bool saturate; // overflow gives the largest finite value, not inf
};

static const struct small_float f16_format = {10, 5, 15, true, false};
static const struct small_float bf16_format = {7, 8, 127, true, false};
// OCP 8-bit floating point specification, revision 1.0, table 1.
static const struct small_float f8e4m3_format = {3, 4, 7, false, true};
static const struct small_float f8e5m2_format = {2, 5, 15, true, true};

// 2^exponent, of the normal doubles; ldexp would take most of the time of converting a tensor.
static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof(power));
    return power;
}

static double decode_small(const struct small_float *format, uint32_t bits)
{
    const uint32_t fraction_max = (1u << format->fraction_bits) - 1;
    const uint32_t exponent_max = (1u << format->exponent_bits) - 1;
    const uint32_t fraction = bits & fraction_max;
    const uint32_t exponent = (bits >> format->fraction_bits) & exponent_max;
    const uint32_t sign = bits >> (format->fraction_bits + format->exponent_bits);
    double value;
    if (exponent == exponent_max && format->has_inf) {
        value = fraction ? NAN : INFINITY;
    } else if (exponent == exponent_max && fraction == fraction_max) {
        value = NAN;
    } else if (exponent == 0) {
        value = fraction * power_of_two(1 - format->bias - format->fraction_bits);
    } else {
        value = (fraction + fraction_max + 1.0) *
                power_of_two((int)exponent - format->bias - format->fraction_bits);
    }
    return sign ? -value : value;
}

static uint32_t encode_small(const struct small_float *format, double value)
{
    const uint32_t one = 1u << format->fraction_bits; // exponent 1 of the encoding
    const uint32_t top = ((1u << format->exponent_bits) - 1) << format->fraction_bits;
    const uint32_t inf = format->has_inf ? top : top + one - 1; // first code that is not finite
    const uint32_t sign =
        signbit(value) ? 1u << (format->fraction_bits + format->exponent_bits) : 0;
    if (isnan(value)) {
        return sign | (format->has_inf ? top + one / 2 : inf);
    }
    const uint32_t overflow = format->saturate ? inf - 1 : inf;
    if (isinf(value)) {
        return sign | overflow;
    }
    if (value == 0) {
        return sign;
    }
    int exponent; // of value = f x 2^exponent with f in [0.5, 1)
    frexp(value, &exponent);
    const int lowest = 1 - format->bias; // below it the spacing stays the same: subnormals
    exponent = exponent - 1 < lowest ? lowest : exponent - 1;
    if (exponent > format->bias + 1) {
        return sign | overflow;
    }
    // In units of the last place; a carry into the next exponent is what the encoding wants.
    const double units = rint(fabs(value) * power_of_two(format->fraction_bits - exponent));
    const uint32_t code = (uint32_t)(exponent - lowest) * one + (uint32_t)units;
    return sign | (code >= inf ? overflow : code);
}

#define LOAD_AS(type)                                                                              \
    do {                                                                                           \
        type loaded;                                                                               \
        memcpy(&loaded, element, sizeof(loaded));                                                  \
        return (double)loaded;                                                                     \
    } while (0)

static uint16_t load_u16(const void *element)
{
    uint16_t bits;
    memcpy(&bits, element, sizeof(bits));
    return bits;
}

double io_dtype_decode(enum io_dtype dtype, const void *element)
{
    switch (dtype) {
    case IO_F64: LOAD_AS(double);
    case IO_F32: LOAD_AS(float);
    case IO_F16: return decode_small(&f16_format, load_u16(element));
    case IO_BF16: return decode_small(&bf16_format, load_u16(element));
    case IO_F8E4M3: return decode_small(&f8e4m3_format, *(const uint8_t *)element);
    case IO_F8E5M2: return decode_small(&f8e5m2_format, *(const uint8_t *)element);
    case IO_I64: LOAD_AS(int64_t);
    case IO_I32: LOAD_AS(int32_t);
    case IO_I16: LOAD_AS(int16_t);
    case IO_I8: LOAD_AS(int8_t);
    case IO_U64: LOAD_AS(uint64_t);
    case IO_U32: LOAD_AS(uint32_t);
    case IO_U16: LOAD_AS(uint16_t);
    case IO_U8: LOAD_AS(uint8_t);
    case IO_BOOL: return *(const uint8_t *)element != 0;
    case IO_DTYPE_NONE:
    case IO_DTYPE_COUNT: break;
    }
    return NAN;
}

// value as an integer of [-2^(bits-1), 2^(bits-1)) or [0, 2^bits), in two's complement.
static uint64_t to_integer(double value, int bits, bool is_signed)
{
    const double end = ldexp(1.0, is_signed ? bits - 1 : bits); // first value too large
    const double low = is_signed ? -end : 0.0;
    if (isnan(value)) {
        return 0;
    }
    if (value >= end) {
        return is_signed ? UINT64_MAX >> (65 - bits) : UINT64_MAX >> (64 - bits);
    }
    if (value <= low) {
        return is_signed ? UINT64_MAX << (bits - 1) : 0;
    }
    return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}

// Stores the low bytes of bits in host order.
static void store_bits(void *element, uint64_t bits, size_t bytes)
{
    const uint8_t narrow8 = (uint8_t)bits;
    const uint16_t narrow16 = (uint16_t)bits;
    const uint32_t narrow32 = (uint32_t)bits;
    const void *source = bytes == 1   ? (const void *)&narrow8
                         : bytes == 2 ? (const void *)&narrow16
                         : bytes == 4 ? (const void *)&narrow32
                                      : (const void *)&bits;
    memcpy(element, source, bytes);
}

void io_dtype_encode(enum io_dtype dtype, double value, void *element)
{
    const size_t bytes = io_dtype_bytes(dtype);
    const int bits = (int)bytes * 8;
    switch (dtype) {
    case IO_F64: memcpy(element, &value, sizeof(value)); break;
    case IO_F32: {
        const float narrow = (float)value;
        memcpy(element, &narrow, sizeof(narrow));
        break;
    }
    case IO_F16: store_bits(element, encode_small(&f16_format, value), bytes); break;
    case IO_BF16: store_bits(element, encode_small(&bf16_format, value), bytes); break;
    case IO_F8E4M3: store_bits(element, encode_small(&f8e4m3_format, value), bytes); break;
    case IO_F8E5M2: store_bits(element, encode_small(&f8e5m2_format, value), bytes); break;
    case IO_I64:
    case IO_I32:
    case IO_I16:
    case IO_I8: store_bits(element, to_integer(value, bits, true), bytes); break;
    case IO_U64:
    case IO_U32:
    case IO_U16:
    case IO_U8: store_bits(element, to_integer(value, bits, false), bytes); break;
    case IO_BOOL: store_bits(element, value != 0.0 && !isnan(value), bytes); break;
    case IO_DTYPE_NONE:
    case IO_DTYPE_COUNT: break;
    }
}
