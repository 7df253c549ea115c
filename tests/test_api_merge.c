// attn_merge: the exact answers of the catalogue's merging cases, empty parts, many parts against
// fp64, layouts, aliasing, and what is refused.
#include "support.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 64 };

// Two parts of one row; returns the lse and writes WIDTH elements of o.
static float merge_two(float lse_a, float o_a, float lse_b, float o_b, float *o)
{
    attn_merge_desc_t desc;
    attn_merge_desc_init(&desc, ATTN_F32);
    desc.parts = 2;
    desc.batch = desc.s_q = desc.heads_q = 1;
    desc.d_v = WIDTH;
    float o_part[2 * WIDTH];
    for (int d = 0; d < WIDTH; d++) {
        o_part[d] = o_a;
        o_part[WIDTH + d] = o_b;
    }
    const float lse_part[2] = {lse_a, lse_b};
    float lse = NAN;
    assert_ok(attn_merge(NULL, &desc, o_part, lse_part, o, &lse, NULL));
    return lse;
}

static void assert_merges(float lse_a, float o_a, float lse_b, float o_b, float lse, float o)
{
    float got[WIDTH];
    const float got_lse = merge_two(lse_a, o_a, lse_b, o_b, got);
    assert_true(got_lse == lse);
    for (int d = 0; d < WIDTH; d++) {
        assert_true(got[d] == o);
    }
}

static void c049_empty_parts_count_nothing(void **state)
{
    (void)state;
    assert_merges(-INFINITY, 0.0f, -INFINITY, 0.0f, -INFINITY, 0.0f);
    assert_merges(-INFINITY, NAN, 0.5f, 3.25f, 0.5f, 3.25f);
    assert_merges(0.5f, 3.25f, -INFINITY, NAN, 0.5f, 3.25f);
    assert_merges(INFINITY, NAN, 0.5f, 3.25f, 0.5f, 3.25f);
    assert_merges(INFINITY, NAN, -INFINITY, NAN, -INFINITY, 0.0f);
}

static void c050_nothing_overflows(void **state)
{
    (void)state;
    assert_merges(-100.0f, 1.0f, 100.0f, 2.0f, 100.0f, 2.0f);
    assert_merges(0.0f, 1.0f, 89.0f, 2.0f, 89.0f, 2.0f);
    assert_merges(-INFINITY, 1.0f, 3.0f, 2.0f, 3.0f, 2.0f);
    assert_merges(3.0f, 1.0f, -INFINITY, 2.0f, 3.0f, 1.0f);
    assert_merges(1e5f, 1.0f, -1e5f, 2.0f, 1e5f, 1.0f);
    assert_merges(1.0f, 1.0f, 1.0f, 3.0f, 1.0f + 0.693147180559945f, 2.0f);
}

static void nan_comes_out(void **state)
{
    (void)state;
    float o[WIDTH];
    assert_true(isnan(merge_two(NAN, 1.0f, 2.0f, 1.0f, o)));
    assert_true(isnan(o[0]) && isnan(o[WIDTH - 1]));
    assert_true(isnan(merge_two(2.0f, 1.0f, NAN, 1.0f, o)));
    assert_true(isnan(o[0]));
    assert_true(merge_two(1.0f, NAN, 1.0f, 1.0f, o) == 1.0f + 0.693147180559945f);
    assert_true(isnan(o[0]));
}

// ---------------------------------------------------------------------------------------------
// Random parts against fp64

typedef struct parts {
    attn_merge_desc_t desc;
    int64_t o_count, lse_count; // of one part
    float *o_part;
    float *lse_part;
} parts_t;

static parts_t parts_create(int64_t parts, int64_t batch, int64_t s_q, int64_t heads, int64_t d_v)
{
    parts_t made = {.o_count = batch * s_q * heads * d_v, .lse_count = batch * s_q * heads};
    attn_merge_desc_init(&made.desc, ATTN_F32);
    made.desc.parts = parts;
    made.desc.batch = batch;
    made.desc.s_q = s_q;
    made.desc.heads_q = heads;
    made.desc.d_v = d_v;
    made.o_part = malloc((size_t)(parts * made.o_count + 1) * sizeof(float));
    made.lse_part = malloc((size_t)(parts * made.lse_count + 1) * sizeof(float));
    assert_non_null(made.o_part);
    assert_non_null(made.lse_part);
    test_rng_t rng = test_rng_at(49, (uint64_t)parts);
    for (int64_t i = 0; i < parts * made.o_count; i++) {
        made.o_part[i] = (float)test_rng_normal(&rng);
    }
    for (int64_t i = 0; i < parts * made.lse_count; i++) {
        made.lse_part[i] =
            test_rng_chance(&rng, 10) ? -INFINITY : 5.0f * (float)test_rng_normal(&rng);
    }
    return made;
}

static void parts_destroy(parts_t *parts)
{
    free(parts->o_part);
    free(parts->lse_part);
}

// Element of the merged o, dense strides. *lse_out may be NULL.
static double merged(const parts_t *parts, int64_t b, int64_t s, int64_t h, int64_t d,
                     double *lse_out)
{
    const attn_merge_desc_t *desc = &parts->desc;
    double sum = 0.0;
    double value = 0.0;
    for (int64_t p = 0; p < desc->parts; p++) {
        const double lse =
            parts->lse_part[((p * desc->batch + b) * desc->heads_q + h) * desc->s_q + s];
        const double o =
            parts
                ->o_part[(((p * desc->batch + b) * desc->s_q + s) * desc->heads_q + h) * desc->d_v +
                         d];
        sum += exp(lse);
        value += exp(lse) * o;
    }
    *lse_out = log(sum);
    return sum == 0.0 ? 0.0 : value / sum;
}

static void assert_merged(const parts_t *parts, const float *o, const float *lse)
{
    const attn_merge_desc_t *desc = &parts->desc;
    for (int64_t b = 0; b < desc->batch; b++) {
        for (int64_t s = 0; s < desc->s_q; s++) {
            for (int64_t h = 0; h < desc->heads_q; h++) {
                double true_lse = 0.0;
                for (int64_t d = 0; d < desc->d_v; d++) {
                    const double truth = merged(parts, b, s, h, d, &true_lse);
                    const int64_t at = ((b * desc->s_q + s) * desc->heads_q + h) * desc->d_v + d;
                    assert_true(fabs((double)o[at] - truth) <= 1e-6);
                }
                const float got = lse[(b * desc->heads_q + h) * desc->s_q + s];
                assert_true(got == (float)true_lse || fabs((double)got - true_lse) <= 1e-6);
            }
        }
    }
}

static void many_parts_are_exact(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 7, 64};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        parts_t parts = parts_create(counts[i], 2, 5, 3, 131);
        float *o = malloc((size_t)parts.o_count * sizeof(float));
        float lse[2 * 5 * 3];
        assert_non_null(o);
        assert_ok(attn_merge(NULL, &parts.desc, parts.o_part, parts.lse_part, o, lse, NULL));
        assert_merged(&parts, o, lse);
        free(o);
        parts_destroy(&parts);
    }
}

// o in part 0's own memory, and no lse wanted.
static void result_may_replace_part_zero(void **state)
{
    (void)state;
    parts_t parts = parts_create(5, 1, 4, 2, 300);
    float *o = malloc((size_t)parts.o_count * sizeof(float));
    assert_non_null(o);
    assert_ok(attn_merge(NULL, &parts.desc, parts.o_part, parts.lse_part, o, NULL, NULL));
    assert_ok(
        attn_merge(NULL, &parts.desc, parts.o_part, parts.lse_part, parts.o_part, NULL, NULL));
    assert_memory_equal(o, parts.o_part, (size_t)parts.o_count * sizeof(float));
    free(o);
    parts_destroy(&parts);
}

// Parts and result (h, b, s) instead of (b, s, h), odd pitches; bf16 out.
static void any_layout_gives_the_same(void **state)
{
    (void)state;
    enum { PARTS = 3, BATCH = 2, ROWS = 4, HEADS = 3, DIM = 5, PITCH = 9 };
    parts_t parts = parts_create(PARTS, BATCH, ROWS, HEADS, DIM);
    float dense[BATCH * ROWS * HEADS * DIM];
    float dense_lse[BATCH * HEADS * ROWS];
    assert_ok(attn_merge(NULL, &parts.desc, parts.o_part, parts.lse_part, dense, dense_lse, NULL));
    static float o_part[PARTS * HEADS * BATCH * ROWS * PITCH];
    attn_merge_desc_t desc = parts.desc;
    desc.o_part_stride_s = PITCH;
    desc.o_part_stride_b = ROWS * PITCH;
    desc.o_part_stride_h = BATCH * ROWS * PITCH;
    desc.o_part_stride_p = HEADS * BATCH * ROWS * PITCH;
    desc.o.dtype = ATTN_BF16;
    desc.o.stride_d = -2;
    desc.o.stride_s = 2 * DIM;
    desc.o.stride_b = 2 * DIM * ROWS;
    desc.o.stride_h = 2 * DIM * ROWS * BATCH;
    desc.lse_stride_s = 3;
    guard_buffer_t out =
        guard_buffer_create((2 * DIM * ROWS * BATCH * HEADS - 1) * sizeof(uint16_t), 2);
    float lse[3 * BATCH * HEADS * ROWS];
    for (int64_t i = 0; i < PARTS * parts.o_count; i++) {
        const int64_t d = i % DIM;
        const int64_t h = i / DIM % HEADS;
        const int64_t s = i / DIM / HEADS % ROWS;
        const int64_t b = i / DIM / HEADS / ROWS % BATCH;
        const int64_t p = i / parts.o_count;
        o_part[(((p * HEADS + h) * BATCH + b) * ROWS + s) * PITCH + d] = parts.o_part[i];
    }
    uint16_t *origin = (uint16_t *)out.data + 2 * (DIM - 1);
    assert_ok(attn_merge(NULL, &desc, o_part, parts.lse_part, origin, lse, NULL));
    for (int64_t i = 0; i < parts.o_count; i++) {
        const int64_t d = i % DIM;
        const int64_t h = i / DIM % HEADS;
        const int64_t s = i / DIM / HEADS % ROWS;
        const int64_t b = i / DIM / HEADS / ROWS;
        const int64_t at = b * desc.o.stride_b + s * desc.o.stride_s + h * desc.o.stride_h;
        assert_true(test_number_get(ATTN_BF16, origin, at + d * desc.o.stride_d) ==
                    test_number_round(ATTN_BF16, (double)dense[i]));
    }
    for (int64_t i = 0; i < parts.lse_count; i++) {
        assert_true(lse[3 * i] == dense_lse[i]);
    }
    assert_true(guard_buffer_intact(&out));
    guard_buffer_destroy(&out);
    parts_destroy(&parts);
}

// ---------------------------------------------------------------------------------------------

static attn_merge_desc_t good_desc(void)
{
    attn_merge_desc_t desc;
    attn_merge_desc_init(&desc, ATTN_F32);
    desc.parts = 2;
    desc.batch = desc.heads_q = 1;
    desc.s_q = 2;
    desc.d_v = 3;
    return desc;
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    float o_part[12] = {0};
    float lse_part[4] = {0};
    float o[6];
    float lse[2];
#define REFUSED(text, ...)                                                                         \
    do {                                                                                           \
        attn_merge_desc_t d = good_desc();                                                         \
        __VA_ARGS__;                                                                               \
        assert_fails(attn_merge(NULL, &d, o_part, lse_part, o, lse, NULL), ATTN_INVALID_ARGUMENT,  \
                     text);                                                                        \
    } while (0)
    REFUSED("desc.struct_size: 1", d.struct_size = 1);
    REFUSED("parts: -1", d.parts = -1);
    REFUSED("batch: -1", d.batch = -1);
    REFUSED("heads_q: 0", d.heads_q = 0);
    REFUSED("d_v: 0", d.d_v = 0);
    REFUSED("o.dtype: e4m3", d.o.dtype = ATTN_F8_E4M3);
    REFUSED("o.dtype: 99", d.o.dtype = (attn_dtype_t)99);
    REFUSED("o: stride 0", d.o.stride_s = 0);
    REFUSED("lse: stride 0", d.lse_stride_s = 0);
    REFUSED("o_part: ", d.o_part_stride_p = INT64_MAX / 2);
    REFUSED("lse_part: ", d.lse_part_stride_p = INT64_MAX / 2);
    REFUSED("product below 2^56", d.batch = INT32_MAX; d.s_q = INT64_C(1) << 40);
    REFUSED("backend: 4", d.backend = (attn_backend_t)4);
#undef REFUSED
    attn_merge_desc_t d = good_desc();
    assert_fails(attn_merge(NULL, NULL, o_part, lse_part, o, lse, NULL), ATTN_INVALID_ARGUMENT,
                 "desc: NULL");
    assert_fails(attn_merge(NULL, &d, NULL, lse_part, o, lse, NULL), ATTN_INVALID_ARGUMENT,
                 "o_part: NULL");
    assert_fails(attn_merge(NULL, &d, o_part, NULL, o, lse, NULL), ATTN_INVALID_ARGUMENT,
                 "lse_part: NULL");
    assert_fails(attn_merge(NULL, &d, o_part, lse_part, NULL, lse, NULL), ATTN_INVALID_ARGUMENT,
                 "o: NULL");
    assert_fails(attn_merge(NULL, &d, o_part, lse_part, o, lse, o), ATTN_INVALID_ARGUMENT,
                 "stream: given");
    d.backend = ATTN_BACKEND_CUDA;
    assert_fails(attn_merge(NULL, &d, o_part, lse_part, o, lse, NULL), ATTN_NO_DEVICE,
                 "backend: cuda");
    attn_merge_desc_init(NULL, ATTN_F32);
    d = good_desc();
    d.s_q = 0;
    assert_ok(attn_merge(NULL, &d, NULL, NULL, NULL, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c049_empty_parts_count_nothing),
        cmocka_unit_test(c050_nothing_overflows),
        cmocka_unit_test(nan_comes_out),
        cmocka_unit_test(many_parts_are_exact),
        cmocka_unit_test(result_may_replace_part_zero),
        cmocka_unit_test(any_layout_gives_the_same),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests_name("api_merge", tests, NULL, NULL);
}
