// gpu_driver.c: see gpu_driver.h.
#include "gpu_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char reason[256];

void *gpu_driver_open(const char **why_out)
{
    const char *named = getenv("ATTN_CUDA_LIBRARY");
    // Never closed: the driver has threads of its own.
    void *library = dlopen(named && *named ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(reason, sizeof(reason), "no NVIDIA driver: %s", dlerror());
        *why_out = reason;
    }
    return library;
}

const char *gpu_driver_symbol(void *library, const char *symbol, void *function_out)
{
    void *const address = dlsym(library, symbol);
    // ISO C has no cast from an object pointer to a function pointer; POSIX promises the same bits.
    memcpy(function_out, &address, sizeof(address));
    if (address) {
        return NULL;
    }
    snprintf(reason, sizeof(reason), "the NVIDIA driver has no function %s", symbol);
    return reason;
}

const char *gpu_driver_load(struct gpu_driver *driver_out)
{
    const char *why = NULL;
    void *const library = gpu_driver_open(&why);
#define LOOK_UP(field, symbol, parameters)                                                         \
    if (!why) {                                                                                    \
        why = gpu_driver_symbol(library, symbol, &driver_out->field);                              \
    }
    GPU_DRIVER_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return why;
}
