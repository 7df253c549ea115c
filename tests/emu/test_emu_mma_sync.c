// mma.sync: where the fragments are, by the formulas of the PTX ISA ("Matrix Fragments for
// mma.m16n8k16", "... mma.m16n8k32"), which count elements and not registers as the emulator does;
// what it computes, in every type; fragments loaded by ldmatrix; misuse.
#include "random_input.h"
#include "small_kernel.h"

#include "../../emu/state.h"
#include "../../src/device/ptx/barrier.h"
#include "../../src/device/ptx/matrix.h"
#include "../../src/device/ptx/memory_ops.h"
#include "../../src/device/ptx/mma_sync.h"
#include <math.h>

typedef void (*mma_function)(float *d, const uint32_t *a, const uint32_t *b);
typedef float (*decode_function)(uint32_t bits);

static float of_f16(uint32_t bits)
{
    return f32_from_f16((uint16_t)bits);
}

static float of_bf16(uint32_t bits)
{
    return f32_from_bf16((uint16_t)bits);
}

static float of_e4m3(uint32_t bits)
{
    return f32_from_e4m3((uint8_t)bits);
}

static float of_e5m2(uint32_t bits)
{
    return f32_from_e5m2((uint8_t)bits);
}

static const struct form {
    mma_function mma;
    decode_function decode_a;
    decode_function decode_b;
    uint32_t k;
} forms[] = {
    {mma_m16n8k16_f16, of_f16, of_f16, 16},         {mma_m16n8k16_bf16, of_bf16, of_bf16, 16},
    {mma_m16n8k32_e4m3, of_e4m3, of_e4m3, 32},      {mma_m16n8k32_e5m2, of_e5m2, of_e5m2, 32},
    {mma_m16n8k32_e4m3_e5m2, of_e4m3, of_e5m2, 32}, {mma_m16n8k32_e5m2_e4m3, of_e5m2, of_e4m3, 32},
};

static const struct form *form;
static uint32_t registers[32][6]; // A's and B's of each lane

static void kernel_mma(const void *params)
{
    (void)params;
    uint32_t lane = thread_idx();
    float d[4];
    for (uint32_t i = 0; i < 4; i++) {
        d[i] = (float)(lane * 4 + i); // what D starts from
    }
    form->mma(d, registers[lane], registers[lane] + 4);
    for (uint32_t i = 0; i < 4; i++) {
        st_global_f32(&output[lane * 4 + i], d[i]);
    }
}

// Small numbers of every format: mantissa and sign bits at random, exponents near 1.
static uint32_t random_bits(const struct form *f, decode_function decode, uint32_t *state)
{
    for (;;) {
        uint32_t bits = random_word(state) >> 16 & (f->k == 16 ? 0xffff : 0xff);
        float x = fabsf(decode(bits));
        if (x >= 0.25f && x <= 4.0f) {
            return bits;
        }
    }
}

static uint32_t a_row(uint32_t k, uint32_t lane, uint32_t i)
{
    bool upper = k == 16 ? i < 2 || (i >= 4 && i < 6) : i < 4 || (i >= 8 && i < 12);
    return lane / 4 + (upper ? 0 : 8);
}

static uint32_t a_column(uint32_t k, uint32_t lane, uint32_t i)
{
    return k == 16 ? lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8)
                   : lane % 4 * 4 + (i & 3) + (i < 8 ? 0 : 16);
}

static uint32_t b_row(uint32_t k, uint32_t lane, uint32_t i)
{
    return k == 16 ? lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8)
                   : lane % 4 * 4 + (i & 3) + (i < 4 ? 0 : 16);
}

static void put_element(uint32_t *words, uint32_t k, uint32_t i, uint32_t bits)
{
    uint32_t per_register = k / 8;
    uint32_t width = 32 / per_register;
    words[i / per_register] |= bits << i % per_register * width;
}

static void check_product(double (*a)[32], double (*b)[8], uint32_t k)
{
    for (uint32_t lane = 0; lane < 32; lane++) {
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t row = lane / 4 + (i < 2 ? 0 : 8);
            uint32_t column = lane % 4 * 2 + (i & 1);
            double want = lane * 4 + i;
            for (uint32_t j = 0; j < k; j++) {
                want += a[row][j] * b[j][column];
            }
            float got;
            memcpy(&got, &output[lane * 4 + i], sizeof got);
            assert_true(fabs(got - want) < 1e-3);
        }
    }
}

static void test_every_type(void **state)
{
    (void)state;
    uint32_t random = 7;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        form = &forms[f];
        static double a[16][32];
        static double b[32][8];
        memset(registers, 0, sizeof registers);
        for (uint32_t lane = 0; lane < 32; lane++) {
            for (uint32_t i = 0; i < form->k / 2; i++) {
                uint32_t bits = random_bits(form, form->decode_a, &random);
                a[a_row(form->k, lane, i)][a_column(form->k, lane, i)] = form->decode_a(bits);
                put_element(registers[lane], form->k, i, bits);
            }
            for (uint32_t i = 0; i < form->k / 4; i++) {
                uint32_t bits = random_bits(form, form->decode_b, &random);
                b[b_row(form->k, lane, i)][lane / 4] = form->decode_b(bits);
                put_element(registers[lane] + 4, form->k, i, bits);
            }
        }
        expect_ok(kernel_mma, 32);
        check_product(a, b, form->k);
    }
}

// One element of A and one of B at a time: D is zero but in one place.
static void test_golden_fragments(void **state)
{
    (void)state;
    static const struct {
        uint32_t form, lane_a, element_a, lane_b, element_b; // the two meet in k
        uint32_t row, column;
    } golden[] = {
        {0, 0, 0, 0, 0, 0, 0},     {0, 5, 1, 1, 1, 1, 0},     {1, 31, 7, 31, 3, 15, 7},
        {1, 8, 2, 20, 0, 10, 5},   {0, 14, 4, 26, 2, 3, 6},   {2, 0, 4, 0, 0, 8, 0},
        {3, 31, 15, 31, 7, 15, 7}, {2, 9, 10, 17, 6, 2, 4},   {3, 6, 13, 30, 5, 9, 7},
        {4, 3, 1, 7, 1, 0, 1},     {5, 28, 12, 12, 4, 15, 3},
    };
    static const uint32_t ones[] = {0x3c00, 0x3f80, 0x38, 0x3c, 0x38, 0x3c};
    static const uint32_t ones_b[] = {0x3c00, 0x3f80, 0x38, 0x3c, 0x3c, 0x38};
    for (size_t g = 0; g < sizeof golden / sizeof golden[0]; g++) {
        form = &forms[golden[g].form];
        memset(registers, 0, sizeof registers);
        put_element(registers[golden[g].lane_a], form->k, golden[g].element_a,
                    ones[golden[g].form]);
        put_element(registers[golden[g].lane_b] + 4, form->k, golden[g].element_b,
                    ones_b[golden[g].form]);
        expect_ok(kernel_mma, 32);
        for (uint32_t lane = 0; lane < 32; lane++) {
            for (uint32_t i = 0; i < 4; i++) {
                bool here = lane / 4 + i / 2 * 8 == golden[g].row &&
                            lane % 4 * 2 + i % 2 == golden[g].column;
                float got;
                memcpy(&got, &output[lane * 4 + i], sizeof got);
                assert_true(got == (float)(lane * 4 + i) + (here ? 1.0f : 0.0f));
            }
        }
    }
}

// A[16][16] by rows and B[8][16] (n by k) in shared memory, read by ldmatrix.
static void kernel_ldmatrix(const void *params)
{
    (void)params;
    uint32_t smem = dynamic_smem();
    uint32_t lane = thread_idx();
    for (uint32_t i = lane; i < 192; i += 32) {
        st_shared_u32(smem + 4 * i, ld_global_u32(&input[i]));
    }
    cta_sync();
    uint32_t a[4];
    uint32_t b[2];
    ldmatrix_x4(a, smem + lane % 16 * 32 + lane / 16 * 16);
    ldmatrix_x2(b, smem + 512 + lane % 8 * 32 + lane / 8 % 2 * 16);
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    mma_m16n8k16_f16(d, a, b);
    for (uint32_t i = 0; i < 4; i++) {
        st_global_f32(&output[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2], d[i]);
    }
}

static void test_fragments_of_ldmatrix(void **state)
{
    (void)state;
    struct emu_launch launch = small_launch(kernel_ldmatrix, 32);
    uint16_t *halves = (uint16_t *)input;
    for (uint32_t i = 0; i < 384; i++) {
        halves[i] = f16_from_f32((float)(i * 37 % 11) - 5.0f);
    }
    expect_ok_launch(launch);
    for (uint32_t row = 0; row < 16; row++) {
        for (uint32_t column = 0; column < 8; column++) {
            float want = 0.0f;
            for (uint32_t k = 0; k < 16; k++) {
                want += f32_from_f16(halves[row * 16 + k]) *
                        f32_from_f16(halves[256 + column * 16 + k]);
            }
            float got;
            memcpy(&got, &output[row * 8 + column], sizeof got);
            assert_true(got == want);
        }
    }
}

static void kernel_half_a_warp(const void *params)
{
    (void)params;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    uint32_t a[4] = {0, 0, 0, 0};
    if (thread_idx() < 16) {
        mma_m16n8k16_f16(d, a, a);
    } else {
        mma_m16n8k16_bf16(d, a, a);
    }
}

static void test_misuse(void **state)
{
    (void)state;
    expect_error(kernel_half_a_warp, 32, EMU_FAULT,
                 "the lanes of warp 0 are at different instructions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_golden_fragments),
        cmocka_unit_test(test_fragments_of_ldmatrix),
        cmocka_unit_test(test_misuse),
    };
    return cmocka_run_group_tests_name("emu_mma_sync", tests, NULL, NULL);
}
