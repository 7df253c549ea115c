// Status texts, versions, contexts: configs that are refused, the environment's limit, allocator,
// log, worker pools.
#include "support.h"

#include <stdlib.h>

static void statuses_have_texts(void **state)
{
    (void)state;
    assert_string_equal(attn_status_string(ATTN_OK), "ok");
    assert_string_equal(attn_status_string(ATTN_WORKSPACE_TOO_SMALL), "workspace too small");
    assert_string_equal(attn_status_string((attn_status_t)99), "unknown status");
    assert_string_equal(attn_status_string((attn_status_t)-1), "unknown status");
    assert_int_equal(attn_version(), 100);
    assert_string_equal(attn_version_string(), "0.1.0");
    assert_int_equal(attn_dtype_bytes(ATTN_F64), 8);
    assert_int_equal(attn_dtype_bytes(ATTN_BF16), 2);
    assert_int_equal(attn_dtype_bytes(ATTN_F8_E5M2), 1);
    assert_int_equal(attn_dtype_bytes((attn_dtype_t)6), 0);
}

static void success_keeps_the_last_error(void **state)
{
    (void)state;
    assert_fails(attn_context_create(NULL, NULL), ATTN_INVALID_ARGUMENT, "context_out: NULL");
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, 4, 4, 1, 1, 8);
    desc.window_left = -7;
    char text[2048];
    // Explaining an impossible problem succeeds, and so does asking about a possible one.
    assert_ok(attn_explain(NULL, &desc, ATTN_FORWARD, text, sizeof(text), NULL));
    assert_non_null(strstr(text, "window_left: -7"));
    assert_string_equal(attn_last_error(), "context_out: NULL");
    desc.window_left = 1;
    assert_ok(attn_supports(NULL, &desc, ATTN_FORWARD));
    assert_string_equal(attn_last_error(), "context_out: NULL");
}

static void isa_names_and_order(void **state)
{
    (void)state;
    assert_string_equal(attn_isa_name(ATTN_ISA_AVX512_BF16), "avx512_bf16");
    assert_string_equal(attn_isa_name((attn_isa_t)77), "unknown");
    assert_true(attn_isa_available(ATTN_ISA_SCALAR));
    assert_false(attn_isa_available((attn_isa_t)77));
    for (int isa = ATTN_ISA_AVX2; isa < ATTN_ISA_COUNT; isa++) {
        if (attn_isa_available((attn_isa_t)isa)) {
            assert_true(attn_isa_available((attn_isa_t)(isa - 1)));
        }
    }
    assert_true(attn_isa_available(attn_context_isa(NULL)));
    assert_true(attn_context_isa(NULL) != ATTN_ISA_AUTO);
    assert_true(attn_context_workers(NULL) >= 1);
}

static attn_status_t create_with(attn_context_config_t config)
{
    attn_context_t *context = (attn_context_t *)&config;
    const attn_status_t status = attn_context_create(&config, &context);
    if (status != ATTN_OK) {
        assert_null(context);
    }
    attn_context_destroy(context);
    return status;
}

static void *any_alloc(void *user, size_t bytes)
{
    int64_t *live = user;
    ++*live;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void any_free(void *user, void *ptr)
{
    int64_t *live = user;
    --*live;
    free(ptr);
}

static void serial_for(void *user, int64_t count, attn_task_fn task, void *task_arg)
{
    int64_t *calls = user;
    ++*calls;
    for (int64_t i = count - 1; i >= 0; i--) {
        task(task_arg, i, (int32_t)(i % 3));
    }
}

static void wrong_configs_are_refused(void **state)
{
    (void)state;
    attn_context_config_t good;
    attn_context_config_init(&good);
    assert_ok(create_with(good));
    attn_context_config_t bad = good;
    bad.struct_size = 0;
    assert_fails(create_with(bad), ATTN_INVALID_ARGUMENT, "config.struct_size: 0");
    bad = good;
    bad.isa = (attn_isa_t)9;
    assert_fails(create_with(bad), ATTN_INVALID_ARGUMENT, "isa: 9");
    bad = good;
    bad.workers = -1;
    assert_fails(create_with(bad), ATTN_INVALID_ARGUMENT, "workers: -1");
    bad = good;
    bad.workers = 65537;
    assert_fails(create_with(bad), ATTN_INVALID_ARGUMENT, "workers: 65537");
    bad = good;
    bad.parallel_for = serial_for;
    assert_fails(create_with(bad), ATTN_INVALID_ARGUMENT, "workers: 0");
    bad = good;
    bad.alloc = any_alloc;
    assert_fails(create_with(bad), ATTN_INVALID_ARGUMENT, "free: NULL");
    bad = good;
    bad.free = any_free;
    assert_fails(create_with(bad), ATTN_INVALID_ARGUMENT, "alloc: NULL");
    bad = good;
    bad.log_level = (attn_log_level_t)4;
    assert_fails(create_with(bad), ATTN_INVALID_ARGUMENT, "log_level: 4");
    for (int isa = ATTN_ISA_AVX2; isa < ATTN_ISA_COUNT; isa++) {
        bad = good;
        bad.isa = (attn_isa_t)isa;
        if (attn_isa_available(bad.isa)) {
            assert_ok(create_with(bad));
        } else {
            assert_fails(create_with(bad), ATTN_NO_DEVICE, attn_isa_name(bad.isa));
        }
    }
}

static attn_isa_t isa_with_environment(const char *value, attn_isa_t isa)
{
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.isa = isa;
    assert_int_equal(setenv("ATTN_ISA", value, 1), 0);
    attn_context_t *context = NULL;
    assert_ok(attn_context_create(&config, &context));
    assert_int_equal(unsetenv("ATTN_ISA"), 0);
    const attn_isa_t got = attn_context_isa(context);
    attn_context_destroy(context);
    return got;
}

static void environment_only_lowers(void **state)
{
    (void)state;
    const attn_isa_t best = isa_with_environment("", ATTN_ISA_AUTO);
    assert_true(attn_isa_available(best));
    assert_int_equal(isa_with_environment("scalar", ATTN_ISA_AUTO), ATTN_ISA_SCALAR);
    assert_int_equal(isa_with_environment("avx512_bf16", ATTN_ISA_AUTO), best);
    assert_int_equal(isa_with_environment("avx512_bf16", ATTN_ISA_SCALAR), ATTN_ISA_SCALAR);
    assert_int_equal(isa_with_environment("scalar", best), ATTN_ISA_SCALAR);
    setenv("ATTN_ISA", "sse9", 1);
    attn_context_t *context = NULL;
    assert_fails(attn_context_create(NULL, &context), ATTN_INVALID_ARGUMENT, "\"sse9\"");
    unsetenv("ATTN_ISA");
}

static void run_small(attn_context_t *context, int64_t batch)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, batch, 3, 5, 2, 2, 8);
    attn_plan_t *plan = NULL;
    assert_ok(attn_plan_create(context, &desc, ATTN_FORWARD, &plan));
    float kv[8 * 5 * 2 * 8];
    float q[8 * 3 * 2 * 8] = {0};
    float o[8 * 3 * 2 * 8];
    for (size_t i = 0; i < sizeof(kv) / sizeof(kv[0]); i++) {
        kv[i] = 1.0f;
    }
    attn_forward_args_t args;
    attn_forward_args_init(&args);
    args.q = q;
    args.k = kv;
    args.v = kv;
    args.o = o;
    const size_t bytes = attn_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes + 1);
    assert_non_null(workspace);
    assert_ok(attn_forward(plan, &args, workspace, bytes, NULL));
    for (int64_t i = 0; i < batch * 3 * 2 * 8; i++) {
        assert_true(o[i] == 1.0f);
    }
    free(workspace);
    attn_plan_destroy(plan);
}

static void caller_plugs_in_memory_and_threads(void **state)
{
    (void)state;
    int64_t live = 0;
    int64_t calls = 0;
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.workers = 3;
    config.parallel_for = serial_for;
    config.parallel_for_user = &calls;
    config.alloc = any_alloc;
    config.free = any_free;
    config.alloc_user = &live;
    attn_context_t *context = NULL;
    assert_ok(attn_context_create(&config, &context));
    assert_int_equal(attn_context_workers(context), 3);
    assert_true(live > 0);
    run_small(context, 8);
    assert_true(calls > 0);
    attn_context_destroy(context);
    assert_int_equal(live, 0);
}

static void plans_keep_their_context(void **state)
{
    (void)state;
    int64_t live = 0;
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.alloc = any_alloc;
    config.free = any_free;
    config.alloc_user = &live;
    attn_context_t *context = NULL;
    assert_ok(attn_context_create(&config, &context));
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, 2, 2, 1, 1, 4);
    attn_plan_t *plan = NULL;
    assert_ok(attn_plan_create(context, &desc, ATTN_FORWARD, &plan));
    attn_context_destroy(context);
    assert_true(live > 0);
    assert_true(strlen(attn_plan_kernel_name(plan)) > 0);
    attn_plan_destroy(plan);
    assert_int_equal(live, 0);
    attn_plan_destroy(NULL);
    attn_context_destroy(NULL);
    assert_int_equal(attn_plan_workspace_bytes(NULL), 0);
    assert_string_equal(attn_plan_kernel_name(NULL), "");
}

typedef struct log_lines {
    int count;
    attn_log_level_t level;
    char text[600];
} log_lines_t;

static void keep_line(void *user, attn_log_level_t level, const char *text)
{
    log_lines_t *lines = user;
    lines->count++;
    lines->level = level;
    strncpy(lines->text, text, sizeof(lines->text) - 1);
}

static void log_has_levels(void **state)
{
    (void)state;
    log_lines_t lines = {0};
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.log = keep_line;
    config.log_user = &lines;
    config.log_level = ATTN_LOG_ERROR;
    attn_context_t *context = NULL;
    assert_ok(attn_context_create(&config, &context));
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, 2, 2, 1, 1, 4);
    attn_plan_t *plan = NULL;
    assert_ok(attn_plan_create(context, &desc, ATTN_FORWARD, &plan));
    attn_plan_destroy(plan);
    assert_int_equal(lines.count, 0);
    desc.softcap = -1.0f;
    assert_fails(attn_plan_create(context, &desc, ATTN_FORWARD, &plan), ATTN_INVALID_ARGUMENT,
                 "softcap: -1");
    assert_null(plan);
    assert_int_equal(lines.count, 1);
    assert_int_equal(lines.level, ATTN_LOG_ERROR);
    assert_non_null(strstr(lines.text, "softcap: -1"));
    attn_context_destroy(context);
}

int main(void)
{
    unsetenv("ATTN_ISA");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_texts),
        cmocka_unit_test(success_keeps_the_last_error),
        cmocka_unit_test(isa_names_and_order),
        cmocka_unit_test(wrong_configs_are_refused),
        cmocka_unit_test(environment_only_lowers),
        cmocka_unit_test(caller_plugs_in_memory_and_threads),
        cmocka_unit_test(plans_keep_their_context),
        cmocka_unit_test(log_has_levels),
    };
    return cmocka_run_group_tests_name("api_context", tests, NULL, NULL);
}
