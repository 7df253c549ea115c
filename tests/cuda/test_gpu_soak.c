// Long use of a GPU. A thousand steps of training, forward and backward with changing shapes and
// with plans and memory made anew: neither memory nor bits drift. A thousand deterministic backward
// passes while another stream keeps the GPU busy: always the same bits. Says so and exits with 77
// without a GPU.
#include "support.h"

#include <stdio.h>

#include "gpu_memory.h"
#include "gpu_use.h"

enum { STEPS = 1000, REPEATS = 1000, SHAPES = 12 };

static attn_desc_t training(int64_t heads_kv, int64_t d, int64_t s_q, int64_t s_kv)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_BF16);
    attn_desc_set_shape(&desc, 1, s_q, s_kv, 2 * heads_kv, heads_kv, d);
    desc.causal = 1;
    desc.wants_lse = 1;
    desc.deterministic = 1;
    desc.backend = ATTN_BACKEND_CUDA;
    return desc;
}

static void expect_equal(const results_t *a, const results_t *b)
{
    assert_true(operand_equal_bits(&a->o, &b->o));
    assert_true(operand_equal_bits(&a->lse, &b->lse));
    assert_true(operand_equal_bits(&a->dq, &b->dq));
    assert_true(operand_equal_bits(&a->dk, &b->dk));
    assert_true(operand_equal_bits(&a->dv, &b->dv));
}

// The results, and memory for the next ones in their place.
static results_t take_results(gpu_use_t *use)
{
    const results_t results = use->results;
    use->results = results_create(use->problem, &use->problem->full);
    gpu_problem_load(&use->gpu, use->problem, &use->results);
    return results;
}

// ---- training

static size_t free_on_gpu(void)
{
    size_t free_bytes;
    size_t all_bytes;
    GPU(memory(&free_bytes, &all_bytes));
    return free_bytes;
}

static long resident_pages(void)
{
    long all = 0;
    long resident = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &all, &resident), 2);
    (void)fclose(file);
    return resident;
}

// The first use of a shape is judged; all others must give the same.
static void train(int shape, results_t *first)
{
    const attn_desc_t desc =
        training(1, 64 << shape % 3, 64 + 17 * shape, 40 + 23 * (SHAPES - shape));
    const problem_options_t options = {.seed = 1 + (uint64_t)shape, .backward = true};
    gpu_use_t use;
    gpu_use_create(&use, &desc, &options);
    gpu_use_run(&use, &use, NULL);
    gpu_copy_wait();
    gpu_use_fetch(&use);
    if (first->o.count == 0) {
        gpu_use_judge(&use);
        *first = take_results(&use);
    } else {
        expect_equal(&use.results, first);
    }
    gpu_use_destroy(&use);
}

static void test_training(void **state)
{
    (void)state;
    enum { SETTLED = 4 * SHAPES, PAGES_MORE_MAX = 256 };
    static results_t first[SHAPES];
    size_t free_bytes = 0;
    long pages = 0;
    for (int step = 0; step < STEPS; step++) {
        train(step % SHAPES, &first[step % SHAPES]);
        // Until then allocators keep what they get.
        if (step == SETTLED) {
            free_bytes = free_on_gpu();
            pages = resident_pages();
        }
    }
    printf("pages resident: %ld after %d steps, %ld after %d\n", pages, SETTLED, resident_pages(),
           STEPS);
    assert_int_equal(free_on_gpu(), free_bytes);
    assert_true(resident_pages() <= pages + PAGES_MORE_MAX);
    for (int shape = 0; shape < SHAPES; shape++) {
        results_destroy(&first[shape]);
    }
}

// ---- repeats

// What runs beside it makes CTAs start in ever other orders.
static void repeat(int64_t d)
{
    const attn_desc_t desc = training(4, d, 700, 900);
    const attn_desc_t other_desc = training(2, d, 300, 500);
    const problem_options_t options = {.seed = 5, .backward = true};
    gpu_use_t use;
    gpu_use_t other;
    cu_stream stream;
    cu_stream other_stream;
    GPU(stream_create(&stream, 1));
    GPU(stream_create(&other_stream, 1));
    gpu_use_create(&use, &desc, &options);
    gpu_use_create(&other, &other_desc, &options);
    results_t first = {.o = {.count = 0}};
    for (int i = 0; i < REPEATS; i++) {
        gpu_use_run(&other, &other, other_stream);
        gpu_use_run(&use, &use, stream);
        GPU(stream_wait(stream));
        gpu_use_fetch(&use);
        if (i == 0) {
            gpu_use_judge(&use);
            first = take_results(&use);
        } else {
            expect_equal(&use.results, &first);
        }
    }
    gpu_copy_wait();
    results_destroy(&first);
    gpu_use_destroy(&other);
    gpu_use_destroy(&use);
    GPU(stream_destroy(other_stream));
    GPU(stream_destroy(stream));
}

static void test_repeats(void **state)
{
    (void)state;
    repeat(64);
    repeat(128);
    repeat(256);
}

int main(void)
{
    const attn_desc_t desc = training(1, 64, 64, 64);
    if (attn_supports(NULL, &desc, ATTN_BACKWARD) != ATTN_OK) {
        print_message("skipped: %s\n", attn_last_error());
        return 77;
    }
    gpu_copy_open(0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_training),
                                       cmocka_unit_test(test_repeats)};
    return cmocka_run_group_tests_name("gpu_soak", tests, NULL, NULL);
}
