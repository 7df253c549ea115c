// attn_merge and attn_append on a GPU against the CPU: random layouts, types, rotations and places.
// Appended bytes are the CPU's; merged values differ by rounding. Says so and exits with 77 where
// there is no GPU.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn.h"
#include "gpu_copy.h"
#include "test_number.h"
#include "test_rng.h"

enum { ROUNDS = 60 };

static void *garbage(size_t bytes)
{
    void *const data = malloc(bytes + 1);
    assert_non_null(data);
    memset(data, 0xa5, bytes);
    return data;
}

static void *normals(attn_dtype_t dtype, int64_t count, test_rng_t *rng)
{
    void *const data = garbage((size_t)count * attn_dtype_bytes(dtype));
    for (int64_t i = 0; i < count; i++) {
        test_number_set(dtype, data, i, test_rng_normal(rng));
    }
    return data;
}

// ---- merge

struct merge_problem {
    attn_merge_desc_t desc;
    int64_t rows;
    float *o_part;
    float *lse_part;
    size_t o_bytes;
};

static struct merge_problem draw_merge(test_rng_t *rng)
{
    static const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
    const attn_dtype_t dtype = dtypes[test_rng_range(rng, 0, 3)];
    struct merge_problem m;
    attn_merge_desc_init(&m.desc, dtype);
    m.desc.parts = test_rng_range(rng, 0, 80);
    m.desc.batch = test_rng_range(rng, 1, 3);
    m.desc.s_q = test_rng_range(rng, 1, 40);
    m.desc.heads_q = test_rng_range(rng, 1, 5);
    m.desc.d_v =
        test_rng_chance(rng, 50) ? 64 * test_rng_range(rng, 1, 4) : test_rng_range(rng, 1, 300);
    m.rows = m.desc.batch * m.desc.s_q * m.desc.heads_q;
    m.o_bytes = (size_t)(m.rows * m.desc.d_v) * attn_dtype_bytes(dtype);
    m.o_part = normals(ATTN_F32, m.desc.parts * m.rows * m.desc.d_v, rng);
    m.lse_part = normals(ATTN_F32, m.desc.parts * m.rows, rng);
    for (int64_t i = 0; i < m.desc.parts * m.rows; i++) {
        m.lse_part[i] = test_rng_chance(rng, 20) ? -INFINITY : 8.0f * m.lse_part[i];
    }
    return m;
}

static void expect_close(attn_dtype_t dtype, const void *got, const void *want, int64_t count)
{
    const double unit = 1e-6 + 2.0 * test_number_unit(dtype);
    for (int64_t i = 0; i < count; i++) {
        const double x = test_number_get(dtype, got, i);
        const double y = test_number_get(dtype, want, i);
        assert_true(x == y || fabs(x - y) <= unit * (1.0 + fabs(y)));
    }
}

static void test_merge(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        test_rng_t rng = test_rng_at(seed, 1);
        struct merge_problem m = draw_merge(&rng);
        const size_t lse_bytes = (size_t)m.rows * sizeof(float);
        const size_t part_bytes = (size_t)m.desc.parts * lse_bytes;
        void *const o = garbage(m.o_bytes);
        void *const want_o = garbage(m.o_bytes);
        float *const lse = garbage(lse_bytes);
        float *const want_lse = garbage(lse_bytes);
        assert_int_equal(attn_merge(NULL, &m.desc, m.o_part, m.lse_part, want_o, want_lse, NULL),
                         ATTN_OK);
        gpu_copy_t copies[4] = {
            gpu_copy_create(m.o_part, part_bytes * (size_t)m.desc.d_v),
            gpu_copy_create(m.lse_part, part_bytes),
            gpu_copy_create(o, m.o_bytes),
            gpu_copy_create(lse, lse_bytes),
        };
        m.desc.backend = ATTN_BACKEND_CUDA;
        if (attn_merge(NULL, &m.desc, (float *)(void *)copies[0].data,
                       (float *)(void *)copies[1].data, copies[2].data,
                       (float *)(void *)copies[3].data, NULL) != ATTN_OK) {
            fail_msg("%s", attn_last_error());
        }
        gpu_copy_wait();
        assert_true(gpu_copy_fetch(&copies[2], o) && gpu_copy_fetch(&copies[3], lse));
        expect_close(m.desc.o.dtype, o, want_o, m.rows * m.desc.d_v);
        expect_close(ATTN_F32, lse, want_lse, m.rows);
        for (int i = 0; i < 4; i++) {
            gpu_copy_destroy(&copies[i]);
        }
        free(m.o_part);
        free(m.lse_part);
        free(o);
        free(want_o);
        free(lse);
        free(want_lse);
    }
}

// ---- append

enum { SEQUENCES = 4, PAGES_PER_SEQ = 5, COPIES = 12 };

// Host memory and its copy on the GPU.
struct twin {
    void *host;
    size_t bytes;
    gpu_copy_t device;
};

struct append_problem {
    attn_append_desc_t desc;
    struct twin twins[COPIES]; // in the order of attn_append_args_t
};

static struct twin twin_of(void *host, size_t bytes)
{
    return (struct twin){host, bytes, gpu_copy_create(host, bytes)};
}

static struct twin twin_of_numbers(attn_dtype_t dtype, int64_t count, test_rng_t *rng)
{
    return twin_of(normals(dtype, count, rng), (size_t)count * attn_dtype_bytes(dtype));
}

static struct twin twin_of_indices(const int32_t *indices, int64_t count)
{
    const size_t bytes = (size_t)count * sizeof(int32_t);
    void *const host = garbage(bytes);
    memcpy(host, indices, bytes);
    return twin_of(host, bytes);
}

static attn_append_desc_t draw_append_desc(test_rng_t *rng)
{
    static const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F8_E4M3};
    const attn_dtype_t dtype = dtypes[test_rng_range(rng, 0, 3)];
    attn_append_desc_t desc;
    attn_append_desc_init(&desc, dtype);
    desc.batch = SEQUENCES;
    desc.s_new = test_rng_range(rng, 1, 30);
    desc.heads_kv = test_rng_range(rng, 1, 3);
    desc.d_qk = test_rng_chance(rng, 50) ? 128 : test_rng_range(rng, 2, 100);
    desc.d_v = test_rng_chance(rng, 50) ? 64 : test_rng_range(rng, 1, 100);
    desc.page_size = test_rng_range(rng, 1, 32);
    desc.pages_per_seq = PAGES_PER_SEQ + 30 / desc.page_size + 1;
    desc.num_pages = SEQUENCES * desc.pages_per_seq;
    desc.paged_kv = test_rng_chance(rng, 40);
    desc.capacity = desc.page_size * desc.pages_per_seq;
    desc.has_cache_batch_idx = !desc.paged_kv && test_rng_chance(rng, 40);
    desc.cache_batch = SEQUENCES + 2;
    desc.varlen_new = test_rng_chance(rng, 40);
    desc.total_new = SEQUENCES * desc.s_new + 3;
    if (dtype != ATTN_F8_E4M3 && test_rng_chance(rng, 70)) {
        desc.rotary = test_rng_chance(rng, 50) ? ATTN_ROTARY_HALF : ATTN_ROTARY_INTERLEAVED;
        desc.rotary_dim = 2 * test_rng_range(rng, 1, desc.d_qk / 2);
        desc.rotary_positions = desc.capacity;
        desc.heads_q = test_rng_range(rng, 0, 4);
    }
    return desc;
}

static struct append_problem draw_append(test_rng_t *rng)
{
    struct append_problem a = {.desc = draw_append_desc(rng)};
    const attn_append_desc_t *const d = &a.desc;
    const attn_dtype_t dtype = d->k_new.dtype;
    const int64_t tokens = d->varlen_new ? d->total_new : d->batch * d->s_new;
    const int64_t rows = d->paged_kv ? d->num_pages * d->page_size : d->cache_batch * d->capacity;
    int32_t lengths[SEQUENCES];
    int32_t starts[SEQUENCES + 1] = {0};
    for (int b = 0; b < SEQUENCES; b++) {
        lengths[b] = (int32_t)test_rng_range(rng, 0, d->capacity - d->s_new);
        starts[b + 1] = starts[b] + (int32_t)test_rng_range(rng, 0, d->s_new);
    }
    const int32_t entries[SEQUENCES] = {5, 0, 3, 2};
    int32_t *const pages = garbage((size_t)d->num_pages * sizeof(int32_t));
    for (int32_t i = 0; i < d->num_pages; i++) {
        pages[i] = (int32_t)d->num_pages - 1 - i;
    }
    a.twins[0] = twin_of_numbers(dtype, tokens * d->heads_kv * d->d_qk, rng);
    a.twins[1] = twin_of_numbers(dtype, tokens * d->heads_kv * d->d_v, rng);
    a.twins[2] = twin_of_numbers(dtype, rows * d->heads_kv * d->d_qk, rng);
    a.twins[3] = twin_of_numbers(dtype, rows * d->heads_kv * d->d_v, rng);
    a.twins[4] = twin_of_indices(lengths, SEQUENCES);
    a.twins[5] = twin_of_indices(starts, SEQUENCES + 1);
    a.twins[6] = twin_of_indices(entries, SEQUENCES);
    a.twins[7] = twin_of_indices(pages, d->num_pages);
    a.twins[8] = twin_of_numbers(ATTN_F32, d->rotary_positions * d->rotary_dim / 2, rng);
    a.twins[9] = twin_of_numbers(ATTN_F32, d->rotary_positions * d->rotary_dim / 2, rng);
    a.twins[10] = twin_of_numbers(dtype, tokens * d->heads_q * d->d_qk, rng);
    a.twins[11] = twin_of_numbers(dtype, tokens * d->heads_q * d->d_qk, rng);
    free(pages);
    return a;
}

static void *side(const struct twin *twin, int is_wanted, attn_backend_t backend)
{
    return !is_wanted ? NULL : backend == ATTN_BACKEND_CPU ? twin->host : twin->device.data;
}

static void append(struct append_problem *a, attn_backend_t backend)
{
    const attn_append_desc_t *const d = &a->desc;
    const int is_rotated = d->rotary != ATTN_ROTARY_NONE;
    attn_append_args_t args;
    attn_append_args_init(&args);
    args.k_new = side(&a->twins[0], 1, backend);
    args.v_new = side(&a->twins[1], 1, backend);
    args.k_cache = side(&a->twins[2], 1, backend);
    args.v_cache = side(&a->twins[3], 1, backend);
    args.cache_seqlens = side(&a->twins[4], 1, backend);
    args.cu_seqlens_new = side(&a->twins[5], d->varlen_new, backend);
    args.cache_batch_idx = side(&a->twins[6], d->has_cache_batch_idx, backend);
    args.page_table = side(&a->twins[7], d->paged_kv, backend);
    args.rotary_cos = side(&a->twins[8], is_rotated, backend);
    args.rotary_sin = side(&a->twins[9], is_rotated, backend);
    args.q = side(&a->twins[10], d->heads_q > 0, backend);
    args.q_out = side(&a->twins[11], d->heads_q > 0, backend);
    a->desc.backend = backend;
    if (attn_append(NULL, &a->desc, &args, NULL) != ATTN_OK) {
        fail_msg("%s", attn_last_error());
    }
}

static void test_append(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        test_rng_t rng = test_rng_at(seed, 2);
        struct append_problem a = draw_append(&rng);
        append(&a, ATTN_BACKEND_CUDA);
        append(&a, ATTN_BACKEND_CPU);
        gpu_copy_wait();
        for (int i = 0; i < COPIES; i++) {
            void *const got = garbage(a.twins[i].bytes);
            assert_true(gpu_copy_fetch(&a.twins[i].device, got));
            assert_memory_equal(got, a.twins[i].host, a.twins[i].bytes);
            free(got);
            free(a.twins[i].host);
            gpu_copy_destroy(&a.twins[i].device);
        }
    }
}

int main(void)
{
    attn_gpu_info_t info = {.struct_size = sizeof(info)};
    if (attn_gpu_query(0, &info) != ATTN_OK) {
        print_message("skipped: %s\n", attn_last_error());
        return 77;
    }
    gpu_copy_open(0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_merge), cmocka_unit_test(test_append)};
    return cmocka_run_group_tests_name("gpu_cache", tests, NULL, NULL);
}
