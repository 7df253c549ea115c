// The ladder's attention of level LEVEL as a probe: all that it is made of, working together.
#include "../emu/ladder_kernel.h"
#include "probe_table.h"
#include "probe_words.h"
#include <math.h>

static void ladder_entry(const void *params)
{
    attention_kernel(*(const struct attention_params *)params);
}

// b is 1, memory (s, h, d).
struct shape {
    int32_t heads;
    int32_t s_q;
    int32_t s_kv;
    int32_t causal;
};

static struct emu_tensor tensor_of(const struct shape *shape, int32_t s, uint32_t box_rows)
{
    uint64_t row_bytes = (uint64_t)shape->heads * HEAD_DIM * 2;
    return (struct emu_tensor){.element = EMU_BF16,
                               .rank = 4,
                               .dims = {HEAD_DIM, (uint64_t)s, (uint64_t)shape->heads, 1},
                               .strides_bytes = {row_bytes, HEAD_DIM * 2, (uint64_t)s * row_bytes},
                               .box = {64, box_rows, 1, 1},
                               .swizzle = EMU_SWIZZLE_128};
}

static void add_operand(struct run *run, const char *name, tensor_map *map,
                        const struct shape *shape, int32_t s, uint32_t box_rows)
{
    size_t bytes = (size_t)shape->heads * (size_t)s * HEAD_DIM * 2;
    struct emu_tensor tensor = tensor_of(shape, s, box_rows);
    void *x = run_alloc(bytes);
    fill_elements(&run->rng, x, bytes, TYPE_BF16, false, false);
    tensor.data = run_input(run, name, x, bytes);
    run_map(run, map, &tensor);
}

// Values are below 1, so a result may round the other way by 2^-8; weights are rounded likewise.
static void add_results(struct run *run, struct attention_params *p, const struct shape *shape)
{
    size_t rows = (size_t)shape->heads * (size_t)shape->s_q;
    struct emu_tensor tensor = tensor_of(shape, shape->s_q, BOX_ROWS_OUT);
    tensor.data = run_output(run, "out", run_alloc(rows * HEAD_DIM * 2), rows * HEAD_DIM * 2,
                             EMU_OUTPUT, (struct comparison){WITHIN, EMU_BF16, 0x1p-7, 0.0});
    run_map(run, &p->out, &tensor);
    p->lse = run_output(run, "lse", run_alloc(rows * 4), rows * 4, EMU_OUTPUT,
                        (struct comparison){WITHIN, EMU_F32, 0x1p-16, 0.0});
}

static void prepare_ladder_attention(struct run *run)
{
    static const struct shape shapes[] = {{2, 256, 256, 0}, {1, 200, 333, 1}, {1, 333, 200, 1}};
    const struct shape *shape = &shapes[run->case_idx];
    struct attention_params *p = (void *)run->params;
    *p = (struct attention_params){.s_q = shape->s_q,
                                   .s_kv = shape->s_kv,
                                   .heads = shape->heads,
                                   .causal = shape->causal,
                                   .scale_log2 = 4.0f * 1.44269504f / sqrtf(HEAD_DIM)};
    add_operand(run, "q", &p->q, shape, shape->s_q, 128);
    add_operand(run, "k", &p->k, shape, shape->s_kv, BOX_ROWS_K);
    add_operand(run, "v", &p->v, shape, shape->s_kv, 128);
    add_results(run, p, shape);
    uint32_t tiles = (uint32_t)(shape->s_q + 127) / 128;
    run->grid[0] = (tiles + ATTENTION_CLUSTER - 1) / ATTENTION_CLUSTER * ATTENTION_CLUSTER;
    run->grid[1] = (uint32_t)shape->heads;
    run->cluster = ATTENTION_CLUSTER;
    run->smem_bytes = ATTENTION_SMEM_BYTES;
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
static const struct probe_kernel kernel = {.path = "examples/ladder/" LADDER_NAME ".c",
                                           .symbol = LADDER_NAME,
                                           .section = "a whole kernel",
                                           .gpus = LADDER_ARCH == 90 ? HOPPER : BLACKWELL,
                                           .threads = ATTENTION_THREADS,
                                           .entry = ladder_entry,
                                           .prologue = "#define HEAD_DIM " TEXT(HEAD_DIM) "\n"};
static const struct probe probe = {"ladder." LADDER_NAME "." TEXT(HEAD_DIM), &kernel, .cases = 3,
                                   .prepare = prepare_ladder_attention};
const struct probe_list LADDER_LIST = {&probe, 1};
