// Device memory for tests: see cuda_memory.h.
#include "cuda_memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 1024, GUARD_VALUE = 0xa5 };

static struct {
    int (*init)(unsigned flags);
    int (*device)(int *device_out, int ordinal);
    int (*retain)(void **context_out, int device);
    int (*set_current)(void *context);
    int (*alloc)(uint64_t *address_out, size_t bytes);
    int (*free)(uint64_t address);
    int (*to_device)(uint64_t address, const void *host, size_t bytes);
    int (*to_host)(void *host, uint64_t address, size_t bytes);
    int (*wait)(void);
} cuda;

bool cuda_memory_open(char *why_out, size_t why_bytes)
{
    const struct {
        void *function;
        const char *name;
    } symbols[] = {
        {&cuda.init, "cuInit"},
        {&cuda.device, "cuDeviceGet"},
        {&cuda.retain, "cuDevicePrimaryCtxRetain"},
        {&cuda.set_current, "cuCtxSetCurrent"},
        {&cuda.alloc, "cuMemAlloc_v2"},
        {&cuda.free, "cuMemFree_v2"},
        {&cuda.to_device, "cuMemcpyHtoD_v2"},
        {&cuda.to_host, "cuMemcpyDtoH_v2"},
        {&cuda.wait, "cuCtxSynchronize"},
    };
    void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *const symbol = library == NULL ? NULL : dlsym(library, symbols[i].name);
        if (symbol == NULL) {
            (void)snprintf(why_out, why_bytes, "%s: not in libcuda.so.1", symbols[i].name);
            return false;
        }
        memcpy(symbols[i].function, &symbol, sizeof(symbol));
    }
    int device = 0;
    void *context = NULL;
    if (cuda.init(0) != 0 || cuda.device(&device, 0) != 0 || cuda.retain(&context, device) != 0 ||
        cuda.set_current(context) != 0) {
        (void)snprintf(why_out, why_bytes, "no context of the first GPU");
        return false;
    }
    return true;
}

cuda_memory_t cuda_memory_copy(const void *host, size_t bytes)
{
    uint64_t address = 0;
    const size_t whole = bytes + 2 * GUARD_BYTES;
    unsigned char *const image = malloc(whole);
    if (image == NULL || cuda.alloc(&address, whole) != 0) {
        abort();
    }
    memset(image, GUARD_VALUE, whole);
    if (host != NULL) {
        memcpy(image + GUARD_BYTES, host, bytes);
    }
    if (cuda.to_device(address, image, whole) != 0) {
        abort();
    }
    free(image);
    return (cuda_memory_t){(unsigned char *)(uintptr_t)address + GUARD_BYTES, bytes};
}

static bool is_guard(const unsigned char *bytes)
{
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (bytes[i] != GUARD_VALUE) {
            return false;
        }
    }
    return true;
}

bool cuda_memory_fetch(const cuda_memory_t *memory, void *host, size_t bytes)
{
    const size_t whole = bytes + 2 * GUARD_BYTES;
    unsigned char *const image = malloc(whole);
    if (image == NULL ||
        cuda.to_host(image, (uint64_t)(uintptr_t)(memory->data - GUARD_BYTES), whole) != 0) {
        abort();
    }
    memcpy(host, image + GUARD_BYTES, bytes);
    const bool is_intact = is_guard(image) && is_guard(image + GUARD_BYTES + bytes);
    free(image);
    return is_intact;
}

void cuda_memory_free(cuda_memory_t *memory)
{
    if (memory->data != NULL) {
        (void)cuda.free((uint64_t)(uintptr_t)(memory->data - GUARD_BYTES));
    }
    memory->data = NULL;
}

bool cuda_memory_wait(char *why_out, size_t why_bytes)
{
    const int result = cuda.wait();
    (void)snprintf(why_out, why_bytes, "the GPU failed: error %d of the driver", result);
    return result == 0;
}
