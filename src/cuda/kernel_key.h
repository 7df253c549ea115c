// What a compiled kernel is made from, as one text: two kernels are the same if and only if their
// keys are, byte for byte. The hash finds candidates and decides nothing.
#ifndef ATTN_CUDA_KERNEL_KEY_H
#define ATTN_CUDA_KERNEL_KEY_H

#include "kernel_source.h"
#include "sha256.h"

#define ATTN_KERNEL_OPTIONS_MAX 8

// A kernel that is wanted, as text.
typedef struct attn_kernel_request {
    const char *name;                             // of the kernel; the prologue makes it the symbol
    const char *arch;                             // "sm_90a"
    const char *path;                             // of the kernel's text, relative to src
    const char *prologue;                         // lines of #define
    const char *options[ATTN_KERNEL_OPTIONS_MAX]; // of NVRTC, besides the architecture
    int32_t option_count;
} attn_kernel_request_t;

// The text holds architecture, options, prologue and all sources, but neither paths of this machine
// nor the compiler's version, which stands beside it: a pack's kernels are taken whichever compiler
// made them.
typedef struct attn_kernel_key {
    char *text;
    size_t bytes;
    uint8_t hash[ATTN_SHA256_BYTES];
} attn_kernel_key_t;

// Free with attn_kernel_key_free. Errors: ATTN_OUT_OF_MEMORY.
attn_status_t attn_kernel_key_make(const attn_kernel_request_t *request,
                                   const attn_source_set_t *sources, attn_kernel_key_t *key_out);
void attn_kernel_key_free(attn_kernel_key_t *key);

#endif
