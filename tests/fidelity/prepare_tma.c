// Probes of TMA: tensors of random shape, boxes at random places, many of them over an edge.
#include "prepare.h"
#include "probe_table.h"
#include "probe_words.h"

enum { BOX_BYTES_MAX = 16 << 10 };

static int64_t draw(struct run *run, int64_t low, int64_t high)
{
    return test_rng_range(&run->rng, low, high);
}

// The row of the box: whole pieces of 16 bytes, with a swizzle its width.
static uint32_t draw_row_bytes(struct run *run, emu_swizzle swizzle)
{
    static const uint32_t bytes[] = {
        [EMU_SWIZZLE_32] = 32, [EMU_SWIZZLE_64] = 64, [EMU_SWIZZLE_128] = 128};
    return swizzle == EMU_SWIZZLE_NONE ? 16 * (uint32_t)draw(run, 1, 16) : bytes[swizzle];
}

// Gives the bytes of the box.
static uint32_t draw_box(struct run *run, struct emu_tensor *t)
{
    uint32_t size = (uint32_t)run_element_bytes(t->element);
    uint32_t bytes = draw_row_bytes(run, t->swizzle);
    t->box[0] = bytes / size;
    for (uint32_t i = 1; i < t->rank; i++) {
        int64_t most = BOX_BYTES_MAX / bytes;
        t->box[i] = (uint32_t)draw(run, 1, most < 20 ? most : 20);
        bytes *= t->box[i];
    }
    return bytes;
}

// Gives the bytes of the tensor, rows and planes with gaps behind them.
static size_t draw_tensor(struct run *run, struct emu_tensor *t)
{
    uint32_t size = (uint32_t)run_element_bytes(t->element);
    t->dims[0] = (uint64_t)draw(run, 1, 2 * t->box[0] + 8);
    uint64_t bytes = (t->dims[0] * size + 15) / 16 * 16;
    for (uint32_t i = 1; i < t->rank; i++) {
        t->strides_bytes[i - 1] = bytes + 16 * (uint64_t)draw(run, 0, 2);
        t->dims[i] = (uint64_t)draw(run, 1, t->rank > 3 ? 5 : 24);
        bytes = t->strides_bytes[i - 1] * t->dims[i];
    }
    return bytes;
}

// Along dimension 0 in steps of 16 bytes. Only a load may begin in front of the tensor.
static void draw_place(struct run *run, const struct emu_tensor *t, bool is_load, int32_t *at)
{
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t low = is_load ? -(int64_t)t->box[i] / 2 - 1 : 0;
        at[i] = (int32_t)draw(run, low, (int64_t)t->dims[i]);
    }
    at[0] -= at[0] % (16 / (int32_t)run_element_bytes(t->element));
}

// Bits where they only move, numbers where they are added.
static void *draw_elements(struct run *run, size_t bytes, emu_element element, bool adds)
{
    void *elements = run_alloc(bytes);
    if (adds && element == EMU_F32) {
        fill_words(&run->rng, elements, bytes / 4, FILL_NORMAL);
    } else if (adds && element != EMU_U32) {
        int type = element == EMU_F16 ? TYPE_F16 : TYPE_BF16;
        fill_elements(&run->rng, elements, bytes, type, false, false);
    } else {
        fill_words(&run->rng, elements, bytes / 4, FILL_BITS);
    }
    return elements;
}

static void prepare(struct run *run, emu_element element, bool adds)
{
    struct probe_params *p = run_params(run);
    struct emu_tensor t = {.element = element,
                           .rank = 2 + run->case_idx % 4,
                           .swizzle = (emu_swizzle)(run->case_idx / 4 % 4)};
    uint32_t box_bytes = draw_box(run, &t);
    size_t bytes = draw_tensor(run, &t);
    void *in = draw_elements(run, bytes, element, adds);
    void *stored = draw_elements(run, bytes, element, adds);
    p->words[TMA_RANK] = t.rank;
    p->words[TMA_BYTES] = box_bytes;
    p->words[TMA_ADDS] = adds;
    draw_place(run, &t, true, p->load_at);
    draw_place(run, &t, false, p->store_at);
    t.data = run_input(run, "tensor", in, bytes);
    run_map(run, &p->in_map, &t);
    const struct comparison bits = {SAME_BITS, element, 0.0, 0.0};
    t.data = run_output(run, "stored", stored, bytes, EMU_READ_WRITE, bits);
    run_map(run, &p->out_map, &t);
    p->out = run_output(run, "image", run_alloc(box_bytes), box_bytes, EMU_OUTPUT, bits);
}

void prepare_tma_store(struct run *run)
{
    static const emu_element elements[] = {EMU_U8, EMU_U16, EMU_F16, EMU_BF16, EMU_U32, EMU_F32};
    prepare(run, elements[run->case_idx / 16 % 6], false);
}

void prepare_tma_reduce(struct run *run)
{
    static const emu_element elements[] = {EMU_F16, EMU_BF16, EMU_U32, EMU_F32};
    prepare(run, elements[run->case_idx / 16 % 4], true);
}

void prepare_multicast(struct run *run)
{
    struct probe_params *p = run_params(run);
    struct emu_tensor t = {.element = EMU_U32,
                           .rank = 2 + run->case_idx % 4,
                           .dims = {16, 32, 2, 2, 2},
                           .strides_bytes = {64, 2048, 4096, 8192},
                           .box = {8, 4, 1, 1, 1}};
    const size_t bytes = 16384;
    uint32_t *in = run_alloc(bytes);
    const size_t out_bytes = MULTICAST_CTAS * 2 * MULTICAST_CTAS * 128;
    fill_words(&run->rng, in, bytes / 4, FILL_BITS);
    p->in = t.data = run_input(run, "tensor", in, bytes);
    run_map(run, &p->in_map, &t);
    p->words[TMA_RANK] = t.rank;
    p->words[TMA_BYTES] = 128;
    for (uint32_t cta = 0; cta < MULTICAST_CTAS; cta++) {
        p->words[TMA_MASKS] |= (uint32_t)draw(run, 1, 15) << (4 * cta);
    }
    p->out = run_output(run, "images", run_alloc(out_bytes), out_bytes, EMU_OUTPUT,
                        (struct comparison){SAME_BITS, EMU_U32, 0.0, 0.0});
}

void prepare_pair_load(struct run *run)
{
    struct probe_params *p = run_params(run);
    struct emu_tensor t = {.element = EMU_F32,
                           .rank = 2 + run->case_idx % 4,
                           .dims = {16, 32, 2, 2, 2},
                           .strides_bytes = {64, 2048, 4096, 8192},
                           .box = {16, 4, 2, 1, 1}};
    const size_t bytes = 16384;
    uint32_t *in = run_alloc(bytes);
    fill_words(&run->rng, in, bytes / 4, FILL_BITS);
    t.data = run_input(run, "tensor", in, bytes);
    run_map(run, &p->in_map, &t);
    draw_place(run, &t, true, p->load_at);
    p->words[TMA_RANK] = t.rank;
    p->words[TMA_BYTES] = t.rank == 2 ? 256 : 512;
    p->out = run_output(run, "images", run_alloc(2 * p->words[TMA_BYTES]), 2 * p->words[TMA_BYTES],
                        EMU_OUTPUT, (struct comparison){SAME_BITS, EMU_U32, 0.0, 0.0});
}
