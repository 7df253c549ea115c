// The report: bank conflicts of accesses whose conflicts are known, instructions per role, the
// floor that they imply, and the table.
#include "small_kernel.h"

#include "../../emu/emu_report.h"
#include "../../src/device/common/descriptor.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/bulk.h"
#include "../../src/device/ptx/cp_async.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/matrix.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/mma_sync.h"
#include "../../src/device/ptx/warp.h"
#include "../../src/device/ptx/wgmma.h"
#include <stdio.h>

static struct emu_report report;

static void run(void (*entry)(const void *), const void *params, uint32_t threads)
{
    for (int async = EMU_LATE; async <= EMU_RANDOM; async++) {
        struct emu_launch launch = small_launch(entry, threads);
        struct emu_result result;
        launch.params = params;
        launch.report = &report;
        launch.async = (emu_async)async;
        launch.seed = (uint32_t)async;
        launch.lag = async == EMU_RANDOM ? 64 : 0;
        if (emu_launch(&launch, &result) != EMU_OK) {
            fail_msg("%s", result.text);
        }
    }
}

// ---- bank conflicts

struct access_params {
    uint32_t bytes;  // of an access
    uint32_t stride; // between lanes, in bytes
    uint32_t lanes;
};

static void fill(uint32_t smem)
{
    for (uint32_t i = thread_idx(); i < 4096; i += 32) {
        st_shared_u16(smem + 4 * i, 0);
        st_shared_u16(smem + 4 * i + 2, 0);
    }
    cta_sync();
}

static void kernel_access(const void *params)
{
    const struct access_params *p = params;
    uint32_t smem = dynamic_smem();
    fill(smem);
    uint32_t r[4];
    for (uint32_t i = 0; i < 3 && thread_idx() < p->lanes; i++) {
        uint32_t addr = smem + thread_idx() * p->stride + 16 * i;
        if (p->bytes == 4) {
            ld_shared_u32(addr);
        } else if (p->bytes == 8) {
            ld_shared_v2_u32(r, addr);
        } else {
            ld_shared_v4_u32(r, addr);
        }
    }
}

static const struct emu_site *only_load(void)
{
    const struct emu_site *found = NULL;
    for (uint32_t i = 0; i < report.site_count; i++) {
        if (strcmp(report.sites[i].instruction, "ld.shared") == 0) {
            assert_null(found);
            found = &report.sites[i];
        }
    }
    assert_non_null(found);
    return found;
}

static void test_bank_conflicts(void **state)
{
    (void)state;
    // 32 banks of 4 bytes. Phases: 32 lanes for 4 bytes, 16 for 8, 8 for 16. Wavefronts and
    // conflicts of one access of the warp.
    static const struct {
        struct access_params access;
        uint32_t wavefronts, conflicts;
    } golden[] = {
        {{4, 4, 32}, 1, 0},     // side by side
        {{4, 128, 32}, 32, 31}, // stride 32 words: one bank
        {{4, 132, 32}, 1, 0},   // stride 33 words: padded
        {{4, 8, 32}, 2, 1},     // every other bank
        {{4, 64, 32}, 16, 15},  // two banks
        {{4, 0, 32}, 1, 0},     // all the same word
        {{4, 128, 5}, 5, 4},    // five lanes only
        {{8, 8, 32}, 2, 0},     // a phase for each half
        {{8, 16, 32}, 4, 2},     {{8, 128, 32}, 32, 30},
        {{16, 16, 32}, 4, 0},                           // a phase for each quarter
        {{16, 128, 32}, 32, 28}, {{16, 144, 32}, 4, 0}, // padded by 16 bytes
        {{16, 0, 32}, 4, 0},     {{16, 16, 8}, 1, 0},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        run(kernel_access, &golden[i].access, 32);
        const struct emu_site *site = only_load();
        assert_int_equal(site->executions, 3);
        assert_int_equal(site->wavefronts, 3 * golden[i].wavefronts);
        assert_int_equal(site->conflicts, 3 * golden[i].conflicts);
        assert_non_null(strstr(site->file, "test_emu_report.c"));
        assert_int_equal(report.roles[0].shared_read_bytes,
                         3 * golden[i].access.bytes * golden[i].access.lanes);
    }
}

struct tile_params {
    uint32_t row_bytes; // between the rows of a tile
};

static void kernel_tiles(const void *params)
{
    const struct tile_params *p = params;
    uint32_t smem = dynamic_smem();
    fill(smem);
    uint32_t r[4];
    uint32_t row = smem + thread_idx() * p->row_bytes;
    ldmatrix_x4(r, row);
    ldmatrix_x2_trans(r, smem + thread_idx() % 16 * p->row_bytes);
    warp_sync();
    stmatrix_x4_trans(row, r);
}

static void test_tiles(void **state)
{
    (void)state;
    static const struct {
        struct tile_params tile;
        uint32_t wavefronts_of_a_tile;
    } golden[] = {{{16}, 1}, {{128}, 8}, {{144}, 1}, {{32}, 2}, {{64}, 4}};
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        run(kernel_tiles, &golden[i].tile, 32);
        uint32_t seen = 0;
        for (uint32_t s = 0; s < report.site_count; s++) {
            const struct emu_site *site = &report.sites[s];
            if (strstr(site->instruction, "matrix")) {
                uint32_t tiles = strstr(site->instruction, "x4") ? 4 : 2;
                assert_int_equal(site->executions, 1);
                assert_int_equal(site->wavefronts, tiles * golden[i].wavefronts_of_a_tile);
                assert_int_equal(site->conflicts, tiles * (golden[i].wavefronts_of_a_tile - 1));
                seen++;
            }
        }
        assert_int_equal(seen, 3);
    }
}

// A load whose address is loaded, on one line, keeps both sites.
static void kernel_nested(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    st_shared_u32(smem + 4 * thread_idx(), 128 * thread_idx());
    warp_sync();
    st_shared_u32(smem + 4096 + ld_shared_u32(smem + 4 * thread_idx()), 1);
}

static void test_nested(void **state)
{
    (void)state;
    run(kernel_nested, NULL, 32);
    assert_int_equal(report.site_count, 3);
    assert_int_equal(report.sites[1].line, report.sites[2].line);
    assert_string_equal(report.sites[1].instruction, "ld.shared");
    assert_int_equal(report.sites[1].conflicts, 0);
    assert_string_equal(report.sites[2].instruction, "st.shared");
    assert_int_equal(report.sites[2].conflicts, 31);
}

// ---- instructions per role

static void kernel_roles(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    if (thread_idx() >= 128) {
        ROLE("load");
        if (thread_idx() == 128) {
            mbarrier_init(smem, 1);
            fence_mbarrier_init();
            mbarrier_arrive_expect_tx(smem, 8192);
            bulk_load(smem + 1024, input, 8192, smem);
            mbarrier_wait(smem, 0);
        }
        cp_async_16(smem + 10240 + 16 * (thread_idx() - 128), input);
        cp_async_wait_all();
        fence_proxy_async();
        cta_sync();
        return;
    }
    ROLE("compute");
    cta_sync();
    float d[32];
    uint64_t desc = matrix_descriptor(smem + 1024, 0, 1024, DESC_SWIZZLE_128);
    wgmma_fence();
    wgmma_ss_bf16(64, d, desc, desc, 0, 0, 0);
    wgmma_ss_e4m3(64, d, desc, desc, 1);
    wgmma_commit_group();
    wgmma_wait_group(0);
    uint32_t a[4] = {0, 0, 0, 0};
    mma_m16n8k16_bf16(d, a, a);
    mma_m16n8k32_e4m3(d, a, a);
    float x = ex2_approx(lg2_approx(rcp_approx(2.0f)));
    struct f32x2 two = fma_f32x2((struct f32x2){x, x}, (struct f32x2){x, x}, (struct f32x2){x, x});
    x = fma_f32(two.x, two.y, x);
    st_global_u32(&output[thread_idx()], pack_bf16x2(x, x));
}

static const struct emu_counts *role(const char *name)
{
    for (uint32_t i = 0; i < report.role_count; i++) {
        if (strcmp(report.roles[i].role, name) == 0) {
            return &report.roles[i];
        }
    }
    fail_msg("no role '%s'", name);
    return NULL;
}

static void test_roles(void **state)
{
    (void)state;
    run(kernel_roles, NULL, 256);
    const struct emu_counts *load = role("load");
    assert_int_equal(load->tma_bytes, 8192);
    assert_int_equal(load->shared_write_bytes, 16 * 128);
    assert_int_equal(load->global_bytes, 16 * 128);
    assert_int_equal(load->mma_flops_16 + load->mufu + load->fma, 0);
    const struct emu_counts *compute = role("compute");
    assert_int_equal(compute->mma_flops_16, 2 * 64 * 64 * 16 + 4 * 2 * 16 * 8 * 16);
    assert_int_equal(compute->mma_flops_8, 2 * 64 * 64 * 32 + 4 * 2 * 16 * 8 * 32);
    assert_int_equal(compute->mma_shared_bytes, 2 * (64 + 64) * 32);
    assert_int_equal(compute->mufu, 3 * 128);
    assert_int_equal(compute->fma, 3 * 128);
    assert_int_equal(compute->conversions, 128);
    assert_int_equal(compute->global_bytes, 4 * 128);
    assert_int_equal(compute->tma_bytes, 0);
    assert_int_equal(report.ctas, 1);
    struct emu_floor floor = emu_report_floor(&report, &emu_rates_sm90);
    assert_true(floor.mufu == 24.0 && floor.fma == 3.0 && floor.conversions == 2.0);
    assert_true(floor.mma ==
                (double)compute->mma_flops_16 / 4096.0 + (double)compute->mma_flops_8 / 8192.0);
}

static void test_table(void **state)
{
    (void)state;
    static const struct access_params stride_32 = {4, 128, 32};
    run(kernel_access, &stride_32, 32);
    static char text[8192];
    FILE *file = tmpfile();
    assert_non_null(file);
    emu_report_print(file, &report, &emu_rates_sm90);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_non_null(strstr(text, "ld.shared                   3         96         93\n"));
    assert_non_null(strstr(text, "floor on sm_90, cycles per CTA: MMA 0, MUFU 0, FMA 0, "));
}

// Without a report nothing is counted, and messages still name the line.
static void kernel_out_of_bounds(const void *params)
{
    (void)params;
    ld_shared_u32(dynamic_smem() + 32768);
}

static void test_message_names_the_line(void **state)
{
    (void)state;
    expect_error(kernel_out_of_bounds, 32, EMU_FAULT, "test_emu_report.c:");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bank_conflicts), cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_nested),         cmocka_unit_test(test_roles),
        cmocka_unit_test(test_table),          cmocka_unit_test(test_message_names_the_line),
    };
    return cmocka_run_group_tests_name("emu_report", tests, NULL, NULL);
}
