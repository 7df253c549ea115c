// Device memory, streams and graphs for the checks that need a GPU: what the attn command uses of
// the driver, and what only a test asks of it. Everything here ends the process on failure.
#ifndef ATTN_TESTS_GPU_MEMORY_H
#define ATTN_TESTS_GPU_MEMORY_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "cuda/driver_api.h"
#include "gpu_driver.h"

typedef struct CUgraph_st *gpu_graph;
typedef struct CUgraphExec_st *gpu_graph_exec;

// X(field, symbol, parameters)
#define GPU_TEST_FUNCTIONS(X)                                                                      \
    X(create_context, "cuCtxCreate_v2", (cu_context * context, uint32_t flags, cu_device device))  \
    X(destroy_context, "cuCtxDestroy_v2", (cu_context context))                                    \
    X(current, "cuCtxGetCurrent", (cu_context * context))                                          \
    X(memory, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * all_bytes))                        \
    X(stream_create, "cuStreamCreate", (cu_stream * stream, uint32_t flags))                       \
    X(stream_wait, "cuStreamSynchronize", (cu_stream stream))                                      \
    X(stream_destroy, "cuStreamDestroy_v2", (cu_stream stream))                                    \
    X(capture_begin, "cuStreamBeginCapture_v2", (cu_stream stream, int32_t mode))                  \
    X(capture_end, "cuStreamEndCapture", (cu_stream stream, gpu_graph * graph))                    \
    X(instantiate, "cuGraphInstantiateWithFlags",                                                  \
      (gpu_graph_exec * exec, gpu_graph graph, uint64_t flags))                                    \
    X(graph_launch, "cuGraphLaunch", (gpu_graph_exec exec, cu_stream stream))

struct gpu_functions {
#define GPU_FIELD(field, symbol, parameters) gpu_result(*field) parameters;
    GPU_DRIVER_FUNCTIONS(GPU_FIELD)
    GPU_TEST_FUNCTIONS(GPU_FIELD)
#undef GPU_FIELD
};
// Filled in by gpu_load.
extern struct gpu_functions gpu;

void gpu_load(void);

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
