// tensor.h: a small tensor in host memory, the currency between files and commands.
//
// It owns its data: contiguous, C order (the last dim is the fastest), host byte order. Views,
// strides and arithmetic are left to the library.
#ifndef ATTN_TOOLS_IO_TENSOR_H
#define ATTN_TOOLS_IO_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "io_error.h"

enum { IO_MAX_DIMS = 8 };

struct io_tensor {
    char *name; // owned, never NULL after init; "" when the file has no names
    enum io_dtype dtype;
    int ndim;                   // 0 is a scalar: one element
    int64_t shape[IO_MAX_DIMS]; // each >= 0; entries from ndim on are 1
    int64_t count;              // elements, product of shape
    void *data;                 // owned, aligned to 64 bytes, never NULL after init
    size_t bytes;               // count x io_dtype_bytes(dtype)
};

// Checks a shape and gives its element count and bytes.
// errors: ndim outside 0..IO_MAX_DIMS, a negative dim, a byte size beyond INT64_MAX, no dtype;
// the text starts with `what` (usually "file: tensor 'x'").
int io_shape_check(const char *what, enum io_dtype dtype, int ndim, const int64_t *shape,
                   int64_t *count_out, size_t *bytes_out, struct io_error *err);

// Fills *tensor with a new zeroed allocation. name may be NULL (""). Needs no init before; after a
// failure *tensor is safe to clear.
int io_tensor_init(struct io_tensor *tensor, const char *name, enum io_dtype dtype, int ndim,
                   const int64_t *shape, struct io_error *err);

// Frees what it owns and zeroes it. A zeroed tensor and NULL are fine.
void io_tensor_clear(struct io_tensor *tensor);

// Element idx (C order, 0 <= idx < count) as a double, and the way back: see dtype.h for rounding.
double io_tensor_get(const struct io_tensor *tensor, int64_t idx);
void io_tensor_set(struct io_tensor *tensor, int64_t idx, double value);

// *out becomes a copy of source in another (or the same) dtype.
int io_tensor_convert(const struct io_tensor *source, enum io_dtype dtype, struct io_tensor *out,
                      struct io_error *err);

// Writes "(2, 128, 8, 64)" into text, cut to text_bytes; returns text.
char *io_shape_format(int ndim, const int64_t *shape, char *text, size_t text_bytes);

#endif
