// The CUDA backend behind core's table: chooses a kernel family, gets its kernel ready, says what
// it decided, and hands runs to the family. Everything particular to a kernel is the family's.
#include <string.h>

#include "../core/plan.h"
#include "../core/status.h"
#include "gpu_append.h"
#include "gpu_merge.h"
#include "kernel_family.h"

// The plan's GPU. The text of a failure begins with the field that asked for a GPU.
static attn_status_t find_gpu(int32_t device_index, const attn_gpu_t **gpu_out)
{
    attn_error_text_t reason;
    const attn_status_t status = attn_gpu_get(device_index, gpu_out);
    attn_error_save(&reason);
    ATTN_RETURN_IF(status != ATTN_OK, status, "backend: cuda, %.480s", reason.text);
    return ATTN_OK;
}

static attn_status_t choose(const attn_plan_t *plan, const attn_gpu_t **gpu_out,
                            attn_kernel_choice_t *choice_out)
{
    ATTN_FORWARD_ERROR(find_gpu(plan->desc.device_index, gpu_out));
    return attn_kernel_choose(&plan->desc, plan->op, *gpu_out, choice_out);
}

static attn_status_t cuda_choose(attn_plan_t *plan)
{
    const attn_gpu_t *gpu;
    attn_kernel_choice_t choice;
    ATTN_FORWARD_ERROR(choose(plan, &gpu, &choice));
    attn_kernel_config_name(&choice.config, plan->kernel_name);
    plan->tile_q = choice.config.tile_m;
    plan->tile_kv = choice.config.tile_n;
    plan->workspace_bytes = choice.family->workspace_bytes(&plan->desc, gpu, &choice.config);
    return ATTN_OK;
}

static attn_status_t cuda_prepare(attn_plan_t *plan)
{
    attn_cuda_plan_t filled = {0};
    ATTN_FORWARD_ERROR(choose(plan, &filled.gpu, &filled.choice));
    for (int32_t part = 0; part <= filled.choice.family->part_count; part++) {
        if (!attn_kernel_has_part(&filled.choice, part)) {
            continue;
        }
        attn_kernel_text_t text;
        attn_kernel_text_fill(&text, &filled.choice, part);
        ATTN_FORWARD_ERROR(attn_gpu_kernel_get(plan->context, filled.gpu, &text.request,
                                               attn_kernel_shared_bytes(&filled.choice, part),
                                               &filled.kernels[part]));
    }
    attn_cuda_plan_t *const cuda = attn_context_alloc(plan->context, sizeof(*cuda));
    ATTN_RETURN_IF(cuda == NULL, ATTN_OUT_OF_MEMORY, "plan: no memory for %zu bytes",
                   sizeof(*cuda));
    *cuda = filled;
    plan->prepared = cuda;
    return ATTN_OK;
}

static void cuda_release(attn_plan_t *plan)
{
    attn_context_free(plan->context, plan->prepared);
    plan->prepared = NULL;
}

static void explain_parts(const attn_kernel_choice_t *choice, attn_text_t *text)
{
    for (int32_t part = 1; part <= choice->family->part_count; part++) {
        if (attn_kernel_has_part(choice, part)) {
            attn_kernel_text_t with;
            attn_kernel_text_fill(&with, choice, part);
            attn_text_add(text, "with kernel: %s\n", with.name);
        }
    }
}

static void explain_families(const attn_plan_t *plan, const attn_gpu_t *gpu, attn_text_t *text)
{
    attn_text_add(text, "kernel families:\n");
    for (int32_t i = 0; attn_kernel_families[i] != NULL; i++) {
        char reason[ATTN_REASON_BYTES] = "yes";
        attn_kernel_choice_t tried;
        const int is_able =
            attn_kernel_try(attn_kernel_families[i], &plan->desc, plan->op, gpu, &tried, reason);
        attn_text_add(text, "  %s: %s%s\n", attn_kernel_families[i]->name,
                      is_able ? "" : "no: ", reason);
    }
}

static void cuda_explain(const attn_plan_t *plan, attn_text_t *text)
{
    const attn_gpu_t *gpu;
    attn_kernel_choice_t choice;
    if (choose(plan, &gpu, &choice) != ATTN_OK) {
        return;
    }
    char arch[ATTN_ARCH_BYTES];
    attn_arch_name(gpu->compute, arch);
    attn_text_add(text, "GPU: %d, %s, %s, %d multiprocessors\n", (int)gpu->ordinal, gpu->name, arch,
                  (int)gpu->multiprocessors);
    const attn_kernel_config_t *const config = &choice.config;
    if (config->tile_m > 0) {
        attn_text_add(text, "tile: %d query rows x %d keys, %d stages, %d warpgroups\n",
                      (int)config->tile_m, (int)config->tile_n, (int)config->stages,
                      (int)config->warpgroups);
    }
    attn_text_add(text, "shared memory: %d of %d bytes; registers: at most %d\n",
                  (int)choice.family->shared_bytes(config), (int)gpu->shared_bytes,
                  (int)choice.row->registers_max);
    attn_text_add(text, "tuning row: %s (%s)\n", choice.row->reason, choice.row->date);
    if (choice.family->explain != NULL) {
        choice.family->explain(&plan->desc, text);
    }
    explain_parts(&choice, text);
    explain_families(plan, gpu, text);
}

static attn_status_t cuda_forward(const attn_plan_t *plan, const attn_forward_args_t *args,
                                  void *workspace, void *stream)
{
    const attn_cuda_plan_t *const cuda = plan->prepared;
    return cuda->choice.family->forward(cuda, &plan->desc, args, workspace, stream);
}

static attn_status_t cuda_backward(const attn_plan_t *plan, const attn_backward_args_t *args,
                                   void *workspace, void *stream)
{
    const attn_cuda_plan_t *const cuda = plan->prepared;
    return cuda->choice.family->backward(cuda, &plan->desc, args, workspace, stream);
}

static attn_status_t cuda_merge(const attn_context_t *context, const attn_merge_desc_t *desc,
                                const float *o_part, const float *lse_part, void *o, float *lse,
                                void *stream)
{
    const attn_gpu_t *gpu;
    ATTN_FORWARD_ERROR(find_gpu(desc->device_index, &gpu));
    return attn_gpu_merge(context, gpu, desc, o_part, lse_part, o, lse, stream);
}

static attn_status_t cuda_append(const attn_context_t *context, const attn_append_desc_t *desc,
                                 const attn_append_args_t *args, void *stream)
{
    const attn_gpu_t *gpu;
    ATTN_FORWARD_ERROR(find_gpu(desc->device_index, &gpu));
    return attn_gpu_append(context, gpu, desc, args, stream);
}

const attn_backend_ops_t attn_backend_cuda = {
    .is_device = 1,
    .choose = cuda_choose,
    .prepare = cuda_prepare,
    .release = cuda_release,
    .explain = cuda_explain,
    .forward = cuda_forward,
    .backward = cuda_backward,
    .merge = cuda_merge,
    .append = cuda_append,
};
