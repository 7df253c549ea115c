// test_io_safetensors.c: .safetensors round trips, and one file per way that a header can lie.
#include "io_scratch.h"

#include "safetensors.h"

// Parses a header and n bytes of data, from an allocation of exactly that size. The text of the
// error, "" if it is accepted.
static const char *refusal(const char *json, size_t data_bytes)
{
    static struct io_error err;
    struct io_safetensors *file = NULL;
    const size_t json_bytes = strlen(json);
    const size_t n = 8 + json_bytes + data_bytes;
    unsigned char *image = calloc(1, n);
    assert_non_null(image);
    image[0] = (unsigned char)(json_bytes & 0xff);
    image[1] = (unsigned char)(json_bytes >> 8);
    memcpy(image + 8, json, json_bytes);
    err.text[0] = '\0';
    const int status = io_safetensors_parse(image, n, "m.safetensors", &file, &err);
    assert_int_equal(status, err.text[0] ? -1 : 0);
    assert_int_equal(file == NULL, status != 0);
    io_safetensors_close(file);
    free(image);
    return err.text;
}

static void make_tensors(struct io_tensor *tensors, int n)
{
    static const enum io_dtype dtypes[] = {IO_U8, IO_BF16, IO_F32, IO_I64, IO_F8E5M2, IO_BOOL};
    static const char *const names[] = {"a.bytes", "layer0.q", "layer0.k", "ids", "\xc3\xa9", "m"};
    struct io_error err;
    for (int i = 0; i < n; i++) {
        assert_int_equal(
            io_tensor_init(&tensors[i], names[i], dtypes[i], 2, (int64_t[]){3, i}, &err), 0);
        for (int64_t k = 0; k < tensors[i].count; k++) {
            io_tensor_set(&tensors[i], k, (double)(k + i));
        }
    }
}

static void clear_tensors(struct io_tensor *tensors, int n)
{
    for (int i = 0; i < n; i++) {
        io_tensor_clear(&tensors[i]);
    }
}

static void round_trip(void **state)
{
    const char *path = scratch_path(state, "m.safetensors");
    struct io_error err;
    struct io_tensor tensors[6];
    const struct io_metadata metadata[] = {{"format", "attn"}, {"note", "a \"quoted\" line\n"}};
    make_tensors(tensors, 6);
    assert_int_equal(io_safetensors_save(path, tensors, 6, metadata, 2, &err), 0);
    struct io_safetensors *file = NULL;
    if (io_safetensors_open(path, &file, &err)) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(io_safetensors_count(file), 6);
    assert_string_equal(io_safetensors_metadata(file, "format"), "attn");
    assert_string_equal(io_safetensors_metadata(file, "note"), "a \"quoted\" line\n");
    assert_null(io_safetensors_metadata(file, "absent"));
    for (int i = 0; i < 6; i++) {
        struct io_tensor back;
        const struct io_safetensors_entry *entry = io_safetensors_find(file, tensors[i].name);
        assert_non_null(entry);
        assert_int_equal(entry->bytes, tensors[i].bytes);
        assert_int_equal(entry->begin_bytes % io_dtype_bytes(entry->dtype), 0);
        assert_int_equal(io_safetensors_read(file, tensors[i].name, &back, &err), 0);
        assert_int_equal(back.dtype, tensors[i].dtype);
        assert_string_equal(back.name, tensors[i].name);
        assert_memory_equal(back.shape, tensors[i].shape, sizeof(back.shape));
        assert_memory_equal(back.data, tensors[i].data, back.bytes);
        io_tensor_clear(&back);
    }
    assert_string_equal(io_safetensors_entry_at(file, 0)->name, "ids"); // widest first
    assert_null(io_safetensors_entry_at(file, 6));
    struct io_tensor none;
    assert_int_equal(io_safetensors_read(file, "layer0.v", &none, &err), -1);
    assert_contains(err.text, "has no tensor 'layer0.v', it has 6: ids, layer0.k, layer0.q");
    assert_null(none.data);
    io_safetensors_close(file);
    clear_tensors(tensors, 6);
}

static void data_is_aligned(void **state)
{
    const char *path = scratch_path(state, "m.safetensors");
    struct io_error err;
    struct io_tensor tensors[3];
    make_tensors(tensors, 3);
    for (int n = 0; n <= 3; n++) {
        assert_int_equal(io_safetensors_save(path, tensors, (size_t)n, NULL, 0, &err), 0);
        const unsigned char *content = (const unsigned char *)scratch_content(path);
        assert_int_equal((8 + content[0] + 256 * content[1]) % 64, 0);
    }
    clear_tensors(tensors, 3);
}

static void writing_what_cannot_be_read(void **state)
{
    const char *path = scratch_path(state, "bad.safetensors");
    struct io_error err;
    static const struct {
        const char *first;
        const char *second;
        const char *text;
    } cases[] = {
        {"q", "q", "tensor name 'q' is given twice"},
        {"q", "", "tensor name '' is not allowed"},
        {"__metadata__", "q", "tensor name '__metadata__' is not allowed"},
        {"q", "\xff\xfe", "is not valid UTF-8"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct io_tensor tensors[2];
        assert_int_equal(io_tensor_init(&tensors[0], cases[i].first, IO_F32, 0, NULL, &err), 0);
        assert_int_equal(io_tensor_init(&tensors[1], cases[i].second, IO_F32, 0, NULL, &err), 0);
        assert_int_equal(io_safetensors_save(path, tensors, 2, NULL, 0, &err), -1);
        assert_contains(err.text, cases[i].text);
        assert_int_equal(access(path, F_OK), -1);
        clear_tensors(tensors, 2);
    }
    const struct io_metadata twice[] = {{"k", "1"}, {"k", "2"}};
    assert_int_equal(io_safetensors_save(path, NULL, 0, twice, 2, &err), -1);
    assert_contains(err.text, "metadata key 'k' is given twice");
    const struct io_metadata broken[] = {{"k", "\xc3"}};
    assert_int_equal(io_safetensors_save(path, NULL, 0, broken, 1, &err), -1);
    assert_contains(err.text, "metadata 'k' is not valid UTF-8");
}

#define TENSOR(shape, from, to)                                                                    \
    "{\"q\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}}"

static void entries_that_are_fine(void **state)
{
    (void)state;
    assert_string_equal(refusal("{}", 0), "");
    assert_string_equal(refusal("{}      ", 0), "");
    assert_string_equal(refusal("{\"__metadata__\":{}}", 0), "");
    assert_string_equal(refusal(TENSOR("[2]", "0", "8"), 8), "");
    assert_string_equal(refusal(TENSOR("[]", "0", "4"), 4), "");
    assert_string_equal(refusal(TENSOR("[0,5]", "0", "0"), 0), "");
    // Out of order in the header, odd alignment, an empty one in between, an extra key.
    assert_string_equal(
        refusal("{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5],\"extra\":[1]},"
                "\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]},"
                "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                5),
        "");
}

static void entries_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        size_t data_bytes;
        const char *text;
    } cases[] = {
        {TENSOR("[3]", "0", "8"), 8, "m.safetensors: tensor 'q': shape (3,) of f32 needs 12 bytes"},
        {TENSOR("[2]", "0", "8"), 4, "data_offsets [0, 8] do not lie in the 4 bytes of data"},
        {TENSOR("[2]", "8", "0"), 8, "data_offsets [8, 0] do not lie"},
        {TENSOR("[2]", "-8", "0"), 8, "data_offsets [-8, 0] do not lie"},
        {TENSOR("[2]", "0", "9223372036854775807"), 8, "do not lie"},
        {TENSOR("[2]", "0", "99999999999999999999"), 8, "not valid JSON"},
        {TENSOR("[2]", "0.0", "8.0"), 8, "not a list of two integers"},
        {TENSOR("[2]", "0", "4,8"), 8, "not a list of two integers"},
        {TENSOR("[-2]", "0", "8"), 8, "shape[0] is -2, must be >= 0"},
        {TENSOR("[2.0]", "0", "8"), 8, "shape[0] is not an integer"},
        {TENSOR("[true]", "0", "8"), 8, "shape[0] is not an integer"},
        {TENSOR("2", "0", "8"), 8, "shape is missing or not a list"},
        {TENSOR("[1,1,1,1,1,1,1,1,2]", "0", "8"), 8, "shape has 9 dims"},
        {TENSOR("[4294967296,4294967296,4294967296]", "0", "8"), 8, "more bytes than can be"},
        {TENSOR("[4611686018427387904,4,0]", "0", "0"), 0, "more bytes than can be"},
        {TENSOR("[1]", "0", "4"), 8, "no tensor covers the last 4 bytes"},
        {TENSOR("[1]", "4", "8"), 8, "no tensor covers data bytes 0 to 4, before tensor 'q'"},
        {"{}", 3, "no tensor covers the last 3 bytes"},
        {"{\"q\":7}", 0, "tensor 'q' is not described by a JSON object"},
        {"{\"q\":{}}", 0, "tensor 'q': dtype is missing"},
        {"{\"q\":{\"dtype\":7}}", 0, "dtype is missing or not a string"},
        {"{\"q\":{\"dtype\":\"F32\"}}", 0, "shape is missing"},
        {"{\"q\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "data_offsets is not a list"},
        {"{\"__metadata__\":7}", 0, "__metadata__ is not a JSON object"},
        {"{\"__metadata__\":{\"k\":7}}", 0, "__metadata__ 'k' is not a string"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
         7, "tensor 'b' begins at 3, inside tensor 'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, "duplicate"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_contains(refusal(cases[i].json, cases[i].data_bytes), cases[i].text);
    }
}

static void headers_that_lie(void **state)
{
    (void)state;
    assert_contains(refusal("", 0), "does not begin with '{'");
    assert_contains(refusal("[]", 0), "does not begin with '{'");
    assert_contains(refusal(" {}", 0), "does not begin with '{'");
    assert_contains(refusal("{", 0), "does not begin with '{'");
    assert_contains(refusal("{{", 0), "is not valid JSON");
    assert_contains(refusal("{} x", 0), "is not valid JSON");
    assert_contains(refusal("{\"a\\u0000\":{}}", 0), "is not valid JSON");
    assert_contains(refusal("{\"\xff\":{}}", 0), "is not valid JSON");
    assert_contains(refusal("{\"a", 0), "is not valid JSON");
    assert_contains(refusal("{\"a\\", 0), "is not valid JSON");
    char deep[4096] = "{\"q\":";
    memset(deep + 5, '[', sizeof(deep) - 6);
    assert_contains(refusal(deep, 0), "nests deeper than 8 levels");
    // Brackets within a name are no nesting.
    assert_contains(refusal("{\"[[[[[[[[[[\\\"[[[[\":7}", 0), "is not described by");
}

static void lengths_that_lie(void **state)
{
    (void)state;
    struct io_error err;
    struct io_safetensors *file = NULL;
    unsigned char image[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    assert_int_equal(io_safetensors_parse(image, 10, "m", &file, &err), -1);
    assert_contains(err.text, "m: header length is 3, but 2 bytes follow");
    memset(image, 0xff, 8);
    assert_int_equal(io_safetensors_parse(image, 10, "m", &file, &err), -1);
    assert_contains(err.text, "header length is 18446744073709551615");
    assert_int_equal(io_safetensors_parse(image, 7, "m", &file, &err), -1);
    assert_contains(err.text, "7 bytes, less than its length field");
    assert_int_equal(io_safetensors_parse(NULL, 0, "m", &file, &err), -1);
    assert_null(file);
}

static void unknown_dtype_is_listed(void **state)
{
    (void)state;
    const char json[] = "{\"w\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}";
    unsigned char image[8 + sizeof(json) - 1 + 2] = {sizeof(json) - 1};
    memcpy(image + 8, json, sizeof(json) - 1);
    struct io_error err;
    struct io_safetensors *file = NULL;
    struct io_tensor tensor;
    assert_int_equal(io_safetensors_parse(image, sizeof(image), "m", &file, &err), 0);
    assert_int_equal(io_safetensors_find(file, "w")->dtype, IO_DTYPE_NONE);
    assert_int_equal(io_safetensors_read(file, "w", &tensor, &err), -1);
    assert_contains(err.text, "m: tensor 'w': dtype 'F4' is not supported");
    io_safetensors_close(file);
    io_safetensors_close(NULL);
}

static void truncated_anywhere(void **state)
{
    const char *path = scratch_path(state, "m.safetensors");
    struct io_error err;
    struct io_tensor tensors[3];
    make_tensors(tensors, 3);
    assert_int_equal(io_safetensors_save(path, tensors, 3, NULL, 0, &err), 0);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    const size_t whole = (size_t)info.st_size;
    unsigned char *content = malloc(whole);
    assert_non_null(content);
    memcpy(content, scratch_content(path), whole);
    for (size_t n = 0; n < whole; n++) {
        struct io_safetensors *file = NULL;
        unsigned char *exact = malloc(n ? n : 1);
        assert_non_null(exact);
        memcpy(exact, content, n);
        assert_int_equal(io_safetensors_parse(exact, n, "m", &file, &err), -1);
        free(exact);
    }
    free(content);
    clear_tensors(tensors, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(data_is_aligned),
        cmocka_unit_test(writing_what_cannot_be_read),
        cmocka_unit_test(entries_that_are_fine),
        cmocka_unit_test(entries_that_lie),
        cmocka_unit_test(headers_that_lie),
        cmocka_unit_test(lengths_that_lie),
        cmocka_unit_test(unknown_dtype_is_listed),
        cmocka_unit_test(truncated_anywhere),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
