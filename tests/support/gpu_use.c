// Problems in use on a GPU: see gpu_use.h.
#include "gpu_use.h"

#include <stdio.h>
#include <unistd.h>

enum { WHY_BYTES = 1024 };

static void end_unless(bool is_right, const gpu_use_t *use, const char *why)
{
    if (!is_right) {
        fprintf(stderr, "%s%s%s: %s\n", attn_plan_kernel_name(use->forward),
                use->backward != NULL ? ", " : "",
                use->backward != NULL ? attn_plan_kernel_name(use->backward) : "", why);
        _exit(1);
    }
}

// The oracle knows no GPU.
static problem_t *problem_of(const attn_desc_t *gpu_desc, const problem_options_t *options)
{
    attn_desc_t desc = *gpu_desc;
    desc.backend = ATTN_BACKEND_AUTO;
    desc.device_index = 0;
    return problem_create(&desc, options);
}

static attn_plan_t *plan_of(const attn_desc_t *desc, attn_op_t op)
{
    attn_plan_t *plan;
    if (attn_plan_create(NULL, desc, op, &plan) != ATTN_OK) {
        fprintf(stderr, "no plan: %s\n", attn_last_error());
        _exit(1);
    }
    return plan;
}

void gpu_use_create(gpu_use_t *use, const attn_desc_t *desc, const problem_options_t *options)
{
    use->problem = problem_of(desc, options);
    use->results = results_create(use->problem, &use->problem->full);
    use->gpu = gpu_problem_create(use->problem, &use->results);
    use->forward = plan_of(desc, ATTN_FORWARD);
    use->backward = options->backward ? plan_of(desc, ATTN_BACKWARD) : NULL;
    const size_t forward = attn_plan_workspace_bytes(use->forward);
    const size_t backward = use->backward != NULL ? attn_plan_workspace_bytes(use->backward) : 0;
    use->workspace = gpu_copy_create(NULL, forward > backward ? forward : backward);
}

void gpu_use_load(gpu_use_t *use, const attn_desc_t *desc, const problem_options_t *options)
{
    problem_destroy(use->problem);
    results_destroy(&use->results);
    use->problem = problem_of(desc, options);
    use->results = results_create(use->problem, &use->problem->full);
    gpu_problem_load(&use->gpu, use->problem, &use->results);
}

void gpu_use_run(const gpu_use_t *use, const gpu_use_t *plans, void *stream)
{
    const gpu_copy_t *const workspace = &use->workspace;
    attn_status_t status =
        attn_forward(plans->forward, &use->gpu.forward, workspace->data, workspace->bytes, stream);
    if (status == ATTN_OK && plans->backward != NULL) {
        status = attn_backward(plans->backward, &use->gpu.backward, workspace->data,
                               workspace->bytes, stream);
    }
    end_unless(status == ATTN_OK, use, attn_last_error());
}

void gpu_use_fetch(const gpu_use_t *use)
{
    end_unless(gpu_problem_fetch(&use->gpu) && gpu_copy_fetch(&use->workspace, NULL), use,
               "wrote outside its memory");
}

void gpu_use_judge(gpu_use_t *use)
{
    char why[WHY_BYTES];
    end_unless(problem_judge(use->problem, &use->results, why, sizeof(why)), use, why);
}

void gpu_use_destroy(gpu_use_t *use)
{
    attn_plan_destroy(use->forward);
    attn_plan_destroy(use->backward);
    gpu_copy_destroy(&use->workspace);
    gpu_problem_destroy(&use->gpu);
    results_destroy(&use->results);
    problem_destroy(use->problem);
}
