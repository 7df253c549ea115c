// cp.async: every size with and without zeros, groups, arrivals on mbarriers, and what is forgotten
// around them. Beside it, kernels with more mbarriers and more storing threads than clocks begin
// with.
#include "small_kernel.h"

#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/cp_async.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"

#define KERNEL_OF(name) static void name(const void *params)
#define SMEM ((void)params, dynamic_smem())

// Seven copies of each thread, 128 bytes apart for all threads of a kind.
KERNEL_OF(sizes)
{
    uint32_t smem = SMEM;
    uint32_t t = thread_idx();
    cp_async_4(smem + 4 * t, input + t);
    cp_async_8(smem + 128 + 8 * t, input + 2 * t);
    cp_async_16(smem + 512 + 16 * t, input + 4 * t);
    cp_async_4_zfill(smem + 1024 + 4 * t, input + t, t % 5);
    cp_async_8_zfill(smem + 1280 + 8 * t, input + 2 * t, t % 9);
    cp_async_16_zfill(smem + 2048 + 16 * t, input + 4 * t, t % 17);
    cp_async_16_zfill(smem + 4096 + 16 * t, NULL, 0);
    cp_async_wait_all();
    cta_sync();
    for (uint32_t i = t; i < 1152; i += 32) {
        bool gap = (i >= 96 && i < 128) || (i >= 288 && i < 320) || (i >= 384 && i < 512) ||
                   (i >= 640 && i < 1024);
        if (!gap) {
            st_global_u32(&output[i], ld_shared_u32(smem + 4 * i));
        }
    }
}

static void expect_prefix(const uint32_t *got, const uint32_t *source, uint32_t bytes,
                          uint32_t size)
{
    uint8_t want[16] = {0};
    memcpy(want, source, bytes);
    assert_memory_equal(got, want, size);
}

static void test_sizes(void **state)
{
    (void)state;
    expect_ok(sizes, 32);
    for (uint32_t t = 0; t < 32; t++) {
        expect_prefix(output + t, input + t, 4, 4);
        expect_prefix(output + 32 + 2 * t, input + 2 * t, 8, 8);
        expect_prefix(output + 128 + 4 * t, input + 4 * t, 16, 16);
        expect_prefix(output + 256 + t, input + t, t % 5, 4);
        expect_prefix(output + 320 + 2 * t, input + 2 * t, t % 9, 8);
        expect_prefix(output + 512 + 4 * t, input + 4 * t, t % 17, 16);
        expect_prefix(output + 1024 + 4 * t, input, 0, 16);
    }
}

enum { STAGES = 3, STEPS = 10 };

static void start_step(uint32_t smem, uint32_t step)
{
    if (step < STEPS) {
        cp_async_16(smem + step % STAGES * 1024 + 16 * thread_idx(),
                    input + step * 256 + 4 * thread_idx());
    }
    cp_async_commit_group(); // an empty group keeps the count
}

static void sum_step(uint32_t smem, uint32_t step)
{
    uint32_t neighbour = thread_idx() ^ 33;
    st_global_u32(&output[step * 64 + thread_idx()],
                  ld_shared_u32(smem + step % STAGES * 1024 + 16 * neighbour + 4));
}

// A ring of three stages, two of them in flight.
KERNEL_OF(ring)
{
    uint32_t smem = SMEM;
    start_step(smem, 0);
    start_step(smem, 1);
    for (uint32_t step = 0; step < STEPS; step++) {
        cp_async_wait_group(1);
        cta_sync();
        start_step(smem, step + 2);
        sum_step(smem, step);
    }
}

static void test_ring(void **state)
{
    (void)state;
    expect_ok(ring, 64);
    for (uint32_t i = 0; i < STEPS * 64; i++) {
        assert_int_equal(output[i], input[i / 64 * 256 + 4 * (i % 64 ^ 33) + 1]);
    }
}

KERNEL_OF(ring_without_barrier)
{
    uint32_t smem = SMEM;
    start_step(smem, 0);
    start_step(smem, 1);
    for (uint32_t step = 0; step < STEPS; step++) {
        cp_async_wait_group(1);
        start_step(smem, step + 2);
        sum_step(smem, step);
    }
}

KERNEL_OF(ring_waits_too_little)
{
    uint32_t smem = SMEM;
    start_step(smem, 0);
    start_step(smem, 1);
    for (uint32_t step = 0; step < STEPS; step++) {
        cp_async_wait_group(2);
        cta_sync();
        start_step(smem, step + 2);
        sum_step(smem, step);
    }
}

KERNEL_OF(waits_after_the_barrier)
{
    uint32_t smem = SMEM;
    cp_async_16(smem + 16 * thread_idx(), input);
    cta_sync();
    cp_async_wait_all();
    if (thread_idx() == 40) {
        ld_shared_u32(smem);
    }
}

// Warp 1 brings what warp 0 reads, over two buffers; `full` counts 32 arrivals of copies.
static void produce(uint32_t smem, uint32_t full, uint32_t empty)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t stage = step % 2;
        mbarrier_wait(empty + 8 * stage, step / 2 % 2 ^ 1);
        cp_async_16(smem + 1024 * stage + 16 * (thread_idx() - 32),
                    input + step * 128 + 4 * (thread_idx() - 32));
        cp_async_mbarrier_arrive_noinc(full + 8 * stage);
    }
}

static void consume(uint32_t smem, uint32_t full, uint32_t empty)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t stage = step % 2;
        mbarrier_wait(full + 8 * stage, step / 2 % 2);
        st_global_u32(&output[step * 32 + thread_idx()],
                      ld_shared_u32(smem + 1024 * stage + 16 * (31 - thread_idx())));
        mbarrier_arrive(empty + 8 * stage);
    }
}

KERNEL_OF(arrivals)
{
    uint32_t smem = SMEM;
    if (thread_idx() == 0) {
        for (uint32_t i = 0; i < 4; i++) {
            mbarrier_init(smem + 8 * i, 32);
        }
    }
    cta_sync();
    if (thread_idx() < 32) {
        ROLE("consumer");
        consume(smem + 1024, smem, smem + 16);
    } else {
        ROLE("producer");
        produce(smem + 1024, smem, smem + 16);
    }
}

static void test_arrivals(void **state)
{
    (void)state;
    expect_ok(arrivals, 64);
    for (uint32_t i = 0; i < STEPS * 32; i++) {
        assert_int_equal(output[i], input[i / 32 * 128 + 4 * (31 - i % 32)]);
    }
}

KERNEL_OF(arrival_beyond_count)
{
    uint32_t smem = SMEM;
    if (thread_idx() == 0) {
        mbarrier_init(smem, 31);
        mbarrier_expect_tx(smem, 16);
    }
    cta_sync();
    cp_async_16(smem + 1024 + 16 * thread_idx(), input);
    cp_async_mbarrier_arrive_noinc(smem);
    mbarrier_wait(smem, 0);
}

KERNEL_OF(arrival_before_the_copy)
{
    uint32_t smem = SMEM;
    if (thread_idx() == 0) {
        mbarrier_init(smem, 32);
    }
    cta_sync();
    cp_async_mbarrier_arrive_noinc(smem);
    cp_async_16(smem + 1024 + 16 * thread_idx(), input);
    mbarrier_wait(smem, 0);
    ld_shared_u32(smem + 1024 + 16 * (thread_idx() ^ 1));
    cp_async_wait_all();
}

KERNEL_OF(arrival_nobody_waits)
{
    uint32_t smem = SMEM;
    if (thread_idx() == 0) {
        mbarrier_init(smem, 32);
    }
    cta_sync();
    cp_async_16(smem + 1024 + 16 * thread_idx(), input);
    cp_async_mbarrier_arrive_noinc(smem);
}

KERNEL_OF(not_waited_before_read)
{
    uint32_t smem = SMEM + 16 * thread_idx();
    cp_async_16(smem, input);
    ld_shared_u32(smem);
    cp_async_wait_all();
}

KERNEL_OF(not_waited_at_the_end)
{
    uint32_t smem = SMEM + 16 * thread_idx();
    cp_async_16(smem, input);
    cp_async_commit_group();
}

KERNEL_OF(unaligned)
{
    cp_async_16(SMEM + 8, input);
}

KERNEL_OF(unaligned_source)
{
    cp_async_8(SMEM, input + 1);
}

KERNEL_OF(too_many_bytes)
{
    cp_async_8_zfill(SMEM, input, 9);
}

KERNEL_OF(not_registered)
{
    static uint32_t hidden[4];
    cp_async_4(SMEM, hidden);
}

KERNEL_OF(stored_without_fence)
{
    uint32_t smem = SMEM;
    cp_async_16(smem + 16 * thread_idx(), input + 4 * thread_idx());
    cp_async_wait_all();
    cta_sync();
    if (thread_idx() == 0) {
        bulk_store(output, smem, 512);
        bulk_commit_group();
        bulk_wait_group(0);
    }
}

KERNEL_OF(stored_after_fence)
{
    uint32_t smem = SMEM;
    cp_async_16(smem + 16 * thread_idx(), input + 4 * thread_idx());
    cp_async_wait_all();
    fence_proxy_async();
    cta_sync();
    if (thread_idx() == 0) {
        bulk_store(output, smem, 512);
        bulk_commit_group();
        bulk_wait_group(0);
    }
}

static void test_misuse(void **state)
{
    (void)state;
    expect_error(ring_without_barrier, 64, EMU_RACE, "shared");
    expect_error(waits_after_the_barrier, 64, EMU_RACE,
                 "ld.shared at shared address 0x400 races with the cp.async by a cp.async of "
                 "thread 0; no barrier or wait orders the two");
    expect_error(ring_waits_too_little, 64, EMU_RACE, "races with the cp.async by a cp.async of");
    expect_error(arrival_beyond_count, 32, EMU_FAULT,
                 "cp.async.mbarrier.arrive on mbarrier 0x400 beyond its count of 31");
    expect_error(arrival_before_the_copy, 32, EMU_RACE, "races with the cp.async by a cp.async of");
    expect_error(arrival_nobody_waits, 32, EMU_FAULT,
                 "nobody waited for the last load on mbarrier 0x400");
    expect_error(not_waited_before_read, 32, EMU_RACE, "races with the cp.async by a cp.async of");
    expect_error(not_waited_at_the_end, 32, EMU_FAULT,
                 "ended with 1 cp.asyncs that it never waited for");
    expect_error(unaligned, 32, EMU_FAULT, "to shared address 0x408: not aligned to it");
    expect_error(unaligned_source, 32, EMU_FAULT, "cp.async of 8 bytes from");
    expect_error(too_many_bytes, 32, EMU_FAULT, "cp.async of 8 bytes that reads 9");
    expect_error(not_registered, 32, EMU_FAULT, "cp.async at global address");
    expect_error(stored_without_fence, 32, EMU_RACE,
                 "follows the cp.async by a cp.async of thread 0; the writer has no "
                 "fence.proxy.async after it");
    expect_ok(stored_after_fence, 32);
    assert_memory_equal(output, input, 512);
}

// ---- more of everything

enum { MANY = 200 };

KERNEL_OF(many_mbarriers)
{
    uint32_t smem = SMEM;
    uint32_t t = thread_idx();
    for (uint32_t i = t; i < MANY; i += 64) {
        mbarrier_init(smem + 8 * i, 1);
    }
    fence_mbarrier_init();
    cta_sync();
    for (uint32_t i = t; i < MANY; i += 64) {
        mbarrier_arrive_expect_tx(smem + 8 * i, 16);
        bulk_load(smem + 4096 + 16 * i, input + 4 * i, 16, smem + 8 * i);
    }
    for (uint32_t i = t; i < MANY; i += 64) {
        mbarrier_wait(smem + 8 * (MANY - 1 - i), 0);
        st_global_u32(&output[block_idx_x() * MANY + i],
                      ld_shared_u32(smem + 4096 + 16 * (MANY - 1 - i)));
    }
}

KERNEL_OF(many_storing_threads)
{
    uint32_t smem = SMEM + 16 * thread_idx();
    for (uint32_t i = 0; i < 4; i++) {
        st_shared_u32(smem + 4 * i, 4 * thread_idx() + i);
    }
    fence_proxy_async();
    bulk_store(output + 4 * thread_idx(), smem, 16);
    bulk_commit_group();
    bulk_wait_group_read(0);
    st_shared_u32(smem, 0);
    bulk_wait_group(0);
}

KERNEL_OF(one_of_many_not_waited)
{
    uint32_t smem = SMEM + 16 * thread_idx();
    for (uint32_t i = 0; i < 4; i++) {
        st_shared_u32(smem + 4 * i, i);
    }
    fence_proxy_async();
    bulk_store(output + 4 * thread_idx(), smem, 16);
    bulk_commit_group();
    if (thread_idx() != 70) {
        bulk_wait_group_read(0);
    }
    st_shared_u32(smem, 0);
    bulk_wait_group(0);
}

static void test_growth(void **state)
{
    (void)state;
    struct emu_launch launch = small_launch(many_mbarriers, 64);
    launch.grid[0] = 3; // the slots are used again
    launch.resident = 2;
    expect_ok_launch(launch);
    for (uint32_t i = 0; i < 3 * MANY; i++) {
        assert_int_equal(output[i], input[4 * (MANY - 1 - i % MANY)]);
    }
    expect_ok(many_storing_threads, 256);
    for (uint32_t i = 0; i < 1024; i++) {
        assert_int_equal(output[i], i);
    }
    expect_error(one_of_many_not_waited, 96, EMU_RACE,
                 "may still be read: the bulk store by a bulk store of thread 70");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),    cmocka_unit_test(test_ring),
        cmocka_unit_test(test_arrivals), cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_growth),
    };
    return cmocka_run_group_tests_name("emu_cp_async", tests, NULL, NULL);
}
