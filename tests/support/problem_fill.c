// The data of a test problem: lengths, tables and lists within what the descriptor allows, then the
// values. Elements that nothing sees hold NaN (or large numbers), as does every hole.
#include "test_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test_number.h"

// ---------------------------------------------------------------------------------------------
// Lists

static guard_buffer_t list_create(int64_t count)
{
    return guard_buffer_create((size_t)count * sizeof(int32_t), 0);
}

static int32_t *list_of(guard_buffer_t *buffer)
{
    return (int32_t *)(void *)buffer->data;
}

static guard_buffer_t list_copy(const int32_t *values, int64_t count)
{
    guard_buffer_t buffer = list_create(count);
    if (count > 0) {
        memcpy(buffer.data, values, (size_t)count * sizeof(int32_t));
    }
    return buffer;
}

// Often a bound, or 0: that is where mistakes are.
static int64_t draw_length(test_rng_t *rng, int64_t most)
{
    const int64_t kind = test_rng_range(rng, 0, 9);
    return kind < 2 ? most : kind < 4 ? 0 : test_rng_range(rng, 0, most);
}

static guard_buffer_t draw_cu_seqlens(test_rng_t *rng, int64_t batch, int64_t most, int64_t total)
{
    guard_buffer_t buffer = list_create(batch + 1);
    int32_t *cu = list_of(&buffer);
    cu[0] = 0;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t left = total - cu[b];
        cu[b + 1] = cu[b] + (int32_t)draw_length(rng, left < most ? left : most);
    }
    return buffer;
}

static void fill_lengths(problem_t *p)
{
    const attn_desc_t *desc = &p->full;
    const problem_options_t *given = &p->options;
    if (desc->varlen_q) {
        p->cu_seqlens_q = given->cu_seqlens_q != NULL
                              ? list_copy(given->cu_seqlens_q, desc->batch + 1)
                              : draw_cu_seqlens(&p->rng, desc->batch, desc->s_q, desc->total_q);
    }
    if (desc->varlen_kv) {
        p->cu_seqlens_kv = given->cu_seqlens_kv != NULL
                               ? list_copy(given->cu_seqlens_kv, desc->batch + 1)
                               : draw_cu_seqlens(&p->rng, desc->batch, desc->s_kv, desc->total_kv);
    }
    if (desc->has_kv_batch_idx) {
        p->kv_batch_idx = given->kv_batch_idx != NULL ? list_copy(given->kv_batch_idx, desc->batch)
                                                      : list_create(desc->batch);
        for (int64_t b = 0; given->kv_batch_idx == NULL && b < desc->batch; b++) {
            list_of(&p->kv_batch_idx)[b] = (int32_t)test_rng_range(&p->rng, 0, desc->kv_batch - 1);
        }
    }
}

typedef enum used_kind { USED_Q, USED_KV, USED_LEFTPAD } used_kind_t;

static guard_buffer_t draw_used(problem_t *p, used_kind_t kind)
{
    guard_buffer_t buffer = list_create(p->full.batch);
    for (int64_t b = 0; b < p->full.batch; b++) {
        list_of(&buffer)[b] = 0;
        const problem_sequence_t seq = problem_sequence(p, b);
        const int64_t most = kind == USED_Q    ? seq.rows_q
                             : kind == USED_KV ? seq.rows_kv
                                               : seq.len_kv;
        list_of(&buffer)[b] = (int32_t)draw_length(&p->rng, most);
    }
    return buffer;
}

// problem_sequence reads the lists: while one is drawn its flag is off.
static void fill_used(problem_t *p)
{
    attn_desc_t *desc = &p->full;
    const problem_options_t *given = &p->options;
    const int32_t has_q = desc->has_seqused_q;
    const int32_t has_kv = desc->has_seqused_kv;
    const int32_t has_leftpad = desc->has_leftpad_kv;
    desc->has_seqused_q = desc->has_seqused_kv = desc->has_leftpad_kv = 0;
    if (has_q) {
        p->seqused_q = given->seqused_q != NULL ? list_copy(given->seqused_q, desc->batch)
                                                : draw_used(p, USED_Q);
        desc->has_seqused_q = has_q;
    }
    if (has_kv) {
        p->seqused_kv = given->seqused_kv != NULL ? list_copy(given->seqused_kv, desc->batch)
                                                  : draw_used(p, USED_KV);
        desc->has_seqused_kv = has_kv;
    }
    if (has_leftpad) {
        p->leftpad_kv = given->leftpad_kv != NULL ? list_copy(given->leftpad_kv, desc->batch)
                                                  : draw_used(p, USED_LEFTPAD);
        desc->has_leftpad_kv = has_leftpad;
    }
}

// Pages in random order; entries behind the last used page name no page.
static void fill_pages(problem_t *p)
{
    const attn_desc_t *desc = &p->full;
    const int64_t slots =
        desc->batch == 0 ? 0 : (desc->batch - 1) * desc->page_table_stride_b + desc->pages_per_seq;
    if (p->options.page_table != NULL) {
        p->page_table = list_copy(p->options.page_table, slots);
        return;
    }
    p->page_table = list_create(slots);
    int32_t *table = list_of(&p->page_table);
    int64_t *order = malloc((size_t)(desc->num_pages + 1) * sizeof(*order));
    if (order == NULL) {
        abort();
    }
    for (int64_t n = 0; n < desc->num_pages; n++) {
        order[n] = n;
    }
    for (int64_t n = desc->num_pages - 1; n > 0; n--) {
        const int64_t other = test_rng_range(&p->rng, 0, n);
        const int64_t swap = order[n];
        order[n] = order[other];
        order[other] = swap;
    }
    int64_t next = 0;
    for (int64_t b = 0; b < desc->batch; b++) {
        const int64_t len = problem_sequence(p, b).len_kv;
        for (int64_t n = 0; n < desc->pages_per_seq; n++) {
            const bool used = n * desc->page_size < len;
            table[b * desc->page_table_stride_b + n] =
                used ? (int32_t)order[next++ % desc->num_pages] : -1;
        }
    }
    free(order);
}

static void fill_blocks(problem_t *p)
{
    const attn_desc_t *desc = &p->full;
    const int64_t rows = (desc->s_q + desc->block_q - 1) / desc->block_q;
    const int64_t blocks = (desc->s_kv + desc->block_kv - 1) / desc->block_kv;
    const bool none = desc->batch == 0 || desc->heads_q == 0 || rows == 0;
    const int64_t lists = none ? 0
                               : (desc->batch - 1) * desc->block_stride_b +
                                     (desc->heads_q - 1) * desc->block_stride_h + rows;
    if (p->options.block_count != NULL && p->options.block_index != NULL) {
        p->block_count = list_copy(p->options.block_count, lists);
        p->block_index = list_copy(p->options.block_index, lists * desc->blocks_per_row);
        return;
    }
    p->block_count = list_create(lists);
    p->block_index = list_create(lists * desc->blocks_per_row);
    for (int64_t list = 0; list < lists; list++) {
        int32_t *index = list_of(&p->block_index) + list * desc->blocks_per_row;
        int32_t count = 0;
        const int64_t percent = test_rng_range(&p->rng, 0, 3) * 33;
        for (int64_t n = 0; n < blocks && count < desc->blocks_per_row; n++) {
            if (test_rng_chance(&p->rng, percent)) {
                index[count++] = (int32_t)n;
            }
        }
        list_of(&p->block_count)[list] = count;
    }
}

void problem_fill_lists(problem_t *p)
{
    fill_lengths(p);
    fill_used(p);
    if (p->full.paged_kv) {
        fill_pages(p);
    }
    if (p->full.block_sparse) {
        fill_blocks(p);
    }
    if (p->full.dropout_p > 0.0f) {
        p->dropout_state = guard_buffer_create(2 * sizeof(uint64_t), 0);
        uint64_t *state = (uint64_t *)(void *)p->dropout_state.data;
        state[0] = test_rng_next(&p->rng);
        state[1] = test_rng_next(&p->rng);
    }
}

// ---------------------------------------------------------------------------------------------
// Values

// One column's share of q and k for the wanted kind of scores.
typedef struct generator {
    problem_fill_t fill;
    double amplitude;
    uint64_t seed;
} generator_t;

static generator_t generator_of(const problem_t *p)
{
    const double per_dot = fabs((double)p->full.scale) * (double)p->full.d_qk;
    const double wanted = p->options.fill == FILL_NEGATIVE_LSE ? 120.0 : 30.0;
    const double amplitude = per_dot > 0.0 ? sqrt(wanted / per_dot) : 1.0;
    return (generator_t){p->options.fill, amplitude < 50.0 ? amplitude : 50.0, p->options.seed};
}

static double direction(const generator_t *g, int64_t c)
{
    test_rng_t rng = test_rng_at(g->seed ^ 0x5bd1e995u, (uint64_t)c);
    return test_rng_chance(&rng, 50) ? 1.0 : -1.0;
}

// Writes one row of q or k.
static void fill_row(problem_t *p, const generator_t *g, operand_t *x, int64_t b, int64_t s,
                     int64_t h, bool is_key)
{
    const double along = test_rng_normal(&p->rng);
    for (int64_t c = 0; c < x->dims[3]; c++) {
        const double noise = test_rng_normal(&p->rng);
        double value = noise;
        switch (g->fill) {
        case FILL_NORMAL: break;
        case FILL_NEGATIVE_LSE:
            value = g->amplitude * (1.0 + 0.05 * noise);
            value = is_key ? copysign(value, -p->full.scale) : value;
            break;
        case FILL_CORRELATED: value = g->amplitude * along * direction(g, c) + 0.1 * noise; break;
        case FILL_ONES: value = 1.0; break;
        case FILL_ZERO_Q: value = is_key ? noise : 0.0; break;
        }
        operand_set(x, b, s, h, c, value);
    }
}

static void fill_plain_row(problem_t *p, operand_t *x, int64_t b, int64_t s, int64_t h)
{
    for (int64_t c = 0; c < x->dims[3]; c++) {
        const double noise = test_rng_normal(&p->rng);
        operand_set(x, b, s, h, c, p->options.fill == FILL_ONES ? 1.0 : noise);
    }
}

// What elements hold that nothing sees: holes always NaN.
static void fill_unseen(problem_t *p, operand_t *x)
{
    if (x->buffer.memory == NULL) {
        return;
    }
    for (int64_t n = 0; n < x->count; n++) {
        test_number_set(x->dtype, x->buffer.data, n, NAN);
    }
    if (p->options.no_nan_unseen) {
        operand_set_all(x, 200.0);
    }
}

static void fill_queries(problem_t *p, const generator_t *g)
{
    for (int64_t b = 0; b < p->full.batch; b++) {
        const problem_sequence_t seq = problem_sequence(p, b);
        for (int64_t h = 0; h < p->full.heads_q; h++) {
            for (int64_t i = 0; i < seq.len_q; i++) {
                if (problem_row_sees_any(p, b, h, i)) {
                    fill_row(p, g, &p->q, seq.q_b, seq.q_row + i, h, false);
                }
                if (p->do_.buffer.memory != NULL) {
                    fill_plain_row(p, &p->do_, seq.q_b, seq.q_row + i, h);
                }
                if (p->dlse.buffer.memory != NULL) {
                    operand_set(&p->dlse, seq.q_b, h, seq.q_row + i, 0, test_rng_normal(&p->rng));
                }
            }
        }
    }
}

static void fill_keys(problem_t *p, const generator_t *g)
{
    for (int64_t b = 0; b < p->full.batch; b++) {
        const problem_sequence_t seq = problem_sequence(p, b);
        for (int64_t h = 0; h < p->full.heads_kv; h++) {
            for (int64_t j = seq.leftpad; j < seq.len_kv; j++) {
                if (problem_key_is_seen(p, b, h, j)) {
                    int64_t kv_b;
                    int64_t kv_s;
                    problem_locate_key(p, b, j, &kv_b, &kv_s);
                    fill_row(p, g, &p->k, kv_b, kv_s, h, true);
                    fill_plain_row(p, &p->v, kv_b, kv_s, h);
                }
            }
        }
    }
}

// Half of the masks hide some areas wholly and show others wholly, as kernels that work by tiles
// tell apart; the rest is drawn one by one.
static bool drawn_mask(problem_t *p, bool has_areas, int64_t percent, int64_t i, int64_t j)
{
    enum { AREA = 192 };
    const bool shown = test_rng_chance(&p->rng, percent);
    const int64_t area = (i / AREA + j / AREA * 2 + (int64_t)(p->options.seed % 3)) % 3;
    return has_areas && area < 2 ? area == 0 : shown;
}

static void fill_mask(problem_t *p)
{
    const int64_t percent = test_rng_chance(&p->rng, 20) ? 5 : 70;
    const bool has_areas = test_rng_chance(&p->rng, 50);
    for (operand_walk_t w = operand_walk(&p->mask); !w.done; operand_next(&p->mask, &w)) {
        const bool shown =
            p->options.mask != NULL
                ? p->options.mask(p->options.user, w.at[0], w.at[1], w.at[2], w.at[3])
                : drawn_mask(p, has_areas, percent, w.at[2], w.at[3]);
        // Any value but 0 shows.
        p->mask.buffer.data[operand_index(&p->mask, w.at[0], w.at[1], w.at[2], w.at[3])] =
            shown ? (unsigned char)test_rng_range(&p->rng, 1, 255) : 0;
    }
}

static void fill_bias(problem_t *p)
{
    const bool hides = test_rng_chance(&p->rng, 30);
    for (operand_walk_t w = operand_walk(&p->bias); !w.done; operand_next(&p->bias, &w)) {
        double value = test_rng_normal(&p->rng);
        if (p->options.bias != NULL) {
            value = p->options.bias(p->options.user, w.at[0], w.at[1], w.at[2], w.at[3]);
        } else if (hides && test_rng_chance(&p->rng, 20)) {
            value = -INFINITY;
        }
        operand_set(&p->bias, w.at[0], w.at[1], w.at[2], w.at[3], value);
    }
}

// Bias elements that are hidden anyway may hold NaN. Not where a stored element serves several.
static void hide_bias(problem_t *p)
{
    for (int n = 0; n < 4; n++) {
        if (p->bias.strides[n] == 0 || p->options.no_nan_unseen || p->options.bias != NULL) {
            return;
        }
    }
    for (operand_walk_t w = operand_walk(&p->bias); !w.done; operand_next(&p->bias, &w)) {
        if (operand_get(&p->bias, w.at[0], w.at[1], w.at[2], w.at[3]) != -INFINITY &&
            !problem_visible(p, w.at[0], w.at[1], w.at[2], w.at[3])) {
            operand_set(&p->bias, w.at[0], w.at[1], w.at[2], w.at[3], NAN);
        }
    }
}

static void fill_positive(problem_t *p, operand_t *x, double low, double high)
{
    for (operand_walk_t w = operand_walk(x); x->buffer.memory != NULL && !w.done;
         operand_next(x, &w)) {
        const double value = low + (high - low) * test_rng_unit(&p->rng);
        operand_set(x, w.at[0], w.at[1], w.at[2], w.at[3], value);
    }
}

// Turns elements that are seen into NaN; elements that were NaN stay.
static void plant_nans(problem_t *p)
{
    operand_t *const targets[] = {&p->q, &p->k, &p->v};
    for (int n = 0; n < p->options.visible_nans; n++) {
        operand_t *x = targets[test_rng_range(&p->rng, 0, 2)];
        if (x->count > 0) {
            int64_t at[4];
            for (int dim = 0; dim < 4; dim++) {
                at[dim] = test_rng_range(&p->rng, 0, x->dims[dim] - 1);
            }
            operand_set(x, at[0], at[1], at[2], at[3], NAN);
        }
    }
}

void problem_fill_values(problem_t *p)
{
    operand_t *const operands[] = {&p->q,         &p->k,         &p->v,        &p->do_,
                                   &p->dlse,      &p->bias,      &p->alibi,    &p->sink,
                                   &p->q_descale, &p->k_descale, &p->v_descale};
    for (size_t n = 0; n < sizeof(operands) / sizeof(operands[0]); n++) {
        fill_unseen(p, operands[n]);
    }
    if (p->mask.buffer.memory != NULL) {
        fill_mask(p);
    }
    if (p->bias.buffer.memory != NULL) {
        fill_bias(p);
        hide_bias(p);
    }
    fill_positive(p, &p->alibi, 0.0, 0.5);
    fill_positive(p, &p->sink, -2.0, 3.0);
    fill_positive(p, &p->q_descale, 0.25, 1.5);
    fill_positive(p, &p->k_descale, 0.25, 1.5);
    fill_positive(p, &p->v_descale, 0.25, 1.5);
    if (p->full.has_sink && p->full.heads_q > 0 && test_rng_chance(&p->rng, 10)) {
        operand_set(&p->sink, 0, test_rng_range(&p->rng, 0, p->full.heads_q - 1), 0, 0, -INFINITY);
    }
    const generator_t g = generator_of(p);
    fill_queries(p, &g);
    fill_keys(p, &g);
    plant_nans(p);
}
