// A pack: many compiled kernels in one file, for machines that shall not compile. Written by attn
// compile, named by ATTN_PACK.
//
//   offset  bytes  (integers little-endian)
//        0      8  "ATTNPACK"
//        8      4  format, 1
//       12      4  number of kernels
//       16         for each kernel 48 bytes: SHA-256 of its key, offset and length of its entry
//                  behind them, anywhere in the file: kernel_entry.h
#ifndef ATTN_CUDA_KERNEL_PACK_H
#define ATTN_CUDA_KERNEL_PACK_H

#include "cache_folder.h"

typedef struct attn_pack attn_pack_t;

// Opens a pack and reads its index. NULL on failure with *reason_out; "" if there is no such file.
attn_pack_t *attn_pack_open(const char *path, const char **reason_out);
// NULL is allowed.
void attn_pack_close(attn_pack_t *pack);

// Looks for a kernel, by any compiler. 1 if found. A damaged kernel is a warning in the log.
int attn_pack_find(const attn_pack_t *pack, const attn_context_t *context,
                   const attn_kernel_key_t *key, attn_cache_hit_t *hit_out);

// Calls visit for every kernel, damaged ones too.
void attn_pack_visit(const attn_pack_t *pack, attn_kernel_visit_fn visit, void *user);

// Writes a pack of entries (attn_kernel_entry_write's bytes) under a temporary name, and renames
// it. Errors: ATTN_IO_ERROR, ATTN_OUT_OF_MEMORY.
typedef struct attn_pack_part {
    uint8_t hash[ATTN_SHA256_BYTES];
    const void *data;
    size_t bytes;
} attn_pack_part_t;
attn_status_t attn_pack_write(const char *path, const attn_pack_part_t *parts, size_t count);

// The index alone, parsed from bytes: the number of kernels, or -1 if they are no pack of
// file_bytes bytes. Looks at the first 16 bytes only.
#define ATTN_PACK_HEADER_BYTES 16
#define ATTN_PACK_ROW_BYTES 48
int64_t attn_pack_count(const uint8_t header[ATTN_PACK_HEADER_BYTES], uint64_t file_bytes);

#endif
