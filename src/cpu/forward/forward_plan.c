// Cuts forward problems into tasks and runs them: the portable half of the CPU forward pass, which
// knows no vectors.
#include "forward_plan.h"

#include <math.h>
#include <stdlib.h>

#include "../../core/checked.h"
#include "../../core/element.h"
#include "../../core/sequence.h"
#include "../../core/status.h"

// Enough tasks to keep many threads busy to the end: below it, tasks get fewer panels and then keys
// are split.
#define TASKS_WANTED 64
#define SPLIT_KEYS_MIN 256
// Panels of a task should stay in a core's second cache together with a tile of keys: 384 KiB.
#define PANELS_FLOATS_MAX (96 * 1024)

// -------------------------------------------------------------------------------------------------
// The cut

static int64_t panel_floats(const attn_desc_t *desc, int64_t panel)
{
    return attn_round_up((desc->d_qk + desc->d_v + 3) * panel, 16);
}

// Q, O, maximum and sum of the rows of a task whose vectors run along the dims.
static int64_t decode_floats(const attn_desc_t *desc, int64_t rows, int64_t panel)
{
    return rows * (attn_round_up(desc->d_qk, panel) + attn_round_up(desc->d_v, panel)) + 2 * panel;
}

// Heads between which K's rows lie are read by one task: a page of memory is then looked up once
// for all of them.
static int64_t choose_heads(const attn_plan_t *plan)
{
    const attn_desc_t *desc = &plan->desc;
    if (!plan->is_decode || llabs(desc->k.stride_h) >= llabs(desc->k.stride_s)) {
        return 1;
    }
    return attn_smaller(ATTN_CPU_HEADS_MAX, desc->heads_kv);
}

// Tasks per split; saturates.
static int64_t task_count(const attn_desc_t *desc, int64_t rows, int64_t task_rows, int64_t heads)
{
    int64_t count = attn_ceil_div(rows, task_rows);
    if (!attn_checked_mul(count, desc->batch, &count) ||
        !attn_checked_mul(count, attn_ceil_div(desc->heads_kv, heads), &count)) {
        return INT64_MAX;
    }
    return count;
}

static int64_t choose_panels(const attn_desc_t *desc, int64_t rows, int64_t panel)
{
    int64_t panels =
        attn_smaller(ATTN_CPU_PANELS_MAX, PANELS_FLOATS_MAX / panel_floats(desc, panel));
    panels = attn_smaller(panels, attn_ceil_div(rows, panel));
    panels = panels < 1 ? 1 : panels;
    while (panels > 1 && task_count(desc, rows, panels * panel, 1) < TASKS_WANTED) {
        panels = (panels + 1) / 2;
    }
    return panels;
}

static void choose_splits(attn_plan_t *plan, int64_t tasks)
{
    const attn_desc_t *desc = &plan->desc;
    int64_t splits = desc->num_splits;
    if (splits == 0) {
        splits = 1;
        if (!desc->batch_invariant && tasks > 0 && tasks < TASKS_WANTED) {
            splits = attn_smaller(attn_ceil_div(TASKS_WANTED, tasks), desc->s_kv / SPLIT_KEYS_MIN);
        }
    }
    splits = attn_smaller(splits, attn_ceil_div(desc->s_kv, plan->tile_kv));
    splits = splits < 1 ? 1 : splits;
    plan->split_keys = attn_round_up(attn_ceil_div(desc->s_kv, splits), plan->tile_kv);
    plan->split_keys = plan->split_keys < plan->tile_kv ? plan->tile_kv : plan->split_keys;
    plan->num_splits = attn_ceil_div(desc->s_kv, plan->split_keys);
    plan->num_splits = plan->num_splits < 1 ? 1 : plan->num_splits;
}

static int64_t part_row_count(const attn_plan_t *plan)
{
    const attn_desc_t *desc = &plan->desc;
    if (plan->num_splits <= 1) {
        return 0;
    }
    return desc->varlen_q ? desc->total_q * desc->heads_q : desc->batch * desc->heads_q * desc->s_q;
}

attn_cpu_forward_layout_t attn_cpu_forward_layout(const attn_plan_t *plan,
                                                  const attn_cpu_kernels_t *kernels)
{
    const attn_desc_t *desc = &plan->desc;
    attn_cpu_forward_layout_t layout = {.panel = kernels->panel};
    layout.group = desc->heads_q / desc->heads_kv;
    const int64_t rows = desc->s_q * layout.group;
    layout.panels = choose_panels(desc, rows, layout.panel);
    layout.heads = choose_heads(plan);
    layout.task_rows = layout.panels * layout.panel;
    layout.blocks = attn_ceil_div(rows, layout.task_rows);
    // An odd number of cache lines spreads the rows of a tile over the first cache's sets.
    layout.k_stride = attn_round_up(desc->d_qk, 32) + 16;
    layout.v_stride = attn_round_up(desc->d_v, 32) + 16;
    layout.tile_at = 0;
    layout.v_tile_at = layout.tile_at + ATTN_CPU_TILE_KV * layout.k_stride;
    layout.score_at = layout.v_tile_at + ATTN_CPU_TILE_KV * layout.v_stride;
    layout.row_at = layout.score_at + 3 * ATTN_CPU_TILE_KV * layout.panel;
    layout.panel_at =
        layout.row_at + attn_round_up(desc->d_qk > desc->d_v ? desc->d_qk : desc->d_v, 16) + 16;
    layout.panel_stride = plan->is_decode ? decode_floats(desc, rows, layout.panel)
                                          : panel_floats(desc, layout.panel);
    layout.scratch_bytes =
        (size_t)(layout.panel_at + layout.panels * layout.heads * layout.panel_stride) *
        sizeof(float);
    layout.part_rows = part_row_count(plan);
    return layout;
}

// Bytes of each part of the workspace, in order; 0 if they do not fit in 64 bits.
typedef struct workspace_parts {
    int64_t blocks;
    int64_t part_o;
    int64_t part_stat;
    int64_t scratch;
    int64_t total;
} workspace_parts_t;

static int size_workspace(const attn_plan_t *plan, const attn_cpu_forward_layout_t *layout,
                          workspace_parts_t *parts)
{
    const attn_desc_t *desc = &plan->desc;
    *parts = (workspace_parts_t){0};
    int64_t rows = 0;
    int ok =
        attn_checked_mul(layout->part_rows, plan->num_splits, &rows) &&
        attn_checked_mul(rows, desc->d_v * 4, &parts->part_o) &&
        attn_checked_mul((int64_t)layout->scratch_bytes, plan->context->workers, &parts->scratch);
    if (!ok || rows > INT64_MAX / 64 || parts->part_o > INT64_MAX / 4 ||
        parts->scratch > INT64_MAX / 4 || desc->batch > INT64_MAX / 64) {
        return 0;
    }
    parts->blocks = desc->varlen_q ? attn_round_up((desc->batch + 1) * 8, 64) : 0;
    parts->part_o = attn_round_up(parts->part_o, 64);
    parts->part_stat = attn_round_up(rows * ATTN_CPU_PART_STATS * 4, 64);
    parts->total = parts->blocks + parts->part_o + parts->part_stat + parts->scratch;
    return 1;
}

attn_status_t attn_cpu_forward_choose(attn_plan_t *plan, const attn_cpu_kernels_t *kernels)
{
    const attn_desc_t *desc = &plan->desc;
    const int64_t group = desc->heads_q / desc->heads_kv;
    int64_t rows;
    int64_t all_rows;
    ATTN_RETURN_IF(!attn_checked_mul(desc->s_q, group, &rows) ||
                       !attn_checked_mul(desc->heads_q, desc->varlen_q ? desc->total_q : desc->s_q,
                                         &all_rows) ||
                       !attn_checked_mul(all_rows, desc->varlen_q ? 1 : desc->batch, &all_rows),
                   ATTN_UNSUPPORTED, "batch * heads_q * s_q does not fit in 64 bits");
    plan->tile_kv = ATTN_CPU_TILE_KV;
    plan->tile_q = group < kernels->panel ? kernels->panel / group : 1;
    plan->is_decode = rows <= ATTN_CPU_DECODE_ROWS_MAX && !desc->batch_invariant;
    const int64_t panels = choose_panels(desc, rows, kernels->panel);
    const int64_t tasks = task_count(desc, rows, panels * kernels->panel, choose_heads(plan));
    choose_splits(plan, tasks);
    ATTN_RETURN_IF(tasks >= INT64_MAX / plan->num_splits, ATTN_UNSUPPORTED,
                   "batch * heads_kv * s_q is too large to be cut into tasks");
    const attn_cpu_forward_layout_t layout = attn_cpu_forward_layout(plan, kernels);
    workspace_parts_t parts;
    ATTN_RETURN_IF(!size_workspace(plan, &layout, &parts), ATTN_UNSUPPORTED,
                   "the workspace does not fit in 64 bits");
    plan->workspace_bytes = (size_t)parts.total;
    return ATTN_OK;
}

// -------------------------------------------------------------------------------------------------
// The run

static void run_task(void *arg, int64_t i, int32_t worker)
{
    const attn_cpu_forward_t *run = arg;
    const attn_cpu_kernels_t *kernels = attn_cpu_kernels_of(run->plan->isa);
    if (run->plan->is_decode) {
        kernels->decode(run, i, worker);
    } else {
        kernels->forward(run, i, worker);
    }
}

static void run_merge_splits(void *arg, int64_t i, int32_t worker)
{
    const attn_cpu_forward_t *run = arg;
    attn_cpu_kernels_of(run->plan->isa)->merge_splits(run, i, worker);
}

// Rows of the pack that belong to no sequence: row total_q - 1 - i gets o = 0 and lse = -inf.
static void run_clear(void *arg, int64_t i, int32_t worker)
{
    (void)worker;
    const attn_cpu_forward_t *run = arg;
    const attn_desc_t *desc = run->desc;
    const int64_t row = desc->total_q - 1 - i;
    for (int64_t h = 0; h < desc->heads_q; h++) {
        const int64_t at = row * desc->o.stride_s + h * desc->o.stride_h;
        for (int64_t e = 0; e < desc->d_v; e++) {
            attn_store_f32(desc->o.dtype, run->args->o, at + e * desc->o.stride_d, 0.0f);
        }
        if (desc->wants_lse) {
            run->args->lse[h * desc->lse_stride_h + row * desc->lse_stride_s] = -INFINITY;
        }
    }
}

// Blocks of each packed sequence, counted up: its real length, not the bound s_q, makes tasks.
static void count_blocks(attn_cpu_forward_t *run, int64_t *block_begin)
{
    const attn_desc_t *desc = run->desc;
    int64_t blocks = 0;
    for (int64_t b = 0; b < desc->batch; b++) {
        block_begin[b] = blocks;
        const int64_t rows = run->args->cu_seqlens_q[b + 1] - run->args->cu_seqlens_q[b];
        blocks += attn_ceil_div(rows * run->layout.group, run->layout.task_rows);
    }
    block_begin[desc->batch] = blocks;
    run->block_begin = block_begin;
    run->tasks = blocks;
}

attn_status_t attn_cpu_forward(const attn_plan_t *plan, const attn_forward_args_t *args,
                               void *workspace, void *stream)
{
    (void)stream;
    const attn_desc_t *desc = &plan->desc;
    const attn_cpu_kernels_t *kernels = attn_cpu_kernels_of(plan->isa);
    attn_cpu_forward_t run = {.plan = plan, .desc = desc, .args = args};
    run.layout = attn_cpu_forward_layout(plan, kernels);
    workspace_parts_t parts;
    if (!size_workspace(plan, &run.layout, &parts)) {
        return attn_fail(ATTN_INTERNAL_ERROR, "the plan's workspace has no size");
    }
    unsigned char *at = workspace;
    if (desc->varlen_q) {
        count_blocks(&run, (int64_t *)(void *)at);
    } else {
        run.tasks = run.layout.blocks * desc->batch;
    }
    run.tasks *= attn_ceil_div(desc->heads_kv, run.layout.heads) * plan->num_splits;
    at += parts.blocks;
    if (plan->num_splits > 1) {
        run.part_o = (float *)(void *)at;
        run.part_stat = (float *)(void *)(at + parts.part_o);
    }
    at += parts.part_o + parts.part_stat;
    run.scratch = at;
    attn_parallel_for(plan->context, run.tasks, run_task, &run);
    if (plan->num_splits > 1) {
        const int64_t merge_tasks = attn_ceil_div(run.layout.part_rows, ATTN_CPU_MERGE_ROWS);
        attn_parallel_for(plan->context, merge_tasks, run_merge_splits, &run);
    }
    if (desc->varlen_q) {
        const int64_t outside = desc->total_q - args->cu_seqlens_q[desc->batch];
        attn_parallel_for(plan->context, outside, run_clear, &run);
    }
    return ATTN_OK;
}
