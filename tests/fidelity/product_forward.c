// The library's Hopper forward kernel as a probe, in the configuration that the build defines.
#include "../../src/device/sm90/sm90_forward.c"
#include "probe_table.h"
#include "probe_words.h"
#include <math.h>

static void forward_entry(const void *params)
{
    ATTN_CFG_KERNEL(*(const attn_gpu_forward_params_t *)params);
}

_Static_assert(sizeof(attn_gpu_forward_params_t) <= RUN_PARAMS_BYTES, "they fit into a run");

// b is 2, memory (b, s, h, d).
enum { BATCH = 2 };
struct shape {
    int32_t heads_q;
    int32_t heads_kv;
    int32_t s_q;
    int32_t s_kv;
    int32_t window_left; // -1: unbounded
    int32_t window_right;
    bool has_sink;
};

enum { TYPE_OPERAND = ATTN_CFG_BF16 ? TYPE_BF16 : TYPE_F16 };
static const emu_element ELEMENT = ATTN_CFG_BF16 ? EMU_BF16 : EMU_F16;

static size_t operand_bytes(int32_t s, int32_t h, int32_t d)
{
    return (size_t)BATCH * (size_t)s * (size_t)h * (size_t)d * 2;
}

static attn_gpu_operand_t add_operand(struct run *run, tensor_map *map, void *at, int32_t s,
                                      int32_t h, int32_t d, uint32_t box_rows)
{
    uint64_t row_bytes = (uint64_t)h * (uint64_t)d * 2;
    struct emu_tensor tensor = {
        .data = at,
        .element = ELEMENT,
        .rank = 4,
        .dims = {(uint64_t)d, (uint64_t)s, (uint64_t)h, BATCH},
        .strides_bytes = {row_bytes, (uint64_t)d * 2, (uint64_t)s * row_bytes},
        .box = {64, box_rows, 1, 1},
        .swizzle = EMU_SWIZZLE_128};
    run_map(run, map, &tensor);
    return (attn_gpu_operand_t){at, (int64_t)s * h * d, (int64_t)h * d, d};
}

static attn_gpu_operand_t add_input(struct run *run, const char *name, tensor_map *map, int32_t s,
                                    int32_t h, int32_t d, uint32_t box_rows)
{
    size_t bytes = operand_bytes(s, h, d);
    void *x = run_alloc(bytes);
    fill_elements(&run->rng, x, bytes, TYPE_OPERAND, false, false);
    return add_operand(run, map, run_input(run, name, x, bytes), s, h, d, box_rows);
}

// Values are below 1, so a result may round the other way by a last place; weights are rounded
// likewise.
static void add_results(struct run *run, attn_gpu_forward_params_t *p, const struct shape *shape)
{
    size_t rows = (size_t)BATCH * (size_t)shape->heads_q * (size_t)shape->s_q;
    size_t o_bytes = operand_bytes(shape->s_q, shape->heads_q, D_V);
    const struct comparison close = {WITHIN, ELEMENT, ATTN_CFG_BF16 ? 0x1p-7 : 0x1p-10, 0.0};
    void *o = run_output(run, "o", run_alloc(o_bytes), o_bytes, EMU_OUTPUT, close);
    p->o = add_operand(run, &p->o_map, o, shape->s_q, shape->heads_q, D_V, WARPGROUP_M);
    p->lse = run_output(run, "lse", run_alloc(rows * 4), rows * 4, EMU_OUTPUT,
                        (struct comparison){WITHIN, EMU_F32, 0x1p-16, 0.0});
}

static void prepare_forward(struct run *run)
{
    static const struct shape shapes[] = {{4, 2, 200, 333, -1, -1, true},
                                          {2, 1, 150, 270, -1, 0, false},
                                          {2, 2, 130, 400, 100, 0, true}};
    // A kernel without mask bits has the first case alone.
    const struct shape *shape = &shapes[ATTN_CFG_MASK ? run->case_idx : 0];
    attn_gpu_forward_params_t *p = (void *)run->params;
    *p = (attn_gpu_forward_params_t){
        .lse_stride_b = (int64_t)shape->heads_q * shape->s_q,
        .lse_stride_h = shape->s_q,
        .lse_stride_s = 1,
        .d_qk = D_QK,
        .d_v = D_V,
        .heads_q = shape->heads_q,
        .group = shape->heads_q / shape->heads_kv,
        .lengths = {.batch = BATCH, .s_q = shape->s_q, .s_kv = shape->s_kv},
        .scale = 3.0f / sqrtf(D_QK),
        .window_left = shape->window_left,
        .window_right = shape->window_right,
        .tiles = {.m_tiles = (shape->s_q + BLOCK_M - 1) / BLOCK_M,
                  .bh = BATCH * shape->heads_q,
                  .section_heads = 2}};
    p->lengths.total_q = BATCH * shape->s_q;
    p->lengths.total_kv = BATCH * shape->s_kv;
    p->tiles.count = (uint32_t)(p->tiles.m_tiles * p->tiles.bh);
    p->q = add_input(run, "q", &p->q_map, shape->s_q, shape->heads_q, D_QK, WARPGROUP_M);
    p->k = add_input(run, "k", &p->k_map, shape->s_kv, shape->heads_kv, D_QK, BLOCK_N);
    p->v = add_input(run, "v", &p->v_map, shape->s_kv, shape->heads_kv, D_V, BLOCK_N);
    if (shape->has_sink) {
        uint32_t *sink = run_alloc(64);
        fill_words(&run->rng, sink, 16, FILL_NORMAL);
        p->sink = run_input(run, "sink", sink, 64);
    }
    add_results(run, p, shape);
    run->grid[0] = 3;
    run->resident = 3;
    run->smem_bytes = FORWARD_SMEM_BYTES;
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define DEFINED(name) "#define " #name " " TEXT(name) "\n"
static const struct probe_kernel kernel = {
    .path = "src/device/sm90/sm90_forward.c",
    .symbol = TEXT(ATTN_CFG_KERNEL),
    .section = "a whole kernel",
    .gpus = HOPPER,
    .threads = FORWARD_THREADS,
    .entry = forward_entry,
    .prologue = DEFINED(ATTN_CFG_KERNEL) DEFINED(ATTN_CFG_BF16) DEFINED(ATTN_CFG_D_QK)
        DEFINED(ATTN_CFG_D_V) DEFINED(ATTN_CFG_BLOCK_N) DEFINED(ATTN_CFG_WARPGROUPS)
            DEFINED(ATTN_CFG_STAGES) DEFINED(ATTN_CFG_MASK) DEFINED(ATTN_CFG_PING_PONG)
                DEFINED(ATTN_CFG_SEPARATE_O) DEFINED(ATTN_CFG_CTAS) DEFINED(ATTN_CFG_GATHER)
                    DEFINED(ATTN_CFG_LOAD_REGISTERS) DEFINED(ATTN_CFG_COMPUTE_REGISTERS)};
static const struct probe probe = {"product." TEXT(ATTN_CFG_KERNEL), &kernel,
                                   .cases = ATTN_CFG_MASK ? 3 : 1, .prepare = prepare_forward};
const struct probe_list PRODUCT_LIST = {&probe, 1};
