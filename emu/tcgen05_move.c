// One tcgen05.cp or tcgen05.shift: which lanes it moves, its rules, what it touches, the move.
//
// cp copies rows of shared memory, found through a matrix descriptor, to lanes. shift moves the 32
// bytes of each lane from its address on down by one lane: the first lane keeps what it has, what
// the last one had is lost. A pair does either in both CTAs, in each by itself.
#include "tcgen05_mma.h"

enum { SHIFT_COLUMNS = 8, SHIFT_LANE_STEP = 32 };

uint32_t cp_rows(cp_shape shape)
{
    static const uint32_t rows[] = {128, 4, 128, 64, 64, 32};
    return rows[shape];
}

uint32_t cp_columns(cp_shape shape)
{
    return shape == CP_128X256B || shape == CP_4X256B ? 8 : 4;
}

uint32_t cp_lanes(cp_shape shape, uint32_t r, uint32_t *lanes_out)
{
    static const uint32_t counts[] = {1, 1, 1, 2, 2, 4};
    static const uint32_t distances[] = {0, 0, 0, 64, 32, 32};
    uint32_t first = shape == CP_4X256B          ? 32 * r
                     : shape == CP_64X128B_01_23 ? r / 32 * 64 + r % 32
                                                 : r;
    for (uint32_t i = 0; i < counts[shape]; i++) {
        lanes_out[i] = first + i * distances[shape];
    }
    return counts[shape];
}

// PTX ISA, tcgen05.cp and tcgen05.shift.
void move_check(const struct mma_operation *o)
{
    if (o->kind == MMA_SHIFT) {
        if ((o->d >> 16) % SHIFT_LANE_STEP) {
            emu_fail(EMU_FAULT, "tcgen05.shift at lane %u: a multiple of %d", o->d >> 16,
                     SHIFT_LANE_STEP);
        }
        return;
    }
    tcgen05_check_descriptor(o->desc_a, "the source");
    if (o->d >> 16 || o->d % 4) {
        emu_fail(EMU_FAULT, "tcgen05.cp to 0x%x: from lane 0 on, columns a multiple of 4", o->d);
    }
}

// ---- accesses

static void check_cp(const struct mma_operation *o, struct cta *cta, struct access read,
                     struct tensor_access write)
{
    struct operand_layout layout = tcgen05_layout(o->desc_a);
    uint32_t columns = cp_columns(o->shape);
    for (uint32_t r = 0; r < cp_rows(o->shape); r++) {
        for (uint32_t piece = 0; piece < columns / 4; piece++) {
            uint32_t addr = operand_piece_address(&layout, false, r, piece);
            check_read(cta, cta->rank << SMEM_RANK_SHIFT | addr, CHUNK_BYTES, read);
        }
        uint32_t lanes[4];
        uint32_t count = cp_lanes(o->shape, r, lanes);
        for (uint32_t i = 0; i < count; i++) {
            tensor_check_write(cta, lanes[i], o->d, columns, write);
        }
    }
}

static void check_shift(const struct mma_operation *o, struct cta *cta, struct tensor_access access)
{
    uint32_t column = o->d & 0xffff;
    tensor_check_read(cta, o->d >> 16, column, SHIFT_COLUMNS, access);
    for (uint32_t lane = (o->d >> 16) + 1; lane < TMEM_LANES - 1; lane++) {
        tensor_check_update(cta, lane, column, SHIFT_COLUMNS, access);
    }
    tensor_check_write(cta, TMEM_LANES - 1, column, SHIFT_COLUMNS, access);
}

void move_check_accesses(const struct mma_operation *o, uint32_t slot, uint32_t epoch)
{
    uint32_t agent = agent_mma(o->cta, slot);
    uint32_t tensor = tensor_agent_mma(o->cta, slot);
    for (uint32_t g = 0; g < o->group; g++) {
        struct cta *cta = &o->cta->cluster->ctas[o->cta->rank + g];
        if (o->kind == MMA_SHIFT) {
            check_shift(o, cta, (struct tensor_access){ACCESS_TENSOR_SHIFT, tensor, epoch});
        } else {
            check_cp(o, cta, (struct access){ACCESS_TENSOR_CP, agent, epoch, true},
                     (struct tensor_access){ACCESS_TENSOR_CP, tensor, epoch});
        }
    }
}

// ---- the move

static void run_cp(const struct mma_operation *o, const struct cta *cta)
{
    struct operand_layout layout = tcgen05_layout(o->desc_a);
    for (uint32_t r = 0; r < cp_rows(o->shape); r++) {
        uint32_t lanes[4];
        uint32_t count = cp_lanes(o->shape, r, lanes);
        for (uint32_t piece = 0; piece < cp_columns(o->shape) / 4; piece++) {
            const uint8_t *source = cta->smem + operand_piece_address(&layout, false, r, piece);
            for (uint32_t i = 0; i < count; i++) {
                memcpy(&cta->tmem->words[lanes[i]][o->d + 4 * piece], source, CHUNK_BYTES);
            }
        }
    }
}

static void run_shift(const struct mma_operation *o, struct tmem *tmem)
{
    uint32_t column = o->d & 0xffff;
    for (uint32_t lane = TMEM_LANES - 1; lane > o->d >> 16; lane--) {
        memcpy(&tmem->words[lane][column], &tmem->words[lane - 1][column],
               SHIFT_COLUMNS * sizeof tmem->words[0][0]);
    }
}

void move_run(const struct mma_operation *o)
{
    for (uint32_t g = 0; g < o->group; g++) {
        if (o->kind == MMA_SHIFT) {
            run_shift(o, o->cta[g].tmem);
        } else {
            run_cp(o, &o->cta[g]);
        }
    }
}
