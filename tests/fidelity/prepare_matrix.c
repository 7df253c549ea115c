// Probes of matrix instructions: operands of every type, in shared memory and in registers.
#include "../../src/device/common/descriptor.h"
#include "../../src/device/common/tcgen05_descriptor.h"
#include "../../src/device/ptx/math_ops.h"
#include "../emu/operand_tile.h"
#include "prepare.h"
#include "probe_table.h"
#include "probe_words.h"
#include <string.h>

static bool is_8_bit(int type)
{
    return type >= TYPE_E4M3;
}

static int k_of(int type)
{
    return is_8_bit(type) ? 32 : 16;
}

// D: whole numbers, or of the size of a sum of products.
static void fill_d(struct run *run, uint32_t *d, size_t count, bool is_whole)
{
    fill_words(&run->rng, d, count, FILL_NORMAL);
    for (size_t i = 0; is_whole && i < count; i++) {
        d[i] = bits_of_f32((float)test_rng_range(&run->rng, -50, 50));
    }
}

// Terms are below 4 (those of D; products are below 1). What the tensor core drops of each term,
// and of their sum, is below the largest term's 2^-bits.
static struct comparison of_rounding(int type, bool is_whole, int bits_of_8)
{
    if (is_whole) {
        return (struct comparison){SAME_BITS, EMU_F32, 0.0, 0.0};
    }
    int bits = is_8_bit(type) ? bits_of_8 : 23;
    double bound = 4.0 * (k_of(type) + 2) / (double)(1u << bits);
    return (struct comparison){WITHIN, EMU_F32, bound, 0.0};
}

// ---- mma.sync

static void prepare_mma(struct run *run, bool is_whole)
{
    struct probe_params *p = run_params(run);
    size_t threads = (size_t)run->grid[0] * 128;
    uint32_t *in = run_alloc(threads * 48);
    for (size_t i = 0; i < threads; i++) {
        fill_elements(&run->rng, in + 8 * i, 16, run->literals[0], false, is_whole);
        fill_elements(&run->rng, in + 8 * i + 4, 16, run->literals[0], true, is_whole);
    }
    fill_d(run, in + 8 * threads, 4 * threads, is_whole);
    p->in = run_input(run, "fragments", in, threads * 48);
    p->out = run_output(run, "d", run_alloc(threads * 16), threads * 16, EMU_OUTPUT,
                        of_rounding(run->literals[0], is_whole, 13));
}

// A case for each type, from the table's literal on.
void prepare_mma_sync(struct run *run)
{
    run->literals[0] += (int32_t)run->case_idx;
    prepare_mma(run, true);
}

void prepare_mma_sync_rounding(struct run *run)
{
    run->literals[0] += (int32_t)run->case_idx;
    prepare_mma(run, false);
}

// ---- wgmma

static void put_descriptor(uint32_t *words, const struct operand_tile *t, uint32_t swizzle,
                           uint32_t offset, uint32_t spread)
{
    uint64_t d =
        matrix_descriptor(offset, tile_leading(t) * spread, tile_stride(t) * spread, swizzle);
    words[0] = (uint32_t)d;
    words[1] = (uint32_t)(d >> 32);
}

// Distances may be larger than they must be, where the memory is.
static uint32_t draw_spread(struct run *run, const struct operand_tile *t, uint32_t bytes)
{
    return 2 * tile_bytes(t) <= bytes && test_rng_chance(&run->rng, 50) ? 2 : 1;
}

// A step along k within the row of the swizzle: the descriptor begins at a later piece.
static uint32_t draw_step(struct run *run, const struct operand_tile *t)
{
    uint32_t steps = t->is_mn_major || t->width < 64 ? 1 : t->width / 32;
    return 32 * (uint32_t)test_rng_range(&run->rng, 0, steps - 1);
}

static void draw_descriptors(struct run *run, uint32_t swizzle)
{
    static const uint32_t widths[] = {16, 128, 64, 32};
    uint32_t *words = run_params(run)->words;
    int type = run->literals[0];
    uint32_t size = is_8_bit(type) ? 1 : 2;
    uint32_t k = (uint32_t)k_of(type);
    struct operand_tile a = {64, k, size, widths[swizzle], run->literals[2] != 0};
    struct operand_tile b = {(uint32_t)run->literals[4], k, size, widths[swizzle],
                             run->literals[3] != 0};
    put_descriptor(words + WGMMA_A_LOW, &a, swizzle, draw_step(run, &a),
                   draw_spread(run, &a, WGMMA_A_BYTES));
    put_descriptor(words + WGMMA_B_LOW, &b, swizzle, draw_step(run, &b),
                   draw_spread(run, &b, WGMMA_B_BYTES));
}

static void add_operands(struct run *run, bool is_whole)
{
    struct probe_params *p = run_params(run);
    size_t d_words = 64 * (size_t)run->literals[4];
    size_t image = WGMMA_A_BYTES + WGMMA_B_BYTES;
    size_t bytes = image + 2048 + 4 * d_words;
    char *in = run_alloc(bytes);
    fill_elements(&run->rng, in, WGMMA_A_BYTES, run->literals[0], false, is_whole);
    fill_elements(&run->rng, in + WGMMA_A_BYTES, WGMMA_B_BYTES, run->literals[0], true, is_whole);
    fill_elements(&run->rng, in + image, 2048, run->literals[0], false, is_whole);
    fill_d(run, (uint32_t *)(void *)(in + image + 2048), d_words, is_whole);
    p->in = run_input(run, "operands", in, bytes);
    p->out = run_output(run, "d", run_alloc(4 * d_words), 4 * d_words, EMU_OUTPUT,
                        of_rounding(run->literals[0], is_whole, 12));
}

void prepare_wgmma_n(struct run *run)
{
    run->literals[0] = (int32_t)(run->case_idx / 32);
    run->literals[4] = 8 + 8 * (int32_t)(run->case_idx % 32);
    run_params(run)->words[WGMMA_ACCUMULATES] = run->case_idx % 3 != 0;
    draw_descriptors(run, DESC_SWIZZLE_128);
    add_operands(run, true);
}

// 8-bit operands have k contiguous always.
void prepare_wgmma_layout(struct run *run)
{
    uint32_t majors = run->case_idx / 4 % 4;
    run->literals[0] = (int32_t)(run->case_idx / 16);
    run->literals[2] = !is_8_bit(run->literals[0]) && majors & 1;
    run->literals[3] = !is_8_bit(run->literals[0]) && majors & 2;
    run->literals[4] = 64 * (int32_t)test_rng_range(&run->rng, 1, 4);
    run_params(run)->words[WGMMA_ACCUMULATES] = 1;
    draw_descriptors(run, run->case_idx % 4);
    add_operands(run, true);
}

// Two cases for each type, from the table's literal on.
void prepare_wgmma_rounding(struct run *run)
{
    run->literals[0] += (int32_t)(run->case_idx / 2);
    run->literals[4] = 256;
    run_params(run)->words[WGMMA_ACCUMULATES] = run->case_idx % 2;
    draw_descriptors(run, DESC_SWIZZLE_128);
    add_operands(run, false);
}

// ---- tcgen05.mma

static uint64_t tensor_descriptor(const struct operand_tile *t)
{
    uint32_t swizzle = t->width == 128  ? TCGEN05_SWIZZLE_128
                       : t->width == 64 ? TCGEN05_SWIZZLE_64
                       : t->width == 32 ? TCGEN05_SWIZZLE_32
                                        : TCGEN05_NO_SWIZZLE;
    return tcgen05_matrix_descriptor(0, tile_leading(t), tile_stride(t), swizzle);
}

static void draw_tensor_operands(struct run *run, int type, uint32_t ctas, uint32_t in_tensor)
{
    struct probe_params *p = run_params(run);
    size_t image = WGMMA_A_BYTES + WGMMA_B_BYTES;
    size_t column = 128 * sizeof(uint32_t);
    size_t bytes = image + (256 + 32) * column; // of D and of A
    char *in = run_alloc(ctas * bytes);
    for (uint32_t cta = 0; cta < ctas; cta++) {
        char *own = in + cta * bytes;
        fill_elements(&run->rng, own, WGMMA_A_BYTES, type, false, true);
        fill_elements(&run->rng, own + WGMMA_A_BYTES, WGMMA_B_BYTES, type, true, true);
        fill_d(run, (uint32_t *)(void *)(own + image), (256 + 32) * 128, true);
        if (in_tensor) {
            fill_elements(&run->rng, own + image + 256 * column, 32 * column, type, false, true);
        }
    }
    size_t d_bytes = ctas * (size_t)128 * 256 * 4;
    p->in = run_input(run, "operands", in, ctas * bytes);
    p->out = run_output(run, "d", run_alloc(d_bytes), d_bytes, EMU_OUTPUT,
                        (struct comparison){SAME_BITS, EMU_F32, 0.0, 0.0});
}

// A case for each type, place of A, number of rows and swizzle; majors at random.
void prepare_tensor_mma(struct run *run)
{
    uint32_t *words = run_params(run)->words;
    uint32_t ctas = run->literals[0] ? 2 : 1;
    uint32_t c = run->case_idx;
    int type = (int)(c % TYPES);
    uint32_t in_tensor = c / TYPES % 2;
    uint32_t m = (c / TYPES / 2 % 2 ? 64 : 128) * ctas;
    uint32_t width = 16u << c / TYPES / 4 % 4;
    uint32_t major_a = !in_tensor && test_rng_chance(&run->rng, 50);
    uint32_t major_b = test_rng_chance(&run->rng, 50);
    uint32_t n = 64 * ctas * (uint32_t)test_rng_range(&run->rng, 1, ctas == 2 ? 2 : 4);
    uint32_t size = is_8_bit(type) ? 1 : 2;
    n = major_b ? n < 128 * ctas ? 128 * ctas : n : n;
    struct operand_tile a = {m / ctas, (uint32_t)k_of(type), size, width, major_a};
    struct operand_tile b = {n / ctas, (uint32_t)k_of(type), size, width, major_b};
    uint32_t type_a = type == TYPE_BF16 || type == TYPE_E5M2 || type == TYPE_E5M2_E4M3;
    uint32_t type_b = type == TYPE_BF16 || type == TYPE_E5M2 || type == TYPE_E4M3_E5M2;
    uint64_t da = tensor_descriptor(&a);
    uint64_t db = tensor_descriptor(&b);
    memcpy(words + WGMMA_A_LOW, &da, sizeof da);
    memcpy(words + WGMMA_B_LOW, &db, sizeof db);
    words[WGMMA_ACCUMULATES] = c % 5 != 0;
    words[TENSOR_FORM] = in_tensor + (is_8_bit(type) ? 2 : 0);
    words[TENSOR_INSTRUCTION] = tcgen05_instruction(type_a, type_b, m, n, major_a, major_b);
    draw_tensor_operands(run, type, ctas, in_tensor);
}
