// The kernels' texts: src/device and src/shared, embedded in the library, and for somebody who is
// at work on them a folder instead (ATTN_KERNEL_SOURCE names the tree's src).
#ifndef ATTN_CUDA_KERNEL_SOURCE_H
#define ATTN_CUDA_KERNEL_SOURCE_H

#include <stdint.h>

#include "attn.h"
#include "nvrtc.h"

// Made by the build, in order of their paths, which are relative to src.
extern const attn_source_t attn_embedded_sources[];
extern const int32_t attn_embedded_source_count;

// A file and all that it includes, each by the words of the #include that asks for it: that is how
// NVRTC looks for them. The same file appears once for each way of naming it; its guard makes the
// second one empty.
#define ATTN_SOURCES_MAX 128
typedef struct attn_source_set {
    attn_source_t list[ATTN_SOURCES_MAX];
    int32_t count;
    char *memory[2 *
                 ATTN_SOURCES_MAX]; // what the set owns: paths, and texts that were read from files
    int32_t memory_count;
} attn_source_set_t;

// Collects path ("device/common/fill_forward.c") and what it includes, path itself first. Clear the
// set in any case. Errors: ATTN_INTERNAL_ERROR (a text is missing), ATTN_IO_ERROR (of the folder),
// ATTN_OUT_OF_MEMORY.
attn_status_t attn_source_collect(const char *path, attn_source_set_t *set_out);
void attn_source_clear(attn_source_set_t *set);

#endif
