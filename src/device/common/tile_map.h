// Reading a tile map (src/shared/gpu_forward_params.h): which key blocks of a query tile some row
// may see, and which of them all rows see whole.
#ifndef ATTN_DEVICE_TILE_MAP_H
#define ATTN_DEVICE_TILE_MAP_H

#include "../../shared/gpu_forward_params.h"
#include "../ptx/math_ops.h"
#include "../ptx/memory_ops.h"

// The words of query tile m.
DEVICE const uint32_t *tile_map_words(const attn_gpu_tile_map_t *map, int64_t b, int64_t h,
                                      int64_t m)
{
    return map->words + b * map->stride_b + h * map->stride_h + m * map->stride_m;
}

// Bits 0 .. n - 1.
DEVICE uint32_t bits_below(int32_t n)
{
    return n <= 0 ? 0 : n >= 32 ? 0xffffffffu : (1u << n) - 1;
}

// Block `block`'s word of those with blocks that some row may see.
DEVICE uint32_t seen_word(const uint32_t *words, int32_t block)
{
    return ld_global_u32(words + block / 32 * 2);
}

DEVICE uint32_t full_word(const uint32_t *words, int32_t block)
{
    return ld_global_u32(words + block / 32 * 2 + 1);
}

// The highest block of a word's bits, one of which is set. `block` is any of the word's.
DEVICE int32_t highest_block(uint32_t bits, int32_t block)
{
    return (block | 31) - (int32_t)leading_zeros_u32(bits);
}

// Narrows the range of blocks begin .. end - 1 until some row may see the first and the last one;
// gives 0 if there is no such block.
DEVICE int tile_map_trim(const uint32_t *words, int32_t *begin, int32_t *end)
{
    int32_t last = *end - 1;
    uint32_t bits = 0;
    NO_UNROLL
    for (; last >= *begin; last = (last & ~31) - 1) {
        bits = seen_word(words, last) & bits_below(last % 32 + 1);
        if (bits) {
            break;
        }
    }
    if (last < *begin || highest_block(bits, last) < *begin) {
        return 0;
    }
    *end = highest_block(bits, last) + 1;
    int32_t first = *begin;
    NO_UNROLL
    for (;; first = (first | 31) + 1) {
        bits = seen_word(words, first) & ~bits_below(first % 32);
        if (bits) {
            break;
        }
    }
    *begin = highest_block(bits & (0u - bits), first);
    return 1;
}

#endif
