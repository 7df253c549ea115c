// file.c: reading whole files. Writing lives in batch.c.
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAM_START_BYTES = 1 << 16 };

// read() until `bytes` are there or the file ends; -1 with errno set on failure.
static ssize_t read_fully(int fd, unsigned char *data, size_t bytes)
{
    size_t have = 0;
    while (have < bytes) {
        const ssize_t got = read(fd, data + have, bytes - have);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        have += (size_t)got;
    }
    return (ssize_t)have;
}

// A regular file: exactly the size that it has, or an error if that changes meanwhile.
static int read_sized(int fd, const char *path, size_t bytes, struct io_buffer *out,
                      struct io_error *err)
{
    out->data = malloc(bytes);
    if (!out->data) {
        return io_fail(err, "%s: out of memory for its %zu bytes", path, bytes);
    }
    const ssize_t got = read_fully(fd, out->data, bytes);
    if (got < 0) {
        return io_fail(err, "%s: cannot read: %s", path, strerror(errno));
    }
    unsigned char extra;
    const bool grew = (size_t)got == bytes && read_fully(fd, &extra, 1) > 0;
    if ((size_t)got < bytes || grew) {
        return io_fail(err, "%s: changed its size from %zu bytes while being read", path, bytes);
    }
    out->bytes = bytes;
    return 0;
}

// Anything without a size (pipes, terminals, files of /proc): until it ends or passes the limit.
static int read_stream(int fd, const char *path, struct io_buffer *out, struct io_error *err)
{
    size_t capacity = 0;
    for (;;) {
        if (out->bytes == capacity) {
            capacity = capacity ? 2 * capacity : STREAM_START_BYTES;
            unsigned char *grown = realloc(out->data, capacity);
            if (!grown) {
                return io_fail(err, "%s: out of memory for %zu bytes", path, capacity);
            }
            out->data = grown;
        }
        const ssize_t got = read_fully(fd, out->data + out->bytes, capacity - out->bytes);
        if (got < 0) {
            return io_fail(err, "%s: cannot read: %s", path, strerror(errno));
        }
        out->bytes += (size_t)got;
        if (out->bytes > IO_PIPE_LIMIT_BYTES) {
            return io_fail(err, "%s: longer than %zu bytes, the limit for pipes and devices", path,
                           IO_PIPE_LIMIT_BYTES);
        }
        if (out->bytes < capacity) {
            return 0;
        }
    }
}

static int read_open_file(int fd, const char *path, struct io_buffer *out, struct io_error *err)
{
    struct stat info;
    if (fstat(fd, &info)) {
        return io_fail(err, "%s: cannot stat: %s", path, strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) {
        return io_fail(err, "%s: is a folder, not a file", path);
    }
    if (S_ISREG(info.st_mode) && info.st_size > 0) {
        if ((uintmax_t)info.st_size > SIZE_MAX / 2) {
            return io_fail(err, "%s: %lld bytes are more than can be addressed", path,
                           (long long)info.st_size);
        }
        return read_sized(fd, path, (size_t)info.st_size, out, err);
    }
    return read_stream(fd, path, out, err);
}

int io_file_read(const char *path, struct io_buffer *out, struct io_error *err)
{
    *out = (struct io_buffer){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return io_fail(err, "%s: cannot open: %s", path, strerror(errno));
    }
    const int status = read_open_file(fd, path, out, err);
    close(fd);
    if (status || out->bytes == 0) {
        io_buffer_clear(out);
    }
    return status;
}

void io_buffer_clear(struct io_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct io_buffer){0};
}

int io_stream_write(FILE *stream, const char *path, const void *data, size_t bytes,
                    struct io_error *err)
{
    if (bytes > 0 && fwrite(data, 1, bytes, stream) != bytes) {
        return io_fail(err, "%s: cannot write: %s", path, strerror(errno));
    }
    return 0;
}
