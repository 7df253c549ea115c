// test_onnx_vectors.c: the library against ONNX's own recorded answers for its Attention operator
// (opsets 23 and 24). One cmocka test per vector, on every CPU instruction set of this machine and
// on the reference backend: Y within the tolerance below, present_key and present_value bit for
// bit. qk_matmul_output, where a vector has one, is read and left
// alone: the library never materialises scores. How a vector becomes a descriptor: onnx_problem.c.
//
// Usage: test_onnx_vectors DIR, the folder that holds onnx-attention/.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>

#include <cmocka.h>

#include "onnx_problem.h"

static const char *const VECTORS[] = {
    "23_boolmask_fullymasked_row_nan_robustness",
    "23_fullymasked_qk_matmul_output_mode3_zero",
    "24_qk_matmul_output_mode3_softmax_precision",
    "3d",
    "3d_causal",
    "3d_diff_heads_sizes",
    "3d_diff_heads_sizes_causal",
    "3d_diff_heads_sizes_scaled",
    "3d_diff_heads_with_past_and_present",
    "3d_gqa",
    "3d_gqa_causal",
    "3d_gqa_scaled",
    "3d_gqa_with_past_and_present",
    "3d_scaled",
    "3d_transpose_verification",
    "3d_with_past_and_present",
    "3d_with_past_and_present_qk_matmul_bias",
    "3d_with_past_and_present_qk_matmul_softcap",
    "4d",
    "4d_attn_mask",
    "4d_attn_mask_3d_causal",
    "4d_attn_mask_4d",
    "4d_attn_mask_bool",
    "4d_attn_mask_bool_4d",
    "4d_causal_nonpad_attn_mask_composition",
    "4d_causal_nonpad_batch_prefill",
    "4d_causal_nonpad_negative_offset_structural_empty",
    "4d_causal_with_past_and_present",
    "4d_diff_heads_sizes",
    "4d_diff_heads_sizes_attn_mask",
    "4d_diff_heads_sizes_scaled",
    "4d_diff_heads_sizes_softcap",
    "4d_diff_heads_with_past_and_present_mask3d",
    "4d_diff_heads_with_past_and_present_mask4d",
    "4d_gqa",
    "4d_gqa_attn_mask",
    "4d_gqa_causal_nonpad_decode",
    "4d_gqa_causal_nonpad_decode_fp16",
    "4d_gqa_softcap",
    "4d_gqa_with_past_and_present",
    "4d_scaled",
    "4d_softcap",
    "4d_softcap_neginf_mask_poison",
    "4d_with_past_and_present",
    "4d_with_past_and_present_qk_matmul_bias",
    "4d_with_past_and_present_qk_matmul_bias_3d_mask",
    "4d_with_past_and_present_qk_matmul_bias_4d_mask",
    "4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
    "4d_with_qk_matmul_bias",
    "4d_with_qk_matmul_softcap",
    "causal_boolmask_nan_robustness",
};
enum { VECTOR_COUNT = sizeof VECTORS / sizeof VECTORS[0] };

// The recorded Y is itself rounded: computed by numpy in the vector's own precision, softmax
// included. Values are in [0, 1). fp32: some ulp of 1. fp16: two ulp of 1, which is what numpy's
// fp16 matmul and softmax lose at these sizes.
static const double TOLERANCE_F32 = 2e-6;
static const double TOLERANCE_F16 = 2e-3;

static const char *g_vectors_dir;
static int g_vectors_present;

static double half_to_double(uint16_t bits)
{
    const int exponent = (bits >> 10) & 31;
    const double mantissa = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31) {
        return mantissa == 0 ? sign * (double)INFINITY : (double)NAN;
    }
    return sign * (exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024.0 + mantissa, exponent - 25));
}

static double element(const uint8_t *raw, int64_t i, attn_dtype_t dtype)
{
    float f;
    uint16_t h;
    if (dtype == ATTN_F16) {
        memcpy(&h, raw + 2 * i, sizeof h);
        return half_to_double(h);
    }
    memcpy(&f, raw + 4 * i, sizeof f);
    return (double)f;
}

static void compare_y(const onnx_tensor *y, const uint8_t *o, attn_dtype_t dtype, const char *who)
{
    const double tolerance = dtype == ATTN_F16 ? TOLERANCE_F16 : TOLERANCE_F32;
    for (int64_t i = 0; i < y->count; i++) {
        const double expected = element(y->raw, i, dtype);
        const double got = element(o, i, dtype);
        if (!(fabs(got - expected) <= tolerance) || (expected == 0.0 && got != 0.0)) {
            fail_msg("%s: Y[%lld] is %.9g, recorded %.9g, tolerance %g", who, (long long)i, got,
                     expected, tolerance);
        }
    }
}

static void run_and_compare(attn_context_t *context, const problem *p, const onnx_tensor *y,
                            const char *who)
{
    attn_plan_t *plan;
    attn_forward_args_t args = p->args;
    assert_int_equal((size_t)y->count * onnx_dtype_bytes(y->dtype), p->o_bytes);
    if (attn_plan_create(context, &p->desc, ATTN_FORWARD, &plan) != ATTN_OK) {
        fail_msg("%s: plan: %s", who, attn_last_error());
    }
    const size_t workspace_bytes = attn_plan_workspace_bytes(plan);
    void *workspace = nan_filled(workspace_bytes > 0 ? workspace_bytes : 1);
    args.o = nan_filled(p->o_bytes);
    if (attn_forward(plan, &args, workspace, workspace_bytes, NULL) != ATTN_OK) {
        fail_msg("%s: run: %s", who, attn_last_error());
    }
    compare_y(y, args.o, p->desc.o.dtype, who);
    free(args.o);
    free(workspace);
    attn_plan_destroy(plan);
}

static void run_everywhere(problem *p, const onnx_tensor *y)
{
    for (int isa = ATTN_ISA_SCALAR; isa < ATTN_ISA_COUNT; isa++) {
        if (attn_isa_available((attn_isa_t)isa)) {
            attn_context_config_t config;
            attn_context_t *context;
            attn_context_config_init(&config);
            config.isa = (attn_isa_t)isa;
            assert_int_equal(attn_context_create(&config, &context), ATTN_OK);
            p->desc.backend = ATTN_BACKEND_CPU;
            run_and_compare(context, p, y, attn_isa_name((attn_isa_t)isa));
            attn_context_destroy(context);
        }
    }
    p->desc.backend = ATTN_BACKEND_REFERENCE;
    run_and_compare(NULL, p, y, "reference");
}

static void compare_present(const onnx_tensor *present, const void *cache, size_t element_bytes)
{
    assert_non_null(cache);
    assert_memory_equal(cache, present->raw, (size_t)present->count * element_bytes);
}

static void vector_passes(void **state)
{
    if (!g_vectors_present) {
        skip();
    }
    vector vec;
    problem p;
    vector_load(&vec, g_vectors_dir, (const char *)*state);
    problem_build(&p, &vec);
    const size_t element_bytes = attn_dtype_bytes(p.desc.k.dtype);
    assert_int_equal(p.k_cache != NULL, vector_output(&vec, 1) != NULL);
    if (vector_output(&vec, 1) != NULL) {
        compare_present(vector_output(&vec, 1), p.k_cache, element_bytes);
        compare_present(vector_output(&vec, 2), p.v_cache, element_bytes);
    }
    run_everywhere(&p, vector_output(&vec, 0));
    problem_free(&p);
    vector_free(&vec);
}

// A vector that appears in the folder and not in the table would otherwise never run.
static void table_lists_every_vector(void **state)
{
    (void)state;
    if (!g_vectors_present) {
        skip();
    }
    char path[VECTOR_PATH_BYTES];
    int folders = 0;
    snprintf(path, sizeof path, "%s/onnx-attention", g_vectors_dir);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        folders += strncmp(entry->d_name, "test_attention_", 15) == 0;
    }
    closedir(dir);
    assert_int_equal(folders, VECTOR_COUNT);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[VECTOR_COUNT + 1] = {{0}};
    char path[VECTOR_PATH_BYTES];
    g_vectors_dir = argc > 1 ? argv[1] : "../shared/vectors";
    snprintf(path, sizeof path, "%s/onnx-attention", g_vectors_dir);
    DIR *dir = opendir(path);
    g_vectors_present = dir != NULL;
    if (dir != NULL) {
        closedir(dir);
    } else {
        printf("test_onnx_vectors: no recorded vectors in %s, so none is checked; "
               "configure with -DATTN_VECTORS_DIR=DIR\n",
               path);
    }
    for (int i = 0; i < VECTOR_COUNT; i++) {
        tests[i].name = VECTORS[i];
        tests[i].test_func = vector_passes;
        tests[i].initial_state = (void *)(uintptr_t)VECTORS[i];
    }
    tests[VECTOR_COUNT].name = "table_lists_every_vector";
    tests[VECTOR_COUNT].test_func = table_lists_every_vector;
    return _cmocka_run_group_tests("onnx_vectors", tests, VECTOR_COUNT + 1, NULL, NULL);
}
