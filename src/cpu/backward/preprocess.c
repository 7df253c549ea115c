// delta[i] = rowsum(do[i] * o[i]) - dlse[i] is what softmax's normalisation takes from every
// weight's gradient of row i (FlashAttention-2, algorithm 2, line 4; the lse's own gradient joins
// it there). A sink is one more weight of the row with the constant value 0, so its gradient is
// exp(sink - lse) * (0 - delta), summed over all rows of its head.
#include "preprocess.h"

#include <math.h>

static double dsink_of_rows(float sink, const float *lse, int64_t lse_stride, const float *delta,
                            int64_t rows)
{
    double sum = 0.0;
    for (int64_t m = 0; m < rows; m++) {
        const double row_lse = (double)lse[m * lse_stride];
        if (row_lse != -INFINITY) {
            sum -= exp((double)sink - row_lse) * (double)delta[m];
        }
    }
    return sum;
}

// One block of rows; task counts [batch][heads_q][row_blocks].
static void preprocess_task(void *arg, int64_t task, int32_t worker)
{
    const attn_cpu_backward_run_t *run = arg;
    const attn_desc_t *desc = &run->plan->desc;
    const attn_forward_args_t *in = &run->args->in;
    const attn_cpu_backward_scratch_t scratch = attn_cpu_backward_scratch_of(run, worker);
    const int64_t h = task / run->layout.row_blocks % desc->heads_q;
    const int64_t b = task / run->layout.row_blocks / desc->heads_q;
    const int64_t i = task % run->layout.row_blocks * run->plan->tile_q;
    const attn_sequence_t seq = attn_sequence_at(desc, in, b);
    const attn_range_t used = attn_range_make(i, i + run->plan->tile_q, 0, seq.mask.len_q);
    const int64_t rows = used.end - used.begin;
    const attn_cpu_rows_t o =
        attn_cpu_rows_like_q(&seq, &desc->o, in->o, h, used.begin, rows, desc->d_v);
    const attn_cpu_rows_t dout =
        attn_cpu_rows_like_q(&seq, &desc->do_, run->args->do_, h, used.begin, rows, desc->d_v);
    run->kernels->load(&o, scratch.rows, run->layout.dout_stride);
    run->kernels->load(&dout, scratch.dout, run->layout.dout_stride);
    float *delta = run->delta + attn_cpu_backward_row(run, &seq, b, h, used.begin);
    run->kernels->row_dots(scratch.dout, scratch.rows, run->layout.dout_stride, rows, desc->d_v,
                           delta);
    const int64_t lse_at = seq.q_batch * desc->lse_stride_b + h * desc->lse_stride_h +
                           (seq.q_row + used.begin) * desc->lse_stride_s;
    for (int64_t m = 0; m < rows; m++) {
        const int64_t at = lse_at + m * desc->lse_stride_s;
        delta[m] = in->lse[at] == -INFINITY
                       ? 0.0f
                       : delta[m] - (desc->has_dlse ? run->args->dlse[at] : 0.0f);
    }
    if (desc->wants_dsink) {
        run->dsink[task] =
            dsink_of_rows(in->sink[h], in->lse + lse_at, desc->lse_stride_s, delta, rows);
    }
}

// The blocks' parts, summed in one order whatever the threads did.
static void sum_dsink(const attn_cpu_backward_run_t *run)
{
    const attn_desc_t *desc = &run->plan->desc;
    for (int64_t h = 0; h < desc->heads_q; h++) {
        double sum = 0.0;
        for (int64_t b = 0; b < desc->batch; b++) {
            for (int64_t block = 0; block < run->layout.row_blocks; block++) {
                sum += run->dsink[(b * desc->heads_q + h) * run->layout.row_blocks + block];
            }
        }
        run->args->dsink[h] = (float)sum;
    }
}

void attn_cpu_backward_preprocess(const attn_cpu_backward_run_t *run)
{
    const attn_desc_t *desc = &run->plan->desc;
    attn_parallel_for(run->plan->context, desc->batch * desc->heads_q * run->layout.row_blocks,
                      preprocess_task, (void *)run);
    if (desc->wants_dsink) {
        sum_dsink(run);
    }
}
