// Tensor memory: every shape of ld and st, copies from shared memory, the reducing load,
// allocation, commits, and Blackwell's small instructions.
#include "tensor_kernel.h"

#include "../../src/device/ptx/tma_pair.h"
#include "every_tcgen05.c" // links only if every wrapper has its twin
#include "tcgen05_mma.h"

// ---- ld and st

struct shape_job {
    tensor_shape shape;
    uint32_t num;
    bool is_store; // st in the shape and ld 32x32b, or the other way round
    uint32_t half; // 16-lane shapes: from the middle of the warp's lanes on
};

enum { SPLIT = 24, COLUMN = 32 };

static uint32_t value_at(uint32_t lane, uint32_t column)
{
    return lane << 16 | (column + 7);
}

static void shape_load(const struct shape_job *job, uint32_t *r, uint32_t addr)
{
    switch (job->shape) {
    case SHAPE_32X32B: tcgen05_ld_32x32b(job->num, r, addr); break;
    case SHAPE_16X64B: tcgen05_ld_16x64b(job->num, r, addr); break;
    case SHAPE_16X128B: tcgen05_ld_16x128b(job->num, r, addr); break;
    case SHAPE_16X256B: tcgen05_ld_16x256b(job->num, r, addr); break;
    case SHAPE_16X32BX2: tcgen05_ld_16x32bx2(job->num, r, addr, SPLIT); break;
    }
}

static void shape_store(const struct shape_job *job, uint32_t addr, const uint32_t *r)
{
    switch (job->shape) {
    case SHAPE_32X32B: tcgen05_st_32x32b(job->num, addr, r); break;
    case SHAPE_16X64B: tcgen05_st_16x64b(job->num, addr, r); break;
    case SHAPE_16X128B: tcgen05_st_16x128b(job->num, addr, r); break;
    case SHAPE_16X256B: tcgen05_st_16x256b(job->num, addr, r); break;
    case SHAPE_16X32BX2: tcgen05_st_16x32bx2(job->num, addr, SPLIT, r); break;
    }
}

// Lanes of the warp see what the others stored.
static void pass_on(void)
{
    tcgen05_wait_st();
    tcgen05_fence_before();
    warp_sync();
    tcgen05_fence_after();
}

static uint32_t mismatches;

static void kernel_shape(const void *params)
{
    const struct shape_job *job = params;
    uint32_t tensor = tensor_begin(512);
    uint32_t t = thread_idx() % 32;
    uint32_t lane0 = thread_idx() / 32 * 32;
    struct tensor_instruction instruction = {job->shape, job->num, 0, SPLIT};
    uint32_t registers = tensor_registers(job->shape, job->num);
    uint32_t base = tensor + (lane0 << 16) + COLUMN;
    uint32_t shaped = base + (job->half << 16);
    uint32_t r[128];
    for (uint32_t c = 0; c < 480; c += 32) { // everything is written, with something else
        for (uint32_t i = 0; i < 32; i++) {
            r[i] = job->is_store ? 1 : value_at(lane0 + t, c + i);
        }
        tcgen05_st_32x32b(32, base + c, r);
    }
    pass_on();
    for (uint32_t i = 0; i < registers; i++) {
        r[i] = value_at(lane0 + job->half + tensor_lane(job->shape, t, i),
                        tensor_column(&instruction, t, i));
    }
    if (job->is_store) {
        shape_store(job, shaped, r);
        pass_on();
        bool is_mine[480] = {false};
        for (uint32_t u = 0; u < 32; u++) {
            for (uint32_t i = 0; i < registers; i++) {
                if (job->half + tensor_lane(job->shape, u, i) == t) {
                    is_mine[tensor_column(&instruction, u, i)] = true;
                }
            }
        }
        for (uint32_t c = 0; c < 480; c += 32) {
            uint32_t got[32];
            tcgen05_ld_32x32b(32, got, base + c);
            tcgen05_wait_ld();
            for (uint32_t i = 0; i < 32; i++) {
                mismatches += got[i] != (is_mine[c + i] ? value_at(lane0 + t, c + i) : 1);
            }
        }
    } else {
        uint32_t got[128];
        shape_load(job, got, shaped);
        tcgen05_wait_ld();
        mismatches += memcmp(got, r, registers * sizeof r[0]) != 0;
    }
    tensor_end(tensor, 512);
}

static void test_every_shape(void **state)
{
    (void)state;
    static const uint32_t most[] = {128, 128, 64, 32, 128};
    for (uint32_t shape = SHAPE_32X32B; shape <= SHAPE_16X32BX2; shape++) {
        for (uint32_t num = 1; num <= most[shape]; num *= 2) {
            if (shape == SHAPE_16X32BX2 && num > SPLIT) {
                continue; // the halves would overlap
            }
            for (uint32_t i = 0; i < 4; i++) {
                struct shape_job job = {(tensor_shape)shape, num, i % 2,
                                        shape == SHAPE_32X32B ? 0 : 16 * (i / 2)};
                struct emu_launch launch = tensor_launch(kernel_shape, 128);
                launch.params = &job;
                launch.async = (emu_async)((num + i) % 3);
                struct emu_result result;
                mismatches = 0;
                if (emu_launch(&launch, &result) != EMU_OK || mismatches) {
                    fail_msg("shape %u x%u, %u: %u mismatches, %s", shape, num, i, mismatches,
                             result.text);
                }
            }
        }
    }
}

static void kernel_reduce(const void *params)
{
    (void)params;
    uint32_t tensor = tensor_begin(64);
    uint32_t at = tensor + (thread_idx() / 32 * 32 << 16);
    uint32_t r[64];
    float extreme[2];
    for (uint32_t i = 0; i < 64; i++) {
        r[i] = bits_of_f32((float)((int)(i * 29 + thread_idx()) % 64) - 20.0f);
    }
    tcgen05_st_32x32b(64, at, r);
    tcgen05_wait_st();
    uint32_t got[64];
    tcgen05_ld_max_32x32b(64, got, &extreme[0], at);
    tcgen05_ld_min_32x32b(2, r, &extreme[1], at);
    tcgen05_wait_ld();
    output[2 * thread_idx()] = bits_of_f32(extreme[0]);
    output[2 * thread_idx() + 1] = bits_of_f32(extreme[1]);
    mismatches += got[1] != r[1];
    tensor_end(tensor, 64);
}

static void test_reducing_load(void **state)
{
    (void)state;
    struct emu_launch launch = tensor_launch(kernel_reduce, 128);
    launch.arch = 103;
    mismatches = 0;
    expect_ok_launch(launch);
    assert_int_equal(mismatches, 0);
    for (int t = 0; t < 128; t++) {
        float first = (float)(t % 64) - 20.0f;
        float second = (float)((29 + t) % 64) - 20.0f;
        assert_true(f32_of_bits(output[2 * t]) == 43.0f);
        assert_true(f32_of_bits(output[2 * t + 1]) == (first < second ? first : second));
    }
}

// ---- copies from shared memory

static void copy_shape(cp_shape shape, uint32_t addr, uint64_t desc)
{
    switch (shape) {
    case CP_128X256B: tcgen05_cp_128x256b(addr, desc); break;
    case CP_4X256B: tcgen05_cp_4x256b(addr, desc); break;
    case CP_128X128B: tcgen05_cp_128x128b(addr, desc); break;
    case CP_64X128B_02_13: tcgen05_cp_64x128b_02_13(addr, desc); break;
    case CP_64X128B_01_23: tcgen05_cp_64x128b_01_23(addr, desc); break;
    case CP_32X128B: tcgen05_cp_32x128b(addr, desc); break;
    }
}

// Rows of 32 bytes: pieces of 8 rows x 16 bytes, 128 bytes each; the second 16 bytes of all rows
// follow.
static void kernel_copy(const void *params)
{
    const cp_shape *shape = params;
    uint32_t smem = dynamic_smem();
    uint32_t tensor = tensor_begin(32);
    uint32_t columns = cp_columns(*shape);
    for (uint32_t i = 0; i < 8; i++) {
        st_shared_u32(smem + SMEM_A + i / 4 * 2048 + thread_idx() * 16 + i % 4 * 4,
                      value_at(thread_idx(), i));
    }
    uint32_t zeros[8] = {0};
    uint32_t at = tensor + (thread_idx() / 32 * 32 << 16) + 8;
    tcgen05_st_32x32b(8, at, zeros);
    tcgen05_wait_st();
    tcgen05_fence_before();
    fence_proxy_async();
    cta_sync();
    if (thread_idx() == 0) {
        tcgen05_fence_after();
        copy_shape(*shape, tensor + 8,
                   tcgen05_matrix_descriptor(smem + SMEM_A, 2048, 128, TCGEN05_NO_SWIZZLE));
        tcgen05_commit(smem + SMEM_BARRIER);
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    tcgen05_fence_after();
    uint32_t got[8];
    uint32_t want[8] = {0};
    tcgen05_ld_32x32b(8, got, at);
    tcgen05_wait_ld();
    for (uint32_t r = 0; r < cp_rows(*shape); r++) {
        uint32_t lanes[4];
        uint32_t count = cp_lanes(*shape, r, lanes);
        for (uint32_t i = 0; i < count * columns; i++) {
            if (lanes[i / columns] == thread_idx()) {
                want[i % columns] = value_at(r, i % columns);
            }
        }
    }
    mismatches += memcmp(got, want, sizeof want) != 0;
    tensor_end(tensor, 32);
}

static void test_copies(void **state)
{
    (void)state;
    for (cp_shape shape = CP_128X256B; shape <= CP_32X128B; shape++) {
        struct emu_launch launch = tensor_launch(kernel_copy, 128);
        launch.params = &shape;
        mismatches = 0;
        expect_ok_launch(launch);
        assert_int_equal(mismatches, 0);
    }
}

// ---- tcgen05.shift

// Each lane holds its own values in 16 columns; the middle 8 move. params: at which lane the shift
// begins. With launch.cluster 2 by a pair.
static void kernel_shift(const void *params)
{
    const uint32_t first = *(const uint32_t *)params;
    bool is_pair = cluster_size() == 2;
    uint32_t smem = dynamic_smem();
    uint32_t lane = thread_idx() % 128;
    if (thread_idx() == 0) {
        mbarrier_init(smem + SMEM_BARRIER, 1);
        fence_mbarrier_init();
    }
    if (thread_idx() < 32) {
        (is_pair ? tcgen05_alloc_pair : tcgen05_alloc)(smem + SMEM_ADDRESS, 32);
    }
    cta_sync();
    uint32_t tensor = ld_shared_u32(smem + SMEM_ADDRESS);
    uint32_t at = tensor + (lane / 32 * 32 << 16);
    uint32_t values[16];
    for (uint32_t i = 0; i < 16; i++) {
        values[i] = value_at(lane, i) + cluster_rank();
    }
    tcgen05_st_32x32b(16, at, values);
    tcgen05_wait_st();
    tcgen05_fence_before();
    cluster_arrive();
    cluster_wait();
    if (thread_idx() == 0 && cluster_rank() == 0) {
        tcgen05_fence_after();
        uint32_t from = tensor + (first << 16) + 4;
        if (is_pair) {
            tcgen05_shift_down_pair(from);
            tcgen05_commit_pair_multicast(smem + SMEM_BARRIER, 3);
        } else {
            tcgen05_shift_down(from);
            tcgen05_commit(smem + SMEM_BARRIER);
        }
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    tcgen05_fence_after();
    uint32_t got[16];
    tcgen05_ld_32x32b(16, got, at);
    tcgen05_wait_ld();
    for (uint32_t i = 0; i < 16; i++) {
        bool moves = lane > first && i >= 4 && i < 12;
        mismatches += got[i] != value_at(lane - moves, i) + cluster_rank();
    }
    cluster_arrive();
    cluster_wait();
    if (thread_idx() < 32) {
        (is_pair ? tcgen05_dealloc_pair : tcgen05_dealloc)(tensor, 32);
    }
}

static void test_shift(void **state)
{
    (void)state;
    for (uint32_t cluster = 1; cluster <= 2; cluster++) {
        for (uint32_t first = 0; first < 128; first += 32) {
            struct emu_launch launch = tensor_launch(kernel_shift, 128);
            launch.cluster = launch.grid[0] = cluster;
            launch.params = &first;
            mismatches = 0;
            expect_ok_launch(launch);
            assert_int_equal(mismatches, 0);
        }
    }
}

// ---- allocation

// A warp waits for the columns that another one gives back.
static void kernel_alloc_waits(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    if (thread_idx() < 32) {
        tcgen05_alloc(smem, 512);
        warp_sync();
        uint32_t first = ld_shared_u32(smem);
        barrier_arrive(1, 64);
        tcgen05_dealloc(first, 512);
    } else {
        barrier_sync(1, 64);
        for (uint32_t i = 0; i < 3; i++) {
            tcgen05_alloc(smem + 4 + 4 * i, 256 >> i);
        }
        tcgen05_relinquish();
        warp_sync();
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t at = ld_shared_u32(smem + 4 + 4 * i);
            if (thread_idx() == 32) {
                output[i] = at;
            }
            tcgen05_dealloc(at, 256 >> i);
        }
    }
}

// The peers' allocations are one: both get the same columns, when both have come.
static void kernel_alloc_pair(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    if (cluster_rank() == 1) {
        for (uint32_t i = 0; i < 10; i++) {
            warp_sync();
        }
    }
    tcgen05_alloc_pair(smem, 128);
    tcgen05_relinquish_pair();
    warp_sync();
    uint32_t at = ld_shared_u32(smem);
    if (thread_idx() == 0) {
        output[cluster_rank()] = at;
    }
    cluster_arrive();
    cluster_wait();
    tcgen05_dealloc_pair(at, 128);
}

static void test_allocation(void **state)
{
    (void)state;
    expect_tensor_ok(kernel_alloc_waits, 64);
    assert_int_equal(output[0], 0);
    assert_int_equal(output[1], 256);
    assert_int_equal(output[2], 384);
    struct emu_launch launch = tensor_launch(kernel_alloc_pair, 32);
    launch.cluster = launch.grid[0] = 2;
    expect_ok_launch(launch);
    assert_int_equal(output[0], 0);
    assert_int_equal(output[1], 0);
}

// ---- order

// An accumulator that everybody uses in turn: mma, ld, st, mma again; and a commit behind nothing.
static void kernel_hand_over(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    uint32_t tensor = tensor_begin(32);
    uint32_t at = tensor + (thread_idx() / 32 * 32 << 16);
    uint32_t r[16];
    if (thread_idx() == 0) {
        tensor_multiply(tensor, 0);
        tensor_multiply(tensor, 1);
        tcgen05_commit(smem + SMEM_BARRIER);
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    tcgen05_fence_after();
    tcgen05_ld_16x256b(2, r, at);
    tcgen05_wait_ld();
    for (uint32_t i = 0; i < 8; i++) {
        r[i] = bits_of_f32(f32_of_bits(r[i]) * 2.0f);
    }
    tcgen05_st_16x256b(2, at, r);
    tcgen05_wait_st();
    tcgen05_fence_before();
    cta_sync();
    if (thread_idx() == 0) {
        tcgen05_fence_after();
        tensor_multiply(tensor, 1);
        tcgen05_commit(smem + SMEM_BARRIER);
    }
    mbarrier_wait(smem + SMEM_BARRIER, 1);
    tcgen05_fence_after();
    tcgen05_ld_16x256b(2, r, at);
    tcgen05_wait_ld();
    for (uint32_t i = 0; i < 8; i++) {
        mismatches += f32_of_bits(r[i]) != 80.0f;
    }
    cta_sync(); // all have seen the phase before
    if (thread_idx() == 0) {
        tcgen05_commit(smem + SMEM_BARRIER);
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    tensor_end(tensor, 32);
}

static void test_hand_over(void **state)
{
    (void)state;
    mismatches = 0;
    expect_tensor_ok(kernel_hand_over, 128);
    assert_int_equal(mismatches, 0);
}

// Both CTAs load for the pair; the first one's mbarrier counts all bytes.
static void kernel_pair_load(const void *params)
{
    uint32_t smem = dynamic_smem();
    const tensor_map *map = params;
    uint32_t rank = cluster_rank();
    if (thread_idx() == 0) {
        mbarrier_init(smem, 1);
        fence_mbarrier_init();
    }
    cluster_arrive();
    cluster_wait();
    if (thread_idx() == 0) {
        tma_load_pair_2d(smem + 1024, map, cluster_map(smem, 0), 0, (int32_t)rank * 8);
        if (rank == 0) {
            mbarrier_arrive_expect_tx(smem, 2 * 8 * 64);
            mbarrier_wait_cluster(smem, 0);
        }
    }
    cluster_arrive();
    cluster_wait();
    for (uint32_t i = thread_idx(); i < 128; i += 32) {
        output[128 * rank + i] = ld_shared_u32(smem + 1024 + 4 * i);
    }
}

static void test_pair_load(void **state)
{
    (void)state;
    tensor_map map;
    const struct emu_tensor tensor = {.data = input,
                                      .element = EMU_U32,
                                      .rank = 2,
                                      .dims = {16, 16},
                                      .strides_bytes = {64},
                                      .box = {16, 8}};
    struct emu_launch launch = tensor_launch(kernel_pair_load, 32);
    assert_null(emu_tensor_map_encode(&map, &tensor));
    launch.params = &map;
    launch.cluster = launch.grid[0] = 2;
    expect_ok_launch(launch);
    assert_memory_equal(output, input, 1024);
}

static void test_packed_math(void **state)
{
    (void)state;
    struct f32x2 a = {3.0f, -0.5f};
    struct f32x2 b = {1e-3f, 8.0f};
    assert_true(add_f32x2(a, b).y == 7.5f && sub_f32x2(a, b).y == -8.5f);
    assert_true(mul_f32x2(a, b).x == 3.0f * 1e-3f && fma_f32x2(a, b, a).y == -4.5f);
    assert_true(max3_f32(1.0f, 3.0f, 2.0f) == 3.0f &&
                max3_f32(-1.0f, f32_of_bits(0x7fc00000), -2.0f) == -1.0f);
    // 1.5 * 2^23 and back: the floor
    static const float floors[][2] = {{2.75f, 2.0f}, {-2.25f, -3.0f},  {-3.0f, -3.0f},
                                      {0.0f, 0.0f},  {-1e-30f, -1.0f}, {1e-30f, 0.0f}};
    for (size_t i = 0; i < 6; i++) {
        struct f32x2 x = {floors[i][0], floors[i][0]};
        struct f32x2 magic = {12582912.0f, 12582912.0f};
        struct f32x2 r = sub_f32x2(add_rm_f32x2(x, magic), magic);
        assert_true(r.x == floors[i][1] && r.y == floors[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape), cmocka_unit_test(test_reducing_load),
        cmocka_unit_test(test_copies),      cmocka_unit_test(test_shift),
        cmocka_unit_test(test_allocation),  cmocka_unit_test(test_hand_over),
        cmocka_unit_test(test_pair_load),   cmocka_unit_test(test_packed_math),
    };
    return cmocka_run_group_tests_name("emu_tmem", tests, NULL, NULL);
}
