// Golden tables of Blackwell: where tcgen05.ld and st, accumulators and descriptors put things. The
// figures were worked out from the pictures and formulas of the PTX ISA ("Data Movement Shape",
// "Data Path Layout Organization", "Instruction descriptor", "Shared memory descriptor") and agree
// with those of CuTe's layouts; the code under test must give them.
#include "../../src/device/common/tcgen05_descriptor.h"
#include "tcgen05_mma.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_shapes(void **state)
{
    (void)state;
    static const struct {
        tensor_shape shape;
        uint32_t t, i, lane, column;
    } golden[] = {
        {SHAPE_32X32B, 0, 0, 0, 0},        {SHAPE_32X32B, 31, 127, 31, 127},
        {SHAPE_32X32B, 5, 3, 5, 3},        {SHAPE_16X64B, 0, 0, 0, 0},
        {SHAPE_16X64B, 1, 0, 8, 0},        {SHAPE_16X64B, 2, 0, 0, 1},
        {SHAPE_16X64B, 3, 0, 8, 1},        {SHAPE_16X64B, 4, 1, 1, 2},
        {SHAPE_16X64B, 31, 127, 15, 255},  {SHAPE_16X128B, 0, 1, 8, 0},
        {SHAPE_16X128B, 3, 0, 0, 3},       {SHAPE_16X128B, 4, 2, 1, 4},
        {SHAPE_16X128B, 31, 127, 15, 255}, {SHAPE_16X256B, 0, 1, 0, 1},
        {SHAPE_16X256B, 0, 2, 8, 0},       {SHAPE_16X256B, 1, 0, 0, 2},
        {SHAPE_16X256B, 3, 3, 8, 7},       {SHAPE_16X256B, 6, 4, 1, 12},
        {SHAPE_16X256B, 31, 127, 15, 255}, {SHAPE_16X32BX2, 15, 3, 15, 3},
        {SHAPE_16X32BX2, 16, 0, 0, 40},    {SHAPE_16X32BX2, 31, 2, 15, 42},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct tensor_instruction instruction = {golden[i].shape, 1, 0, 40};
        assert_int_equal(tensor_lane(golden[i].shape, golden[i].t, golden[i].i), golden[i].lane);
        assert_int_equal(tensor_column(&instruction, golden[i].t, golden[i].i), golden[i].column);
    }
    assert_int_equal(tensor_registers(SHAPE_32X32B, 128), 128);
    assert_int_equal(tensor_registers(SHAPE_16X64B, 128), 128);
    assert_int_equal(tensor_registers(SHAPE_16X128B, 64), 128);
    assert_int_equal(tensor_registers(SHAPE_16X256B, 32), 128);
    assert_int_equal(tensor_registers(SHAPE_16X32BX2, 8), 8);
}

// Every word of the rectangle is held once.
static void test_shapes_cover(void **state)
{
    (void)state;
    static const struct {
        tensor_shape shape;
        uint32_t num, lanes, columns;
    } rectangles[] = {
        {SHAPE_32X32B, 128, 32, 128}, {SHAPE_16X64B, 128, 16, 256},  {SHAPE_16X128B, 64, 16, 256},
        {SHAPE_16X256B, 32, 16, 256}, {SHAPE_16X32BX2, 64, 16, 128}, {SHAPE_16X256B, 1, 16, 8},
    };
    for (size_t s = 0; s < sizeof rectangles / sizeof rectangles[0]; s++) {
        static unsigned char held[32][256];
        struct tensor_instruction instruction = {rectangles[s].shape, rectangles[s].num, 0, 64};
        memset(held, 0, sizeof held);
        for (uint32_t t = 0; t < 32; t++) {
            for (uint32_t i = 0; i < tensor_registers(instruction.shape, instruction.num); i++) {
                held[tensor_lane(instruction.shape, t, i)][tensor_column(&instruction, t, i)]++;
            }
        }
        for (uint32_t lane = 0; lane < rectangles[s].lanes; lane++) {
            for (uint32_t column = 0; column < rectangles[s].columns; column++) {
                assert_int_equal(held[lane][column], 1);
            }
        }
    }
}

static void test_accumulators(void **state)
{
    (void)state;
    static const struct {
        uint32_t group, m, n, row, column;
        struct tensor_place place;
    } golden[] = {
        {1, 128, 256, 0, 0, {0, 0, 0}},        {1, 128, 256, 127, 255, {0, 127, 255}},
        {1, 64, 64, 15, 3, {0, 15, 3}},        {1, 64, 64, 16, 3, {0, 32, 3}},
        {1, 64, 64, 63, 63, {0, 111, 63}},     {2, 256, 128, 127, 5, {0, 127, 5}},
        {2, 256, 128, 128, 5, {1, 0, 5}},      {2, 256, 128, 255, 127, {1, 127, 127}},
        {2, 128, 128, 0, 63, {0, 0, 63}},      {2, 128, 128, 0, 64, {0, 64, 0}},
        {2, 128, 128, 63, 127, {0, 127, 63}},  {2, 128, 128, 64, 0, {1, 0, 0}},
        {2, 128, 256, 127, 200, {1, 127, 72}},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct tensor_place place =
            mma_d_place(golden[i].group, golden[i].m, golden[i].n, golden[i].row, golden[i].column);
        assert_int_equal(place.cta, golden[i].place.cta);
        assert_int_equal(place.lane, golden[i].place.lane);
        assert_int_equal(place.column, golden[i].place.column);
    }
}

static void test_instruction_descriptors(void **state)
{
    (void)state;
    assert_int_equal(tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, 128, 128, 0, 0), 0x08200490);
    assert_int_equal(tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, 128, 64, 0, 1), 0x08110490);
    assert_int_equal(tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, 256, 256, 0, 0), 0x10400490);
    assert_int_equal(tcgen05_instruction(TCGEN05_BF16, TCGEN05_BF16, 256, 256, 0, 1), 0x10410490);
    assert_int_equal(tcgen05_instruction(TCGEN05_F16, TCGEN05_F16, 64, 8, 1, 0), 0x04028010);
    assert_int_equal(tcgen05_instruction(TCGEN05_E4M3, TCGEN05_E5M2, 128, 32, 0, 0), 0x08080410);
    assert_int_equal(tcgen05_instruction_f16(TCGEN05_E3M2, TCGEN05_E2M1, 128, 64, 0, 0),
                     0x08101600);
    struct mma_operation operation = {.kind = MMA_F8F6F4, .idesc = 0x08098490};
    struct mma_shape shape = mma_shape_of(&operation);
    assert_int_equal(shape.type_a, OPERAND_E5M2);
    assert_int_equal(shape.type_b, OPERAND_E5M2);
    assert_int_equal(shape.m, 128);
    assert_int_equal(shape.n, 32);
    assert_true(shape.m_major && shape.n_major);
}

static void test_matrix_descriptors(void **state)
{
    (void)state;
    assert_true(tcgen05_matrix_descriptor(0x400, 0, 1024, TCGEN05_SWIZZLE_128) ==
                0x4000404000000040u);
    assert_true(tcgen05_matrix_descriptor(0x1c20, 16384, 1024, TCGEN05_SWIZZLE_128) ==
                0x40004040040001c2u);
    assert_true(tcgen05_matrix_descriptor(0x2000, 128, 256, TCGEN05_NO_SWIZZLE) ==
                0x0000401000080200u);
    assert_true(tcgen05_matrix_descriptor(0x800, 512, 512, TCGEN05_SWIZZLE_64) ==
                0x8000402000200080u);
    assert_true(tcgen05_matrix_descriptor(0x800, 256, 256, TCGEN05_SWIZZLE_32) ==
                0xc000401000100080u);
    // The CTA's rank in an address of the cluster drops out.
    assert_true(tcgen05_matrix_descriptor(0x3000400, 0, 1024, TCGEN05_SWIZZLE_128) ==
                0x4000404000000040u);
    static const struct {
        uint32_t swizzle;
        emu_swizzle mode;
    } modes[] = {{TCGEN05_NO_SWIZZLE, EMU_SWIZZLE_NONE},
                 {TCGEN05_SWIZZLE_128, EMU_SWIZZLE_128},
                 {TCGEN05_SWIZZLE_64, EMU_SWIZZLE_64},
                 {TCGEN05_SWIZZLE_32, EMU_SWIZZLE_32}};
    for (size_t i = 0; i < 4; i++) {
        struct operand_layout layout =
            tcgen05_layout(tcgen05_matrix_descriptor(0x3210, 4096, 2048, modes[i].swizzle));
        assert_int_equal(layout.base, 0x3210);
        assert_int_equal(layout.leading, 4096);
        assert_int_equal(layout.stride, 2048);
        assert_int_equal(layout.swizzle, modes[i].mode);
    }
}

static void test_copies(void **state)
{
    (void)state;
    static const struct {
        cp_shape shape;
        uint32_t rows, columns, r, count, lanes[4];
    } golden[] = {
        {CP_128X256B, 128, 8, 77, 1, {77}},
        {CP_4X256B, 4, 8, 3, 1, {96}},
        {CP_128X128B, 128, 4, 127, 1, {127}},
        {CP_64X128B_02_13, 64, 4, 33, 2, {33, 97}},
        {CP_64X128B_01_23, 64, 4, 5, 2, {5, 37}},
        {CP_64X128B_01_23, 64, 4, 33, 2, {65, 97}},
        {CP_32X128B, 32, 4, 31, 4, {31, 63, 95, 127}},
    };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        uint32_t lanes[4];
        assert_int_equal(cp_rows(golden[i].shape), golden[i].rows);
        assert_int_equal(cp_columns(golden[i].shape), golden[i].columns);
        assert_int_equal(cp_lanes(golden[i].shape, golden[i].r, lanes), golden[i].count);
        assert_memory_equal(lanes, golden[i].lanes, golden[i].count * sizeof lanes[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_shapes_cover),
        cmocka_unit_test(test_accumulators),
        cmocka_unit_test(test_instruction_descriptors),
        cmocka_unit_test(test_matrix_descriptors),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests_name("emu_tcgen05_layouts", tests, NULL, NULL);
}
