// The part of the CUDA driver API that libattn calls, declared here so that no toolkit is needed to
// build it. Names, values and layouts are those of the CUDA Driver API reference (version 12.0, the
// oldest driver that is used); tests/cuda/test_driver_abi.c compares them with cuda.h where there
// is one.
#ifndef ATTN_CUDA_DRIVER_API_H
#define ATTN_CUDA_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t cu_result;
typedef int32_t cu_device;
typedef struct CUctx_st *cu_context;
typedef struct CUlib_st *cu_library;
typedef struct CUkern_st *cu_kernel;
typedef struct CUfunc_st *cu_function;
typedef struct CUstream_st *cu_stream;

enum {
    CU_SUCCESS = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_INVALID_IMAGE = 200,
    CU_NOT_FOUND = 500,

    CU_DEVICE_CLOCK_KHZ = 13,
    CU_DEVICE_MULTIPROCESSORS = 16,
    CU_DEVICE_MEMORY_CLOCK_KHZ = 36,
    CU_DEVICE_L2_BYTES = 38,
    CU_DEVICE_COMPUTE_MAJOR = 75,
    CU_DEVICE_COMPUTE_MINOR = 76,
    CU_DEVICE_SHARED_BYTES = 97, // of a block that asks for more than the 48 KiB of old

    CU_FUNCTION_LOCAL_BYTES = 3, // per thread: stack and spills
    CU_FUNCTION_REGISTERS = 4,
    CU_FUNCTION_DYNAMIC_SHARED_BYTES = 8,

    CU_LAUNCH_CLUSTER = 4,
    CU_LAUNCH_PROGRAMMATIC = 6, // may start before the kernel ahead of it in the stream has ended
};

typedef uint64_t cu_address; // of device memory

typedef struct cu_launch_attribute {
    int32_t id;
    int32_t padding;
    union {
        uint8_t bytes[64];
        uint32_t cluster[3];
        int32_t flag;
    } value;
} cu_launch_attribute;

typedef struct cu_launch_config {
    uint32_t grid[3]; // CTAs
    uint32_t block[3];
    uint32_t shared_bytes;
    cu_stream stream;
    const cu_launch_attribute *attributes;
    uint32_t attribute_count;
} cu_launch_config;

// Every function: X(field, symbol, parameters). All return a cu_result.
#define ATTN_DRIVER_FUNCTIONS(X)                                                                   \
    X(get_error_name, "cuGetErrorName", (cu_result result, const char **name_out))                 \
    X(get_error_string, "cuGetErrorString", (cu_result result, const char **text_out))             \
    X(init, "cuInit", (uint32_t flags))                                                            \
    X(device_count, "cuDeviceGetCount", (int32_t * count_out))                                     \
    X(device_get, "cuDeviceGet", (cu_device * device_out, int32_t ordinal))                        \
    X(device_name, "cuDeviceGetName", (char *text, int32_t bytes, cu_device device))               \
    X(device_attribute, "cuDeviceGetAttribute",                                                    \
      (int32_t * value_out, int32_t attribute, cu_device device))                                  \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes_out, cu_device device))                \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (cu_context * context_out, cu_device device))    \
    X(context_current, "cuCtxGetCurrent", (cu_context * context_out))                              \
    X(context_device, "cuCtxGetDevice", (cu_device * device_out))                                  \
    X(context_push, "cuCtxPushCurrent_v2", (cu_context context))                                   \
    X(context_pop, "cuCtxPopCurrent_v2", (cu_context * context_out))                               \
    X(library_load, "cuLibraryLoadData",                                                           \
      (cu_library * library_out, const void *image, void *jit_options, void **jit_values,          \
       uint32_t jit_count, void *library_options, void **library_values, uint32_t library_count))  \
    X(library_unload, "cuLibraryUnload", (cu_library library))                                     \
    X(library_kernel, "cuLibraryGetKernel",                                                        \
      (cu_kernel * kernel_out, cu_library library, const char *name))                              \
    X(kernel_set, "cuKernelSetAttribute",                                                          \
      (int32_t attribute, int32_t value, cu_kernel kernel, cu_device device))                      \
    X(kernel_function, "cuKernelGetFunction", (cu_function * function_out, cu_kernel kernel))      \
    X(function_attribute, "cuFuncGetAttribute",                                                    \
      (int32_t * value_out, int32_t attribute, cu_function function))                              \
    X(memset_u32, "cuMemsetD32Async",                                                              \
      (cu_address address, uint32_t value, size_t count, cu_stream stream))                        \
    X(launch, "cuLaunchKernelEx",                                                                  \
      (const cu_launch_config *config, cu_function function, void **parameters, void **extra))     \
    X(tensor_map_encode, "cuTensorMapEncodeTiled",                                                 \
      (void *map_out, int32_t type, uint32_t rank, void *address, const uint64_t *dims,            \
       const uint64_t *strides_bytes, const uint32_t *box, const uint32_t *element_strides,        \
       int32_t interleave, int32_t swizzle, int32_t l2_promotion, int32_t fill))

#endif
