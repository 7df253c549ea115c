// device_problem.h: a problem's operands and results on a GPU, and the arguments that point there.
#ifndef ATTN_TOOLS_DEVICE_PROBLEM_H
#define ATTN_TOOLS_DEVICE_PROBLEM_H

#include "gpu/gpu_args.h"
#include "problem.h"

struct device_problem {
    attn_backward_args_t args;
    struct gpu_range ranges[OPERAND_COUNT + 1]; // of tensors, by operand; the last of dropout_state
};

// Copies everything that the problem holds, results too: what a kernel does not write stays what
// it was on the host. The problem must outlive it. device_open comes before.
int device_problem_create(struct device_problem *device, const struct problem *problem,
                          struct io_error *err);
void device_problem_destroy(struct device_problem *device);
// Copies the results back, once the GPU is done.
int device_problem_fetch(const struct device_problem *device, struct problem *problem,
                         struct io_error *err);

#endif
