// tcgen05.mma against a plain product: kinds f16 and f8f6f4, one CTA and a pair, every m, n from 8
// to 256, every type, A in shared and in tensor memory, both majors, every swizzle.
#include "operand_tile.h"
#include "small_kernel.h"
#include <stdio.h>

#include "../../src/device/common/tcgen05_descriptor.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/cluster.h"
#include "../../src/device/ptx/fence.h"
#include "../../src/device/ptx/math_ops.h"
#include "../../src/device/ptx/mbarrier.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/tcgen05.h"

enum { TYPE_F16, TYPE_BF16, TYPE_E4M3, TYPE_E5M2, TYPE_E2M3, TYPE_E3M2, TYPE_E2M1 };
enum { SMEM_BARRIER = 0, SMEM_ADDRESS = 8, A_BASE = 1024, B_BASE = A_BASE + 16384 };
enum { D_COLUMN = 32, A_COLUMN = 480 }; // in tensor memory

struct job {
    int type_a;
    int type_b;
    uint32_t group;
    uint32_t m;
    uint32_t n;
    int ts;
    int major_a;
    int major_b;
    uint32_t width; // of the swizzle in bytes, 16: none
    uint32_t lane;  // where D and A begin: 0, or 16 for m 64
};

enum { D_IS_F16 = 1 << 4 };

static uint32_t result[2][128][256];
static uint32_t changed_bits; // of the instruction descriptor, by exclusive or

// In shared memory; with padding the narrower ones too.
static bool is_8_bit(int type)
{
    return type >= TYPE_E4M3;
}

static uint32_t bits_of_type(int type)
{
    return !is_8_bit(type) ? 16 : type <= TYPE_E5M2 ? 8 : type == TYPE_E2M1 ? 4 : 6;
}

static uint32_t code_of_type(int type)
{
    static const uint32_t codes[] = {TCGEN05_F16,  TCGEN05_BF16, TCGEN05_E4M3, TCGEN05_E5M2,
                                     TCGEN05_E2M3, TCGEN05_E3M2, TCGEN05_E2M1};
    return codes[type];
}

// Small whole numbers: every product and sum is exact in every type.
static float value_a(uint32_t m, uint32_t k)
{
    return (float)((int)(m * 7 + k * 3) % 9 - 4);
}

static float value_b(uint32_t n, uint32_t k)
{
    return (float)((int)(n * 5 + k * 11) % 7 - 3);
}

static uint32_t encode(int type, float x)
{
    switch (type) {
    case TYPE_F16: return pack_f16x2(x, 0.0f) & 0xffff;
    case TYPE_BF16: return pack_bf16x2(x, 0.0f) & 0xffff;
    case TYPE_E4M3: return pack_e4m3x2(x, 0.0f) & 0xff;
    case TYPE_E5M2: return pack_e5m2x2(x, 0.0f) & 0xff;
    }
    // 0 to 4, and the sign above all.
    static const uint32_t magnitudes[][5] = {
        {0x00, 0x08, 0x10, 0x14, 0x18}, {0x00, 0x0c, 0x10, 0x12, 0x14}, {0x0, 0x2, 0x4, 0x5, 0x6}};
    uint32_t sign = x < 0.0f ? 1u << (bits_of_type(type) - 1) : 0;
    return sign | magnitudes[type - TYPE_E2M3][(int)(x < 0.0f ? -x : x)];
}

// 16 bytes hold 16 values of 6 or 4 bits without gaps, then padding.
static void place_value(uint8_t *bytes, uint32_t offset, int type, float x)
{
    uint32_t width = bits_of_type(type);
    uint32_t bit = width < 8 ? offset % 16 * width : offset % 16 * 8;
    uint32_t word = encode(type, x) << bit % 8;
    bytes[offset / 16 * 16 + bit / 8] |= (uint8_t)word;
    bytes[offset / 16 * 16 + bit / 8 + 1] |= (uint8_t)(word >> 8);
}

static struct operand_tile tile_a(const struct job *job)
{
    uint32_t size = is_8_bit(job->type_a) ? 1 : 2;
    return (struct operand_tile){job->m / job->group, 32 / size, size, job->width,
                                 job->major_a != 0};
}

static struct operand_tile tile_b(const struct job *job)
{
    uint32_t size = is_8_bit(job->type_b) ? 1 : 2;
    return (struct operand_tile){job->n / job->group, 32 / size, size, job->width,
                                 job->major_b != 0};
}

static uint64_t descriptor(const struct operand_tile *tile, uint32_t addr)
{
    uint32_t swizzle = tile->width == 128  ? TCGEN05_SWIZZLE_128
                       : tile->width == 64 ? TCGEN05_SWIZZLE_64
                       : tile->width == 32 ? TCGEN05_SWIZZLE_32
                                           : TCGEN05_NO_SWIZZLE;
    return tcgen05_matrix_descriptor(addr, tile_leading(tile), tile_stride(tile), swizzle);
}

// The CTA's rows of A or of B.
static void fill_tile(const struct operand_tile *tile, int type, int is_b, uint32_t base)
{
    static uint8_t bytes[32768 + 1];
    uint32_t row0 = cluster_rank() * tile->rows;
    if (thread_idx() == 0) {
        memset(bytes, 0, sizeof bytes);
        for (uint32_t row = 0; row < tile->rows; row++) {
            for (uint32_t k = 0; k < tile->k; k++) {
                place_value(bytes, tile_offset(tile, row, k), type,
                            is_b ? value_b(row0 + row, k) : value_a(row0 + row, k));
            }
        }
        for (uint32_t i = 0; i < tile_bytes(tile) / 4; i++) {
            uint32_t word;
            memcpy(&word, bytes + 4 * i, sizeof word);
            st_shared_u32(base + 4 * i, word);
        }
        fence_proxy_async();
    }
}

// A in tensor memory: a lane has the row of D that lies there, packed.
static void fill_tensor_a(const struct job *job, uint32_t tensor)
{
    uint32_t lane = thread_idx();
    uint32_t rows = job->m / job->group;
    uint32_t row = job->group == 2 ? lane % rows
                   : job->m == 64  ? (lane / 32 * 16 + lane % 16)
                                   : lane;
    uint32_t packed[8] = {0};
    uint32_t per = is_8_bit(job->type_a) ? 4 : 2;
    for (uint32_t k = 0; k < 8 * per; k++) {
        packed[k / per] |= encode(job->type_a, value_a(cluster_rank() * rows + row, k))
                           << (k % per * 32 / per);
    }
    tcgen05_st_32x32b(8, tensor + (lane / 32 * 32 << 16) + A_COLUMN, packed);
    tcgen05_wait_st();
    tcgen05_fence_before();
}

static void issue(const struct job *job, uint32_t tensor, uint64_t da, uint64_t db,
                  uint32_t accumulate)
{
    uint32_t idesc =
        changed_bits ^ tcgen05_instruction(code_of_type(job->type_a), code_of_type(job->type_b),
                                           job->m, job->n, (uint32_t)job->major_a,
                                           (uint32_t)job->major_b);
    uint32_t d = tensor + (job->lane << 16) + D_COLUMN;
    uint32_t a = tensor + (job->lane << 16) + A_COLUMN;
    switch ((is_8_bit(job->type_a) ? 4u : 0u) + (job->group == 2 ? 2u : 0u) + (job->ts ? 1u : 0u)) {
    case 0: tcgen05_mma_f16_ss(d, da, db, idesc, accumulate); break;
    case 1: tcgen05_mma_f16_ts(d, a, db, idesc, accumulate); break;
    case 2: tcgen05_mma_f16_ss_pair(d, da, db, idesc, accumulate); break;
    case 3: tcgen05_mma_f16_ts_pair(d, a, db, idesc, accumulate); break;
    case 4: tcgen05_mma_f8f6f4_ss(d, da, db, idesc, accumulate); break;
    case 5: tcgen05_mma_f8f6f4_ts(d, a, db, idesc, accumulate); break;
    case 6: tcgen05_mma_f8f6f4_ss_pair(d, da, db, idesc, accumulate); break;
    default: tcgen05_mma_f8f6f4_ts_pair(d, a, db, idesc, accumulate); break;
    }
}

static void meet(void)
{
    cluster_arrive();
    cluster_wait();
}

static uint32_t begin(const struct job *job, uint32_t smem)
{
    if (thread_idx() == 0) {
        mbarrier_init(smem + SMEM_BARRIER, 1);
        fence_mbarrier_init();
    }
    if (thread_idx() / 32 == 0 && job->group == 1) {
        tcgen05_alloc(smem + SMEM_ADDRESS, 512);
        tcgen05_relinquish();
    } else if (thread_idx() / 32 == 0) {
        tcgen05_alloc_pair(smem + SMEM_ADDRESS, 512);
        tcgen05_relinquish_pair();
    }
    meet();
    return ld_shared_u32(smem + SMEM_ADDRESS);
}

static void end(const struct job *job, uint32_t tensor)
{
    meet();
    if (thread_idx() / 32 == 0 && job->group == 1) {
        tcgen05_dealloc(tensor, 512);
    } else if (thread_idx() / 32 == 0) {
        tcgen05_dealloc_pair(tensor, 512);
    }
}

// D = A B, then D += A B.
static void kernel_product(const void *params)
{
    const struct job *job = params;
    uint32_t smem = dynamic_smem();
    uint32_t tensor = begin(job, smem);
    struct operand_tile a = tile_a(job);
    struct operand_tile b = tile_b(job);
    fill_tile(&a, job->type_a, 0, smem + A_BASE);
    fill_tile(&b, job->type_b, 1, smem + B_BASE);
    fill_tensor_a(job, tensor);
    meet();
    if (thread_idx() == 0 && cluster_rank() == 0) {
        tcgen05_fence_after();
        issue(job, tensor, descriptor(&a, smem + A_BASE), descriptor(&b, smem + B_BASE), 0);
        issue(job, tensor, descriptor(&a, smem + A_BASE), descriptor(&b, smem + B_BASE), 1);
        if (job->group == 1) {
            tcgen05_commit(smem + SMEM_BARRIER);
        } else {
            tcgen05_commit_pair_multicast(smem + SMEM_BARRIER, 3);
        }
    }
    mbarrier_wait(smem + SMEM_BARRIER, 0);
    tcgen05_fence_after();
    uint32_t lane = thread_idx();
    uint32_t columns = job->group == 2 && job->m == 128 ? job->n / 2 : job->n;
    bool has_row = job->m / job->group != 64 || job->group == 2 ||
                   (lane % 32 >= job->lane && lane % 32 < job->lane + 16);
    for (uint32_t c = 0; c < columns; c += 8) {
        uint32_t r[8];
        uint32_t at = tensor + (lane / 32 * 32 << 16) + D_COLUMN + c;
        if (job->m == 64) { // half of the lanes are no row of D: loads of 16
            uint32_t quarter[4];
            tcgen05_ld_16x256b(1, quarter, at + (job->lane << 16));
            tcgen05_wait_ld();
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t t = lane % 32;
                result[0][lane / 32 * 32 + job->lane + t / 4 + 8 * (i / 2)]
                      [c + 2 * (t % 4) + i % 2] = quarter[i];
            }
            continue;
        }
        tcgen05_ld_32x32b(8, r, at);
        tcgen05_wait_ld();
        for (uint32_t i = 0; has_row && i < 8; i++) {
            result[cluster_rank()][lane][c + i] = r[i];
        }
    }
    end(job, tensor);
}

static float result_at(const struct job *job, uint32_t m, uint32_t n)
{
    uint32_t rows = job->m / job->group;
    uint32_t r = m % rows;
    uint32_t lane = job->m == 64 ? r / 16 * 32 + r % 16 + job->lane : r;
    if (job->group == 2 && job->m == 128) {
        lane = r + n / (job->n / 2) * 64;
        n %= job->n / 2;
    }
    uint32_t word = result[m / rows][lane][n];
    return changed_bits & D_IS_F16 ? f32_of_f16(word & 0xffff) : f32_of_bits(word);
}

static void run_product(struct job job)
{
    struct emu_launch launch = small_launch(kernel_product, 128);
    launch.params = &job;
    launch.smem_bytes = 65536;
    launch.arch = 100;
    launch.cluster = launch.grid[0] = job.group;
    launch.check = EMU_CHECK_ORDER;
    launch.async = (emu_async)((job.n / 8 + job.m / 64) % 3);
    struct emu_result out;
    char name[160];
    snprintf(name, sizeof name,
             "types %d %d group %u m %u n %u ts %d majors %d %d width %u lane %u", job.type_a,
             job.type_b, job.group, job.m, job.n, job.ts, job.major_a, job.major_b, job.width,
             job.lane);
    if (emu_launch(&launch, &out) != EMU_OK) {
        fail_msg("%s: %s", name, out.text);
    }
    assert_int_equal(out.mmas, 2);
    bool is_negative = !(changed_bits & TCGEN05_NEGATE_A) != !(changed_bits & TCGEN05_NEGATE_B);
    float twice = is_negative ? -2.0f : 2.0f;
    for (uint32_t m = 0; m < job.m; m++) {
        for (uint32_t n = 0; n < job.n; n++) {
            float want = 0.0f;
            for (uint32_t k = 0; k < (is_8_bit(job.type_a) ? 32 : 16); k++) {
                want += twice * value_a(m, k) * value_b(n, k);
            }
            if (result_at(&job, m, n) != want) {
                fail_msg("%s: d[%u][%u] = %g, not %g", name, m, n, (double)result_at(&job, m, n),
                         (double)want);
            }
        }
    }
}

// m and the pair by turns, every n that is legal.
static void test_every_n(void **state)
{
    (void)state;
    for (uint32_t n = 8; n <= 256; n += 8) {
        run_product((struct job){TYPE_BF16, TYPE_BF16, 1, 64, n, n / 8 % 2, 0, 0, 128, 0});
    }
    for (uint32_t n = 16; n <= 256; n += 16) {
        run_product((struct job){TYPE_BF16, TYPE_BF16, 1, 128, n, n / 16 % 2, 0, 0, 128, 0});
        run_product((struct job){TYPE_BF16, TYPE_BF16, 2, 128, n, n / 16 % 2, 0, 0, 128, 0});
        run_product((struct job){TYPE_BF16, TYPE_BF16, 2, 256, n, n / 16 % 2, 0, 0, 128, 0});
    }
}

static void test_every_type_and_swizzle(void **state)
{
    (void)state;
    for (uint32_t width = 16; width <= 128; width *= 2) {
        run_product((struct job){TYPE_F16, TYPE_F16, 1, 128, 64, 0, 0, 0, width, 0});
        for (int types = 0; types < 4; types++) {
            struct job job = {TYPE_E4M3 + types % 2,
                              TYPE_E4M3 + types / 2,
                              1,
                              128,
                              48,
                              types / 2,
                              0,
                              0,
                              width,
                              0};
            run_product(job);
            job.group = 2;
            job.m = 128 + 128 * (uint32_t)(types % 2);
            run_product(job);
        }
    }
}

static void test_majors(void **state)
{
    (void)state;
    for (uint32_t width = 16; width <= 128; width *= 2) {
        for (int majors = 1; majors < 4; majors++) {
            int a = majors & 1;
            int b = majors >> 1;
            run_product((struct job){TYPE_BF16, TYPE_BF16, 1, 128, 128, 0, a, b, width, 0});
            run_product((struct job){TYPE_BF16, TYPE_BF16, 1, 64, 64, 0, a, b, width, 0});
            run_product((struct job){TYPE_F16, TYPE_F16, 2, 256, 256, 0, a, b, width, 0});
            run_product((struct job){TYPE_F16, TYPE_F16, 2, 128, 256, 0, a, b, width, 0});
            run_product((struct job){TYPE_E5M2, TYPE_E4M3, 1, 128, 128, 0, a, b, width, 0});
        }
        run_product((struct job){TYPE_BF16, TYPE_BF16, 1, 128, 192, 1, 0, 1, width, 0});
        run_product((struct job){TYPE_BF16, TYPE_BF16, 2, 256, 128, 1, 0, 1, width, 0});
    }
}

static void test_other_half_of_the_lanes(void **state)
{
    (void)state;
    run_product((struct job){TYPE_BF16, TYPE_BF16, 1, 64, 128, 0, 0, 0, 128, 16});
    run_product((struct job){TYPE_BF16, TYPE_BF16, 1, 64, 40, 1, 0, 0, 128, 16});
}

static void test_narrow_types(void **state)
{
    (void)state;
    for (int types = 0; types < 16; types++) {
        struct job job = {
            TYPE_E5M2 + types % 4, TYPE_E5M2 + types / 4, 1, 128, 32, 0, 0, 0, 128, 0};
        run_product(job);
        job.major_a = types % 2;
        job.major_b = types / 2 % 2;
        job.group = 2;
        job.m = 256;
        job.width = 32;
        run_product(job);
    }
    run_product((struct job){TYPE_E4M3, TYPE_E2M1, 1, 64, 24, 1, 0, 0, 64, 0});
}

static void test_fp16_sums(void **state)
{
    (void)state;
    changed_bits = D_IS_F16;
    run_product((struct job){TYPE_F16, TYPE_F16, 1, 64, 40, 0, 0, 0, 128, 16});
    run_product((struct job){TYPE_F16, TYPE_F16, 1, 128, 64, 1, 0, 0, 128, 0});
    run_product((struct job){TYPE_F16, TYPE_F16, 2, 128, 64, 0, 0, 0, 128, 0});
    run_product((struct job){TYPE_E4M3, TYPE_E2M1, 2, 256, 64, 0, 0, 0, 128, 0});
    changed_bits = 0;
}

static void test_negation(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < 4; i++) {
        changed_bits = (i & 1 ? TCGEN05_NEGATE_A : 0) | (i & 2 ? TCGEN05_NEGATE_B : 0);
        run_product((struct job){TYPE_BF16, TYPE_BF16, 1, 128, 48, i % 2, 0, 0, 128, 0});
        run_product((struct job){TYPE_E2M3, TYPE_E5M2, 2, 256, 32, 0, 0, 0, 128, 0});
    }
    changed_bits = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_n),      cmocka_unit_test(test_every_type_and_swizzle),
        cmocka_unit_test(test_majors),       cmocka_unit_test(test_other_half_of_the_lanes),
        cmocka_unit_test(test_narrow_types), cmocka_unit_test(test_fp16_sums),
        cmocka_unit_test(test_negation),
    };
    return cmocka_run_group_tests_name("emu_tcgen05", tests, NULL, NULL);
}
