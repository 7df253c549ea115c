// One tcgen05.mma: what its descriptors may say, what it touches, and D = A B + D.
//
// Layouts are those of the PTX ISA, "Data path layout organization" (letters A, B, D and F there)
// and "Canonical Layouts"; a wrong but legal descriptor gives wrong numbers here as it does on a
// GPU. Sums are fp32, also where D is fp16 and rounded at the end of each instruction. What of the
// descriptor the emulator does not model is refused by name.
#include "tcgen05_mma.h"

enum { A_COLUMNS = 8 }; // of tensor memory: k values of 32 bytes together

// PTX ISA, "Instruction descriptor": types of A and B by kind. Where there is none, e4m3 stands for
// it until check_types has refused it.
static operand_type type_of(mma_kind kind, uint32_t code)
{
    static const operand_type wide[] = {OPERAND_F16, OPERAND_BF16};
    static const operand_type narrow[] = {OPERAND_E4M3, OPERAND_E5M2, OPERAND_E4M3, OPERAND_E2M3,
                                          OPERAND_E3M2, OPERAND_E2M1, OPERAND_E4M3, OPERAND_E4M3};
    return kind == MMA_F16 ? wide[code % 2] : narrow[code];
}

struct mma_shape mma_shape_of(const struct mma_operation *o)
{
    return (struct mma_shape){type_of(o->kind, bits(o->idesc, 7, 3)),
                              type_of(o->kind, bits(o->idesc, 10, 3)),
                              16 * bits(o->idesc, 24, 5),
                              8 * bits(o->idesc, 17, 6),
                              bits(o->idesc, 15, 1),
                              bits(o->idesc, 16, 1),
                              bits(o->idesc, 4, 2) == 0};
}

struct operand_layout tcgen05_layout(uint64_t descriptor)
{
    static const emu_swizzle modes[] = {EMU_SWIZZLE_NONE, EMU_SWIZZLE_128, EMU_SWIZZLE_64,
                                        EMU_SWIZZLE_32};
    return (struct operand_layout){bits(descriptor, 0, 14) << 4, bits(descriptor, 16, 14) << 4,
                                   bits(descriptor, 32, 14) << 4, modes[bits(descriptor, 62, 2)]};
}

struct tensor_place mma_d_place(uint32_t group, uint32_t m, uint32_t n, uint32_t row,
                                uint32_t column)
{
    uint32_t rows = m / group;
    uint32_t r = row % rows;
    if (group == 1) {
        return (struct tensor_place){0, m == 64 ? r / 16 * 32 + r % 16 : r, column};
    }
    if (m == 256) {
        return (struct tensor_place){row / rows, r, column};
    }
    return (struct tensor_place){row / rows, r + (column < n / 2 ? 0 : 64), column % (n / 2)};
}

// ---- rules

void tcgen05_check_descriptor(uint64_t descriptor, const char *name)
{
    static const uint32_t masks[] = {0, 7, 3, 1};
    uint32_t swizzle = bits(descriptor, 61, 3);
    if (bits(descriptor, 46, 3) != 1) {
        emu_fail(EMU_FAULT, "tcgen05 descriptor of %s: bits 46-48 must be 0b001", name);
    }
    if (bits(descriptor, 14, 2) || bits(descriptor, 30, 2) || bits(descriptor, 53, 8)) {
        emu_fail(EMU_FAULT, "tcgen05 descriptor of %s: reserved bits are set (0x%llx)", name,
                 (unsigned long long)descriptor);
    }
    if (swizzle == 1 || bits(descriptor, 52, 1)) {
        emu_fail(EMU_FAULT,
                 "tcgen05 descriptor of %s: the emulator models neither 32-byte atoms nor absolute "
                 "leading offsets",
                 name);
    }
    if (swizzle % 2) {
        emu_fail(EMU_FAULT, "tcgen05 descriptor of %s: swizzle %u is none of 0, 1, 2, 4, 6", name,
                 swizzle);
    }
    uint32_t mask = masks[swizzle / 2];
    if ((bits(descriptor, 3, 3) & mask) != (bits(descriptor, 49, 3) & mask)) {
        emu_fail(EMU_FAULT,
                 "tcgen05 descriptor of %s: the tile at 0x%x is not aligned to its swizzle pattern "
                 "of %u bytes",
                 name, bits(descriptor, 0, 14) << 4, 128 * (mask + 1));
    }
}

static bool is_type(mma_kind kind, uint32_t code)
{
    return kind == MMA_F16 ? code < 2 : code < 6 && code != 2;
}

static void check_types(const struct mma_operation *o)
{
    uint32_t type_a = bits(o->idesc, 7, 3);
    uint32_t type_b = bits(o->idesc, 10, 3);
    if (bits(o->idesc, 6, 1) || bits(o->idesc, 23, 1) || bits(o->idesc, 29, 3) ||
        bits(o->idesc, 3, 1) || bits(o->idesc, 4, 2) > 1) {
        emu_fail(EMU_FAULT, "tcgen05.mma: bits of the instruction descriptor 0x%08x are reserved",
                 o->idesc);
    }
    if (!is_type(o->kind, type_a) || !is_type(o->kind, type_b)) {
        emu_fail(EMU_FAULT, "tcgen05.mma: no types %u and %u of A and B for this kind", type_a,
                 type_b);
    }
    if (bits(o->idesc, 4, 2) == 0 && o->kind == MMA_F16 && (type_a || type_b)) {
        emu_fail(EMU_FAULT, "tcgen05.mma: D in fp16 of kind f16 needs A and B in fp16, not bf16");
    }
    if (bits(o->idesc, 0, 3)) {
        emu_fail(EMU_FAULT,
                 "tcgen05.mma: the emulator models no sparsity (instruction descriptor 0x%08x)",
                 o->idesc);
    }
    if (o->a_in_tensor && o->kind == MMA_F8F6F4 && type_a > 1) {
        emu_fail(EMU_FAULT, "tcgen05.mma: the emulator models A of 6 or 4 bits in shared memory "
                            "only, not in tensor memory");
    }
}

static void check_size(const struct mma_operation *o, const struct mma_shape *s)
{
    uint32_t step = o->group == 1 && s->m == 64 ? 8 : 16;
    bool m_is_legal = o->group == 1 ? s->m == 64 || s->m == 128 : s->m == 128 || s->m == 256;
    if (!m_is_legal || s->n < step || s->n > 256 || s->n % step) {
        emu_fail(EMU_FAULT,
                 "tcgen05.mma with cta_group::%u, m %u, n %u: m %s; n a multiple of %u up to 256",
                 o->group, s->m, s->n, o->group == 1 ? "64 or 128" : "128 or 256", step);
    }
    if (s->n_major && operand_bytes(s->type_b) == 1 && s->n / o->group % 16) {
        emu_fail(EMU_FAULT, "tcgen05.mma with n %u: 16 values of n of 8 bits lie together", s->n);
    }
}

static void check_places(const struct mma_operation *o, const struct mma_shape *s)
{
    uint32_t lane = o->d >> 16;
    bool may_be_half = o->group == 1 && s->m == 64;
    if (lane != 0 && !(may_be_half && lane == 16)) {
        emu_fail(EMU_FAULT, "tcgen05.mma: D at lane %u; it begins at lane 0%s", lane,
                 may_be_half ? " or 16" : "");
    }
    if (o->a_in_tensor && o->a >> 16 != lane) {
        emu_fail(EMU_FAULT, "tcgen05.mma: A at lane %u and D at lane %u must begin at the same",
                 o->a >> 16, lane);
    }
    if (o->a_in_tensor && s->m_major) {
        emu_fail(EMU_FAULT, "tcgen05.mma: A in tensor memory must have k contiguous");
    }
}

void mma_check(const struct mma_operation *o)
{
    check_types(o);
    struct mma_shape shape = mma_shape_of(o);
    check_size(o, &shape);
    check_places(o, &shape);
    tcgen05_check_descriptor(o->desc_b, "B");
    if (!o->a_in_tensor) {
        tcgen05_check_descriptor(o->desc_a, "A");
    }
}

// ---- accesses

static void check_a_in_tensor(const struct mma_operation *o, const struct mma_shape *s,
                              struct cta *cta, struct tensor_access access)
{
    uint32_t rows = s->m / o->group;
    for (uint32_t r = 0; r < rows; r++) {
        // A pair with 64 rows each works in halves of n: both halves of the lanes hold A.
        uint32_t last = o->group == 2 && s->m == 128 ? s->n - 1 : 0;
        for (uint32_t column = 0; column <= last; column += s->n / 2) {
            uint32_t lane = (o->a >> 16) + mma_d_place(o->group, s->m, s->n, r, column).lane;
            tensor_check_read(cta, lane, o->a & 0xffff, A_COLUMNS, access);
        }
    }
}

static void check_d(const struct mma_operation *o, const struct mma_shape *s, struct cta *cta,
                    struct tensor_access access)
{
    uint32_t rows = s->m / o->group;
    uint32_t run = o->group == 2 && s->m == 128 ? s->n / 2 : s->n; // columns side by side
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t column = 0; column < s->n; column += run) {
            struct tensor_place place = mma_d_place(o->group, s->m, s->n, r, column);
            uint32_t lane = (o->d >> 16) + place.lane;
            if (o->accumulate) {
                tensor_check_update(cta, lane, o->d & 0xffff, run, access);
            } else {
                tensor_check_write(cta, lane, o->d & 0xffff, run, access);
            }
        }
    }
}

void mma_check_accesses(const struct mma_operation *o, uint32_t slot, uint32_t epoch,
                        bool continues)
{
    uint32_t agent = agent_mma(o->cta, slot);
    uint32_t tensor = tensor_agent_mma(o->cta, slot);
    for (uint32_t g = 0; g < o->group; g++) {
        struct cta *cta = &o->cta->cluster->ctas[o->cta->rank + g];
        struct mma_shape s = mma_shape_of(o);
        if (o->a_in_tensor) {
            check_a_in_tensor(o, &s, cta,
                              (struct tensor_access){ACCESS_TENSOR_MMA_A, tensor, epoch});
        } else {
            struct operand_layout a = tcgen05_layout(o->desc_a);
            operand_check_reads(cta, &a, s.type_a, s.m_major, 0, s.m / o->group,
                                (struct access){ACCESS_TENSOR_MMA_A, agent, epoch, true});
        }
        struct operand_layout b = tcgen05_layout(o->desc_b);
        operand_check_reads(cta, &b, s.type_b, s.n_major, 0, s.n / o->group,
                            (struct access){ACCESS_TENSOR_MMA_B, agent, epoch, true});
        if (!continues) {
            check_d(o, &s, cta, (struct tensor_access){ACCESS_TENSOR_MMA_D, tensor, epoch});
        }
    }
}

// ---- arithmetic

static void load_a_row(const struct mma_operation *o, const struct mma_shape *s,
                       const struct tmem *tmem, uint32_t lane, float *a)
{
    uint8_t pieces[OPERAND_K_PIECES][CHUNK_BYTES];
    memcpy(pieces, &tmem->words[lane][o->a & 0xffff], sizeof pieces);
    uint32_t count = operand_decode_piece(pieces[0], s->type_a, a);
    operand_decode_piece(pieces[1], s->type_a, a + count);
}

static void load_d(float *d, const uint32_t *words, uint32_t columns, bool is_f16)
{
    for (uint32_t i = 0; is_f16 && i < columns; i++) {
        d[i] = f32_from_f16((uint16_t)words[i]);
    }
    if (!is_f16) {
        memcpy(d, words, columns * sizeof *d);
    }
}

static void store_d(uint32_t *words, const float *d, uint32_t columns, bool is_f16)
{
    for (uint32_t i = 0; is_f16 && i < columns; i++) {
        words[i] = f16_from_f32(d[i]);
    }
    if (!is_f16) {
        memcpy(words, d, columns * sizeof *d);
    }
}

// A run of columns of a row of D that lie side by side.
static void multiply_run(const struct mma_operation *o, const struct mma_shape *s,
                         struct tmem *tmem, struct tensor_place place, uint32_t columns,
                         const float *a, const float *b)
{
    float d[256] = {0};
    uint32_t *words = &tmem->words[(o->d >> 16) + place.lane][(o->d & 0xffff) + place.column];
    float from_tensor[OPERAND_MAX_K];
    if (o->a_in_tensor) {
        load_a_row(o, s, tmem, (o->a >> 16) + place.lane, from_tensor);
        a = from_tensor;
    }
    if (o->accumulate) {
        load_d(d, words, columns, s->d_is_f16);
    }
    operand_multiply_row(d, a, (const float(*)[256])b, columns, 32 / operand_bytes(s->type_b));
    store_d(words, d, columns, s->d_is_f16);
}

// Bits 13 and 14 of the instruction descriptor: A or B is negated; so is D if one is.
static void negate_b(const struct mma_operation *o, float (*b)[256], uint32_t n)
{
    if (bits(o->idesc, 13, 1) == bits(o->idesc, 14, 1)) {
        return;
    }
    for (uint32_t k = 0; k < OPERAND_MAX_K; k++) {
        for (uint32_t column = 0; column < n; column++) {
            b[k][column] = -b[k][column];
        }
    }
}

void mma_run(const struct mma_operation *o)
{
    static float a[TMEM_LANES][OPERAND_MAX_K];
    static float b[OPERAND_MAX_K][256];
    struct mma_shape s = mma_shape_of(o);
    struct operand_layout layout_a = tcgen05_layout(o->desc_a);
    struct operand_layout layout_b = tcgen05_layout(o->desc_b);
    uint32_t rows = s.m / o->group;
    uint32_t run = o->group == 2 && s.m == 128 ? s.n / 2 : s.n;
    const struct cta *ctas = o->cta;
    for (uint32_t g = 0; g < o->group; g++) {
        operand_load(&ctas[g], &layout_b, s.type_b, s.n_major, s.n / o->group,
                     &b[0][g * s.n / o->group], 1, 256);
    }
    negate_b(o, b, s.n);
    for (uint32_t g = 0; g < o->group; g++) {
        if (!o->a_in_tensor) {
            operand_load(&ctas[g], &layout_a, s.type_a, s.m_major, rows, &a[0][0], OPERAND_MAX_K,
                         1);
        }
        for (uint32_t r = 0; r < rows; r++) {
            for (uint32_t column = 0; column < s.n; column += run) {
                multiply_run(o, &s, ctas[g].tmem, mma_d_place(o->group, s.m, s.n, r, column), run,
                             a[r], &b[0][column]);
            }
        }
    }
}
