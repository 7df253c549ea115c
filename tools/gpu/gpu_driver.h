// gpu_driver.h: the NVIDIA driver as a program that calls libattn sees it: device memory, copies,
// events. libattn has functions of its own for kernels and none of these, because memory and
// streams are its caller's. The attn command and the tests, which are such callers, share this.
#ifndef ATTN_TOOLS_GPU_DRIVER_H
#define ATTN_TOOLS_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

// Names and values of the CUDA Driver API reference.
typedef int32_t gpu_result; // 0 is success
typedef uint64_t gpu_pointer;
typedef struct CUctx_st *gpu_context;
typedef struct CUstream_st *gpu_stream;
typedef struct CUevent_st *gpu_event;

// X(field, symbol, parameters). All return a gpu_result.
#define GPU_DRIVER_FUNCTIONS(X)                                                                    \
    X(error_name, "cuGetErrorName", (gpu_result result, const char **name))                        \
    X(init, "cuInit", (uint32_t flags))                                                            \
    X(bus_id, "cuDeviceGetPCIBusId", (char *text, int32_t bytes, int32_t device))                  \
    X(retain, "cuDevicePrimaryCtxRetain", (gpu_context * context, int32_t device))                 \
    X(set_current, "cuCtxSetCurrent", (gpu_context context))                                       \
    X(synchronize, "cuCtxSynchronize", (void))                                                     \
    X(alloc, "cuMemAlloc_v2", (gpu_pointer * pointer, size_t bytes))                               \
    X(free, "cuMemFree_v2", (gpu_pointer pointer))                                                 \
    X(to_device, "cuMemcpyHtoD_v2", (gpu_pointer to, const void *from, size_t bytes))              \
    X(to_host, "cuMemcpyDtoH_v2", (void *to, gpu_pointer from, size_t bytes))                      \
    X(copy, "cuMemcpyDtoDAsync_v2",                                                                \
      (gpu_pointer to, gpu_pointer from, size_t bytes, gpu_stream stream))                         \
    X(fill, "cuMemsetD8_v2", (gpu_pointer pointer, uint8_t value, size_t bytes))                   \
    X(fill_async, "cuMemsetD8Async",                                                               \
      (gpu_pointer pointer, uint8_t value, size_t bytes, gpu_stream stream))                       \
    X(event_create, "cuEventCreate", (gpu_event * event, uint32_t flags))                          \
    X(event_record, "cuEventRecord", (gpu_event event, gpu_stream stream))                         \
    X(event_wait, "cuEventSynchronize", (gpu_event event))                                         \
    X(event_elapsed, "cuEventElapsedTime", (float *ms, gpu_event begin, gpu_event end))            \
    X(event_destroy, "cuEventDestroy_v2", (gpu_event event))

struct gpu_driver {
#define GPU_DRIVER_FIELD(field, symbol, parameters) gpu_result(*field) parameters;
    GPU_DRIVER_FUNCTIONS(GPU_DRIVER_FIELD)
#undef GPU_DRIVER_FIELD
};

// Opens the library that libattn opens too: ATTN_CUDA_LIBRARY, else libcuda.so.1. NULL, with the
// reason, if there is none.
void *gpu_driver_open(const char **why_out);
// Writes a function's address to the pointer at function_out. NULL, or the reason.
const char *gpu_driver_symbol(void *library, const char *symbol, void *function_out);
// All of the table. NULL, or the reason.
const char *gpu_driver_load(struct gpu_driver *driver_out);

#endif
