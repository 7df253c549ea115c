// Files whose content will run on a GPU: opened only if nobody but their owner, this user or root,
// could have written them.
#ifndef ATTN_CUDA_TRUSTED_FILE_H
#define ATTN_CUDA_TRUSTED_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

// NULL, or why a file or folder of this description may have been written by somebody else.
const char *attn_untrusted(const struct stat *file);

// Opens a regular file of the open folder (AT_FDCWD: the working folder) for reading. follows_links
// is for files that the user named; names that others could have put there are not followed.
// Returns the descriptor with *file_out filled, or -1 with *reason_out (NULL if there is no such
// file, which is no fault).
int attn_trusted_open(int folder, const char *name, int follows_links, struct stat *file_out,
                      const char **reason_out);

// Reads exactly so many bytes at offset into memory that the caller frees. NULL if the file has
// not so many, cannot be read, or there is no memory.
void *attn_trusted_read(int file, uint64_t offset, size_t bytes);

#endif
