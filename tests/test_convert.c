// src/shared/convert.h: every code of the small formats, and fp32 values around every rounding
// boundary, against the definition of the formats written in fp64.
#include "support.h"

#include <math.h>

#include "shared/convert.h"

typedef struct small_format {
    const char *name;
    uint32_t codes; // codes without the sign
    int32_t mantissa_bits;
    int32_t bias;
    uint32_t finite_max; // largest finite code without the sign
    bool has_infinity;   // the code after finite_max
    float (*decode)(uint32_t code);
    uint32_t (*encode)(float value);
} small_format_t;

static float f16_decode(uint32_t code)
{
    return attn_f16_to_f32((uint16_t)code);
}

static uint32_t f16_encode(float value)
{
    return attn_f32_to_f16(value);
}

static float bf16_decode(uint32_t code)
{
    return attn_bf16_to_f32((uint16_t)code);
}

static uint32_t bf16_encode(float value)
{
    return attn_f32_to_bf16(value);
}

static float e4m3_decode(uint32_t code)
{
    return attn_e4m3_to_f32((uint8_t)code);
}

static uint32_t e4m3_encode(float value)
{
    return attn_f32_to_e4m3(value);
}

static float e5m2_decode(uint32_t code)
{
    return attn_e5m2_to_f32((uint8_t)code);
}

static uint32_t e5m2_encode(float value)
{
    return attn_f32_to_e5m2(value);
}

static const small_format_t formats[] = {
    {"f16", 0x8000, 10, 15, 0x7bff, true, f16_decode, f16_encode},
    {"bf16", 0x8000, 7, 127, 0x7f7f, true, bf16_decode, bf16_encode},
    {"e4m3", 0x80, 3, 7, 0x7e, false, e4m3_decode, e4m3_encode},
    {"e5m2", 0x80, 2, 15, 0x7b, true, e5m2_decode, e5m2_encode},
};
#define FORMAT_COUNT (sizeof(formats) / sizeof(formats[0]))

// The value of a code by the formats' definition; the code after finite_max counts as the next
// power of two's worth, which is where rounding to it begins.
static double code_value(const small_format_t *format, uint32_t code)
{
    const uint32_t mantissa = code & ((1u << format->mantissa_bits) - 1u);
    const int32_t exponent = (int32_t)(code >> format->mantissa_bits);
    const double fraction = ldexp((double)mantissa, -format->mantissa_bits);
    return exponent == 0 ? ldexp(fraction, 1 - format->bias)
                         : ldexp(1.0 + fraction, exponent - format->bias);
}

static void decode_every_code(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        const small_format_t *format = &formats[f];
        for (uint32_t code = 0; code < format->codes; code++) {
            const float plus = format->decode(code);
            const float minus = format->decode(code | format->codes);
            if (code <= format->finite_max) {
                assert_true((double)plus == code_value(format, code));
                assert_true((double)minus == -code_value(format, code));
                assert_true(signbit(minus) && !signbit(plus));
            } else if (format->has_infinity && code == format->finite_max + 1) {
                assert_true(isinf(plus) && isinf(minus) && plus > 0 && minus < 0);
            } else {
                assert_true(isnan(plus) && isnan(minus));
            }
        }
    }
}

static void encode_what_was_decoded(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        const small_format_t *format = &formats[f];
        for (uint32_t code = 0; code < 2 * format->codes; code++) {
            const float value = format->decode(code);
            const uint32_t again = format->encode(value);
            if (isnan(value)) {
                assert_true(isnan(format->decode(again)));
                assert_int_equal(again & format->codes, code & format->codes);
            } else {
                assert_int_equal(again, code);
            }
        }
    }
}

static void assert_encodes(const small_format_t *format, double value, uint32_t code)
{
    const float rounded = (float)value;
    if (format->encode(rounded) != code) {
        fail_msg("%s: %a became 0x%x, expected 0x%x", format->name, value, format->encode(rounded),
                 code);
    }
    assert_int_equal(format->encode(-rounded), code | format->codes);
}

// Between each two neighbours: the tie goes to the even code, the fp32 values beside it to the
// nearer one.
static void encode_around_every_boundary(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        const small_format_t *format = &formats[f];
        for (uint32_t code = 0; code <= format->finite_max; code++) {
            const double tie = (code_value(format, code) + code_value(format, code + 1)) / 2.0;
            const float middle = (float)tie;
            if ((double)middle != tie) {
                continue; // bf16 subnormals: the tie is below fp32's own resolution
            }
            assert_encodes(format, tie, code % 2 == 0 ? code : code + 1);
            assert_encodes(format, (double)nextafterf(middle, 0.0f), code);
            assert_encodes(format, (double)nextafterf(middle, INFINITY), code + 1);
        }
    }
}

static void encode_beyond_the_range(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        const small_format_t *format = &formats[f];
        assert_encodes(format, INFINITY, format->finite_max + 1);
        assert_encodes(format, 3.4028234663852886e38, format->finite_max + 1);
        assert_encodes(format, 0.0, 0);
        assert_encodes(format, 1.401298464324817e-45, 0);
        // Signalling NaN with the lowest payload bit alone: must not become infinity.
        assert_true(isnan(format->decode(format->encode(attn_bits_f32(0x7f800001u)))));
        assert_true(isnan(format->decode(format->encode(attn_bits_f32(0xffffffffu)))));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_every_code),
        cmocka_unit_test(encode_what_was_decoded),
        cmocka_unit_test(encode_around_every_boundary),
        cmocka_unit_test(encode_beyond_the_range),
    };
    return cmocka_run_group_tests_name("convert", tests, NULL, NULL);
}
