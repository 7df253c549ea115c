// wgmma against a plain product: every type, n from 8 to 256, operands in shared memory and
// registers, both majors, every swizzle; and what happens when the rules around it are broken.
#include "operand_tile.h"
#include "small_kernel.h"

#include "../../src/device/common/descriptor.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/wgmma.h"
#include <math.h>

enum { TYPE_F16, TYPE_BF16, TYPE_E4M3, TYPE_E5M2, TYPE_E4M3_E5M2, TYPE_E5M2_E4M3, TYPE_COUNT };
enum { A_BASE = 1024, B_BASE = 1024 + 8192 };

struct job {
    int type;
    int n;
    int rs;
    int major_a; // of shared operands, 16-bit types
    int major_b;
    uint32_t swizzle; // of the descriptor
};

static float result[64][256];

static int is_8_bit(int type)
{
    return type >= TYPE_E4M3;
}

static int k_of(int type)
{
    return is_8_bit(type) ? 32 : 16;
}

// Small whole numbers: every product and sum is exact in every type.
static float value_a(int m, int k)
{
    return (float)((m * 7 + k * 3) % 9 - 4);
}

static float value_b(int n, int k)
{
    return (float)((n * 5 + k * 11) % 7 - 3);
}

static uint32_t encode(int type, int is_b, float x)
{
    bool e5m2 =
        type == TYPE_E5M2 || (type == TYPE_E4M3_E5M2 && is_b) || (type == TYPE_E5M2_E4M3 && !is_b);
    switch (type) {
    case TYPE_F16: return pack_f16x2(x, 0.0f) & 0xffff;
    case TYPE_BF16: return pack_bf16x2(x, 0.0f) & 0xffff;
    default: return (e5m2 ? pack_e5m2x2(x, 0.0f) : pack_e4m3x2(x, 0.0f)) & 0xff;
    }
}

static uint32_t swizzle_width(uint32_t swizzle)
{
    return swizzle == DESC_NO_SWIZZLE   ? 16
           : swizzle == DESC_SWIZZLE_32 ? 32
           : swizzle == DESC_SWIZZLE_64 ? 64
                                        : 128;
}

static struct operand_tile tile_of(const struct job *job, int mn_major, uint32_t rows)
{
    return (struct operand_tile){rows, (uint32_t)k_of(job->type), is_8_bit(job->type) ? 1 : 2,
                                 swizzle_width(job->swizzle), mn_major != 0};
}

static uint64_t tile_descriptor(const struct job *job, int mn_major, uint32_t rows, uint32_t addr)
{
    struct operand_tile t = tile_of(job, mn_major, rows);
    return matrix_descriptor(addr, tile_leading(&t), tile_stride(&t), job->swizzle);
}

// Elements of a tile, thread by thread; neighbours share a word, so a thread writes whole words.
static void fill_tile(const struct job *job, int is_b, int mn_major, uint32_t rows, uint32_t base)
{
    static uint8_t bytes[32768];
    struct operand_tile t = tile_of(job, mn_major, rows);
    if (thread_idx() == 0) {
        memset(bytes, 0, sizeof bytes);
        for (uint32_t row = 0; row < rows; row++) {
            for (uint32_t k = 0; k < t.k; k++) {
                float x = is_b ? value_b((int)row, (int)k) : value_a((int)row, (int)k);
                uint32_t bits = encode(job->type, is_b, x);
                memcpy(bytes + tile_offset(&t, row, k), &bits, t.size);
            }
        }
    }
    cta_sync();
    for (uint32_t i = thread_idx(); i < tile_bytes(&t) / 4; i += 128) {
        uint32_t word;
        memcpy(&word, bytes + 4 * i, sizeof word);
        st_shared_u32(base + 4 * i, word);
    }
    cta_sync();
}

static void fragment_of_a(const struct job *job, uint32_t *a)
{
    int per = is_8_bit(job->type) ? 4 : 2;
    int lane = (int)thread_idx() % 32;
    for (int r = 0; r < 4; r++) {
        a[r] = 0;
        for (int i = 0; i < per; i++) {
            int m = (int)thread_idx() / 32 * 16 + lane / 4 + r % 2 * 8;
            int k = (r / 2 * 4 + lane % 4) * per + i;
            a[r] |= encode(job->type, 0, value_a(m, k)) << (i * 32 / per);
        }
    }
}

static void issue(const struct job *job, float *d, const uint32_t *a, uint64_t da, uint64_t db,
                  int accumulate)
{
    switch (job->type + (job->rs ? 10 : 0)) {
    case TYPE_F16: wgmma_ss_f16(job->n, d, da, db, accumulate, job->major_a, job->major_b); break;
    case TYPE_BF16: wgmma_ss_bf16(job->n, d, da, db, accumulate, job->major_a, job->major_b); break;
    case TYPE_E4M3: wgmma_ss_e4m3(job->n, d, da, db, accumulate); break;
    case TYPE_E5M2: wgmma_ss_e5m2(job->n, d, da, db, accumulate); break;
    case TYPE_E4M3_E5M2: wgmma_ss_e4m3_e5m2(job->n, d, da, db, accumulate); break;
    case TYPE_E5M2_E4M3: wgmma_ss_e5m2_e4m3(job->n, d, da, db, accumulate); break;
    case 10 + TYPE_F16: wgmma_rs_f16(job->n, d, a, db, accumulate, job->major_b); break;
    case 10 + TYPE_BF16: wgmma_rs_bf16(job->n, d, a, db, accumulate, job->major_b); break;
    case 10 + TYPE_E4M3: wgmma_rs_e4m3(job->n, d, a, db, accumulate); break;
    case 10 + TYPE_E5M2: wgmma_rs_e5m2(job->n, d, a, db, accumulate); break;
    case 10 + TYPE_E4M3_E5M2: wgmma_rs_e4m3_e5m2(job->n, d, a, db, accumulate); break;
    default: wgmma_rs_e5m2_e4m3(job->n, d, a, db, accumulate); break;
    }
}

// D = A B, then D += A B.
static void kernel_product(const void *params)
{
    const struct job *job = params;
    uint32_t smem = dynamic_smem();
    float d[128];
    uint32_t a[4];
    fill_tile(job, 0, job->major_a, 64, smem + A_BASE);
    fill_tile(job, 1, job->major_b, (uint32_t)job->n, smem + B_BASE);
    fence_proxy_async();
    cta_sync();
    fragment_of_a(job, a);
    for (int i = 0; i < job->n / 2; i++) {
        d[i] = 1e30f; // the first product overwrites it
    }
    uint64_t desc_a = tile_descriptor(job, job->major_a, 64, smem + A_BASE);
    uint64_t desc_b = tile_descriptor(job, job->major_b, (uint32_t)job->n, smem + B_BASE);
    wgmma_fence();
    issue(job, d, a, desc_a, desc_b, 0);
    issue(job, d, a, desc_a, desc_b, 1);
    wgmma_commit_group();
    wgmma_wait_group(0);
    for (int i = 0; i < job->n / 2; i++) {
        int lane = (int)thread_idx() % 32;
        result[thread_idx() / 32 * 16 + (uint32_t)lane / 4 + (uint32_t)(i / 2 % 2 * 8)]
              [i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
    }
}

static void run_product(struct job job)
{
    struct emu_launch launch = small_launch(kernel_product, 128);
    launch.params = &job;
    launch.smem_bytes = 65536;
    struct emu_result out;
    launch.async = (emu_async)(job.n / 8 % 3);
    if (emu_launch(&launch, &out) != EMU_OK) {
        fail_msg("type %d n %d rs %d majors %d %d swizzle %u: %s", job.type, job.n, job.rs,
                 job.major_a, job.major_b, job.swizzle, out.text);
    }
    for (int m = 0; m < 64; m++) {
        for (int n = 0; n < job.n; n++) {
            float want = 0.0f;
            for (int k = 0; k < k_of(job.type); k++) {
                want += 2.0f * value_a(m, k) * value_b(n, k);
            }
            if (result[m][n] != want) {
                fail_msg("type %d n %d rs %d majors %d %d swizzle %u: d[%d][%d] = %g, not %g",
                         job.type, job.n, job.rs, job.major_a, job.major_b, job.swizzle, m, n,
                         (double)result[m][n], (double)want);
            }
        }
    }
}

static void test_every_n(void **state)
{
    (void)state;
    for (int n = 8; n <= 256; n += 8) {
        run_product(
            (struct job){.type = TYPE_BF16, .n = n, .rs = n / 8 % 2, .swizzle = DESC_SWIZZLE_128});
    }
}

static void test_every_type_and_swizzle(void **state)
{
    (void)state;
    for (int type = 0; type < TYPE_COUNT; type++) {
        for (uint32_t swizzle = DESC_NO_SWIZZLE; swizzle <= DESC_SWIZZLE_32; swizzle++) {
            run_product((struct job){.type = type, .n = 64, .rs = 0, .swizzle = swizzle});
            run_product((struct job){.type = type, .n = 40, .rs = 1, .swizzle = swizzle});
        }
    }
}

static void test_majors(void **state)
{
    (void)state;
    for (uint32_t swizzle = DESC_NO_SWIZZLE; swizzle <= DESC_SWIZZLE_32; swizzle++) {
        for (int majors = 1; majors < 4; majors++) {
            run_product((struct job){TYPE_F16, 128, 0, majors & 1, majors >> 1, swizzle});
        }
        run_product((struct job){TYPE_BF16, 192, 1, 0, 1, swizzle});
    }
}

// ---- rules

static void prepare(uint32_t smem)
{
    for (uint32_t i = thread_idx(); i < 4096; i += 128) {
        st_shared_u32(smem + 4 * i, 0x3f803f80);
    }
    fence_proxy_async();
    cta_sync();
}

static uint64_t tile(uint32_t addr)
{
    return matrix_descriptor(addr, 0, 1024, DESC_SWIZZLE_128);
}

static void kernel_read_too_early(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    float d[8] = {0};
    prepare(smem);
    wgmma_fence();
    wgmma_ss_bf16(16, d, tile(smem), tile(smem + 8192), 0, 0, 0);
    wgmma_commit_group();
    d[3] *= 2.0f;
    wgmma_wait_group(0);
}

static void kernel_a_changed(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    float d[8] = {0};
    uint32_t a[4] = {0};
    prepare(smem);
    wgmma_fence();
    wgmma_rs_bf16(16, d, a, tile(smem), 0, 0);
    wgmma_commit_group();
    a[2] = 5;
    wgmma_wait_group(0);
}

static void kernel_no_wait(const void *params)
{
    (void)params;
    static float d[128][8];
    uint32_t smem = dynamic_smem();
    prepare(smem);
    wgmma_fence();
    wgmma_ss_bf16(16, d[thread_idx()], tile(smem), tile(smem + 8192), 0, 0, 0);
    wgmma_commit_group();
}

static void kernel_generic_overwrite(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    float d[8] = {0};
    prepare(smem);
    wgmma_fence();
    wgmma_ss_bf16(16, d, tile(smem), tile(smem + 8192), 0, 0, 0);
    wgmma_commit_group();
    cta_sync();
    st_shared_u32(smem + 4 * thread_idx(), 0);
    wgmma_wait_group(0);
}

static void kernel_no_proxy_fence(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    float d[8] = {0};
    for (uint32_t i = thread_idx(); i < 4096; i += 128) {
        st_shared_u32(smem + 4 * i, 0);
    }
    cta_sync();
    wgmma_fence();
    wgmma_ss_bf16(16, d, tile(smem), tile(smem + 8192), 0, 0, 0);
    wgmma_commit_group();
    wgmma_wait_group(0);
}

static void kernel_differs(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    float d[8] = {0};
    prepare(smem);
    wgmma_fence();
    wgmma_ss_bf16(16, d, tile(smem), tile(smem + 8192), thread_idx() == 77, 0, 0);
    wgmma_commit_group();
    wgmma_wait_group(0);
}

static void kernel_unaligned(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    float d[8] = {0};
    prepare(smem);
    wgmma_fence();
    wgmma_ss_bf16(16, d, tile(smem + 128), tile(smem + 8192), 0, 0, 0);
}

static void kernel_bad_n(const void *params)
{
    (void)params;
    float d[8] = {0};
    wgmma_fence();
    wgmma_ss_bf16(20, d, tile(dynamic_smem()), tile(dynamic_smem()), 0, 0, 0);
}

static void kernel_out_of_bounds(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    float d[8] = {0};
    prepare(smem);
    wgmma_fence();
    wgmma_ss_bf16(16, d, tile(smem + 32 * 1024), tile(smem + 8192), 0, 0, 0);
}

static void test_rules(void **state)
{
    (void)state;
    expect_error(kernel_read_too_early, 128, EMU_RACE, "accumulator registers were changed");
    expect_error(kernel_a_changed, 128, EMU_RACE, "A registers were changed");
    expect_error(kernel_no_wait, 128, EMU_FAULT, "1 wgmmas that it never waited for");
    expect_error(kernel_generic_overwrite, 128, EMU_RACE,
                 "may still be read: the wgmma reading A by warpgroup 0");
    expect_error(kernel_no_proxy_fence, 128, EMU_RACE,
                 "goes through the async proxy and follows the st.shared");
    expect_error(kernel_differs, 128, EMU_FAULT, "differ within the warpgroup");
    expect_error(kernel_unaligned, 128, EMU_FAULT,
                 "not aligned to its swizzle pattern of 1024 bytes");
    expect_error(kernel_bad_n, 128, EMU_FAULT, "wgmma with n 20");
    expect_error(kernel_out_of_bounds, 128, EMU_FAULT, "out of bounds");
    expect_error(kernel_bad_n, 96, EMU_FAULT, "needs a whole warpgroup");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_n),
        cmocka_unit_test(test_every_type_and_swizzle),
        cmocka_unit_test(test_majors),
        cmocka_unit_test(test_rules),
    };
    return cmocka_run_group_tests_name("emu_wgmma", tests, NULL, NULL);
}
