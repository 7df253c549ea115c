// device_memory.c: see device_memory.h.
#include "device_memory.h"

static struct gpu_driver driver;

const struct gpu_driver *device_driver(void)
{
    return &driver;
}

int device_fail(const char *what, gpu_result result, struct io_error *err)
{
    const char *name = NULL;
    if (driver.error_name(result, &name) || !name) {
        name = "unknown error";
    }
    return io_fail(err, "%s: %s (%d)", what, name, (int)result);
}

int device_open(int ordinal, struct io_error *err)
{
    const char *why = gpu_driver_load(&driver);
    gpu_context context;
    if (why) {
        return io_fail(err, "--backend cuda: %s", why);
    }
    DEVICE_CHECK("cuInit", init(0));
    DEVICE_CHECK("cuDevicePrimaryCtxRetain", retain(&context, ordinal));
    DEVICE_CHECK("cuCtxSetCurrent", set_current(context));
    return 0;
}

int device_alloc(size_t bytes, const char *what, void **memory_out, struct io_error *err)
{
    gpu_pointer pointer = 0;
    const gpu_result result = driver.alloc(&pointer, bytes > 0 ? bytes : 1);
    *memory_out = (void *)(uintptr_t)pointer;
    if (result) {
        struct io_error inner;
        device_fail("cuMemAlloc", result, &inner);
        return io_fail(err, "%s: %zu bytes on the GPU: %.200s", what, bytes, inner.text);
    }
    return 0;
}

void device_free(void *memory)
{
    if (memory) {
        (void)driver.free((gpu_pointer)(uintptr_t)memory);
    }
}

int device_upload(void *to, const void *from, size_t bytes, struct io_error *err)
{
    if (bytes > 0) {
        DEVICE_CHECK("cuMemcpyHtoD", to_device((gpu_pointer)(uintptr_t)to, from, bytes));
    }
    return 0;
}

int device_copy(void *to, const void *from, size_t bytes, struct io_error *err)
{
    DEVICE_CHECK("cuMemcpyDtoDAsync",
                 copy((gpu_pointer)(uintptr_t)to, (gpu_pointer)(uintptr_t)from, bytes, NULL));
    return 0;
}

int device_download(void *to, const void *from, size_t bytes, struct io_error *err)
{
    if (bytes > 0) {
        DEVICE_CHECK("cuMemcpyDtoH", to_host(to, (gpu_pointer)(uintptr_t)from, bytes));
    }
    return 0;
}

int device_spoil(void *memory, size_t bytes, struct io_error *err)
{
    if (bytes > 0) {
        DEVICE_CHECK("cuMemsetD8", fill((gpu_pointer)(uintptr_t)memory, 0xff, bytes));
    }
    return 0;
}

int device_wait(struct io_error *err)
{
    DEVICE_CHECK("cuCtxSynchronize", synchronize());
    return 0;
}
