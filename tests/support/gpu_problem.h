// A test problem on a GPU: copies of all its operands and results in device memory, each between
// guard bands, and the arguments that point to them. Whatever a problem may have is here, so that
// an option that a kernel learns needs no change.
#ifndef ATTN_TESTS_GPU_PROBLEM_H
#define ATTN_TESTS_GPU_PROBLEM_H

#include "gpu_copy.h"
#include "test_problem.h"

enum { GPU_PROBLEM_COPIES = 40 };

typedef struct gpu_problem_copy {
    const guard_buffer_t *host; // the problem's or the results'
    gpu_copy_t device;
    bool is_result;
} gpu_problem_copy_t;

typedef struct gpu_problem {
    attn_forward_args_t forward;
    attn_backward_args_t backward;
    gpu_problem_copy_t copies[GPU_PROBLEM_COPIES];
    int count;
} gpu_problem_t;

// In the current context. Problem and results must outlive it.
gpu_problem_t gpu_problem_create(const problem_t *problem, const results_t *results);
// Gives the copies, where they are, the contents of another problem of the same descriptor.
void gpu_problem_load(gpu_problem_t *gpu, const problem_t *problem, const results_t *results);
// Copies the results back. false if anything wrote to a guard band.
bool gpu_problem_fetch(const gpu_problem_t *gpu);
void gpu_problem_destroy(gpu_problem_t *gpu);

// Runs plans of the first GPU twice (backward only where the problem is deterministic): the bits
// must be the same. backward may be NULL.
// results_out comes from results_create. On failure why_out has the reason.
attn_status_t gpu_problem_run(const problem_t *problem, const attn_plan_t *forward,
                              const attn_plan_t *backward, results_t *results_out, char *why_out,
                              size_t why_bytes);

#endif
