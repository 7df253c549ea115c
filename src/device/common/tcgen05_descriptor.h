// Descriptors of tcgen05: how the matrix instruction finds a tile in shared memory, and what it is
// to do with it (PTX ISA, tcgen05's "Shared memory descriptor", "Instruction descriptor" and
// "Canonical Layouts").
//
// The canonical layouts of shared memory are those of Hopper (descriptor.h); only the bits differ.
//
//   matrix descriptor        bits 0-13 address, 16-29 leading, 32-45 stride, in units of 16 bytes;
//                            46-48 the constant 1; 49-51 base offset; 61-63 swizzle
//   instruction descriptor   bits 4-5 type of D (1: fp32, 0: fp16), 7-9 type of A, 10-12 type of B,
//                            13 A is negated, 14 B is, 15 A is m contiguous, 16 B is n contiguous,
//                            17-22 n / 8, 24-28 m / 16
#ifndef ATTN_DEVICE_TCGEN05_DESCRIPTOR_H
#define ATTN_DEVICE_TCGEN05_DESCRIPTOR_H

#include "kernel.h"

enum {
    TCGEN05_NO_SWIZZLE = 0,
    TCGEN05_SWIZZLE_128 = 2,
    TCGEN05_SWIZZLE_64 = 4,
    TCGEN05_SWIZZLE_32 = 6
};

// Types of A and B, by the kind of the instruction. 16 values of 6 or 4 bits take 16 bytes of
// shared memory: 12 or 8, and padding.
enum {
    TCGEN05_F16 = 0, // f16
    TCGEN05_BF16 = 1,
    TCGEN05_E4M3 = 0, // f8f6f4
    TCGEN05_E5M2 = 1,
    TCGEN05_E2M3 = 3,
    TCGEN05_E3M2 = 4,
    TCGEN05_E2M1 = 5
};

// What may be set besides.
enum { TCGEN05_NEGATE_A = 1 << 13, TCGEN05_NEGATE_B = 1 << 14 };

DEVICE uint64_t tcgen05_matrix_descriptor(uint32_t addr, uint32_t leading_bytes,
                                          uint32_t stride_bytes, uint32_t swizzle)
{
    return (uint64_t)((addr & 0x3ffff) >> 4) | (uint64_t)(leading_bytes >> 4) << 16 |
           (uint64_t)(stride_bytes >> 4) << 32 | (uint64_t)1 << 46 | (uint64_t)swizzle << 61;
}

// D[m][n] in fp32. Majors: 0 = k is contiguous, 1 = m or n is. m counts the rows of both CTAs of a
// pair.
DEVICE uint32_t tcgen05_instruction(uint32_t type_a, uint32_t type_b, uint32_t m, uint32_t n,
                                    uint32_t major_a, uint32_t major_b)
{
    return 1u << 4 | type_a << 7 | type_b << 10 | major_a << 15 | major_b << 16 | (n / 8) << 17 |
           (m / 16) << 24;
}

// The same with D in fp16: one value in the lower half of each column.
DEVICE uint32_t tcgen05_instruction_f16(uint32_t type_a, uint32_t type_b, uint32_t m, uint32_t n,
                                        uint32_t major_a, uint32_t major_b)
{
    return tcgen05_instruction(type_a, type_b, m, n, major_a, major_b) & ~(1u << 4);
}

#endif
