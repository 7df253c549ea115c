// The CPU backward pass against the fp64 reference: the tile edges of backward_block.c, each option
// with the mask shapes that it meets there, NaN that must stay where it is, and a seeded sweep over
// all options at once.
//
// test_cpu_backward SEED COUNT runs draws SEED .. SEED + COUNT - 1 of the sweep alone.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

static attn_desc_t plain(attn_dtype_t dtype, int64_t s_q, int64_t s_kv, int64_t d)
{
    attn_desc_t desc;
    attn_desc_init(&desc, dtype);
    attn_desc_set_shape(&desc, 2, s_q, s_kv, 4, 2, d);
    desc.wants_lse = 1;
    return desc;
}

static void check(const attn_desc_t *desc, const problem_options_t *options)
{
    problem_options_t with_backward = *options;
    with_backward.backward = true;
    problem_t *problem = problem_create(desc, &with_backward);
    assert_problem_holds(problem);
    problem_destroy(problem);
}

static void check_plainly(const attn_desc_t *desc, uint64_t seed)
{
    check(desc, &(problem_options_t){.seed = seed});
}

// -------------------------------------------------------------------------------------------------
// Shapes

static void test_tile_edges(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 16},    {1, 128, 64}, {63, 65, 1},   {64, 256, 64},
                                       {65, 257, 65}, {17, 33, 33}, {130, 12, 31}, {5, 300, 130}};
    for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++) {
        for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
            attn_desc_t desc = plain((attn_dtype_t)dtype, sizes[n][0], sizes[n][1], sizes[n][2]);
            desc.causal = n % 2 == 1;
            desc.align = n % 4 == 1 ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
            check_plainly(&desc, n);
        }
    }
}

static void test_lengths_of_zero(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        attn_desc_t desc = plain(ATTN_F32, n % 2 ? 0 : 5, n / 2 ? 0 : 7, 8);
        check_plainly(&desc, 1);
        desc.batch = 0;
        check_plainly(&desc, 1);
    }
}

// Keys and rows behind the used lengths get zeros, wherever the lengths cut a panel.
static void test_used_lengths(void **state)
{
    (void)state;
    for (int32_t used = 0; used < 40; used += 3) {
        attn_desc_t desc = plain(used % 2 ? ATTN_BF16 : ATTN_F32, 20, 40, 8);
        const int32_t used_q[] = {20, used / 2};
        const int32_t used_kv[] = {used, 40 - used};
        desc.has_seqused_q = 1;
        desc.has_seqused_kv = 1;
        check(&desc, &(problem_options_t){.seed = 10, .seqused_q = used_q, .seqused_kv = used_kv});
    }
}

static void test_large_dims(void **state)
{
    (void)state;
    attn_desc_t desc = plain(ATTN_F32, 9, 70, 576);
    desc.d_v = 512;
    check_plainly(&desc, 1);
    desc.d_qk = 1100;
    desc.d_v = 3;
    check_plainly(&desc, 2);
}

// One head and many keys: dq is the sum of several splits' parts.
static void test_split_keys(void **state)
{
    (void)state;
    for (int window = 0; window < 3; window++) {
        attn_desc_t desc = plain(window == 2 ? ATTN_BF16 : ATTN_F32, 20, 1100, 8);
        desc.batch = 1;
        desc.heads_q = 1;
        desc.heads_kv = 1;
        desc.causal = window > 0;
        desc.window_left = window == 1 ? 700 : -1;
        check_plainly(&desc, 3);
    }
}

static void test_groups(void **state)
{
    (void)state;
    static const int64_t heads[][2] = {{7, 1}, {6, 3}, {12, 2}};
    for (size_t n = 0; n < 3; n++) {
        attn_desc_t desc = plain(ATTN_BF16, 70, 70, 24);
        desc.heads_q = heads[n][0];
        desc.heads_kv = heads[n][1];
        desc.causal = 1;
        check_plainly(&desc, n);
    }
}

// -------------------------------------------------------------------------------------------------
// Numbers

static void test_negative_lse(void **state)
{
    (void)state;
    for (int dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
        attn_desc_t desc = plain((attn_dtype_t)dtype, 67, 97, 64);
        check(&desc, &(problem_options_t){.seed = 4, .fill = FILL_NEGATIVE_LSE});
        desc.causal = 1;
        check(&desc, &(problem_options_t){.seed = 5, .fill = FILL_CORRELATED});
    }
}

// A NaN that is seen reaches the rows and keys of its elements, and nothing else in its tile.
static void test_visible_nans(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        attn_desc_t desc = plain(seed % 2 ? ATTN_BF16 : ATTN_F32, 50, 90, 20);
        desc.window_left = seed % 3 == 0 ? 9 : -1;
        desc.causal = seed % 3 == 1;
        desc.mask.present = seed % 4 == 3;
        check(&desc, &(problem_options_t){.seed = seed, .visible_nans = 3});
    }
}

// An infinity makes some rows NaN and gives weight 0 in others, where 0 * inf is NaN in their dq
// alone.
static void test_visible_infinity(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        attn_desc_t desc = plain(n % 2 ? ATTN_BF16 : ATTN_F32, 40, 50, 20);
        desc.causal = n < 2;
        problem_t *problem =
            problem_create(&desc, &(problem_options_t){.seed = 11, .backward = true});
        operand_set(&problem->k, 0, 17, 0, 3, (double)INFINITY);
        operand_set(&problem->do_, 1, 30, 1, 3, (double)INFINITY);
        assert_problem_holds(problem);
        problem_destroy(problem);
    }
}

static void assert_same_bits(const attn_desc_t *desc, const problem_options_t options[2],
                             const runner_t runners[2])
{
    results_t results[2];
    for (int n = 0; n < 2; n++) {
        problem_t *problem = problem_create(desc, &options[n]);
        results[n] = assert_problem_runs(problem, &runners[n]);
        problem_destroy(problem);
    }
    assert_true(operand_equal_bits(&results[0].dq, &results[1].dq));
    assert_true(operand_equal_bits(&results[0].dk, &results[1].dk));
    assert_true(operand_equal_bits(&results[0].dv, &results[1].dv));
    results_destroy(&results[0]);
    results_destroy(&results[1]);
}

// What nothing sees changes no bit: NaN there gives what finite numbers give.
static void test_unseen_nans_change_no_bit(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        attn_desc_t desc = plain(n % 2 ? ATTN_BF16 : ATTN_F32, 70, 90, 24);
        desc.mask.present = n < 2;
        desc.has_seqused_q = n >= 2;
        desc.has_seqused_kv = n >= 2;
        desc.has_leftpad_kv = n >= 4;
        desc.causal = 1;
        const problem_options_t options[] = {{.seed = 8, .backward = true},
                                             {.seed = 8, .backward = true, .no_nan_unseen = true}};
        const runner_t runners[2] = {{.backend = ATTN_BACKEND_CPU}, {.backend = ATTN_BACKEND_CPU}};
        assert_same_bits(&desc, options, runners);
    }
}

static void test_threads_change_no_bit(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        attn_desc_t desc = plain(n ? ATTN_BF16 : ATTN_F32, 130, 1100, 16);
        const problem_options_t options[] = {{.seed = 9, .backward = true},
                                             {.seed = 9, .backward = true}};
        const runner_t runners[] = {{.backend = ATTN_BACKEND_CPU, .workers = 1},
                                    {.backend = ATTN_BACKEND_CPU, .workers = 3}};
        assert_same_bits(&desc, options, runners);
    }
}

// -------------------------------------------------------------------------------------------------
// Results that are not asked for

static void test_optional_results(void **state)
{
    (void)state;
    for (int n = 0; n < 8; n++) {
        attn_desc_t desc = plain(n % 2 ? ATTN_BF16 : ATTN_F32, 33, 65, 16);
        desc.bias.present = 1;
        desc.dbias.present = 1;
        desc.dbias.dtype = desc.q.dtype;
        desc.bias.dtype = desc.q.dtype;
        desc.dq.dtype = n & 4 ? ATTN_F32 : desc.q.dtype;
        check(&desc,
              &(problem_options_t){
                  .seed = 6, .no_dq = (n & 1) != 0, .no_dk = (n & 2) != 0, .no_dv = (n & 4) != 0});
    }
}

// Strides of a (batch, heads_q, s_q, s_kv) operand without the dimensions in the set: bit 0 is b,
// bit 3 is k.
static void set_broadcast(const attn_desc_t *desc, attn_mask_tensor_t *tensor, attn_dtype_t dtype,
                          int broadcast)
{
    const int64_t sizes[] = {desc->batch, desc->heads_q, desc->s_q, desc->s_kv};
    int64_t *strides[] = {&tensor->stride_b, &tensor->stride_h, &tensor->stride_q,
                          &tensor->stride_k};
    int64_t stride = 1;
    tensor->present = 1;
    tensor->dtype = dtype;
    for (int n = 3; n >= 0; n--) {
        *strides[n] = broadcast >> n & 1 ? 0 : stride;
        stride *= broadcast >> n & 1 ? 1 : sizes[n];
    }
}

// Every set of broadcast dimensions of the bias gradient.
static void test_bias_gradient_sums(void **state)
{
    (void)state;
    for (int n = 0; n < 16; n++) {
        attn_desc_t desc = plain(ATTN_F32, 70, 140, 16);
        set_broadcast(&desc, &desc.bias, ATTN_F32, n);
        set_broadcast(&desc, &desc.dbias, ATTN_F32, n);
        desc.causal = n % 3 == 0;
        desc.softcap = n % 3 == 1 ? 2.0f : 0.0f;
        check_plainly(&desc, (uint64_t)n);
    }
}

// -------------------------------------------------------------------------------------------------
// The sweep

static int64_t draw_size(test_rng_t *rng, int64_t most)
{
    return test_rng_chance(rng, 5) ? 0
                                   : test_rng_range(rng, 1, test_rng_chance(rng, 50) ? most : 40);
}

static void draw_broadcast(test_rng_t *rng, const attn_desc_t *desc, attn_mask_tensor_t *tensor,
                           attn_dtype_t dtype)
{
    int broadcast = 0;
    for (int n = 0; n < 4; n++) {
        broadcast |= test_rng_chance(rng, 25) << n;
    }
    set_broadcast(desc, tensor, dtype, broadcast);
}

static void draw_lengths(test_rng_t *rng, attn_desc_t *desc)
{
    desc->varlen_q = test_rng_chance(rng, 20);
    desc->varlen_kv = test_rng_chance(rng, 20);
    desc->total_q = desc->varlen_q ? desc->batch * desc->s_q + 2 : 0;
    desc->total_kv = desc->varlen_kv ? desc->batch * desc->s_kv + 2 : 0;
    desc->has_seqused_q = test_rng_chance(rng, 15);
    desc->has_seqused_kv = test_rng_chance(rng, 15);
    desc->has_leftpad_kv = test_rng_chance(rng, 15);
}

static void draw_masks(test_rng_t *rng, attn_desc_t *desc)
{
    desc->causal = test_rng_chance(rng, 40);
    desc->align = test_rng_chance(rng, 30) ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
    if (test_rng_chance(rng, 30)) {
        desc->window_left = test_rng_range(rng, 0, 60);
    }
    if (!desc->causal && test_rng_chance(rng, 20)) {
        desc->window_right = test_rng_range(rng, 0, 60);
    }
    if (test_rng_chance(rng, 15)) {
        draw_broadcast(rng, desc, &desc->mask, ATTN_F32);
    }
    if (test_rng_chance(rng, 15)) {
        desc->block_sparse = 1;
        desc->block_q = test_rng_range(rng, 1, 70);
        desc->block_kv = test_rng_range(rng, 1, 70);
        desc->blocks_per_row = (desc->s_kv + desc->block_kv - 1) / desc->block_kv;
    }
}

static void draw_options(test_rng_t *rng, attn_desc_t *desc)
{
    desc->softcap = test_rng_chance(rng, 20) ? 1.5f : 0.0f;
    desc->dropout_p = test_rng_chance(rng, 20) ? 0.3f : 0.0f;
    desc->has_alibi = test_rng_chance(rng, 15);
    desc->alibi_stride_b = test_rng_chance(rng, 50) ? desc->heads_q : 0;
    desc->has_sink = test_rng_chance(rng, 20);
    desc->wants_dsink = desc->has_sink;
    desc->has_dlse = test_rng_chance(rng, 30);
    if (test_rng_chance(rng, 25)) {
        draw_broadcast(rng, desc, &desc->bias, desc->q.dtype);
        draw_broadcast(rng, desc, &desc->dbias,
                       test_rng_chance(rng, 50) ? ATTN_F32 : desc->q.dtype);
    }
    desc->dq.dtype = test_rng_chance(rng, 20) ? ATTN_F32 : desc->dq.dtype;
    desc->dk.dtype = test_rng_chance(rng, 20) ? ATTN_F32 : desc->dk.dtype;
    desc->dv.dtype = test_rng_chance(rng, 20) ? ATTN_F32 : desc->dv.dtype;
}

static void sweep(uint64_t seed)
{
    test_rng_t rng = test_rng_at(20240611, seed);
    static const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_BF16};
    attn_desc_t desc;
    attn_desc_init(&desc, dtypes[test_rng_range(&rng, 0, 3)]);
    const int64_t heads_kv = test_rng_range(&rng, 1, 3);
    const int64_t group = test_rng_range(&rng, 1, 3);
    attn_desc_set_shape(&desc, test_rng_range(&rng, 1, 2), draw_size(&rng, 150),
                        draw_size(&rng, 330), heads_kv * group, heads_kv,
                        test_rng_range(&rng, 1, 70));
    desc.d_v = test_rng_chance(&rng, 50) ? desc.d_qk : test_rng_range(&rng, 1, 70);
    desc.wants_lse = 1;
    draw_lengths(&rng, &desc);
    draw_masks(&rng, &desc);
    draw_options(&rng, &desc);
    if (!desc.varlen_q && !desc.varlen_kv && test_rng_chance(&rng, 30)) {
        assert_ok(attn_desc_set_bhsd(&desc));
    }
    const problem_options_t options = {
        .seed = seed,
        .backward = true,
        .fill = test_rng_chance(&rng, 15) ? FILL_NEGATIVE_LSE : FILL_NORMAL,
        .visible_nans = test_rng_chance(&rng, 15) ? 2 : 0,
        .misalign = test_rng_range(&rng, 0, 3),
    };
    problem_t *problem = problem_create(&desc, &options);
    char why[1024];
    if (!problem_holds(problem, why, sizeof(why))) {
        fail_msg("test_cpu_backward %llu 1: %s", (unsigned long long)seed, why);
    }
    problem_destroy(problem);
}

static uint64_t sweep_first = 0;
static uint64_t sweep_count = 24;

static void test_sweep(void **state)
{
    (void)state;
    for (uint64_t seed = sweep_first; seed < sweep_first + sweep_count; seed++) {
        sweep(seed);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_tile_edges),
        cmocka_unit_test(test_lengths_of_zero),
        cmocka_unit_test(test_large_dims),
        cmocka_unit_test(test_split_keys),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_used_lengths),
        cmocka_unit_test(test_visible_infinity),
        cmocka_unit_test(test_unseen_nans_change_no_bit),
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_negative_lse),
        cmocka_unit_test(test_visible_nans),
        cmocka_unit_test(test_optional_results),
        cmocka_unit_test(test_bias_gradient_sums),
    };
    if (argc == 3) {
        const struct CMUnitTest one[] = {cmocka_unit_test(test_sweep)};
        sweep_first = strtoull(argv[1], NULL, 10);
        sweep_count = strtoull(argv[2], NULL, 10);
        return cmocka_run_group_tests(one, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
