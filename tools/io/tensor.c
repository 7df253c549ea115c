// tensor.c: allocation, element access and conversion of host tensors.
#include "tensor.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR_ALIGNMENT = 64 }; // a cache line, and enough for any vector load

// Multiplies two counts that are >= 1 and keeps the product within int64_t.
static bool multiply(int64_t *product, int64_t factor)
{
    if (*product > INT64_MAX / factor) {
        return false;
    }
    *product *= factor;
    return true;
}

int io_shape_check(const char *what, enum io_dtype dtype, int ndim, const int64_t *shape,
                   int64_t *count_out, size_t *bytes_out, struct io_error *err)
{
    if (io_dtype_bytes(dtype) == 0) {
        return io_fail(err, "%s: dtype %d is not one that can be stored", what, (int)dtype);
    }
    if (ndim < 0 || ndim > IO_MAX_DIMS) {
        return io_fail(err, "%s: ndim is %d, must be 0 to %d", what, ndim, IO_MAX_DIMS);
    }
    // A dim of 0 makes the tensor empty, but the others must still give strides that fit: they
    // are multiplied as if it were 1, as NumPy does.
    int64_t extent = 1;
    bool fits = multiply(&extent, (int64_t)io_dtype_bytes(dtype));
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) {
            return io_fail(err, "%s: shape[%d] is %lld, must be >= 0", what, i,
                           (long long)shape[i]);
        }
        empty = empty || shape[i] == 0;
        fits = fits && multiply(&extent, shape[i] ? shape[i] : 1);
    }
    // Leaves room for rounding the allocation up to the alignment.
    if (!fits || (uint64_t)extent > SIZE_MAX / 2) {
        char text[160];
        return io_fail(err, "%s: shape %s of %s has more bytes than can be addressed", what,
                       io_shape_format(ndim, shape, text, sizeof(text)), io_dtype_name(dtype));
    }
    *bytes_out = empty ? 0 : (size_t)extent;
    *count_out = (int64_t)(*bytes_out / io_dtype_bytes(dtype));
    return 0;
}

int io_tensor_init(struct io_tensor *tensor, const char *name, enum io_dtype dtype, int ndim,
                   const int64_t *shape, struct io_error *err)
{
    *tensor = (struct io_tensor){0};
    const char *what = name && *name ? name : "tensor";
    int64_t count;
    size_t bytes;
    if (io_shape_check(what, dtype, ndim, shape, &count, &bytes, err)) {
        return -1;
    }
    const size_t padded = (bytes / TENSOR_ALIGNMENT + 1) * TENSOR_ALIGNMENT; // never 0
    tensor->name = strdup(name ? name : "");
    tensor->data = aligned_alloc(TENSOR_ALIGNMENT, padded);
    if (!tensor->name || !tensor->data) {
        io_tensor_clear(tensor);
        return io_fail(err, "%s: out of memory for %zu bytes", what, padded);
    }
    memset(tensor->data, 0, padded);
    tensor->dtype = dtype;
    tensor->ndim = ndim;
    tensor->count = count;
    tensor->bytes = bytes;
    for (int i = 0; i < IO_MAX_DIMS; i++) {
        tensor->shape[i] = i < ndim ? shape[i] : 1;
    }
    return 0;
}

void io_tensor_clear(struct io_tensor *tensor)
{
    if (tensor) {
        free(tensor->name);
        free(tensor->data);
        *tensor = (struct io_tensor){0};
    }
}

double io_tensor_get(const struct io_tensor *tensor, int64_t idx)
{
    const size_t offset = (size_t)idx * io_dtype_bytes(tensor->dtype);
    return io_dtype_decode(tensor->dtype, (const char *)tensor->data + offset);
}

void io_tensor_set(struct io_tensor *tensor, int64_t idx, double value)
{
    const size_t offset = (size_t)idx * io_dtype_bytes(tensor->dtype);
    io_dtype_encode(tensor->dtype, value, (char *)tensor->data + offset);
}

int io_tensor_convert(const struct io_tensor *source, enum io_dtype dtype, struct io_tensor *out,
                      struct io_error *err)
{
    if (io_tensor_init(out, source->name, dtype, source->ndim, source->shape, err)) {
        return -1;
    }
    if (dtype == source->dtype) {
        memcpy(out->data, source->data, source->bytes);
        return 0;
    }
    for (int64_t i = 0; i < source->count; i++) {
        io_tensor_set(out, i, io_tensor_get(source, i));
    }
    return 0;
}

char *io_shape_format(int ndim, const int64_t *shape, char *text, size_t text_bytes)
{
    size_t used = (size_t)snprintf(text, text_bytes, "(");
    for (int i = 0; i < ndim && used < text_bytes; i++) {
        used += (size_t)snprintf(text + used, text_bytes - used, i ? ", %lld" : "%lld",
                                 (long long)shape[i]);
    }
    if (used < text_bytes) {
        snprintf(text + used, text_bytes - used, ndim == 1 ? ",)" : ")");
    }
    return text;
}
