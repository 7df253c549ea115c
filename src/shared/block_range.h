// Which keys a row sees, and which tiles that makes empty, partial or full. Causal, windows, used
// lengths and left padding all come down to one half-open interval of keys per row; mask tensors,
// bias and block lists are on top of it. Pure functions for host and device.
#ifndef ATTN_SHARED_BLOCK_RANGE_H
#define ATTN_SHARED_BLOCK_RANGE_H

#include "shared_types.h"

// A position among keys or rows. GPU kernels count in 32 bits, which their plans make sure of
// (lengths and windows below 2^30): 64-bit arithmetic is several instructions there.
#ifdef __CUDACC__
typedef int32_t attn_position_t;
#else
typedef int64_t attn_position_t;
#endif

// One sequence as the mask sees it. Windows: < 0 is unbounded.
typedef struct attn_mask_shape {
    attn_position_t len_q;  // rows in use
    attn_position_t len_kv; // keys in use
    attn_position_t leftpad;
    attn_position_t offset; // row i is at key position i + offset
    attn_position_t window_left;
    attn_position_t window_right;
} attn_mask_shape_t;

// Half-open: begin >= end is empty.
typedef struct attn_range {
    attn_position_t begin;
    attn_position_t end;
} attn_range_t;

ATTN_SHARED attn_range_t attn_range_make(attn_position_t begin, attn_position_t end,
                                         attn_position_t low, attn_position_t high)
{
    attn_range_t range;
    range.begin = begin < low ? low : begin;
    range.end = end > high ? high : end;
    if (range.end < range.begin) {
        range.end = range.begin;
    }
    return range;
}

// Keys that row i sees.
ATTN_SHARED attn_range_t attn_row_kv_range(const attn_mask_shape_t *m, attn_position_t i)
{
    const attn_position_t position = i + m->offset;
    const attn_position_t begin = m->window_left < 0 ? 0 : position - m->window_left;
    const attn_position_t end = m->window_right < 0 ? m->len_kv : position + m->window_right + 1;
    return attn_range_make(begin, end, m->leftpad, m->len_kv);
}

// Keys that any of the rows [i_begin, i_end) sees: both ends of a row's range grow with i.
ATTN_SHARED attn_range_t attn_tile_kv_range(const attn_mask_shape_t *m, attn_position_t i_begin,
                                            attn_position_t i_end)
{
    const attn_position_t first = i_begin + m->offset;
    const attn_position_t last = i_end - 1 + m->offset;
    const attn_position_t begin = m->window_left < 0 ? 0 : first - m->window_left;
    const attn_position_t end = m->window_right < 0 ? m->len_kv : last + m->window_right + 1;
    return attn_range_make(begin, end, m->leftpad, m->len_kv);
}

// Keys that all of the rows [i_begin, i_end) see: tiles inside need no mask code.
ATTN_SHARED attn_range_t attn_tile_full_kv_range(const attn_mask_shape_t *m,
                                                 attn_position_t i_begin, attn_position_t i_end)
{
    const attn_position_t first = i_begin + m->offset;
    const attn_position_t last = i_end - 1 + m->offset;
    const attn_position_t begin = m->window_left < 0 ? 0 : last - m->window_left;
    const attn_position_t end = m->window_right < 0 ? m->len_kv : first + m->window_right + 1;
    return attn_range_make(begin, end, m->leftpad, m->len_kv);
}

// Rows that see any of the keys [j_begin, j_end).
ATTN_SHARED attn_range_t attn_tile_q_range(const attn_mask_shape_t *m, attn_position_t j_begin,
                                           attn_position_t j_end)
{
    const attn_position_t begin = m->window_right < 0 ? 0 : j_begin - m->window_right - m->offset;
    const attn_position_t end = m->window_left < 0 ? m->len_q : j_end + m->window_left - m->offset;
    return attn_range_make(begin, end, 0, m->len_q);
}

// Rows that see all of the keys [j_begin, j_end).
ATTN_SHARED attn_range_t attn_tile_full_q_range(const attn_mask_shape_t *m, attn_position_t j_begin,
                                                attn_position_t j_end)
{
    const int hides = j_begin < m->leftpad || j_end > m->len_kv;
    const attn_position_t begin = m->window_right < 0 ? 0 : j_end - 1 - m->window_right - m->offset;
    const attn_position_t end =
        m->window_left < 0 ? m->len_q : j_begin + 1 + m->window_left - m->offset;
    return attn_range_make(begin, hides ? begin : end, 0, m->len_q);
}

#endif
