// Runs a test problem through the public interface: context, plans, workspaces at any alignment
// filled with NaN, results in guarded memory that must be written whole and nothing beside it.
#include "test_problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_problem.h"

typedef struct message {
    char *text;
    size_t bytes;
} message_t;

__attribute__((format(printf, 2, 3))) static void say(message_t message, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message.text, message.bytes, format, arguments);
    va_end(arguments);
}

static const int32_t *list(const guard_buffer_t *buffer)
{
    return (const int32_t *)(const void *)buffer->data;
}

attn_forward_args_t problem_forward_args(const problem_t *p, const results_t *r)
{
    attn_forward_args_t args;
    attn_forward_args_init(&args);
    args.q = operand_data(&p->q);
    args.k = operand_data(&p->k);
    args.v = operand_data(&p->v);
    args.o = operand_data(&r->o);
    args.lse = operand_data(&r->lse);
    args.cu_seqlens_q = list(&p->cu_seqlens_q);
    args.cu_seqlens_kv = list(&p->cu_seqlens_kv);
    args.seqused_q = list(&p->seqused_q);
    args.seqused_kv = list(&p->seqused_kv);
    args.leftpad_kv = list(&p->leftpad_kv);
    args.kv_batch_idx = list(&p->kv_batch_idx);
    args.page_table = list(&p->page_table);
    args.mask = operand_data(&p->mask);
    args.bias = operand_data(&p->bias);
    args.alibi_slopes = operand_data(&p->alibi);
    args.sink = operand_data(&p->sink);
    args.block_count = list(&p->block_count);
    args.block_index = list(&p->block_index);
    args.dropout_state = (const uint64_t *)(const void *)p->dropout_state.data;
    args.q_descale = operand_data(&p->q_descale);
    args.k_descale = operand_data(&p->k_descale);
    args.v_descale = operand_data(&p->v_descale);
    return args;
}

attn_backward_args_t problem_backward_args(const problem_t *p, const results_t *r)
{
    attn_backward_args_t args;
    attn_backward_args_init(&args);
    args.in = problem_forward_args(p, r);
    args.do_ = operand_data(&p->do_);
    args.dlse = operand_data(&p->dlse);
    args.dq = operand_data(&r->dq);
    args.dk = operand_data(&r->dk);
    args.dv = operand_data(&r->dv);
    args.dsink = operand_data(&r->dsink);
    args.dbias = operand_data(&r->dbias);
    return args;
}

// Guards, holes and, where a pass has written, completeness of every result.
static bool results_are_clean(const problem_t *p, const results_t *r, message_t message)
{
    const operand_t *results[] = {&r->o, &r->lse, &r->dq, &r->dk, &r->dv, &r->dsink, &r->dbias};
    for (size_t n = 0; n < sizeof(results) / sizeof(results[0]); n++) {
        const char *damage = operand_damage(results[n], true);
        if (damage != NULL) {
            say(message, "%s: %s", results[n]->name, damage);
            return false;
        }
    }
    const operand_t *inputs[] = {&p->q, &p->k, &p->v, &p->do_, &p->mask, &p->bias};
    for (size_t n = 0; n < sizeof(inputs) / sizeof(inputs[0]); n++) {
        if (!guard_buffer_intact(&inputs[n]->buffer)) {
            say(message, "%s: guard band of an input overwritten", inputs[n]->name);
            return false;
        }
    }
    return true;
}

static guard_buffer_t workspace_for(const attn_plan_t *plan, const problem_t *p)
{
    return guard_buffer_create(attn_plan_workspace_bytes(plan), p->options.seed % 64);
}

static attn_status_t run_one(const problem_t *p, const attn_plan_t *plan, bool backward,
                             results_t *r, message_t message)
{
    guard_buffer_t workspace = workspace_for(plan, p);
    attn_status_t status;
    if (backward) {
        const attn_backward_args_t args = problem_backward_args(p, r);
        status = attn_backward(plan, &args, workspace.data, workspace.bytes, NULL);
    } else {
        const attn_forward_args_t args = problem_forward_args(p, r);
        status = attn_forward(plan, &args, workspace.data, workspace.bytes, NULL);
    }
    if (status != ATTN_OK) {
        say(message, "%s: %s: %s", attn_plan_kernel_name(plan), attn_status_string(status),
            attn_last_error());
    } else if (!guard_buffer_intact(&workspace)) {
        status = ATTN_INTERNAL_ERROR;
        say(message, "%s: wrote outside its workspace", attn_plan_kernel_name(plan));
    }
    guard_buffer_destroy(&workspace);
    return status;
}

attn_status_t problem_run_plans(const problem_t *p, const attn_plan_t *forward,
                                const attn_plan_t *backward, const attn_desc_t *full,
                                results_t *results_out, char *why_out, size_t why_bytes)
{
    const message_t message = {why_out, why_bytes};
    *results_out = results_create(p, full);
    attn_status_t status = run_one(p, forward, false, results_out, message);
    if (status == ATTN_OK && backward != NULL) {
        status = run_one(p, backward, true, results_out, message);
    }
    if (status == ATTN_OK && !results_are_clean(p, results_out, message)) {
        status = ATTN_INTERNAL_ERROR;
    }
    if (status != ATTN_OK) {
        results_destroy(results_out);
    }
    return status;
}

static attn_status_t run_on_gpu(const problem_t *p, const attn_plan_t *forward,
                                const attn_plan_t *backward, results_t *results_out,
                                message_t message)
{
    *results_out = results_create(p, &p->full);
    attn_status_t status =
        gpu_problem_run(p, forward, backward, results_out, message.text, message.bytes);
    if (status == ATTN_OK && !results_are_clean(p, results_out, message)) {
        status = ATTN_INTERNAL_ERROR;
    }
    if (status != ATTN_OK) {
        results_destroy(results_out);
    }
    return status;
}

attn_context_t *runner_context(const runner_t *runner)
{
    attn_context_config_t config;
    attn_context_t *context = NULL;
    attn_context_config_init(&config);
    config.isa = runner->isa;
    config.workers = runner->workers;
    config.parallel_for = runner->parallel_for;
    config.parallel_for_user = runner->parallel_for_user;
    return attn_context_create(&config, &context) == ATTN_OK ? context : NULL;
}

attn_status_t problem_run(const problem_t *p, const runner_t *runner, results_t *results_out,
                          char *why_out, size_t why_bytes)
{
    attn_desc_t desc = p->desc;
    attn_plan_t *forward = NULL;
    attn_plan_t *backward = NULL;
    memset(results_out, 0, sizeof(*results_out));
    desc.backend = runner->backend;
    attn_context_t *context = runner_context(runner);
    attn_status_t status = ATTN_INTERNAL_ERROR;
    if (context != NULL) {
        status = attn_plan_create(context, &desc, ATTN_FORWARD, &forward);
        if (status == ATTN_OK && p->options.backward) {
            status = attn_plan_create(context, &desc, ATTN_BACKWARD, &backward);
        }
    }
    if (status != ATTN_OK) {
        snprintf(why_out, why_bytes, "no plan: %s: %s", attn_status_string(status),
                 attn_last_error());
    } else {
        status =
            runner->backend == ATTN_BACKEND_CUDA
                ? run_on_gpu(p, forward, backward, results_out, (message_t){why_out, why_bytes})
                : problem_run_plans(p, forward, backward, &p->full, results_out, why_out,
                                    why_bytes);
        results_out->backend = runner->backend;
    }
    attn_plan_destroy(backward);
    attn_plan_destroy(forward);
    attn_context_destroy(context);
    return status;
}

int problem_isas(attn_isa_t isas_out[ATTN_ISA_COUNT])
{
    int count = 0;
    for (int isa = ATTN_ISA_SCALAR; isa < ATTN_ISA_COUNT; isa++) {
        if (attn_isa_available((attn_isa_t)isa)) {
            isas_out[count++] = (attn_isa_t)isa;
        }
    }
    return count;
}

// ---- the GPU instead of the CPU: ATTN_TEST_GPU=1

static int gpu_problems;
static int gpu_problems_backward; // of these
static int gpu_problems_refused;

static void print_gpu_problems(void)
{
    printf("on the GPU: %d problems, %d of them backward; no kernel for %d\n", gpu_problems,
           gpu_problems_backward, gpu_problems_refused);
}

bool problem_wants_gpu(void)
{
    const char *const wanted = getenv("ATTN_TEST_GPU");
    return wanted != NULL && strcmp(wanted, "1") == 0;
}

bool problem_wants_missing_gpu(void)
{
    attn_gpu_info_t info = {.struct_size = sizeof(info)};
    const bool is_missing = problem_wants_gpu() && attn_gpu_query(0, &info) != ATTN_OK;
    if (is_missing) {
        printf("skipped: %s\n", attn_last_error());
    }
    return is_missing;
}

bool problem_has_gpu_kernel(const problem_t *p, attn_op_t op)
{
    attn_desc_t desc = p->desc;
    desc.backend = ATTN_BACKEND_CUDA;
    return attn_supports(NULL, &desc, op) == ATTN_OK;
}

int problem_runners(const problem_t *p, runner_t runners_out[ATTN_ISA_COUNT])
{
    if (problem_wants_gpu()) {
        if (gpu_problems + gpu_problems_refused == 0) {
            (void)atexit(print_gpu_problems);
        }
        const bool is_able = problem_has_gpu_kernel(p, ATTN_FORWARD) &&
                             (!p->options.backward || problem_has_gpu_kernel(p, ATTN_BACKWARD));
        gpu_problems += is_able;
        gpu_problems_backward += is_able && p->options.backward;
        gpu_problems_refused += !is_able;
        runners_out[0] = (runner_t){.backend = ATTN_BACKEND_CUDA};
        return is_able;
    }
    attn_isa_t isas[ATTN_ISA_COUNT];
    const int count = problem_isas(isas);
    for (int n = 0; n < count; n++) {
        runners_out[n] = (runner_t){.backend = ATTN_BACKEND_CPU, .isa = isas[n]};
    }
    return count;
}
