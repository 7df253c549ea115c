// The gradient of a sink: over the rows of all sequences, -exp(sink - lse) delta. A CTA sums up a
// head, its threads side by side, always in the same order.
#ifndef ATTN_SM90_BACKWARD_SINK_H
#define ATTN_SM90_BACKWARD_SINK_H

#include "../../shared/exp2.h"
#include "../ptx/barrier.h"
#include "sm90_backward_block.h"

#include "../common/careful_dot.h"

// Of one row. What preprocess did not trust is NaN in its statistics, and taken from the operands.
DEVICE float sink_gradient(const kernel_params_t *p, const struct query_block *block, int32_t row,
                           float sink)
{
    const float *stats = block_stats(p, block->index) + row % BLOCK_M;
    float lse = ld_global_f32(stats);
    float delta = ld_global_f32(stats + BLOCK_M);
    if (lse == lse) {
        return -ex2_approx(sink * ATTN_LOG2_E - lse) * delta;
    }
    lse = ld_global_f32(p->lse + lse_index(p, block, row));
    delta = p->dlse ? -ld_global_f32(p->dlse + lse_index(p, block, row)) : 0.0f;
    NO_UNROLL
    for (int32_t d = 0; d < p->d_v; d++) {
        delta = fma_f32(load_element(operand_row(&p->do_, block, row) + d),
                        load_element(operand_row(&p->o, block, row) + d), delta);
    }
    return -ex2_approx((sink - lse) * ATTN_LOG2_E) * delta;
}

// scratch: shared memory, a word for each warp.
DEVICE void sum_dsink(const kernel_params_t *p, int32_t h, uint32_t scratch, uint32_t threads)
{
    float sink = ld_global_f32(p->sink + h);
    float sum = 0.0f;
    struct query_block block;
    block.h = h;
    NO_UNROLL
    for (block.b = 0; block.b < p->lengths.batch; block.b++) {
        block.sequence = sequence_at(&p->lengths, block.b);
        int64_t index0 = block_index(p, h, first_block_of(p, block.b, block.sequence.q_start));
        NO_UNROLL
        for (int32_t row = (int32_t)thread_idx(); row < block.sequence.len_q;
             row += (int32_t)threads) {
            block.index = index0 + row / BLOCK_M;
            sum += sink_gradient(p, &block, row, sink);
        }
    }
    sum = warp_sum(sum);
    cta_sync(); // nobody needs the memory for something else
    if (is_warp_leader()) {
        st_shared_f32(scratch + thread_idx() / 32 * 4, sum);
    }
    cta_sync();
    if (thread_idx() == 0) {
        float total = 0.0f;
        for (uint32_t warp = 0; warp < threads / 32; warp++) {
            total += ld_shared_f32(scratch + warp * 4);
        }
        st_global_f32(p->dsink + h, total);
    }
}

#endif
