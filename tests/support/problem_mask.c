// Where a test problem's sequences lie and which keys a row sees, from the words of attn.h: a third
// statement, beside the library's intervals and its reference backend.
#include "test_problem.h"

#include <math.h>

#include "shared/philox.h"

static const int32_t *list(const guard_buffer_t *buffer)
{
    return (const int32_t *)(const void *)buffer->data;
}

problem_sequence_t problem_sequence(const problem_t *p, int64_t b)
{
    const attn_desc_t *desc = &p->full;
    problem_sequence_t seq = {.q_b = b, .kv_b = b, .rows_q = desc->s_q, .rows_kv = desc->s_kv};
    if (desc->varlen_q) {
        const int32_t *cu = list(&p->cu_seqlens_q);
        seq.q_b = 0;
        seq.q_row = cu[b];
        seq.rows_q = cu[b + 1] - cu[b];
    }
    if (desc->varlen_kv) {
        const int32_t *cu = list(&p->cu_seqlens_kv);
        seq.kv_b = 0;
        seq.kv_row = cu[b];
        seq.rows_kv = cu[b + 1] - cu[b];
    } else if (desc->has_kv_batch_idx) {
        seq.kv_b = list(&p->kv_batch_idx)[b];
    }
    seq.len_q = desc->has_seqused_q ? list(&p->seqused_q)[b] : seq.rows_q;
    seq.len_kv = desc->has_seqused_kv ? list(&p->seqused_kv)[b] : seq.rows_kv;
    seq.leftpad = desc->has_leftpad_kv ? list(&p->leftpad_kv)[b] : 0;
    seq.offset = desc->align == ATTN_ALIGN_TOP_LEFT ? 0 : seq.len_kv - seq.len_q;
    return seq;
}

void problem_locate_key(const problem_t *p, int64_t b, int64_t j, int64_t *kv_b_out,
                        int64_t *kv_s_out)
{
    const attn_desc_t *desc = &p->full;
    const problem_sequence_t seq = problem_sequence(p, b);
    if (desc->paged_kv) {
        *kv_b_out = list(&p->page_table)[b * desc->page_table_stride_b + j / desc->page_size];
        *kv_s_out = j % desc->page_size;
        return;
    }
    *kv_b_out = seq.kv_b;
    *kv_s_out = seq.kv_row + j;
}

static bool window_shows(const problem_t *p, const problem_sequence_t *seq, int64_t i, int64_t j)
{
    const attn_desc_t *desc = &p->full;
    const int64_t own = i + seq->offset;
    if (desc->window_left >= 0 && j < own && own - j > desc->window_left) {
        return false;
    }
    if (desc->window_right >= 0 && j > own && j - own > desc->window_right) {
        return false;
    }
    return true;
}

static bool blocks_show(const problem_t *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const attn_desc_t *desc = &p->full;
    const int64_t row = b * desc->block_stride_b + h * desc->block_stride_h + i / desc->block_q;
    for (int64_t n = 0; n < list(&p->block_count)[row]; n++) {
        if (list(&p->block_index)[row * desc->blocks_per_row + n] == j / desc->block_kv) {
            return true;
        }
    }
    return false;
}

bool problem_visible(const problem_t *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const attn_desc_t *desc = &p->full;
    const problem_sequence_t seq = problem_sequence(p, b);
    if (i >= seq.len_q || j < seq.leftpad || j >= seq.len_kv || !window_shows(p, &seq, i, j)) {
        return false;
    }
    if (desc->mask.present && p->mask.buffer.data[operand_index(&p->mask, b, h, i, j)] == 0) {
        return false;
    }
    if (desc->bias.present && operand_get(&p->bias, b, h, i, j) == -INFINITY) {
        return false;
    }
    return !desc->block_sparse || blocks_show(p, b, h, i, j);
}

double problem_dropout(const problem_t *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const uint32_t threshold = attn_dropout_threshold(p->full.dropout_p);
    if (threshold == 0) {
        return 1.0;
    }
    const uint64_t *state = (const uint64_t *)(const void *)p->dropout_state.data;
    const int64_t bh = b * p->full.heads_q + h;
    return attn_dropout_keep(state[0], state[1], bh, i, j, threshold)
               ? (double)attn_dropout_scale(threshold)
               : 0.0;
}

bool problem_row_sees_any(const problem_t *p, int64_t b, int64_t h, int64_t i)
{
    for (int64_t j = 0; j < problem_sequence(p, b).len_kv; j++) {
        if (problem_visible(p, b, h, i, j)) {
            return true;
        }
    }
    return false;
}

bool problem_key_is_seen(const problem_t *p, int64_t b, int64_t h_kv, int64_t j)
{
    const int64_t group = p->full.heads_q / p->full.heads_kv;
    for (int64_t h = h_kv * group; h < (h_kv + 1) * group; h++) {
        for (int64_t i = 0; i < problem_sequence(p, b).len_q; i++) {
            if (problem_visible(p, b, h, i, j)) {
                return true;
            }
        }
    }
    return false;
}
