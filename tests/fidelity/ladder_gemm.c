// The ladder's matrix product of level LEVEL as a probe: all that it is made of, working together.
#include "../emu/ladder_kernel.h"
#include "probe_table.h"
#include "probe_words.h"

static void ladder_entry(const void *params)
{
    gemm_kernel(*(const struct gemm_params *)params);
}

static uint16_t *draw_matrix(struct run *run, int32_t rows, int32_t k)
{
    size_t bytes = (size_t)rows * (size_t)k * 2;
    uint16_t *x = run_alloc(bytes);
    fill_elements(&run->rng, x, bytes, TYPE_BF16, false, false);
    return x;
}

static void add_matrix(struct run *run, const char *name, tensor_map *map, int32_t rows, int32_t k)
{
    struct emu_tensor tensor = {.element = EMU_BF16,
                                .rank = 2,
                                .dims = {(uint64_t)k, (uint64_t)rows},
                                .strides_bytes = {(uint64_t)k * 2},
                                .box = {GEMM_K, GEMM_TILE},
                                .swizzle = EMU_SWIZZLE_128};
    tensor.data = run_input(run, name, draw_matrix(run, rows, k), (size_t)rows * (size_t)k * 2);
    run_map(run, map, &tensor);
}

static void prepare_ladder_gemm(struct run *run)
{
    static const int32_t shapes[][3] = {{128, 128, 64}, {100, 150, 72}, {129, 40, 512}};
    const int32_t *shape = shapes[run->case_idx];
    struct gemm_params *p = (void *)run->params;
    *p = (struct gemm_params){.m = shape[0], .n = shape[1], .k = shape[2]};
    add_matrix(run, "a", &p->a, p->m, p->k);
    add_matrix(run, "b", &p->b, p->n, p->k);
    size_t bytes = (size_t)p->m * (size_t)p->n * sizeof(float);
    // Numbers are below 1: what is dropped of a partial sum, which is mostly below 8.
    const struct comparison close = {WITHIN, EMU_F32, 8.0 * p->k * 0x1p-23, 0.0};
    p->c = run_output(run, "c", run_alloc(bytes), bytes, EMU_OUTPUT, close);
    run->grid[0] = (uint32_t)(p->n + GEMM_TILE - 1) / GEMM_TILE;
    run->grid[1] = (uint32_t)(p->m + GEMM_TILE - 1) / GEMM_TILE;
    run->smem_bytes = GEMM_SMEM_BYTES;
}

static const struct probe_kernel kernel = {.path = "examples/ladder/" LADDER_NAME ".c",
                                           .symbol = LADDER_NAME,
                                           .section = "a whole kernel",
                                           .gpus = LADDER_ARCH == 90 ? HOPPER : BLACKWELL,
                                           .threads = GEMM_THREADS,
                                           .entry = ladder_entry};
static const struct probe probe = {"ladder." LADDER_NAME, &kernel, .cases = 3,
                                   .prepare = prepare_ladder_gemm};
const struct probe_list LADDER_LIST = {&probe, 1};
