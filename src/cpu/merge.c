// Joins partial results over disjoint sets of keys:
//
//   lse = m + log(sum_p exp(lse_p - m))      m = max_p lse_p
//   o   = sum_p exp(lse_p - m) / sum * o_p
//
// Every exponent is <= 0, so nothing overflows, and a part that is alone counts with weight exactly
// 1. Weights and sums are fp64: the error does not grow with the number of parts. A part with an
// infinite lse is empty: its o is not looked at, since it may hold anything. The rows are
// independent; which thread computes one changes no bit.
#include "merge.h"

#include <math.h>

#include "../core/context.h"
#include "../core/element.h"

#define CHUNK_DIMS 128          // dims that are summed at once, on the stack
#define TASK_ELEMENTS (1 << 15) // elements read per task: tens of microseconds

typedef struct merge_job {
    const attn_merge_desc_t *desc;
    const float *o_part;
    const float *lse_part;
    void *o;
    float *lse;
    int64_t rows;
    int64_t rows_per_task;
} merge_job_t;

typedef struct merge_row {
    const float *lse_part; // stride lse_part_stride_p
    const float *o_part;   // stride o_part_stride_p
    double max;
    double sum; // of exp(lse_p - max); 0 without a part that counts
} merge_row_t;

// NaN counts: it must come out again.
static int is_counted(float lse)
{
    return !isinf(lse);
}

static void reduce_lse(const attn_merge_desc_t *desc, merge_row_t *row)
{
    row->max = -INFINITY;
    row->sum = 0.0;
    for (int64_t p = 0; p < desc->parts; p++) {
        const float lse = row->lse_part[p * desc->lse_part_stride_p];
        if (is_counted(lse) && (isnan(lse) || (double)lse > row->max)) {
            row->max = (double)lse;
        }
    }
    for (int64_t p = 0; p < desc->parts; p++) {
        const float lse = row->lse_part[p * desc->lse_part_stride_p];
        if (is_counted(lse)) {
            row->sum += exp((double)lse - row->max);
        }
    }
}

// Dims [d, d + count) of the row. All parts are read before the first element is written: o may be
// o_part.
static void merge_dims(const attn_merge_desc_t *desc, const merge_row_t *row, int64_t d,
                       int64_t count, double *sum_out)
{
    for (int64_t i = 0; i < count; i++) {
        sum_out[i] = 0.0;
    }
    for (int64_t p = 0; p < desc->parts; p++) {
        const float lse = row->lse_part[p * desc->lse_part_stride_p];
        if (!is_counted(lse)) {
            continue;
        }
        const double weight = exp((double)lse - row->max) / row->sum;
        const float *part = row->o_part + p * desc->o_part_stride_p + d;
        for (int64_t i = 0; i < count; i++) {
            sum_out[i] += weight * (double)part[i];
        }
    }
}

// Rows are numbered with the heads innermost, as they lie in memory.
static void merge_one(const merge_job_t *job, int64_t index)
{
    const attn_merge_desc_t *desc = job->desc;
    const int64_t h = index % desc->heads_q;
    const int64_t s = index / desc->heads_q % desc->s_q;
    const int64_t b = index / desc->heads_q / desc->s_q;
    merge_row_t row = {0};
    if (desc->parts > 0) {
        row.lse_part = job->lse_part + b * desc->lse_part_stride_b + h * desc->lse_part_stride_h +
                       s * desc->lse_part_stride_s;
        row.o_part = job->o_part + b * desc->o_part_stride_b + s * desc->o_part_stride_s +
                     h * desc->o_part_stride_h;
    }
    reduce_lse(desc, &row);
    const int64_t o_row = b * desc->o.stride_b + s * desc->o.stride_s + h * desc->o.stride_h;
    double sum[CHUNK_DIMS];
    for (int64_t d = 0; d < desc->d_v; d += CHUNK_DIMS) {
        const int64_t count = desc->d_v - d < CHUNK_DIMS ? desc->d_v - d : CHUNK_DIMS;
        merge_dims(desc, &row, d, count, sum);
        for (int64_t i = 0; i < count; i++) {
            attn_store_f64(desc->o.dtype, job->o, o_row + (d + i) * desc->o.stride_d, sum[i]);
        }
    }
    if (job->lse != NULL) {
        job->lse[b * desc->lse_stride_b + h * desc->lse_stride_h + s * desc->lse_stride_s] =
            (float)(row.max + log(row.sum));
    }
}

static void merge_task(void *arg, int64_t task, int32_t worker)
{
    (void)worker;
    const merge_job_t *job = arg;
    const int64_t begin = task * job->rows_per_task;
    const int64_t rest = job->rows - begin;
    const int64_t end = begin + (rest < job->rows_per_task ? rest : job->rows_per_task);
    for (int64_t index = begin; index < end; index++) {
        merge_one(job, index);
    }
}

attn_status_t attn_cpu_merge(const attn_context_t *context, const attn_merge_desc_t *desc,
                             const float *o_part, const float *lse_part, void *o, float *lse,
                             void *stream)
{
    (void)stream;
    const int64_t row_elements = (desc->parts + 1) * desc->d_v;
    merge_job_t job = {
        .desc = desc,
        .o_part = o_part,
        .lse_part = lse_part,
        .o = o,
        .lse = lse,
        .rows = desc->batch * desc->s_q * desc->heads_q,
        .rows_per_task = row_elements < TASK_ELEMENTS ? TASK_ELEMENTS / row_elements : 1,
    };
    const int64_t tasks = job.rows / job.rows_per_task + (job.rows % job.rows_per_task != 0);
    attn_parallel_for(context, tasks, merge_task, &job);
    return ATTN_OK;
}
