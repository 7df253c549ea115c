// Device memory, streams and graphs for the checks that need a GPU: functions of the driver that
// the library itself has no use for. Everything here ends the process on failure.
#ifndef ATTN_TESTS_GPU_MEMORY_H
#define ATTN_TESTS_GPU_MEMORY_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver_api.h"

typedef uint64_t gpu_pointer;
typedef struct CUgraph_st *gpu_graph;
typedef struct CUgraphExec_st *gpu_graph_exec;

// X(field, symbol, parameters)
#define GPU_FUNCTIONS(X)                                                                           \
    X(init, "cuInit", (uint32_t flags))                                                            \
    X(retain, "cuDevicePrimaryCtxRetain", (cu_context * context, cu_device device))                \
    X(create_context, "cuCtxCreate_v2", (cu_context * context, uint32_t flags, cu_device device))  \
    X(destroy_context, "cuCtxDestroy_v2", (cu_context context))                                    \
    X(set_current, "cuCtxSetCurrent", (cu_context context))                                        \
    X(current, "cuCtxGetCurrent", (cu_context * context))                                          \
    X(synchronize, "cuCtxSynchronize", (void))                                                     \
    X(alloc, "cuMemAlloc_v2", (gpu_pointer * pointer, size_t bytes))                               \
    X(free, "cuMemFree_v2", (gpu_pointer pointer))                                                 \
    X(to_device, "cuMemcpyHtoD_v2", (gpu_pointer to, const void *from, size_t bytes))              \
    X(to_host, "cuMemcpyDtoH_v2", (void *to, gpu_pointer from, size_t bytes))                      \
    X(fill, "cuMemsetD8_v2", (gpu_pointer pointer, uint8_t value, size_t bytes))                   \
    X(stream_create, "cuStreamCreate", (cu_stream * stream, uint32_t flags))                       \
    X(stream_wait, "cuStreamSynchronize", (cu_stream stream))                                      \
    X(stream_destroy, "cuStreamDestroy_v2", (cu_stream stream))                                    \
    X(capture_begin, "cuStreamBeginCapture_v2", (cu_stream stream, int32_t mode))                  \
    X(capture_end, "cuStreamEndCapture", (cu_stream stream, gpu_graph * graph))                    \
    X(instantiate, "cuGraphInstantiateWithFlags",                                                  \
      (gpu_graph_exec * exec, gpu_graph graph, uint64_t flags))                                    \
    X(graph_launch, "cuGraphLaunch", (gpu_graph_exec exec, cu_stream stream))                      \
    X(error_name, "cuGetErrorName", (cu_result result, const char **name))

static struct {
#define GPU_FIELD(field, symbol, parameters) cu_result(*field) parameters;
    GPU_FUNCTIONS(GPU_FIELD)
#undef GPU_FIELD
} gpu;

static inline void gpu_load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(1);
    }
#define GPU_LOOK_UP(field, symbol, parameters)                                                     \
    do {                                                                                           \
        void *address = dlsym(library, symbol);                                                    \
        memcpy(&gpu.field, &address, sizeof(address));                                             \
        if (address == NULL) {                                                                     \
            fprintf(stderr, "no function %s\n", symbol);                                           \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0);
    GPU_FUNCTIONS(GPU_LOOK_UP)
#undef GPU_LOOK_UP
}

#define GPU(call)                                                                                  \
    do {                                                                                           \
        const cu_result result_ = gpu.call;                                                        \
        if (result_ != CU_SUCCESS) {                                                               \
            const char *name_ = "?";                                                               \
            (void)gpu.error_name(result_, &name_);                                                 \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, name_);                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#endif
