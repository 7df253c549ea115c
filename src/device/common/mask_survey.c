// The survey of a mask tensor and of block lists, run before a forward kernel: which tiles of
// BLOCK_M rows and BLOCK_N keys hide everything, so that nobody loads or multiplies them, and which
// show everything, so that nobody looks at the mask's elements there.
//
// A map of a broadcast mask is broadcast too: the mask of all heads is read once. Reading is all
// that it costs, and a tile that both hides and shows is given up as soon as that is known.
//
// The main kernel starts while this one ends, and waits for it before it reads the map.
// It also sets the main kernel's counter of tiles to 0, which would be a launch more.
//
//   who         a CTA for each 32 key blocks of a query tile, which are a pair of words of the map.
//               With a mask tensor: a warp for each tile in turn. Lists alone: one warp
//   shared      a word for each of the 32 tiles
//   prologue    ATTN_CFG_KERNEL, _BLOCK_M, _BLOCK_N   name and tile
//               ATTN_CFG_BOOL_MASK, _BLOCK_LISTS      what there is
//
// Lists may hold anything: their order does not matter, and an entry that is repeated or out of
// range changes nothing.
#include "../../shared/gpu_survey_params.h"
#include "../ptx/barrier.h"
#include "../ptx/pdl.h"
#include "../ptx/warp.h"
#include "kernel.h"
#include "tile_map.h"

#ifndef ATTN_CFG_BOOL_MASK
#define ATTN_CFG_BOOL_MASK 0
#endif
#ifndef ATTN_CFG_BLOCK_LISTS
#define ATTN_CFG_BLOCK_LISTS 0
#endif

enum {
    BLOCK_M = ATTN_CFG_BLOCK_M,
    BLOCK_N = ATTN_CFG_BLOCK_N,
    SURVEY_THREADS = ATTN_CFG_BOOL_MASK ? ATTN_SURVEY_MASK_THREADS : 32,
    CHUNK = 16,    // mask elements of a wide load
    IN_FLIGHT = 4, // loads of a lane at the same time
    // What is known of a tile.
    TILE_HIDES = 1,
    TILE_SHOWS = 2
};

// What a CTA looks at: blocks first .. first + 31 of query tile m.
struct survey_place {
    int64_t b;
    int64_t h;
    int32_t m;
    int32_t first;
};

DEVICE struct survey_place survey_place_of(const attn_gpu_survey_params_t *p, int64_t item)
{
    struct survey_place place;
    int64_t tile = item / p->row_words;
    int64_t bh = tile / p->m_tiles;
    place.first = (int32_t)(item - tile * p->row_words) * ATTN_SURVEY_BLOCKS;
    place.m = (int32_t)(tile - bh * p->m_tiles);
    place.b = bh / p->heads;
    place.h = bh - place.b * p->heads;
    return place;
}

// -------------------------------------------------------------------------------------------------
// Block lists

// A bit for each of the 32 blocks that is listed; the same in all lanes.
DEVICE uint32_t listed_blocks(const attn_gpu_block_lists_t *lists, const struct survey_place *place)
{
    int64_t list =
        place->b * lists->stride_b + place->h * lists->stride_h + place->m / lists->block_m;
    int64_t count = (int32_t)ld_global_u32(lists->count + list);
    count = count < lists->per_row ? count : lists->per_row;
    uint32_t bits = 0;
    NO_UNROLL
    for (int64_t i = thread_idx() % 32; i < count; i += 32) {
        uint32_t entry = ld_global_u32(lists->index + list * lists->per_row + i);
        if (entry < (uint32_t)lists->key_blocks) {
            int32_t begin = (int32_t)entry * lists->block_n - place->first;
            bits |= bits_below(begin + lists->block_n) & ~bits_below(begin);
        }
    }
    UNROLL
    for (uint32_t distance = 16; distance > 0; distance /= 2) {
        bits |= shuffle_xor_u32(bits, distance);
    }
    return bits;
}

// -------------------------------------------------------------------------------------------------
// Mask tensor

// A tile of the mask: its first element, and the rows and keys that are there.
struct mask_tile {
    const unsigned char *data;
    int64_t stride_q;
    int64_t stride_k;
    int32_t rows;
    int32_t keys;
};

DEVICE struct mask_tile mask_tile_of(const attn_gpu_survey_params_t *p,
                                     const struct survey_place *place, int32_t block)
{
    int64_t row = (int64_t)place->m * BLOCK_M;
    int64_t key = (int64_t)block * BLOCK_N;
    struct mask_tile tile;
    tile.data = (const unsigned char *)p->mask.data + place->b * p->mask.stride_b +
                place->h * p->mask.stride_h + row * p->mask.stride_q + key * p->mask.stride_k;
    tile.stride_q = p->mask.stride_q;
    tile.stride_k = p->mask.stride_k;
    tile.rows = p->rows - place->m * BLOCK_M;
    tile.keys = p->s_kv - block * BLOCK_N;
    tile.rows = tile.rows < BLOCK_M ? tile.rows : BLOCK_M;
    tile.keys = tile.keys < BLOCK_N ? tile.keys : BLOCK_N;
    return tile;
}

DEVICE uint32_t word_has_zero_byte(uint32_t x)
{
    return (x - 0x01010101u) & ~x & 0x80808080u;
}

// 16 elements, or none where the tile has none.
DEVICE uint32_t survey_chunk(const struct mask_tile *tile, int32_t number)
{
    enum { ROW_CHUNKS = BLOCK_N / CHUNK };
    int32_t row = number / ROW_CHUNKS;
    int32_t column = number % ROW_CHUNKS * CHUNK;
    uint32_t known = 0;
    if (row < tile->rows && column < tile->keys) {
        uint32_t x[4];
        ld_global_v4_u32(x, tile->data + row * tile->stride_q + column);
        known = (x[0] | x[1] | x[2] | x[3] ? TILE_SHOWS : 0) |
                (word_has_zero_byte(x[0]) | word_has_zero_byte(x[1]) | word_has_zero_byte(x[2]) |
                         word_has_zero_byte(x[3])
                     ? TILE_HIDES
                     : 0);
    }
    return known;
}

DEVICE uint32_t survey_element(const struct mask_tile *tile, int32_t number)
{
    int32_t row = number / BLOCK_N;
    int32_t column = number % BLOCK_N;
    uint32_t known = 0;
    if (row < tile->rows && column < tile->keys) {
        known = ld_global_u8(tile->data + row * tile->stride_q + column * tile->stride_k)
                    ? TILE_SHOWS
                    : TILE_HIDES;
    }
    return known;
}

// Of a tile by a warp, the same in all lanes; not more than is needed to know that it does both.
DEVICE uint32_t survey_tile(struct mask_tile *tile, int is_aligned)
{
    int is_wide = is_aligned && tile->keys % CHUNK == 0;
    int32_t count = is_wide ? BLOCK_M * BLOCK_N / CHUNK : BLOCK_M * BLOCK_N;
    uint32_t known = 0;
    NO_UNROLL
    for (int32_t first = (int32_t)(thread_idx() % 32);
         first < count && known != (TILE_HIDES | TILE_SHOWS); first += 32 * IN_FLIGHT) {
        // Not worked out before the loop: many offsets would be many registers.
        tile->stride_q = (int64_t)kept_u64((uint64_t)tile->stride_q);
        tile->stride_k = (int64_t)kept_u64((uint64_t)tile->stride_k);
        UNROLL
        for (int32_t i = 0; i < IN_FLIGHT; i++) {
            known |=
                is_wide ? survey_chunk(tile, first + 32 * i) : survey_element(tile, first + 32 * i);
        }
        known = (vote_any(known & TILE_HIDES) ? TILE_HIDES : 0) |
                (vote_any(known & TILE_SHOWS) ? TILE_SHOWS : 0);
    }
    return known;
}

// The 32 tiles by all warps of the CTA; of blocks that are not listed, or not there, nothing is
// known.
DEVICE void survey_tiles(const attn_gpu_survey_params_t *p, const struct survey_place *place,
                         uint32_t listed, uint32_t smem)
{
    NO_UNROLL
    for (uint32_t i = thread_idx() / 32; i < ATTN_SURVEY_BLOCKS; i += SURVEY_THREADS / 32) {
        struct mask_tile tile = mask_tile_of(p, place, place->first + (int32_t)i);
        uint32_t known = 0;
        if (listed >> i & 1 && tile.keys > 0) {
            known = survey_tile(&tile, p->mask_is_wide);
        }
        if (thread_idx() % 32 == 0) {
            st_shared_u32(smem + 4 * i, known);
        }
    }
}

// -------------------------------------------------------------------------------------------------

KERNEL_CTAS(SURVEY_THREADS, 2)
ATTN_CFG_KERNEL(const GRID_CONSTANT attn_gpu_survey_params_t p)
{
    uint32_t smem = dynamic_smem();
    uint32_t lane = thread_idx() % 32;
    int64_t count = (int64_t)p.batch * p.heads * p.m_tiles * p.row_words;
    griddep_launch_dependents();
    if (p.counter && block_idx_x() == 0 && thread_idx() == 0) {
        st_global_u32(p.counter, 0);
    }
    NO_UNROLL
    for (int64_t item = block_idx_x(); item < count; item += grid_dim_x()) {
        struct survey_place place = survey_place_of(&p, item);
        uint32_t listed = ATTN_CFG_BLOCK_LISTS ? listed_blocks(&p.lists, &place) : 0xffffffffu;
        uint32_t known = listed >> lane & 1 ? TILE_SHOWS : 0;
        if (ATTN_CFG_BOOL_MASK) {
            survey_tiles(&p, &place, listed, smem);
            cta_sync();
            known = ld_shared_u32(smem + 4 * lane);
            cta_sync(); // before the next tiles are written over these
        }
        if (thread_idx() < 32) {
            uint32_t seen = vote_ballot(known & TILE_SHOWS);
            uint32_t full = vote_ballot(known == TILE_SHOWS);
            if (lane == 0) {
                uint32_t *words = p.map.words + place.b * p.map.stride_b +
                                  place.h * p.map.stride_h + place.m * p.map.stride_m +
                                  place.first / ATTN_SURVEY_BLOCKS * 2;
                st_global_u32(words, seen);
                st_global_u32(words + 1, full);
            }
        }
    }
}
