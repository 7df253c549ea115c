// Kernels without a configuration: see gpu_shared_kernel.h.
#include "gpu_shared_kernel.h"

#include <stdatomic.h>
#include <stdio.h>

#include "../core/status.h"

static const struct {
    const char *name;
    const char *path; // of the text, relative to src
} shared_kernels[ATTN_GPU_SHARED_COUNT] = {
    [ATTN_GPU_MERGE] = {"merge", "device/common/merge_results.c"},
    [ATTN_GPU_APPEND] = {"append", "device/common/append_tokens.c"},
};

// What has been loaded, by GPU: a launch takes no lock and makes no text.
static _Atomic(const attn_gpu_kernel_t *) loaded[ATTN_GPU_SHARED_COUNT][ATTN_GPUS_MAX];

void attn_gpu_shared_text_fill(attn_gpu_shared_text_t *text, attn_gpu_shared_t which,
                               int32_t compute)
{
    (void)snprintf(text->name, sizeof(text->name), "sm%d_%s", (int)compute,
                   shared_kernels[which].name);
    (void)snprintf(text->prologue, sizeof(text->prologue), "#define ATTN_CFG_KERNEL %s\n",
                   text->name);
    attn_arch_name(compute, text->arch);
    text->request = (attn_kernel_request_t){.name = text->name,
                                            .arch = text->arch,
                                            .path = shared_kernels[which].path,
                                            .prologue = text->prologue};
}

static attn_status_t kernel_of(const attn_context_t *context, const attn_gpu_t *gpu,
                               attn_gpu_shared_t which, const attn_gpu_kernel_t **kernel_out)
{
    _Atomic(const attn_gpu_kernel_t *) *const slot = &loaded[which][gpu->ordinal];
    *kernel_out = atomic_load_explicit(slot, memory_order_acquire);
    if (*kernel_out == NULL) {
        attn_gpu_shared_text_t text;
        attn_gpu_shared_text_fill(&text, which, gpu->compute);
        ATTN_FORWARD_ERROR(attn_gpu_kernel_get(context, gpu, &text.request, 0, kernel_out));
        atomic_store_explicit(slot, *kernel_out, memory_order_release);
    }
    return ATTN_OK;
}

attn_status_t attn_gpu_shared_launch(const attn_context_t *context, const attn_gpu_t *gpu,
                                     attn_gpu_shared_t which, const attn_gpu_grid_t *grid,
                                     const void *params, void *stream)
{
    const attn_gpu_kernel_t *kernel;
    ATTN_FORWARD_ERROR(kernel_of(context, gpu, which, &kernel));
    return attn_gpu_launch(gpu, kernel, grid, params, stream);
}
