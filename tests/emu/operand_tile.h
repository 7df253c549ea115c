// Where the elements of an operand lie in shared memory: the canonical layouts of the matrix
// instructions, written out once more for the tests of wgmma and tcgen05. A tile has the k of one
// instruction.
#ifndef EMU_OPERAND_TILE_H
#define EMU_OPERAND_TILE_H

#include <stdbool.h>
#include <stdint.h>

struct operand_tile {
    uint32_t rows;    // of m or n
    uint32_t k;       // values
    uint32_t size;    // bytes of a value
    uint32_t width;   // bytes of a row of the swizzle: 128, 64, 32; 16 without
    bool is_mn_major; // m or n is contiguous, not k
};

static inline uint32_t tile_outer(const struct operand_tile *t)
{
    return t->is_mn_major ? t->k : t->rows;
}

// Bytes between neighbouring pieces of 16 bytes (no swizzle) or panels along the contiguous side.
static inline uint32_t tile_panel_bytes(const struct operand_tile *t)
{
    return tile_outer(t) * t->width;
}

static inline uint32_t tile_bytes(const struct operand_tile *t)
{
    uint32_t inner = (t->is_mn_major ? t->rows : t->k) * t->size;
    return (inner + t->width - 1) / t->width * tile_panel_bytes(t);
}

static inline uint32_t tile_offset(const struct operand_tile *t, uint32_t row, uint32_t k)
{
    uint32_t inner = (t->is_mn_major ? row : k) * t->size;
    uint32_t outer = t->is_mn_major ? k : row;
    uint32_t offset = inner / t->width * tile_panel_bytes(t) + outer * t->width + inner % t->width;
    uint32_t bits = t->width / 16 - 1;
    return offset ^ ((offset >> 7 & bits) << 4);
}

// The two distances of the descriptor: without swizzle leading is along k and stride along m or n;
// with it leading is between panels, and stride between groups of 8.
static inline uint32_t tile_leading(const struct operand_tile *t)
{
    if (t->width == 16) {
        return t->is_mn_major ? 128 : tile_panel_bytes(t);
    }
    return t->is_mn_major ? tile_panel_bytes(t) : 0;
}

static inline uint32_t tile_stride(const struct operand_tile *t)
{
    if (t->width == 16) {
        return t->is_mn_major ? tile_panel_bytes(t) : 128;
    }
    return 8 * t->width;
}

#endif
