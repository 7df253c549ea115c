// array_load.c: see array_load.h.
#include "array_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/npy.h"
#include "io/safetensors.h"
#include "options.h"

static const char extension[] = ".safetensors";

char *array_split_spec(const char *spec, const char **name_out, bool *is_safetensors_out)
{
    size_t path_len = strlen(spec);
    *name_out = NULL;
    *is_safetensors_out = false;
    const char *colon = strstr(spec, ".safetensors:");
    if (colon) {
        path_len = (size_t)(colon - spec) + strlen(extension);
        *name_out = spec + path_len + 1;
        *is_safetensors_out = true;
    } else if (path_len >= strlen(extension) &&
               strcmp(spec + path_len - strlen(extension), extension) == 0) {
        *is_safetensors_out = true;
    }
    char *path = malloc(path_len + 1);
    if (path) {
        memcpy(path, spec, path_len);
        path[path_len] = 0;
    }
    return path;
}

// The tensor of a .safetensors file called `name`, else the operand's name, else the only one.
static int load_safetensors(const char *path, const char *name, const char *operand,
                            struct io_tensor *out, struct io_error *err)
{
    struct io_safetensors *file = NULL;
    if (io_safetensors_open(path, &file, err)) {
        return -1;
    }
    if (!name) {
        name = operand;
        if (!io_safetensors_find(file, operand) && io_safetensors_count(file) == 1) {
            name = io_safetensors_entry_at(file, 0)->name;
        }
    }
    const int status = io_safetensors_read(file, name, out, err);
    io_safetensors_close(file);
    return status;
}

int array_load(const char *spec, const char *operand, enum io_dtype void1, struct io_tensor *out,
               struct io_error *err)
{
    const char *name;
    bool is_safetensors;
    char *path = array_split_spec(spec, &name, &is_safetensors);
    if (!path) {
        return io_fail(err, "%s: out of memory", operand);
    }
    int status;
    if (is_safetensors) {
        status = load_safetensors(path, name, operand, out, err);
    } else {
        const struct io_npy_options options = {.void1 = void1, .void2 = IO_BF16};
        status = io_npy_read(path, &options, out, err);
    }
    free(path);
    return status;
}

// Copies the word before the next comma or semicolon; returns its length. Longer ones are cut.
static size_t first_word(const char *text, char word[64])
{
    const size_t len = strcspn(text, ",;");
    snprintf(word, 64, "%.*s", (int)(len < 63 ? len : 63), text);
    return len;
}

// Whether the text can only be numbers: it looks like them, or every word is one (nan, -inf). A
// file of such a name is written ./1,2.
static bool is_numbers(const char *text)
{
    const bool starts = strchr("0123456789+-", text[0]) && text[0];
    if (starts && text[strspn(text, "0123456789+-.,;eE")] == 0) {
        return true;
    }
    for (;;) {
        char word[64];
        double value;
        const size_t len = first_word(text, word);
        if (options_parse_number(word, &value)) {
            return false;
        }
        if (text[len] == 0) {
            return true;
        }
        text += len + 1;
    }
}

int array_parse_numbers(const char *text, const char *operand, struct io_tensor *out,
                        struct io_error *err)
{
    int64_t rows = 1;
    int64_t count = 1;
    for (const char *c = text; *c; c++) {
        rows += *c == ';';
        count += *c == ',' || *c == ';';
    }
    if (count % rows != 0) {
        return io_fail(err, "%s: '%s': rows of different lengths", operand, text);
    }
    const int64_t shape[2] = {rows > 1 ? rows : count, count / rows};
    if (io_tensor_init(out, operand, IO_F64, rows > 1 ? 2 : 1, shape, err)) {
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        char word[64];
        const size_t len = first_word(text, word);
        double value = 0.0;
        const bool row_ends = (i + 1) % shape[rows > 1] == 0 && i + 1 < count;
        const bool misplaced = rows > 1 && row_ends != (text[len] == ';') && text[len] != 0;
        if (len > 63 || misplaced || options_parse_number(word, &value)) {
            io_tensor_clear(out);
            return io_fail(err, "%s: '%s' is no number, or rows differ in length", operand, word);
        }
        io_tensor_set(out, i, value);
        text += len + (text[len] != 0);
    }
    return 0;
}

static int load_small(const char *spec, const char *operand, struct io_tensor *out,
                      struct io_error *err)
{
    if (is_numbers(spec)) {
        return array_parse_numbers(spec, operand, out, err);
    }
    return array_load(spec, operand, IO_DTYPE_NONE, out, err);
}

bool array_is_float(enum io_dtype dtype)
{
    return dtype == IO_F64 || dtype == IO_F32 || dtype == IO_F16 || dtype == IO_BF16 ||
           dtype == IO_F8E4M3 || dtype == IO_F8E5M2;
}

int array_load_i32(const char *spec, const char *operand, struct io_tensor *out,
                   struct io_error *err)
{
    struct io_tensor raw;
    if (load_small(spec, operand, &raw, err)) {
        return -1;
    }
    int status = 0;
    if (array_is_float(raw.dtype) && !is_numbers(spec)) {
        status = io_fail(err, "%s: %s: dtype %s, expected integers", operand, spec,
                         io_dtype_name(raw.dtype));
    }
    for (int64_t i = 0; i < raw.count && !status; i++) {
        const double value = io_tensor_get(&raw, i);
        if (!(value >= -2147483648.0 && value <= 2147483647.0) || value != floor(value)) {
            status = io_fail(err, "%s: %s: element %lld is %.17g, expected a 32-bit integer",
                             operand, spec, (long long)i, value);
        }
    }
    status = status ? status : io_tensor_convert(&raw, IO_I32, out, err);
    io_tensor_clear(&raw);
    return status;
}

int array_load_f32(const char *spec, const char *operand, struct io_tensor *out,
                   struct io_error *err)
{
    struct io_tensor raw;
    if (load_small(spec, operand, &raw, err)) {
        return -1;
    }
    int status;
    if (array_is_float(raw.dtype)) {
        status = io_tensor_convert(&raw, IO_F32, out, err);
    } else {
        status = io_fail(err, "%s: %s: dtype %s, expected floats", operand, spec,
                         io_dtype_name(raw.dtype));
    }
    io_tensor_clear(&raw);
    return status;
}
