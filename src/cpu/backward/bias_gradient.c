// dbias[b,h,i,j] = dS[b,h,i,j], summed over the dimensions in which the bias was broadcast (stride
// 0). Each task owns a set of stored elements and adds everything that belongs to them serially, in
// one order: weights are recomputed here, which costs two more matrix products per tile, but needs
// neither atomics nor memory that grows with s_q * s_kv.
#include "bias_gradient.h"

#include <string.h>

typedef struct bias_task {
    const attn_cpu_backward_run_t *run;
    attn_cpu_backward_scratch_t scratch;
    attn_range_t batches; // whose elements the task adds
    attn_range_t heads;
    attn_range_t blocks; // of tile_kv keys
    attn_cpu_key_block_t loaded;
    int32_t is_loaded;
} bias_task_t;

static int64_t stored_size(int64_t stride, int64_t size)
{
    return stride == 0 && size > 0 ? 1 : size;
}

// Indices of a dimension that share stored index n.
static attn_range_t sharing(int64_t stride, int64_t n, int64_t size)
{
    return stride == 0 ? (attn_range_t){0, size} : (attn_range_t){n, n + 1};
}

static int64_t key_blocks(const attn_cpu_backward_run_t *run)
{
    return (run->plan->desc.s_kv + run->plan->tile_kv - 1) / run->plan->tile_kv;
}

// Makes the key block of (b, h, block) the one in the scratch. Returns 0 if no row of [i, i + rows)
// sees any of it.
static int load_block(bias_task_t *task, const attn_sequence_t *seq, int64_t b, int64_t h,
                      int64_t block, attn_range_t rows)
{
    const attn_desc_t *desc = &task->run->plan->desc;
    const int64_t first = block * task->run->plan->tile_kv;
    const int64_t h_kv = h / (desc->heads_q / desc->heads_kv);
    const attn_range_t reach =
        attn_cpu_backward_reach(seq, first, first + task->run->plan->tile_kv);
    if (rows.begin >= rows.end || rows.begin >= reach.end || rows.end <= reach.begin) {
        return 0;
    }
    const attn_cpu_key_block_t *loaded = &task->loaded;
    if (!task->is_loaded || loaded->b != b || loaded->h_kv != h_kv || loaded->first != first) {
        task->loaded =
            attn_cpu_backward_load_keys(task->run, &task->scratch, seq, b, h_kv, first, 0);
        task->is_loaded = 1;
    }
    return 1;
}

// sums[m][n] += ds, where the tile has one.
static void add_tile(const attn_cpu_backward_tile_t *tile, float *sums)
{
    for (int64_t m = 0; m < tile->rows; m++) {
        const attn_range_t keys = tile->strip_keys[m / ATTN_CPU_BACKWARD_STRIP];
        const int64_t row = m * tile->tile_stride;
        for (int64_t n = keys.begin; n < keys.end; n++) {
            sums[row + n] += tile->ds[row + n];
        }
    }
}

// Adds everything that falls on rows [i, i + tile_q) and the key block.
static void add_block(bias_task_t *task, int64_t i, int64_t block)
{
    const attn_cpu_backward_run_t *run = task->run;
    for (int64_t b = task->batches.begin; b < task->batches.end; b++) {
        const attn_sequence_t seq = attn_sequence_at(&run->plan->desc, &run->args->in, b);
        const attn_range_t rows = attn_range_make(i, i + run->plan->tile_q, 0, seq.mask.len_q);
        for (int64_t h = task->heads.begin; h < task->heads.end; h++) {
            attn_cpu_backward_tile_t tile;
            if (load_block(task, &seq, b, h, block, rows) &&
                attn_cpu_backward_scores(run, &task->scratch, &task->loaded, h, rows.begin,
                                         rows.end - rows.begin, 1, &tile)) {
                add_tile(&tile, task->scratch.bias);
            }
        }
    }
}

// Adds the rows of the sums into the first one, or the columns of each row into its first.
static void fold_rows(float *sums, int64_t stride, int64_t rows, int64_t cols)
{
    for (int64_t n = 0; n < cols; n++) {
        double sum = 0.0;
        for (int64_t m = 0; m < rows; m++) {
            sum += (double)sums[m * stride + n];
        }
        sums[n] = (float)sum;
    }
}

static void fold_columns(float *sums, int64_t stride, int64_t rows, int64_t cols)
{
    for (int64_t m = 0; m < rows; m++) {
        double sum = 0.0;
        for (int64_t n = 0; n < cols; n++) {
            sum += (double)sums[m * stride + n];
        }
        sums[m * stride] = (float)sum;
    }
}

// Stores the sums of rows [i, i + tile_q) and the task's keys at their stored elements.
static void store_sums(const bias_task_t *task, int64_t i)
{
    const attn_cpu_backward_run_t *run = task->run;
    const attn_desc_t *desc = &run->plan->desc;
    const attn_mask_tensor_t *dbias = &desc->dbias;
    const int64_t stride = run->layout.tile_stride;
    const int64_t j = task->blocks.begin * run->plan->tile_kv;
    attn_range_t rows = attn_range_make(i, i + run->plan->tile_q, 0, desc->s_q);
    attn_range_t keys = attn_range_make(j, j + run->plan->tile_kv, 0, desc->s_kv);
    float *sums = task->scratch.bias;
    if (dbias->stride_k == 0) {
        fold_columns(sums, stride, run->plan->tile_q, run->plan->tile_kv);
        keys = (attn_range_t){0, 1};
    }
    if (dbias->stride_q == 0) {
        fold_rows(sums, stride, run->plan->tile_q, keys.end - keys.begin);
        rows = (attn_range_t){0, 1};
    }
    const attn_tensor_t tensor = {
        .dtype = dbias->dtype, .stride_s = dbias->stride_q, .stride_d = dbias->stride_k};
    const int64_t element = task->batches.begin * dbias->stride_b +
                            task->heads.begin * dbias->stride_h + rows.begin * dbias->stride_q +
                            keys.begin * dbias->stride_k;
    const attn_cpu_rows_t to = {
        .tensor = &tensor,
        .data =
            (unsigned char *)run->args->dbias + element * (int64_t)attn_dtype_bytes(dbias->dtype),
        .rows = rows.end - rows.begin,
        .cols = keys.end - keys.begin,
    };
    run->kernels->store(&to, sums, stride);
}

// task counts [stored batches][stored heads][key blocks, or 1 if keys are summed].
static void bias_gradient_task(void *arg, int64_t index, int32_t worker)
{
    const attn_cpu_backward_run_t *run = arg;
    const attn_desc_t *desc = &run->plan->desc;
    const attn_mask_tensor_t *dbias = &desc->dbias;
    const int64_t blocks = stored_size(dbias->stride_k, key_blocks(run));
    const int64_t heads = stored_size(dbias->stride_h, desc->heads_q);
    bias_task_t task = {
        .run = run,
        .scratch = attn_cpu_backward_scratch_of(run, worker),
        .batches = sharing(dbias->stride_b, index / blocks / heads, desc->batch),
        .heads = sharing(dbias->stride_h, index / blocks % heads, desc->heads_q),
        .blocks = sharing(dbias->stride_k, index % blocks, key_blocks(run)),
    };
    const size_t sums_bytes = (size_t)(run->plan->tile_q * run->layout.tile_stride) * sizeof(float);
    for (int64_t i = 0; i < desc->s_q; i += run->plan->tile_q) {
        if (i == 0 || dbias->stride_q != 0) {
            memset(task.scratch.bias, 0, sums_bytes);
        }
        for (int64_t block = task.blocks.begin; block < task.blocks.end; block++) {
            add_block(&task, i, block);
        }
        if (dbias->stride_q != 0 || i + run->plan->tile_q >= desc->s_q) {
            store_sums(&task, i);
        }
    }
}

void attn_cpu_bias_gradient(const attn_cpu_backward_run_t *run)
{
    const attn_desc_t *desc = &run->plan->desc;
    const attn_mask_tensor_t *dbias = &desc->dbias;
    const int64_t tasks = stored_size(dbias->stride_b, desc->batch) *
                          stored_size(dbias->stride_h, desc->heads_q) *
                          stored_size(dbias->stride_k, key_blocks(run));
    attn_parallel_for(run->plan->context, tasks, bias_gradient_task, (void *)run);
}
