// test_io_npy.c: .npy round trips, foreign layouts, and one file per way that a header can lie.
#include "io_scratch.h"

#include "file.h"
#include "npy.h"

// An .npy image in memory, exactly as long as it says, so that a sanitizer sees any step beyond.
struct image {
    unsigned char *bytes;
    size_t n;
};

// version 1.0 with this header text, then data.
static struct image make_image(const char *header, const void *data, size_t data_bytes)
{
    const size_t header_bytes = strlen(header);
    struct image image = {.n = 10 + header_bytes + data_bytes};
    image.bytes = malloc(image.n);
    assert_non_null(image.bytes);
    memcpy(image.bytes, "\x93NUMPY\x01\x00", 8);
    image.bytes[8] = (unsigned char)(header_bytes & 0xff);
    image.bytes[9] = (unsigned char)(header_bytes >> 8);
    memcpy(image.bytes + 10, header, header_bytes);
    if (data_bytes > 0) {
        memcpy(image.bytes + 10 + header_bytes, data, data_bytes);
    }
    return image;
}

static const struct io_npy_options options = {.void1 = IO_F8E4M3, .void2 = IO_BF16};

// The text of the error that this header gives with these data, "" if it is accepted.
static const char *refusal(const char *header, const void *data, size_t data_bytes,
                           const struct io_npy_options *how)
{
    static struct io_error err;
    struct io_tensor tensor;
    err.text[0] = '\0';
    struct image image = make_image(header, data, data_bytes);
    const int status = io_npy_parse(image.bytes, image.n, "q.npy", how, &tensor, &err);
    free(image.bytes);
    io_tensor_clear(&tensor);
    assert_int_equal(status, err.text[0] ? -1 : 0);
    return err.text;
}

static void round_trip_of_every_dtype(void **state)
{
    const char *path = scratch_path(state, "t.npy");
    for (int i = IO_DTYPE_NONE + 1; i < IO_DTYPE_COUNT; i++) {
        struct io_error err;
        struct io_tensor tensor;
        struct io_tensor back;
        struct io_npy_options how = options;
        how.void1 = i == IO_F8E5M2 ? IO_F8E5M2 : IO_F8E4M3;
        assert_int_equal(
            io_tensor_init(&tensor, "x", (enum io_dtype)i, 3, (int64_t[]){2, 3, 4}, &err), 0);
        for (int64_t k = 0; k < tensor.count; k++) {
            io_tensor_set(&tensor, k, (double)(k % 7));
        }
        assert_int_equal(io_npy_save(path, &tensor, &err), 0);
        assert_int_equal(io_npy_read(path, &how, &back, &err), 0);
        assert_int_equal(back.dtype, tensor.dtype);
        assert_int_equal(back.ndim, 3);
        assert_memory_equal(back.shape, tensor.shape, sizeof(back.shape));
        assert_memory_equal(back.data, tensor.data, tensor.bytes);
        io_tensor_clear(&tensor);
        io_tensor_clear(&back);
    }
}

static void round_trip_of_every_rank(void **state)
{
    const char *path = scratch_path(state, "t.npy");
    const int64_t widest[IO_MAX_DIMS] = {1, 2, 1, 3, 1, 2, 1, 2};
    for (int ndim = 0; ndim <= IO_MAX_DIMS; ndim++) {
        struct io_error err;
        struct io_tensor tensor;
        struct io_tensor back;
        assert_int_equal(io_tensor_init(&tensor, "x", IO_I32, ndim, widest, &err), 0);
        assert_int_equal(io_npy_save(path, &tensor, &err), 0);
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal((info.st_size - (off_t)tensor.bytes) % 64, 0);
        assert_int_equal(io_npy_read(path, NULL, &back, &err), 0);
        assert_int_equal(back.ndim, ndim);
        io_tensor_clear(&tensor);
        io_tensor_clear(&back);
    }
}

static void expect_values(const char *header, const void *data, size_t data_bytes,
                          const double *wanted, int64_t n)
{
    struct io_error err;
    struct io_tensor tensor;
    struct image image = make_image(header, data, data_bytes);
    if (io_npy_parse(image.bytes, image.n, "q.npy", &options, &tensor, &err)) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(tensor.count, n);
    for (int64_t i = 0; i < n; i++) {
        assert_true(io_tensor_get(&tensor, i) == wanted[i]);
    }
    free(image.bytes);
    io_tensor_clear(&tensor);
}

static void fortran_order(void **state)
{
    (void)state;
    // Element (i, j, k) of shape (2, 3, 2) has the value 100 i + 10 j + k.
    unsigned char file[12];
    double wanted[12];
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 3; j++) {
            for (int k = 0; k < 2; k++) {
                file[i + 2 * j + 6 * k] = (unsigned char)(100 * i + 10 * j + k);
                wanted[6 * i + 2 * j + k] = 100 * i + 10 * j + k;
            }
        }
    }
    expect_values("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }", file, 12, wanted,
                  12);
    expect_values("{'descr': '|u1', 'fortran_order': True, 'shape': (12,), }", "abcdefghijkl", 12,
                  (const double[]){97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108}, 12);
    expect_values("{'descr': '|u1', 'fortran_order': True, 'shape': (0, 3), }", "", 0, NULL, 0);
}

static void byte_orders(void **state)
{
    (void)state;
    const double wanted[] = {258, 1};
    expect_values("{'descr': '>i2', 'fortran_order': False, 'shape': (2,)}", "\x01\x02\x00\x01", 4,
                  wanted, 2);
    expect_values("{'descr': '<i2', 'fortran_order': False, 'shape': (2,)}", "\x02\x01\x01\x00", 4,
                  wanted, 2);
    expect_values("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "\x3f\xc0\x00\x00", 4,
                  (const double[]){1.5}, 1);
    expect_values("{'descr': '>i4', 'fortran_order': True, 'shape': (1, 2)}",
                  "\x00\x00\x01\x00\xff\xff\xff\xfe", 8, (const double[]){256, -2}, 2);
}

static void spellings(void **state)
{
    (void)state;
    const double one[] = {1};
    expect_values("{\"shape\":(1,),\"fortran_order\":False,\"descr\":\"<f2\"}  \n", "\x00\x3c", 2,
                  one, 1);
    expect_values(" { 'descr' : '<f2' , 'fortran_order' : False , 'shape' : ( 1L , ) , } \n",
                  "\x00\x3c", 2, one, 1);
    expect_values("{'descr': '<V2', 'fortran_order': False, 'shape': (1, 1)}", "\x80\x3f", 2, one,
                  1);
    expect_values("{'descr': 'bfloat16', 'fortran_order': False, 'shape': (1, 1)}", "\x80\x3f", 2,
                  one, 1);
    expect_values("{'descr': '|V1', 'fortran_order': False, 'shape': (1,)}", "\x38", 1, one, 1);
    expect_values("{'descr': 'float8_e5m2', 'fortran_order': False, 'shape': (1,)}", "\x3c", 1, one,
                  1);
    expect_values("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\x01", 1, one, 1);
}

static void later_versions(void **state)
{
    (void)state;
    for (int major = 2; major <= 3; major++) {
        const char header[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }\n";
        unsigned char image[12 + sizeof(header)] = "\x93NUMPY";
        image[6] = (unsigned char)major;
        image[8] = sizeof(header) - 1;
        memcpy(image + 12, header, sizeof(header) - 1);
        image[12 + sizeof(header) - 1] = 7;
        struct io_error err;
        struct io_tensor tensor;
        assert_int_equal(io_npy_parse(image, sizeof(image), "q.npy", NULL, &tensor, &err), 0);
        assert_true(io_tensor_get(&tensor, 0) == 7);
        io_tensor_clear(&tensor);
        memset(image + 8, 0xff, 4);
        assert_int_equal(io_npy_parse(image, sizeof(image), "q.npy", NULL, &tensor, &err), -1);
        assert_contains(err.text, "q.npy: header length is 4294967295");
    }
}

static void shapes_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        const char *text;
    } cases[] = {
        {"(-3,)", "q.npy: header, shape[0] is -3, must be >= 0"},
        {"(2, -9223372036854775808)", "shape[1]"},
        {"(99999999999999999999,)", "beyond 64 bits"},
        {"(9223372036854775807,)", "more bytes than can be addressed"},
        {"(4294967296, 4294967296, 4294967296)", "more bytes than can be addressed"},
        {"(4611686018427387904, 4, 0)", "more bytes than can be addressed"},
        {"(1000000000000,)", "needs 4000000000000 bytes of data, the file has 8 (truncated)"},
        {"(3,)", "shape (3,) of f32 needs 12 bytes of data, the file has 8 (truncated)"},
        {"(1,)", "needs 4 bytes of data, the file has 8 (too long)"},
        {"()", "too long"},
        {"(0, 2)", "too long"},
        {"(1,1,1,1,1,1,1,1,2)", "more than 8 dims"},
        {"(2)", "not a tuple"},
        {"(2 3)", "expected ',' or ')'"},
        {"(,)", "expected a number"},
        {"(2.0,)", "expected ',' or ')'"},
        {"(True,)", "expected a number"},
        {"[2]", "expected '('"},
        {"2", "expected '('"},
        {"(2,", "its end"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char header[160];
        snprintf(header, sizeof(header), "{'descr': '<f4', 'fortran_order': False, 'shape': %s%s",
                 cases[i].shape, cases[i].shape[strlen(cases[i].shape) - 1] == ',' ? "" : ", }");
        assert_contains(refusal(header, "12345678", 8, NULL), cases[i].text);
    }
}

static void headers_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        const char *text;
    } cases[] = {
        {"", "expected '{', found its end"},
        {"[1]", "expected '{'"},
        {"{", "key: expected a string"},
        {"{}", "lacks the key 'descr'"},
        {"{'descr': '|u1', 'shape': (1,)}", "lacks the key 'fortran_order'"},
        {"{'descr': '|u1', 'fortran_order': False}", "lacks the key 'shape'"},
        {"{'descr': '|u1', 'descr': '|u1'}", "the key 'descr' twice"},
        {"{'colour': 'red'}", "unknown key 'colour'"},
        {"{'descr' '|u1'}", "descr: expected ':'"},
        {"{'descr': '|u1' 'shape': (1,)}", "expected ',' or '}'"},
        {"{'descr': '|u1", "expected a short string"},
        {"{'descr': 7}", "expected a string"},
        {"{'descr': '0123456789012345678901234567890123456789'}", "expected a short string"},
        {"{'descr': '|u1', 'fortran_order': 0}", "expected True or False"},
        {"{'descr': [('a', '<f4')]}", "structured arrays are not supported"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} x", "nothing after '}'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_contains(refusal(cases[i].header, "1", 1, NULL), cases[i].text);
    }
}

static void descr_that_cannot_be_read(void **state)
{
    (void)state;
    static const char *const descrs[] = {"<f16", "<c8", "|O",  "<U3",  "|S4", "<M8[ns]", "",
                                         "<",    "f",   "f4 ", "none", "|V3", "<<f4"};
    char header[160];
    for (size_t i = 0; i < sizeof(descrs) / sizeof(descrs[0]); i++) {
        snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': False, 'shape': (1,)}",
                 descrs[i]);
        assert_contains(refusal(header, "1234", 4, &options), "is not a supported dtype");
    }
    const char *void2 = "{'descr': '<V2', 'fortran_order': False, 'shape': (1,)}";
    assert_contains(refusal(void2, "12", 2, NULL), "descr '<V2' are bytes without a type");
    const struct io_npy_options wrong = {.void2 = IO_F32};
    assert_contains(refusal(void2, "12", 2, &wrong), "cannot be read as f32");
}

// Every prefix of a good file is refused, and every prefix stays within itself.
static void truncated_anywhere(void **state)
{
    (void)state;
    struct image image =
        make_image("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "12345678", 8);
    for (size_t n = 0; n < image.n; n++) {
        struct io_error err;
        struct io_tensor tensor;
        unsigned char *exact = malloc(n ? n : 1);
        assert_non_null(exact);
        memcpy(exact, image.bytes, n);
        assert_int_equal(io_npy_parse(exact, n, "q.npy", NULL, &tensor, &err), -1);
        assert_contains(err.text, "q.npy: ");
        free(exact);
    }
    free(image.bytes);
}

static void not_npy(void **state)
{
    struct io_error err;
    struct io_tensor tensor;
    assert_int_equal(io_npy_parse("PK\x03\x04 zip file", 13, "a.npz", NULL, &tensor, &err), -1);
    assert_contains(err.text, "a.npz: is not an .npy file");
    assert_int_equal(io_npy_parse("\x93NUMPY\x04\x00\x00\x00", 10, "q", NULL, &tensor, &err), -1);
    assert_contains(err.text, "version 4.0 is not known");
    const char *path = scratch_path(state, "empty.npy");
    scratch_write(path, "", 0);
    assert_int_equal(io_npy_read(path, NULL, &tensor, &err), -1);
    assert_contains(err.text, "is not an .npy file");
    assert_int_equal(io_npy_read(scratch_path(state, "absent"), NULL, &tensor, &err), -1);
    assert_contains(err.text, "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_of_every_dtype),
        cmocka_unit_test(round_trip_of_every_rank),
        cmocka_unit_test(fortran_order),
        cmocka_unit_test(byte_orders),
        cmocka_unit_test(spellings),
        cmocka_unit_test(later_versions),
        cmocka_unit_test(shapes_that_lie),
        cmocka_unit_test(headers_that_lie),
        cmocka_unit_test(descr_that_cannot_be_read),
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(not_npy),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
