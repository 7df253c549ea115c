// gpu_args.h: the arguments of a run on a GPU, made from those of a run on the host.
#ifndef ATTN_TOOLS_GPU_ARGS_H
#define ATTN_TOOLS_GPU_ARGS_H

#include "attn.h"

// A copy of host memory on a GPU.
struct gpu_range {
    const void *host;
    void *device;
    size_t bytes;
};

// Every pointer into the host memory of a range becomes the pointer to the same place of its copy;
// pointers into none become NULL. Ranges must not overlap, but may touch.
void gpu_args_forward(attn_forward_args_t *args, const struct gpu_range *ranges, size_t n);
void gpu_args_backward(attn_backward_args_t *args, const struct gpu_range *ranges, size_t n);

#endif
