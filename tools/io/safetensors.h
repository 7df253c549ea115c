// safetensors.h: .safetensors files, many named tensors behind one JSON header
// (github.com/huggingface/safetensors, README "Format").
//
//     | 8 bytes: n, little endian | n bytes of JSON, padded with spaces | tensor bytes |
//
// The whole header is checked when a file is opened: offsets in range, size as shape and dtype say,
// no overlap, no hole, no name twice. Data stays as raw bytes until a tensor is asked for by name;
// it may have any alignment.
#ifndef ATTN_TOOLS_IO_SAFETENSORS_H
#define ATTN_TOOLS_IO_SAFETENSORS_H

#include <stdio.h>

#include "tensor.h"

struct io_safetensors;

struct io_safetensors_entry {
    const char *name;       // borrowed from the file
    const char *dtype_name; // as the file says it
    enum io_dtype dtype;    // IO_DTYPE_NONE: a dtype that we do not know; listed but not readable
    int ndim;
    int64_t shape[IO_MAX_DIMS];
    size_t begin_bytes; // from the start of the tensor bytes
    size_t bytes;
};

struct io_metadata {
    const char *key;
    const char *value;
};

// Opens a file, or an image in memory (which is not copied and must outlive the result).
// what names the image in error texts.
int io_safetensors_open(const char *path, struct io_safetensors **out, struct io_error *err);
int io_safetensors_parse(const void *image, size_t image_bytes, const char *what,
                         struct io_safetensors **out, struct io_error *err);
void io_safetensors_close(struct io_safetensors *file); // NULL is fine

// Tensors in the order of the header; entry gives NULL past the end, find gives NULL for no such
// name.
size_t io_safetensors_count(const struct io_safetensors *file);
const struct io_safetensors_entry *io_safetensors_entry_at(const struct io_safetensors *file,
                                                           size_t idx);
const struct io_safetensors_entry *io_safetensors_find(const struct io_safetensors *file,
                                                       const char *name);

// Value of a __metadata__ key, NULL if it has none.
const char *io_safetensors_metadata(const struct io_safetensors *file, const char *key);

// Copies one tensor out. An unknown name is an error that lists the names that there are.
int io_safetensors_read(const struct io_safetensors *file, const char *name, struct io_tensor *out,
                        struct io_error *err);

// Writes n tensors (names must be distinct and not "" or "__metadata__") and n_metadata pairs.
// Data starts at a multiple of 64 bytes and lies in order of falling alignment, as the reference
// implementation does, so that others can map it.
int io_safetensors_write(FILE *stream, const char *path, const struct io_tensor *tensors, size_t n,
                         const struct io_metadata *metadata, size_t n_metadata,
                         struct io_error *err);
int io_safetensors_save(const char *path, const struct io_tensor *tensors, size_t n,
                        const struct io_metadata *metadata, size_t n_metadata,
                        struct io_error *err);

#endif
