// See backward_layout.h. Sizes are checked here, once, when a plan is made; a run only adds
// offsets.
#include "backward_layout.h"

#include "../../core/checked.h"
#include "../../core/element.h"
#include "../kernels.h"
#include "../score_tile.h"

// -------------------------------------------------------------------------------------------------
// Workspace

// Product of up to four counts, rounded up to a cache line; SIZE_MAX if it does not fit.
static size_t bytes_of(size_t element, int64_t n0, int64_t n1, int64_t n2, int64_t n3)
{
    const int64_t counts[4] = {n0, n1, n2, n3};
    size_t bytes = element;
    for (int i = 0; i < 4; i++) {
        if (counts[i] != 0 && bytes > (SIZE_MAX / 2) / (size_t)counts[i]) {
            return SIZE_MAX;
        }
        bytes *= (size_t)counts[i];
    }
    return (bytes + 63) / 64 * 64;
}

static size_t add_bytes(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

// Hands out consecutive pieces; with memory NULL it only counts.
typedef struct carver {
    unsigned char *memory;
    size_t used;
} carver_t;

static void *carve(carver_t *carver, size_t bytes)
{
    unsigned char *piece = carver->memory ? carver->memory + carver->used : NULL;
    carver->used = add_bytes(carver->used, bytes);
    return piece;
}

static void carve_pairs(const attn_plan_t *plan, const attn_cpu_backward_layout_t *layout,
                        carver_t *carver, attn_cpu_backward_scratch_t *scratch)
{
    const attn_desc_t *desc = &plan->desc;
    const int64_t m = plan->tile_q;
    const int64_t n = plan->tile_kv;
    attn_cpu_backward_pairs_t *pairs = &scratch->pairs;
    // Rows of pairs along d are half as long; a cache line more for the same reason.
    pairs->q2_stride = layout->d_pad / 2 + 16;
    pairs->dout2_stride = attn_round_up(desc->d_v, ATTN_CPU_BACKWARD_PANEL_MAX) / 2 + 16;
    pairs->k_t2 = carve(carver, bytes_of(sizeof(uint32_t), n, (desc->d_qk + 1) / 2, 1, 1));
    pairs->v_t2 = carve(carver, bytes_of(sizeof(uint32_t), n, (desc->d_v + 1) / 2, 1, 1));
    pairs->k_rows2 = carve(carver, bytes_of(sizeof(uint32_t), n / 2, layout->d_pad, 1, 1));
    pairs->q2 = carve(carver, bytes_of(sizeof(uint32_t), m, pairs->q2_stride, 1, 1));
    pairs->dout2 = carve(carver, bytes_of(sizeof(uint32_t), m, pairs->dout2_stride, 1, 1));
    pairs->q_t2 = carve(carver, bytes_of(sizeof(uint32_t), m / 2, layout->q_stride, 1, 1));
    pairs->dout_t2 = carve(carver, bytes_of(sizeof(uint32_t), m / 2, layout->dout_stride, 1, 1));
    pairs->p2 = carve(carver, bytes_of(sizeof(uint32_t), m / 2, layout->tile_stride, 1, 1));
    pairs->ds2 = carve(carver, bytes_of(sizeof(uint32_t), m / 2, layout->tile_stride, 1, 1));
    pairs->ds_rows2 = carve(carver, bytes_of(sizeof(uint32_t), m, layout->tile_stride / 2, 1, 1));
    scratch->rows2 =
        carve(carver, bytes_of(sizeof(uint32_t), ATTN_CPU_BACKWARD_PANEL_MAX,
                               attn_larger(pairs->q2_stride, pairs->dout2_stride), 1, 1));
    scratch->paired = carve(carver, bytes_of(sizeof(uint32_t), ATTN_CPU_BACKWARD_PANEL_MAX / 2,
                                             layout->q_stride, 1, 1));
}

static attn_cpu_backward_scratch_t
carve_scratch(const attn_plan_t *plan, const attn_cpu_backward_layout_t *layout, carver_t *carver)
{
    const attn_desc_t *desc = &plan->desc;
    const int64_t m = plan->tile_q;
    const int64_t n = plan->tile_kv;
    const size_t tile = bytes_of(sizeof(float), m, layout->tile_stride, 1, 1);
    const size_t column = bytes_of(sizeof(float), m, 1, 1, 1);
    attn_cpu_backward_scratch_t scratch = {0};
    scratch.k_t = carve(carver, bytes_of(sizeof(float), n, desc->d_qk, 1, 1));
    scratch.v_t = carve(carver, bytes_of(sizeof(float), n, desc->d_v, 1, 1));
    scratch.k_rows = carve(carver, bytes_of(sizeof(float), n, layout->d_pad, 1, 1));
    scratch.dk_t = carve(carver, bytes_of(sizeof(float), n, desc->d_qk, 1, 1));
    scratch.dv_t = carve(carver, bytes_of(sizeof(float), n, desc->d_v, 1, 1));
    scratch.q = carve(carver, bytes_of(sizeof(float), m, layout->q_stride, 1, 1));
    scratch.dout = carve(carver, bytes_of(sizeof(float), m, layout->dout_stride, 1, 1));
    scratch.rows =
        carve(carver, bytes_of(sizeof(float), attn_larger(m, ATTN_CPU_BACKWARD_PANEL_MAX),
                               attn_larger(layout->q_stride, layout->dout_stride), 1, 1));
    scratch.p = carve(carver, tile);
    scratch.ds = carve(carver, tile);
    scratch.add = carve(carver, attn_cpu_score_has_add(desc) ? tile : 0);
    scratch.keep = carve(carver, attn_cpu_score_has_keep(desc) ? tile : 0);
    scratch.bias = carve(carver, desc->dbias.present ? tile : 0);
    scratch.lse = carve(carver, column);
    scratch.delta = carve(carver, column);
    scratch.row_begin = carve(carver, column);
    scratch.row_end = carve(carver, column);
    scratch.strip_keys = carve(carver, bytes_of(sizeof(attn_range_t), m, 1, 1, 1));
    scratch.bad_key = carve(carver, bytes_of(1, n, 1, 1, 1));
    if (layout->is_paired) {
        carve_pairs(plan, layout, carver, &scratch);
    }
    return scratch;
}

int attn_cpu_backward_is_paired(const attn_plan_t *plan)
{
    const attn_desc_t *desc = &plan->desc;
    return attn_cpu_kernels_of(plan->isa)->backward->scores_pairs && desc->q.dtype == ATTN_BF16 &&
           desc->k.dtype == ATTN_BF16 && desc->v.dtype == ATTN_BF16 && desc->do_.dtype == ATTN_BF16;
}

attn_cpu_backward_layout_t attn_cpu_backward_layout(const attn_plan_t *plan)
{
    const attn_desc_t *desc = &plan->desc;
    attn_cpu_backward_layout_t layout = {0};
    // One more cache line per row, so that rows of 2^n bytes do not all fall on one cache set.
    layout.d_pad = attn_round_up(desc->d_qk, ATTN_CPU_BACKWARD_PANEL_MAX);
    layout.q_stride = layout.d_pad + 16;
    layout.dout_stride = attn_round_up(desc->d_v, ATTN_CPU_BACKWARD_PANEL_MAX) + 16;
    layout.tile_stride = plan->tile_kv + 16;
    layout.is_paired = attn_cpu_backward_is_paired(plan);
    layout.row_blocks = (desc->s_q + plan->tile_q - 1) / plan->tile_q;
    const size_t packed_rows = bytes_of(1, desc->batch, desc->s_q, 1, 1);
    if (!desc->varlen_q && packed_rows >= INT64_MAX) {
        layout.total_bytes = SIZE_MAX;
        return layout;
    }
    layout.all_rows = desc->varlen_q ? desc->total_q : desc->batch * desc->s_q;
    layout.delta_bytes = bytes_of(sizeof(float), desc->heads_q, layout.all_rows, 1, 1);
    layout.dq_bytes =
        bytes_of(sizeof(float), plan->num_splits, desc->heads_q, layout.all_rows, layout.d_pad);
    layout.dsink_bytes = desc->wants_dsink ? bytes_of(sizeof(double), desc->batch, desc->heads_q,
                                                      layout.row_blocks, 1)
                                           : 0;
    carver_t carver = {0};
    carve_scratch(plan, &layout, &carver);
    layout.scratch_bytes = carver.used;
    const size_t all_scratch =
        layout.scratch_bytes == SIZE_MAX
            ? SIZE_MAX
            : bytes_of(layout.scratch_bytes, plan->context->workers, 1, 1, 1);
    layout.total_bytes = add_bytes(add_bytes(layout.delta_bytes, layout.dq_bytes),
                                   add_bytes(layout.dsink_bytes, all_scratch));
    return layout;
}

attn_cpu_backward_scratch_t attn_cpu_backward_scratch_of(const attn_cpu_backward_run_t *run,
                                                         int32_t worker)
{
    carver_t carver = {.memory = run->scratch + (size_t)worker * run->layout.scratch_bytes};
    return carve_scratch(run->plan, &run->layout, &carver);
}

// -------------------------------------------------------------------------------------------------
// Operands

int64_t attn_cpu_backward_row(const attn_cpu_backward_run_t *run, const attn_sequence_t *seq,
                              int64_t b, int64_t h, int64_t i)
{
    const attn_desc_t *desc = &run->plan->desc;
    return h * run->layout.all_rows + (desc->varlen_q ? seq->q_row : b * desc->s_q) + i;
}

static attn_cpu_rows_t rows_at(const attn_tensor_t *tensor, const void *data, int64_t element,
                               int64_t rows, int64_t cols)
{
    return (attn_cpu_rows_t){
        .tensor = tensor,
        .data = (unsigned char *)data + element * attn_element_bytes(tensor->dtype),
        .rows = rows,
        .cols = cols,
    };
}

attn_cpu_rows_t attn_cpu_rows_like_q(const attn_sequence_t *seq, const attn_tensor_t *tensor,
                                     const void *data, int64_t h, int64_t i, int64_t rows,
                                     int64_t cols)
{
    const int64_t element = seq->q_batch * tensor->stride_b + (seq->q_row + i) * tensor->stride_s +
                            h * tensor->stride_h;
    return rows_at(tensor, data, element, rows, cols);
}

attn_cpu_rows_t attn_cpu_rows_like_k(const attn_sequence_t *seq, const attn_tensor_t *tensor,
                                     const void *data, int64_t h_kv, int64_t j, int64_t keys,
                                     int64_t cols)
{
    const int64_t element = seq->kv_batch * tensor->stride_b +
                            (seq->kv_row + j) * tensor->stride_s + h_kv * tensor->stride_h;
    return rows_at(tensor, data, element, keys, cols);
}

attn_range_t attn_cpu_backward_reach(const attn_sequence_t *seq, int64_t begin, int64_t end)
{
    const attn_range_t used = attn_range_make(begin, end, seq->mask.leftpad, seq->mask.len_kv);
    if (used.begin >= used.end) {
        return (attn_range_t){0, 0};
    }
    return attn_tile_q_range(&seq->mask, used.begin, used.end);
}
