// One wgmma: where its operands are, and D = A B + D.
//
// Operands are read in pieces of 16 bytes, through the descriptor, exactly as the PTX ISA says in
// "Register Fragments and Shared Memory Matrix Layouts"; a wrong descriptor gives wrong numbers
// here as it does on a GPU. Products are exact in fp32 and summed in fp32, in order of k; the
// hardware's order and internal width differ, so only a tolerance carries over.
#include "wgmma_tile.h"
#include "../src/device/ptx/wgmma.h"

enum { K_PIECES = 2, MAX_K = 32 }; // k is 32 bytes for every type

static emu_swizzle swizzle_of(uint64_t descriptor)
{
    static const emu_swizzle modes[] = {EMU_SWIZZLE_NONE, EMU_SWIZZLE_128, EMU_SWIZZLE_64,
                                        EMU_SWIZZLE_32};
    return modes[descriptor >> 62];
}

uint32_t wgmma_piece_address(uint64_t descriptor, bool mn_major, uint32_t x, uint32_t y)
{
    static const uint32_t widths[] = {1, 2, 4, 8}; // pieces in a row of the swizzle
    uint32_t base = (uint32_t)(descriptor & 0x3fff) << 4;
    uint32_t leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4;
    uint32_t stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    emu_swizzle swizzle = swizzle_of(descriptor);
    uint32_t width = widths[swizzle];
    uint32_t row = x % 8 * width * 16;
    uint32_t addr;
    if (swizzle == EMU_SWIZZLE_NONE) {
        addr =
            base + x / 8 * (mn_major ? leading : stride) + row + y * (mn_major ? stride : leading);
    } else if (mn_major) {
        addr = base + x / 8 * stride + row + y / width * leading + y % width * 16;
    } else {
        addr = base + x / 8 * stride + row + y * 16;
    }
    return swizzle_address(addr, swizzle);
}

bool wgmma_operands_equal(const struct wgmma_operands *a, const struct wgmma_operands *b)
{
    return a->type_a == b->type_a && a->type_b == b->type_b && a->n == b->n &&
           a->accumulate == b->accumulate && a->a_in_registers == b->a_in_registers &&
           a->major_a == b->major_a && a->major_b == b->major_b && a->desc_a == b->desc_a &&
           a->desc_b == b->desc_b;
}

// The swizzle pattern must begin where the descriptor's base offset (bits 49-51) says: at a
// multiple of 8 rows if 0.
static void check_descriptor(uint64_t descriptor, const char *name)
{
    static const uint32_t masks[] = {0, 1, 3, 7};
    emu_swizzle swizzle = swizzle_of(descriptor);
    uint32_t mask = masks[swizzle];
    if ((descriptor >> 3 & mask) != (descriptor >> 49 & mask)) {
        emu_fail(EMU_FAULT,
                 "wgmma descriptor of %s: the tile at 0x%x is not aligned to its swizzle pattern "
                 "of %u bytes",
                 name, (uint32_t)(descriptor & 0x3fff) << 4, 128 * (mask + 1));
    }
}

void wgmma_check_operands(const struct wgmma_operands *o)
{
    if (o->n < 8 || o->n > 256 || o->n % 8) {
        emu_fail(EMU_FAULT, "wgmma with n %d: a multiple of 8 from 8 to 256", o->n);
    }
    check_descriptor(o->desc_b, "B");
    if (!o->a_in_registers) {
        check_descriptor(o->desc_a, "A");
    }
}

static void check_operand(struct cta *cta, uint64_t descriptor, bool mn_major, uint32_t first,
                          uint32_t count, struct access access)
{
    uint32_t base = cta->rank << SMEM_RANK_SHIFT;
    if (mn_major) {
        for (uint32_t k = 0; k < 16; k++) {
            for (uint32_t piece = first / 8; piece < (first + count) / 8; piece++) {
                check_read(cta, base | wgmma_piece_address(descriptor, true, k, piece), CHUNK_BYTES,
                           access);
            }
        }
        return;
    }
    for (uint32_t row = first; row < first + count; row++) {
        for (uint32_t piece = 0; piece < K_PIECES; piece++) {
            check_read(cta, base | wgmma_piece_address(descriptor, false, row, piece), CHUNK_BYTES,
                       access);
        }
    }
}

void wgmma_check_reads(struct cta *cta, const struct wgmma_operands *o, uint32_t quarter,
                       uint32_t agent, uint32_t epoch)
{
    if (!o->a_in_registers) {
        check_operand(cta, o->desc_a, o->major_a, quarter * 16, 16,
                      (struct access){ACCESS_WGMMA_A, agent, epoch, true});
    }
    check_operand(cta, o->desc_b, o->major_b, 0, (uint32_t)o->n,
                  (struct access){ACCESS_WGMMA_B, agent, epoch, true});
}

// ---- arithmetic

// 16 bytes as numbers; gives how many.
static uint32_t decode_piece(const uint8_t *piece, wgmma_type type, float *values)
{
    if (type == WGMMA_E4M3 || type == WGMMA_E5M2) {
        for (uint32_t i = 0; i < 16; i++) {
            values[i] = type == WGMMA_E4M3 ? f32_from_e4m3(piece[i]) : f32_from_e5m2(piece[i]);
        }
        return 16;
    }
    for (uint32_t i = 0; i < 8; i++) {
        uint16_t bits;
        memcpy(&bits, piece + 2 * i, sizeof bits);
        values[i] = type == WGMMA_BF16 ? f32_from_bf16(bits) : f32_from_f16(bits);
    }
    return 8;
}

static const uint8_t *piece_at(const struct cta *cta, uint64_t descriptor, bool mn_major,
                               uint32_t x, uint32_t y)
{
    return cta->smem + wgmma_piece_address(descriptor, mn_major, x, y);
}

static void load_a(const struct cta *cta, const struct wgmma_operands *o, float (*a)[MAX_K])
{
    float values[16];
    if (o->major_a) {
        for (uint32_t k = 0; k < 16; k++) {
            for (uint32_t piece = 0; piece < 8; piece++) {
                decode_piece(piece_at(cta, o->desc_a, true, k, piece), o->type_a, values);
                for (uint32_t i = 0; i < 8; i++) {
                    a[8 * piece + i][k] = values[i];
                }
            }
        }
        return;
    }
    for (uint32_t row = 0; row < 64; row++) {
        uint32_t k = 0;
        for (uint32_t piece = 0; piece < K_PIECES; piece++) {
            k += decode_piece(piece_at(cta, o->desc_a, false, row, piece), o->type_a, &a[row][k]);
        }
    }
}

// Register r of thread t: row as bit 0 of r, the k half as bit 1; within, 4 bytes at column (t % 4)
// * 4 bytes.
static void load_a_fragments(const struct wgmma_operands *o, const uint32_t (*fragments)[4],
                             float (*a)[MAX_K])
{
    uint32_t per_register = o->type_a == WGMMA_E4M3 || o->type_a == WGMMA_E5M2 ? 4 : 2;
    for (uint32_t t = 0; t < 128; t++) {
        for (uint32_t r = 0; r < 4; r++) {
            uint8_t piece[16] = {0};
            float values[16];
            memcpy(piece, &fragments[t][r], 4);
            decode_piece(piece, o->type_a, values);
            for (uint32_t i = 0; i < per_register; i++) {
                uint32_t k = (r / 2 * 4 + t % 4) * per_register + i;
                a[t / 32 * 16 + t % 32 / 4 + r % 2 * 8][k] = values[i];
            }
        }
    }
}

static void load_b(const struct cta *cta, const struct wgmma_operands *o, float (*b)[256])
{
    float values[16];
    if (o->major_b) {
        for (uint32_t k = 0; k < 16; k++) {
            for (uint32_t piece = 0; piece < (uint32_t)o->n / 8; piece++) {
                decode_piece(piece_at(cta, o->desc_b, true, k, piece), o->type_b, &b[k][8 * piece]);
            }
        }
        return;
    }
    for (uint32_t column = 0; column < (uint32_t)o->n; column++) {
        uint32_t k = 0;
        for (uint32_t piece = 0; piece < K_PIECES; piece++) {
            uint32_t count =
                decode_piece(piece_at(cta, o->desc_b, false, column, piece), o->type_b, values);
            for (uint32_t i = 0; i < count; i++) {
                b[k++][column] = values[i];
            }
        }
    }
}

// Four steps of k at once keep d in registers four times as long.
static void multiply_row(float *restrict d, const float *restrict a, float (*restrict b)[256],
                         int n, int k_count)
{
    for (int k = 0; k < k_count; k += 4) {
        const float *restrict b0 = b[k];
        const float *restrict b1 = b[k + 1];
        const float *restrict b2 = b[k + 2];
        const float *restrict b3 = b[k + 3];
        for (int column = 0; column < n; column++) {
            d[column] += a[k] * b0[column] + a[k + 1] * b1[column] + a[k + 2] * b2[column] +
                         a[k + 3] * b3[column];
        }
    }
}

void wgmma_multiply(const struct cta *cta, const struct wgmma_operands *o,
                    const uint32_t (*fragments)[4], float (*d)[256])
{
    static float a[64][MAX_K];
    static float b[MAX_K][256];
    int k_count = o->type_b == WGMMA_E4M3 || o->type_b == WGMMA_E5M2 ? 32 : 16;
    if (o->a_in_registers) {
        load_a_fragments(o, fragments, a);
    } else {
        load_a(cta, o, a);
    }
    load_b(cta, o, b);
    for (int row = 0; row < 64; row++) {
        if (!o->accumulate) {
            memset(d[row], 0, (size_t)o->n * sizeof(float));
        }
        multiply_row(d[row], a[row], b, o->n, k_count);
    }
}

// ---- the instructions

static void issue_ss(wgmma_type a, wgmma_type b, int n, float *d, uint64_t desc_a, uint64_t desc_b,
                     int accumulate, int major_a, int major_b)
{
    wgmma_issue(
        d, NULL,
        &(struct wgmma_operands){a, b, n, accumulate != 0, 0, major_a, major_b, desc_a, desc_b});
}

static void issue_rs(wgmma_type a, wgmma_type b, int n, float *d, const uint32_t *fragment,
                     uint64_t desc_b, int accumulate, int major_b)
{
    wgmma_issue(d, fragment,
                &(struct wgmma_operands){a, b, n, accumulate != 0, 1, 0, major_b, 0, desc_b});
}

void wgmma_ss_f16(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate, int major_a,
                  int major_b)
{
    issue_ss(WGMMA_F16, WGMMA_F16, n, d, desc_a, desc_b, accumulate, major_a, major_b);
}

void wgmma_rs_f16(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate, int major_b)
{
    issue_rs(WGMMA_F16, WGMMA_F16, n, d, a, desc_b, accumulate, major_b);
}

void wgmma_ss_bf16(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate, int major_a,
                   int major_b)
{
    issue_ss(WGMMA_BF16, WGMMA_BF16, n, d, desc_a, desc_b, accumulate, major_a, major_b);
}

void wgmma_rs_bf16(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate, int major_b)
{
    issue_rs(WGMMA_BF16, WGMMA_BF16, n, d, a, desc_b, accumulate, major_b);
}

void wgmma_ss_e4m3(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate)
{
    issue_ss(WGMMA_E4M3, WGMMA_E4M3, n, d, desc_a, desc_b, accumulate, 0, 0);
}

void wgmma_rs_e4m3(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate)
{
    issue_rs(WGMMA_E4M3, WGMMA_E4M3, n, d, a, desc_b, accumulate, 0);
}

void wgmma_ss_e4m3_e5m2(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate)
{
    issue_ss(WGMMA_E4M3, WGMMA_E5M2, n, d, desc_a, desc_b, accumulate, 0, 0);
}

void wgmma_rs_e4m3_e5m2(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate)
{
    issue_rs(WGMMA_E4M3, WGMMA_E5M2, n, d, a, desc_b, accumulate, 0);
}

void wgmma_ss_e5m2_e4m3(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate)
{
    issue_ss(WGMMA_E5M2, WGMMA_E4M3, n, d, desc_a, desc_b, accumulate, 0, 0);
}

void wgmma_rs_e5m2_e4m3(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate)
{
    issue_rs(WGMMA_E5M2, WGMMA_E4M3, n, d, a, desc_b, accumulate, 0);
}

void wgmma_ss_e5m2(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate)
{
    issue_ss(WGMMA_E5M2, WGMMA_E5M2, n, d, desc_a, desc_b, accumulate, 0, 0);
}

void wgmma_rs_e5m2(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate)
{
    issue_rs(WGMMA_E5M2, WGMMA_E5M2, n, d, a, desc_b, accumulate, 0);
}
