// From a kernel that is wanted to its machine code: packs, then the cache folder, then the
// compiler. No GPU and no driver is needed, which is how attn compile makes packs.
#ifndef ATTN_CUDA_KERNEL_IMAGE_H
#define ATTN_CUDA_KERNEL_IMAGE_H

#include "cache_folder.h"
#include "kernel_key.h"

typedef enum attn_kernel_origin {
    ATTN_KERNEL_FROM_PACK,
    ATTN_KERNEL_FROM_CACHE,
    ATTN_KERNEL_FROM_COMPILER,
} attn_kernel_origin_t;
// "pack", "cache folder", "compiler".
const char *attn_kernel_origin_name(attn_kernel_origin_t origin);

typedef struct attn_kernel_image {
    attn_kernel_origin_t origin;
    attn_kernel_key_t key;
    attn_kernel_entry_t entry; // points into data and key
    void *data;
} attn_kernel_image_t;

// Gets a kernel's machine code. Environment: ATTN_PACK, pack files separated by colons; ATTN_JIT=0
// forbids to compile; ATTN_CACHE and ATTN_KERNEL_SOURCE. without_packs is for making packs.
// Free with attn_kernel_image_free. Errors: ATTN_COMPILE_FAILED (does not compile, no compiler, or
// forbidden: the text names the kernel), ATTN_OUT_OF_MEMORY, those of attn_source_collect.
attn_status_t attn_kernel_image_get(const attn_context_t *context,
                                    const attn_kernel_request_t *request, int without_packs,
                                    attn_kernel_image_t *image_out);
void attn_kernel_image_free(attn_kernel_image_t *image);

#endif
