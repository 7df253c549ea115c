// test_onnx_reader.c: hostile protobuf input. Nothing here needs the recorded vectors: the messages
// are written by hand, then cut, mutated and inflated. Every parse works on an exact-size heap
// copy, so that ASan sees a read past the end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "onnx_reader.h"

// dims 2 and 3 (the second packed), FLOAT16, name "Q", 12 bytes of data.
static const uint8_t GOOD_TENSOR[] = {0x08, 2, 0x0a, 1, 3, 0x10, 10, 0x42, 1, 'Q', 0x4a, 12,
                                      1,    2, 3,    4, 5, 6,    7,  8,    9, 10,  11,   12};

// ir_version 10, graph { node { input Q K V, output Y, op Attention, softcap = 2, is_causal = 1 } }
static const uint8_t GOOD_MODEL[] = {
    0x08, 10, 0x3a, 62,   0x0a, 60,                                                             //
    0x0a, 1,  'Q',  0x0a, 1,    'K', 0x0a, 1,   'V', 0x12, 1,   'Y',                            //
    0x22, 9,  'A',  't',  't',  'e', 'n',  't', 'i', 'o',  'n',                                 //
    0x2a, 17, 0x0a, 7,    's',  'o', 'f',  't', 'c', 'a',  'p', 0x15, 0,   0,    0, 0x40, 0xa0, //
    1,    1,                                                                                    //
    0x2a, 16, 0x0a, 9,    'i',  's', '_',  'c', 'a', 'u',  's', 'a',  'l', 0x18, 1, 0xa0, 1,    2};

typedef struct parsed {
    int rc;
    char error[ONNX_MAX_ERROR];
    onnx_tensor tensor;
    onnx_attention_node node;
    uint8_t *copy;
} parsed;

static void parsed_free(parsed *p)
{
    free(p->copy);
    p->copy = NULL;
}

static parsed parse_copy(const uint8_t *bytes, size_t size, int is_model)
{
    parsed p = {.copy = malloc(size > 0 ? size : 1)};
    assert_non_null(p.copy);
    if (size > 0) {
        memcpy(p.copy, bytes, size);
    }
    p.rc = is_model ? onnx_parse_attention_model(p.copy, size, &p.node, p.error)
                    : onnx_parse_tensor(p.copy, size, &p.tensor, p.error);
    assert_true(p.rc == 0 || (p.rc == -1 && p.error[0] != 0));
    return p;
}

static void good_tensor_is_read(void **state)
{
    (void)state;
    parsed p = parse_copy(GOOD_TENSOR, sizeof GOOD_TENSOR, 0);
    assert_int_equal(p.rc, 0);
    assert_string_equal(p.tensor.name, "Q");
    assert_int_equal(p.tensor.rank, 2);
    assert_int_equal(p.tensor.dims[0], 2);
    assert_int_equal(p.tensor.dims[1], 3);
    assert_int_equal(p.tensor.dtype, ONNX_FLOAT16);
    assert_int_equal(p.tensor.count, 6);
    assert_int_equal(p.tensor.raw[11], 12);
    parsed_free(&p);
}

static void good_model_is_read(void **state)
{
    (void)state;
    parsed p = parse_copy(GOOD_MODEL, sizeof GOOD_MODEL, 1);
    assert_string_equal(p.error, "");
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.node.input_count, 3);
    assert_string_equal(p.node.inputs[2], "V");
    assert_string_equal(p.node.outputs[0], "Y");
    assert_true(p.node.softcap == 2.0f);
    assert_int_equal(p.node.is_causal, 1);
    assert_int_equal(p.node.has_scale, 0);
    parsed_free(&p);
}

// A message cut anywhere is an error: no prefix of these two is complete.
static void every_prefix_is_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size < sizeof GOOD_TENSOR; size++) {
        parsed p = parse_copy(GOOD_TENSOR, size, 0);
        assert_int_equal(p.rc, -1);
        parsed_free(&p);
    }
    for (size_t size = 0; size < sizeof GOOD_MODEL; size++) {
        parsed p = parse_copy(GOOD_MODEL, size, 1);
        assert_int_equal(p.rc, -1);
        parsed_free(&p);
    }
}

// Any single byte replaced by any value: an answer or an error, and what is accepted is consistent.
static void every_byte_mutation_is_survived(void **state)
{
    (void)state;
    uint8_t bytes[128];
    for (size_t i = 0; i < sizeof GOOD_TENSOR; i++) {
        for (unsigned value = 0; value < 256; value++) {
            memcpy(bytes, GOOD_TENSOR, sizeof GOOD_TENSOR);
            bytes[i] = (uint8_t)value;
            parsed p = parse_copy(bytes, sizeof GOOD_TENSOR, 0);
            if (p.rc == 0) {
                assert_true((size_t)p.tensor.count * onnx_dtype_bytes(p.tensor.dtype) ==
                            p.tensor.raw_bytes);
                assert_true(p.tensor.raw_bytes <= sizeof GOOD_TENSOR);
            }
            parsed_free(&p);
        }
    }
    for (size_t i = 0; i < sizeof GOOD_MODEL; i++) {
        for (unsigned value = 0; value < 256; value++) {
            memcpy(bytes, GOOD_MODEL, sizeof GOOD_MODEL);
            bytes[i] = (uint8_t)value;
            parsed p = parse_copy(bytes, sizeof GOOD_MODEL, 1);
            parsed_free(&p);
        }
    }
}

typedef struct bad_tensor {
    const char *what;
    const char *error_part;
    size_t size;
    uint8_t bytes[48];
} bad_tensor;

#define TEN_FF 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff

static const bad_tensor BAD_TENSORS[] = {
    {"length 2^63", "cut off", 11, {0x4a, TEN_FF, 0x7f}},
    {"eleven byte varint", "cut off", 12, {0x10, TEN_FF, 0xff, 0x01}},
    {"negative dim", "field 1", 11, {0x08, TEN_FF, 0x01}},
    {"dims that overflow", "overflow", 24, {0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0x08,
                                            0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0x10, 1,
                                            0x4a, 4,    0,    0,    0,    0,    0x42, 0}},
    {"rank 9", "field 1", 20, {0x08, 1, 0x08, 1, 0x08, 1, 0x08, 1, 0x08, 1,
                               0x08, 1, 0x08, 1, 0x08, 1, 0x08, 1, 0x10, 1}},
    {"less data than dims say", "raw_data", 10, {0x08, 2, 0x10, 1, 0x4a, 4, 0, 0, 0, 0}},
    {"no data", "raw_data", 4, {0x08, 2, 0x10, 1}},
    {"unknown type", "data type", 4, {0x08, 2, 0x10, 3}},
    {"huge type", "data type", 13, {0x08, 2, 0x10, TEN_FF, 0x01}},
    {"float_data", "field 4", 6, {0x22, 4, 0, 0, 0, 0}},
    {"external data", "field 14", 2, {0x70, 1}},
    {"name with a zero byte", "field 8", 5, {0x42, 3, 'a', 0, 'b'}},
    {"group", "cut off", 1, {0x0b}},
};

static void bad_tensors_are_refused_with_a_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD_TENSORS / sizeof BAD_TENSORS[0]; i++) {
        const bad_tensor *bad = &BAD_TENSORS[i];
        parsed p = parse_copy(bad->bytes, bad->size, 0);
        if (p.rc != -1 || strstr(p.error, bad->error_part) == NULL) {
            fail_msg("%s: rc %d, error '%s', expected '%s'", bad->what, p.rc, p.error,
                     bad->error_part);
        }
        parsed_free(&p);
    }
}

static void long_name_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[2 + ONNX_MAX_NAME] = {0x42, ONNX_MAX_NAME};
    memset(bytes + 2, 'n', ONNX_MAX_NAME);
    parsed p = parse_copy(bytes, sizeof bytes, 0);
    assert_int_equal(p.rc, -1);
    parsed_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_tensor_is_read),
        cmocka_unit_test(good_model_is_read),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(every_byte_mutation_is_survived),
        cmocka_unit_test(bad_tensors_are_refused_with_a_reason),
        cmocka_unit_test(long_name_is_refused),
    };
    return cmocka_run_group_tests_name("onnx_reader", tests, NULL, NULL);
}
