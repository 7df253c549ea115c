// Opening and reading files that may be hostile: see trusted_file.h.
#include "trusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *attn_untrusted(const struct stat *file)
{
    if (file->st_uid != geteuid() && file->st_uid != 0) {
        return "belongs to somebody else";
    }
    if ((file->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return "can be written by others";
    }
    return NULL;
}

int attn_trusted_open(int folder, const char *name, int follows_links, struct stat *file_out,
                      const char **reason_out)
{
    *reason_out = NULL;
    // A FIFO must not make us wait for its writer.
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follows_links ? 0 : O_NOFOLLOW);
    const int file = openat(folder, name, flags);
    if (file < 0) {
        *reason_out = errno == ENOENT ? NULL : errno == ELOOP ? "is a link" : strerror(errno);
        return -1;
    }
    if (fstat(file, file_out) != 0 || !S_ISREG(file_out->st_mode)) {
        *reason_out = "is no regular file";
    } else {
        *reason_out = attn_untrusted(file_out);
    }
    if (*reason_out != NULL) {
        (void)close(file);
        return -1;
    }
    return file;
}

void *attn_trusted_read(int file, uint64_t offset, size_t bytes)
{
    char *const data = malloc(bytes > 0 ? bytes : 1);
    size_t done = 0;
    while (data != NULL && done < bytes) {
        const ssize_t got = pread(file, data + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            free(data);
            return NULL;
        }
        done += (size_t)got;
    }
    return data;
}
