// Block lists for the survey of masks on the emulator, and its launch. For a file that includes
// emu.h; the survey itself is another file's, or included first.
#ifndef EMU_SURVEY_FIXTURE_H
#define EMU_SURVEY_FIXTURE_H

#include "../../src/shared/gpu_survey_params.h"
#include "emu.h"
#include "random_input.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// Lists of every (b, h, query block), of room for per_row entries.
struct block_lists {
    int32_t *count;
    int32_t *index;
    int64_t lists;
    int32_t per_row;
    int32_t query_blocks;
    int32_t key_blocks;
};

// Lists as nobody checked them: in any order, with entries repeated and out of range, and counts
// beyond the room and below zero. About `percent` of the blocks are listed.
static struct block_lists make_lists(int64_t heads, int32_t query_blocks, int32_t key_blocks,
                                     uint32_t percent)
{
    static const int32_t wrong[] = {-1, INT32_MIN, INT32_MAX, 1 << 26};
    uint32_t state = 77;
    struct block_lists x = {.lists = heads * query_blocks,
                            .per_row = key_blocks + 4,
                            .query_blocks = query_blocks,
                            .key_blocks = key_blocks};
    x.count = malloc((size_t)x.lists * sizeof *x.count);
    x.index = malloc((size_t)(x.lists * x.per_row) * sizeof *x.index);
    for (int64_t list = 0; list < x.lists; list++) {
        int32_t *index = x.index + list * x.per_row;
        int32_t count = 0;
        for (int32_t block = key_blocks - 1; block >= 0; block--) {
            if (random_word(&state) >> 8 & 1 && count > 0) {
                index[count] = index[count / 2];
                count++;
            }
            if ((random_word(&state) >> 8) % 100 < percent && count < x.per_row) {
                index[count++] = block;
            }
            count = count < x.per_row ? count : x.per_row - 1;
        }
        uint32_t kind = (random_word(&state) >> 8) % 4;
        index[count++] = kind == 0 ? key_blocks : wrong[(random_word(&state) >> 8) % 4];
        for (int32_t i = count; i < x.per_row; i++) {
            index[i] = 0;
        }
        x.count[list] = kind == 1 ? INT32_MAX : kind == 2 && list % 3 == 0 ? -count : count;
    }
    return x;
}

static bool is_listed(const struct block_lists *x, int64_t head, int64_t query_block,
                      int64_t key_block)
{
    int64_t list = head * x->query_blocks + query_block;
    for (int32_t i = 0; i < x->per_row && i < x->count[list]; i++) {
        if (x->index[list * x->per_row + i] == key_block) {
            return true;
        }
    }
    return false;
}

static void free_lists(struct block_lists *x)
{
    free(x->count);
    free(x->index);
}

// Fills the map of the parameters; `words` is how many it has.
static inline emu_status launch_survey(const attn_gpu_survey_params_t *p,
                                       void (*entry)(const void *params), uint64_t mask_bytes,
                                       const struct block_lists *lists, uint64_t words,
                                       struct emu_result *result)
{
    const struct emu_buffer buffers[] = {
        {"mask", (void *)(uintptr_t)p->mask.data, mask_bytes, EMU_READ_ONLY},
        {"count", lists->count, (uint64_t)lists->lists * 4, EMU_READ_ONLY},
        {"index", lists->index, (uint64_t)(lists->lists * lists->per_row) * 4, EMU_READ_ONLY},
        {"map", p->map.words, words * 4, EMU_OUTPUT},
        {"counter", p->counter, 4, EMU_OUTPUT}};
    const struct emu_launch launch = {.name = "mask_survey",
                                      .entry = entry,
                                      .params = p,
                                      .grid = {3, 1, 1},
                                      .threads = p->mask.data ? ATTN_SURVEY_MASK_THREADS : 32,
                                      .smem_bytes = p->mask.data ? ATTN_SURVEY_BLOCKS * 4 : 0,
                                      .resident = 2,
                                      .buffers = buffers,
                                      .buffer_count = sizeof buffers / sizeof buffers[0],
                                      .async = EMU_RANDOM,
                                      .check = EMU_CHECK_STRICT,
                                      .seed = 3};
    return emu_launch(&launch, result);
}

#endif
