// The backward pass (FlashAttention-2, algorithm 2, arXiv:2307.08691): weights are recomputed tile
// by tile from q, k and the forward pass's lse, and five matrix products per tile give the
// gradients.
//
//   preprocess      delta and dsink                         tasks: blocks of rows
//   key tasks       dk, dv and the partial dq      tasks: (split of the keys, batch, K/V head)
//   row tasks       dq = sum of its partials, in order      tasks: blocks of rows
//   bias gradient   bias_gradient.c
//
// A key task holds one key block's K, V, dk and dv in scratch while all rows of all query heads of
// the group stream past: dk and dv need no partial results. dq does, one per split; heads are
// usually many, and then there is one split. The cut depends on the descriptor alone and every sum
// has one order, so results do not depend on threads.
#include "backward.h"

#include <string.h>

#include "../../core/checked.h"
#include "../kernels.h"
#include "backward_block.h"
#include "bias_gradient.h"
#include "preprocess.h"

// -------------------------------------------------------------------------------------------------
// Tiles and splits

// Blocks of K, V, their transposes and gradients (5 * keys * dim floats, or 3 of them pairs), q,
// do, p and ds together stay well inside an L2 of 512 KiB to 1 MiB. Measured on Zen 4 (1 MiB) at d
// 64 and 128: 64 rows beat 128 by 1 to 3 %, and 256 keys beat 128 by 2 % in fp32 and by 5 % on
// pairs.
static const struct {
    int64_t d_max;
    int64_t rows;
    int64_t keys;
    int64_t keys_paired;
} backward_tiles[] = {
    {64, 64, 256, 256}, {128, 64, 128, 256},     {256, 64, 64, 128},
    {1024, 32, 64, 64}, {INT64_MAX, 16, 32, 32},
};

// Splits are for problems with few heads: as many key tasks as keep 16 threads busy, of at least
// this many keys. Each split costs one more dq in fp32, and all of them together no more than this,
// or what one split costs.
#define BACKWARD_TASKS 16
#define BACKWARD_SPLIT_KEYS 256
#define BACKWARD_DQ_BYTES ((size_t)512 << 20)

// At least 1. Needs the tiles.
static int64_t most_splits(attn_plan_t *plan)
{
    const attn_desc_t *desc = &plan->desc;
    const int64_t heads = desc->batch * desc->heads_kv;
    if (heads == 0 || heads >= BACKWARD_TASKS || desc->batch_invariant) {
        return 1;
    }
    plan->num_splits = 1;
    const size_t dq_bytes = attn_cpu_backward_layout(plan).dq_bytes;
    const int64_t by_memory = dq_bytes > 0 ? (int64_t)(BACKWARD_DQ_BYTES / dq_bytes) : 1;
    const int64_t by_keys = attn_ceil_div(desc->s_kv, BACKWARD_SPLIT_KEYS);
    const int64_t splits =
        attn_smaller(attn_ceil_div(BACKWARD_TASKS, heads), attn_smaller(by_memory, by_keys));
    return splits > 1 ? splits : 1;
}

void attn_cpu_backward_choose(attn_plan_t *plan)
{
    const attn_desc_t *desc = &plan->desc;
    const int64_t d = desc->d_qk > desc->d_v ? desc->d_qk : desc->d_v;
    int row = 0;
    while (d > backward_tiles[row].d_max) {
        row++;
    }
    plan->tile_q = backward_tiles[row].rows;
    plan->tile_kv = attn_cpu_backward_is_paired(plan) ? backward_tiles[row].keys_paired
                                                      : backward_tiles[row].keys;
    const int64_t splits = most_splits(plan);
    const int64_t blocks = attn_ceil_div(desc->s_kv, plan->tile_kv);
    const int64_t split_blocks = blocks > 0 ? attn_ceil_div(blocks, splits) : 1;
    plan->split_keys = split_blocks * plan->tile_kv;
    plan->num_splits = blocks > 0 ? attn_ceil_div(blocks, split_blocks) : 1;
}

size_t attn_cpu_backward_workspace(const attn_plan_t *plan)
{
    return attn_cpu_backward_layout(plan).total_bytes;
}

// -------------------------------------------------------------------------------------------------
// dk, dv and partial dq

static float *split_dq(const attn_cpu_backward_run_t *run, int64_t split)
{
    return run->dq + split * run->plan->desc.heads_q * run->layout.all_rows * run->layout.d_pad;
}

// Stores a key block's transposed sums (NULL: zeros) as rows [first, first + keys) of dk or dv.
static void store_keys(const attn_cpu_backward_run_t *run,
                       const attn_cpu_backward_scratch_t *scratch, const attn_sequence_t *seq,
                       int64_t h_kv, const attn_tensor_t *tensor, void *data, int64_t cols,
                       attn_range_t keys, const float *sums_t)
{
    const int64_t panel = run->kernels->panel;
    const int64_t stride = run->layout.q_stride > run->layout.dout_stride ? run->layout.q_stride
                                                                          : run->layout.dout_stride;
    if (!sums_t) {
        memset(scratch->rows, 0, (size_t)(panel * stride) * sizeof(float));
    }
    for (int64_t j = keys.begin; j < keys.end; j += panel) {
        const int64_t count = keys.end - j < panel ? keys.end - j : panel;
        const attn_cpu_rows_t to = attn_cpu_rows_like_k(seq, tensor, data, h_kv, j, count, cols);
        if (sums_t) {
            run->kernels->transpose_out(sums_t + (j - keys.begin) * cols, count, cols,
                                        scratch->rows, stride);
        }
        run->kernels->store(&to, scratch->rows, stride);
    }
}

static void store_key_block(const attn_cpu_backward_run_t *run,
                            const attn_cpu_backward_scratch_t *scratch, const attn_sequence_t *seq,
                            int64_t h_kv, attn_range_t keys, int is_zero)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_backward_args_t *args = run->args;
    if (args->dk) {
        store_keys(run, scratch, seq, h_kv, &desc->dk, args->dk, desc->d_qk, keys,
                   is_zero ? NULL : scratch->dk_t);
    }
    if (args->dv) {
        store_keys(run, scratch, seq, h_kv, &desc->dv, args->dv, desc->d_v, keys,
                   is_zero ? NULL : scratch->dv_t);
    }
}

// All rows of one query head against the key block in the scratch.
static void key_block_head(const attn_cpu_backward_run_t *run,
                           const attn_cpu_backward_scratch_t *scratch,
                           const attn_cpu_key_block_t *block, attn_range_t reach, int64_t h,
                           float *dq)
{
    const attn_backward_args_t *args = run->args;
    const int64_t tile_q = run->plan->tile_q;
    for (int64_t first = reach.begin / tile_q * tile_q; first < reach.end; first += tile_q) {
        const attn_range_t rows = attn_range_make(first, first + tile_q, reach.begin, reach.end);
        attn_cpu_backward_tile_t tile;
        if (!attn_cpu_backward_scores(run, scratch, block, h, rows.begin, rows.end - rows.begin, 0,
                                      &tile)) {
            continue;
        }
        tile.dk_t = args->dk ? scratch->dk_t : NULL;
        tile.dv_t = args->dv ? scratch->dv_t : NULL;
        tile.dq = args->dq ? dq + attn_cpu_backward_row(run, &block->seq, block->b, h, rows.begin) *
                                      run->layout.d_pad
                           : NULL;
        attn_cpu_backward_accumulate(run, scratch, block, h, rows.begin, &tile);
    }
}

static void key_block(const attn_cpu_backward_run_t *run,
                      const attn_cpu_backward_scratch_t *scratch, const attn_sequence_t *seq,
                      int64_t b, int64_t h_kv, int64_t first, float *dq)
{
    const attn_desc_t *desc = &run->plan->desc;
    const int64_t tile_kv = run->plan->tile_kv;
    const attn_range_t keys = attn_range_make(first, first + tile_kv, 0, seq->rows_kv);
    const attn_range_t reach = attn_cpu_backward_reach(seq, keys.begin, keys.end);
    if (reach.begin >= reach.end) {
        store_key_block(run, scratch, seq, h_kv, keys, 1);
        return;
    }
    const attn_cpu_key_block_t block =
        attn_cpu_backward_load_keys(run, scratch, seq, b, h_kv, first, run->layout.is_paired);
    memset(scratch->dk_t, 0, (size_t)(tile_kv * desc->d_qk) * sizeof(float));
    memset(scratch->dv_t, 0, (size_t)(tile_kv * desc->d_v) * sizeof(float));
    const int64_t group = desc->heads_q / desc->heads_kv;
    for (int64_t h = h_kv * group; h < (h_kv + 1) * group; h++) {
        key_block_head(run, scratch, &block, reach, h, dq);
    }
    // Lanes behind the last key in use hold whatever zeros gave: the mask may not have run.
    const int64_t used_end = first + block.keys;
    store_key_block(run, scratch, seq, h_kv, (attn_range_t){first, used_end}, 0);
    store_key_block(run, scratch, seq, h_kv, (attn_range_t){used_end, keys.end}, 1);
}

// One split of the keys of one K/V head; task counts [num_splits][batch][heads_kv]: under a causal
// mask the first splits have the most rows, and they start first.
static void key_task(void *arg, int64_t task, int32_t worker)
{
    const attn_cpu_backward_run_t *run = arg;
    const attn_desc_t *desc = &run->plan->desc;
    const attn_cpu_backward_scratch_t scratch = attn_cpu_backward_scratch_of(run, worker);
    const int64_t h_kv = task % desc->heads_kv;
    const int64_t b = task / desc->heads_kv % desc->batch;
    const int64_t split = task / desc->heads_kv / desc->batch;
    const attn_sequence_t seq = attn_sequence_at(desc, &run->args->in, b);
    const int64_t begin = split * run->plan->split_keys;
    const attn_range_t keys = attn_range_make(begin, begin + run->plan->split_keys, 0, seq.rows_kv);
    const attn_range_t reach = attn_cpu_backward_reach(&seq, keys.begin, keys.end);
    float *dq = split_dq(run, split);
    const int64_t group = desc->heads_q / desc->heads_kv;
    for (int64_t h = h_kv * group; run->args->dq && h < (h_kv + 1) * group; h++) {
        memset(dq + attn_cpu_backward_row(run, &seq, b, h, reach.begin) * run->layout.d_pad, 0,
               (size_t)((reach.end - reach.begin) * run->layout.d_pad) * sizeof(float));
    }
    for (int64_t first = keys.begin; first < keys.end; first += run->plan->tile_kv) {
        key_block(run, &scratch, &seq, b, h_kv, first, dq);
    }
}

// -------------------------------------------------------------------------------------------------
// dq

// sums[m] += the split's dq of row i + m, for the rows that the split reaches.
static void add_split(const attn_cpu_backward_run_t *run, const attn_sequence_t *seq, int64_t b,
                      int64_t h, int64_t split, attn_range_t rows, float *sums)
{
    const int64_t d_pad = run->layout.d_pad;
    const int64_t begin = split * run->plan->split_keys;
    const attn_range_t keys =
        attn_range_make(begin, begin + run->plan->split_keys, 0, seq->rows_kv);
    const attn_range_t reach = attn_cpu_backward_reach(seq, keys.begin, keys.end);
    const attn_range_t both = attn_range_make(rows.begin, rows.end, reach.begin, reach.end);
    const float *part =
        split_dq(run, split) + attn_cpu_backward_row(run, seq, b, h, both.begin) * d_pad;
    float *sum = sums + (both.begin - rows.begin) * d_pad;
    for (int64_t at = 0; at < (both.end - both.begin) * d_pad; at++) {
        sum[at] += part[at];
    }
}

// One block of rows; task counts [batch][heads_q][row_blocks]. Rows that are not in use get zeros.
static void row_task(void *arg, int64_t task, int32_t worker)
{
    const attn_cpu_backward_run_t *run = arg;
    const attn_desc_t *desc = &run->plan->desc;
    const attn_cpu_backward_scratch_t scratch = attn_cpu_backward_scratch_of(run, worker);
    const int64_t h = task / run->layout.row_blocks % desc->heads_q;
    const int64_t b = task / run->layout.row_blocks / desc->heads_q;
    const int64_t i = task % run->layout.row_blocks * run->plan->tile_q;
    const attn_sequence_t seq = attn_sequence_at(desc, &run->args->in, b);
    const attn_range_t rows = attn_range_make(i, i + run->plan->tile_q, 0, seq.rows_q);
    memset(scratch.rows, 0, (size_t)((rows.end - rows.begin) * run->layout.d_pad) * sizeof(float));
    for (int64_t split = 0; split < run->plan->num_splits; split++) {
        add_split(run, &seq, b, h, split, rows, scratch.rows);
    }
    const attn_cpu_rows_t to = attn_cpu_rows_like_q(&seq, &desc->dq, run->args->dq, h, rows.begin,
                                                    rows.end - rows.begin, desc->d_qk);
    run->kernels->store(&to, scratch.rows, run->layout.d_pad);
}

// Rows [begin, end) of a pack, which belong to no sequence.
static void zero_tail(const attn_tensor_t *tensor, void *data, int64_t begin, int64_t end,
                      int64_t heads, int64_t cols)
{
    const int64_t bytes = (int64_t)attn_dtype_bytes(tensor->dtype);
    for (int64_t row = begin; data && row < end; row++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t col = 0; col < cols; col++) {
                const int64_t at =
                    row * tensor->stride_s + h * tensor->stride_h + col * tensor->stride_d;
                memset((unsigned char *)data + at * bytes, 0, (size_t)bytes);
            }
        }
    }
}

static void zero_tails(const attn_desc_t *desc, const attn_backward_args_t *args)
{
    if (desc->varlen_q) {
        const int64_t used = args->in.cu_seqlens_q[desc->batch];
        zero_tail(&desc->dq, args->dq, used, desc->total_q, desc->heads_q, desc->d_qk);
    }
    if (desc->varlen_kv) {
        const int64_t used = args->in.cu_seqlens_kv[desc->batch];
        zero_tail(&desc->dk, args->dk, used, desc->total_kv, desc->heads_kv, desc->d_qk);
        zero_tail(&desc->dv, args->dv, used, desc->total_kv, desc->heads_kv, desc->d_v);
    }
}

// -------------------------------------------------------------------------------------------------

attn_status_t attn_cpu_backward(const attn_plan_t *plan, const attn_backward_args_t *args,
                                void *workspace)
{
    const attn_desc_t *desc = &plan->desc;
    const attn_cpu_backward_layout_t layout = attn_cpu_backward_layout(plan);
    unsigned char *memory = workspace;
    attn_cpu_backward_run_t run = {
        .plan = plan,
        .args = args,
        .kernels = attn_cpu_kernels_of(plan->isa)->backward,
        .layout = layout,
        .delta = (float *)memory,
        .dq = (float *)(memory + layout.delta_bytes),
        .dsink = (double *)(memory + layout.delta_bytes + layout.dq_bytes),
        .scratch = memory + layout.delta_bytes + layout.dq_bytes + layout.dsink_bytes,
    };
    attn_cpu_backward_preprocess(&run);
    if (args->dq || args->dk || args->dv) {
        attn_parallel_for(plan->context, plan->num_splits * desc->batch * desc->heads_kv, key_task,
                          &run);
    }
    if (args->dq) {
        attn_parallel_for(plan->context, desc->batch * desc->heads_q * layout.row_blocks, row_task,
                          &run);
    }
    if (desc->dbias.present && args->dbias) {
        attn_cpu_bias_gradient(&run);
    }
    zero_tails(desc, args);
    return ATTN_OK;
}
