// Programmatic dependent launches: a second kernel that starts while the first still runs, and must
// not touch what the first does before it has waited.
#include "small_kernel.h"

#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/pdl.h"

enum { FIRST_THREADS = 64, FIRST_CTAS = 4, SECOND_THREADS = 64, SECOND_CTAS = 4 };

static uint32_t parts[FIRST_CTAS * FIRST_THREADS];
static uint32_t sums[SECOND_CTAS * SECOND_THREADS];

// Seen by the host alone: how far the first kernel was when the second began.
static uint32_t ended_ctas;
static uint32_t ended_at_start;
static bool second_has_begun;

struct pdl_params {
    int no_trigger; // in the first
    int no_wait;    // in the second
    int one_waits;  // and the others are not told
    int by_bulk;    // reads the parts by a bulk load
    int overwrites; // what the first reads
};

static void first_kernel(const void *params)
{
    const struct pdl_params *p = params;
    ROLE("first");
    uint32_t i = block_idx_x() * FIRST_THREADS + thread_idx();
    st_global_u32(&parts[i], 1);
    if (!p->no_trigger && thread_idx() == 0) {
        griddep_launch_dependents();
    }
    cta_sync();
    uint32_t mine = ld_global_u32(&parts[i ^ 1]) + ld_global_u32(&output[thread_idx()]);
    cta_sync();
    st_global_u32(&parts[i], mine + i);
    cta_sync();
    ended_ctas += thread_idx() == 0;
}

static uint32_t sum_parts(const struct pdl_params *p, uint32_t smem)
{
    uint32_t sum = 0;
    if (p->by_bulk) {
        if (thread_idx() == 0) {
            mbarrier_init(smem, 1);
            fence_mbarrier_init();
            mbarrier_arrive_expect_tx(smem, sizeof parts);
            bulk_load(smem + 1024, parts, sizeof parts, smem);
        }
        cta_sync();
        mbarrier_wait(smem, 0);
        for (uint32_t i = 0; i < FIRST_CTAS * FIRST_THREADS; i++) {
            sum += ld_shared_u32(smem + 1024 + 4 * i);
        }
        return sum;
    }
    for (uint32_t i = 0; i < FIRST_CTAS * FIRST_THREADS; i++) {
        sum += ld_global_u32(&parts[i]);
    }
    return sum;
}

static void second_kernel(const void *params)
{
    const struct pdl_params *p = params;
    ROLE("second");
    if (!second_has_begun) {
        second_has_begun = true;
        ended_at_start = ended_ctas;
    }
    uint32_t before = ld_global_u32(&input[thread_idx()]); // nobody writes it
    if (!p->no_wait && (!p->one_waits || thread_idx() == 0)) {
        griddep_wait();
    }
    if (p->one_waits != 2) {
        cta_sync();
    }
    if (p->overwrites) {
        if (block_idx_x() == 0) {
            st_global_u32(&output[thread_idx()], 1);
        }
        return;
    }
    uint32_t i = block_idx_x() * SECOND_THREADS + thread_idx();
    st_global_u32(&sums[i], sum_parts(p, dynamic_smem()) + before);
}

static struct emu_launch launch_of(void (*entry)(const void *), const struct pdl_params *p)
{
    static const struct emu_buffer buffers[] = {{"input", input, sizeof input, EMU_READ_ONLY},
                                                {"output", output, sizeof output, EMU_READ_WRITE},
                                                {"parts", parts, sizeof parts, EMU_OUTPUT},
                                                {"sums", sums, sizeof sums, EMU_OUTPUT}};
    bool first = entry == first_kernel;
    struct emu_launch launch = small_launch(entry, first ? FIRST_THREADS : SECOND_THREADS);
    launch.name = first ? "prepare" : "sum";
    launch.buffers = buffers;
    launch.buffer_count = 4;
    launch.grid[0] = first ? FIRST_CTAS : SECOND_CTAS;
    launch.cluster = first ? 1 : 2;
    launch.resident = 2;
    launch.params = p;
    return launch;
}

static emu_status run_pair(const struct pdl_params *p, emu_async async, uint32_t seed,
                           struct emu_result *result)
{
    struct emu_launch first = launch_of(first_kernel, p);
    struct emu_launch second = launch_of(second_kernel, p);
    first.async = async;
    first.seed = seed;
    ended_ctas = ended_at_start = 0;
    second_has_begun = false;
    memset(output, 0, sizeof output);
    return emu_launch_pair(&first, &second, result);
}

static void expect_sums(const struct pdl_params *p, emu_async async, uint32_t seed)
{
    struct emu_result result;
    if (run_pair(p, async, seed, &result) != EMU_OK) {
        fail_msg("async %d: %s", (int)async, result.text);
    }
    uint32_t total = FIRST_CTAS * FIRST_THREADS;
    for (uint32_t i = 0; i < SECOND_CTAS * SECOND_THREADS; i++) {
        assert_int_equal(sums[i], total + total * (total - 1) / 2 + input[i % SECOND_THREADS]);
    }
}

static void expect_pair_race(const struct pdl_params *p, const char *words)
{
    for (int async = EMU_LATE; async <= EMU_RANDOM; async++) {
        struct emu_result result;
        emu_status status = run_pair(p, (emu_async)async, (uint32_t)async, &result);
        if (status != EMU_RACE || !strstr(result.text, words)) {
            fail_msg("async %d: expected '%s', got %d '%s'", async, words, (int)status,
                     result.text);
        }
    }
}

static void test_right_pairs(void **state)
{
    (void)state;
    static const struct pdl_params plain = {0};
    static const struct pdl_params one_waits = {.one_waits = 1};
    static const struct pdl_params by_bulk = {.by_bulk = 1};
    static const struct pdl_params no_trigger = {.no_trigger = 1};
    static const struct pdl_params *const all[] = {&plain, &one_waits, &by_bulk, &no_trigger};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (uint32_t run = 0; run < 6; run++) {
            expect_sums(all[i], (emu_async)(run % 3), run);
        }
    }
}

static void test_when_the_second_starts(void **state)
{
    (void)state;
    static const struct pdl_params plain = {0};
    static const struct pdl_params no_trigger = {.no_trigger = 1};
    expect_sums(&plain, EMU_LATE, 0);
    assert_int_equal(ended_at_start, FIRST_CTAS);
    expect_sums(&plain, EMU_EARLY, 0);
    assert_in_range(ended_at_start, FIRST_CTAS - 2, FIRST_CTAS - 1); // the last two are running
    expect_sums(&no_trigger, EMU_EARLY, 0);
    assert_int_equal(ended_at_start, FIRST_CTAS);
}

static void test_forgotten_waits(void **state)
{
    (void)state;
    static const struct pdl_params no_wait = {.no_wait = 1};
    static const struct pdl_params not_told = {.one_waits = 2};
    static const struct pdl_params by_bulk = {.no_wait = 1, .by_bulk = 1};
    static const struct pdl_params overwrites = {.no_wait = 1, .overwrites = 1};
    static const char *const missing =
        "the second kernel has not waited for the first by griddep_wait";
    expect_pair_race(&no_wait, missing);
    expect_pair_race(&not_told, missing);
    expect_pair_race(&by_bulk, missing);
    expect_pair_race(&overwrites, missing);
    struct emu_result result;
    run_pair(&no_wait, EMU_LATE, 0, &result);
    assert_non_null(
        strstr(result.text, "sum, CTA (0,0,0), second thread 63 (warp 1 lane 31), at "));
    assert_non_null(strstr(result.text, "test_emu_pdl.c:"));
    assert_non_null(
        strstr(result.text, ": ld.global at offset 0 of buffer 'parts' races with the "));
    assert_non_null(strstr(result.text, "of CTA (0,0,0) of prepare"));
}

static void test_limits(void **state)
{
    (void)state;
    static const struct pdl_params plain = {0};
    struct emu_launch first = launch_of(first_kernel, &plain);
    struct emu_launch second = launch_of(second_kernel, &plain);
    struct emu_result result;
    second.threads = 33;
    assert_int_equal(emu_launch_pair(&first, &second, &result), EMU_BAD_LAUNCH);
    assert_non_null(strstr(result.text, "sum: 33 threads per CTA"));
    // Alone both are as they always were: there is nothing to wait for.
    second = launch_of(second_kernel, &plain);
    memset(output, 0, sizeof output);
    assert_int_equal(emu_launch(&first, &result), EMU_OK);
    assert_int_equal(emu_launch(&second, &result), EMU_RACE); // parts hold nothing for it
    assert_non_null(strstr(result.text, "reads what nobody has written"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_pairs),
        cmocka_unit_test(test_when_the_second_starts),
        cmocka_unit_test(test_forgotten_waits),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("emu_pdl", tests, NULL, NULL);
}
