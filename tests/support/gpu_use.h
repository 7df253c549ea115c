// A test problem in use on a GPU: plans, workspace and copies of its own, so that many can be in
// flight at once, on streams and in graphs. Whatever fails ends the process with its reason.
#ifndef ATTN_TESTS_GPU_USE_H
#define ATTN_TESTS_GPU_USE_H

#include "gpu_problem.h"

typedef struct gpu_use {
    problem_t *problem;
    results_t results;
    gpu_problem_t gpu;
    attn_plan_t *forward;
    attn_plan_t *backward; // NULL: a problem without gradients
    gpu_copy_t workspace;  // of the larger need
} gpu_use_t;

// The descriptor names backend and device. The copies remember where the results lie: a use stays
// where it is made.
void gpu_use_create(gpu_use_t *use, const attn_desc_t *desc, const problem_options_t *options);
// Another problem of the same descriptor, in the same device memory.
void gpu_use_load(gpu_use_t *use, const attn_desc_t *desc, const problem_options_t *options);
// Launches both passes by the plans of a use of the same descriptor, its own or another.
void gpu_use_run(const gpu_use_t *use, const gpu_use_t *plans, void *stream);
// These two once the GPU has done its work: copies the results back; and judges them.
void gpu_use_fetch(const gpu_use_t *use);
void gpu_use_judge(gpu_use_t *use);
void gpu_use_destroy(gpu_use_t *use);

#endif
