// test_cases_options.c: softcap, ALiBi, sink, bias gradient, dropout, and that no option is lost on
// the way. Cases C-106 to C-116: README.md.
#include "case_kit.h"

#include <stdlib.h>

// ---- C-106, C-107: softcap

static void c106_softcap_forward_and_backward(void **state)
{
    (void)state;
    const float caps[] = {2.0f, 15.0f, 50.0f, 0.1f};
    for (int64_t n = 0; n < COUNT_OF(caps); n++) {
        attn_desc_t desc = case_desc(ATTN_F32, 1, 3, 5, 2, 2, 8);
        desc.softcap = caps[n];
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 106, .backward = true));
        case_set_normal(&p->q, 1, 0.0, 2.0);
        case_set_normal(&p->k, 2, 0.0, 2.0);
        case_holds(p);
        attn_desc_t longer = case_desc(ATTN_BF16, 1, 100, 130, 2, 2, 64);
        longer.softcap = caps[n];
        longer.causal = n % 2;
        p = problem_create(&longer, OPTIONS(.seed = 106, .backward = true));
        case_replace_nans(&p->q, 0.0);
        case_set_normal(&p->q, 1, 0.0, 2.0);
        case_set_normal(&p->k, 2, 0.0, 2.0);
        case_holds(p);
    }
}

static void c106_softcap_zero_is_off_and_infinity_tends_to_off(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F32, 1, 30, 50, 2, 2, 16);
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 106, .backward = true));
    results_t off = case_run(p);
    const float caps[] = {1e3f, 1e4f, 1e5f};
    double before = INFINITY;
    for (int64_t n = 0; n < COUNT_OF(caps); n++) {
        desc.softcap = caps[n];
        results_t r = case_run_as(p, &desc);
        const double distance = case_distance(&off.o, &r.o);
        assert_true(distance <= before + 1e-6);
        before = distance;
        results_destroy(&r);
    }
    assert_true(before < 1e-4);
    results_destroy(&off);
    case_holds(p);
    const float bad[] = {-1.0f, (float)NAN, (float)INFINITY};
    for (int64_t n = 0; n < COUNT_OF(bad); n++) {
        desc.softcap = bad[n];
        case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "softcap");
    }
}

// 1 / cap and scale / cap overflow here; a score of 0 is capped to 0 all the same.
static void c106_softcaps_near_zero(void **state)
{
    (void)state;
    const float caps[] = {1e-30f, 1e-38f, 1e-44f};
    for (int64_t n = 0; n < 2 * COUNT_OF(caps); n++) {
        attn_desc_t desc = case_desc(n % 2 ? ATTN_BF16 : ATTN_F32, 1, 20, 40, 2, 2, 16);
        desc.softcap = caps[n / 2];
        desc.scale = 100.0f;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 106, .backward = true));
        for (int64_t i = 0; i < 20; i += 3) {
            case_set_row(&p->q, 0, i, 1, 0.0);
        }
        case_holds(p);
        desc.s_q = 1;
        p = problem_create(&desc, OPTIONS(.seed = 106));
        case_set_row(&p->q, 0, 0, 1, 0.0);
        case_holds(p);
    }
}

static void c107_softcap_backward_ends(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 2, 300, 300, 2, 2, 128);
    desc.causal = 1;
    desc.softcap = 10.0f;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 107, .backward = true));
    case_watchdog(10);
    results_t r = case_run(p);
    case_watchdog(0);
    case_all_finite(&r.dq);
    case_all_finite(&r.dk);
    case_all_finite(&r.dv);
    results_destroy(&r);
    case_holds_on_best(p);
}

static void c107_full_size(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 2, 1024, 1024, 32, 32, 128);
    desc.causal = 1;
    desc.softcap = 10.0f;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 107, .backward = true));
    case_watchdog(60);
    results_t r = case_run(p);
    case_watchdog(0);
    case_all_finite(&r.dq);
    results_destroy(&r);
    problem_destroy(p);
}

// ---- C-109: every option in every form of call changes the result, and as the reference says

static const int32_t CU_Q[] = {0, 3, 20};
static const int32_t CU_KV[] = {0, 40, 73};
static const int32_t USED_KV[] = {33, 20};
static const int32_t LEFTPAD[] = {7, 11};

typedef void (*change_fn)(attn_desc_t *desc);

static void entry_dense(attn_desc_t *desc)
{
    (void)desc;
}

static void entry_bhsd(attn_desc_t *desc)
{
    assert_ok(attn_desc_set_bhsd(desc));
}

// q, k, v as slices of one tensor.
static void entry_qkv_packed(attn_desc_t *desc)
{
    attn_tensor_t *const tensors[] = {&desc->q, &desc->k, &desc->v};
    const int64_t row = (desc->heads_q + 2 * desc->heads_kv) * desc->d_qk;
    for (int n = 0; n < 3; n++) {
        tensors[n]->stride_h = desc->d_qk;
        tensors[n]->stride_s = row;
        tensors[n]->stride_b = 64 * row;
    }
}

static void entry_varlen(attn_desc_t *desc)
{
    case_pack_q(desc, CU_Q, 2);
    case_pack_kv(desc, CU_KV, 2);
}

static void entry_paged(attn_desc_t *desc)
{
    case_page_kv(desc, 16);
}

static void entry_decode(attn_desc_t *desc)
{
    desc->s_q = 1;
}

static void option_scale(attn_desc_t *desc)
{
    desc->scale = 0.7f;
}

static void option_causal(attn_desc_t *desc)
{
    desc->causal = 1;
}

static void option_align(attn_desc_t *desc)
{
    desc->causal = 1;
    desc->align = ATTN_ALIGN_TOP_LEFT;
}

static void option_window_left(attn_desc_t *desc)
{
    desc->window_left = 4;
}

static void option_window_right(attn_desc_t *desc)
{
    desc->align = ATTN_ALIGN_TOP_LEFT;
    desc->window_right = 2;
}

static void option_softcap(attn_desc_t *desc)
{
    desc->softcap = 0.5f;
}

static void option_alibi(attn_desc_t *desc)
{
    desc->has_alibi = 1;
}

static void option_alibi_per_batch(attn_desc_t *desc)
{
    desc->has_alibi = 1;
    desc->alibi_stride_b = desc->heads_q;
}

static void option_sink(attn_desc_t *desc)
{
    desc->has_sink = 1;
}

static void option_mask(attn_desc_t *desc)
{
    desc->mask.present = 1;
}

static void option_bias(attn_desc_t *desc)
{
    desc->bias.present = 1;
}

static void option_dropout(attn_desc_t *desc)
{
    desc->dropout_p = 0.3f;
}

static void option_seqused(attn_desc_t *desc)
{
    desc->has_seqused_kv = 1;
}

static void option_leftpad(attn_desc_t *desc)
{
    desc->has_leftpad_kv = 1;
}

static void option_blocks(attn_desc_t *desc)
{
    desc->block_sparse = 1;
    desc->block_q = 8;
    desc->block_kv = 8;
    desc->blocks_per_row = 2;
}

typedef struct change {
    const char *name;
    change_fn apply;
} change_t;

static const change_t ENTRIES[] = {{"dense", entry_dense},           {"bhsd", entry_bhsd},
                                   {"qkv packed", entry_qkv_packed}, {"varlen", entry_varlen},
                                   {"paged", entry_paged},           {"decode", entry_decode}};
static const change_t CHANGES[] = {{"scale", option_scale},
                                   {"causal", option_causal},
                                   {"align", option_align},
                                   {"window_left", option_window_left},
                                   {"window_right", option_window_right},
                                   {"softcap", option_softcap},
                                   {"alibi", option_alibi},
                                   {"alibi (b, h)", option_alibi_per_batch},
                                   {"sink", option_sink},
                                   {"mask", option_mask},
                                   {"bias", option_bias},
                                   {"dropout", option_dropout},
                                   {"seqused_kv", option_seqused},
                                   {"leftpad_kv", option_leftpad},
                                   {"block lists", option_blocks}};

static problem_t *optioned_problem(const change_t *entry, const change_t *option)
{
    attn_desc_t desc = case_desc(ATTN_F32, 2, 17, 40, 4, 2, 16);
    entry->apply(&desc);
    if (option != NULL) {
        option->apply(&desc);
    }
    problem_t *p =
        problem_create(&desc, OPTIONS(.seed = 109, .cu_seqlens_q = CU_Q, .cu_seqlens_kv = CU_KV,
                                      .seqused_kv = USED_KV, .leftpad_kv = LEFTPAD));
    case_set_normal(&p->q, 1, 0.0, 1.0);
    case_set_normal(&p->k, 2, 0.0, 1.0);
    case_set_normal(&p->v, 3, 0.0, 1.0);
    return p;
}

static bool is_mask_row_dependent_on_one_row(const change_t *entry, const change_t *option)
{
    // One query aligned with the last key: causal hides nothing from it.
    return entry->apply == entry_decode && option->apply == option_causal;
}

static void c109_no_option_is_lost(void **state)
{
    (void)state;
    for (int64_t e = 0; e < COUNT_OF(ENTRIES); e++) {
        problem_t *plain = optioned_problem(&ENTRIES[e], NULL);
        results_t base = case_run(plain);
        for (int64_t n = 0; n < COUNT_OF(CHANGES); n++) {
            problem_t *p = optioned_problem(&ENTRIES[e], &CHANGES[n]);
            results_t r = case_run(p);
            const double distance = case_distance(&base.o, &r.o);
            if (!(distance > 1e-3) && !is_mask_row_dependent_on_one_row(&ENTRIES[e], &CHANGES[n])) {
                fail_msg("%s: %s changes nothing", ENTRIES[e].name, CHANGES[n].name);
            }
            char why[1024];
            if (!problem_truth(p, why, sizeof(why)) || !problem_judge(p, &r, why, sizeof(why))) {
                fail_msg("%s with %s: %s", ENTRIES[e].name, CHANGES[n].name, why);
            }
            results_destroy(&r);
            problem_destroy(p);
        }
        results_destroy(&base);
        problem_destroy(plain);
    }
}

// ---- C-110: ALiBi counts from the row's own key position

static void c110_alibi_in_prefill_and_decode(void **state)
{
    (void)state;
    enum { S_Q = 5, S_KV = 9, HEADS = 2 };
    for (int n = 0; n < 4; n++) {
        attn_desc_t desc = case_desc(ATTN_F32, 2, S_Q, S_KV, HEADS, HEADS, 16);
        desc.causal = n % 2;
        desc.has_alibi = 1;
        desc.alibi_stride_b = n / 2 ? HEADS : 0;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 110, .backward = true));
        operand_set_all(&p->alibi, 0.5);
        if (n / 2) {
            operand_set(&p->alibi, 1, 0, 0, 0, 1.25);
        }
        results_t prefill = case_run(p);
        attn_desc_t last = desc;
        last.s_q = 1;
        problem_t *decode = problem_create(&last, OPTIONS(.seed = 110));
        memcpy(decode->k.buffer.data, p->k.buffer.data, p->k.buffer.bytes);
        memcpy(decode->v.buffer.data, p->v.buffer.data, p->v.buffer.bytes);
        memcpy(decode->alibi.buffer.data, p->alibi.buffer.data, p->alibi.buffer.bytes);
        for (int64_t b = 0; b < 2; b++) {
            case_copy_row(&decode->q, b, 0, &p->q, b, S_Q - 1);
        }
        results_t row = case_run(decode);
        for (operand_walk_t w = operand_walk(&row.o); !w.done; operand_next(&row.o, &w)) {
            const double x = operand_get(&row.o, w.at[0], 0, w.at[2], w.at[3]);
            const double y = operand_get(&prefill.o, w.at[0], S_Q - 1, w.at[2], w.at[3]);
            assert_true(fabs(x - y) <= 1e-6);
        }
        results_destroy(&row);
        results_destroy(&prefill);
        problem_destroy(decode);
        case_holds(p);
    }
}

static void alibi_weights_fall_from_own_position(const problem_t *p, const results_t *r)
{
    for (int64_t i = 0; i < p->full.s_q; i++) {
        double sum = 0.0;
        double weighted = 0.0;
        for (int64_t j = 0; j < p->full.s_kv; j++) {
            const double distance = fabs((double)(i + p->full.s_kv - p->full.s_q - j));
            sum += exp(-0.5 * distance);
            weighted += (double)j * exp(-0.5 * distance);
        }
        case_row_is(&r->o, 0, i, 0, weighted / sum, 1e-5 * (double)p->full.s_kv);
        case_lse_is(r, 0, 0, i, log(sum), 1e-5);
    }
}

static void c110_alibi_by_hand(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{5, 9}, {9, 5}, {1, 9}, {70, 140}};
    for (int64_t n = 0; n < COUNT_OF(sizes); n++) {
        attn_desc_t desc = case_desc(ATTN_F32, 1, sizes[n][0], sizes[n][1], 1, 1, 16);
        desc.has_alibi = 1;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 110, .fill = FILL_ZERO_Q));
        operand_set_all(&p->alibi, 0.5);
        case_count_up(p, &p->v);
        case_run_everywhere(p, alibi_weights_fall_from_own_position);
        problem_destroy(p);
    }
}

// ---- C-112: the sink's gradient

// sum over rows of P_sink * (dlse - rowsum(do * o)), from the results themselves.
static double dsink_by_formula(const problem_t *p, const results_t *r, int64_t h)
{
    double sum = 0.0;
    for (int64_t b = 0; b < p->full.batch; b++) {
        for (int64_t i = 0; i < p->full.s_q; i++) {
            double delta = 0.0;
            for (int64_t c = 0; c < p->full.d_v; c++) {
                delta += operand_get(&p->do_, b, i, h, c) * operand_get(&r->o, b, i, h, c);
            }
            const double dlse =
                p->dlse.buffer.memory != NULL ? operand_get(&p->dlse, b, h, i, 0) : 0.0;
            const double p_sink =
                exp(operand_get(&p->sink, 0, h, 0, 0) - operand_get(&r->lse, b, h, i, 0));
            sum += p_sink * (dlse - delta);
        }
    }
    return sum;
}

static void c112_sink_gradient(void **state)
{
    (void)state;
    const double sinks[] = {0.0, 1.0, 5.0, -5.0};
    for (int n = 0; n < 4; n++) {
        attn_desc_t desc = case_desc(n % 2 ? ATTN_BF16 : ATTN_F32, 2, 64, 64, 4, 2, 64);
        desc.has_sink = desc.wants_dsink = 1;
        desc.has_dlse = n / 2;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 112, .backward = true));
        for (int64_t h = 0; h < 4; h++) {
            operand_set(&p->sink, 0, h, 0, 0, sinks[h]);
        }
        if (desc.has_dlse) {
            operand_set_all(&p->dlse, 1.0);
        }
        results_t r = case_run(p);
        results_t again = case_run(p);
        case_same_bits(&r.dsink, &again.dsink);
        for (int64_t h = 0; h < 4; h++) {
            const double expected = dsink_by_formula(p, &r, h);
            const double got = operand_get(&r.dsink, 0, h, 0, 0);
            const double tolerance = (n % 2 ? 2e-2 : 1e-4) * (1.0 + fabs(expected));
            assert_true(fabs(got - expected) <= tolerance);
            assert_true(got != 0.0);
        }
        results_destroy(&again);
        results_destroy(&r);
        case_holds(p);
    }
}

// ---- C-113: any subset of the gradients

static void c113_any_subset_of_gradients(void **state)
{
    (void)state;
    for (int subset = 0; subset < 16; subset++) {
        attn_desc_t desc = case_desc(ATTN_F32, 2, 33, 33, 4, 4, 16);
        desc.bias = (attn_mask_tensor_t){.present = 1,
                                         .dtype = ATTN_F32,
                                         .stride_b = 0,
                                         .stride_h = 33 * 33,
                                         .stride_q = 33,
                                         .stride_k = 1};
        if (subset & 8) {
            desc.dbias = desc.bias;
        }
        case_desc_holds(&desc, OPTIONS(.seed = 113, .backward = true, .no_dq = !(subset & 1),
                                       .no_dk = !(subset & 2), .no_dv = !(subset & 4)));
    }
}

// ---- C-115, C-116: dropout

static void set_dropout_state(problem_t *p, uint64_t seed, uint64_t offset)
{
    uint64_t *state = (uint64_t *)(void *)p->dropout_state.data;
    state[0] = seed;
    state[1] = offset;
}

// v is the identity: row i of o is row i of the dropped weights.
static problem_t *identity_problem(float dropout_p, int64_t s)
{
    attn_desc_t desc = case_desc(ATTN_F32, 2, s, s, 4, 4, s);
    desc.dropout_p = dropout_p;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 115, .backward = true));
    operand_set_all(&p->q, 0.0);
    for (operand_walk_t w = operand_walk(&p->v); !w.done; operand_next(&p->v, &w)) {
        operand_set(&p->v, w.at[0], w.at[1], w.at[2], w.at[3], w.at[1] == w.at[3] ? 1.0 : 0.0);
    }
    return p;
}

static void c115_forward_and_backward_drop_the_same(void **state)
{
    (void)state;
    const int64_t s = 128;
    problem_t *p = identity_problem(0.1f, s);
    set_dropout_state(p, 42, 7);
    results_t r = case_run(p);
    int64_t kept = 0;
    for (operand_walk_t w = operand_walk(&r.o); !w.done; operand_next(&r.o, &w)) {
        const double weight = operand_get(&r.o, w.at[0], w.at[1], w.at[2], w.at[3]);
        kept += weight != 0.0;
        assert_true(weight == 0.0 || fabs(weight * (double)s * 0.9 - 1.0) < 1e-3);
    }
    const double fraction = (double)kept / (double)(2 * 4 * s * s);
    assert_true(fabs(fraction - 0.9) < 0.004); // 5 sigma
    // dv = P_drop^T do, with the P_drop that the forward pass used.
    for (int64_t h = 0; h < 4; h++) {
        for (int64_t j = 0; j < s; j += 13) {
            double expected = 0.0;
            for (int64_t i = 0; i < s; i++) {
                expected += operand_get(&r.o, 1, i, h, j) * operand_get(&p->do_, 1, i, h, 3);
            }
            assert_true(fabs(expected - operand_get(&r.dv, 1, j, h, 3)) < 1e-5);
        }
    }
    // The same state: the same mask. Another seed or offset: another mask.
    results_t again = case_run(p);
    case_same_bits(&r.o, &again.o);
    const uint64_t states[][2] = {
        {42, 8}, {43, 7}, {42 + ((uint64_t)1 << 40), 7}, {42, 7 + ((uint64_t)1 << 40)}};
    for (int64_t n = 0; n < COUNT_OF(states); n++) {
        set_dropout_state(p, states[n][0], states[n][1]);
        results_t other = case_run(p);
        assert_true(case_distance(&r.o, &other.o) > 0.0);
        results_destroy(&other);
    }
    results_destroy(&again);
    results_destroy(&r);
    case_holds_on_best(p);
}

static void dropped_rows_are_whole_multiples(const problem_t *p, const results_t *r)
{
    const double keep = 1.0 - (double)p->full.dropout_p;
    double sum = 0.0;
    for (int64_t h = 0; h < p->full.heads_q; h++) {
        const double first = operand_get(&r->o, 0, 0, h, 0);
        assert_true(first == 0.0 || fabs(first * keep - 1.0) < 1e-3);
        for (int64_t i = 0; i < p->full.s_q; i++) {
            sum += operand_get(&r->o, 0, i, h, 0);
            case_lse_is(r, 0, h, i, log((double)(i + 1)), 1e-5);
        }
    }
    case_all_finite(&r->o);
    // Mean 1; the variance of row i is (1 - keep) / keep / (i + 1).
    double variance = 0.0;
    for (int64_t i = 0; i < p->full.s_q; i++) {
        variance += (1.0 - keep) / keep / (double)(i + 1);
    }
    const double rows = (double)(p->full.heads_q * p->full.s_q);
    const double sigma = sqrt(variance * (double)p->full.heads_q) / rows;
    assert_true(fabs(sum / rows - 1.0) < 4.0 * sigma);
}

static void c116_dropout_after_the_normaliser(void **state)
{
    (void)state;
    const float chances[] = {0.5f, 0.999f, 0.1f};
    for (int64_t n = 0; n < COUNT_OF(chances); n++) {
        attn_desc_t desc = case_desc(ATTN_F32, 1, 128, 128, 8, 8, 16);
        desc.causal = 1;
        desc.dropout_p = chances[n];
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 116, .backward = true));
        operand_set_all(&p->q, 0.0);
        operand_set_all(&p->v, 1.0);
        case_run_everywhere(p, dropped_rows_are_whole_multiples);
        problem_destroy(p);
        case_desc_holds(&desc, OPTIONS(.seed = 116, .backward = true));
    }
}

static void c116_dropout_of_zero_is_none(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 50, 50, 2, 2, 32);
    desc.dropout_p = 0.5f;
    problem_t *p = problem_create(&desc, OPTIONS(.seed = 116));
    const float bad[] = {1.0f, 1.5f, -0.1f, (float)NAN, (float)INFINITY};
    for (int64_t n = 0; n < COUNT_OF(bad); n++) {
        attn_desc_t refused = desc;
        refused.dropout_p = bad[n];
        case_refused(&refused, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "dropout_p");
    }
    problem_destroy(p);
    // p = 0 is the plain call: no state is needed.
    desc.dropout_p = 0.0f;
    p = problem_create(&desc, OPTIONS(.seed = 116, .backward = true));
    results_t plain = case_run(p);
    desc.dropout_p = -0.0f;
    results_t same = case_run_as(p, &desc);
    case_same_result_bits(&plain, &same);
    results_destroy(&plain);
    results_destroy(&same);
    case_holds(p);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c106_softcap_forward_and_backward),
    cmocka_unit_test(c106_softcaps_near_zero),
    cmocka_unit_test(c106_softcap_zero_is_off_and_infinity_tends_to_off),
    cmocka_unit_test(c107_softcap_backward_ends),
    cmocka_unit_test(c109_no_option_is_lost),
    cmocka_unit_test(c110_alibi_in_prefill_and_decode),
    cmocka_unit_test(c110_alibi_by_hand),
    cmocka_unit_test(c112_sink_gradient),
    cmocka_unit_test(c113_any_subset_of_gradients),
    cmocka_unit_test(c115_forward_and_backward_drop_the_same),
    cmocka_unit_test(c116_dropout_after_the_normaliser),
    cmocka_unit_test(c116_dropout_of_zero_is_none),
};

static const struct CMUnitTest SLOW_TESTS[] = {cmocka_unit_test(c107_full_size)};

int main(int argc, char **argv)
{
    return case_main_tiers("cases_options", TESTS, COUNT_OF(TESTS), SLOW_TESTS,
                           COUNT_OF(SLOW_TESTS), argc, argv);
}
