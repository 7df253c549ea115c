// A GPU as a machine: kernels are compiled, loaded and launched by the library's own runtime, their
// texts read from the repository.
#include "probe_table.h"
#include "target.h"
#include <stdio.h>
#include <string.h>

#include "attn.h"
#include "core/context.h"
#include "cuda/gpu_launch.h"
#include "cuda/gpu_tensor_map.h"
#include "cuda/kernel_config.h"
#include "cuda/nvrtc.h"
#include "gpu_copy.h"

static const attn_gpu_t *gpu; // NULL: kernels are only compiled
static int32_t compute;

bool target_gpu_open(const char **why_out)
{
    const attn_nvrtc_t *nvrtc;
    if (attn_gpu_get(0, &gpu) != ATTN_OK || attn_nvrtc_get(&nvrtc) != ATTN_OK) {
        *why_out = attn_last_error();
        return false;
    }
    compute = gpu->compute;
    gpu_copy_open(0);
    return true;
}

bool target_gpu_open_compiler(int32_t for_compute, const char **why_out)
{
    const attn_nvrtc_t *nvrtc;
    *why_out = attn_last_error();
    compute = for_compute;
    return attn_nvrtc_get(&nvrtc) == ATTN_OK;
}

int32_t target_gpu_compute(void)
{
    return compute;
}

const char *target_gpu_text(void)
{
    static char text[1024];
    char driver[256] = "";
    char compiler[256] = "";
    (void)attn_runtime_text("driver", driver, sizeof driver);
    (void)attn_runtime_text("compiler", compiler, sizeof compiler);
    snprintf(text, sizeof text, "%s (sm_%d), driver %s, compiler %s", gpu->name, (int)gpu->compute,
             driver, compiler);
    return text;
}

static void *allocate(const void *host, size_t bytes)
{
    return gpu_copy_create(host, bytes).data;
}

static void release(void *address, size_t bytes)
{
    gpu_copy_t copy = {address, bytes};
    gpu_copy_destroy(&copy);
}

static const char *encode(tensor_map *map_out, const struct emu_tensor *tensor)
{
    // CUtensorMapDataType, CUtensorMapSwizzle
    static const int32_t types[] = {
        [EMU_U8] = ATTN_TENSOR_U8,     [EMU_U16] = 1, [EMU_F16] = ATTN_TENSOR_F16,
        [EMU_BF16] = ATTN_TENSOR_BF16, [EMU_U32] = 2, [EMU_F32] = ATTN_TENSOR_F32};
    static const int32_t swizzles[] = {[EMU_SWIZZLE_NONE] = ATTN_SWIZZLE_NONE,
                                       [EMU_SWIZZLE_32] = ATTN_SWIZZLE_32,
                                       [EMU_SWIZZLE_64] = ATTN_SWIZZLE_64,
                                       [EMU_SWIZZLE_128] = ATTN_SWIZZLE_128};
    attn_tensor_map_desc_t desc = {.data = tensor->data,
                                   .type = types[tensor->element],
                                   .rank = tensor->rank,
                                   .swizzle = swizzles[tensor->swizzle],
                                   .l2_promotion = ATTN_L2_PROMOTION_NONE};
    memcpy(desc.dims, tensor->dims, sizeof desc.dims);
    memcpy(desc.strides_bytes, tensor->strides_bytes, sizeof desc.strides_bytes);
    memcpy(desc.box, tensor->box, sizeof desc.box);
    return attn_tensor_map_encode(gpu, &desc, map_out) == ATTN_OK ? NULL : attn_last_error();
}

// What a request points to.
struct kernel_text {
    char arch[ATTN_ARCH_BYTES];
    char prologue[ATTN_KERNEL_PROLOGUE_BYTES];
};

static attn_kernel_request_t request_of(const struct run *run, const struct probe_kernel *kernel,
                                        struct kernel_text *text)
{
    attn_arch_name(compute, text->arch);
    size_t used = 0;
    for (int i = 0; i < PROBE_LITERALS; i++) {
        used += (size_t)snprintf(text->prologue + used, sizeof text->prologue - used,
                                 "#define PROBE_%d %d\n", i, (int)run->literals[i]);
    }
    snprintf(text->prologue + used, sizeof text->prologue - used, "%s",
             kernel->prologue ? kernel->prologue : "");
    return (attn_kernel_request_t){.name = kernel->symbol,
                                   .arch = text->arch,
                                   .path = kernel->path,
                                   .prologue = text->prologue};
}

static attn_status_t get_kernel(const struct run *run, const struct probe_kernel *kernel,
                                const attn_gpu_kernel_t **kernel_out)
{
    struct kernel_text text;
    const attn_kernel_request_t request = request_of(run, kernel, &text);
    return attn_gpu_kernel_get(attn_context_resolve(NULL), gpu, &request, (int32_t)run->smem_bytes,
                               kernel_out);
}

const char *target_gpu_compile(const struct run *run, const struct probe_kernel *kernel)
{
    struct kernel_text text;
    const attn_kernel_request_t request = request_of(run, kernel, &text);
    const attn_gpu_kernel_t *loaded;
    attn_kernel_image_t image;
    attn_status_t status =
        gpu ? get_kernel(run, kernel, &loaded)
            : attn_kernel_image_get(attn_context_resolve(NULL), &request, 1, &image);
    if (!gpu && status == ATTN_OK) {
        attn_kernel_image_free(&image);
    }
    return status == ATTN_OK ? NULL : attn_last_error();
}

static attn_status_t launch(const struct run *run, const struct probe_kernel *kernel,
                            bool is_programmatic)
{
    const attn_gpu_kernel_t *loaded;
    const attn_gpu_grid_t grid = {.ctas = {run->grid[0], run->grid[1], run->grid[2]},
                                  .threads = run->threads,
                                  .cluster = run->cluster > 1 ? run->cluster : 0,
                                  .shared_bytes = run->smem_bytes,
                                  .is_programmatic = is_programmatic};
    attn_status_t status = get_kernel(run, kernel, &loaded);
    return status == ATTN_OK ? attn_gpu_launch(gpu, loaded, &grid, run->params, NULL) : status;
}

static const char *execute(struct run *run)
{
    if (launch(run, run->probe->kernel, false) != ATTN_OK ||
        (run->probe->second && launch(run, run->probe->second, true) != ATTN_OK)) {
        return attn_last_error();
    }
    gpu_copy_wait();
    for (uint32_t i = 0; i < run->buffer_count; i++) {
        const gpu_copy_t copy = {run->buffers[i].address, run->buffers[i].bytes};
        if (!gpu_copy_fetch(&copy, run->buffers[i].host)) {
            return "wrote beside a buffer";
        }
    }
    return NULL;
}

const struct target target_gpu = {"GPU", allocate, release, encode, execute};
