// Operands in shared memory: addresses through a descriptor's layout, numbers, and the inner loop.
//
// Pieces of 16 bytes are found exactly as the PTX ISA says in "Canonical Layouts"; a wrong
// descriptor gives wrong numbers here as it does on a GPU. Products are exact in fp32 and summed in
// fp32, in order of k; the hardware's order and internal width differ, so only a tolerance carries
// over.
#include "matrix_operand.h"

uint32_t operand_piece_address(const struct operand_layout *layout, bool mn_major, uint32_t x,
                               uint32_t y)
{
    static const uint32_t widths[] = {1, 2, 4, 8}; // pieces in a row of the swizzle
    uint32_t width = widths[layout->swizzle];
    uint32_t addr = layout->base + x % 8 * width * 16;
    if (layout->swizzle == EMU_SWIZZLE_NONE) {
        addr += x / 8 * (mn_major ? layout->leading : layout->stride) +
                y * (mn_major ? layout->stride : layout->leading);
    } else if (mn_major) {
        addr += x / 8 * layout->stride + y / width * layout->leading + y % width * 16;
    } else {
        addr += x / 8 * layout->stride + y * 16;
    }
    return swizzle_address(addr, layout->swizzle);
}

// Value i of 16 that lie without gaps, `width` bits each.
static uint8_t packed_value(const uint8_t *piece, uint32_t i, uint32_t width)
{
    uint32_t first = i * width;
    uint32_t word = piece[first / 8] | (uint32_t)piece[first / 8 + 1] << 8;
    return (uint8_t)(word >> first % 8 & ((1u << width) - 1));
}

static float decode_narrow(const uint8_t *piece, operand_type type, uint32_t i)
{
    switch (type) {
    case OPERAND_E4M3: return f32_from_e4m3(piece[i]);
    case OPERAND_E5M2: return f32_from_e5m2(piece[i]);
    case OPERAND_E2M3: return f32_from_e2m3(packed_value(piece, i, 6));
    case OPERAND_E3M2: return f32_from_e3m2(packed_value(piece, i, 6));
    default: return f32_from_e2m1(packed_value(piece, i, 4));
    }
}

uint32_t operand_decode_piece(const uint8_t *piece, operand_type type, float *values)
{
    if (operand_bytes(type) == 1) {
        for (uint32_t i = 0; i < 16; i++) {
            values[i] = decode_narrow(piece, type, i);
        }
        return 16;
    }
    for (uint32_t i = 0; i < 8; i++) {
        uint16_t bits;
        memcpy(&bits, piece + 2 * i, sizeof bits);
        values[i] = type == OPERAND_BF16 ? f32_from_bf16(bits) : f32_from_f16(bits);
    }
    return 8;
}

void operand_check_reads(struct cta *cta, const struct operand_layout *layout, operand_type type,
                         bool mn_major, uint32_t first, uint32_t count, struct access access)
{
    uint32_t per_piece = 16 / operand_bytes(type);
    uint32_t k = OPERAND_K_PIECES * per_piece;
    uint32_t x_begin = mn_major ? 0 : first;
    uint32_t x_end = mn_major ? k : first + count;
    uint32_t y_begin = mn_major ? first / per_piece : 0;
    uint32_t y_end = mn_major ? (first + count) / per_piece : OPERAND_K_PIECES;
    for (uint32_t x = x_begin; x < x_end; x++) {
        for (uint32_t y = y_begin; y < y_end; y++) {
            uint32_t addr = operand_piece_address(layout, mn_major, x, y);
            check_read(cta, cta->rank << SMEM_RANK_SHIFT | addr, CHUNK_BYTES, access);
        }
    }
}

void operand_load(const struct cta *cta, const struct operand_layout *layout, operand_type type,
                  bool mn_major, uint32_t rows, float *out, uint32_t out_row, uint32_t out_k)
{
    uint32_t per_piece = 16 / operand_bytes(type);
    uint32_t x_end = mn_major ? OPERAND_K_PIECES * per_piece : rows;
    uint32_t y_end = mn_major ? rows / per_piece : OPERAND_K_PIECES;
    uint32_t out_x = mn_major ? out_k : out_row;
    uint32_t out_y = mn_major ? out_row : out_k;
    for (uint32_t x = 0; x < x_end; x++) {
        for (uint32_t y = 0; y < y_end; y++) {
            float values[16];
            operand_decode_piece(cta->smem + operand_piece_address(layout, mn_major, x, y), type,
                                 values);
            for (uint32_t i = 0; i < per_piece; i++) {
                out[x * out_x + (y * per_piece + i) * out_y] = values[i];
            }
        }
    }
}

// Four steps of k at once keep d in registers four times as long.
void operand_multiply_row(float *restrict d, const float *restrict a,
                          const float (*restrict b)[256], uint32_t n, uint32_t k_count)
{
    for (uint32_t k = 0; k < k_count; k += 4) {
        const float *restrict b0 = b[k];
        const float *restrict b1 = b[k + 1];
        const float *restrict b2 = b[k + 2];
        const float *restrict b3 = b[k + 3];
        for (uint32_t column = 0; column < n; column++) {
            d[column] += a[k] * b0[column] + a[k + 1] * b1[column] + a[k + 2] * b2[column] +
                         a[k + 3] * b3[column];
        }
    }
}
