// Order in global memory: what CTAs write for each other, at which scope they say so, and what goes
// wrong without; CTAs that wait for each other; memory that nobody has written.
#include "small_kernel.h"

#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tma.h"

#define KERNEL_OF(name) static void name(const void *params)

enum { THREADS = 64, DATA = 1024 };

// The words that kernels work on. Flags begin as 0; `data` is an output: nothing is in it.
static _Alignas(128) uint32_t flags[16];
static _Alignas(128) uint32_t sums[256];
static _Alignas(128) uint32_t data[4096];

static struct emu_launch global_launch(void (*entry)(const void *), uint32_t ctas)
{
    static const struct emu_buffer buffers[] = {{"input", input, sizeof input, EMU_READ_ONLY},
                                                {"flags", flags, sizeof flags, EMU_READ_WRITE},
                                                {"sums", sums, sizeof sums, EMU_READ_WRITE},
                                                {"data", data, sizeof data, EMU_OUTPUT}};
    struct emu_launch launch = small_launch(entry, THREADS);
    launch.buffers = buffers;
    launch.buffer_count = 4;
    launch.grid[0] = ctas;
    launch.resident = ctas < 8 ? ctas : 8;
    memset(flags, 0, sizeof flags);
    memset(sums, 0, sizeof sums);
    memset(data, 0xff, sizeof data);
    return launch;
}

// Runs in all three ways, each time with fresh memory.
static void expect_ok_global(void (*entry)(const void *), uint32_t ctas, const void *params,
                             void (*check)(const void *params))
{
    for (uint32_t i = 0; i < 6; i++) {
        struct emu_launch launch = global_launch(entry, ctas);
        struct emu_result result;
        launch.params = params;
        launch.async = (emu_async)(i % 3);
        launch.seed = i;
        if (emu_launch(&launch, &result) != EMU_OK) {
            fail_msg("run %u: %s", i, result.text);
        }
        check(params);
    }
}

static void expect_error_global(struct emu_launch launch, emu_status status, const char *words)
{
    for (uint32_t i = 0; i < 6; i++) {
        struct emu_result result;
        memset(flags, 0, sizeof flags);
        launch.async = (emu_async)(i % 3);
        launch.seed = i;
        if (emu_launch(&launch, &result) != status || !strstr(result.text, words)) {
            fail_msg("run %u: expected %d '%s', got %d '%s'", i, (int)status, words,
                     (int)result.status, result.text);
        }
    }
}

static void expect_race(void (*entry)(const void *), uint32_t ctas, const void *params,
                        const char *words)
{
    struct emu_launch launch = global_launch(entry, ctas);
    launch.params = params;
    expect_error_global(launch, EMU_RACE, words);
}

// ---- one CTA hands data to another

// How the writer says that it is done, and how the reader learns of it.
enum handover {
    BY_STORE,
    BY_REDUCTION,
    BY_ATOMIC,
    BY_FENCES,
    BY_CTA_FENCES,
    BY_RELAXED,
    AT_SYS_SCOPE,
    AT_CLUSTER_SCOPE,
    AT_CTA_SCOPE,
    READ_AT_CTA_SCOPE
};

struct handover_params {
    enum handover how;
    uint32_t writer;     // CTA
    int without_barrier; // between the threads' stores and the flag
};

static void say_done(enum handover how, uint32_t *flag)
{
    switch (how) {
    case BY_REDUCTION: red_release_gpu_add_u32(flag, 1); break;
    case BY_ATOMIC: atom_acq_rel_gpu_add_u32(flag, 1); break;
    case BY_FENCES:
        fence_acq_rel_gpu();
        atom_global_add_u32(flag, 1);
        break;
    case BY_CTA_FENCES:
        fence_acq_rel_cta();
        atom_global_add_u32(flag, 1);
        break;
    case BY_RELAXED: st_relaxed_gpu_u32(flag, 1); break;
    case AT_SYS_SCOPE: st_release_sys_u32(flag, 1); break;
    case AT_CLUSTER_SCOPE: st_release_cluster_u32(flag, 1); break;
    case AT_CTA_SCOPE: st_release_cta_u32(flag, 1); break;
    default: st_release_gpu_u32(flag, 1); break;
    }
}

static void learn(enum handover how, const uint32_t *flag)
{
    switch (how) {
    case BY_FENCES:
        while (ld_relaxed_gpu_u32(flag) == 0) {
        }
        fence_acq_rel_gpu();
        break;
    case BY_CTA_FENCES:
        while (ld_relaxed_gpu_u32(flag) == 0) {
        }
        fence_acq_rel_cta();
        break;
    case AT_CLUSTER_SCOPE:
        while (ld_acquire_cluster_u32(flag) == 0) {
        }
        break;
    case READ_AT_CTA_SCOPE:
    case AT_CTA_SCOPE:
        while (ld_acquire_cta_u32(flag) == 0) {
        }
        break;
    case AT_SYS_SCOPE:
        while (ld_acquire_sys_u32(flag) == 0) {
        }
        break;
    default: wait_equal_gpu_u32(flag, 1); break;
    }
}

KERNEL_OF(hand_over)
{
    const struct handover_params *p = params;
    if (block_idx_x() == p->writer) {
        ROLE("writer");
        st_global_u32(&data[thread_idx()], 100 + thread_idx());
        if (!p->without_barrier) {
            cta_sync();
        }
        if (thread_idx() == 0) {
            say_done(p->how, &flags[0]);
        }
    } else {
        ROLE("reader");
        if (thread_idx() == 0) {
            learn(p->how, &flags[0]);
        }
        cta_sync();
        uint32_t value = ld_global_u32(&data[THREADS - 1 - thread_idx()]);
        st_global_u32(&data[256 + block_idx_x() * THREADS + thread_idx()], value);
    }
}

static void check_handed_over(const void *params)
{
    const struct handover_params *p = params;
    for (uint32_t i = 0; i < 2 * THREADS; i++) {
        if (i / THREADS != p->writer) {
            assert_int_equal(data[256 + i], 100 + THREADS - 1 - i % THREADS);
        }
    }
}

static void test_hand_over(void **state)
{
    (void)state;
    static const enum handover ways[] = {BY_STORE, BY_REDUCTION, BY_ATOMIC, BY_FENCES,
                                         AT_SYS_SCOPE};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        for (uint32_t writer = 0; writer < 2; writer++) {
            struct handover_params params = {ways[i], writer, 0};
            expect_ok_global(hand_over, 2, &params, check_handed_over);
        }
    }
}

static void test_hand_over_without_order(void **state)
{
    (void)state;
    static const struct handover_params relaxed = {BY_RELAXED, 0, 0};
    expect_race(hand_over, 2, &relaxed, "of buffer 'data' races with the st.global by thread");
    static const struct handover_params cta_fences = {BY_CTA_FENCES, 0, 0};
    expect_race(hand_over, 2, &cta_fences, "no release and acquire orders the two");
    static const struct handover_params no_barrier = {BY_STORE, 0, 1};
    struct emu_launch launch = global_launch(hand_over, 2);
    launch.params = &no_barrier;
    for (uint32_t i = 0; i < 6; i++) { // who comes first differs, that there is a race does not
        struct emu_result result;
        memset(flags, 0, sizeof flags);
        launch.seed = i;
        assert_int_equal(emu_launch(&launch, &result), EMU_RACE);
    }
}

static void test_scopes(void **state)
{
    (void)state;
    static const struct handover_params cta = {AT_CTA_SCOPE, 0, 0};
    static const struct handover_params read_cta = {READ_AT_CTA_SCOPE, 0, 0};
    static const struct handover_params cluster = {AT_CLUSTER_SCOPE, 0, 0};
    expect_race(hand_over, 2, &cta, "of buffer 'flags' races with the");
    expect_race(hand_over, 2, &cta, "the scope .cta of the former is too narrow");
    expect_race(hand_over, 2, &read_cta, "the scope .cta of the");
    expect_race(hand_over, 2, &cluster, "the scope .cluster of the former is too narrow");
    // Inside a cluster its scope is wide enough, that of a CTA is not.
    struct emu_launch launch = global_launch(hand_over, 2);
    launch.cluster = 2;
    launch.params = &cta;
    expect_error_global(launch, EMU_RACE, "the scope .cta of the former is too narrow");
    launch.params = &cluster;
    for (uint32_t i = 0; i < 3; i++) {
        struct emu_result result;
        memset(flags, 0, sizeof flags);
        launch.async = (emu_async)i;
        if (emu_launch(&launch, &result) != EMU_OK) {
            fail_msg("%s", result.text);
        }
    }
}

// ---- plain conflicts, whichever CTA runs first, and also when one is long gone

KERNEL_OF(both_write)
{
    (void)params;
    st_global_u32(&data[thread_idx()], block_idx_x());
}

KERNEL_OF(one_reads)
{
    (void)params;
    if (block_idx_x() == 1) {
        ld_global_u32(&sums[thread_idx()]);
    } else {
        st_global_u32(&sums[thread_idx()], 1);
    }
}

// CTA 0 reads last what CTA 1 has overwritten, or the other way round: many readers, one of which
// nobody asked.
KERNEL_OF(forgotten_reader)
{
    (void)params;
    if (block_idx_x() == 0) {
        ld_global_u32(&sums[0]);
        if (thread_idx() != 50) {
            red_release_gpu_add_u32(&flags[0], 1);
        }
    } else if (thread_idx() == 0) {
        wait_equal_gpu_u32(&flags[0], THREADS - 1);
        st_global_u32(&sums[0], 1);
    }
}

KERNEL_OF(all_readers_asked)
{
    (void)params;
    if (block_idx_x() == 0) {
        ld_global_u32(&sums[0]);
        red_release_gpu_add_u32(&flags[0], 1);
    } else if (thread_idx() == 0) {
        wait_at_least_gpu_u32(&flags[0], THREADS);
        st_global_u32(&sums[0], 1);
    }
}

KERNEL_OF(plain_and_atomic)
{
    (void)params;
    if (block_idx_x() == 0) {
        red_global_add_f32(&sums[0], 1.0f);
    } else if (thread_idx() == 0) {
        ld_global_f32(&sums[0]);
    }
}

KERNEL_OF(within_a_cta)
{
    (void)params;
    st_global_u32(&data[thread_idx()], 1);
    ld_global_u32(&data[thread_idx() ^ 1]);
}

// Each thread of two CTAs has every fourth half word.
KERNEL_OF(neighbours)
{
    (void)params;
    uint16_t *halves = (uint16_t *)data;
    uint32_t i = 2 * thread_idx() + block_idx_x();
    st_global_u16(&halves[i], i);
    st_global_u16(&halves[i], ld_global_u16(&halves[i]) + 1);
}

KERNEL_OF(same_half)
{
    (void)params;
    uint16_t *halves = (uint16_t *)data;
    uint32_t i = 2 * thread_idx() + block_idx_x();
    st_global_u16(&halves[i == 9 ? 8 : i], i);
}

static void check_neighbours(const void *params)
{
    (void)params;
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(data[i], (2 * i + 1) | (2 * i + 2) << 16);
    }
}

static void check_nothing(const void *params)
{
    (void)params;
}

static void test_conflicts(void **state)
{
    (void)state;
    expect_race(both_write, 2, NULL, "of buffer 'data' races with the st.global by thread");
    struct emu_launch launch = global_launch(both_write, 2);
    launch.resident = 1; // the first CTA has ended
    expect_error_global(launch, EMU_RACE, "of CTA (0,0,0); no release and acquire orders the two");
    expect_race(one_reads, 2, NULL, "of buffer 'sums' races with the");
    expect_race(forgotten_reader, 2, NULL, "by thread 50 of CTA (0,0,0)");
    expect_ok_global(all_readers_asked, 2, NULL, check_nothing);
    expect_race(plain_and_atomic, 2, NULL, "of buffer 'sums' races with the");
    expect_race(within_a_cta, 1, NULL, "of buffer 'data' re");
    expect_ok_global(neighbours, 2, NULL, check_neighbours);
    expect_race(same_half, 2, NULL, "st.global at offset 16 of buffer 'data' races with the");
}

KERNEL_OF(reads_output)
{
    (void)params;
    st_global_u16(&data[3], 1);
    ld_global_u32(&data[3]);
}

KERNEL_OF(adds_to_output)
{
    (void)params;
    red_global_add_f32(&data[5], 1.0f);
}

static void test_output_is_empty(void **state)
{
    (void)state;
    struct emu_launch launch = global_launch(reads_output, 1);
    launch.threads = 32;
    expect_error_global(launch, EMU_RACE,
                        "ld.global at offset 12 of buffer 'data' reads what nobody has written");
    expect_race(adds_to_output, 1, NULL,
                "red.global at offset 20 of buffer 'data' reads what nobody has written");
}

// ---- sums of many CTAs

// Split: every CTA leaves a part, the last one to come adds them up. The counter's atomics carry on
// what the earlier ones released.
struct split_params {
    int with_fences; // around a relaxed counter, else the counter itself is acq_rel
    int without_acquire;
};

KERNEL_OF(split)
{
    const struct split_params *p = params;
    uint32_t last = dynamic_smem();
    st_global_u32(&data[256 + block_idx_x() * THREADS + thread_idx()], thread_idx());
    cta_sync();
    if (thread_idx() == 0) {
        uint32_t before;
        if (p->with_fences) {
            fence_acq_rel_gpu();
            before = atom_global_add_u32(&flags[0], 1);
            if (!p->without_acquire) {
                fence_acq_rel_gpu();
            }
        } else {
            before = atom_acq_rel_gpu_add_u32(&flags[0], 1);
        }
        st_shared_u32(last, before == grid_dim_x() - 1);
    }
    cta_sync();
    if (ld_shared_u32(last)) {
        uint32_t sum = 0;
        for (uint32_t cta = 0; cta < grid_dim_x(); cta++) {
            sum += ld_global_u32(&data[256 + cta * THREADS + (thread_idx() ^ 7)]);
        }
        st_global_u32(&data[thread_idx()], sum);
    }
}

static void check_split(const void *params)
{
    (void)params;
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(data[i], 20 * (i ^ 7));
    }
}

static void test_split(void **state)
{
    (void)state;
    static const struct split_params acq_rel = {0, 0};
    static const struct split_params fences = {1, 0};
    static const struct split_params forgotten = {1, 1};
    expect_ok_global(split, 20, &acq_rel, check_split);
    expect_ok_global(split, 20, &fences, check_split);
    expect_race(split, 20, &forgotten, "ld.global at offset");
}

// Turns: CTA i adds to the same sums after CTA i - 1, in fp32, so the bits are always the same.
struct turn_params {
    int by_bulk;   // a bulk reduction instead of loads and stores
    int read_only; // waits for it only until its source may be overwritten
    int no_turns;
};

static void add_by_bulk(const struct turn_params *p, uint32_t smem)
{
    st_shared_f32(smem + 4 * thread_idx(), 0.1f * (float)(1 + block_idx_x()));
    fence_proxy_async();
    cta_sync();
    if (thread_idx() == 0) {
        bulk_reduce_add_f32(sums, smem, 4 * THREADS);
        bulk_commit_group();
        if (p->read_only) {
            bulk_wait_group_read(0);
        } else {
            bulk_wait_group(0);
        }
    }
}

KERNEL_OF(turns)
{
    const struct turn_params *p = params;
    if (thread_idx() == 0 && !p->no_turns) {
        wait_equal_gpu_u32(&flags[0], block_idx_x());
    }
    cta_sync();
    if (p->by_bulk) {
        add_by_bulk(p, dynamic_smem());
    } else {
        float old = ld_global_f32(&sums[thread_idx()]);
        st_global_f32(&sums[thread_idx()], old + 0.1f * (float)(1 + block_idx_x()));
    }
    cta_sync();
    if (thread_idx() == 0) {
        red_release_gpu_add_u32(&flags[0], 1);
        if (p->read_only) {
            bulk_wait_group(0);
        }
    }
    if (block_idx_x() == grid_dim_x() - 1) {
        if (thread_idx() == 0) {
            wait_equal_gpu_u32(&flags[0], grid_dim_x());
        }
        cta_sync();
        st_global_f32(&data[thread_idx()], ld_global_f32(&sums[thread_idx()]));
    }
}

static void check_turns(const void *params)
{
    (void)params;
    float want = 0.0f;
    for (uint32_t cta = 0; cta < 6; cta++) {
        want += 0.1f * (float)(1 + cta);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        float got;
        memcpy(&got, &data[i], sizeof got);
        assert_true(got == want);
    }
}

static void test_turns(void **state)
{
    (void)state;
    static const struct turn_params plain = {0, 0, 0};
    static const struct turn_params bulk = {1, 0, 0};
    static const struct turn_params read_only = {1, 1, 0};
    static const struct turn_params no_turns = {0, 0, 1};
    expect_ok_global(turns, 6, &plain, check_turns);
    expect_ok_global(turns, 6, &bulk, check_turns);
    expect_race(turns, 6, &read_only, "ld.global at offset");
    expect_race(turns, 6, &no_turns, "of buffer 'sums' races with the");
}

// Nobody waits: sums in any order, by threads and by bulk reductions, race with nothing but a plain
// access.
struct crowd_params {
    int plain_store;
};

KERNEL_OF(crowd)
{
    const struct crowd_params *p = params;
    uint32_t smem = dynamic_smem();
    st_shared_f32(smem + 4 * thread_idx(), 1.0f);
    fence_proxy_async();
    cta_sync();
    if (thread_idx() == 0) {
        bulk_reduce_add_f32(sums, smem, 4 * THREADS);
        bulk_commit_group();
        bulk_wait_group(0);
    }
    red_global_add_f32(&sums[thread_idx()], 1.0f);
    if (p->plain_store && block_idx_x() == 3) {
        st_global_f32(&sums[thread_idx()], 0.0f);
    }
}

static void check_crowd(const void *params)
{
    (void)params;
    for (uint32_t i = 0; i < THREADS; i++) {
        float got;
        memcpy(&got, &sums[i], sizeof got);
        assert_true(got == 20.0f);
    }
}

static void test_crowd(void **state)
{
    (void)state;
    static const struct crowd_params fine = {0};
    static const struct crowd_params plain = {1};
    expect_ok_global(crowd, 10, &fine, check_crowd);
    expect_race(crowd, 10, &plain, "of buffer 'sums' races with the");
}

// ---- stores and loads through the async proxy

struct proxy_params {
    tensor_map map; // 16 x 8 words at the start of data
    int by_tma;
    int fence;   // between the generic stores and the release
    int no_wait; // for the TMA store
};

static void write_box(const struct proxy_params *p, uint32_t smem)
{
    st_shared_u32(smem + DATA + 4 * thread_idx(), thread_idx());
    st_shared_u32(smem + DATA + 256 + 4 * thread_idx(), THREADS + thread_idx());
    fence_proxy_async();
    cta_sync();
    if (thread_idx() == 0) {
        tma_store_2d(&p->map, smem + DATA, 0, 0);
        bulk_commit_group();
        if (p->no_wait) {
            bulk_wait_group_read(0);
        } else {
            bulk_wait_group(0);
        }
        st_release_gpu_u32(&flags[0], 1);
        bulk_wait_group(0);
    }
}

static void write_words(const struct proxy_params *p)
{
    st_global_u32(&data[thread_idx()], thread_idx());
    st_global_u32(&data[THREADS + thread_idx()], THREADS + thread_idx());
    if (p->fence) {
        fence_proxy_async_global();
    }
    cta_sync();
    if (thread_idx() == 0) {
        st_release_gpu_u32(&flags[0], 1);
    }
}

static void read_box(const struct proxy_params *p, uint32_t smem)
{
    if (thread_idx() == 0) {
        mbarrier_init(smem, 1);
        fence_mbarrier_init();
        wait_equal_gpu_u32(&flags[0], 1);
        mbarrier_arrive_expect_tx(smem, 512);
        if (p->by_tma) {
            tma_load_2d(smem + DATA, &p->map, smem, 0, 0);
        } else {
            bulk_load(smem + DATA, data, 512, smem);
        }
    }
    cta_sync();
    mbarrier_wait(smem, 0);
    st_global_u32(&data[1024 + thread_idx()], ld_shared_u32(smem + DATA + 8 * thread_idx()));
}

// CTA 0 writes words, CTA 1 reads them as a box.
KERNEL_OF(words_to_box)
{
    if (block_idx_x() == 0) {
        write_words(params);
    } else {
        read_box(params, dynamic_smem());
    }
}

// CTA 0 writes a box, CTA 1 reads words.
KERNEL_OF(box_to_words)
{
    if (block_idx_x() == 0) {
        write_box(params, dynamic_smem());
    } else {
        if (thread_idx() == 0) {
            wait_equal_gpu_u32(&flags[0], 1);
        }
        cta_sync();
        st_global_u32(&data[1024 + thread_idx()], ld_global_u32(&data[2 * thread_idx()]));
    }
}

static void check_box(const void *params)
{
    (void)params;
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(data[1024 + i], 2 * i);
    }
}

static void test_proxies(void **state)
{
    (void)state;
    struct proxy_params p = {.by_tma = 0, .fence = 1};
    const struct emu_tensor tensor = {.data = data,
                                      .element = EMU_U32,
                                      .rank = 2,
                                      .dims = {16, 8},
                                      .strides_bytes = {64},
                                      .box = {16, 8}};
    assert_null(emu_tensor_map_encode(&p.map, &tensor));
    expect_ok_global(words_to_box, 2, &p, check_box);
    expect_ok_global(box_to_words, 2, &p, check_box);
    p.by_tma = 1;
    expect_ok_global(words_to_box, 2, &p, check_box);
    p.no_wait = 1;
    expect_race(box_to_words, 2, &p, "of buffer 'data' races with the TMA store by CTA (0,0,0)");
    p.fence = 0;
    expect_race(words_to_box, 2, &p,
                "TMA load at offset 0 of buffer 'data' goes through the async proxy and follows "
                "the st.global by thread");
    expect_race(words_to_box, 2, &p, "the writer has no fence_proxy_async_global after it");
    struct emu_launch launch = global_launch(words_to_box, 2);
    launch.params = &p;
    launch.check = EMU_CHECK_RACES; // the letter of it leaves the fence to either side
    struct emu_result result;
    assert_int_equal(emu_launch(&launch, &result), EMU_OK);
}

// ---- persistent CTAs that draw their tiles from a counter

enum { TILES = 40 };

KERNEL_OF(persistent)
{
    (void)params;
    uint32_t tile_at = dynamic_smem();
    for (;;) {
        if (thread_idx() == 0) {
            st_shared_u32(tile_at, atom_global_add_u32(&flags[1], 1));
        }
        cta_sync();
        uint32_t tile = ld_shared_u32(tile_at);
        cta_sync();
        if (tile >= TILES) {
            break;
        }
        st_global_u32(&data[tile * THREADS + thread_idx()], tile * 1000 + thread_idx());
        red_release_gpu_add_u32(&flags[2], 1);
    }
}

static void check_persistent(const void *params)
{
    (void)params;
    for (uint32_t i = 0; i < TILES * THREADS; i++) {
        assert_int_equal(data[i], i / THREADS * 1000 + i % THREADS);
    }
    assert_int_equal(flags[2], TILES * THREADS);
}

static void test_persistent(void **state)
{
    (void)state;
    expect_ok_global(persistent, 6, NULL, check_persistent);
}

// ---- a flag that never comes

KERNEL_OF(waits_for_ever)
{
    (void)params;
    ROLE("consumer");
    if (thread_idx() == 0) {
        wait_at_least_gpu_u32(&flags[3], 7);
    }
}

static void test_flag_that_never_comes(void **state)
{
    (void)state;
    expect_error_global(global_launch(waits_for_ever, 1), EMU_DEADLOCK,
                        "consumer warp 0, 1 lanes: flag at offset 12 of buffer 'flags': waits for "
                        "at least 7, is 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hand_over),
        cmocka_unit_test(test_hand_over_without_order),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_conflicts),
        cmocka_unit_test(test_output_is_empty),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_proxies),
        cmocka_unit_test(test_persistent),
        cmocka_unit_test(test_flag_that_never_comes),
    };
    return cmocka_run_group_tests_name("emu_global", tests, NULL, NULL);
}
