// Launching kernels: see gpu_launch.h.
#include "gpu_launch.h"

#include "../core/checked.h"
#include "../core/status.h"

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD: names for streams of the current context.
#define SPECIAL_STREAM_MAX 2

// Of 128 threads: all that a multiprocessor holds.
#define WARPS_GRID_CTAS_PER_SM 16

static attn_status_t launch(const attn_gpu_t *gpu, const attn_gpu_kernel_t *kernel,
                            const attn_gpu_grid_t *grid, const void *params, cu_stream stream)
{
    cu_launch_attribute attributes[2];
    uint32_t count = 0;
    if (grid->cluster > 0) {
        attributes[count++] =
            (cu_launch_attribute){.id = CU_LAUNCH_CLUSTER, .value.cluster = {grid->cluster, 1, 1}};
    }
    if (grid->is_programmatic) {
        attributes[count++] = (cu_launch_attribute){.id = CU_LAUNCH_PROGRAMMATIC, .value.flag = 1};
    }
    const cu_launch_config config = {
        .grid = {grid->ctas[0], grid->ctas[1], grid->ctas[2]},
        .block = {grid->threads, 1, 1},
        .shared_bytes = grid->shared_bytes,
        .stream = stream,
        .attributes = attributes,
        .attribute_count = count,
    };
    // The driver reads the parameters during the call and does not change them.
    void *parameters[] = {(void *)(uintptr_t)params};
    // A CUkernel is launched where the driver's declaration says CUfunction (CUDA Driver API,
    // cuLaunchKernelEx).
    ATTN_DRIVER_CHECK(
        gpu->driver, "cuLaunchKernelEx",
        gpu->driver->launch(&config, (cu_function)(void *)kernel->kernel, parameters, NULL));
    return ATTN_OK;
}

attn_gpu_grid_t attn_gpu_warps_grid(const attn_gpu_t *gpu, int64_t units, uint32_t threads)
{
    const int64_t wanted = attn_ceil_div(units, threads / 32);
    const int64_t most = (int64_t)gpu->multiprocessors * WARPS_GRID_CTAS_PER_SM;
    return (attn_gpu_grid_t){.ctas = {(uint32_t)attn_smaller(wanted, most), 1, 1},
                             .threads = threads};
}

attn_status_t attn_gpu_launch(const attn_gpu_t *gpu, const attn_gpu_kernel_t *kernel,
                              const attn_gpu_grid_t *grid, const void *params, void *stream)
{
    if (grid->ctas[0] == 0 || grid->ctas[1] == 0 || grid->ctas[2] == 0) {
        return ATTN_OK;
    }
    if ((uintptr_t)stream > SPECIAL_STREAM_MAX) {
        return launch(gpu, kernel, grid, params, stream);
    }
    attn_gpu_scope_t scope;
    ATTN_FORWARD_ERROR(attn_gpu_enter(gpu, &scope));
    const attn_status_t status = launch(gpu, kernel, grid, params, stream);
    attn_gpu_leave(&scope);
    return status;
}

static attn_status_t clear(const attn_gpu_t *gpu, void *words, size_t count, cu_stream stream)
{
    ATTN_DRIVER_CHECK(gpu->driver, "cuMemsetD32Async",
                      gpu->driver->memset_u32((cu_address)(uintptr_t)words, 0, count, stream));
    return ATTN_OK;
}

attn_status_t attn_gpu_clear(const attn_gpu_t *gpu, void *words, size_t count, void *stream)
{
    if ((uintptr_t)stream > SPECIAL_STREAM_MAX) {
        return clear(gpu, words, count, stream);
    }
    attn_gpu_scope_t scope;
    ATTN_FORWARD_ERROR(attn_gpu_enter(gpu, &scope));
    const attn_status_t status = clear(gpu, words, count, stream);
    attn_gpu_leave(&scope);
    return status;
}
