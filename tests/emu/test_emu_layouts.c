// Golden tables: where fragments, swizzles and descriptors put things. The figures below were
// worked out from the pictures and formulas of the PTX ISA ("Register Fragments and Shared Memory
// Matrix Layouts") and agree with those of CuTe's layouts; the code under test must give them.
#include "../../src/device/common/descriptor.h"
#include "../../src/device/ptx/math_ops.h"
#include "wgmma_tile.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_accumulator_fragment(void **state)
{
    (void)state;
    static const struct {
        uint32_t thread, i, row, column;
    } golden[] = {
        {0, 0, 0, 0},       {0, 1, 0, 1},    {0, 2, 8, 0},    {0, 3, 8, 1},    {0, 4, 0, 8},
        {1, 0, 0, 2},       {3, 1, 0, 7},    {4, 0, 1, 0},    {31, 3, 15, 7},  {32, 0, 16, 0},
        {63, 2, 31, 6},     {64, 5, 32, 9},  {127, 0, 55, 6}, {127, 3, 63, 7}, {127, 127, 63, 255},
        {100, 62, 57, 120}, {17, 13, 4, 27}, {5, 66, 9, 130},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        assert_int_equal(wgmma_d_row(golden[i].thread, golden[i].i), golden[i].row);
        assert_int_equal(wgmma_d_column(golden[i].thread, golden[i].i), golden[i].column);
    }
}

// Every element of D is held once.
static void test_accumulator_covers(void **state)
{
    (void)state;
    static unsigned char held[64][256];
    for (uint32_t t = 0; t < 128; t++) {
        for (uint32_t i = 0; i < 128; i++) {
            held[wgmma_d_row(t, i)][wgmma_d_column(t, i)]++;
        }
    }
    for (int row = 0; row < 64; row++) {
        for (int column = 0; column < 256; column++) {
            assert_int_equal(held[row][column], 1);
        }
    }
}

static void test_swizzles(void **state)
{
    (void)state;
    static const struct {
        emu_swizzle swizzle;
        uint32_t addr, moved;
    } golden[] = {
        {EMU_SWIZZLE_NONE, 0x3f0, 0x3f0}, {EMU_SWIZZLE_128, 0x000, 0x000},
        {EMU_SWIZZLE_128, 0x080, 0x090},  {EMU_SWIZZLE_128, 0x110, 0x130},
        {EMU_SWIZZLE_128, 0x3f0, 0x380},  {EMU_SWIZZLE_128, 0x400, 0x400},
        {EMU_SWIZZLE_64, 0x080, 0x090},   {EMU_SWIZZLE_64, 0x180, 0x1b0},
        {EMU_SWIZZLE_64, 0x200, 0x200},   {EMU_SWIZZLE_32, 0x080, 0x090},
        {EMU_SWIZZLE_32, 0x100, 0x100},   {EMU_SWIZZLE_32, 0x190, 0x180},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        assert_int_equal(swizzle_address(golden[i].addr, golden[i].swizzle), golden[i].moved);
    }
}

static void test_descriptor_bits(void **state)
{
    (void)state;
    assert_true(matrix_descriptor(0x400, 0, 1024, DESC_SWIZZLE_128) == 0x4000004000000040u);
    assert_true(matrix_descriptor(0x1c20, 16384, 1024, DESC_SWIZZLE_128) == 0x40000040040001c2u);
    assert_true(matrix_descriptor(0x2000, 128, 256, DESC_NO_SWIZZLE) == 0x0000001000080200u);
    assert_true(matrix_descriptor(0x800, 512, 512, DESC_SWIZZLE_64) == 0x8000002000200080u);
    assert_true(matrix_descriptor(0x800, 256, 256, DESC_SWIZZLE_32) == 0xc000001000100080u);
    // The CTA's rank in an address of the cluster drops out.
    assert_true(matrix_descriptor(0x3000400, 0, 1024, DESC_SWIZZLE_128) == 0x4000004000000040u);
}

static void test_piece_addresses(void **state)
{
    (void)state;
    uint64_t k128 = matrix_descriptor(0x400, 0, 1024, DESC_SWIZZLE_128);
    uint64_t k64 = matrix_descriptor(0x400, 0, 512, DESC_SWIZZLE_64);
    uint64_t k32 = matrix_descriptor(0x400, 0, 256, DESC_SWIZZLE_32);
    uint64_t plain = matrix_descriptor(0x400, 128, 256, DESC_NO_SWIZZLE);
    uint64_t mn128 = matrix_descriptor(0x400, 0x4000, 1024, DESC_SWIZZLE_128);
    uint64_t mn64 = matrix_descriptor(0x400, 0x2000, 512, DESC_SWIZZLE_64);
    const struct {
        uint64_t descriptor;
        bool mn_major;
        uint32_t x, y, addr;
    } golden[] = {
        // k contiguous: row 0, 1, 7, 8, 63 of a tile with rows of 128 bytes
        {k128, false, 0, 0, 0x400},
        {k128, false, 0, 1, 0x410},
        {k128, false, 1, 0, 0x490},
        {k128, false, 7, 1, 0x7e0},
        {k128, false, 8, 0, 0x800},
        {k128, false, 63, 0, 0x23f0},
        {k64, false, 1, 0, 0x440},
        {k64, false, 2, 0, 0x490},
        {k64, false, 9, 1, 0x650},
        {k32, false, 3, 0, 0x460},
        {k32, false, 4, 1, 0x480},
        {k32, false, 8, 0, 0x500},
        {plain, false, 1, 0, 0x410},
        {plain, false, 0, 1, 0x480},
        {plain, false, 8, 1, 0x580},
        // n contiguous: x is k, y counts 8 values of n; 8 pieces fill a row of 128 bytes, then
        // comes the next panel
        {mn128, true, 0, 7, 0x470},
        {mn128, true, 1, 0, 0x490},
        {mn128, true, 0, 8, 0x4400},
        {mn128, true, 8, 0, 0x800},
        {mn128, true, 15, 9, 0x4be0},
        {mn64, true, 2, 1, 0x480},
        {mn64, true, 0, 4, 0x2400},
        {mn64, true, 8, 3, 0x630},
        {plain, true, 1, 0, 0x410},
        {plain, true, 0, 1, 0x500},
        {plain, true, 8, 1, 0x580},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct operand_layout layout = wgmma_layout(golden[i].descriptor);
        uint32_t addr =
            operand_piece_address(&layout, golden[i].mn_major, golden[i].x, golden[i].y);
        if (addr != golden[i].addr) {
            fail_msg("row %zu: 0x%x, not 0x%x", i, addr, golden[i].addr);
        }
    }
}

// Every pair of 16-bit patterns would be too many: all values there and back, and the borders of
// rounding.
static void test_narrow_floats(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float x = f32_from_f16((uint16_t)bits);
        assert_true(isnan(x) ? f16_from_f32(x) == 0x7fff : f16_from_f32(x) == bits);
        float y = f32_from_bf16((uint16_t)bits);
        assert_true(isnan(y) ? bf16_from_f32(y) == 0x7fff : bf16_from_f32(y) == bits);
    }
    for (uint32_t bits = 0; bits < 0x100; bits++) {
        float x = f32_from_e4m3((uint8_t)bits);
        assert_true(isnan(x) ? e4m3_from_f32(x) == 0x7f : e4m3_from_f32(x) == bits);
        float y = f32_from_e5m2((uint8_t)bits);
        assert_true(isnan(y)   ? e5m2_from_f32(y) == 0x7f
                    : isinf(y) ? (e5m2_from_f32(y) | 0x80) == 0xfb
                               : e5m2_from_f32(y) == bits);
    }
    assert_true(f32_from_e4m3(0x7e) == 448.0f && f32_from_e5m2(0x7b) == 57344.0f &&
                f32_from_f16(0x7bff) == 65504.0f);
    assert_true(f32_from_e4m3(0x01) == 0x1p-9f && f32_from_e5m2(0x01) == 0x1p-16f &&
                f32_from_f16(0x0001) == 0x1p-24f);
    assert_true(e4m3_from_f32(1000.0f) == 0x7e && e4m3_from_f32(-INFINITY) == 0xfe &&
                e5m2_from_f32(1e6f) == 0x7b);
    assert_true(f16_from_f32(65519.0f) == 0x7bff && f16_from_f32(65520.0f) == 0x7c00 &&
                f16_from_f32(1e9f) == 0x7c00);
    // halfway: to even
    assert_true(e4m3_from_f32(17.0f) == e4m3_from_f32(16.0f) &&
                e4m3_from_f32(19.0f) == e4m3_from_f32(20.0f));
    assert_true(f16_from_f32(2049.0f) == f16_from_f32(2048.0f) &&
                f16_from_f32(2051.0f) == f16_from_f32(2052.0f));
    assert_true(bf16_from_f32(257.0f) == bf16_from_f32(256.0f) &&
                bf16_from_f32(259.0f) == bf16_from_f32(260.0f));
    assert_true(pack_e4m3x2(1.0f, -2.0f) == 0xc038 && pack_bf16x2(1.0f, -2.0f) == 0xc0003f80 &&
                pack_f16x2(1.0f, -2.0f) == 0xc0003c00);
}

// As an H200 gives them.
static void test_nan_and_zero(void **state)
{
    (void)state;
    float signalling = f32_of_bits(0x7f800001);
    assert_int_equal(bits_of_f32(fma_f32(signalling, 1.0f, -2.0f)), 0x7fffffff);
    assert_int_equal(bits_of_f32(fma_f32(INFINITY, 0.0f, f32_of_bits(0xffc00000))), 0x7fffffff);
    assert_int_equal(bits_of_f32(f32_of_f16(0xfc01)), 0x7fffffff);
    assert_int_equal(bits_of_f32(f32_of_bf16(0xffc1)), 0xffc10000); // only moved
    assert_true(max_f32(signalling, -3.0f) == -3.0f && max_f32(-3.0f, signalling) == -3.0f);
    assert_int_equal(bits_of_f32(max_f32(signalling, f32_of_bits(0xffc00000))), 0x7fffffff);
    assert_int_equal(bits_of_f32(max_f32(0.0f, -0.0f)), 0);
    assert_int_equal(bits_of_f32(max_f32(-0.0f, 0.0f)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulator_fragment),
        cmocka_unit_test(test_accumulator_covers),
        cmocka_unit_test(test_swizzles),
        cmocka_unit_test(test_descriptor_bits),
        cmocka_unit_test(test_piece_addresses),
        cmocka_unit_test(test_narrow_floats),
        cmocka_unit_test(test_nan_and_zero),
    };
    return cmocka_run_group_tests_name("emu_layouts", tests, NULL, NULL);
}
