// npy.h: NumPy's .npy files, formats 1.0 to 3.0 (numpy/lib/format.py documents them).
//
// The reader takes any byte order and C or Fortran order and gives host order and C order. Every
// claim of the header is checked against the bytes that are there before anything is allocated.
#ifndef ATTN_TOOLS_IO_NPY_H
#define ATTN_TOOLS_IO_NPY_H

#include <stdio.h>

#include "tensor.h"

// bfloat16 and fp8 arrive from NumPy with ml_dtypes as nameless bytes, descr V2 and V1. The caller
// says what such bytes are; IO_DTYPE_NONE (the default, also for a NULL options) refuses them.
struct io_npy_options {
    enum io_dtype void1; // dtype of V1: IO_F8E4M3 or IO_F8E5M2
    enum io_dtype void2; // dtype of V2: IO_BF16
};

// Parses an .npy image in memory. what names it in error texts (its path). The tensor's name is "".
// errors: bad magic, version, header length or header text; unknown descr; a shape that is
// negative, has more than IO_MAX_DIMS dims, overflows, or does not fit the data exactly.
int io_npy_parse(const void *image, size_t image_bytes, const char *what,
                 const struct io_npy_options *options, struct io_tensor *out, struct io_error *err);

// The same for a file.
int io_npy_read(const char *path, const struct io_npy_options *options, struct io_tensor *out,
                struct io_error *err);

// Writes format 1.0, little endian, C order. bf16 is written as <V2 and fp8 as |V1, as ml_dtypes
// does. path is for error texts.
int io_npy_write(FILE *stream, const char *path, const struct io_tensor *tensor,
                 struct io_error *err);

// The same into a file, atomically.
int io_npy_save(const char *path, const struct io_tensor *tensor, struct io_error *err);

#endif
