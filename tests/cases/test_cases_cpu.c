// test_cases_cpu.c: what CPU backends in particular got wrong, and messages that say what is wrong.
// Cases C-133 to C-148: README.md.
#include "case_kit.h"

#include <stdlib.h>

// ---- C-133: counts of zero

static void c133_zero_counts(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F16, 7, 0, 0, 9, 7, 7);
    desc.causal = 1;
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "heads");
    desc = case_desc(ATTN_F16, 2, 8, 8, 4, 0, 16);
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "heads_kv");
    case_refused(&desc, ATTN_BACKWARD, ATTN_INVALID_ARGUMENT, "heads_kv");
    desc = case_desc(ATTN_F16, 2, 8, 8, 4, 4, 0);
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "d_qk");
    desc.d_qk = 16;
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "d_v");
    const int64_t empty[][3] = {{0, 8, 8}, {2, 0, 8}, {2, 8, 0}, {0, 0, 0}};
    for (int64_t n = 0; n < COUNT_OF(empty); n++) {
        desc = case_desc(ATTN_F16, empty[n][0], empty[n][1], empty[n][2], 4, 2, 16);
        case_desc_holds(&desc, OPTIONS(.seed = 133, .backward = true));
    }
    const int64_t negative[][3] = {{-1, 8, 8}, {2, -8, 8}, {2, 8, -8}};
    const char *const names[] = {"batch", "s_q", "s_kv"};
    for (int64_t n = 0; n < COUNT_OF(negative); n++) {
        desc = case_desc(ATTN_F16, negative[n][0], negative[n][1], negative[n][2], 4, 2, 16);
        case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, names[n]);
    }
}

// No heads at all: an answer, not a signal.
static void c133_no_heads(void **state)
{
    (void)state;
    for (int op = ATTN_FORWARD; op <= ATTN_BACKWARD; op++) {
        const attn_desc_t desc = case_desc(ATTN_F16, 2, 8, 8, 0, 0, 16);
        attn_plan_t *plan = NULL;
        const attn_status_t status = attn_plan_create(NULL, &desc, (attn_op_t)op, &plan);
        assert_true(status == ATTN_INVALID_ARGUMENT || status == ATTN_OK);
        attn_plan_destroy(plan);
    }
}

// ---- C-134: a dense window mask in a long sequence

static double ten_keys(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)user;
    (void)b;
    (void)h;
    return j > i || i - j >= 10 ? -INFINITY : 0.0;
}

static void every_row_is_one(const problem_t *p, const results_t *r)
{
    const double score = (double)p->full.d_qk * (double)p->full.scale;
    case_all_are(&r->o, 1.0, 1e-6);
    for (int64_t i = 0; i < p->full.s_q; i++) {
        const double seen = i + 1 < 10 ? (double)(i + 1) : 10.0;
        case_lse_is(r, 0, 0, i, score + log(seen), 1e-5);
    }
}

static void c134_dense_window_mask(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{600, 2}, {640, 4}, {600, 4}, {640, 2}};
    for (int64_t n = 0; n < COUNT_OF(sizes); n++) {
        const int64_t s = sizes[n][0];
        attn_desc_t desc = case_desc(ATTN_F32, 1, s, s, 1, 1, sizes[n][1]);
        attn_desc_t window = desc;
        window.causal = 1;
        window.window_left = 9;
        problem_t *p = problem_create(&window, OPTIONS(.seed = 134, .fill = FILL_ONES));
        case_run_everywhere(p, every_row_is_one);
        results_t by_window = case_run(p);
        desc.bias = (attn_mask_tensor_t){.present = 1,
                                         .dtype = ATTN_F32,
                                         .stride_b = 0,
                                         .stride_h = 0,
                                         .stride_q = s,
                                         .stride_k = 1};
        problem_t *biased =
            problem_create(&desc, OPTIONS(.seed = 134, .fill = FILL_ONES, .bias = ten_keys));
        case_run_everywhere(biased, every_row_is_one);
        results_t by_bias = case_run(biased);
        assert_true(case_distance(&by_window.o, &by_bias.o) <= 1e-6);
        assert_true(case_distance(&by_window.lse, &by_bias.lse) <= 1e-6);
        results_destroy(&by_window);
        results_destroy(&by_bias);
        problem_destroy(biased);
        problem_destroy(p);
    }
}

// ---- C-136: masks of size 1 or transposed, queries with every second element

static void c136_masks_and_queries_with_odd_strides(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    for (int64_t n = 0; n < COUNT_OF(dtypes); n++) {
        attn_desc_t desc = case_desc(dtypes[n], 2, 33, 70, 4, 4, 16);
        desc.q.stride_d = 2;
        desc.q.stride_h = 2 * 16;
        desc.q.stride_s = 4 * 2 * 16;
        desc.q.stride_b = 33 * 4 * 2 * 16;
        const attn_mask_tensor_t shapes[] = {{.present = 1,
                                              .dtype = dtypes[n],
                                              .stride_b = 4 * 33,
                                              .stride_h = 33,
                                              .stride_q = 1,
                                              .stride_k = 0},
                                             {.present = 1,
                                              .dtype = dtypes[n],
                                              .stride_b = 0,
                                              .stride_h = 0,
                                              .stride_q = 0,
                                              .stride_k = 0},
                                             {.present = 1,
                                              .dtype = dtypes[n],
                                              .stride_b = 4 * 33 * 70,
                                              .stride_h = 33 * 70,
                                              .stride_q = 1,
                                              .stride_k = 33}};
        for (int64_t k = 0; k < 2 * COUNT_OF(shapes); k++) {
            attn_desc_t masked = desc;
            *(k % 2 ? &masked.bias : &masked.mask) = shapes[k / 2];
            if (k % 2) {
                masked.dbias = shapes[k / 2];
            }
            case_holds_on_best(
                problem_create(&masked, OPTIONS(.seed = 136 + (uint64_t)k, .backward = true)));
        }
        attn_desc_t transposed = desc;
        transposed.mask = shapes[2];
        case_desc_holds(&transposed, OPTIONS(.seed = 137, .backward = true));
    }
}

// ---- C-137: where results lie does not depend on where inputs lie

static void c137_output_layout_is_the_callers(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 2, 49, 49, 2, 2, 32);
    attn_desc_t bhsd = desc;
    assert_ok(attn_desc_set_bhsd(&bhsd));
    for (int n = 0; n < 4; n++) {
        attn_desc_t mixed = desc;
        if (n % 2) {
            mixed.q = bhsd.q;
            mixed.k = bhsd.k;
        }
        if (n / 2) {
            mixed.o = bhsd.o;
        }
        problem_t *p = problem_create(&mixed, OPTIONS(.seed = 137));
        case_set_normal(&p->q, 1, 0.0, 1.0);
        case_set_normal(&p->k, 2, 0.0, 1.0);
        case_set_normal(&p->v, 3, 0.0, 1.0);
        results_t r = case_run(p);
        // Automatic strides are dense (b, s, h, d).
        const int64_t stride_s = n / 2 ? 32 : 2 * 32;
        assert_int_equal(r.o.strides[1], stride_s);
        assert_null(operand_damage(&r.o, true));
        results_destroy(&r);
        case_holds(p);
    }
}

// ---- C-139: work for every thread, memory for none of S * S

typedef struct counting_pool {
    int64_t most_tasks;
} counting_pool_t;

static void count_tasks(void *user, int64_t count, attn_task_fn task, void *task_arg)
{
    counting_pool_t *pool = user;
    pool->most_tasks = count > pool->most_tasks ? count : pool->most_tasks;
    for (int64_t i = 0; i < count; i++) {
        task(task_arg, i, (int32_t)(i % 16));
    }
}

static void c139_one_head_has_work_for_sixteen_threads(void **state)
{
    (void)state;
    const attn_desc_t descs[] = {case_desc(ATTN_F32, 1, 1024, 1024, 1, 1, 64),
                                 case_desc(ATTN_F32, 1, 1, 65536, 8, 1, 16)};
    for (int64_t n = 0; n < COUNT_OF(descs); n++) {
        problem_t *p = problem_create(&descs[n], OPTIONS(.seed = 139));
        counting_pool_t pool = {0};
        attn_isa_t isas[ATTN_ISA_COUNT];
        const runner_t runner = {.backend = ATTN_BACKEND_CPU,
                                 .isa = isas[problem_isas(isas) - 1],
                                 .workers = 16,
                                 .parallel_for = count_tasks,
                                 .parallel_for_user = &pool};
        results_t r = assert_problem_runs(p, &runner);
        assert_true(pool.most_tasks >= 16);
        results_destroy(&r);
        problem_destroy(p);
    }
}

static size_t workspace_of(const attn_desc_t *desc, attn_op_t op)
{
    attn_context_config_t config;
    attn_context_t *context;
    attn_plan_t *plan;
    attn_context_config_init(&config);
    config.workers = 16;
    config.parallel_for = count_tasks; // never called
    assert_ok(attn_context_create(&config, &context));
    assert_ok(attn_plan_create(context, desc, op, &plan));
    const size_t bytes = attn_plan_workspace_bytes(plan);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    return bytes;
}

static void c139_memory_does_not_grow_with_s_times_s(void **state)
{
    (void)state;
    const size_t most = (size_t)64 << 20;
    attn_desc_t desc = case_desc(ATTN_F32, 1, 4096, 4096, 1, 1, 64);
    assert_true(workspace_of(&desc, ATTN_FORWARD) < most);
    desc = case_desc(ATTN_F32, 1, 1, 65536, 8, 1, 64);
    assert_true(workspace_of(&desc, ATTN_FORWARD) < most);
    desc = case_desc(ATTN_F32, 1, 32768, 32768, 1, 1, 64);
    assert_true(workspace_of(&desc, ATTN_FORWARD) < most);
    // Twice the length: at most twice the memory.
    attn_desc_t longer = desc;
    longer.s_q = longer.s_kv = 65536;
    for (int op = ATTN_FORWARD; op <= ATTN_BACKWARD; op++) {
        const size_t bytes = workspace_of(&desc, (attn_op_t)op);
        assert_true(workspace_of(&longer, (attn_op_t)op) <= 2 * bytes + ((size_t)1 << 20));
        assert_true(bytes < (size_t)32768 * 32768);
    }
}

// ---- C-145: messages name the argument, what came and what was expected

static void c145_dtype_errors_name_the_dtypes(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_F32, 1, 4, 4, 2, 2, 8);
    desc.v.dtype = ATTN_BF16;
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "v.dtype");
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "bf16");
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "f32");
    desc = case_desc(ATTN_F32, 1, 4, 4, 2, 2, 8);
    assert_ok(attn_supports(NULL, &desc, ATTN_FORWARD));
    assert_ok(attn_supports(NULL, &desc, ATTN_BACKWARD));
    desc.q.dtype = (attn_dtype_t)99;
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "q.dtype");
    desc = case_desc(ATTN_F32, 1, 4, 4, 2, 2, 8);
    desc.o.dtype = ATTN_F16;
    case_refused(&desc, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "o.dtype");
}

static void c145_fp64_is_for_the_reference(void **state)
{
    (void)state;
    const attn_desc_t desc = case_desc(ATTN_F64, 1, 4, 4, 2, 2, 8);
    attn_plan_t *plan = NULL;
    const attn_status_t status = attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan);
    assert_true(status == ATTN_UNSUPPORTED || status == ATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(attn_last_error(), "f64"));
    attn_desc_t reference = desc;
    reference.backend = ATTN_BACKEND_REFERENCE;
    assert_ok(attn_supports(NULL, &reference, ATTN_FORWARD));
}

static void c145_other_errors_name_their_numbers(void **state)
{
    (void)state;
    const attn_desc_t heads = case_desc(ATTN_F32, 1, 4, 4, 6, 4, 8);
    case_refused(&heads, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "6");
    const attn_desc_t wide = case_desc(ATTN_F32, 1, 4, 4, 2, 2, 65537);
    case_refused(&wide, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "65537");
    const attn_desc_t rows = case_desc(ATTN_F32, 1, -3, 4, 2, 2, 8);
    case_refused(&rows, ATTN_FORWARD, ATTN_INVALID_ARGUMENT, "s_q: -3");
}

// ---- C-148: a key-padding mask with causal costs what it stores

static bool is_not_padding(void *user, int64_t b, int64_t h, int64_t i, int64_t j)
{
    (void)h;
    (void)i;
    return j < ((const int32_t *)user)[b];
}

static void c148_key_padding_with_causal_costs_nothing(void **state)
{
    (void)state;
    int32_t lens[] = {200, 1, 77, 133};
    attn_desc_t plain = case_desc(ATTN_BF16, 4, 200, 200, 2, 2, 64);
    plain.causal = 1;
    plain.align = ATTN_ALIGN_TOP_LEFT;
    attn_desc_t by_length = plain;
    by_length.has_seqused_kv = 1;
    attn_desc_t by_mask = plain;
    by_mask.mask = (attn_mask_tensor_t){
        .present = 1, .stride_b = 200, .stride_h = 0, .stride_q = 0, .stride_k = 1};
    for (int op = ATTN_FORWARD; op <= ATTN_BACKWARD; op++) {
        const size_t bytes = workspace_of(&plain, (attn_op_t)op);
        assert_true(workspace_of(&by_length, (attn_op_t)op) <= bytes + ((size_t)1 << 20));
        assert_true(workspace_of(&by_mask, (attn_op_t)op) <= bytes + ((size_t)16 << 20));
    }
    // The three ways to say it agree.
    problem_t *masked = problem_create(
        &by_mask, OPTIONS(.seed = 148, .backward = true, .mask = is_not_padding, .user = lens));
    problem_t *used =
        problem_create(&by_length, OPTIONS(.seed = 148, .backward = true, .seqused_kv = lens));
    memcpy(used->q.buffer.data, masked->q.buffer.data, masked->q.buffer.bytes);
    memcpy(used->k.buffer.data, masked->k.buffer.data, masked->k.buffer.bytes);
    memcpy(used->v.buffer.data, masked->v.buffer.data, masked->v.buffer.bytes);
    memcpy(used->do_.buffer.data, masked->do_.buffer.data, masked->do_.buffer.bytes);
    results_t x = case_run(masked);
    results_t y = case_run(used);
    assert_true(case_distance(&x.o, &y.o) <= 0.02);
    assert_true(case_distance(&x.dk, &y.dk) <= 0.1);
    results_destroy(&x);
    results_destroy(&y);
    case_holds_on_best(used);
    case_holds_on_best(masked);
}

static void c148_long_sequence_with_lengths_only(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 131072, 131072, 1, 1, 64);
    const size_t plain = workspace_of(&desc, ATTN_FORWARD);
    desc.has_seqused_kv = 1;
    desc.causal = 1;
    assert_true(workspace_of(&desc, ATTN_FORWARD) <= plain + ((size_t)1 << 20));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c133_zero_counts),
        cmocka_unit_test(c133_no_heads),
        cmocka_unit_test(c134_dense_window_mask),
        cmocka_unit_test(c136_masks_and_queries_with_odd_strides),
        cmocka_unit_test(c137_output_layout_is_the_callers),
        cmocka_unit_test(c139_one_head_has_work_for_sixteen_threads),
        cmocka_unit_test(c139_memory_does_not_grow_with_s_times_s),
        cmocka_unit_test(c145_dtype_errors_name_the_dtypes),
        cmocka_unit_test(c145_fp64_is_for_the_reference),
        cmocka_unit_test(c145_other_errors_name_their_numbers),
        cmocka_unit_test(c148_key_padding_with_causal_costs_nothing),
        cmocka_unit_test(c148_long_sequence_with_lengths_only),
    };
    return case_main("cases_cpu", tests, COUNT_OF(tests), argc, argv);
}
