// safetensors_write.c: writing .safetensors.
//
// Tensors are laid out by falling element size, so that each is aligned to its elements when the
// data is; the header is padded with spaces until it is. That is how the reference implementation
// orders them. Host byte order is assumed to be little endian, as the format is.
#include "safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

enum { LENGTH_BYTES = 8, DATA_ALIGNMENT = 64, WIDEST_ELEMENT_BYTES = 8 };

#if defined(__BYTE_ORDER__)
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are written as they lie");
#endif

static int out_of_memory(const char *path, struct io_error *err)
{
    return io_fail(err, "%s: out of memory for the header", path);
}

static int add_metadata(json_t *root, const char *path, const struct io_metadata *metadata,
                        size_t n_metadata, struct io_error *err)
{
    if (n_metadata == 0) {
        return 0;
    }
    json_t *object = json_object();
    if (json_object_set_new(root, "__metadata__", object)) { // takes a NULL object as an error
        return out_of_memory(path, err);
    }
    for (size_t i = 0; i < n_metadata; i++) {
        if (json_object_get(object, metadata[i].key)) {
            return io_fail(err, "%s: metadata key '%s' is given twice", path, metadata[i].key);
        }
        if (json_object_set_new(object, metadata[i].key, json_string(metadata[i].value))) {
            return io_fail(err, "%s: metadata '%s' is not valid UTF-8", path, metadata[i].key);
        }
    }
    return 0;
}

static int add_tensor(json_t *root, const char *path, const struct io_tensor *tensor,
                      size_t begin_bytes, struct io_error *err)
{
    const char *name = tensor->name;
    if (name[0] == '\0' || strcmp(name, "__metadata__") == 0 || json_object_get(root, name)) {
        return io_fail(err, "%s: tensor name '%s' is %s", path, name,
                       json_object_get(root, name) ? "given twice" : "not allowed");
    }
    json_t *shape = json_array();
    for (int i = 0; i < tensor->ndim; i++) {
        json_array_append_new(shape, json_integer(tensor->shape[i]));
    }
    json_t *entry = json_pack(
        "{s:s, s:o, s:[I, I]}", "dtype", io_dtype_safetensors_name(tensor->dtype), "shape", shape,
        "data_offsets", (json_int_t)begin_bytes, (json_int_t)(begin_bytes + tensor->bytes));
    if (!entry || json_array_size(json_object_get(entry, "shape")) != (size_t)tensor->ndim) {
        json_decref(entry);
        return out_of_memory(path, err);
    }
    if (json_object_set_new(root, name, entry)) {
        return io_fail(err, "%s: tensor name '%s' is not valid UTF-8", path, name);
    }
    return 0;
}

// Calls the visitor for each tensor, those with the widest elements first.
typedef int (*visit_fn)(const struct io_tensor *tensor, void *arg, struct io_error *err);

static int visit_in_layout(const struct io_tensor *tensors, size_t n, visit_fn visit, void *arg,
                           struct io_error *err)
{
    for (size_t width = WIDEST_ELEMENT_BYTES; width > 0; width /= 2) {
        for (size_t i = 0; i < n; i++) {
            if (io_dtype_bytes(tensors[i].dtype) == width && visit(&tensors[i], arg, err)) {
                return -1;
            }
        }
    }
    return 0;
}

struct layout {
    FILE *stream;
    const char *path;
    json_t *root;
    size_t offset_bytes;
};

static int visit_header(const struct io_tensor *tensor, void *arg, struct io_error *err)
{
    struct layout *layout = arg;
    if (add_tensor(layout->root, layout->path, tensor, layout->offset_bytes, err)) {
        return -1;
    }
    layout->offset_bytes += tensor->bytes;
    return 0;
}

static int visit_data(const struct io_tensor *tensor, void *arg, struct io_error *err)
{
    const struct layout *layout = arg;
    return io_stream_write(layout->stream, layout->path, tensor->data, tensor->bytes, err);
}

static int write_header(const struct layout *layout, struct io_error *err)
{
    static const char spaces[DATA_ALIGNMENT + 1] =
        "                                                                ";
    const size_t json_bytes = json_dumpb(layout->root, NULL, 0, JSON_COMPACT);
    char *json = malloc(json_bytes + 1);
    if (!json || json_dumpb(layout->root, json, json_bytes, JSON_COMPACT) != json_bytes) {
        free(json);
        return out_of_memory(layout->path, err);
    }
    const size_t rest = (LENGTH_BYTES + json_bytes) % DATA_ALIGNMENT;
    const size_t padding = rest ? DATA_ALIGNMENT - rest : 0;
    unsigned char length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++) {
        length[i] = (unsigned char)((uint64_t)(json_bytes + padding) >> (8 * i));
    }
    const int failed = io_stream_write(layout->stream, layout->path, length, LENGTH_BYTES, err) ||
                       io_stream_write(layout->stream, layout->path, json, json_bytes, err) ||
                       io_stream_write(layout->stream, layout->path, spaces, padding, err);
    free(json);
    return failed ? -1 : 0;
}

int io_safetensors_write(FILE *stream, const char *path, const struct io_tensor *tensors, size_t n,
                         const struct io_metadata *metadata, size_t n_metadata,
                         struct io_error *err)
{
    struct layout layout = {.stream = stream, .path = path, .root = json_object()};
    if (!layout.root) {
        return out_of_memory(path, err);
    }
    const int failed = add_metadata(layout.root, path, metadata, n_metadata, err) ||
                       visit_in_layout(tensors, n, visit_header, &layout, err) ||
                       write_header(&layout, err) ||
                       visit_in_layout(tensors, n, visit_data, &layout, err);
    json_decref(layout.root);
    return failed ? -1 : 0;
}

struct save_arg {
    const char *path;
    const struct io_tensor *tensors;
    size_t n;
    const struct io_metadata *metadata;
    size_t n_metadata;
};

static int save_body(FILE *stream, void *arg, struct io_error *err)
{
    const struct save_arg *save = arg;
    return io_safetensors_write(stream, save->path, save->tensors, save->n, save->metadata,
                                save->n_metadata, err);
}

int io_safetensors_save(const char *path, const struct io_tensor *tensors, size_t n,
                        const struct io_metadata *metadata, size_t n_metadata, struct io_error *err)
{
    struct save_arg save = {
        .path = path, .tensors = tensors, .n = n, .metadata = metadata, .n_metadata = n_metadata};
    return io_file_write(path, save_body, &save, err);
}
