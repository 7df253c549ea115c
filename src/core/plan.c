// Plans: a checked descriptor and the backend's choice of kernel, made once and immutable
// afterwards.
#include <inttypes.h>
#include <string.h>

#include "plan.h"

#include "desc.h"
#include "status.h"

const attn_backend_ops_t *attn_backend_find(attn_backend_t backend)
{
    switch (backend) {
    // Where the pointers of a run must point may not depend on the machine: a GPU is for those who
    // ask for it.
    case ATTN_BACKEND_AUTO:
    case ATTN_BACKEND_CPU: return &attn_backend_cpu;
    case ATTN_BACKEND_REFERENCE: return &attn_backend_reference;
    case ATTN_BACKEND_CUDA: return &attn_backend_cuda;
    }
    return NULL;
}

attn_status_t attn_plan_fill(attn_plan_t *plan, const attn_context_t *context,
                             const attn_desc_t *desc, attn_op_t op)
{
    memset(plan, 0, sizeof(*plan));
    ATTN_FORWARD_ERROR(attn_context_check(context));
    ATTN_FORWARD_ERROR(attn_desc_check(desc, op, &plan->desc));
    plan->backend = attn_backend_find(plan->desc.backend);
    // A plan changes its context's reference count and nothing else.
    plan->context = (attn_context_t *)(uintptr_t)context;
    plan->op = op;
    ATTN_FORWARD_ERROR(plan->backend->choose(plan));
    if (plan->workspace_bytes > 0) {
        const size_t slack = ATTN_WORKSPACE_ALIGN - 1;
        ATTN_RETURN_IF(plan->workspace_bytes > (size_t)INT64_MAX - slack, ATTN_UNSUPPORTED,
                       "workspace: %zu bytes do not fit in 63 bits", plan->workspace_bytes);
        plan->workspace_bytes += slack;
    }
    return ATTN_OK;
}

static void release(attn_plan_t *plan)
{
    if (plan->backend->release != NULL) {
        plan->backend->release(plan);
    }
}

attn_status_t attn_plan_create(attn_context_t *context, const attn_desc_t *desc, attn_op_t op,
                               attn_plan_t **plan_out)
{
    ATTN_RETURN_IF(plan_out == NULL, ATTN_INVALID_ARGUMENT, "plan_out: NULL");
    *plan_out = NULL;
    const attn_context_t *resolved = attn_context_resolve(context);
    attn_plan_t filled;
    attn_status_t status = attn_plan_fill(&filled, resolved, desc, op);
    if (status == ATTN_OK && filled.backend->prepare != NULL) {
        status = filled.backend->prepare(&filled);
    }
    if (status != ATTN_OK) {
        attn_log(resolved, ATTN_LOG_ERROR, "plan: %s: %s", attn_status_string(status),
                 attn_last_error());
        return status;
    }
    attn_plan_t *plan = attn_context_alloc(resolved, sizeof(*plan));
    if (plan == NULL) {
        release(&filled);
        return attn_fail(ATTN_OUT_OF_MEMORY, "plan: no memory for %zu bytes", sizeof(*plan));
    }
    *plan = filled;
    attn_context_retain(plan->context);
    attn_log(resolved, ATTN_LOG_INFO, "plan: %s, workspace %zu bytes", plan->kernel_name,
             plan->workspace_bytes);
    *plan_out = plan;
    return ATTN_OK;
}

void attn_plan_destroy(attn_plan_t *plan)
{
    if (plan == NULL) {
        return;
    }
    attn_context_t *context = plan->context;
    release(plan);
    attn_context_free(context, plan);
    attn_context_destroy(context);
}

size_t attn_plan_workspace_bytes(const attn_plan_t *plan)
{
    return plan == NULL ? 0 : plan->workspace_bytes;
}

const char *attn_plan_kernel_name(const attn_plan_t *plan)
{
    return plan == NULL ? "" : plan->kernel_name;
}

attn_status_t attn_supports(const attn_context_t *context, const attn_desc_t *desc, attn_op_t op)
{
    attn_plan_t plan;
    return attn_plan_fill(&plan, attn_context_resolve(context), desc, op);
}
