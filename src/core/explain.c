// attn_explain: the choice of a kernel in words, and why each other candidate is not it.
#include <inttypes.h>

#include "check.h"
#include "desc.h"
#include "plan.h"
#include "status.h"

static void explain_problem(const attn_desc_t *desc, attn_op_t op, attn_text_t *text)
{
    attn_text_add(text, "problem: %s, batch %" PRId64 ", s_q %" PRId64 ", s_kv %" PRId64,
                  op == ATTN_FORWARD ? "forward" : "backward", desc->batch, desc->s_q, desc->s_kv);
    attn_text_add(text, ", heads %" PRId64 "/%" PRId64 ", d %" PRId64 "/%" PRId64, desc->heads_q,
                  desc->heads_kv, desc->d_qk, desc->d_v);
    attn_text_add(text, ", q %s, k %s, v %s, o %s\n", attn_dtype_name(desc->q.dtype),
                  attn_dtype_name(desc->k.dtype), attn_dtype_name(desc->v.dtype),
                  attn_dtype_name(desc->o.dtype));
}

static void explain_window(const attn_desc_t *desc, attn_text_t *text)
{
    if (desc->window_left < 0 && desc->window_right < 0) {
        attn_text_add(text, "mask: no window or causal bound hides a key");
    } else {
        attn_text_add(text, "mask: keys from ");
        if (desc->window_left < 0) {
            attn_text_add(text, "the first");
        } else {
            attn_text_add(text, "%" PRId64 " left of the row's position", desc->window_left);
        }
        attn_text_add(text, " to ");
        if (desc->window_right < 0) {
            attn_text_add(text, "the last");
        } else {
            attn_text_add(text, "%" PRId64 " right of it", desc->window_right);
        }
        attn_text_add(text, ", aligned %s",
                      desc->align == ATTN_ALIGN_BOTTOM_RIGHT ? "bottom right" : "top left");
    }
    attn_text_add(text, "\n");
}

// What else the descriptor asks for; no line if that is nothing.
static void explain_options(const attn_desc_t *desc, attn_text_t *text)
{
    const struct {
        int32_t is_on;
        const char *name;
    } options[] = {
        {desc->mask.present, "mask tensor"},
        {desc->bias.present, "bias"},
        {desc->block_sparse, "block lists"},
        {desc->softcap > 0.0f, "softcap"},
        {desc->has_alibi, "ALiBi"},
        {desc->has_sink, "sink"},
        {desc->dropout_p > 0.0f, "dropout"},
        {desc->varlen_q, "packed q"},
        {desc->varlen_kv, "packed k and v"},
        {desc->has_seqused_q, "used lengths of q"},
        {desc->has_seqused_kv, "used lengths of k and v"},
        {desc->has_leftpad_kv, "left padding"},
        {desc->has_kv_batch_idx, "chosen batch entries of k and v"},
        {desc->paged_kv, "pages"},
        {desc->q_descale.present, "descale factors of q"},
        {desc->k_descale.present, "descale factors of k"},
        {desc->v_descale.present, "descale factors of v"},
    };
    const char *before = "options: ";
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (options[i].is_on) {
            attn_text_add(text, "%s%s", before, options[i].name);
            before = ", ";
        }
    }
    attn_text_add(text, "%s", before[0] == ',' ? "\n" : "");
}

static void explain_chosen(const attn_plan_t *plan, attn_text_t *text)
{
    explain_problem(&plan->desc, plan->op, text);
    explain_window(&plan->desc, text);
    explain_options(&plan->desc, text);
    attn_text_add(text, "kernel: %s\n", plan->kernel_name);
    plan->backend->explain(plan, text);
    attn_text_add(text, "workspace: %zu bytes\n", plan->workspace_bytes);
}

typedef struct candidate {
    attn_backend_t backend;
    const char *name;
} candidate_t;

static const candidate_t candidates[] = {
    {ATTN_BACKEND_CUDA, "cuda"},
    {ATTN_BACKEND_CPU, "cpu"},
    {ATTN_BACKEND_REFERENCE, "reference"},
};

// One line: chosen, able but not asked for, or which requirement fails.
static void explain_candidate(const attn_context_t *context, const attn_desc_t *desc, attn_op_t op,
                              const candidate_t *candidate, attn_text_t *text)
{
    attn_desc_t tried = *desc;
    tried.backend = candidate->backend;
    attn_plan_t plan;
    const attn_status_t status = attn_plan_fill(&plan, context, &tried, op);
    if (status != ATTN_OK) {
        attn_text_add(text, "  %s: no: %s (%s)\n", candidate->name, attn_last_error(),
                      attn_status_string(status));
    } else if (plan.backend == attn_backend_find(desc->backend)) {
        attn_text_add(text, "  %s: yes: %s\n", candidate->name, plan.kernel_name);
    } else {
        attn_text_add(text, "  %s: possible (%s), but desc.backend does not ask for it\n",
                      candidate->name, plan.kernel_name);
    }
}

static void explain(const attn_context_t *context, const attn_desc_t *desc, attn_op_t op,
                    attn_text_t *text)
{
    attn_plan_t plan;
    const attn_status_t status = attn_plan_fill(&plan, context, desc, op);
    if (status == ATTN_OK) {
        explain_chosen(&plan, text);
    } else {
        attn_text_add(text, "no kernel: %s (%s)\n", attn_last_error(), attn_status_string(status));
        if (status == ATTN_INVALID_ARGUMENT) {
            return;
        }
    }
    attn_text_add(text, "candidates:\n");
    attn_desc_t full;
    if (attn_desc_read(desc, &full) != ATTN_OK) {
        return;
    }
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        explain_candidate(context, &full, op, &candidates[i], text);
    }
}

attn_status_t attn_explain(const attn_context_t *context, const attn_desc_t *desc, attn_op_t op,
                           char *text, size_t bytes, size_t *needed_out)
{
    ATTN_RETURN_IF(desc == NULL, ATTN_INVALID_ARGUMENT, "desc: NULL");
    ATTN_RETURN_IF(text == NULL && bytes > 0, ATTN_INVALID_ARGUMENT, "text: NULL, but bytes is %zu",
                   bytes);
    attn_error_text_t saved;
    attn_error_save(&saved);
    attn_text_t out = {.data = text, .bytes = bytes};
    explain(attn_context_resolve(context), desc, op, &out);
    attn_error_restore(&saved);
    if (bytes > 0) {
        text[out.needed < bytes ? out.needed : bytes - 1] = '\0';
    }
    if (needed_out != NULL) {
        *needed_out = out.needed + 1;
    }
    return ATTN_OK;
}
