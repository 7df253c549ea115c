// Misuse of tensor memory and tcgen05: each rule broken once, by a kernel of a few lines. Each ends
// with a status and a text that says what, never with a crash.
#include "tensor_kernel.h"

#include "../../src/device/ptx/tma_pair.h"
#include "../../src/device/ptx/wgmma.h"

#define KERNEL_OF(name) static void name(const void *params)
#define TENSOR(columns) ((void)params, tensor_begin(columns))
#define OWN_LANES(tensor) ((tensor) + (thread_idx() / 32 * 32 << 16))

static void expect_pair_error(void (*entry)(const void *), uint32_t threads, emu_status status,
                              const char *words)
{
    struct emu_launch launch = tensor_launch(entry, threads);
    launch.cluster = launch.grid[0] = 2;
    expect_error_launch(launch, status, words);
}

// ---- which machine

KERNEL_OF(on_hopper)
{
    (void)params;
    tcgen05_alloc(dynamic_smem(), 32);
}

KERNEL_OF(wgmma_on_blackwell)
{
    (void)params;
    wgmma_fence();
}

KERNEL_OF(reducing_load)
{
    uint32_t r[2];
    float max;
    uint32_t tensor = TENSOR(32);
    tcgen05_ld_max_32x32b(2, r, &max, OWN_LANES(tensor));
}

KERNEL_OF(pair_load_on_hopper)
{
    (void)params;
    static const struct emu_tensor tensor = {.data = input,
                                             .element = EMU_U32,
                                             .rank = 2,
                                             .dims = {16, 16},
                                             .strides_bytes = {64},
                                             .box = {16, 8}};
    tensor_map map;
    emu_tensor_map_encode(&map, &tensor);
    tma_load_pair_2d(dynamic_smem(), &map, dynamic_smem(), 0, 0);
}

static void test_machine(void **state)
{
    (void)state;
    expect_error(on_hopper, 32, EMU_FAULT, "the launch is for sm_90, which has no tensor memory");
    expect_error(pair_load_on_hopper, 32, EMU_FAULT, "which has no CTA pairs");
    expect_tensor_error(wgmma_on_blackwell, 128, EMU_FAULT, "only sm_90 has it");
    expect_tensor_error(reducing_load, 32, EMU_FAULT, "only sm_103 has it");
    struct emu_launch launch = tensor_launch(on_hopper, 32);
    launch.arch = 95;
    expect_error_launch(launch, EMU_BAD_LAUNCH, "arch 95: 90, 100 or 103");
}

// ---- allocation

KERNEL_OF(alloc_size)
{
    (void)params;
    tcgen05_alloc(dynamic_smem(), 96);
}

KERNEL_OF(alloc_grows)
{
    (void)params;
    tcgen05_alloc(dynamic_smem(), 32);
    tcgen05_alloc(dynamic_smem() + 4, 64);
}

KERNEL_OF(alloc_address)
{
    (void)params;
    tcgen05_alloc(dynamic_smem() + 2, 32);
}

KERNEL_OF(alloc_after_relinquish)
{
    (void)params;
    tcgen05_relinquish();
    tcgen05_alloc(dynamic_smem(), 32);
}

KERNEL_OF(alloc_too_much)
{
    (void)params;
    tcgen05_alloc(dynamic_smem(), 512);
    tcgen05_alloc(dynamic_smem() + 4, 512);
}

KERNEL_OF(alloc_by_a_lane)
{
    (void)params;
    if (thread_idx() == 0) {
        tcgen05_alloc(dynamic_smem(), 32);
    }
}

KERNEL_OF(alloc_unread)
{
    (void)params;
    if (thread_idx() < 32) {
        tcgen05_alloc(dynamic_smem(), 32);
    }
    ld_shared_u32(dynamic_smem());
}

KERNEL_OF(alloc_two_warps)
{
    (void)params;
    if (thread_idx() < 32) {
        tcgen05_alloc(dynamic_smem(), 512);
        cta_sync();
        tcgen05_alloc(dynamic_smem() + 8, 512);
    } else {
        cta_sync();
        tcgen05_alloc(dynamic_smem() + 16, 512);
    }
}

KERNEL_OF(not_freed)
{
    (void)TENSOR(64);
}

KERNEL_OF(freed_in_parts)
{
    uint32_t tensor = TENSOR(64);
    tensor_end(tensor, 32);
}

KERNEL_OF(freed_twice)
{
    uint32_t tensor = TENSOR(64);
    tensor_end(tensor, 64);
    tensor_end(tensor, 64);
}

KERNEL_OF(freed_while_multiplying)
{
    uint32_t tensor = TENSOR(32);
    if (thread_idx() == 0) {
        tensor_multiply(tensor, 0);
        tcgen05_commit(dynamic_smem() + SMEM_BARRIER);
    }
    tensor_end(tensor, 32);
}

KERNEL_OF(freed_while_reading)
{
    uint32_t tensor = TENSOR(32);
    uint32_t zero = 0;
    if (thread_idx() >= 32) {
        tcgen05_st_32x32b(1, OWN_LANES(tensor), &zero);
        tcgen05_wait_st();
        tcgen05_ld_32x32b(1, &zero, OWN_LANES(tensor));
        cta_sync();
        tcgen05_wait_ld();
    } else {
        cta_sync();
        tcgen05_dealloc(tensor, 32);
    }
}

KERNEL_OF(mixed_groups)
{
    uint32_t tensor = TENSOR(32);
    if (thread_idx() == 0) {
        tcgen05_commit_pair(dynamic_smem() + SMEM_BARRIER);
    }
    tensor_end(tensor, 32);
}

KERNEL_OF(pair_alone)
{
    (void)params;
    tcgen05_alloc_pair(dynamic_smem(), 32);
}

KERNEL_OF(alloc_peer_missing)
{
    (void)params;
    if (cluster_rank() == 0) {
        tcgen05_alloc_pair(dynamic_smem(), 32);
    }
}

KERNEL_OF(alloc_peer_differs)
{
    (void)params;
    tcgen05_alloc_pair(dynamic_smem(), cluster_rank() == 0 ? 32 : 64);
}

KERNEL_OF(dealloc_peer_missing)
{
    (void)params;
    tcgen05_alloc_pair(dynamic_smem(), 32);
    warp_sync();
    if (cluster_rank() == 0) {
        tcgen05_dealloc_pair(ld_shared_u32(dynamic_smem()), 32);
    }
}

static void test_allocation(void **state)
{
    (void)state;
    expect_tensor_error(alloc_size, 32, EMU_FAULT, "96 columns: a power of two from 32 to 512");
    expect_tensor_error(alloc_grows, 32, EMU_FAULT, "64 columns after one of 32");
    expect_tensor_error(alloc_address, 32, EMU_FAULT, "not 4 aligned bytes");
    expect_tensor_error(alloc_after_relinquish, 32, EMU_FAULT, "after tcgen05.relinquish");
    expect_tensor_error(alloc_too_much, 32, EMU_DEADLOCK, "tcgen05.alloc: needs 512 free columns");
    expect_tensor_error(alloc_by_a_lane, 32, EMU_DEADLOCK, "tcgen05.alloc: lanes 0x00000001");
    expect_tensor_error(alloc_unread, 64, EMU_RACE, "ld.shared");
    expect_tensor_error(alloc_two_warps, 64, EMU_FAULT, "by two warps of a CTA at once");
    expect_tensor_error(not_freed, 32, EMU_FAULT, "columns 0 to 31 not deallocated");
    expect_tensor_error(freed_in_parts, 32, EMU_FAULT, "32 columns at 0x0, which is no allocation");
    expect_tensor_error(freed_twice, 32, EMU_FAULT, "which is no allocation");
    expect_tensor_error(
        freed_while_multiplying, 128, EMU_RACE,
        "column 0, which the tcgen05.mma on D by the tcgen05 operations of thread 0");
    expect_tensor_error(freed_while_reading, 64, EMU_RACE,
                        "column 0, which the tcgen05.ld by thread 32");
    expect_pair_error(mixed_groups, 32, EMU_FAULT, "others have cta_group::1");
    expect_tensor_error(pair_alone, 32, EMU_FAULT, "the cluster of 1 has no CTA pairs");
    expect_pair_error(alloc_peer_missing, 32, EMU_DEADLOCK, "the peer CTA has not come");
    expect_pair_error(alloc_peer_differs, 32, EMU_FAULT, "but the peer CTA asks for");
    expect_pair_error(dealloc_peer_missing, 32, EMU_DEADLOCK,
                      "tcgen05.dealloc: the peer CTA has not come");
}

// ---- ld and st

KERNEL_OF(others_lanes)
{
    uint32_t r;
    uint32_t tensor = TENSOR(32);
    if (thread_idx() >= 32) {
        tcgen05_ld_32x32b(1, &r, tensor);
    }
}

KERNEL_OF(half_lanes_in_full_shape)
{
    uint32_t r;
    uint32_t tensor = TENSOR(32);
    tcgen05_ld_32x32b(1, &r, OWN_LANES(tensor) + (16 << 16));
}

KERNEL_OF(count_of_shape)
{
    static uint32_t r[512];
    uint32_t tensor = TENSOR(512);
    tcgen05_ld_16x256b(64, r, OWN_LANES(tensor));
}

KERNEL_OF(column_not_allocated)
{
    uint32_t r[2] = {0};
    uint32_t tensor = TENSOR(32);
    tcgen05_st_32x32b(2, OWN_LANES(tensor) + 31, r);
}

KERNEL_OF(column_out_of_bounds)
{
    uint32_t r[2] = {0};
    uint32_t tensor = TENSOR(512);
    tcgen05_st_32x32b(2, OWN_LANES(tensor) + 511, r);
}

KERNEL_OF(never_allocated)
{
    uint32_t r = 0;
    (void)params;
    tcgen05_st_32x32b(1, 0, &r);
}

KERNEL_OF(address_differs)
{
    uint32_t r = 0;
    uint32_t tensor = TENSOR(32);
    tcgen05_st_32x32b(1, OWN_LANES(tensor) + thread_idx() / 16, &r);
}

KERNEL_OF(divergent)
{
    uint32_t r = 0;
    uint32_t tensor = TENSOR(32);
    if (thread_idx() < 16) {
        tcgen05_st_32x32b(1, OWN_LANES(tensor), &r);
    } else {
        tcgen05_wait_st();
    }
}

KERNEL_OF(uninitialised)
{
    uint32_t r[4];
    uint32_t tensor = TENSOR(32);
    tcgen05_st_32x32b(1, OWN_LANES(tensor), r);
    tcgen05_wait_st();
    tcgen05_ld_32x32b(2, r, OWN_LANES(tensor));
}

KERNEL_OF(uninitialised_after_realloc)
{
    uint32_t r[4];
    uint32_t tensor = TENSOR(32);
    tcgen05_st_32x32b(1, tensor, r);
    tcgen05_wait_st();
    tcgen05_dealloc(tensor, 32);
    tcgen05_alloc(dynamic_smem() + SMEM_ADDRESS + 4, 32);
    tcgen05_ld_32x32b(1, r, tensor);
}

KERNEL_OF(changed_before_wait)
{
    uint32_t r = 1;
    uint32_t tensor = TENSOR(32);
    tcgen05_st_32x32b(1, OWN_LANES(tensor), &r);
    tcgen05_wait_st();
    tcgen05_ld_32x32b(1, &r, OWN_LANES(tensor));
    r = r + 1;
    tcgen05_wait_ld();
}

KERNEL_OF(load_before_store_is_done)
{
    uint32_t r = 1;
    uint32_t tensor = TENSOR(32);
    tcgen05_st_32x32b(1, OWN_LANES(tensor), &r);
    tcgen05_ld_32x32b(1, &r, OWN_LANES(tensor));
}

KERNEL_OF(store_before_load_is_done)
{
    uint32_t r[2] = {1, 2};
    uint32_t tensor = TENSOR(32);
    tcgen05_st_32x32b(1, OWN_LANES(tensor), r);
    tcgen05_wait_st();
    tcgen05_ld_32x32b(1, r, OWN_LANES(tensor));
    tcgen05_st_32x32b(1, OWN_LANES(tensor), r + 1);
}

KERNEL_OF(load_not_waited)
{
    uint32_t r[2] = {1, 2};
    uint32_t tensor = TENSOR(32);
    tcgen05_st_32x32b(1, OWN_LANES(tensor), r);
    tcgen05_wait_st();
    tcgen05_ld_32x32b(1, r, OWN_LANES(tensor));
}

KERNEL_OF(store_not_waited)
{
    uint32_t r = 1;
    uint32_t tensor = TENSOR(32);
    tcgen05_st_32x32b(1, OWN_LANES(tensor), &r);
}

static void test_access(void **state)
{
    (void)state;
    expect_tensor_error(others_lanes, 64, EMU_FAULT, "warp 1 of the CTA may access lanes 32 to 63");
    expect_tensor_error(half_lanes_in_full_shape, 32, EMU_FAULT, "tcgen05.ld at lane 16");
    expect_tensor_error(count_of_shape, 32, EMU_FAULT,
                        "x64: the shape has powers of two up to x32");
    expect_tensor_error(column_not_allocated, 32, EMU_FAULT,
                        "column 32 of CTA rank 0, which is not");
    expect_tensor_error(column_out_of_bounds, 32, EMU_FAULT, "columns 511 to 512");
    expect_tensor_error(never_allocated, 32, EMU_FAULT, "column 0 of CTA rank 0, which is not");
    expect_tensor_error(address_differs, 32, EMU_FAULT, "must be the same in all lanes");
    expect_tensor_error(divergent, 32, EMU_FAULT, "are at different instructions");
    expect_tensor_error(uninitialised, 32, EMU_RACE, "reads uninitialised tensor memory (lane");
    expect_tensor_error(uninitialised_after_realloc, 32, EMU_RACE, "uninitialised tensor memory");
    expect_tensor_error(changed_before_wait, 32, EMU_RACE, "a tcgen05_wait_ld before is missing");
    expect_tensor_error(load_before_store_is_done, 32, EMU_RACE,
                        "not ordered after the tcgen05.st by thread");
    expect_tensor_error(store_before_load_is_done, 32, EMU_RACE,
                        "may still be read: the tcgen05.ld");
    expect_tensor_error(load_not_waited, 32, EMU_FAULT, "ended without tcgen05_wait_ld");
    expect_tensor_error(store_not_waited, 32, EMU_FAULT, "ended without tcgen05_wait_st");
}

// ---- mma and its descriptors

enum { GOOD_IDESC = 0x04040490 }; // bf16, m 64, n 16

struct mma_case {
    uint32_t idesc;
    uint32_t d;      // added to the address
    uint64_t change; // of the descriptors, by exclusive or
    int ts;
    uint32_t a;
    const char *words;
};

static const struct mma_case *mma_now;

KERNEL_OF(one_mma)
{
    uint32_t tensor = TENSOR(32);
    uint64_t tile = mma_now->change ^ tcgen05_matrix_descriptor(dynamic_smem() + SMEM_A, 0, 1024,
                                                                TCGEN05_SWIZZLE_128);
    if (thread_idx() == 0 && mma_now->ts) {
        tcgen05_mma_f16_ts(tensor + mma_now->d, tensor + mma_now->a, tile, mma_now->idesc, 0);
    } else if (thread_idx() == 0) {
        tcgen05_mma_f16_ss(tensor + mma_now->d, tile, tile, mma_now->idesc, 0);
    }
}

static const struct narrow_case {
    uint32_t type_a;
    int ts;
    const char *words;
} * narrow_now;

KERNEL_OF(narrow_mma)
{
    uint32_t tensor = TENSOR(32);
    uint64_t tile =
        tcgen05_matrix_descriptor(dynamic_smem() + SMEM_A, 0, 1024, TCGEN05_SWIZZLE_128);
    uint32_t idesc = tcgen05_instruction(narrow_now->type_a, TCGEN05_E2M1, 64, 16, 0, 0);
    if (thread_idx() == 0 && narrow_now->ts) {
        tcgen05_mma_f8f6f4_ts(tensor, tensor + 16, tile, idesc, 0);
    } else if (thread_idx() == 0) {
        tcgen05_mma_f8f6f4_ss(tensor, tile, tile, idesc, 0);
    }
}

static void test_narrow_types(void **state)
{
    (void)state;
    static const struct narrow_case cases[] = {
        {2, 0, "no types 2 and 5"},
        {6, 0, "no types 6 and 5"},
        {TCGEN05_E3M2, 1, "A of 6 or 4 bits in shared memory only"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        narrow_now = &cases[i];
        expect_tensor_error(narrow_mma, 128, EMU_FAULT, cases[i].words);
    }
}

static void test_descriptors(void **state)
{
    (void)state;
    static const struct mma_case cases[] = {
        {GOOD_IDESC ^ 1 << 6, 0, 0, 0, 0, "are reserved"},
        {GOOD_IDESC ^ 1 << 23, 0, 0, 0, 0, "are reserved"},
        {GOOD_IDESC ^ 1 << 29, 0, 0, 0, 0, "are reserved"},
        {GOOD_IDESC ^ 1u << 31, 0, 0, 0, 0, "are reserved"},
        {GOOD_IDESC ^ 1 << 3, 0, 0, 0, 0, "are reserved"},
        {GOOD_IDESC ^ 1 << 5, 0, 0, 0, 0, "are reserved"},
        {GOOD_IDESC ^ 1 << 9, 0, 0, 0, 0, "no types 5 and 1"},
        {GOOD_IDESC ^ 1 << 2, 0, 0, 0, 0, "models no sparsity"},
        {GOOD_IDESC ^ 1 << 4, 0, 0, 0, 0, "D in fp16 of kind f16 needs A and B in fp16, not bf16"},
        {(GOOD_IDESC & ~(0x1fu << 24)) | 6u << 24, 0, 0, 0, 0, "m 96, n 16: m 64 or 128"},
        {(GOOD_IDESC & ~(0x1fu << 24)) | 16u << 24, 0, 0, 0, 0, "m 256, n 16"},
        {GOOD_IDESC & ~(0x3fu << 17), 0, 0, 0, 0, "n 0"},
        {(GOOD_IDESC & ~(0x3fu << 17)) | 33u << 17, 0, 0, 0, 0, "n 264"},
        {0x08060490, 0, 0, 0, 0, "m 128, n 24: m 64 or 128; n a multiple of 16"},
        {GOOD_IDESC, 32 << 16, 0, 0, 0, "D at lane 32"},
        {GOOD_IDESC, 24, 0, 0, 0, "column 32 of CTA rank 0, which is not allocated"},
        {GOOD_IDESC, 0, 0, 1, 16 << 16, "A at lane 16 and D at lane 0"},
        {GOOD_IDESC ^ 1 << 15, 0, 0, 1, 16, "must have k contiguous"},
        {GOOD_IDESC, 0, 0, 1, 16, "tcgen05.mma reading A reads uninitialised tensor memory"},
        {GOOD_IDESC, 0, 1ull << 47, 0, 0, "bits 46-48"},
        {GOOD_IDESC, 0, 1ull << 46, 0, 0, "bits 46-48"},
        {GOOD_IDESC, 0, 1ull << 15, 0, 0, "reserved bits"},
        {GOOD_IDESC, 0, 1ull << 31, 0, 0, "reserved bits"},
        {GOOD_IDESC, 0, 1ull << 60, 0, 0, "reserved bits"},
        {GOOD_IDESC, 0, 1ull << 52, 0, 0, "absolute"},
        {GOOD_IDESC, 0, 3ull << 61, 0, 0, "32-byte atoms"},
        {GOOD_IDESC, 0, 1ull << 61, 0, 0, "swizzle 3"},
        {GOOD_IDESC, 0, 1ull << 3, 0, 0, "not aligned to its swizzle pattern of 1024 bytes"},
        {GOOD_IDESC, 0, 1ull << 49, 0, 0, "not aligned to its swizzle pattern of 1024 bytes"},
        {GOOD_IDESC, 0, 1ull << 13, 0, 0, "reading B at shared address 0x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mma_now = &cases[i];
        struct emu_launch launch = tensor_launch(one_mma, 32);
        struct emu_result result;
        emu_launch(&launch, &result);
        bool in_words =
            strstr(result.text, cases[i].words) ||
            (i + 1 == sizeof cases / sizeof cases[0] && strstr(result.text, "is out of bounds"));
        if (result.status == EMU_OK || !in_words) {
            fail_msg("case %zu, '%s': %d '%s'", i, cases[i].words, (int)result.status, result.text);
        }
    }
}

KERNEL_OF(mma_by_odd_cta)
{
    (void)params;
    if (cluster_rank() == 1) {
        tcgen05_mma_f16_ss_pair(0, 0, 0, 0, 0);
    }
    cluster_arrive();
    cluster_wait();
}

KERNEL_OF(copy_columns)
{
    uint32_t tensor = TENSOR(32);
    tcgen05_cp_128x128b(tensor + 2, 0x4000404000000040u);
}

KERNEL_OF(shift_lane)
{
    uint32_t tensor = TENSOR(32);
    tcgen05_shift_down(tensor + (16 << 16));
}

KERNEL_OF(shift_unwritten)
{
    uint32_t tensor = TENSOR(32);
    tcgen05_shift_down(tensor);
}

KERNEL_OF(shift_beyond)
{
    uint32_t tensor = TENSOR(32);
    tcgen05_shift_down(tensor + 25);
}

KERNEL_OF(commit_mask)
{
    (void)TENSOR(32);
    tcgen05_commit_multicast(dynamic_smem() + SMEM_BARRIER, 2);
}

KERNEL_OF(commit_beyond_count)
{
    (void)TENSOR(32);
    if (thread_idx() == 0) {
        mbarrier_expect_tx(dynamic_smem() + SMEM_BARRIER, 16);
        tcgen05_commit(dynamic_smem() + SMEM_BARRIER);
        tcgen05_commit(dynamic_smem() + SMEM_BARRIER);
    }
    mbarrier_wait(dynamic_smem() + SMEM_BARRIER, 0);
}

KERNEL_OF(mma_threads)
{
    (void)TENSOR(32);
    tcgen05_commit(dynamic_smem() + SMEM_BARRIER);
}

KERNEL_OF(no_proxy_fence_a)
{
    uint32_t tensor = TENSOR(32);
    if (thread_idx() == 0) {
        st_shared_u32(dynamic_smem() + SMEM_A, 0);
        tensor_multiply(tensor, 0);
    }
}

KERNEL_OF(no_proxy_fence_b)
{
    uint32_t tensor = TENSOR(32);
    if (thread_idx() == 0) {
        st_shared_u32(dynamic_smem() + SMEM_B, 0);
        tensor_multiply(tensor, 0);
    }
}

KERNEL_OF(no_proxy_fence_copy)
{
    uint32_t tensor = TENSOR(32);
    if (thread_idx() == 0) {
        st_shared_u32(dynamic_smem() + SMEM_A, 0);
        tcgen05_cp_32x128b(
            tensor, tcgen05_matrix_descriptor(dynamic_smem() + SMEM_A, 0, 128, TCGEN05_NO_SWIZZLE));
    }
}

KERNEL_OF(tile_overwritten)
{
    uint32_t tensor = TENSOR(32);
    if (thread_idx() == 0) {
        tensor_multiply(tensor, 0);
        tcgen05_commit(dynamic_smem() + SMEM_BARRIER);
    }
    cta_sync();
    st_shared_u32(dynamic_smem() + SMEM_A + 4 * thread_idx(), 0);
    mbarrier_wait(dynamic_smem() + SMEM_BARRIER, 0);
}

KERNEL_OF(accumulates_on_nothing)
{
    uint32_t tensor = TENSOR(32);
    if (thread_idx() == 0) {
        tensor_multiply(tensor, 1);
    }
}

static void test_operations(void **state)
{
    (void)state;
    expect_pair_error(mma_by_odd_cta, 32, EMU_FAULT, "the CTA of even rank issues for the pair");
    expect_tensor_error(copy_columns, 32, EMU_FAULT, "columns a multiple of 4");
    expect_tensor_error(shift_lane, 32, EMU_FAULT, "at lane 16: a multiple of 32");
    expect_tensor_error(shift_unwritten, 32, EMU_RACE,
                        "tcgen05.shift reads uninitialised tensor memory");
    expect_tensor_error(shift_beyond, 32, EMU_FAULT, "which is not allocated");
    expect_tensor_error(commit_mask, 32, EMU_FAULT, "to CTAs 0x2: the cluster has 1");
    expect_tensor_error(commit_beyond_count, 32, EMU_FAULT, "arrives on mbarrier 0x400 beyond");
    expect_tensor_error(mma_threads, 32, EMU_FAULT, "more than 4 threads of a CTA issue");
    expect_tensor_error(no_proxy_fence_a, 32, EMU_RACE, "tcgen05.mma reading A at shared");
    expect_tensor_error(no_proxy_fence_b, 32, EMU_RACE, "no fence.proxy.async after it");
    expect_tensor_error(no_proxy_fence_copy, 32, EMU_RACE, "tcgen05.cp at shared address 0x800");
    expect_tensor_error(tile_overwritten, 32, EMU_RACE,
                        "may still be read: the tcgen05.mma reading");
    expect_tensor_error(accumulates_on_nothing, 32, EMU_RACE,
                        "tcgen05.mma on D reads uninitialised tensor memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),      cmocka_unit_test(test_allocation),
        cmocka_unit_test(test_access),       cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_narrow_types), cmocka_unit_test(test_operations),
    };
    return cmocka_run_group_tests_name("emu_tensor_faults", tests, NULL, NULL);
}
