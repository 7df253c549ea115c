// Each family of instructions in a kernel of a few lines: what it computes, where it puts things.
#include "small_kernel.h"

#include "../../src/device/common/descriptor.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/matrix.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/register.h"
#include "../../src/device/ptx/tma.h"
#include "../../src/device/ptx/warp.h"
#include "../../src/device/ptx/wgmma.h"
#include <math.h>
#include <stdlib.h>

// One barrier at the start of shared memory, ready for use; data from DATA on.
enum { BAR = 0, DATA = 1024 };

static uint32_t barrier_ready(uint32_t count)
{
    uint32_t smem = dynamic_smem();
    if (thread_idx() == 0) {
        mbarrier_init(smem + BAR, count);
        fence_mbarrier_init();
    }
    cta_sync();
    return smem;
}

static void put(uint32_t i, uint32_t value)
{
    st_global_u32(&output[i], value);
}

// ---- warp

static void kernel_warp(const void *params)
{
    (void)params;
    uint32_t lane = thread_idx();
    put(lane, shuffle_xor_u32(lane, 5));
    put(32 + lane, shuffle_up_u32(lane, 3));
    put(64 + lane, shuffle_down_u32(lane, 3));
    put(96 + lane, shuffle_idx_u32(lane, 31 - lane));
    put(128 + lane, vote_ballot(lane % 3 == 0));
    put(160 + lane, vote_any(lane == 9) + 2 * vote_all(lane < 32) + 4 * vote_any(lane > 40) +
                        8 * vote_all(lane != 9));
    put(192 + lane, reduce_add_u32(lane));
    put(224 + lane, (uint32_t)shuffle_xor_f32((float)lane * 0.5f, 1) + elect_one() * 1000);
}

static void test_warp(void **state)
{
    (void)state;
    expect_ok(kernel_warp, 32);
    for (uint32_t lane = 0; lane < 32; lane++) {
        assert_int_equal(output[lane], lane ^ 5);
        assert_int_equal(output[32 + lane], lane < 3 ? lane : lane - 3);
        assert_int_equal(output[64 + lane], lane > 28 ? lane : lane + 3);
        assert_int_equal(output[96 + lane], 31 - lane);
        assert_int_equal(output[128 + lane], 0x49249249);
        assert_int_equal(output[160 + lane], 3);
        assert_int_equal(output[192 + lane], 496);
        assert_int_equal(output[224 + lane], (lane ^ 1) / 2 + (lane == 0 ? 1000 : 0));
    }
}

// ---- matrix: through shared memory and back, in all forms

static void kernel_matrix(const void *params)
{
    (void)params;
    uint32_t lane = thread_idx();
    uint32_t tiles = dynamic_smem() + DATA; // tile i, row j at 128 i + 16 j
    uint32_t r[4] = {lane, 100 + lane, 200 + lane, 300 + lane};
    stmatrix_x4(tiles + lane * 16, r);
    warp_sync();
    for (uint32_t i = 0; i < 4; i++) {
        put(lane * 4 + i, ld_shared_u32(tiles + lane * 16 + i * 4));
    }
    ldmatrix_x4_trans(r, tiles + lane * 16);
    for (uint32_t i = 0; i < 4; i++) {
        put(128 + lane * 4 + i, r[i]);
    }
    warp_sync();
    stmatrix_x4_trans(tiles + lane * 16, r);
    warp_sync();
    ldmatrix_x4(r, tiles + lane * 16);
    for (uint32_t i = 0; i < 4; i++) {
        put(256 + lane * 4 + i, r[i]);
    }
    ldmatrix_x1(r, tiles + 128 + lane % 8 * 16);
    ldmatrix_x2(r + 1, tiles + 256 + lane % 16 * 16);
    for (uint32_t i = 0; i < 3; i++) {
        put(384 + lane * 4 + i, r[i]);
    }
}

static void test_matrix(void **state)
{
    (void)state;
    expect_ok(kernel_matrix, 32);
    for (uint32_t lane = 0; lane < 32; lane++) {
        for (uint32_t i = 0; i < 4; i++) {
            // row `lane % 8` of tile `lane / 8` was written by lanes 4 (lane % 8) + i
            assert_int_equal(output[lane * 4 + i], lane / 8 * 100 + lane % 8 * 4 + i);
            // transposed: rows 2 (lane % 4), + 1 of column lane / 4, which is half lane / 4 % 2 of
            // word lane / 8
            uint32_t low = i * 100 + lane % 4 * 8 + lane / 8;
            uint32_t high = low + 4;
            uint32_t want = lane / 4 % 2 ? 0 : low | high << 16; // the high halves are all 0
            assert_int_equal(output[128 + lane * 4 + i], want);
            assert_int_equal(output[256 + lane * 4 + i], i * 100 + lane);
        }
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(output[384 + lane * 4 + i], (i + 1) * 100 + lane);
        }
    }
}

// Every form on its own: tile t, row j at 128 t + 16 j; element (j, c) is 100 t + 8 j + c.
struct matrix_job {
    void (*load)(uint32_t *r, uint32_t addr);
    void (*store)(uint32_t addr, const uint32_t *r);
    uint32_t tiles;
    uint32_t trans;
};

static uint32_t fragment_element(const struct matrix_job *job, uint32_t lane, uint32_t tile,
                                 uint32_t half)
{
    uint32_t along = lane % 4 * 2 + half;
    uint32_t across = lane / 4;
    return 100 * tile + (job->trans ? along * 8 + across : across * 8 + along);
}

static void kernel_matrix_form(const void *params)
{
    const struct matrix_job *job = params;
    uint32_t lane = thread_idx();
    uint32_t tiles = dynamic_smem() + DATA;
    uint32_t row = tiles + lane % (8 * job->tiles) * 16;
    for (uint32_t i = lane; i < job->tiles * 64; i += 32) {
        st_shared_u16(tiles + 2 * i, 100 * (i / 64) + i % 64);
    }
    warp_sync();
    uint32_t r[4] = {0, 0, 0, 0};
    job->load(r, row);
    for (uint32_t i = 0; i < 4; i++) {
        put(lane * 4 + i, r[i]);
    }
    warp_sync();
    for (uint32_t i = 0; i < job->tiles; i++) {
        r[i] += 0x00010001;
    }
    job->store(row, r);
    warp_sync();
    for (uint32_t i = lane; i < job->tiles * 64; i += 32) {
        put(128 + i, ld_shared_u16(tiles + 2 * i));
    }
}

static void test_matrix_forms(void **state)
{
    (void)state;
    static const struct matrix_job jobs[] = {
        {ldmatrix_x1, stmatrix_x1, 1, 0},
        {ldmatrix_x2, stmatrix_x2, 2, 0},
        {ldmatrix_x4, stmatrix_x4, 4, 0},
        {ldmatrix_x1_trans, stmatrix_x1_trans, 1, 1},
        {ldmatrix_x2_trans, stmatrix_x2_trans, 2, 1},
        {ldmatrix_x4_trans, stmatrix_x4_trans, 4, 1},
    };
    for (size_t j = 0; j < sizeof jobs / sizeof jobs[0]; j++) {
        struct emu_launch launch = small_launch(kernel_matrix_form, 32);
        launch.params = &jobs[j];
        expect_ok_launch(launch);
        for (uint32_t lane = 0; lane < 32; lane++) {
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t want = fragment_element(&jobs[j], lane, i, 0) |
                                fragment_element(&jobs[j], lane, i, 1) << 16;
                assert_int_equal(output[lane * 4 + i], i < jobs[j].tiles ? want : 0);
            }
        }
        for (uint32_t i = 0; i < jobs[j].tiles * 64; i++) {
            assert_int_equal(output[128 + i], 100 * (i / 64) + i % 64 + 1);
        }
    }
}

// ---- TMA: every rank and swizzle, boxes that hang over on both sides

enum { TMA_RANK_MAX = 5 };

struct tma_job {
    tensor_map in;
    tensor_map out;
    uint32_t rank;
    uint32_t bytes;
    int reduce;
};

// Over the edge in every dimension. Only a load may begin in front of the tensor.
static const int32_t TMA_LOAD_AT[TMA_RANK_MAX] = {12, -1, 2, 1, 2};
static const int32_t TMA_STORE_AT[TMA_RANK_MAX] = {12, 3, 2, 1, 2};

static void start_load(const struct tma_job *job, uint32_t dst, uint32_t bar)
{
    const int32_t *c = TMA_LOAD_AT;
    switch (job->rank) {
    case 2: tma_load_2d(dst, &job->in, bar, c[0], c[1]); break;
    case 3: tma_load_3d(dst, &job->in, bar, c[0], c[1], c[2]); break;
    case 4: tma_load_4d(dst, &job->in, bar, c[0], c[1], c[2], c[3]); break;
    default: tma_load_5d(dst, &job->in, bar, c[0], c[1], c[2], c[3], c[4]); break;
    }
}

static void start_store(const struct tma_job *job, uint32_t src)
{
    const int32_t *c = TMA_STORE_AT;
    switch (job->rank + (job->reduce ? 10u : 0u)) {
    case 2: tma_store_2d(&job->out, src, c[0], c[1]); break;
    case 3: tma_store_3d(&job->out, src, c[0], c[1], c[2]); break;
    case 4: tma_store_4d(&job->out, src, c[0], c[1], c[2], c[3]); break;
    case 5: tma_store_5d(&job->out, src, c[0], c[1], c[2], c[3], c[4]); break;
    case 12: tma_reduce_add_2d(&job->out, src, c[0], c[1]); break;
    case 13: tma_reduce_add_3d(&job->out, src, c[0], c[1], c[2]); break;
    case 14: tma_reduce_add_4d(&job->out, src, c[0], c[1], c[2], c[3]); break;
    default: tma_reduce_add_5d(&job->out, src, c[0], c[1], c[2], c[3], c[4]); break;
    }
}

static void kernel_tma(const void *params)
{
    const struct tma_job *job = params;
    uint32_t smem = barrier_ready(1);
    if (thread_idx() == 0) {
        tma_prefetch_map(&job->in);
        mbarrier_arrive_expect_tx(smem + BAR, job->bytes);
        start_load(job, smem + DATA, smem + BAR);
    }
    mbarrier_wait(smem + BAR, 0);
    for (uint32_t i = thread_idx(); i < job->bytes / 4; i += 32) {
        put(2048 + i, ld_shared_u32(smem + DATA + 4 * i));
    }
    cta_sync();
    if (thread_idx() == 0) {
        start_store(job, smem + DATA);
        bulk_commit_group();
        bulk_wait_group(0);
    }
}

static struct emu_tensor tma_tensor(uint32_t rank, emu_swizzle swizzle)
{
    static const uint32_t row_words[] = {8, 8, 16, 32};
    struct emu_tensor tensor = {.data = input,
                                .element = EMU_U32,
                                .rank = rank,
                                .dims = {16, 5, 3, 2, 3},
                                .box = {row_words[swizzle], 4, 2, 2, 2},
                                .swizzle = swizzle};
    uint64_t stride = 4;
    for (uint32_t dim = 0; dim + 1 < rank; dim++) {
        stride *= tensor.dims[dim];
        tensor.strides_bytes[dim] = stride;
    }
    return tensor;
}

// Index of the element in the tensor, or -1 outside; `i` counts through the box.
static int64_t element_of(const struct emu_tensor *tensor, const int32_t *at, uint32_t i)
{
    int64_t index = 0;
    int64_t stride = 1;
    bool inside = true;
    for (uint32_t dim = 0; dim < tensor->rank; dim++) {
        int64_t c = at[dim] + (int64_t)(i % tensor->box[dim]);
        i /= tensor->box[dim];
        inside = inside && c >= 0 && c < (int64_t)tensor->dims[dim];
        index += c * stride;
        stride *= (int64_t)tensor->dims[dim];
    }
    return inside ? index : -1;
}

static void run_tma(uint32_t rank, emu_swizzle swizzle, int reduce)
{
    struct tma_job job = {.rank = rank, .bytes = 4, .reduce = reduce};
    struct emu_tensor tensor = tma_tensor(rank, swizzle);
    uint32_t elements = 1;
    for (uint32_t dim = 0; dim < rank; dim++) {
        elements *= (uint32_t)tensor.dims[dim];
        job.bytes *= tensor.box[dim];
    }
    assert_null(emu_tensor_map_encode(&job.in, &tensor));
    tensor.data = output;
    assert_null(emu_tensor_map_encode(&job.out, &tensor));
    struct emu_launch launch = small_launch(kernel_tma, 32);
    launch.params = &job;
    struct emu_result result;
    launch.async = reduce ? EMU_RANDOM : EMU_LATE;
    if (emu_launch(&launch, &result) != EMU_OK) {
        fail_msg("rank %u swizzle %d: %s", rank, (int)swizzle, result.text);
    }
    // The output was all ones: -1 as a number.
    uint32_t expected[sizeof output / sizeof *output];
    memset(expected, 0xff, elements * sizeof *expected);
    static const uint32_t masks[] = {0, 1, 3, 7};
    for (uint32_t i = 0; i < job.bytes / 4; i++) {
        uint32_t addr = 1024 + DATA + 4 * i;
        uint32_t moved = addr ^ ((addr >> 7 & masks[swizzle]) << 4);
        int64_t from = element_of(&tensor, TMA_LOAD_AT, i);
        int64_t to = element_of(&tensor, TMA_STORE_AT, i);
        uint32_t value = from < 0 ? 0 : input[from];
        assert_int_equal(output[2048 + (moved - 1024 - DATA) / 4], value);
        if (to >= 0) {
            expected[to] = reduce ? value - 1 : value;
        }
    }
    assert_memory_equal(output, expected, elements * sizeof *expected);
}

// A box of 16 x 4 words of which the tensor has 12 x 3, and only these are written to shared
// memory.
// params: a map, and one word of these that is left out, or 64.
struct clipped_job {
    tensor_map map;
    uint32_t without;
};

static void kernel_clipped_store(const void *params)
{
    const struct clipped_job *job = params;
    uint32_t smem = dynamic_smem();
    for (uint32_t i = thread_idx(); i < 64; i += 32) {
        if (i % 16 < 12 && i / 16 < 3 && i != job->without) {
            uint32_t piece = smem + 64 * (i / 16) + i % 16 / 4 * 16;
            st_shared_u32((piece ^ (piece >> 7 & 3) << 4) + i % 4 * 4, i);
        }
    }
    fence_proxy_async();
    warp_sync();
    if (thread_idx() == 0) {
        tma_store_2d(&job->map, smem, 0, 0);
        bulk_commit_group();
        bulk_wait_group(0);
    }
}

static void test_tma_store_reads_what_is_stored(void **state)
{
    (void)state;
    struct clipped_job job = {.without = 64};
    struct emu_tensor tensor = {.data = output,
                                .element = EMU_U32,
                                .rank = 2,
                                .dims = {12, 3},
                                .strides_bytes = {64},
                                .box = {16, 4},
                                .swizzle = EMU_SWIZZLE_64};
    assert_null(emu_tensor_map_encode(&job.map, &tensor));
    struct emu_launch launch = small_launch(kernel_clipped_store, 32);
    launch.params = &job;
    expect_ok_launch(launch);
    assert_int_equal(output[16 * 2 + 11], 16 * 2 + 11);
    job.without = 16 * 2 + 11;
    expect_error_launch(launch, EMU_RACE, "TMA store reads uninitialised shared memory");
}

static void test_tma_ranks_and_swizzles(void **state)
{
    (void)state;
    for (uint32_t rank = 2; rank <= 5; rank++) {
        for (int swizzle = EMU_SWIZZLE_NONE; swizzle <= EMU_SWIZZLE_128; swizzle++) {
            run_tma(rank, (emu_swizzle)swizzle, 0);
            run_tma(rank, (emu_swizzle)swizzle, 1);
        }
    }
}

// ---- bulk copies and reductions

static void kernel_bulk(const void *params)
{
    (void)params;
    uint32_t smem = barrier_ready(1);
    if (thread_idx() == 0) {
        mbarrier_expect_tx(smem + BAR, 256);
        mbarrier_arrive(smem + BAR);
        bulk_load(smem + DATA, input, 256, smem + BAR);
    }
    while (!mbarrier_try_wait(smem + BAR, 0)) {
    }
    if (thread_idx() == 0) {
        bulk_store(output, smem + DATA, 256);
        bulk_commit_group();
        bulk_store(output + 64, smem + DATA, 256);
        bulk_commit_group();
        bulk_wait_group_read(1);
        bulk_wait_group(0);
    }
    cta_sync();
    st_shared_f32(smem + DATA + 4 * thread_idx(), 0.25f);
    st_shared_u32(smem + DATA + 256 + 4 * thread_idx(), pack_bf16x2(1.0f, 2.0f));
    st_shared_u32(smem + DATA + 512 + 4 * thread_idx(), pack_f16x2(-1.0f, 3.0f));
    st_global_f32(&output[128 + thread_idx()], (float)thread_idx());
    st_global_u32(&output[160 + thread_idx()], pack_bf16x2(8.0f, 16.0f));
    st_global_u32(&output[192 + thread_idx()], pack_f16x2(8.0f, 16.0f));
    fence_proxy_async();
    fence_proxy_async_global();
    cta_sync();
    if (thread_idx() == 0) {
        bulk_reduce_add_f32(output + 128, smem + DATA, 128);
        bulk_reduce_add_bf16(output + 160, smem + DATA + 256, 128);
        bulk_reduce_add_f16(output + 192, smem + DATA + 512, 128);
        bulk_commit_group();
        bulk_wait_group(0);
    }
}

static void test_bulk(void **state)
{
    (void)state;
    expect_ok(kernel_bulk, 32);
    assert_memory_equal(output, input, 256);
    assert_memory_equal(output + 64, input, 256);
    for (uint32_t i = 0; i < 32; i++) {
        float sum;
        memcpy(&sum, &output[128 + i], sizeof sum);
        assert_true(sum == (float)i + 0.25f);
        assert_int_equal(output[160 + i], pack_bf16x2(9.0f, 18.0f));
        assert_int_equal(output[192 + i], pack_f16x2(7.0f, 19.0f));
    }
}

// ---- clusters: multicast, remote arrivals, copies between CTAs, distributed shared memory

static void kernel_cluster(const void *params)
{
    (void)params;
    uint32_t smem = barrier_ready(1);
    uint32_t rank = cluster_rank();
    uint32_t size = cluster_size();
    uint32_t next = (rank + 1) % size;
    uint32_t out = block_idx_x() * 64;
    cluster_arrive();
    cluster_wait();
    if (thread_idx() == 0) {
        mbarrier_arrive_expect_tx(smem + BAR, 64);
    }
    cluster_arrive();
    cluster_wait();
    if (rank == 0 && thread_idx() == 0) {
        bulk_load_multicast(smem + DATA, input, 64, smem + BAR, (1u << size) - 1);
    }
    mbarrier_wait(smem + BAR, 0);
    if (thread_idx() < 16) {
        put(out + thread_idx(), ld_shared_u32(smem + DATA + 4 * thread_idx()));
    }
    // Each CTA sends its neighbour 16 words through the async proxy, and one word by a plain store.
    if (thread_idx() < 16) {
        st_shared_u32(smem + DATA + 64 + 4 * thread_idx(), rank * 1000 + thread_idx());
    }
    fence_proxy_async();
    cluster_arrive(); // everybody's barrier is in its second phase
    cluster_wait();
    if (thread_idx() == 0) {
        uint32_t bar = cluster_map(smem + BAR, next);
        mbarrier_arrive_expect_tx_cluster(bar, 64);
        bulk_copy_cluster(cluster_map(smem + DATA + 128, next), smem + DATA + 64, 64, bar);
        st_cluster_u32(cluster_map(smem + DATA + 256, next), rank + 7);
    }
    mbarrier_wait_cluster(smem + BAR, 1);
    if (thread_idx() < 16) {
        put(out + 16 + thread_idx(), ld_shared_u32(smem + DATA + 128 + 4 * thread_idx()));
    }
    cluster_arrive();
    cluster_wait();
    if (thread_idx() == 0) {
        put(out + 32, ld_shared_u32(smem + DATA + 256));
        put(out + 33, ld_cluster_u32(cluster_map(smem + DATA + 256, next)));
        put(out + 34, block_idx_x());
    }
    cluster_arrive();
    cluster_wait();
}

static void test_cluster(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 16; size *= 2) {
        struct emu_launch launch = small_launch(kernel_cluster, 32);
        launch.cluster = size;
        launch.grid[0] = 2 * size;
        launch.resident = 2;
        expect_ok_launch(launch);
        for (uint32_t cta = 0; cta < 2 * size; cta++) {
            const uint32_t *out = output + cta * 64;
            uint32_t rank = cta % size;
            uint32_t before = (rank + size - 1) % size;
            assert_memory_equal(out, input, 64);
            for (uint32_t i = 0; i < 16; i++) {
                assert_int_equal(out[16 + i], before * 1000 + i);
            }
            assert_int_equal(out[32], before + 7);
            assert_int_equal(out[33], rank + 7);
            assert_int_equal(out[34], cta);
        }
    }
}

// ---- multicast: each CTA of a cluster loads a part of a box and hands it to all of them

struct multicast_job {
    tensor_map map; // of `rank` dimensions; the box is 8 x 4 x 1 .. words
    uint32_t rank;
    uint32_t mask_change; // makes the mask name a CTA too many
};

enum { PART_BYTES = 128 };

static void load_part(const struct multicast_job *job, uint32_t dst, uint32_t bar, uint32_t part)
{
    uint32_t mask = ((1u << cluster_size()) - 1) ^ job->mask_change;
    int32_t row = (int32_t)part * 4;
    switch (job->rank) {
    case 2: tma_load_multicast_2d(dst, &job->map, bar, mask, 8, row); break;
    case 3: tma_load_multicast_3d(dst, &job->map, bar, mask, 8, row, 1); break;
    case 4: tma_load_multicast_4d(dst, &job->map, bar, mask, 8, row, 1, 0); break;
    default: tma_load_multicast_5d(dst, &job->map, bar, mask, 8, row, 1, 0, 0); break;
    }
}

static void kernel_multicast(const void *params)
{
    const struct multicast_job *job = params;
    uint32_t smem = barrier_ready(1);
    uint32_t words = PART_BYTES / 4 * cluster_size();
    if (thread_idx() == 0) {
        mbarrier_arrive_expect_tx(smem + BAR, PART_BYTES * cluster_size());
    }
    cluster_arrive();
    cluster_wait();
    if (thread_idx() == 0) {
        load_part(job, smem + DATA + PART_BYTES * cluster_rank(), smem + BAR, cluster_rank());
    }
    mbarrier_wait_cluster(smem + BAR, 0);
    for (uint32_t i = thread_idx(); i < words; i += 32) {
        put(cluster_rank() * 256 + i, ld_shared_u32(smem + DATA + 4 * i));
    }
    cluster_arrive();
    cluster_wait();
}

static struct emu_launch multicast_launch(struct multicast_job *job, uint32_t rank)
{
    struct emu_tensor tensor = {.data = input,
                                .element = EMU_U32,
                                .rank = rank,
                                .dims = {16, 32, 2, 1, 1},
                                .strides_bytes = {64, 2048, 4096, 4096},
                                .box = {8, 4, 1, 1, 1}};
    *job = (struct multicast_job){.rank = rank};
    assert_null(emu_tensor_map_encode(&job->map, &tensor));
    struct emu_launch launch = small_launch(kernel_multicast, 32);
    launch.params = job;
    launch.cluster = 4;
    launch.grid[0] = 4;
    return launch;
}

static void test_multicast(void **state)
{
    (void)state;
    struct multicast_job job;
    for (uint32_t rank = 2; rank <= 5; rank++) {
        expect_ok_launch(multicast_launch(&job, rank));
        for (uint32_t cta = 0; cta < 4; cta++) {
            for (uint32_t i = 0; i < 128; i++) {
                uint32_t from = 8 + i / 8 * 16 + i % 8 + (rank > 2 ? 512 : 0);
                assert_int_equal(output[cta * 256 + i], input[from]);
            }
        }
    }
    struct emu_launch launch = multicast_launch(&job, 2);
    job.mask_change = 1 << 4;
    expect_error_launch(launch, EMU_FAULT, "TMA multicast load to CTAs 0x1f: the cluster has 4");
}

// ---- CTAs that wait for each other

static void kernel_semaphore(const void *params)
{
    (void)params;
    if (thread_idx() == 0) {
        while (ld_acquire_gpu_u32(&output[0]) != grid_dim_x() - 1 - block_idx_x()) {
        }
        put(1 + block_idx_x(), atom_global_add_u32(&output[100], 1));
        red_release_gpu_add_u32(&output[0], 1);
    }
}

static void test_resident_ctas(void **state)
{
    (void)state;
    struct emu_launch launch = small_launch(kernel_semaphore, 32);
    launch.grid[0] = 6;
    launch.resident = 6;
    output[0] = 0;
    output[100] = 0;
    struct emu_result result;
    if (emu_launch(&launch, &result) != EMU_OK) {
        fail_msg("%s", result.text);
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(output[1 + i], 5 - i);
    }
}

// Two slots are too few for six CTAs of which the last must go first.
static void test_too_few_resident(void **state)
{
    (void)state;
    struct emu_launch launch = small_launch(kernel_semaphore, 32);
    launch.grid[0] = 6;
    launch.resident = 2;
    output[0] = 0;
    expect_error_launch(launch, EMU_DEADLOCK, "polls memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warp),
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_matrix_forms),
        cmocka_unit_test(test_tma_ranks_and_swizzles),
        cmocka_unit_test(test_tma_store_reads_what_is_stored),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_multicast),
        cmocka_unit_test(test_resident_ctas),
        cmocka_unit_test(test_too_few_resident),
    };
    return cmocka_run_group_tests_name("emu_instructions", tests, NULL, NULL);
}
