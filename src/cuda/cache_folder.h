// The folder of compiled kernels: one file for each, written under a temporary name and renamed, so
// that readers need no lock and find whole files or none. Everything in it is distrusted.
#ifndef ATTN_CUDA_CACHE_FOLDER_H
#define ATTN_CUDA_CACHE_FOLDER_H

#include "../core/context.h"
#include "kernel_entry.h"
#include "kernel_key.h"

#define ATTN_CACHE_PATH_BYTES 4096
// How the names of files begin that are being written.
#define ATTN_CACHE_TEMPORARY ".new-"

// Where it is: ATTN_CACHE, else XDG_CACHE_HOME/libattn, else HOME/.cache/libattn. 0 if none of the
// three names an absolute path, or ATTN_CACHE is "off": kernels live in memory only then.
int attn_cache_path(char path_out[ATTN_CACHE_PATH_BYTES]);

// A kernel that was found. data holds what entry points into; the caller frees it.
typedef struct attn_cache_hit {
    void *data;
    attn_kernel_entry_t entry;
} attn_cache_hit_t;

// Looks for a kernel; compiler 0 takes one by any compiler. 1 if found. What is there and no good
// is a warning in the log.
int attn_cache_find(const attn_context_t *context, const attn_kernel_key_t *key, int32_t compiler,
                    attn_cache_hit_t *hit_out);

// Keeps a kernel. A folder that cannot be written is a warning in the log, once per process.
void attn_cache_keep(const attn_context_t *context, const attn_kernel_key_t *key,
                     const attn_kernel_entry_t *entry);

// Calls visit for every file, damaged ones too. Errors: ATTN_IO_ERROR. No folder is no error.
attn_status_t attn_cache_visit(attn_kernel_visit_fn visit, void *user);

// Removes damaged files, and then the longest unused until the rest has at most max_bytes; also
// what writers that were killed left behind. Errors: ATTN_IO_ERROR, ATTN_OUT_OF_MEMORY.
attn_status_t attn_cache_trim_to(int64_t max_bytes, int64_t *removed_out);

// The parts of the above. Opens the folder: -1 with a reason, NULL if it does not exist. Its path's
// last part may be no link; what lies before it is the user's own business.
int attn_cache_open(const char *path, const char **reason_out);

// Reads and parses a file of the folder. NULL if it is good, else why not; "" if it is not there.
// is_use: it is read to be used, which its time tells who trims the folder.
const char *attn_cache_read(int folder, const char *name, int is_use, attn_cache_hit_t *hit_out);

#endif
