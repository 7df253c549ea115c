// npy.c: reading .npy. The header is a Python dict literal of three known keys; a parser of exactly
// that grammar is shorter and safer than one of Python. Writing lives in npy_write.c.
//
//     "\x93NUMPY" | major, minor | header length (2 bytes in 1.0, 4 since 2.0) | header | data
//     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
#include "npy.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "file.h"

enum { MAGIC_BYTES = 6, VERSION_END = 8 };

struct cursor {
    const char *at;
    const char *end;
    const char *what; // file, for texts
    struct io_error *err;
};

struct header {
    char descr[32];
    bool fortran_order;
    int ndim;
    int64_t shape[IO_MAX_DIMS];
    bool has_descr;
    bool has_fortran_order;
    bool has_shape;
};

static void skip_spaces(struct cursor *c)
{
    while (c->at < c->end && isspace((unsigned char)*c->at)) {
        c->at++;
    }
}

// Consumes the character if it is next (after spaces).
static bool accept(struct cursor *c, char wanted)
{
    skip_spaces(c);
    if (c->at < c->end && *c->at == wanted) {
        c->at++;
        return true;
    }
    return false;
}

static bool accept_word(struct cursor *c, const char *word)
{
    skip_spaces(c);
    const size_t bytes = strlen(word);
    if ((size_t)(c->end - c->at) >= bytes && memcmp(c->at, word, bytes) == 0) {
        c->at += bytes;
        return true;
    }
    return false;
}

// An error at the cursor that shows what stands there.
static int unexpected(const struct cursor *c, const char *field, const char *wanted)
{
    const int left = (int)(c->end - c->at > 20 ? 20 : c->end - c->at);
    return io_fail(c->err, "%s: header, %s: expected %s, found %s%.*s%s", c->what, field, wanted,
                   left ? "'" : "its end", left, c->at, left ? "'" : "");
}

static int parse_string(struct cursor *c, const char *field, char *text, size_t text_bytes)
{
    skip_spaces(c);
    const char quote = c->at < c->end ? *c->at : '\0';
    if (quote != '\'' && quote != '"') {
        return unexpected(c, field, "a string");
    }
    const char *begin = c->at + 1;
    const char *close = memchr(begin, quote, (size_t)(c->end - begin));
    if (!close || (size_t)(close - begin) >= text_bytes ||
        memchr(begin, 0, (size_t)(close - begin))) {
        return unexpected(c, field, "a short string");
    }
    memcpy(text, begin, (size_t)(close - begin));
    text[close - begin] = '\0';
    c->at = close + 1;
    return 0;
}

static int parse_dim(struct cursor *c, int idx, int64_t *dim_out)
{
    const char *begin = c->at;
    const bool negative = accept(c, '-');
    int64_t value = 0;
    const char *digits = c->at;
    while (c->at < c->end && isdigit((unsigned char)*c->at)) {
        const int digit = *c->at++ - '0';
        if (value > (INT64_MAX - digit) / 10) {
            return io_fail(c->err, "%s: header, shape[%d] is %.*s..., beyond 64 bits", c->what, idx,
                           (int)(c->at - begin > 24 ? 24 : c->at - begin), begin);
        }
        value = 10 * value + digit;
    }
    if (c->at == digits) {
        return unexpected(c, "shape", "a number");
    }
    if (negative) {
        return io_fail(c->err, "%s: header, shape[%d] is -%lld, must be >= 0", c->what, idx,
                       (long long)value);
    }
    if (c->at < c->end && *c->at == 'L') { // Python 2 wrote long integers so
        c->at++;
    }
    *dim_out = value;
    return 0;
}

// (), (3,), (3, 4), (3, 4,)
static int parse_shape(struct cursor *c, struct header *header)
{
    if (!accept(c, '(')) {
        return unexpected(c, "shape", "'('");
    }
    bool comma = true;
    while (!accept(c, ')')) {
        if (!comma) {
            return unexpected(c, "shape", "',' or ')'");
        }
        if (header->ndim == IO_MAX_DIMS) {
            return io_fail(c->err, "%s: header, shape has more than %d dims", c->what, IO_MAX_DIMS);
        }
        if (parse_dim(c, header->ndim, &header->shape[header->ndim])) {
            return -1;
        }
        header->ndim++;
        comma = accept(c, ',');
    }
    if (header->ndim == 1 && !comma) {
        return io_fail(c->err, "%s: header, shape is a number in brackets, not a tuple", c->what);
    }
    return 0;
}

static int parse_descr(struct cursor *c, struct header *header)
{
    skip_spaces(c);
    if (c->at < c->end && *c->at == '[') {
        return io_fail(c->err, "%s: header, descr: structured arrays are not supported", c->what);
    }
    return parse_string(c, "descr", header->descr, sizeof(header->descr));
}

static int parse_fortran_order(struct cursor *c, struct header *header)
{
    if (accept_word(c, "True")) {
        header->fortran_order = true;
        return 0;
    }
    return accept_word(c, "False") ? 0 : unexpected(c, "fortran_order", "True or False");
}

static int parse_entry(struct cursor *c, struct header *header)
{
    char key[32];
    if (parse_string(c, "key", key, sizeof(key))) {
        return -1;
    }
    if (!accept(c, ':')) {
        return unexpected(c, key, "':'");
    }
    const bool is_descr = strcmp(key, "descr") == 0;
    const bool is_order = strcmp(key, "fortran_order") == 0;
    if (!is_descr && !is_order && strcmp(key, "shape") != 0) {
        return io_fail(c->err, "%s: header has the unknown key '%s'", c->what, key);
    }
    bool *seen = is_descr   ? &header->has_descr
                 : is_order ? &header->has_fortran_order
                            : &header->has_shape;
    if (*seen) {
        return io_fail(c->err, "%s: header has the key '%s' twice", c->what, key);
    }
    *seen = true;
    return is_descr   ? parse_descr(c, header)
           : is_order ? parse_fortran_order(c, header)
                      : parse_shape(c, header);
}

static int parse_header(struct cursor *c, struct header *header)
{
    if (!accept(c, '{')) {
        return unexpected(c, "dict", "'{'");
    }
    bool comma = true;
    while (!accept(c, '}')) {
        if (!comma) {
            return unexpected(c, "dict", "',' or '}'");
        }
        if (parse_entry(c, header)) {
            return -1;
        }
        comma = accept(c, ',');
    }
    skip_spaces(c);
    if (c->at != c->end) {
        return unexpected(c, "dict", "nothing after '}'");
    }
    if (!header->has_descr || !header->has_fortran_order || !header->has_shape) {
        return io_fail(c->err, "%s: header lacks the key '%s'", c->what,
                       !header->has_descr           ? "descr"
                       : !header->has_fortran_order ? "fortran_order"
                                                    : "shape");
    }
    return 0;
}

static bool host_is_little(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

// "<f4" to a dtype and whether its bytes are in the other order than the host's.
static int resolve_descr(const char *what, const char *descr, const struct io_npy_options *options,
                         enum io_dtype *dtype_out, bool *swap_out, struct io_error *err)
{
    static const struct {
        const char *name;
        enum io_dtype dtype;
    } spelled_out[] = {
        {"bfloat16", IO_BF16}, {"float8_e4m3fn", IO_F8E4M3}, {"float8_e5m2", IO_F8E5M2}};
    const bool marked = descr[0] && strchr("<>|=", descr[0]);
    const char *code = descr + marked;
    *dtype_out = IO_DTYPE_NONE;
    for (size_t i = 0; i < sizeof(spelled_out) / sizeof(spelled_out[0]); i++) {
        if (strcmp(code, spelled_out[i].name) == 0) {
            *dtype_out = spelled_out[i].dtype;
        }
    }
    for (int i = IO_DTYPE_NONE + 1; i < IO_DTYPE_COUNT && code[0] != 'V'; i++) {
        if (strcmp(code, io_dtype_npy_code((enum io_dtype)i)) == 0) {
            *dtype_out = (enum io_dtype)i;
        }
    }
    if (strcmp(code, "V1") == 0 || strcmp(code, "V2") == 0) {
        *dtype_out = !options ? IO_DTYPE_NONE : code[1] == '1' ? options->void1 : options->void2;
        if (*dtype_out == IO_DTYPE_NONE) {
            return io_fail(err,
                           "%s: header, descr '%s' are bytes without a type (bf16 and fp8 are "
                           "stored so): say which dtype they are",
                           what, descr);
        }
        if (io_dtype_bytes(*dtype_out) != (size_t)(code[1] - '0')) {
            return io_fail(err, "%s: header, descr '%s' cannot be read as %s", what, descr,
                           io_dtype_name(*dtype_out));
        }
    }
    if (*dtype_out == IO_DTYPE_NONE) {
        return io_fail(err, "%s: header, descr '%s' is not a supported dtype", what, descr);
    }
    *swap_out = (descr[0] == '<' && !host_is_little()) || (descr[0] == '>' && host_is_little());
    return 0;
}

static void copy_element(unsigned char *to, const unsigned char *from, size_t bytes, bool swap)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = from[swap ? bytes - 1 - i : i];
    }
}

// Copies elements into C order and host byte order. In a Fortran file the first dim is the fastest.
static void copy_elements(struct io_tensor *out, const unsigned char *data, bool fortran_order,
                          bool swap)
{
    const size_t element_bytes = io_dtype_bytes(out->dtype);
    int64_t idx[IO_MAX_DIMS] = {0};
    int64_t stride[IO_MAX_DIMS]; // of the file, in elements
    int64_t extent = 1;
    for (int i = 0; i < out->ndim; i++) {
        const int dim = fortran_order ? i : out->ndim - 1 - i;
        stride[dim] = extent;
        extent *= out->shape[dim];
    }
    int64_t from = 0;
    for (int64_t i = 0; i < out->count; i++) {
        copy_element((unsigned char *)out->data + (size_t)i * element_bytes,
                     data + (size_t)from * element_bytes, element_bytes, swap);
        for (int dim = out->ndim - 1; dim >= 0; dim--) {
            from += stride[dim];
            if (++idx[dim] < out->shape[dim]) {
                break;
            }
            from -= stride[dim] * out->shape[dim];
            idx[dim] = 0;
        }
    }
}

// Finds the header text: *begin_out to *end_out, where the data starts.
static int find_header(const unsigned char *image, size_t image_bytes, const char *what,
                       size_t *begin_out, size_t *end_out, struct io_error *err)
{
    if (image_bytes < VERSION_END || memcmp(image, "\x93NUMPY", MAGIC_BYTES) != 0) {
        return io_fail(err, "%s: is not an .npy file (no \\x93NUMPY at its start)", what);
    }
    const int major = image[6];
    const int minor = image[7];
    if (major < 1 || major > 3 || minor != 0) {
        return io_fail(err, "%s: .npy version %d.%d is not known (1.0, 2.0 and 3.0 are)", what,
                       major, minor);
    }
    const size_t length_bytes = major == 1 ? 2 : 4;
    const size_t begin = VERSION_END + length_bytes;
    if (image_bytes < begin) {
        return io_fail(err, "%s: ends after %zu bytes, inside the header length", what,
                       image_bytes);
    }
    uint64_t length = 0;
    for (size_t i = 0; i < length_bytes; i++) {
        length |= (uint64_t)image[VERSION_END + i] << (8 * i);
    }
    if (length > image_bytes - begin) {
        return io_fail(err, "%s: header length is %llu, but only %zu bytes follow", what,
                       (unsigned long long)length, image_bytes - begin);
    }
    *begin_out = begin;
    *end_out = begin + (size_t)length;
    return 0;
}

int io_npy_parse(const void *image, size_t image_bytes, const char *what,
                 const struct io_npy_options *options, struct io_tensor *out, struct io_error *err)
{
    *out = (struct io_tensor){0};
    size_t begin = 0;
    size_t data_begin = 0;
    if (find_header(image, image_bytes, what, &begin, &data_begin, err)) {
        return -1;
    }
    const char *chars = image;
    struct cursor cursor = {
        .at = chars + begin, .end = chars + data_begin, .what = what, .err = err};
    struct header header = {0};
    enum io_dtype dtype = IO_DTYPE_NONE;
    bool swap = false;
    int64_t count = 0;
    size_t bytes = 0;
    if (parse_header(&cursor, &header) ||
        resolve_descr(what, header.descr, options, &dtype, &swap, err) ||
        io_shape_check(what, dtype, header.ndim, header.shape, &count, &bytes, err)) {
        return -1;
    }
    const size_t have = image_bytes - data_begin;
    if (have != bytes) {
        char text[160];
        return io_fail(err, "%s: shape %s of %s needs %zu bytes of data, the file has %zu (%s)",
                       what, io_shape_format(header.ndim, header.shape, text, sizeof(text)),
                       io_dtype_name(dtype), bytes, have, have < bytes ? "truncated" : "too long");
    }
    if (io_tensor_init(out, "", dtype, header.ndim, header.shape, err)) {
        return -1;
    }
    if (!swap && !(header.fortran_order && header.ndim > 1)) {
        memcpy(out->data, chars + data_begin, bytes);
    } else {
        copy_elements(out, (const unsigned char *)chars + data_begin, header.fortran_order, swap);
    }
    return 0;
}

int io_npy_read(const char *path, const struct io_npy_options *options, struct io_tensor *out,
                struct io_error *err)
{
    *out = (struct io_tensor){0};
    struct io_buffer buffer;
    if (io_file_read(path, &buffer, err)) {
        return -1;
    }
    const int status = io_npy_parse(buffer.data, buffer.bytes, path, options, out, err);
    io_buffer_clear(&buffer);
    return status;
}
