// test_io_tensor.c: element types, their rounding, and tensor allocation.
#include "io_scratch.h"

#include <math.h>

#include "tensor.h"

static void names_round_trip(void **state)
{
    (void)state;
    for (int i = IO_DTYPE_NONE + 1; i < IO_DTYPE_COUNT; i++) {
        const enum io_dtype dtype = (enum io_dtype)i;
        assert_int_equal(io_dtype_from_name(io_dtype_name(dtype)), dtype);
        assert_int_equal(io_dtype_from_safetensors_name(io_dtype_safetensors_name(dtype)), dtype);
        assert_in_range(io_dtype_bytes(dtype), 1, 8);
    }
    assert_int_equal(io_dtype_from_name("f31"), IO_DTYPE_NONE);
    assert_int_equal(io_dtype_from_name("none"), IO_DTYPE_NONE);
    assert_int_equal(io_dtype_bytes((enum io_dtype)99), 0);
    assert_int_equal(io_dtype_bytes((enum io_dtype) - 1), 0);
}

// Every code of the narrow floats survives decode and encode, NaN stays NaN.
static void every_code_round_trips(void **state)
{
    (void)state;
    const enum io_dtype dtypes[] = {IO_F16, IO_BF16, IO_F8E4M3, IO_F8E5M2};
    for (size_t k = 0; k < 4; k++) {
        const uint32_t codes = io_dtype_bytes(dtypes[k]) == 1 ? 0x100 : 0x10000;
        for (uint32_t code = 0; code < codes; code++) {
            const uint16_t bits = (uint16_t)code;
            uint16_t back = 0;
            const double value = io_dtype_decode(dtypes[k], &bits);
            io_dtype_encode(dtypes[k], value, &back);
            if (isnan(value)) {
                assert_true(isnan(io_dtype_decode(dtypes[k], &back)));
            } else if (isinf(value) && dtypes[k] == IO_F8E5M2) {
                assert_int_equal(back & 0x7f, 0x7b); // saturates
            } else {
                assert_int_equal(back, bits);
            }
        }
    }
}

static uint32_t encoded(enum io_dtype dtype, double value)
{
    uint32_t bits = 0;
    io_dtype_encode(dtype, value, &bits);
    return bits;
}

static void known_codes(void **state)
{
    (void)state;
    assert_int_equal(encoded(IO_F16, 1.0), 0x3c00);
    assert_int_equal(encoded(IO_F16, -2.0), 0xc000);
    assert_int_equal(encoded(IO_F16, 65504.0), 0x7bff);
    assert_int_equal(encoded(IO_F16, 65519.99), 0x7bff);
    assert_int_equal(encoded(IO_F16, 65520.0), 0x7c00); // half-way goes to even, which is inf
    assert_int_equal(encoded(IO_F16, 0x1p-24), 0x0001); // smallest subnormal
    assert_int_equal(encoded(IO_F16, 0x1p-25), 0x0000); // half of it goes to even
    assert_int_equal(encoded(IO_F16, 0x1.8p-24), 0x0002);
    assert_int_equal(encoded(IO_F16, -0.0), 0x8000);
    assert_int_equal(encoded(IO_F16, 1.0 + 0x1p-11), 0x3c00); // ties to even, both ways
    assert_int_equal(encoded(IO_F16, 1.0 + 0x3p-11), 0x3c02);
    assert_int_equal(encoded(IO_F16, 2047.5 / 2048.0 * 2.0), 0x4000); // carry into the exponent
    assert_int_equal(encoded(IO_BF16, 1.0), 0x3f80);
    assert_int_equal(encoded(IO_BF16, INFINITY), 0x7f80);
    assert_int_equal(encoded(IO_BF16, 1e300), 0x7f80);
    assert_int_equal(encoded(IO_F8E4M3, 448.0), 0x7e);
    assert_int_equal(encoded(IO_F8E4M3, 1e9), 0x7e);
    assert_int_equal(encoded(IO_F8E4M3, -INFINITY), 0xfe);
    assert_int_equal(encoded(IO_F8E4M3, NAN) & 0x7f, 0x7f);
    assert_int_equal(encoded(IO_F8E4M3, 0x1p-9), 0x01);
    assert_int_equal(encoded(IO_F8E5M2, 57344.0), 0x7b);
    assert_int_equal(encoded(IO_F8E5M2, 1e9), 0x7b);
}

static void integers_saturate(void **state)
{
    (void)state;
    assert_int_equal((int8_t)encoded(IO_I8, 200.0), 127);
    assert_int_equal((int8_t)encoded(IO_I8, -200.0), -128);
    assert_int_equal((int8_t)encoded(IO_I8, -3.9), -3);
    assert_int_equal(encoded(IO_U8, -1.0), 0);
    assert_int_equal(encoded(IO_U8, 256.0), 255);
    assert_int_equal(encoded(IO_U16, 65535.5), 65535);
    assert_int_equal(encoded(IO_U32, 1e20), UINT32_MAX);
    assert_int_equal(encoded(IO_I32, NAN), 0);
    assert_int_equal(encoded(IO_BOOL, -0.5), 1);
    int64_t wide = 0;
    io_dtype_encode(IO_I64, -INFINITY, &wide);
    assert_true(wide == INT64_MIN);
    io_dtype_encode(IO_I64, 1e30, &wide);
    assert_true(wide == INT64_MAX);
    uint64_t unsigned_wide = 0;
    io_dtype_encode(IO_U64, 1e30, &unsigned_wide);
    assert_true(unsigned_wide == UINT64_MAX);
}

static void tensors_are_checked(void **state)
{
    (void)state;
    struct io_error err;
    struct io_tensor tensor;
    assert_int_equal(io_tensor_init(&tensor, "q", IO_F32, 2, (int64_t[]){3, -1}, &err), -1);
    assert_contains(err.text, "q: shape[1] is -1");
    assert_null(tensor.data);
    assert_int_equal(io_tensor_init(&tensor, "q", IO_F32, 9, (int64_t[9]){0}, &err), -1);
    assert_contains(err.text, "ndim is 9");
    assert_int_equal(io_tensor_init(&tensor, "q", IO_F32, -1, NULL, &err), -1);
    assert_int_equal(io_tensor_init(&tensor, "q", IO_DTYPE_NONE, 0, NULL, &err), -1);
    const int64_t huge = INT64_C(1) << 31;
    assert_int_equal(io_tensor_init(&tensor, "q", IO_F32, 3, (int64_t[]){huge, huge, 2}, &err), -1);
    assert_contains(err.text, "more bytes than can be addressed");
    // Empty, but its strides would overflow.
    assert_int_equal(io_tensor_init(&tensor, "q", IO_F32, 3, (int64_t[]){huge, huge, 0}, &err), -1);
}

static void tensors_hold_values(void **state)
{
    (void)state;
    struct io_error err;
    struct io_tensor tensor;
    struct io_tensor copy;
    assert_int_equal(io_tensor_init(&tensor, NULL, IO_F64, 2, (int64_t[]){2, 3}, &err), 0);
    assert_string_equal(tensor.name, "");
    assert_int_equal(tensor.count, 6);
    assert_int_equal(tensor.bytes, 48);
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    assert_int_equal(tensor.shape[2], 1);
    for (int64_t i = 0; i < 6; i++) {
        assert_true(io_tensor_get(&tensor, i) == 0.0);
        io_tensor_set(&tensor, i, 0.25 * (double)i);
    }
    for (int i = IO_F64; i <= IO_F8E5M2; i++) {
        assert_int_equal(io_tensor_convert(&tensor, (enum io_dtype)i, &copy, &err), 0);
        for (int64_t k = 0; k < 6; k++) {
            assert_true(io_tensor_get(&copy, k) == 0.25 * (double)k);
        }
        io_tensor_clear(&copy);
    }
    io_tensor_clear(&tensor);
    io_tensor_clear(&tensor);
    io_tensor_clear(NULL);
}

static void empty_and_scalar(void **state)
{
    (void)state;
    struct io_error err;
    struct io_tensor tensor;
    assert_int_equal(io_tensor_init(&tensor, "", IO_F32, 0, NULL, &err), 0);
    assert_int_equal(tensor.count, 1);
    io_tensor_clear(&tensor);
    assert_int_equal(io_tensor_init(&tensor, "", IO_F32, 2, (int64_t[]){0, 5}, &err), 0);
    assert_int_equal(tensor.count, 0);
    assert_non_null(tensor.data);
    io_tensor_clear(&tensor);
}

static void shapes_as_text(void **state)
{
    (void)state;
    char text[16];
    const int64_t shape[] = {2, 30, 400, 5000};
    assert_string_equal(io_shape_format(0, shape, text, sizeof(text)), "()");
    assert_string_equal(io_shape_format(1, shape, text, sizeof(text)), "(2,)");
    assert_string_equal(io_shape_format(2, shape, text, sizeof(text)), "(2, 30)");
    assert_string_equal(io_shape_format(4, shape, text, sizeof(text)), "(2, 30, 400, 50");
}

static void error_texts_are_harmless(void **state)
{
    (void)state;
    struct io_error err;
    assert_int_equal(io_fail(&err, "a%sb", "\x1b[2J\n\x7f"), -1);
    assert_string_equal(err.text, "a?[2J??b");
    assert_int_equal(io_fail(&err, "%600d", 1), -1);
    assert_int_equal(strlen(err.text), IO_ERROR_TEXT_BYTES - 1);
    assert_int_equal(io_fail(NULL, "nobody listens"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(every_code_round_trips),
        cmocka_unit_test(known_codes),
        cmocka_unit_test(integers_saturate),
        cmocka_unit_test(tensors_are_checked),
        cmocka_unit_test(tensors_hold_values),
        cmocka_unit_test(empty_and_scalar),
        cmocka_unit_test(shapes_as_text),
        cmocka_unit_test(error_texts_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
