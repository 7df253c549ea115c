// device_memory.h: memory of the GPU that a command works on. One GPU for a process: the commands
// have one --device.
#ifndef ATTN_TOOLS_DEVICE_MEMORY_H
#define ATTN_TOOLS_DEVICE_MEMORY_H

#include <stddef.h>

#include "gpu/gpu_driver.h"
#include "io/io_error.h"

// Loads the driver and makes the GPU's primary context current, in which libattn runs then. Comes
// before all others.
int device_open(int ordinal, struct io_error *err);
const struct gpu_driver *device_driver(void);
// Fails with the driver's words for a result; what is the driver's name of the function.
int device_fail(const char *what, gpu_result result, struct io_error *err);
// Returns from the calling function, which has an err, if the driver's function fails.
#define DEVICE_CHECK(what, call)                                                                   \
    do {                                                                                           \
        const gpu_result result_ = device_driver()->call;                                          \
        if (result_) {                                                                             \
            return device_fail(what, result_, err);                                                \
        }                                                                                          \
    } while (0)

// At least one byte. what says in an error what it was for.
int device_alloc(size_t bytes, const char *what, void **memory_out, struct io_error *err);
void device_free(void *memory); // NULL is allowed
int device_upload(void *to, const void *from, size_t bytes, struct io_error *err);
// On the GPU, which is still at it on return.
int device_copy(void *to, const void *from, size_t bytes, struct io_error *err);
int device_download(void *to, const void *from, size_t bytes, struct io_error *err);
// Every byte 0xff, a NaN in every float type here.
int device_spoil(void *memory, size_t bytes, struct io_error *err);
// Until the GPU has done all that it was given. What went wrong in a kernel shows here.
int device_wait(struct io_error *err);

#endif
