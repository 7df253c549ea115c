// test_cases_strides.c: views: stride 0, inner strides other than 1, slices, broadcast masks, and
// plans that must not be mixed up. Cases C-097 to C-104: README.md.
#include "case_kit.h"

#include <stdio.h>

// ---- C-097: the gradient of a sum is one number with all strides 0

static void c097_output_gradient_with_stride_zero(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_BF16, ATTN_F32, ATTN_F16};
    for (int64_t n = 0; n < COUNT_OF(dtypes); n++) {
        attn_desc_t desc = case_desc(dtypes[n], 1, 5, 5, 2, 2, 8);
        desc.causal = 1;
        desc.do_.stride_b = desc.do_.stride_s = desc.do_.stride_h = desc.do_.stride_d = 0;
        problem_t *p = problem_create(&desc, OPTIONS(.seed = 97, .backward = true));
        operand_set_all(&p->do_, 1.0);
        results_t r = case_run(p);
        for (int64_t h = 0; h < 2; h++) {
            double total = 0.0;
            for (int64_t j = 0; j < 5; j++) {
                const double first = operand_get(&r.dv, 0, j, h, 0);
                total += first;
                case_row_is(&r.dv, 0, j, h, first, 0.0);
            }
            assert_true(fabs(total - 5.0) < 0.05);
        }
        results_destroy(&r);
        case_holds(p);
    }
}

// ---- C-098: last stride other than 1

static void set_dim_major(attn_tensor_t *tensor, int64_t s, int64_t heads, int64_t d)
{
    tensor->stride_s = 1;
    tensor->stride_d = s;
    tensor->stride_h = s * d;
    tensor->stride_b = s * d * heads;
}

static void c098_last_stride_is_not_one(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_BF16, ATTN_F32};
    for (int n = 0; n < 8; n++) {
        attn_desc_t desc = case_desc(dtypes[n % 2], 2, 64, 64, 2, 2, 32);
        desc.causal = n / 2 % 2;
        problem_t *dense = problem_create(&desc, OPTIONS(.seed = 98, .backward = true));
        results_t expected = case_run(dense);
        attn_desc_t other = desc;
        set_dim_major(&other.q, 64, 2, 32);
        if (n / 4) { // inputs and results too
            set_dim_major(&other.k, 64, 2, 32);
            set_dim_major(&other.v, 64, 2, 32);
            set_dim_major(&other.o, 64, 2, 32);
            set_dim_major(&other.do_, 64, 2, 32);
            set_dim_major(&other.dq, 64, 2, 32);
            set_dim_major(&other.dk, 64, 2, 32);
            set_dim_major(&other.dv, 64, 2, 32);
        }
        problem_t *p = problem_create(&other, OPTIONS(.seed = 98, .backward = true));
        results_t r = case_run(p);
        if (case_is_comparable(&expected, &r)) {
            assert_true(case_distance(&expected.o, &r.o) == 0.0);
            assert_true(case_distance(&expected.dq, &r.dq) == 0.0);
            assert_true(case_distance(&expected.dk, &r.dk) == 0.0);
            assert_true(case_distance(&expected.dv, &r.dv) == 0.0);
        }
        results_destroy(&r);
        results_destroy(&expected);
        problem_destroy(dense);
        case_holds(p);
    }
}

static void c098_negative_strides(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        attn_desc_t desc = case_desc(n % 2 ? ATTN_BF16 : ATTN_F32, 2, 40, 70, 2, 1, 24);
        attn_tensor_t *const tensors[] = {&desc.q, &desc.k, &desc.v, &desc.o, &desc.dk};
        const int64_t rows[] = {40, 70, 70, 40, 70};
        const int64_t heads[] = {2, 1, 1, 2, 1};
        for (int k = 0; k < 5; k++) {
            tensors[k]->stride_b = -rows[k] * heads[k] * 24;
            tensors[k]->stride_s = -heads[k] * 24;
            tensors[k]->stride_h = n / 2 ? -24 : 24;
            tensors[k]->stride_d = n / 2 ? -1 : 1;
        }
        case_desc_holds(&desc, OPTIONS(.seed = 98, .backward = true));
    }
}

// ---- C-100: K and V of one head, or one batch entry, expanded to many

static void check_expanded(int64_t s_kv, int64_t d, bool over_batch, bool over_heads)
{
    attn_desc_t desc = case_desc(ATTN_BF16, 2, 5, s_kv, 4, 4, d);
    desc.mask.present = 1;
    attn_desc_t expanded = desc;
    attn_tensor_t *const tensors[] = {&expanded.k, &expanded.v};
    for (int n = 0; n < 2; n++) {
        tensors[n]->stride_d = 1;
        tensors[n]->stride_h = over_heads ? 0 : d;
        tensors[n]->stride_s = over_heads ? d : 4 * d;
        tensors[n]->stride_b = over_batch ? 0 : s_kv * tensors[n]->stride_s;
    }
    problem_t *p = problem_create(&expanded, OPTIONS(.seed = 100, .backward = true));
    operand_t *const shown = &p->mask;
    memset(shown->buffer.data, 1, shown->buffer.bytes);
    case_set_normal(&p->q, 1, 0.0, 1.0);
    case_set_normal(&p->k, 2, 0.0, 1.0);
    case_set_normal(&p->v, 3, 0.0, 1.0);
    problem_t *copy = problem_create(&desc, OPTIONS(.seed = 100, .backward = true));
    memset(copy->mask.buffer.data, 1, copy->mask.buffer.bytes);
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t j = 0; j < s_kv; j++) {
            case_copy_row(&copy->k, b, j, &p->k, b, j);
            case_copy_row(&copy->v, b, j, &p->v, b, j);
        }
        for (int64_t i = 0; i < 5; i++) {
            case_copy_row(&copy->q, b, i, &p->q, b, i);
            case_copy_row(&copy->do_, b, i, &p->do_, b, i);
        }
    }
    results_t r = case_run(p);
    results_t expected = case_run(copy);
    case_same_result_bits(&expected, &r);
    results_destroy(&r);
    results_destroy(&expected);
    problem_destroy(copy);
    case_holds_on_best(p);
}

static void c100_broadcast_keys_and_values(void **state)
{
    (void)state;
    const int64_t lengths[] = {33, 65, 97, 129};
    for (int64_t n = 0; n < COUNT_OF(lengths); n++) {
        check_expanded(lengths[n], n ? 72 : 512, false, true);
        check_expanded(lengths[n], 64, true, n % 2);
    }
}

// ---- C-101: K and V are a slice of a longer tensor, and so are their gradients

static void c101_sliced_keys_have_sliced_gradients(void **state)
{
    (void)state;
    enum { FULL = 320, CUT = 128, HEADS = 2, DIM = 64 };
    attn_desc_t desc = case_desc(ATTN_BF16, 2, FULL, FULL, HEADS, HEADS, DIM);
    assert_ok(attn_desc_set_bhsd(&desc));
    problem_t *full = problem_create(&desc, OPTIONS(.seed = 101, .backward = true));
    results_t warm_up = case_run(full); // the full size first
    results_destroy(&warm_up);
    attn_desc_t slice = desc; // strides of the full tensors
    slice.s_kv = FULL - CUT;
    problem_t *p = problem_create(&slice, OPTIONS(.seed = 101, .backward = true));
    operand_set_all(&p->do_, 1.0);
    results_t r = case_run(p); // the rows that are cut off are holes, which must stay as they are
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t h = 0; h < HEADS; h++) {
            double total = 0.0;
            for (int64_t j = 0; j < FULL - CUT; j++) {
                total += operand_get(&r.dv, b, j, h, 7);
            }
            assert_true(fabs(total - FULL) < 0.01 * FULL);
        }
    }
    attn_desc_t clone = slice;
    clone.k.stride_h = clone.v.stride_h = clone.dk.stride_h = clone.dv.stride_h =
        (FULL - CUT) * DIM;
    clone.k.stride_b = clone.v.stride_b = clone.dk.stride_b = clone.dv.stride_b =
        HEADS * (FULL - CUT) * DIM;
    problem_t *dense = problem_create(&clone, OPTIONS(.seed = 101, .backward = true));
    operand_set_all(&dense->do_, 1.0);
    results_t expected = case_run(dense);
    if (case_is_comparable(&expected, &r)) {
        assert_true(case_distance(&expected.dk, &r.dk) == 0.0);
        assert_true(case_distance(&expected.dv, &r.dv) == 0.0);
    }
    results_destroy(&r);
    results_destroy(&expected);
    problem_destroy(dense);
    problem_destroy(full);
    case_holds_on_best(p);
}

// ---- C-103: a second call that differs in one thing is not the first call again

typedef struct twin {
    const char *what;
    attn_desc_t desc;
    int64_t misalign;
} twin_t;

static int64_t make_twins(twin_t twins[16])
{
    const attn_desc_t base = case_desc(ATTN_BF16, 2, 128, 128, 4, 4, 64);
    int64_t n = 0;
    twins[n++] = (twin_t){"contiguous", base, 0};
    twins[n] = (twin_t){"transposed", base, 0};
    assert_ok(attn_desc_set_bhsd(&twins[n++].desc));
    twins[n++] = (twin_t){"fp16", case_desc(ATTN_F16, 2, 128, 128, 4, 4, 64), 0};
    twins[n++] = (twin_t){"moved by one element", base, 1};
    twins[n] = (twin_t){"2 splits", base, 0};
    twins[n++].desc.num_splits = 2;
    twins[n] = (twin_t){"4 splits", base, 0};
    twins[n++].desc.num_splits = 4;
    twins[n] = (twin_t){"scale 0.125", base, 0};
    twins[n++].desc.scale = 0.125f;
    twins[n] = (twin_t){"scale 0.5", base, 0};
    twins[n++].desc.scale = 0.5f;
    twins[n] = (twin_t){"window 16", base, 0};
    twins[n].desc.window_left = 16;
    twins[n++].desc.window_right = 0;
    twins[n] = (twin_t){"window 17", base, 0};
    twins[n].desc.window_left = 17;
    twins[n++].desc.window_right = 0;
    twins[n] = (twin_t){"fp32 output", base, 0};
    twins[n].desc.do_.dtype = ATTN_F32;
    twins[n++].desc.o.dtype = ATTN_F32;
    twins[n] = (twin_t){"broadcast keys", base, 0};
    twins[n].desc.k.stride_h = 0;
    twins[n].desc.k.stride_s = 64;
    twins[n++].desc.k.stride_b = 128 * 64;
    return n;
}

static void c103_plans_are_not_mixed_up(void **state)
{
    (void)state;
    twin_t twins[16];
    const int64_t count = make_twins(twins);
    // Each after one that differs in one thing, and at the end the first again.
    for (int64_t n = 0; n <= count; n++) {
        const twin_t *twin = &twins[n % count];
        problem_t *p = problem_create(
            &twin->desc, OPTIONS(.seed = 103, .backward = true, .misalign = twin->misalign));
        case_holds_on_best(p);
    }
}

// Plans that live at the same time keep their own numbers.
static void c103_plans_side_by_side(void **state)
{
    (void)state;
    twin_t twins[16];
    const int64_t count = make_twins(twins);
    attn_plan_t *plans[16];
    for (int64_t n = 0; n < count; n++) {
        assert_ok(attn_plan_create(NULL, &twins[n].desc, ATTN_FORWARD, &plans[n]));
    }
    for (int64_t n = 0; n < count; n++) {
        problem_t *p =
            problem_create(&twins[n].desc, OPTIONS(.seed = 103, .misalign = twins[n].misalign));
        results_t r;
        char why[1024];
        const attn_status_t status =
            problem_run_plans(p, plans[n], NULL, &p->full, &r, why, sizeof(why));
        if (status != ATTN_OK || !problem_truth(p, why, sizeof(why)) ||
            !problem_judge(p, &r, why, sizeof(why))) {
            fail_msg("%s: %s", twins[n].what, why);
        }
        results_destroy(&r);
        problem_destroy(p);
    }
    for (int64_t n = 0; n < count; n++) {
        attn_plan_destroy(plans[n]);
    }
}

// ---- C-104: broadcast masks

typedef struct mask_shape {
    bool b, h, q, k; // dims that are not 1
} mask_shape_t;

static attn_mask_tensor_t mask_of(const attn_desc_t *desc, mask_shape_t shape, attn_dtype_t dtype)
{
    attn_mask_tensor_t mask = {.present = 1, .dtype = dtype};
    int64_t stride = 1;
    mask.stride_k = shape.k ? stride : 0;
    stride *= shape.k ? desc->s_kv : 1;
    mask.stride_q = shape.q ? stride : 0;
    stride *= shape.q ? desc->s_q : 1;
    mask.stride_h = shape.h ? stride : 0;
    stride *= shape.h ? desc->heads_q : 1;
    mask.stride_b = shape.b ? stride : 0;
    return mask;
}

static const mask_shape_t MASK_SHAPES[] = {
    {false, false, false, true}, {true, false, false, true}, {false, false, true, false},
    {true, false, true, true},   {false, true, true, true},  {false, false, false, false},
    {true, true, true, true},    {false, true, false, false}};

// The same values with every dim stored.
static void expand(operand_t *to, const operand_t *from, bool is_mask)
{
    for (operand_walk_t w = operand_walk(to); !w.done; operand_next(to, &w)) {
        const int64_t *at = w.at;
        if (is_mask) {
            to->buffer.data[operand_index(to, at[0], at[1], at[2], at[3])] =
                from->buffer.data[operand_index(from, at[0], at[1], at[2], at[3])];
        } else {
            operand_set(to, at[0], at[1], at[2], at[3],
                        operand_get(from, at[0], at[1], at[2], at[3]));
        }
    }
}

static void check_broadcast(mask_shape_t shape, bool is_mask, attn_dtype_t dtype)
{
    const mask_shape_t all = {true, true, true, true};
    attn_desc_t desc = case_desc(ATTN_BF16, 2, 77, 93, 4, 2, 64);
    attn_desc_t full = desc;
    *(is_mask ? &desc.mask : &desc.bias) = mask_of(&desc, shape, dtype);
    *(is_mask ? &full.mask : &full.bias) = mask_of(&desc, all, dtype);
    problem_t *p =
        problem_create(&desc, OPTIONS(.seed = 104, .backward = true, .no_nan_unseen = true));
    problem_t *expanded =
        problem_create(&full, OPTIONS(.seed = 104, .backward = true, .no_nan_unseen = true));
    expand(is_mask ? &expanded->mask : &expanded->bias, is_mask ? &p->mask : &p->bias, is_mask);
    memcpy(expanded->q.buffer.data, p->q.buffer.data, p->q.buffer.bytes);
    memcpy(expanded->k.buffer.data, p->k.buffer.data, p->k.buffer.bytes);
    memcpy(expanded->v.buffer.data, p->v.buffer.data, p->v.buffer.bytes);
    memcpy(expanded->do_.buffer.data, p->do_.buffer.data, p->do_.buffer.bytes);
    results_t r = case_run(p);
    results_t same = case_run(expanded);
    case_same_result_bits(&same, &r);
    results_destroy(&r);
    results_destroy(&same);
    problem_destroy(expanded);
    case_holds_on_best(p);
}

static void c104_broadcast_masks_equal_expanded_masks(void **state)
{
    (void)state;
    const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    for (int64_t n = 0; n < COUNT_OF(MASK_SHAPES); n++) {
        check_broadcast(MASK_SHAPES[n], true, ATTN_F32);
        check_broadcast(MASK_SHAPES[n], false, dtypes[n % 3]);
    }
}

// The gradient of a broadcast bias is a sum; it too is never made in full first.
static void c104_gradient_of_a_broadcast_bias(void **state)
{
    (void)state;
    for (int64_t n = 0; n < COUNT_OF(MASK_SHAPES); n++) {
        attn_desc_t desc = case_desc(n % 2 ? ATTN_BF16 : ATTN_F32, 2, 37, 45, 4, 2, 16);
        desc.bias = mask_of(&desc, MASK_SHAPES[n], ATTN_F32);
        desc.dbias = desc.bias;
        case_desc_holds(&desc, OPTIONS(.seed = 104, .backward = true));
    }
}

static void c104_masks_cost_no_square_memory(void **state)
{
    (void)state;
    attn_desc_t desc = case_desc(ATTN_BF16, 1, 4096, 4096, 2, 2, 64);
    attn_desc_t longer = desc;
    longer.s_kv = 65536;
    attn_desc_t *const descs[] = {&desc, &longer};
    size_t bytes[2];
    for (int op = ATTN_FORWARD; op <= ATTN_BACKWARD; op++) {
        for (int n = 0; n < 2; n++) {
            attn_plan_t *plan;
            descs[n]->num_splits = 1;
            descs[n]->mask = mask_of(descs[n], MASK_SHAPES[2], ATTN_F32);
            descs[n]->bias = mask_of(descs[n], MASK_SHAPES[0], ATTN_F32);
            assert_ok(attn_plan_create(NULL, descs[n], (attn_op_t)op, &plan));
            bytes[n] = attn_plan_workspace_bytes(plan);
            attn_plan_destroy(plan);
        }
        // Far below one byte per element of the expanded mask, and not growing with s_q * s_kv.
        assert_true(bytes[0] < (size_t)4096 * 4096 * 2);
        assert_true(bytes[1] < (size_t)4096 * 65536 / 4);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(c097_output_gradient_with_stride_zero),
    cmocka_unit_test(c098_last_stride_is_not_one),
    cmocka_unit_test(c098_negative_strides),
    cmocka_unit_test(c100_broadcast_keys_and_values),
    cmocka_unit_test(c101_sliced_keys_have_sliced_gradients),
    cmocka_unit_test(c103_plans_are_not_mixed_up),
    cmocka_unit_test(c103_plans_side_by_side),
    cmocka_unit_test(c104_broadcast_masks_equal_expanded_masks),
    cmocka_unit_test(c104_gradient_of_a_broadcast_bias),
    cmocka_unit_test(c104_masks_cost_no_square_memory),
};

int main(int argc, char **argv)
{
    return case_main("cases_strides", TESTS, COUNT_OF(TESTS), argc, argv);
}
