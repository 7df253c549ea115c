// Guarded copies on a GPU: see gpu_copy.h.
#include "gpu_copy.h"

#include <unistd.h>

#include "gpu_memory.h"

enum { GUARD_BYTES = 1024, GUARD_VALUE = 0xa5 };

void gpu_copy_open(int device)
{
    cu_context context = NULL;
    gpu_load();
    GPU(init(0));
    GPU(retain(&context, device));
    GPU(set_current(context));
}

static gpu_pointer whole_of(const gpu_copy_t *copy)
{
    return (gpu_pointer)(uintptr_t)copy->data - GUARD_BYTES;
}

void gpu_copy_load(const gpu_copy_t *copy, const void *host)
{
    if (copy->bytes > 0) {
        GPU(to_device((gpu_pointer)(uintptr_t)copy->data, host, copy->bytes));
    }
}

gpu_copy_t gpu_copy_create(const void *host, size_t bytes)
{
    gpu_pointer address = 0;
    GPU(alloc(&address, bytes + 2 * GUARD_BYTES));
    GPU(fill(address, GUARD_VALUE, bytes + 2 * GUARD_BYTES));
    const gpu_copy_t copy = {(unsigned char *)(uintptr_t)address + GUARD_BYTES, bytes};
    if (host != NULL) {
        gpu_copy_load(&copy, host);
    }
    return copy;
}

static bool is_guard(gpu_pointer address)
{
    unsigned char bytes[GUARD_BYTES];
    GPU(to_host(bytes, address, GUARD_BYTES));
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (bytes[i] != GUARD_VALUE) {
            return false;
        }
    }
    return true;
}

bool gpu_copy_fetch(const gpu_copy_t *copy, void *host)
{
    if (copy->bytes > 0 && host != NULL) {
        GPU(to_host(host, (gpu_pointer)(uintptr_t)copy->data, copy->bytes));
    }
    return is_guard(whole_of(copy)) && is_guard(whole_of(copy) + GUARD_BYTES + copy->bytes);
}

void gpu_copy_destroy(gpu_copy_t *copy)
{
    if (copy->data != NULL) {
        GPU(free(whole_of(copy)));
    }
    copy->data = NULL;
}

void gpu_copy_wait(void)
{
    GPU(synchronize());
}
