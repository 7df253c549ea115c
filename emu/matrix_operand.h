// Operands of the matrix instructions in shared memory, and the product of a row: what wgmma and
// tcgen05 have in common.
#ifndef EMU_MATRIX_OPERAND_H
#define EMU_MATRIX_OPERAND_H

#include "state.h"

typedef enum operand_type {
    OPERAND_F16,
    OPERAND_BF16,
    OPERAND_E4M3,
    OPERAND_E5M2,
    OPERAND_E2M3, // 16 in 12 bytes and 4 of padding
    OPERAND_E3M2,
    OPERAND_E2M1 // 16 in 8 bytes and 8 of padding
} operand_type;

enum { OPERAND_K_PIECES = 2, OPERAND_MAX_K = 32 }; // k is 32 bytes for every type

// What a matrix descriptor says, whatever its format.
struct operand_layout {
    uint32_t base;
    uint32_t leading;
    uint32_t stride;
    emu_swizzle swizzle;
};

// Shared address of a 16-byte piece. k contiguous: row x (of m or n), piece y along k. m or n
// contiguous: row x (of k), piece y along m or n.
uint32_t operand_piece_address(const struct operand_layout *layout, bool mn_major, uint32_t x,
                               uint32_t y);

// With padding: 16 bytes hold 8 or 16 values.
static inline uint32_t operand_bytes(operand_type type)
{
    return type == OPERAND_F16 || type == OPERAND_BF16 ? 2 : 1;
}

// 16 bytes as numbers; gives how many.
uint32_t operand_decode_piece(const uint8_t *piece, operand_type type, float *values);

// Checks the reads of rows first .. first + count - 1 of an operand, all its k.
void operand_check_reads(struct cta *cta, const struct operand_layout *layout, operand_type type,
                         bool mn_major, uint32_t first, uint32_t count, struct access access);

// rows x k numbers to out[row * out_row + k * out_k].
void operand_load(const struct cta *cta, const struct operand_layout *layout, operand_type type,
                  bool mn_major, uint32_t rows, float *out, uint32_t out_row, uint32_t out_k);

// d[n] += a[k] b[k][n].
void operand_multiply_row(float *restrict d, const float *restrict a,
                          const float (*restrict b)[256], uint32_t n, uint32_t k_count);

#endif
