// One wgmma: where its operands are, and D = A B + D. How shared memory is read, and the inner
// loop, are in matrix_operand.c.
#include "wgmma_tile.h"
#include "../src/device/ptx/wgmma.h"

struct operand_layout wgmma_layout(uint64_t descriptor)
{
    static const emu_swizzle modes[] = {EMU_SWIZZLE_NONE, EMU_SWIZZLE_128, EMU_SWIZZLE_64,
                                        EMU_SWIZZLE_32};
    return (struct operand_layout){
        (uint32_t)(descriptor & 0x3fff) << 4, (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
        (uint32_t)(descriptor >> 32 & 0x3fff) << 4, modes[descriptor >> 62]};
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
    emu_swizzle swizzle = wgmma_layout(descriptor).swizzle;
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

void wgmma_check_reads(struct cta *cta, const struct wgmma_operands *o, uint32_t quarter,
                       uint32_t agent, uint32_t epoch)
{
    if (!o->a_in_registers) {
        struct operand_layout a = wgmma_layout(o->desc_a);
        operand_check_reads(cta, &a, o->type_a, o->major_a, quarter * 16, 16,
                            (struct access){ACCESS_WGMMA_A, agent, epoch, true});
    }
    struct operand_layout b = wgmma_layout(o->desc_b);
    operand_check_reads(cta, &b, o->type_b, o->major_b, 0, (uint32_t)o->n,
                        (struct access){ACCESS_WGMMA_B, agent, epoch, true});
}

// ---- arithmetic

// Register r of thread t: row as bit 0 of r, the k half as bit 1; within, 4 bytes at column (t % 4)
// * 4 bytes.
static void load_a_fragments(const struct wgmma_operands *o, const uint32_t (*fragments)[4],
                             float (*a)[OPERAND_MAX_K])
{
    uint32_t per_register = 4 / operand_bytes(o->type_a);
    for (uint32_t t = 0; t < 128; t++) {
        for (uint32_t r = 0; r < 4; r++) {
            uint8_t piece[16] = {0};
            float values[16];
            memcpy(piece, &fragments[t][r], 4);
            operand_decode_piece(piece, o->type_a, values);
            for (uint32_t i = 0; i < per_register; i++) {
                uint32_t k = (r / 2 * 4 + t % 4) * per_register + i;
                a[t / 32 * 16 + t % 32 / 4 + r % 2 * 8][k] = values[i];
            }
        }
    }
}

void wgmma_multiply(const struct cta *cta, const struct wgmma_operands *o,
                    const uint32_t (*fragments)[4], float (*d)[256])
{
    static float a[64][OPERAND_MAX_K];
    static float b[OPERAND_MAX_K][256];
    if (o->a_in_registers) {
        load_a_fragments(o, fragments, a);
    } else {
        struct operand_layout layout = wgmma_layout(o->desc_a);
        operand_load(cta, &layout, o->type_a, o->major_a, 64, &a[0][0], OPERAND_MAX_K, 1);
    }
    struct operand_layout layout = wgmma_layout(o->desc_b);
    operand_load(cta, &layout, o->type_b, o->major_b, (uint32_t)o->n, &b[0][0], 1, 256);
    for (int row = 0; row < 64; row++) {
        if (!o->accumulate) {
            memset(d[row], 0, (size_t)o->n * sizeof(float));
        }
        operand_multiply_row(d[row], a[row], (const float(*)[256])b, (uint32_t)o->n,
                             32 / operand_bytes(o->type_b));
    }
}

// ---- the instructions

static void issue_ss(operand_type a, operand_type b, int n, float *d, uint64_t desc_a,
                     uint64_t desc_b, int accumulate, int major_a, int major_b)
{
    wgmma_issue(
        d, NULL,
        &(struct wgmma_operands){a, b, n, accumulate != 0, 0, major_a, major_b, desc_a, desc_b});
}

static void issue_rs(operand_type a, operand_type b, int n, float *d, const uint32_t *fragment,
                     uint64_t desc_b, int accumulate, int major_b)
{
    wgmma_issue(d, fragment,
                &(struct wgmma_operands){a, b, n, accumulate != 0, 1, 0, major_b, 0, desc_b});
}

void wgmma_ss_f16(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate, int major_a,
                  int major_b)
{
    issue_ss(OPERAND_F16, OPERAND_F16, n, d, desc_a, desc_b, accumulate, major_a, major_b);
}

void wgmma_rs_f16(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate, int major_b)
{
    issue_rs(OPERAND_F16, OPERAND_F16, n, d, a, desc_b, accumulate, major_b);
}

void wgmma_ss_bf16(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate, int major_a,
                   int major_b)
{
    issue_ss(OPERAND_BF16, OPERAND_BF16, n, d, desc_a, desc_b, accumulate, major_a, major_b);
}

void wgmma_rs_bf16(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate, int major_b)
{
    issue_rs(OPERAND_BF16, OPERAND_BF16, n, d, a, desc_b, accumulate, major_b);
}

void wgmma_ss_e4m3(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate)
{
    issue_ss(OPERAND_E4M3, OPERAND_E4M3, n, d, desc_a, desc_b, accumulate, 0, 0);
}

void wgmma_rs_e4m3(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate)
{
    issue_rs(OPERAND_E4M3, OPERAND_E4M3, n, d, a, desc_b, accumulate, 0);
}

void wgmma_ss_e4m3_e5m2(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate)
{
    issue_ss(OPERAND_E4M3, OPERAND_E5M2, n, d, desc_a, desc_b, accumulate, 0, 0);
}

void wgmma_rs_e4m3_e5m2(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate)
{
    issue_rs(OPERAND_E4M3, OPERAND_E5M2, n, d, a, desc_b, accumulate, 0);
}

void wgmma_ss_e5m2_e4m3(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate)
{
    issue_ss(OPERAND_E5M2, OPERAND_E4M3, n, d, desc_a, desc_b, accumulate, 0, 0);
}

void wgmma_rs_e5m2_e4m3(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate)
{
    issue_rs(OPERAND_E5M2, OPERAND_E4M3, n, d, a, desc_b, accumulate, 0);
}

void wgmma_ss_e5m2(int n, float *d, uint64_t desc_a, uint64_t desc_b, int accumulate)
{
    issue_ss(OPERAND_E5M2, OPERAND_E5M2, n, d, desc_a, desc_b, accumulate, 0, 0);
}

void wgmma_rs_e5m2(int n, float *d, const uint32_t *a, uint64_t desc_b, int accumulate)
{
    issue_rs(OPERAND_E5M2, OPERAND_E5M2, n, d, a, desc_b, accumulate, 0);
}
