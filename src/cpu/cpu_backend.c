// The CPU backend: which kernels a plan gets, and what it says about itself. The work is in
// forward_plan.c and the backward files; the vector code of each instruction set stands behind
// kernels.h.
#include <stdio.h>

#include "../core/check.h"
#include "../core/plan.h"
#include "../core/status.h"
#include "append.h"
#include "backward/backward.h"
#include "forward/forward_plan.h"
#include "kernels.h"
#include "merge.h"

const attn_cpu_kernels_t *attn_cpu_kernels_of(attn_isa_t isa)
{
    switch (isa) {
#ifdef ATTN_HAVE_AVX2
    case ATTN_ISA_AVX2: return &attn_cpu_kernels_avx2;
#endif
#ifdef ATTN_HAVE_AVX512
    case ATTN_ISA_AVX512: return &attn_cpu_kernels_avx512;
#endif
#ifdef ATTN_HAVE_AVX512_BF16
    case ATTN_ISA_AVX512_BF16: return &attn_cpu_kernels_avx512_bf16;
#endif
    default: return &attn_cpu_kernels_scalar;
    }
}

static attn_status_t cpu_choose(attn_plan_t *plan)
{
    plan->isa = plan->context->isa;
    const char *pass = "bwd";
    if (plan->op == ATTN_FORWARD) {
        ATTN_FORWARD_ERROR(attn_cpu_forward_choose(plan, attn_cpu_kernels_of(plan->isa)));
        pass = plan->is_decode ? "decode" : "fwd";
    } else {
        attn_cpu_backward_choose(plan);
        plan->workspace_bytes = attn_cpu_backward_workspace(plan);
        ATTN_RETURN_IF(plan->workspace_bytes == SIZE_MAX, ATTN_UNSUPPORTED,
                       "the workspace does not fit in 64 bits");
    }
    (void)snprintf(plan->kernel_name, sizeof plan->kernel_name, "cpu_%s_%s_%s",
                   attn_isa_name(plan->isa), pass, attn_dtype_name(plan->desc.k.dtype));
    return ATTN_OK;
}

static void cpu_explain(const attn_plan_t *plan, attn_text_t *text)
{
    const attn_cpu_kernels_t *kernels = attn_cpu_kernels_of(plan->isa);
    attn_text_add(text, "instruction set: %s, %d floats per vector\n", attn_isa_name(plan->isa),
                  (int)kernels->lanes);
    if (plan->op == ATTN_FORWARD && plan->is_decode) {
        attn_text_add(text, "few query rows: the vectors run along the head dim\n");
    }
    attn_text_add(text, "tile: %lld query rows x %lld keys\n", (long long)plan->tile_q,
                  (long long)plan->tile_kv);
    attn_text_add(text, "splits of the keys: %lld of %lld keys\n", (long long)plan->num_splits,
                  (long long)plan->split_keys);
    if (plan->op == ATTN_FORWARD && !plan->is_decode) {
        const attn_cpu_forward_layout_t layout = attn_cpu_forward_layout(plan, kernels);
        attn_text_add(text, "task: up to %lld rows of the %lld query heads that share a K/V head\n",
                      (long long)layout.task_rows, (long long)layout.group);
    }
}

static attn_status_t cpu_backward(const attn_plan_t *plan, const attn_backward_args_t *args,
                                  void *workspace, void *stream)
{
    (void)stream;
    return attn_cpu_backward(plan, args, workspace);
}

const attn_backend_ops_t attn_backend_cpu = {
    .choose = cpu_choose,
    .explain = cpu_explain,
    .forward = attn_cpu_forward,
    .backward = cpu_backward,
    .merge = attn_cpu_merge,
    .append = attn_cpu_append,
};
