// npy_write.c: writing .npy, format 1.0.
#include "npy.h"

#include <string.h>

#include "file.h"

enum { PREAMBLE_BYTES = 10, HEADER_ALIGNMENT = 64, HEADER_LIMIT_BYTES = 512 };

static char byte_order_mark(enum io_dtype dtype)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return io_dtype_bytes(dtype) == 1 ? '|' : first ? '<' : '>';
}

int io_npy_write(FILE *stream, const char *path, const struct io_tensor *tensor,
                 struct io_error *err)
{
    char shape[256]; // 8 dims of at most 19 digits
    io_shape_format(tensor->ndim, tensor->shape, shape, sizeof(shape));
    unsigned char head[HEADER_LIMIT_BYTES];
    memset(head, ' ', sizeof(head));
    const int written =
        snprintf((char *)head + PREAMBLE_BYTES, sizeof(head) - PREAMBLE_BYTES,
                 "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }",
                 byte_order_mark(tensor->dtype), io_dtype_npy_code(tensor->dtype), shape);
    head[PREAMBLE_BYTES + written] = ' '; // the terminator
    // Spaces and a newline up to a multiple of 64, so that the data can be mapped.
    const size_t used = (size_t)PREAMBLE_BYTES + (size_t)written + 1;
    const size_t bytes = (used + HEADER_ALIGNMENT - 1) / HEADER_ALIGNMENT * HEADER_ALIGNMENT;
    const size_t length = bytes - PREAMBLE_BYTES;
    head[bytes - 1] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (unsigned char)(length & 0xff);
    head[9] = (unsigned char)(length >> 8);
    return io_stream_write(stream, path, head, bytes, err) ||
                   io_stream_write(stream, path, tensor->data, tensor->bytes, err)
               ? -1
               : 0;
}

struct save_arg {
    const char *path;
    const struct io_tensor *tensor;
};

static int save_body(FILE *stream, void *arg, struct io_error *err)
{
    const struct save_arg *save = arg;
    return io_npy_write(stream, save->path, save->tensor, err);
}

int io_npy_save(const char *path, const struct io_tensor *tensor, struct io_error *err)
{
    struct save_arg save = {.path = path, .tensor = tensor};
    return io_file_write(path, save_body, &save, err);
}
