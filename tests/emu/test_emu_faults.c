// Misuse: a kernel that breaks a rule, a launch that asks for too much. Each ends with a status and
// a text that says what, never with a crash; the launch after it works as if nothing had been.
#include "small_kernel.h"

#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/matrix.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/register.h"
#include "../../src/device/ptx/tma.h"
#include "../../src/device/ptx/warp.h"

#define KERNEL_OF(name) static void name(const void *params)
#define SMEM ((void)params, dynamic_smem())

// ---- order of accesses to shared memory

KERNEL_OF(unsynchronised_read)
{
    uint32_t smem = SMEM;
    if (thread_idx() == 0) {
        st_shared_u32(smem, 1);
    }
    ld_shared_u32(smem);
}

KERNEL_OF(unsynchronised_write)
{
    st_shared_u32(SMEM, thread_idx());
}

KERNEL_OF(write_after_read)
{
    uint32_t smem = SMEM;
    st_shared_u32(smem + 4 * thread_idx(), 1);
    cta_sync();
    ld_shared_u32(smem);
    if (thread_idx() == 40) {
        st_shared_u32(smem, 2);
    }
}

KERNEL_OF(uninitialised)
{
    ld_shared_u32(SMEM + 64);
}

// Neighbouring 16-bit halves of a word belong to different threads: no race.
KERNEL_OF(halves)
{
    uint32_t smem = SMEM;
    st_shared_u16(smem + 2 * thread_idx(), thread_idx());
    cta_sync();
    st_global_u32(&output[thread_idx()], ld_shared_u16(smem + 2 * (thread_idx() ^ 1)));
}

// Two threads in one half.
KERNEL_OF(same_half)
{
    uint32_t smem = SMEM;
    st_shared_u16(smem + 2 * (thread_idx() == 5 ? 4 : thread_idx()), 1);
}

// The neighbour's half of the word, without a barrier.
KERNEL_OF(neighbours_half)
{
    uint32_t smem = SMEM;
    st_shared_u16(smem + 2 * thread_idx(), 1);
    st_shared_u16(smem + 2 * thread_idx(), ld_shared_u16(smem + 2 * thread_idx()) + 1);
    if (thread_idx() == 31) {
        ld_shared_u16(smem + 2 * 30);
    }
}

static void test_order(void **state)
{
    (void)state;
    expect_error(unsynchronised_read, 32, EMU_RACE, "races with the st.shared by thread");
    expect_error(unsynchronised_write, 64, EMU_RACE, "races with the st.shared by thread");
    expect_error(write_after_read, 64, EMU_RACE, "may still be read: the ld.shared by thread");
    expect_error(uninitialised, 32, EMU_RACE, "uninitialised shared memory at address 0x440");
    expect_ok(halves, 64);
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(output[i], i ^ 1);
    }
    expect_error(same_half, 32, EMU_RACE, "at shared address 0x408 races with the st.shared by");
    expect_error(neighbours_half, 32, EMU_RACE,
                 "ld.shared at shared address 0x43c races with the st.shared by thread 30");
}

// 96 threads read; all but one say that they are done; the writer waits for those only.
KERNEL_OF(forgotten_reader)
{
    uint32_t smem = SMEM;
    if (thread_idx() == 0) {
        mbarrier_init(smem, 95);
        fence_mbarrier_init();
        st_shared_u32(smem + 64, 1);
    }
    cta_sync();
    ld_shared_u32(smem + 64);
    if (thread_idx() != 50) {
        mbarrier_arrive(smem);
    }
    if (thread_idx() == 0) {
        mbarrier_wait(smem, 0);
        st_shared_u32(smem + 64, 2);
    }
}

static void test_every_reader_counts(void **state)
{
    (void)state;
    expect_error(forgotten_reader, 96, EMU_RACE, "may still be read: the ld.shared by thread 50");
}

// ---- proxies

KERNEL_OF(fence_by_reader)
{
    uint32_t smem = SMEM;
    st_shared_u32(smem + 4 * thread_idx(), 1);
    cta_sync();
    if (thread_idx() == 0) {
        fence_proxy_async();
        bulk_store(output, smem, 128);
        bulk_commit_group();
        bulk_wait_group(0);
    }
}

// By the letter the reader's fence counts too; strictly it does not.
static void test_fence_by_the_reader(void **state)
{
    (void)state;
    expect_error(fence_by_reader, 32, EMU_RACE, "the writer has no fence.proxy.async after it");
    struct emu_launch launch = small_launch(fence_by_reader, 32);
    launch.check = EMU_CHECK_RACES;
    expect_ok_launch(launch);
}

// ---- warps

KERNEL_OF(shuffle_in_half_a_warp)
{
    (void)params;
    if (thread_idx() % 32 < 16) {
        shuffle_xor_u32(1, 2);
    }
    vote_any(1);
}

KERNEL_OF(collective_operand_differs)
{
    (void)params;
    shuffle_xor_u32(1, thread_idx() == 3 ? 1 : 2);
}

KERNEL_OF(lane_left)
{
    (void)params;
    if (thread_idx() == 5) {
        return;
    }
    warp_sync();
}

// A whole warp waits but one lane answers, with nothing that says that the others have seen the
// phase.
KERNEL_OF(late_lane)
{
    uint32_t smem = SMEM;
    if (thread_idx() == 0) {
        mbarrier_init(smem, 1);
        mbarrier_init(smem + 8, 1);
        fence_mbarrier_init();
    }
    cta_sync();
    for (uint32_t i = 0; i < 4; i++) {
        if (thread_idx() == 32) {
            mbarrier_arrive(smem);
            mbarrier_wait(smem + 8, i & 1);
        } else if (thread_idx() < 32) {
            mbarrier_wait(smem, i & 1);
            if (thread_idx() == 0) {
                mbarrier_arrive(smem + 8);
            }
        }
    }
}

static void test_warps(void **state)
{
    (void)state;
    expect_error(shuffle_in_half_a_warp, 32, EMU_FAULT, "are at different instructions");
    expect_error(collective_operand_differs, 32, EMU_FAULT, "must be the same in all lanes");
    expect_error(lane_left, 32, EMU_DEADLOCK, "syncwarp: lanes 0xffffffdf are there");
    expect_error(late_lane, 64, EMU_RACE, "misses this one and waits for ever");
}

// ---- barriers

KERNEL_OF(barrier_id)
{
    (void)params;
    barrier_sync(16, 32);
}

KERNEL_OF(barrier_threads)
{
    (void)params;
    barrier_sync(1, 40);
}

KERNEL_OF(barrier_counts_differ)
{
    (void)params;
    barrier_sync(1, thread_idx() < 32 ? 64 : 96);
}

KERNEL_OF(barrier_left_open)
{
    (void)params;
    if (thread_idx() < 32) {
        barrier_arrive(3, 64);
    }
}

KERNEL_OF(cta_sync_missed)
{
    (void)params;
    ROLE("worker");
    if (thread_idx() >= 32) {
        cta_sync();
    }
}

static void test_barriers(void **state)
{
    (void)state;
    expect_error(barrier_id, 32, EMU_FAULT, "barrier 16: ids are 0 to 15");
    expect_error(barrier_threads, 64, EMU_FAULT, "barrier 1 with 40 threads");
    expect_error(barrier_counts_differ, 96, EMU_FAULT, "while others use it with");
    expect_error(barrier_left_open, 64, EMU_FAULT, "ended with barrier 3 at 32 of 64 threads");
    expect_error(cta_sync_missed, 64, EMU_DEADLOCK,
                 "CTA (0,0,0) worker warp 1, 32 lanes: barrier 0: 32 of 64 threads");
}

// ---- mbarriers

KERNEL_OF(mbarrier_not_initialised)
{
    mbarrier_arrive(SMEM);
}

KERNEL_OF(mbarrier_twice)
{
    uint32_t smem = SMEM;
    mbarrier_init(smem + 8 * thread_idx(), 1);
    mbarrier_init(smem + 8 * thread_idx(), 1);
}

KERNEL_OF(mbarrier_unaligned)
{
    mbarrier_init(SMEM + 4, 1);
}

KERNEL_OF(mbarrier_count)
{
    mbarrier_init(SMEM, 0);
}

KERNEL_OF(mbarrier_parity)
{
    uint32_t smem = SMEM + 8 * thread_idx();
    mbarrier_init(smem, 1);
    mbarrier_wait(smem, 2);
}

KERNEL_OF(mbarrier_overwritten)
{
    uint32_t smem = SMEM + 8 * thread_idx();
    mbarrier_init(smem, 1);
    st_shared_u32(smem + 4, 0);
}

KERNEL_OF(mbarrier_tx_left)
{
    uint32_t smem = SMEM + 8 * thread_idx();
    mbarrier_init(smem, 1);
    mbarrier_expect_tx(smem, 48);
}

KERNEL_OF(mbarrier_again_after_inval)
{
    uint32_t smem = SMEM + 8 * thread_idx();
    mbarrier_init(smem, 1);
    mbarrier_inval(smem);
    st_shared_u32(smem, 7);
    mbarrier_init(smem, 1);
    mbarrier_arrive(smem);
    mbarrier_wait(smem, 0);
}

static void test_mbarriers(void **state)
{
    (void)state;
    expect_error(mbarrier_not_initialised, 32, EMU_FAULT,
                 "0x400, which is not an initialised mbarrier");
    expect_error(mbarrier_twice, 32, EMU_FAULT, "initialised twice");
    expect_error(mbarrier_unaligned, 32, EMU_FAULT, "not 8 aligned bytes");
    expect_error(mbarrier_count, 32, EMU_FAULT, "with count 0");
    expect_error(mbarrier_parity, 32, EMU_FAULT, "parity 2");
    expect_error(mbarrier_overwritten, 32, EMU_FAULT, "touches an mbarrier");
    expect_error(mbarrier_tx_left, 32, EMU_FAULT, "expects 48 bytes");
    expect_ok(mbarrier_again_after_inval, 32);
}

// ---- addresses

KERNEL_OF(shared_out_of_bounds)
{
    st_shared_u32(SMEM + 32768, 1);
}

KERNEL_OF(shared_address_zero)
{
    (void)params;
    st_shared_u32(0, 1);
}

KERNEL_OF(shared_unaligned)
{
    st_shared_u32(SMEM + 2, 1);
}

KERNEL_OF(shared_other_cta)
{
    st_shared_u32(cluster_map(SMEM, 1 - cluster_rank()), 1);
}

KERNEL_OF(shared_outside_cluster)
{
    cluster_map(SMEM, 2);
}

KERNEL_OF(matrix_unaligned)
{
    uint32_t r[4];
    ldmatrix_x4(r, SMEM + 8);
}

KERNEL_OF(global_not_registered)
{
    static uint32_t hidden;
    (void)params;
    st_global_u32(&hidden, 1);
}

KERNEL_OF(global_past_the_end)
{
    uint32_t r[4];
    (void)params;
    ld_global_v4_u32(r, output + 100);
}

KERNEL_OF(global_read_only)
{
    (void)params;
    st_global_u32(input, 1);
}

KERNEL_OF(bulk_size)
{
    uint32_t smem = SMEM;
    bulk_store(output, smem, 24);
}

KERNEL_OF(bulk_not_waited)
{
    uint32_t smem = SMEM;
    if (thread_idx() == 0) {
        st_shared_v4_u32(smem, input);
        fence_proxy_async();
        bulk_store(output, smem, 16);
        bulk_commit_group();
    }
}

KERNEL_OF(tma_map_never_encoded)
{
    static const tensor_map map;
    tma_store_2d(&map, SMEM, 0, 0);
}

static tensor_map f16_map;

KERNEL_OF(tma_load_unaligned)
{
    mbarrier_init(SMEM, 1);
    tma_load_2d(SMEM + 1024, &f16_map, SMEM, 12, 0);
}

KERNEL_OF(tma_store_unaligned)
{
    tma_store_2d(&f16_map, SMEM, 7, 0);
}

KERNEL_OF(tma_store_in_front)
{
    tma_store_2d(&f16_map, SMEM, 8, -1);
}

KERNEL_OF(tma_reduce_in_front)
{
    tma_reduce_add_2d(&f16_map, SMEM, -8, 0);
}

KERNEL_OF(load_not_waited)
{
    uint32_t smem = SMEM;
    if (thread_idx() == 0) {
        mbarrier_init(smem, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(smem, 16);
        bulk_load(smem + 1024, input, 16, smem);
    }
}

static void test_addresses(void **state)
{
    (void)state;
    expect_error(shared_out_of_bounds, 32, EMU_FAULT,
                 "0x8400 is out of bounds: the CTA has 0x400 to 0x8400");
    expect_error(shared_address_zero, 32, EMU_FAULT, "out of bounds");
    expect_error(shared_unaligned, 32, EMU_FAULT, "not 4-byte aligned");
    struct emu_launch launch = small_launch(shared_other_cta, 32);
    launch.cluster = 2;
    launch.grid[0] = 2;
    expect_error_launch(launch, EMU_FAULT, "needs the form for clusters");
    launch.entry = shared_outside_cluster;
    expect_error_launch(launch, EMU_FAULT, "the cluster has 2 CTAs");
    expect_error(matrix_unaligned, 32, EMU_FAULT, "not 16-byte aligned");
    expect_error(global_not_registered, 32, EMU_FAULT, "in no registered buffer");
    const struct emu_buffer short_buffer = {"short", output, 408, 1};
    launch = small_launch(global_past_the_end, 32);
    launch.buffers = &short_buffer;
    launch.buffer_count = 1;
    expect_error_launch(launch, EMU_FAULT,
                        "of 16 bytes at offset 400 of buffer 'short', which has 408 bytes");
    expect_error(global_read_only, 32, EMU_FAULT, "writes to buffer 'input', which is for reading");
    expect_error(bulk_size, 32, EMU_FAULT, "must be multiples of 16");
    expect_error(bulk_not_waited, 32, EMU_FAULT, "ended without waiting for its bulk stores");
    expect_error(tma_map_never_encoded, 32, EMU_FAULT, "never encoded");
    const struct emu_tensor tensor = {.data = output,
                                      .element = EMU_F16,
                                      .rank = 2,
                                      .dims = {32, 4},
                                      .strides_bytes = {64},
                                      .box = {8, 2}};
    assert_null(emu_tensor_map_encode(&f16_map, &tensor));
    expect_error(tma_load_unaligned, 32, EMU_FAULT,
                 "at coordinate 12 of elements of 2 bytes: not 16-byte aligned");
    expect_error(tma_store_unaligned, 32, EMU_FAULT,
                 "at coordinate 7 of elements of 2 bytes: not 16-byte aligned");
    expect_error(tma_store_in_front, 32, EMU_FAULT,
                 "TMA store at coordinate -1 of dimension 1: in front of the tensor");
    expect_error(tma_reduce_in_front, 32, EMU_FAULT,
                 "TMA reduction at coordinate -8 of dimension 0: in front of the tensor");
    expect_error(load_not_waited, 32, EMU_FAULT,
                 "nobody waited for the last load on mbarrier 0x400");
}

// ---- registers

KERNEL_OF(registers_value)
{
    (void)params;
    setmaxnreg_dec(20);
}

KERNEL_OF(registers_direction)
{
    (void)params;
    setmaxnreg_inc(32);
}

static void test_registers(void **state)
{
    (void)state;
    expect_error(registers_value, 128, EMU_FAULT, "a multiple of 8 from 24 to 256");
    expect_error(registers_direction, 512, EMU_FAULT, "the warp has 128 registers");
}

// ---- launches

KERNEL_OF(nothing)
{
    (void)params;
}

static void test_launch_limits(void **state)
{
    (void)state;
    struct emu_launch launch = small_launch(nothing, 32);
    expect_ok_launch(launch);
    launch.threads = 1056;
    expect_error_launch(launch, EMU_BAD_LAUNCH,
                        "1056 threads per CTA: a multiple of 32 up to 1024");
    launch.threads = 33;
    expect_error_launch(launch, EMU_BAD_LAUNCH, "33 threads");
    launch.threads = 1024;
    expect_ok_launch(launch);
    launch.smem_bytes = 232449;
    expect_error_launch(launch, EMU_BAD_LAUNCH,
                        "232449 bytes of shared memory: a CTA has at most 232448");
    launch.smem_bytes = 232448;
    expect_ok_launch(launch);
    launch.cluster = 17;
    expect_error_launch(launch, EMU_BAD_LAUNCH, "clusters of 17 CTAs: at most 16");
    launch.cluster = 2;
    launch.grid[0] = 3;
    expect_error_launch(launch, EMU_BAD_LAUNCH,
                        "3 CTAs along x is not a multiple of the cluster of 2");
    launch.cluster = 1;
    launch.resident = 17;
    expect_error_launch(launch, EMU_BAD_LAUNCH, "17 resident clusters");
    launch.resident = 1;
    launch.grid[1] = 0;
    expect_error_launch(launch, EMU_BAD_LAUNCH, "an empty grid");
    launch.grid[1] = 65536;
    expect_error_launch(launch, EMU_BAD_LAUNCH, "65536 CTAs along y or z: at most 65535");
    launch.grid[1] = 1;
    launch.entry = NULL;
    expect_error_launch(launch, EMU_BAD_LAUNCH, "no entry function");
}

static void test_map_limits(void **state)
{
    (void)state;
    tensor_map map;
    const struct emu_tensor good = {.data = input,
                                    .element = EMU_BF16,
                                    .rank = 2,
                                    .dims = {64, 64},
                                    .strides_bytes = {128},
                                    .box = {64, 64},
                                    .swizzle = EMU_SWIZZLE_128};
    assert_null(emu_tensor_map_encode(&map, &good));
    struct emu_tensor bad = good;
    bad.rank = 6;
    assert_non_null(strstr(emu_tensor_map_encode(&map, &bad), "rank"));
    bad = good;
    bad.data = (uint8_t *)input + 8;
    assert_non_null(strstr(emu_tensor_map_encode(&map, &bad), "data"));
    bad = good;
    bad.box[0] = 72;
    assert_non_null(strstr(emu_tensor_map_encode(&map, &bad), "swizzle's width"));
    bad.box[0] = 56;
    assert_non_null(strstr(emu_tensor_map_encode(&map, &bad), "swizzle's width"));
    bad = good;
    bad.box[0] = 4;
    assert_non_null(strstr(emu_tensor_map_encode(&map, &bad), "multiple of 16 bytes"));
    bad = good;
    bad.box[1] = 257;
    assert_non_null(strstr(emu_tensor_map_encode(&map, &bad), "box"));
    bad = good;
    bad.strides_bytes[0] = 120;
    assert_non_null(strstr(emu_tensor_map_encode(&map, &bad), "strides_bytes"));
    bad = good;
    bad.dims[1] = 0;
    assert_non_null(strstr(emu_tensor_map_encode(&map, &bad), "dims"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_every_reader_counts),
        cmocka_unit_test(test_fence_by_the_reader),
        cmocka_unit_test(test_warps),
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_mbarriers),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_registers),
        cmocka_unit_test(test_launch_limits),
        cmocka_unit_test(test_map_limits),
    };
    return cmocka_run_group_tests_name("emu_faults", tests, NULL, NULL);
}
