// A compiled kernel as bytes: what a cache file is and what a pack holds many of. Bytes from
// outside are hostile until parsed; parsing allocates nothing.
//
//   offset  bytes  (integers little-endian)
//        0      8  "ATTNKRNL"
//        8      4  format, 1
//       12      4  compiler version, 13000 is NVRTC 13.0
//       16      4  bytes of the name, with a final 0
//       20      4  bytes of the architecture, with a final 0
//       24      8  bytes of the key
//       32      8  bytes of the cubin
//       40     32  SHA-256 of all the rest: the bytes before and the bytes after it
//       72         name, architecture, key, cubin, and nothing behind them
#ifndef ATTN_CUDA_KERNEL_ENTRY_H
#define ATTN_CUDA_KERNEL_ENTRY_H

#include <stddef.h>
#include <stdint.h>

typedef struct attn_kernel_entry {
    int32_t compiler;
    const char *name; // of the kernel and of the symbol in the cubin
    const char *arch;
    const char *key; // all that the cubin was made from: kernel_key.h
    size_t key_bytes;
    const void *cubin;
    size_t cubin_bytes;
} attn_kernel_entry_t;

// Bytes that the entry takes.
size_t attn_kernel_entry_bytes(const attn_kernel_entry_t *entry);
// Writes attn_kernel_entry_bytes(entry) bytes.
void attn_kernel_entry_write(const attn_kernel_entry_t *entry, void *out);

// Points entry into data. Returns NULL, or what is wrong with the bytes.
const char *attn_kernel_entry_parse(const void *data, size_t bytes, attn_kernel_entry_t *entry_out);

#endif
