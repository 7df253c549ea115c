// Names, prologues and the choice among families, without a GPU.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "core/desc.h"
#include "cuda/kernel_family.h"

static void test_arch(void **state)
{
    (void)state;
    static const struct {
        int32_t compute;
        const char *name;
    } known[] = {{75, "sm_75"},    {80, "sm_80"},    {89, "sm_89"},   {90, "sm_90a"},
                 {100, "sm_100a"}, {103, "sm_103a"}, {120, "sm_120a"}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char name[ATTN_ARCH_BYTES];
        attn_arch_name(known[i].compute, name);
        assert_string_equal(name, known[i].name);
        assert_int_equal(attn_arch_compute(name, strlen(name)), known[i].compute);
    }
    const char *const wrong[] = {
        "",       "sm_",        "sm_90",  "sm_90b", "sm_70", "90", "sm_9999999999999",
        "sm_080", "compute_90", "sm_90a "};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(attn_arch_compute(wrong[i], strlen(wrong[i])), 0);
    }
    // The length decides, not a final 0.
    assert_int_equal(attn_arch_compute("sm_90a,sm_100a", 6), 90);
}

static void test_name(void **state)
{
    (void)state;
    attn_kernel_config_t config = {.kind = ATTN_KERNEL_FORWARD,
                                   .arch = 90,
                                   .bf16 = 1,
                                   .d_qk = 128,
                                   .d_v = 64,
                                   .tile_m = 192,
                                   .tile_n = 80,
                                   .stages = 2,
                                   .warpgroups = 3,
                                   .mask = 3,
                                   .softcap = 1};
    char name[ATTN_KERNEL_NAME_BYTES];
    attn_kernel_config_name(&config, name);
    assert_string_equal(name, "sm90_fwd_bf16_d128x64m192n80s2w3_mask3_cap");
    char prologue[ATTN_KERNEL_PROLOGUE_BYTES];
    attn_kernel_config_prologue(&config, prologue);
    assert_non_null(strstr(prologue, "#define ATTN_CFG_KERNEL sm90_fwd_bf16_d128x64m192n80s2w3_"
                                     "mask3_cap\n"));
    assert_non_null(strstr(prologue, "#define ATTN_CFG_BLOCK_N 80\n"));
    assert_non_null(strstr(prologue, "#define ATTN_CFG_PAGED 0\n"));
    assert_int_equal(prologue[strlen(prologue) - 1], '\n');
    // The longest that there can be still fits.
    int32_t *const fields = &config.arch;
    for (size_t i = 0; i < (sizeof(config) - sizeof(config.kind)) / sizeof(int32_t); i++) {
        fields[i] = INT32_MAX;
    }
    attn_kernel_config_prologue(&config, prologue);
    assert_non_null(strstr(prologue, "DETERMINISTIC 2147483647\n"));
}

static attn_desc_t problem(int64_t s_kv)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_BF16);
    attn_desc_set_shape(&desc, 2, 3, s_kv, 4, 2, 64);
    desc.backend = ATTN_BACKEND_CUDA;
    attn_desc_t full;
    assert_int_equal(attn_desc_check(&desc, ATTN_FORWARD, &full), ATTN_OK);
    return full;
}

static const char *refusal(const attn_desc_t *desc, attn_op_t op)
{
    attn_gpu_t gpu;
    attn_gpu_of_arch(90, &gpu);
    attn_kernel_choice_t choice;
    assert_int_equal(attn_kernel_choose(desc, op, &gpu, &choice), ATTN_UNSUPPORTED);
    return attn_last_error();
}

static void test_legal(void **state)
{
    (void)state;
    attn_desc_t desc = problem(5);
    desc.num_splits = 2;
    const char *text = refusal(&desc, ATTN_FORWARD);
    assert_non_null(strstr(text, "backend: cuda, no kernel for it on any GPU of sm_90 (sm_90): "
                                 "sm90_forward: num_splits: 2, it cuts no keys; "
                                 "sm90_backward: it is for the backward pass; fill: s_kv: 5"));
    desc = problem(0);
    assert_non_null(strstr(refusal(&desc, ATTN_BACKWARD), "it is for the forward pass"));
    desc = problem(5);
    desc.batch_invariant = 1;
    assert_non_null(strstr(refusal(&desc, ATTN_BACKWARD),
                           "sm90_backward: batch_invariant: set, this kernel has none"));
    desc = problem(5);
    desc.dk.dtype = ATTN_F32;
    assert_non_null(strstr(refusal(&desc, ATTN_BACKWARD), "dk.dtype"));
    desc = problem(0);
    desc.o.dtype = ATTN_F8_E4M3;
    assert_non_null(strstr(refusal(&desc, ATTN_FORWARD), "o.dtype: 1 bytes"));
    desc = problem(0);
    desc.has_sink = 1;
    desc.wants_lse = 1;
    desc.has_seqused_q = 1;
    assert_non_null(strstr(refusal(&desc, ATTN_FORWARD), "has_sink"));
}

static void test_choice(void **state)
{
    (void)state;
    static const int32_t computes[] = {80, 89, 90, 100, 103, 120};
    for (size_t i = 0; i < sizeof(computes) / sizeof(computes[0]); i++) {
        attn_gpu_t gpu;
        attn_gpu_of_arch(computes[i], &gpu);
        assert_true(gpu.shared_bytes >= 99 << 10);
        attn_desc_t desc = problem(0);
        desc.o.dtype = i % 2 ? ATTN_F32 : ATTN_F16;
        attn_kernel_choice_t choice;
        assert_int_equal(attn_kernel_choose(&desc, ATTN_FORWARD, &gpu, &choice), ATTN_OK);
        attn_kernel_text_t text;
        attn_kernel_text_fill(&text, &choice, 0);
        char want[64];
        (void)snprintf(want, sizeof(want), "sm%d_fill_o%d", (int)computes[i], i % 2 ? 4 : 2);
        assert_string_equal(text.request.name, want);
        assert_non_null(strstr(text.request.prologue, i % 2 ? "O_BYTES 4\n" : "O_BYTES 2\n"));
    }
}

// Names are symbols and cache entries: no two kernels may share the beginning of a cut one.
static void test_longest_name(void **state)
{
    (void)state;
    attn_kernel_config_t config = {.kind = ATTN_KERNEL_FORWARD};
#define FILL_AXIS(field, name, letter) config.field = 300;
    ATTN_KERNEL_AXES(FILL_AXIS)
#undef FILL_AXIS
    char name[ATTN_KERNEL_NAME_BYTES];
    attn_kernel_config_name(&config, name);
    assert_non_null(strstr(name, "_det300"));
}

// A row for one architecture, a dim, a mask or short queries is for no other; the first that fits
// is taken.
static void test_best(void **state)
{
    (void)state;
    static const attn_tuning_row_t rows[] = {
        {.arch = 100, .tile_n = 1},
        {.arch = 90, .d_max = 64, .s_max = 512, .tile_n = 5},
        {.arch = 90, .d_max = 64, .mask = 1, .tile_n = 2},
        {.arch = 90, .d_max = 64, .tile_n = 3},
        {.d_max = 128, .mask = 2, .tile_n = 4},
        {.arch = 90, .gather = 1, .tile_n = 6},
        {.arch = 80, .packed = 1, .tile_n = 7},
    };
    const attn_kernel_family_t family = {.rows = rows, .row_count = 7};
    static const struct {
        int32_t arch, d_qk, d_v, mask, s_q, want, want_invariant;
    } cases[] = {
        {90, 64, 64, 1, 513, 2, 3},  {90, 64, 64, 1, 512, 5, 3}, {90, 64, 64, 0, 600, 3, 3},
        {90, 64, 128, 0, 1, 4, 0},   {90, 128, 64, 0, 1, 4, 0},  {90, 128, 64, 2, 1, 0, 0},
        {100, 256, 256, 1, 1, 1, 1}, {80, 16, 16, 0, 1, 4, 0},   {80, 256, 16, 0, 1, 0, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        attn_kernel_config_t config = {.arch = cases[i].arch,
                                       .d_qk = cases[i].d_qk,
                                       .d_v = cases[i].d_v,
                                       .mask = cases[i].mask};
        attn_desc_t desc = {.s_q = cases[i].s_q};
        const attn_tuning_row_t *row = attn_kernel_best(&family, &desc, &config);
        assert_int_equal(row == NULL ? 0 : row->tile_n, cases[i].want);
        assert_int_equal(config.tile_n, cases[i].want);
        desc.batch_invariant = 1;
        row = attn_kernel_best(&family, &desc, &config);
        assert_int_equal(row == NULL ? 0 : row->tile_n, cases[i].want_invariant);
    }
}

// A batch-invariant plan takes one row whatever the lengths are, decoding and prefill alike.
static void test_invariant_rows(void **state)
{
    (void)state;
    attn_gpu_t gpu;
    attn_gpu_of_arch(90, &gpu);
    for (int64_t d = 8; d <= 256; d += 8) {
        const attn_tuning_row_t *rows[2];
        for (int decode = 0; decode < 2; decode++) {
            attn_desc_t desc;
            attn_desc_init(&desc, ATTN_BF16);
            attn_desc_set_shape(&desc, 1, decode ? 1 : 777, 777, 2, 1, d);
            desc.causal = 1;
            desc.batch_invariant = 1;
            attn_desc_t checked;
            assert_int_equal(attn_desc_check(&desc, ATTN_FORWARD, &checked), ATTN_OK);
            attn_kernel_choice_t choice;
            assert_int_equal(attn_kernel_choose(&checked, ATTN_FORWARD, &gpu, &choice), ATTN_OK);
            rows[decode] = choice.row;
        }
        assert_ptr_equal(rows[0], rows[1]);
    }
}

// What TMA cannot address is gathered, by a row of its own, and by no other.
static void test_gather(void **state)
{
    (void)state;
    enum { TMA, ODD_DIM, ODD_STRIDE, STEPS, BROADCAST, BACKWARDS, ENTRIES, PAGES, PROBLEMS };
    attn_gpu_t gpu;
    attn_gpu_of_arch(90, &gpu);
    for (int problem = TMA; problem < PROBLEMS; problem++) {
        attn_desc_t desc;
        attn_desc_t full;
        attn_kernel_choice_t choice;
        attn_desc_init(&desc, ATTN_BF16);
        attn_desc_set_shape(&desc, 2, 64, 64, 2, 2, problem == ODD_DIM ? 36 : 64);
        desc.backend = ATTN_BACKEND_CUDA;
        desc.k.stride_h = problem == ODD_STRIDE ? 65 : problem == BROADCAST ? 0 : desc.k.stride_h;
        desc.q.stride_d = problem == STEPS ? 2 : desc.q.stride_d;
        desc.v.stride_s = problem == BACKWARDS ? -128 : desc.v.stride_s;
        desc.has_kv_batch_idx = problem == ENTRIES;
        desc.kv_batch = 3;
        desc.paged_kv = problem == PAGES;
        desc.page_size = 16;
        desc.num_pages = 9;
        desc.pages_per_seq = 4;
        assert_int_equal(attn_desc_check(&desc, ATTN_FORWARD, &full), ATTN_OK);
        assert_int_equal(attn_kernel_choose(&full, ATTN_FORWARD, &gpu, &choice), ATTN_OK);
        assert_int_equal(choice.config.gather, problem != TMA);
        assert_int_equal(choice.row->gather, problem != TMA);
    }
}

// Tiles divide the blocks of lists, whatever else is asked for; blocks that none divides are
// refused, and only masks and lists need the survey.
static void test_block_lists(void **state)
{
    (void)state;
    static const int64_t dims[] = {64, 128, 192, 256};
    static const int64_t blocks[] = {64, 128, 192, 256, 96};
    attn_gpu_t gpu;
    attn_gpu_of_arch(90, &gpu);
    for (int i = 0; i < 4 * 5 * 5; i++) {
        const int64_t block_q = blocks[i / 5 % 5];
        const int64_t block_kv = blocks[i % 5];
        attn_desc_t desc;
        attn_desc_t full;
        attn_kernel_choice_t choice;
        attn_desc_init(&desc, ATTN_BF16);
        attn_desc_set_shape(&desc, 2, 1000, 1000, 2, 2, dims[i / 25]);
        desc.backend = ATTN_BACKEND_CUDA;
        desc.block_sparse = 1;
        desc.block_q = block_q;
        desc.block_kv = block_kv;
        desc.blocks_per_row = 3;
        assert_int_equal(attn_desc_check(&desc, ATTN_FORWARD, &full), ATTN_OK);
        const attn_status_t status = attn_kernel_choose(&full, ATTN_FORWARD, &gpu, &choice);
        if (block_q % 64 != 0 || block_kv % 64 != 0) {
            assert_int_equal(status, ATTN_UNSUPPORTED);
            assert_non_null(strstr(attn_last_error(), "expected multiples of 64"));
            continue;
        }
        assert_int_equal(status, ATTN_OK);
        assert_int_equal(block_q % choice.config.tile_m, 0);
        assert_int_equal(block_kv % choice.config.tile_n, 0);
        assert_true(attn_kernel_has_part(&choice, 1));
    }
    attn_desc_t desc;
    attn_desc_t full;
    attn_kernel_choice_t choice;
    attn_desc_init(&desc, ATTN_BF16);
    attn_desc_set_shape(&desc, 2, 1000, 1000, 2, 2, 64);
    assert_int_equal(attn_desc_check(&desc, ATTN_FORWARD, &full), ATTN_OK);
    assert_int_equal(attn_kernel_choose(&full, ATTN_FORWARD, &gpu, &choice), ATTN_OK);
    assert_false(attn_kernel_has_part(&choice, 1));
}

// Heads of a group share tiles where queries are short and nothing but the keys is by head.
static void test_packed_heads(void **state)
{
    (void)state;
    static const struct {
        int64_t s_q, heads_q, heads_kv;
        int alibi, invariant, want;
    } cases[] = {{1, 8, 1, 0, 0, 8},  {1, 12, 2, 0, 0, 8}, {1, 71, 1, 0, 0, 64},
                 {4, 4, 2, 0, 0, 2},  {63, 8, 1, 0, 0, 0}, {56, 8, 1, 0, 0, 8},
                 {64, 8, 1, 0, 0, 0}, {1, 8, 8, 0, 0, 0},  {63, 192, 1, 0, 0, 64},
                 {1, 8, 1, 1, 0, 0},  {1, 8, 1, 0, 1, 0}};
    attn_gpu_t gpu;
    attn_gpu_of_arch(90, &gpu);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        attn_desc_t desc;
        attn_desc_t full;
        attn_kernel_choice_t choice;
        attn_desc_init(&desc, ATTN_BF16);
        attn_desc_set_shape(&desc, 2, cases[i].s_q, 640, cases[i].heads_q, cases[i].heads_kv, 128);
        desc.backend = ATTN_BACKEND_CUDA;
        desc.has_alibi = cases[i].alibi;
        desc.batch_invariant = cases[i].invariant;
        assert_int_equal(attn_desc_check(&desc, ATTN_FORWARD, &full), ATTN_OK);
        assert_int_equal(attn_kernel_choose(&full, ATTN_FORWARD, &gpu, &choice), ATTN_OK);
        assert_int_equal(choice.config.pack_gqa, cases[i].want);
        assert_int_equal(choice.row->packed, cases[i].want != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arch),           cmocka_unit_test(test_longest_name),
        cmocka_unit_test(test_name),           cmocka_unit_test(test_legal),
        cmocka_unit_test(test_choice),         cmocka_unit_test(test_best),
        cmocka_unit_test(test_invariant_rows), cmocka_unit_test(test_gather),
        cmocka_unit_test(test_block_lists),    cmocka_unit_test(test_packed_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
