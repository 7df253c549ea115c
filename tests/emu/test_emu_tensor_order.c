// Order in tensor memory: what waits, fences and commits are needed for, each left out once, and
// what PTX promises about operations of one thread.
#include "tensor_kernel.h"

#define KERNEL_OF(name) static void name(const void *params)
#define TENSOR(columns) ((void)params, tensor_begin(columns))
#define OWN_LANES(tensor) ((tensor) + (thread_idx() / 32 * 32 << 16))

enum { IDESC = 0x04040490 }; // bf16, m 64, n 16

// ---- D from one thread's mma to all, with one step left out

enum step {
    ALL,
    NO_COMMIT_WAIT,
    NO_FENCE_AFTER,
    NO_WAIT_LD,
    NO_FENCE_BEFORE,
    NO_BARRIER,
    NO_LAST_FENCE_AFTER
};

static void hand_over(enum step without)
{
    uint32_t tensor = tensor_begin(32);
    uint32_t smem = dynamic_smem();
    static uint32_t r[128][8]; // outlives the kernel, in which nobody waits for it
    if (thread_idx() == 0) {
        tensor_multiply(tensor, 0);
        tcgen05_commit(smem + SMEM_BARRIER);
    }
    cta_sync(); // it is issued, not more
    if (without != NO_COMMIT_WAIT) {
        mbarrier_wait(smem + SMEM_BARRIER, 0);
    }
    if (without != NO_FENCE_AFTER) {
        tcgen05_fence_after();
    }
    tcgen05_ld_16x256b(2, r[thread_idx()], OWN_LANES(tensor));
    if (without != NO_WAIT_LD) {
        tcgen05_wait_ld();
    }
    if (without != NO_FENCE_BEFORE) {
        tcgen05_fence_before();
    }
    if (without != NO_BARRIER) {
        cta_sync();
    }
    if (thread_idx() == 0) {
        if (without != NO_LAST_FENCE_AFTER) {
            tcgen05_fence_after();
        }
        tensor_multiply(tensor, 0);
        tcgen05_commit(smem + SMEM_BARRIER);
    }
    mbarrier_wait(smem + SMEM_BARRIER, 1);
    if (without == NO_WAIT_LD) {
        tcgen05_wait_ld();
    }
    tensor_end(tensor, 32);
}

KERNEL_OF(hand_over_all)
{
    (void)params;
    hand_over(ALL);
}

KERNEL_OF(hand_over_commit_wait)
{
    (void)params;
    hand_over(NO_COMMIT_WAIT);
}

KERNEL_OF(hand_over_fence_after)
{
    (void)params;
    hand_over(NO_FENCE_AFTER);
}

KERNEL_OF(hand_over_wait_ld)
{
    (void)params;
    hand_over(NO_WAIT_LD);
}

KERNEL_OF(hand_over_fence_before)
{
    (void)params;
    hand_over(NO_FENCE_BEFORE);
}

KERNEL_OF(hand_over_barrier)
{
    (void)params;
    hand_over(NO_BARRIER);
}

KERNEL_OF(hand_over_last_fence_after)
{
    (void)params;
    hand_over(NO_LAST_FENCE_AFTER);
}

// P after S in the same columns, by the same thread: in order on the hardware, not by the letter.
KERNEL_OF(aliased)
{
    uint32_t tensor = TENSOR(64);
    uint32_t zeros[16] = {0};
    tcgen05_st_32x32b(16, OWN_LANES(tensor), zeros);
    tcgen05_wait_st();
    tcgen05_fence_before();
    cta_sync();
    if (thread_idx() == 0) {
        tcgen05_fence_after();
        uint64_t tile =
            tcgen05_matrix_descriptor(dynamic_smem() + SMEM_A, 0, 1024, TCGEN05_SWIZZLE_128);
        tcgen05_mma_f16_ts(tensor + 32, tensor, tile, IDESC, 0);
        tensor_multiply(tensor, 0);
        tcgen05_commit(dynamic_smem() + SMEM_BARRIER);
    }
    mbarrier_wait(dynamic_smem() + SMEM_BARRIER, 0);
    tensor_end(tensor, 64);
}

// Who only passes a message on passes on what it says about tensor memory too.
KERNEL_OF(relayed)
{
    uint32_t tensor = TENSOR(32);
    uint32_t smem = dynamic_smem();
    uint32_t r[16] = {0};
    if (thread_idx() < 32) {
        tcgen05_st_32x32b(16, OWN_LANES(tensor), r);
        tcgen05_wait_st();
        tcgen05_fence_before();
        barrier_arrive(1, 64);
    } else if (thread_idx() < 64) {
        barrier_sync(1, 64);
        barrier_arrive(2, 64);
    } else {
        barrier_sync(2, 64);
        if (thread_idx() == 64) {
            tcgen05_fence_after();
            tensor_multiply(tensor, 0);
            tcgen05_commit(smem + SMEM_BARRIER);
        }
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    tensor_end(tensor, 32);
}

// A commit is the fence of all that its thread did in tensor memory, not of its operations alone.
KERNEL_OF(committed)
{
    uint32_t tensor = TENSOR(32);
    uint32_t smem = dynamic_smem();
    uint32_t r = thread_idx();
    if (thread_idx() < 32) {
        tcgen05_st_32x32b(1, tensor, &r);
        tcgen05_wait_st();
        if (thread_idx() != 0) {
            tcgen05_fence_before();
        }
        warp_sync();
        if (thread_idx() == 0) {
            tcgen05_commit(smem + SMEM_BARRIER);
        }
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    if (thread_idx() >= 128) {
        tcgen05_fence_after();
        tcgen05_ld_32x32b(1, &r, tensor);
        tcgen05_wait_ld();
    }
    tensor_end(tensor, 32);
}

// An elected arrival speaks for its own lane alone: the others must meet it first.
static void store_and_elect(bool meet)
{
    uint32_t tensor = tensor_begin(32);
    uint32_t smem = dynamic_smem();
    uint32_t r[16] = {0};
    if (thread_idx() == 32) {
        mbarrier_init(smem + 16, 1);
    }
    cta_sync();
    if (thread_idx() < 32) {
        tcgen05_st_32x32b(16, OWN_LANES(tensor), r);
        tcgen05_wait_st();
        tcgen05_fence_before();
        if (meet) {
            warp_sync();
        }
        if (elect_one()) {
            mbarrier_arrive(smem + 16);
        }
    } else if (thread_idx() == 32) {
        mbarrier_wait(smem + 16, 0);
        tcgen05_fence_after();
        tensor_multiply(tensor, 0);
        tcgen05_commit(smem + SMEM_BARRIER);
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    tensor_end(tensor, 32);
}

KERNEL_OF(elected)
{
    (void)params;
    store_and_elect(true);
}

KERNEL_OF(elected_too_early)
{
    (void)params;
    store_and_elect(false);
}

// P comes in two parts with an mbarrier each; the multiplication of the second must wait for the
// second.
static void split_p(bool waits)
{
    uint32_t tensor = tensor_begin(64);
    uint32_t smem = dynamic_smem();
    uint32_t ones[8] = {0};
    if (thread_idx() == 0) {
        mbarrier_init(smem + 16, 128);
        mbarrier_init(smem + 24, 128);
    }
    cta_sync();
    for (uint32_t part = 0; part < 2; part++) {
        tcgen05_st_32x32b(8, OWN_LANES(tensor) + 32 + 8 * part, ones);
        tcgen05_wait_st();
        tcgen05_fence_before();
        mbarrier_arrive(smem + 16 + 8 * part);
    }
    if (thread_idx() == 0) {
        uint64_t b = tcgen05_matrix_descriptor(smem + SMEM_B, 0, 1024, TCGEN05_SWIZZLE_128);
        for (uint32_t part = 0; part < 2; part++) {
            if (part == 0 || waits) {
                mbarrier_wait(smem + 16 + 8 * part, 0);
                tcgen05_fence_after();
            }
            tcgen05_mma_f16_ts(tensor, tensor + 32 + 8 * part, b, IDESC, part);
        }
        tcgen05_commit(smem + SMEM_BARRIER);
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    tensor_end(tensor, 64);
}

KERNEL_OF(both_parts)
{
    (void)params;
    split_p(true);
}

KERNEL_OF(second_part_too_early)
{
    (void)params;
    split_p(false);
}

// A whole warp waits for each of the buffers, one lane multiplies and commits: the others must not
// fall behind by two phases.
static void warp_wide_waits(bool meet)
{
    uint32_t tensor = tensor_begin(32);
    uint32_t smem = dynamic_smem();
    if (thread_idx() == 0) {
        mbarrier_init(smem + 16, 1);
    }
    cta_sync();
    for (uint32_t i = 0; i < 4; i++) {
        if (thread_idx() == 32) {
            mbarrier_arrive(smem + 16);
            mbarrier_wait(smem + SMEM_BARRIER, i & 1);
        } else if (thread_idx() < 32) {
            mbarrier_wait(smem + 16, i & 1);
            if (meet) {
                warp_sync();
            }
            if (thread_idx() == 0) { // not elect, at which all meet
                tensor_multiply(tensor, i != 0);
                tcgen05_commit(smem + SMEM_BARRIER);
            }
        }
    }
    tensor_end(tensor, 32);
}

KERNEL_OF(warp_waits_and_meets)
{
    (void)params;
    warp_wide_waits(true);
}

KERNEL_OF(warp_waits)
{
    (void)params;
    warp_wide_waits(false);
}

// ---- shift and the operations beside it, in one thread

enum beside { MMA_SHIFT_MMA, SHIFT_SHIFT, SHIFT_CP, CP_SHIFT };

static void shift_beside(const void *params)
{
    enum beside what = *(const enum beside *)params;
    uint32_t tensor = tensor_begin(32);
    uint32_t smem = dynamic_smem();
    uint32_t zeros[16] = {0};
    tcgen05_st_32x32b(16, OWN_LANES(tensor), zeros);
    tcgen05_wait_st();
    tcgen05_fence_before();
    cta_sync();
    if (thread_idx() == 0) {
        tcgen05_fence_after();
        uint64_t tile = tcgen05_matrix_descriptor(smem + SMEM_A, 2048, 128, TCGEN05_NO_SWIZZLE);
        if (what == MMA_SHIFT_MMA) {
            tensor_multiply(tensor, 1);
        } else if (what == CP_SHIFT) {
            tcgen05_cp_4x256b(tensor, tile);
        }
        tcgen05_shift_down(tensor);
        if (what == MMA_SHIFT_MMA) {
            tensor_multiply(tensor, 1);
        } else if (what == SHIFT_SHIFT) {
            tcgen05_shift_down(tensor);
        } else if (what == SHIFT_CP) {
            tcgen05_cp_4x256b(tensor, tile);
        }
        tcgen05_commit(smem + SMEM_BARRIER);
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    tcgen05_fence_after();
    tensor_end(tensor, 32);
}

// It is done when a commit says so.
KERNEL_OF(shift_seen_too_early)
{
    uint32_t tensor = TENSOR(32);
    uint32_t r[8] = {0};
    tcgen05_st_32x32b(8, OWN_LANES(tensor), r);
    tcgen05_wait_st();
    tcgen05_fence_before();
    cta_sync();
    if (thread_idx() == 0) {
        tcgen05_fence_after();
        tcgen05_shift_down(tensor);
        tcgen05_commit(dynamic_smem() + SMEM_BARRIER);
    }
    cta_sync();
    tcgen05_fence_after();
    tcgen05_ld_32x32b(8, r, OWN_LANES(tensor));
    tcgen05_wait_ld();
    tensor_end(tensor, 32);
}

static void test_shift(void **state)
{
    (void)state;
    struct emu_launch launch = tensor_launch(shift_beside, 128);
    for (enum beside what = MMA_SHIFT_MMA; what <= CP_SHIFT; what++) {
        launch.params = &what;
        launch.check = EMU_CHECK_STRICT;
        expect_ok_launch(launch);
        launch.check = EMU_CHECK_ORDER;
        if (what == MMA_SHIFT_MMA || what == SHIFT_CP) {
            expect_ok_launch(launch);
        } else {
            expect_error_launch(launch, EMU_RACE, "PTX orders operations of a thread only");
        }
    }
    expect_tensor_error(shift_seen_too_early, 128, EMU_RACE, "the tcgen05.shift by");
}

static void test_order(void **state)
{
    (void)state;
    expect_tensor_ok(hand_over_all, 128);
    expect_tensor_error(hand_over_commit_wait, 128, EMU_RACE,
                        "nobody here waited for a tcgen05_commit after it");
    expect_tensor_error(hand_over_fence_after, 128, EMU_RACE,
                        "this thread has no tcgen05_fence_after");
    expect_tensor_error(hand_over_wait_ld, 128, EMU_RACE,
                        "a tcgen05_wait of that thread, or a barrier after it, is missing");
    expect_tensor_error(hand_over_fence_before, 128, EMU_RACE,
                        "that thread has no tcgen05_fence_before after it");
    expect_tensor_error(hand_over_barrier, 128, EMU_RACE, "may still be read: the tcgen05.ld");
    expect_tensor_error(hand_over_last_fence_after, 128, EMU_RACE,
                        "this thread has no tcgen05_fence_after");
    expect_tensor_ok(relayed, 96);
    expect_tensor_ok(committed, 160);
    expect_tensor_ok(elected, 64);
    expect_tensor_ok(both_parts, 128);
    expect_tensor_error(second_part_too_early, 128, EMU_RACE,
                        "tcgen05.mma reading A of tensor memory (lane");
    expect_tensor_ok(warp_waits_and_meets, 64);
    expect_tensor_error(warp_waits, 64, EMU_RACE, "misses this one and waits for ever");
    expect_tensor_error(elected_too_early, 64, EMU_RACE, "lane 1");
}

static void test_order_of_one_thread(void **state)
{
    (void)state;
    expect_tensor_ok(aliased, 128);
    struct emu_launch launch = tensor_launch(aliased, 128);
    launch.check = EMU_CHECK_ORDER;
    expect_error_launch(launch, EMU_RACE,
                        "overwrites what may still be read: the tcgen05.mma reading A");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_order_of_one_thread),
        cmocka_unit_test(test_shift),
    };
    return cmocka_run_group_tests_name("emu_tensor_order", tests, NULL, NULL);
}
