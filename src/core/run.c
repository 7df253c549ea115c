// attn_forward and attn_backward: checks what the caller passes, then hands over to the plan's
// backend. No memory, no locks, and nothing is written before every check has passed.
#include "args.h"
#include "import.h"
#include "plan.h"
#include "status.h"

static attn_status_t check_plan(const attn_plan_t *plan, attn_op_t op, const char *other)
{
    ATTN_RETURN_IF(plan == NULL, ATTN_INVALID_ARGUMENT, "plan: NULL");
    ATTN_RETURN_IF(plan->op != op, ATTN_INVALID_ARGUMENT, "plan: made for the %s pass", other);
    return ATTN_OK;
}

// The first aligned byte of the caller's workspace; NULL if the plan needs none.
static attn_status_t check_workspace(const attn_plan_t *plan, void *workspace,
                                     size_t workspace_bytes, void *stream, void **aligned_out)
{
    ATTN_RETURN_IF(stream != NULL && !plan->backend->is_device, ATTN_INVALID_ARGUMENT,
                   "stream: given, expected NULL for a CPU plan");
    *aligned_out = NULL;
    if (plan->workspace_bytes == 0) {
        return ATTN_OK;
    }
    ATTN_RETURN_IF(workspace_bytes < plan->workspace_bytes, ATTN_WORKSPACE_TOO_SMALL,
                   "workspace_bytes: %zu, expected >= %zu", workspace_bytes, plan->workspace_bytes);
    ATTN_RETURN_IF(workspace == NULL, ATTN_INVALID_ARGUMENT, "workspace: NULL, expected %zu bytes",
                   plan->workspace_bytes);
    const uintptr_t misalignment = (uintptr_t)workspace % ATTN_WORKSPACE_ALIGN;
    const uintptr_t skip = misalignment == 0 ? 0 : ATTN_WORKSPACE_ALIGN - misalignment;
    *aligned_out = (unsigned char *)workspace + skip;
    return ATTN_OK;
}

attn_status_t attn_forward(const attn_plan_t *plan, const attn_forward_args_t *args,
                           void *workspace, size_t workspace_bytes, void *stream)
{
    ATTN_FORWARD_ERROR(check_plan(plan, ATTN_FORWARD, "backward"));
    attn_forward_args_t full;
    ATTN_FORWARD_ERROR(attn_import_forward_args(&full, args));
    void *aligned;
    ATTN_FORWARD_ERROR(check_workspace(plan, workspace, workspace_bytes, stream, &aligned));
    ATTN_FORWARD_ERROR(attn_check_forward_args(&plan->desc, &full, ATTN_FORWARD));
    if (!plan->backend->is_device) {
        ATTN_FORWARD_ERROR(attn_check_forward_arrays(&plan->desc, &full));
    }
    return plan->backend->forward(plan, &full, aligned, stream);
}

attn_status_t attn_backward(const attn_plan_t *plan, const attn_backward_args_t *args,
                            void *workspace, size_t workspace_bytes, void *stream)
{
    ATTN_FORWARD_ERROR(check_plan(plan, ATTN_BACKWARD, "forward"));
    attn_backward_args_t full;
    ATTN_FORWARD_ERROR(attn_import_backward_args(&full, args));
    void *aligned;
    ATTN_FORWARD_ERROR(check_workspace(plan, workspace, workspace_bytes, stream, &aligned));
    ATTN_FORWARD_ERROR(attn_check_backward_args(&plan->desc, &full));
    if (!plan->backend->is_device) {
        ATTN_FORWARD_ERROR(attn_check_forward_arrays(&plan->desc, &full.in));
    }
    return plan->backend->backward(plan, &full, aligned, stream);
}
