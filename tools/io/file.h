// file.h: reading whole files safely, and writing files that are complete or absent.
//
// Reading never trusts a size: a regular file is read up to its size, a pipe until it ends or
// passes a limit. Writing goes to a temporary name in the destination's own folder; only when every
// byte of every file of a batch is written and synced are they all renamed. On any error the
// temporaries are unlinked, and what stood at the destinations stays untouched.
//
// The command has to ignore SIGPIPE and SIGXFSZ, so that a closed pipe or a size limit becomes an
// error here instead of ending the process.
#ifndef ATTN_TOOLS_IO_FILE_H
#define ATTN_TOOLS_IO_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "io_error.h"

struct io_buffer {
    unsigned char *data; // owned; NULL when bytes is 0
    size_t bytes;
};

// Reads all of a regular file, pipe or character device. A directory or socket is refused; a pipe
// is read until it ends, at most IO_PIPE_LIMIT_BYTES. After a failure *out is empty.
#define IO_PIPE_LIMIT_BYTES ((size_t)1 << 32)
int io_file_read(const char *path, struct io_buffer *out, struct io_error *err);
void io_buffer_clear(struct io_buffer *buffer);

// A set of output files that appear together.
//
//     struct io_batch *batch = NULL;
//     if (io_batch_create(&batch, err) || !(f = io_batch_open(batch, "o.npy", err)) ||
//         io_npy_write(f, "o.npy", &o, err) || ... || io_batch_commit(batch, err)) { ... }
//     io_batch_destroy(batch);
struct io_batch;

int io_batch_create(struct io_batch **batch_out, struct io_error *err);

// Opens one more output; write to the stream but never close it. NULL on error: a directory, no
// permission, the same path twice in a batch. Links are followed: the file a link names is
// replaced, the link stays. A destination that is no regular file (/dev/stdout, a FIFO) cannot be
// replaced; its bytes are held back and copied to it at commit.
FILE *io_batch_open(struct io_batch *batch, const char *path, struct io_error *err);

// Flushes, syncs and closes all outputs, then renames them all. On error nothing at any destination
// has changed, unless a rename itself failed half-way: then the text says which files are in place.
// After commit, successful or not, the batch can only be destroyed.
int io_batch_commit(struct io_batch *batch, struct io_error *err);

// Unlinks the temporaries of a batch that was not committed and frees it. NULL is fine.
void io_batch_destroy(struct io_batch *batch);

// Writes one file atomically: the batch of one. write_body gets the stream and `arg`; it may return
// -1 with err filled, or leave stream errors to be found at commit.
int io_file_write(const char *path, int (*write_body)(FILE *, void *arg, struct io_error *err),
                  void *arg, struct io_error *err);

// fwrite that turns a short write into an error naming path and errno's text.
int io_stream_write(FILE *stream, const char *path, const void *data, size_t bytes,
                    struct io_error *err);

#endif
