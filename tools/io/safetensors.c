// safetensors.c: reading .safetensors. jansson parses the JSON; what it means is checked here.
// Writing lives in safetensors_write.c.
//
// The order of the checks matters with hostile files: lengths against the file's size first, then
// the nesting depth (before jansson recurses), then each entry alone, then all entries together.
#include "safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

enum {
    LENGTH_BYTES = 8,
    // The reference implementation's limit, too.
    HEADER_LIMIT_BYTES = 100 * 1000 * 1000,
    // {"name": {"shape": []}} needs 3; what is deeper is no safetensors header.
    DEPTH_LIMIT = 8
};

struct io_safetensors {
    char *what;              // file, for texts
    struct io_buffer buffer; // owned bytes of the file; empty when the caller owns the image
    const unsigned char *data;
    size_t data_bytes;
    json_t *root; // owns all names
    struct io_safetensors_entry *entries;
    size_t n;
};

// Counts open brackets outside strings. Malformed text is left for jansson to describe.
static bool too_deep(const char *json, size_t bytes)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        const char c = json[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > DEPTH_LIMIT) {
                return true;
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return false;
}

static int load_json(struct io_safetensors *file, const char *json, size_t bytes,
                     struct io_error *err)
{
    if (too_deep(json, bytes)) {
        return io_fail(err, "%s: header nests deeper than %d levels", file->what, DEPTH_LIMIT);
    }
    json_error_t problem;
    file->root = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!file->root) {
        return io_fail(err, "%s: header is not valid JSON: %s (line %d, column %d)", file->what,
                       problem.text, problem.line, problem.column);
    }
    if (!json_is_object(file->root)) {
        return io_fail(err, "%s: header is not a JSON object", file->what);
    }
    return 0;
}

static int parse_shape(const struct io_safetensors *file, const json_t *shape,
                       struct io_safetensors_entry *entry, struct io_error *err)
{
    if (!json_is_array(shape)) {
        return io_fail(err, "%s: tensor '%s': shape is missing or not a list", file->what,
                       entry->name);
    }
    if (json_array_size(shape) > IO_MAX_DIMS) {
        return io_fail(err, "%s: tensor '%s': shape has %zu dims, at most %d are supported",
                       file->what, entry->name, json_array_size(shape), IO_MAX_DIMS);
    }
    entry->ndim = (int)json_array_size(shape);
    for (int i = 0; i < entry->ndim; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        if (!json_is_integer(dim)) {
            return io_fail(err, "%s: tensor '%s': shape[%d] is not an integer", file->what,
                           entry->name, i);
        }
        entry->shape[i] = json_integer_value(dim);
        if (entry->shape[i] < 0) {
            return io_fail(err, "%s: tensor '%s': shape[%d] is %lld, must be >= 0", file->what,
                           entry->name, i, (long long)entry->shape[i]);
        }
    }
    return 0;
}

static int parse_offsets(const struct io_safetensors *file, const json_t *offsets,
                         struct io_safetensors_entry *entry, struct io_error *err)
{
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end)) {
        return io_fail(err, "%s: tensor '%s': data_offsets is not a list of two integers",
                       file->what, entry->name);
    }
    const json_int_t from = json_integer_value(begin);
    const json_int_t to = json_integer_value(end);
    if (from < 0 || to < from || (uint64_t)to > file->data_bytes) {
        return io_fail(err,
                       "%s: tensor '%s': data_offsets [%lld, %lld] do not lie in the %zu bytes of "
                       "data",
                       file->what, entry->name, (long long)from, (long long)to, file->data_bytes);
    }
    entry->begin_bytes = (size_t)from;
    entry->bytes = (size_t)(to - from);
    return 0;
}

// shape x dtype must be what the offsets span; of an unknown dtype nothing can be said.
static int check_size(const struct io_safetensors *file, const struct io_safetensors_entry *entry,
                      struct io_error *err)
{
    if (entry->dtype == IO_DTYPE_NONE) {
        return 0;
    }
    char what[256];
    snprintf(what, sizeof(what), "%s: tensor '%s'", file->what, entry->name);
    int64_t count = 0;
    size_t bytes = 0;
    if (io_shape_check(what, entry->dtype, entry->ndim, entry->shape, &count, &bytes, err)) {
        return -1;
    }
    if (bytes != entry->bytes) {
        char text[160];
        return io_fail(err, "%s: shape %s of %s needs %zu bytes, data_offsets span %zu", what,
                       io_shape_format(entry->ndim, entry->shape, text, sizeof(text)),
                       io_dtype_name(entry->dtype), bytes, entry->bytes);
    }
    return 0;
}

static int parse_entry(const struct io_safetensors *file, const char *name, const json_t *value,
                       struct io_safetensors_entry *entry, struct io_error *err)
{
    *entry = (struct io_safetensors_entry){.name = name};
    if (!json_is_object(value)) {
        return io_fail(err, "%s: tensor '%s' is not described by a JSON object", file->what, name);
    }
    entry->dtype_name = json_string_value(json_object_get(value, "dtype"));
    if (!entry->dtype_name) {
        return io_fail(err, "%s: tensor '%s': dtype is missing or not a string", file->what, name);
    }
    entry->dtype = io_dtype_from_safetensors_name(entry->dtype_name);
    if (parse_shape(file, json_object_get(value, "shape"), entry, err) ||
        parse_offsets(file, json_object_get(value, "data_offsets"), entry, err)) {
        return -1;
    }
    return check_size(file, entry, err);
}

static int check_metadata(const struct io_safetensors *file, json_t *metadata, struct io_error *err)
{
    if (!json_is_object(metadata)) {
        return io_fail(err, "%s: __metadata__ is not a JSON object", file->what);
    }
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value)) {
            return io_fail(err, "%s: __metadata__ '%s' is not a string", file->what, key);
        }
    }
    return 0;
}

static int parse_entries(struct io_safetensors *file, struct io_error *err)
{
    file->entries = calloc(json_object_size(file->root) + 1, sizeof(*file->entries));
    if (!file->entries) {
        return io_fail(err, "%s: out of memory for the list of tensors", file->what);
    }
    const char *name;
    json_t *value;
    json_object_foreach(file->root, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (check_metadata(file, value, err)) {
                return -1;
            }
        } else if (parse_entry(file, name, value, &file->entries[file->n], err)) {
            return -1;
        } else {
            file->n++;
        }
    }
    return 0;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct io_safetensors_entry *left = *(const struct io_safetensors_entry *const *)a;
    const struct io_safetensors_entry *right = *(const struct io_safetensors_entry *const *)b;
    if (left->begin_bytes != right->begin_bytes) {
        return left->begin_bytes < right->begin_bytes ? -1 : 1;
    }
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

// In order of their offsets the tensors must cover the data exactly: the format forbids holes, and
// overlap would let two names alias.
static int check_cover(const struct io_safetensors *file, struct io_error *err)
{
    const struct io_safetensors_entry **order = calloc(file->n + 1, sizeof(*order));
    if (!order) {
        return io_fail(err, "%s: out of memory for the list of tensors", file->what);
    }
    for (size_t i = 0; i < file->n; i++) {
        order[i] = &file->entries[i];
    }
    qsort(order, file->n, sizeof(*order), compare_offsets);
    size_t covered = 0;
    int status = 0;
    for (size_t i = 0; i < file->n && !status; i++) {
        const struct io_safetensors_entry *entry = order[i];
        if (entry->begin_bytes < covered) {
            status = io_fail(err, "%s: tensor '%s' begins at %zu, inside tensor '%s'", file->what,
                             entry->name, entry->begin_bytes, order[i - 1]->name);
        } else if (entry->begin_bytes > covered) {
            status = io_fail(err, "%s: no tensor covers data bytes %zu to %zu, before tensor '%s'",
                             file->what, covered, entry->begin_bytes, entry->name);
        }
        covered = entry->begin_bytes + entry->bytes;
    }
    free(order);
    if (!status && covered != file->data_bytes) {
        status = io_fail(err, "%s: no tensor covers the last %zu bytes", file->what,
                         file->data_bytes - covered);
    }
    return status;
}

static int parse_image(struct io_safetensors *file, const unsigned char *image, size_t bytes,
                       struct io_error *err)
{
    if (bytes < LENGTH_BYTES) {
        return io_fail(err,
                       "%s: is not a .safetensors file (%zu bytes, less than its length field)",
                       file->what, bytes);
    }
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        length |= (uint64_t)image[i] << (8 * i);
    }
    if (length > bytes - LENGTH_BYTES || length > HEADER_LIMIT_BYTES) {
        return io_fail(err, "%s: header length is %llu, but %zu bytes follow and %d are the limit",
                       file->what, (unsigned long long)length, bytes - LENGTH_BYTES,
                       HEADER_LIMIT_BYTES);
    }
    const char *json = (const char *)image + LENGTH_BYTES;
    if (length < 2 || json[0] != '{') {
        return io_fail(err, "%s: is not a .safetensors file (its header does not begin with '{')",
                       file->what);
    }
    file->data = image + LENGTH_BYTES + length;
    file->data_bytes = bytes - LENGTH_BYTES - (size_t)length;
    if (load_json(file, json, (size_t)length, err) || parse_entries(file, err)) {
        return -1;
    }
    return check_cover(file, err);
}

int io_safetensors_parse(const void *image, size_t image_bytes, const char *what,
                         struct io_safetensors **out, struct io_error *err)
{
    *out = NULL;
    struct io_safetensors *file = calloc(1, sizeof(*file));
    if (file) {
        file->what = strdup(what);
    }
    if (!file || !file->what) {
        io_safetensors_close(file);
        return io_fail(err, "%s: out of memory", what);
    }
    if (parse_image(file, image, image_bytes, err)) {
        io_safetensors_close(file);
        return -1;
    }
    *out = file;
    return 0;
}

int io_safetensors_open(const char *path, struct io_safetensors **out, struct io_error *err)
{
    *out = NULL;
    struct io_buffer buffer;
    if (io_file_read(path, &buffer, err)) {
        return -1;
    }
    if (io_safetensors_parse(buffer.data, buffer.bytes, path, out, err)) {
        io_buffer_clear(&buffer);
        return -1;
    }
    (*out)->buffer = buffer;
    return 0;
}

void io_safetensors_close(struct io_safetensors *file)
{
    if (file) {
        json_decref(file->root);
        io_buffer_clear(&file->buffer);
        free(file->entries);
        free(file->what);
        free(file);
    }
}

size_t io_safetensors_count(const struct io_safetensors *file)
{
    return file->n;
}

const struct io_safetensors_entry *io_safetensors_entry_at(const struct io_safetensors *file,
                                                           size_t idx)
{
    return idx < file->n ? &file->entries[idx] : NULL;
}

const struct io_safetensors_entry *io_safetensors_find(const struct io_safetensors *file,
                                                       const char *name)
{
    for (size_t i = 0; i < file->n; i++) {
        if (strcmp(file->entries[i].name, name) == 0) {
            return &file->entries[i];
        }
    }
    return NULL;
}

const char *io_safetensors_metadata(const struct io_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->root, "__metadata__"), key));
}

static int no_such_tensor(const struct io_safetensors *file, const char *name, struct io_error *err)
{
    char names[320] = "";
    size_t used = 0;
    for (size_t i = 0; i < file->n && used < sizeof(names); i++) {
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
                                 file->entries[i].name);
    }
    return io_fail(err, "%s: has no tensor '%s', it has %zu: %s%s", file->what, name, file->n,
                   names, used < sizeof(names) ? "" : "...");
}

int io_safetensors_read(const struct io_safetensors *file, const char *name, struct io_tensor *out,
                        struct io_error *err)
{
    *out = (struct io_tensor){0};
    const struct io_safetensors_entry *entry = io_safetensors_find(file, name);
    if (!entry) {
        return no_such_tensor(file, name, err);
    }
    if (entry->dtype == IO_DTYPE_NONE) {
        return io_fail(err, "%s: tensor '%s': dtype '%s' is not supported", file->what, name,
                       entry->dtype_name);
    }
    if (io_tensor_init(out, name, entry->dtype, entry->ndim, entry->shape, err)) {
        return -1;
    }
    memcpy(out->data, file->data + entry->begin_bytes, entry->bytes);
    return 0;
}
