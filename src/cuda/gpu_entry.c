// The API's entry points that concern GPUs and compiled kernels, not problems.
#include <stdio.h>
#include <string.h>

#include "../core/import.h"
#include "../core/status.h"
#include "cache_folder.h"
#include "gpu_device.h"
#include "kernel_pack.h"
#include "nvrtc.h"

attn_status_t attn_gpu_query(int32_t device_index, attn_gpu_info_t *info_out)
{
    ATTN_RETURN_IF(info_out == NULL, ATTN_INVALID_ARGUMENT, "info_out: NULL");
    ATTN_RETURN_IF(info_out->struct_size < sizeof(info_out->struct_size), ATTN_INVALID_ARGUMENT,
                   "info_out: struct_size %zu, expected sizeof(attn_gpu_info_t)",
                   info_out->struct_size);
    const attn_gpu_t *gpu;
    ATTN_FORWARD_ERROR(attn_gpu_get(device_index, &gpu));
    attn_gpu_info_t info = {
        .compute = gpu->compute,
        .multiprocessors = gpu->multiprocessors,
        .clock_khz = gpu->clock_khz,
        .memory_clock_khz = gpu->memory_clock_khz,
        .memory_bytes = gpu->memory_bytes,
        .l2_bytes = gpu->l2_bytes,
        .shared_bytes = gpu->shared_bytes,
    };
    memcpy(info.name, gpu->name, sizeof(info.name));
    attn_export(info_out, info_out->struct_size, &info, sizeof(info));
    return ATTN_OK;
}

static attn_status_t driver_text(char *text, size_t bytes)
{
    const attn_driver_t *driver;
    ATTN_FORWARD_ERROR(attn_driver_get(&driver));
    (void)snprintf(text, bytes, "CUDA %d.%d", driver->version / 1000, driver->version % 1000 / 10);
    return ATTN_OK;
}

static attn_status_t compiler_text(char *text, size_t bytes)
{
    const attn_nvrtc_t *nvrtc;
    ATTN_RETURN_IF(attn_nvrtc_get(&nvrtc) != ATTN_OK, ATTN_NO_DEVICE, "%s", attn_last_error());
    const int32_t version = attn_nvrtc_version(nvrtc);
    (void)snprintf(text, bytes, "NVRTC %d.%d, %s", version / 1000, version % 1000 / 10,
                   attn_nvrtc_path(nvrtc));
    return ATTN_OK;
}

static attn_status_t cache_text(char *text, size_t bytes)
{
    char path[ATTN_CACHE_PATH_BYTES];
    ATTN_RETURN_IF(!attn_cache_path(path), ATTN_NO_DEVICE,
                   "no kernel cache: ATTN_CACHE is off, or neither XDG_CACHE_HOME nor HOME is an "
                   "absolute path");
    (void)snprintf(text, bytes, "%s", path);
    return ATTN_OK;
}

attn_status_t attn_runtime_text(const char *part, char *text, size_t bytes)
{
    static const struct {
        const char *part;
        attn_status_t (*write)(char *text, size_t bytes);
    } parts[] = {{"driver", driver_text}, {"compiler", compiler_text}, {"cache", cache_text}};
    ATTN_RETURN_IF(part == NULL, ATTN_INVALID_ARGUMENT, "part: NULL");
    ATTN_RETURN_IF(text == NULL || bytes == 0, ATTN_INVALID_ARGUMENT, "text: NULL or of 0 bytes");
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(part, parts[i].part) == 0) {
            return parts[i].write(text, bytes);
        }
    }
    return attn_fail(ATTN_INVALID_ARGUMENT, "part: \"%s\", expected driver, compiler or cache",
                     part);
}

attn_status_t attn_kernels_visit(const char *pack, attn_kernel_visit_fn visit, void *user)
{
    ATTN_RETURN_IF(visit == NULL, ATTN_INVALID_ARGUMENT, "visit: NULL");
    if (pack == NULL) {
        return attn_cache_visit(visit, user);
    }
    const char *reason;
    attn_pack_t *const opened = attn_pack_open(pack, &reason);
    ATTN_RETURN_IF(opened == NULL, ATTN_IO_ERROR, "pack %s: %s", pack,
                   reason[0] != '\0' ? reason : "no such file");
    attn_pack_visit(opened, visit, user);
    attn_pack_close(opened);
    return ATTN_OK;
}

attn_status_t attn_cache_trim(int64_t max_bytes, int64_t *removed_out)
{
    ATTN_RETURN_IF(max_bytes < 0, ATTN_INVALID_ARGUMENT, "max_bytes: %lld, expected >= 0",
                   (long long)max_bytes);
    ATTN_RETURN_IF(removed_out == NULL, ATTN_INVALID_ARGUMENT, "removed_out: NULL");
    return attn_cache_trim_to(max_bytes, removed_out);
}
