// Matrix descriptors: how wgmma finds a tile in shared memory (PTX ISA, wgmma's
// "Matrix Descriptor Format" and "Canonical Layouts").
//
// In the three swizzled layouts the contiguous side of the tile is cut into panels of 32, 64 or 128
// bytes; a panel's rows follow each other, and the 16-byte chunks of a row are permuted: bits 4..
// of the address are XORed with bits 7.. (1, 2 or 3 of them). TMA writes tiles in just this way.
//
//   k contiguous:       stride = bytes between groups of 8 rows (8 x panel width); leading is not
//                       used
//   m or n contiguous:  stride = bytes between groups of 8 values of k; leading = bytes between
//                       panels
//   no swizzle:         8 x 16 byte pieces, each 128 contiguous bytes; whichever side is
//                       contiguous, leading between pieces along k, stride along m or n
#ifndef ATTN_DEVICE_DESCRIPTOR_H
#define ATTN_DEVICE_DESCRIPTOR_H

#include "kernel.h"

enum { DESC_NO_SWIZZLE = 0, DESC_SWIZZLE_128 = 1, DESC_SWIZZLE_64 = 2, DESC_SWIZZLE_32 = 3 };

// The Hopper format: address, leading and stride in units of 16 bytes in bits 0, 16, 32; the
// swizzle in bits 62-63.
DEVICE uint64_t matrix_descriptor(uint32_t addr, uint32_t leading_bytes, uint32_t stride_bytes,
                                  uint32_t swizzle)
{
    return (uint64_t)((addr & 0x3ffff) >> 4) | (uint64_t)(leading_bytes >> 4) << 16 |
           (uint64_t)(stride_bytes >> 4) << 32 | (uint64_t)swizzle << 62;
}

#endif
