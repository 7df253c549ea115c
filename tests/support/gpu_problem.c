// Test problems on a GPU: see gpu_problem.h.
#include "gpu_problem.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu_args.h"

static void copy_buffer(gpu_problem_t *gpu, const guard_buffer_t *buffer, bool is_result)
{
    if (buffer->memory == NULL) {
        return;
    }
    if (gpu->count == GPU_PROBLEM_COPIES) {
        abort();
    }
    gpu->copies[gpu->count++] =
        (gpu_problem_copy_t){buffer, gpu_copy_create(buffer->data, buffer->bytes), is_result};
}

static void copy_all(gpu_problem_t *gpu, const problem_t *p, const results_t *r)
{
    const operand_t *const inputs[] = {&p->q,    &p->k,         &p->v,         &p->do_,
                                       &p->dlse, &p->mask,      &p->bias,      &p->alibi,
                                       &p->sink, &p->q_descale, &p->k_descale, &p->v_descale};
    const operand_t *const results[] = {&r->o,  &r->lse,   &r->dq,   &r->dk,
                                        &r->dv, &r->dsink, &r->dbias};
    const guard_buffer_t *const lists[] = {
        &p->cu_seqlens_q, &p->cu_seqlens_kv, &p->seqused_q,   &p->seqused_kv,  &p->leftpad_kv,
        &p->kv_batch_idx, &p->page_table,    &p->block_count, &p->block_index, &p->dropout_state};
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        copy_buffer(gpu, &inputs[i]->buffer, false);
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        copy_buffer(gpu, lists[i], false);
    }
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        copy_buffer(gpu, &results[i]->buffer, true);
    }
}

gpu_problem_t gpu_problem_create(const problem_t *problem, const results_t *results)
{
    gpu_problem_t gpu = {.forward = problem_forward_args(problem, results),
                         .backward = problem_backward_args(problem, results)};
    struct gpu_range ranges[GPU_PROBLEM_COPIES];
    copy_all(&gpu, problem, results);
    for (int i = 0; i < gpu.count; i++) {
        const gpu_problem_copy_t *const copy = &gpu.copies[i];
        ranges[i] = (struct gpu_range){copy->host->data, copy->device.data, copy->host->bytes};
    }
    gpu_args_forward(&gpu.forward, ranges, (size_t)gpu.count);
    gpu_args_backward(&gpu.backward, ranges, (size_t)gpu.count);
    return gpu;
}

void gpu_problem_load(gpu_problem_t *gpu, const problem_t *problem, const results_t *results)
{
    gpu_problem_t other = gpu_problem_create(problem, results);
    for (int i = 0; i < gpu->count; i++) {
        gpu->copies[i].host = other.copies[i].host;
        gpu_copy_load(&gpu->copies[i].device, other.copies[i].host->data);
    }
    gpu_problem_destroy(&other);
}

bool gpu_problem_fetch(const gpu_problem_t *gpu)
{
    bool is_intact = true;
    for (int i = 0; i < gpu->count; i++) {
        const gpu_problem_copy_t *const copy = &gpu->copies[i];
        is_intact &= gpu_copy_fetch(&copy->device, copy->is_result ? copy->host->data : NULL);
    }
    return is_intact;
}

void gpu_problem_destroy(gpu_problem_t *gpu)
{
    for (int i = 0; i < gpu->count; i++) {
        gpu_copy_destroy(&gpu->copies[i].device);
    }
    gpu->count = 0;
}

static attn_status_t run_pass(const problem_t *p, const attn_plan_t *plan, bool is_backward,
                              const results_t *results, char *why, size_t why_bytes)
{
    gpu_problem_t gpu = gpu_problem_create(p, results);
    gpu_copy_t workspace = gpu_copy_create(NULL, attn_plan_workspace_bytes(plan));
    attn_status_t status =
        is_backward ? attn_backward(plan, &gpu.backward, workspace.data, workspace.bytes, NULL)
                    : attn_forward(plan, &gpu.forward, workspace.data, workspace.bytes, NULL);
    gpu_copy_wait();
    if (status != ATTN_OK) {
        (void)snprintf(why, why_bytes, "%s: %s: %s", attn_plan_kernel_name(plan),
                       attn_status_string(status), attn_last_error());
    } else if (!gpu_problem_fetch(&gpu) || !gpu_copy_fetch(&workspace, NULL)) {
        status = ATTN_INTERNAL_ERROR;
        (void)snprintf(why, why_bytes, "%s: wrote outside its memory", attn_plan_kernel_name(plan));
    }
    gpu_copy_destroy(&workspace);
    gpu_problem_destroy(&gpu);
    return status;
}

static attn_status_t run_passes(const problem_t *p, const attn_plan_t *forward,
                                const attn_plan_t *backward, const results_t *results, char *why,
                                size_t why_bytes)
{
    const attn_status_t status = run_pass(p, forward, false, results, why, why_bytes);
    return status == ATTN_OK && backward != NULL
               ? run_pass(p, backward, true, results, why, why_bytes)
               : status;
}

static bool equal_outputs(const results_t *a, const results_t *b)
{
    return operand_equal_bits(&a->o, &b->o) && operand_equal_bits(&a->lse, &b->lse);
}

static bool equal_gradients(const results_t *a, const results_t *b)
{
    return operand_equal_bits(&a->dq, &b->dq) && operand_equal_bits(&a->dk, &b->dk) &&
           operand_equal_bits(&a->dv, &b->dv) && operand_equal_bits(&a->dsink, &b->dsink) &&
           operand_equal_bits(&a->dbias, &b->dbias);
}

// The forward pass gives the same bits every time, the backward pass where it is asked to.
static attn_status_t repeat(const problem_t *p, const attn_plan_t *forward,
                            const attn_plan_t *backward, const results_t *results, char *why,
                            size_t why_bytes)
{
    const attn_plan_t *const repeated = p->desc.deterministic ? backward : NULL;
    results_t again = results_create(p, &p->full);
    attn_status_t status = run_passes(p, forward, repeated, &again, why, why_bytes);
    if (status == ATTN_OK && !(equal_outputs(&again, results) &&
                               (repeated == NULL || equal_gradients(&again, results)))) {
        status = ATTN_INTERNAL_ERROR;
        (void)snprintf(why, why_bytes, "%s%s%s: other bits at the second run",
                       attn_plan_kernel_name(forward), repeated != NULL ? ", " : "",
                       repeated != NULL ? attn_plan_kernel_name(repeated) : "");
    }
    results_destroy(&again);
    return status;
}

attn_status_t gpu_problem_run(const problem_t *p, const attn_plan_t *forward,
                              const attn_plan_t *backward, results_t *results_out, char *why_out,
                              size_t why_bytes)
{
    gpu_copy_open(0);
    const attn_status_t status = run_passes(p, forward, backward, results_out, why_out, why_bytes);
    return status == ATTN_OK ? repeat(p, forward, backward, results_out, why_out, why_bytes)
                             : status;
}
