// The CUDA backend from plan to launch, with a fake driver and a fake compiler: what is launched
// where, and every way of failing on the way.
#include "fake_driver_access.h"
#include "log_lines.h"

#include <pthread.h>
#include <sys/stat.h>

#define DRIVER "ATTN_CUDA_LIBRARY=" FAKE_DRIVER_PATH
#define COMPILER "ATTN_NVRTC=" FAKE_NVRTC_PATH
#define NO_CACHE "ATTN_CACHE=off"
#define TWO "FAKE_CUDA_DEVICES=90,100"

static attn_desc_t problem(int64_t s_q, int64_t s_kv)
{
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_BF16);
    attn_desc_set_shape(&desc, 2, s_q, s_kv, 4, 2, 64);
    desc.backend = ATTN_BACKEND_CUDA;
    desc.wants_lse = 1;
    return desc;
}

static attn_plan_t *plan_of(const attn_desc_t *desc)
{
    attn_plan_t *plan = NULL;
    attn_context_t *context = (attn_context_t *)(uintptr_t)logging_context();
    CHILD_CHECK(attn_plan_create(context, desc, ATTN_FORWARD, &plan) == ATTN_OK);
    return plan;
}

// The backend touches no pointer: any will do.
static attn_status_t run(const attn_plan_t *plan, void *stream)
{
    static char memory[16];
    attn_forward_args_t args;
    attn_forward_args_init(&args);
    args.q = args.k = args.v = args.o = memory;
    args.lse = (float *)(void *)memory;
    return attn_forward(plan, &args, NULL, 0, stream);
}

static const char *explained(const attn_desc_t *desc)
{
    static char text[4096];
    CHILD_CHECK(attn_explain(NULL, desc, ATTN_FORWARD, text, sizeof(text), NULL) == ATTN_OK);
    return text;
}

// ---- from plan to launch

static void launches(void)
{
    const attn_desc_t desc = problem(3, 0);
    attn_plan_t *plan = plan_of(&desc);
    CHILD_CHECK(strcmp(attn_plan_kernel_name(plan), "sm90_fill_o2") == 0);
    CHILD_CHECK(attn_plan_workspace_bytes(plan) == 0);
    struct fake_state *fake = fake_state();
    CHILD_CHECK(strcmp(fake->kernel, "sm90_fill_o2") == 0 && fake->loads == 1);
    CHILD_CHECK(run(plan, NULL) == ATTN_OK);
    CHILD_CHECK(fake->launches == 1 && fake->context == fake_context(0, 1));
    // 2 * 3 * 4 rows, a warp each.
    CHILD_CHECK(fake->config.grid[0] == 6 && fake->config.block[0] == 128);
    CHILD_CHECK(fake->config.attribute_count == 0 && fake->config.stream == NULL);
    // The caller had no context, and has none now.
    CHILD_CHECK(fake->pushes == fake->pops && fake->retains == 1);
    // A stream has a context of its own: nothing is pushed.
    const int pushes = fake->pushes;
    cu_stream stream = (cu_stream)(void *)&desc;
    CHILD_CHECK(run(plan, stream) == ATTN_OK);
    CHILD_CHECK(fake->launches == 2 && fake->config.stream == stream && fake->pushes == pushes);
    // The driver's special streams belong to the current context.
    CHILD_CHECK(run(plan, (void *)2) == ATTN_OK);
    CHILD_CHECK(fake->launches == 3 && fake->pushes == pushes + 1 && fake->pops == fake->pushes);
    attn_plan_destroy(plan);
    // A second plan finds the kernel in the process.
    plan = plan_of(&desc);
    CHILD_CHECK(fake->loads == 1);
    attn_plan_destroy(plan);
    const attn_desc_t empty = problem(0, 0);
    plan = plan_of(&empty);
    CHILD_CHECK(run(plan, NULL) == ATTN_OK && fake->launches == 3);
    attn_plan_destroy(plan);
}

static void respects_context(void)
{
    const attn_desc_t desc = problem(3, 0);
    CHILD_CHECK(attn_supports(NULL, &desc, ATTN_FORWARD) == ATTN_OK);
    struct fake_state *fake = fake_state();
    const attn_gpu_info_t none = {0};
    attn_gpu_info_t info = {.struct_size = sizeof(info)};
    CHILD_CHECK(attn_gpu_query(0, &info) == ATTN_OK && info.compute == 90);
    CHILD_CHECK(attn_gpu_query(0, (attn_gpu_info_t *)(uintptr_t)&none) == ATTN_INVALID_ARGUMENT);
    // The caller's own context of this GPU.
    cu_result (*push)(cu_context);
    void *symbol = fake_symbol("cuCtxPushCurrent_v2");
    memcpy(&push, &symbol, sizeof(push));
    CHILD_CHECK(push(fake_context(0, 0)) == CU_SUCCESS);
    attn_plan_t *plan = plan_of(&desc);
    CHILD_CHECK(run(plan, NULL) == ATTN_OK);
    CHILD_CHECK(fake->context == fake_context(0, 0) && fake->retains == 0);
    // Another GPU's: the launch goes to the plan's GPU all the same.
    CHILD_CHECK(push(fake_context(1, 0)) == CU_SUCCESS);
    CHILD_CHECK(run(plan, NULL) == ATTN_OK);
    CHILD_CHECK(fake->context == fake_context(0, 1) && fake->retains == 1);
    attn_plan_destroy(plan);
}

static void two_kinds(void)
{
    attn_desc_t desc = problem(1000, 0);
    attn_plan_t *first = plan_of(&desc);
    desc.device_index = 1;
    attn_plan_t *second = plan_of(&desc);
    CHILD_CHECK(strcmp(attn_plan_kernel_name(first), "sm90_fill_o2") == 0);
    CHILD_CHECK(strcmp(attn_plan_kernel_name(second), "sm100_fill_o2") == 0);
    struct fake_state *fake = fake_state();
    CHILD_CHECK(fake->loads == 2);
    CHILD_CHECK(run(second, NULL) == ATTN_OK && fake->context == fake_context(1, 1));
    CHILD_CHECK(fake->config.grid[0] == 2000);
    CHILD_CHECK(run(first, NULL) == ATTN_OK && fake->context == fake_context(0, 1));
    attn_plan_destroy(first);
    attn_plan_destroy(second);
    desc.device_index = 2;
    CHILD_CHECK(attn_supports(NULL, &desc, ATTN_FORWARD) == ATTN_NO_DEVICE);
    CHILD_SAYS("backend: cuda, device_index: 2, this process sees 2 GPUs");
}

// Two GPUs of a kind share the load; each is prepared.
static void one_kind(void)
{
    attn_desc_t desc = problem(3, 0);
    attn_plan_t *first = plan_of(&desc);
    desc.device_index = 1;
    attn_plan_t *second = plan_of(&desc);
    CHILD_CHECK(fake_state()->loads == 1 && fake_state()->retains == 2);
    attn_plan_destroy(first);
    attn_plan_destroy(second);
}

static void explains(void)
{
    attn_desc_t desc = problem(3, 0);
    const char *text = explained(&desc);
    CHILD_CHECK(strstr(text, "kernel: sm90_fill_o2\n") != NULL);
    CHILD_CHECK(strstr(text, "GPU: 0, Fake GPU 0, sm_90a, 132 multiprocessors\n") != NULL);
    CHILD_CHECK(strstr(text, "shared memory: 0 of 232448 bytes; registers: at most 64\n") != NULL);
    CHILD_CHECK(strstr(text, "tuning row: ") != NULL);
    CHILD_CHECK(strstr(text, "  fill: yes\n") != NULL);
    CHILD_CHECK(strstr(text, "  cuda: yes: sm90_fill_o2\n") != NULL);
    // Explaining neither compiles nor makes a context.
    CHILD_CHECK(fake_state()->loads == 0 && fake_state()->retains == 0);
    desc = problem(3, 7);
    desc.num_splits = 2;
    text = explained(&desc);
    CHILD_CHECK(strstr(text, "no kernel: backend: cuda, no kernel for it on Fake GPU 0 (sm_90): "
                             "sm90_forward: num_splits: 2") != NULL);
    // AUTO is the CPU, GPU or not.
    desc = problem(3, 0);
    desc.backend = ATTN_BACKEND_AUTO;
    text = explained(&desc);
    CHILD_CHECK(strstr(text, "kernel: cpu_") != NULL);
    CHILD_CHECK(strstr(text, "cuda: possible (sm90_fill_o2), but desc.backend") != NULL);
}

// Preprocess, the main kernel, postprocess: a configuration of three kernels, launched in order.
static void launches_backward(void)
{
    static _Alignas(64) char memory[16];
    attn_desc_t desc = problem(300, 200);
    desc.has_seqused_q = 1;
    attn_plan_t *plan;
    CHILD_CHECK(attn_plan_create(NULL, &desc, ATTN_BACKWARD, &plan) == ATTN_OK);
    CHILD_CHECK(strcmp(attn_plan_kernel_name(plan), "sm90_bwd_bf16_d64x64m128n128s2w2c1") == 0);
    struct fake_state *fake = fake_state();
    CHILD_CHECK(fake->loads == 3);
    const size_t bytes = attn_plan_workspace_bytes(plan);
    // Sums of dQ: 2 sequences, 3 blocks of 128 rows, 4 heads, fp32.
    CHILD_CHECK(bytes > 2 * 3 * 128 * 4 * 64 * 4 && bytes < 2 * 2 * 3 * 128 * 4 * 64 * 4);
    void *const workspace = malloc(bytes);
    attn_backward_args_t args;
    attn_backward_args_init(&args);
    args.in.q = args.in.k = args.in.v = args.in.o = memory;
    args.in.lse = (float *)(void *)memory;
    args.in.seqused_q = (int32_t *)(void *)memory;
    args.do_ = args.dq = args.dk = args.dv = memory;
    CHILD_CHECK(attn_backward(plan, &args, workspace, bytes, NULL) == ATTN_OK);
    CHILD_CHECK(fake->launches == 3 && fake->pushes == fake->pops);
    // 2 * 4 * 3 query blocks.
    CHILD_CHECK(fake->config.grid[0] == 24 && fake->config.block[0] == 128);
    args.dq = memory + 2;
    CHILD_CHECK(attn_backward(plan, &args, workspace, bytes, NULL) == ATTN_INVALID_ARGUMENT);
    CHILD_SAYS("dq: ");
    CHILD_CHECK(fake->launches == 3);
    args.dq = NULL; // not wanted
    CHILD_CHECK(attn_backward(plan, &args, workspace, bytes, NULL) == ATTN_OK);
    free(workspace);
    attn_plan_destroy(plan);
}

// Merging and appending need no plan: the first call loads, the others launch.
static void launches_without_plan(void)
{
    static _Alignas(64) char memory[64];
    float *const floats = (float *)(void *)memory;
    attn_merge_desc_t merge;
    attn_merge_desc_init(&merge, ATTN_BF16);
    merge.backend = ATTN_BACKEND_CUDA;
    merge.parts = 3;
    merge.batch = 2;
    merge.s_q = 5;
    merge.heads_q = 4;
    merge.d_v = 130;
    for (int i = 1; i <= 2; i++) {
        CHILD_CHECK(attn_merge(NULL, &merge, floats, floats, memory, NULL, NULL) == ATTN_OK);
        const struct fake_state *const fake = fake_state();
        CHILD_CHECK(strcmp(fake->kernel, "sm90_merge") == 0 && fake->loads == 1);
        // 40 rows of two warps each.
        CHILD_CHECK(fake->launches == i && fake->config.grid[0] == 20);
    }
    const struct fake_state *const fake = fake_state();
    attn_append_desc_t append;
    attn_append_desc_init(&append, ATTN_BF16);
    append.backend = ATTN_BACKEND_CUDA;
    append.batch = append.cache_batch = 2;
    append.s_new = 3;
    append.heads_kv = 2;
    append.d_qk = append.d_v = 64;
    append.capacity = 10;
    attn_append_args_t args;
    attn_append_args_init(&args);
    args.k_new = args.v_new = args.k_cache = args.v_cache = memory;
    CHILD_CHECK(attn_append(NULL, &append, &args, NULL) == ATTN_INVALID_ARGUMENT);
    CHILD_SAYS("cache_seqlens: NULL");
    args.cache_seqlens = (int32_t *)(void *)memory;
    CHILD_CHECK(attn_append(NULL, &append, &args, NULL) == ATTN_OK);
    CHILD_CHECK(strcmp(fake->kernel, "sm90_append") == 0 && fake->loads == 2);
    // 6 tokens, 2 heads each of K and V.
    CHILD_CHECK(fake->launches == 3 && fake->config.grid[0] == 6);
    append.batch = 0;
    CHILD_CHECK(attn_append(NULL, &append, &args, NULL) == ATTN_OK && fake->launches == 3);
}

static void test_launch(void **state)
{
    (void)state;
    IN_CHILD(launches, DRIVER, COMPILER, NO_CACHE);
    IN_CHILD(launches_backward, DRIVER, COMPILER, NO_CACHE);
    IN_CHILD(launches_without_plan, DRIVER, COMPILER, NO_CACHE);
    IN_CHILD(respects_context, DRIVER, COMPILER, NO_CACHE, TWO);
    IN_CHILD(two_kinds, DRIVER, COMPILER, NO_CACHE, TWO);
    IN_CHILD(one_kind, DRIVER, COMPILER, NO_CACHE, "FAKE_CUDA_DEVICES=90,90");
    IN_CHILD(explains, DRIVER, COMPILER, NO_CACHE);
}

// ---- failures

static attn_status_t create_fails(void)
{
    const attn_desc_t desc = problem(3, 0);
    attn_plan_t *plan = (attn_plan_t *)(uintptr_t)&desc;
    const attn_status_t status = attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan);
    CHILD_CHECK(plan == NULL);
    return status;
}

static void no_driver(void)
{
    CHILD_CHECK(create_fails() == ATTN_NO_DEVICE);
    CHILD_SAYS("backend: cuda, no NVIDIA driver");
    attn_gpu_info_t info = {.struct_size = sizeof(info)};
    CHILD_CHECK(attn_gpu_query(0, &info) == ATTN_NO_DEVICE);
    char text[256];
    CHILD_CHECK(attn_runtime_text("driver", text, sizeof(text)) == ATTN_NO_DEVICE);
}

static void no_compiler(void)
{
    CHILD_CHECK(create_fails() == ATTN_COMPILE_FAILED);
    CHILD_SAYS("kernel sm90_fill_o2 for sm_90a: no NVRTC");
    char text[256];
    CHILD_CHECK(attn_runtime_text("compiler", text, sizeof(text)) == ATTN_NO_DEVICE);
    CHILD_CHECK(attn_runtime_text("driver", text, sizeof(text)) == ATTN_OK);
    CHILD_CHECK(strcmp(text, "CUDA 13.0") == 0);
    CHILD_CHECK(attn_runtime_text("engine", text, sizeof(text)) == ATTN_INVALID_ARGUMENT);
}

static void image_is_refused(void)
{
    CHILD_CHECK(create_fails() == ATTN_DRIVER_ERROR);
    CHILD_SAYS("kernel sm90_fill_o2 by NVRTC 13.0 for a driver of CUDA 13.0: cuLibraryLoadData: "
               "CUDA_ERROR_INVALID_IMAGE");
    CHILD_CHECK(fake_state()->loads == fake_state()->unloads);
}

static void symbol_is_missing(void)
{
    CHILD_CHECK(create_fails() == ATTN_DRIVER_ERROR);
    CHILD_SAYS("kernel sm90_fill_o2: cuLibraryGetKernel: CUDA_ERROR_NOT_FOUND");
    CHILD_CHECK(fake_state()->loads == 1 && fake_state()->unloads == 1);
    // What failed once is tried again.
    CHILD_CHECK(create_fails() == ATTN_DRIVER_ERROR && fake_state()->loads == 2);
}

static void has_no_memory(void)
{
    CHILD_CHECK(create_fails() == ATTN_OUT_OF_MEMORY);
    CHILD_SAYS("CUDA_ERROR_OUT_OF_MEMORY");
    CHILD_CHECK(fake_state()->pushes == fake_state()->pops);
    (void)putenv((char *)(uintptr_t) "FAKE_CUDA_FAIL=");
    const attn_desc_t desc = problem(3, 0);
    attn_plan_t *plan = plan_of(&desc);
    attn_plan_destroy(plan);
}

static void launch_fails(void)
{
    const attn_desc_t desc = problem(3, 0);
    attn_plan_t *plan = plan_of(&desc);
    CHILD_CHECK(run(plan, NULL) == ATTN_DRIVER_ERROR);
    CHILD_SAYS("cuLaunchKernelEx: CUDA_ERROR_LAUNCH_FAILED (719), as told");
    CHILD_CHECK(fake_state()->pushes == fake_state()->pops);
    attn_plan_destroy(plan);
}

static void others_refuse(void)
{
    const attn_desc_t desc = problem(3, 0);
    CHILD_CHECK(attn_supports(NULL, &desc, ATTN_BACKWARD) == ATTN_UNSUPPORTED);
}

static void test_failures(void **state)
{
    (void)state;
    IN_CHILD(no_driver, "ATTN_CUDA_LIBRARY=/nowhere/libcuda.so.1", COMPILER, NO_CACHE);
    IN_CHILD(no_compiler, DRIVER, "ATTN_NVRTC=/nowhere/libnvrtc.so", NO_CACHE);
    IN_CHILD(image_is_refused, DRIVER, COMPILER, NO_CACHE, "FAKE_CUDA_FAIL=cuLibraryLoadData=200");
    IN_CHILD(symbol_is_missing, DRIVER, COMPILER, NO_CACHE,
             "FAKE_CUDA_FAIL=cuLibraryGetKernel=500");
    IN_CHILD(has_no_memory, DRIVER, COMPILER, NO_CACHE, "FAKE_CUDA_FAIL=cuLibraryLoadData=2");
    IN_CHILD(has_no_memory, DRIVER, COMPILER, NO_CACHE,
             "FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain=2");
    IN_CHILD(has_no_memory, DRIVER, COMPILER, NO_CACHE, "FAKE_CUDA_FAIL=cuKernelGetFunction=2");
    IN_CHILD(launch_fails, DRIVER, COMPILER, NO_CACHE, "FAKE_CUDA_FAIL=cuLaunchKernelEx=719");
    IN_CHILD(others_refuse, DRIVER, COMPILER, NO_CACHE);
}

// ---- threads

enum { THREADS = 8 };

static void *create_from_thread(void *arg)
{
    const attn_desc_t desc = problem(3, 0);
    attn_plan_t *plan = NULL;
    if (attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan) != ATTN_OK) {
        return strstr(attn_last_error(), "cuLibraryLoadData") ? arg : NULL;
    }
    attn_plan_destroy(plan);
    return arg;
}

static void in_threads(void)
{
    pthread_t threads[THREADS];
    int marks[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHILD_CHECK(pthread_create(&threads[i], NULL, create_from_thread, &marks[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *mark;
        CHILD_CHECK(pthread_join(threads[i], &mark) == 0 && mark == &marks[i]);
    }
}

static void compile_once(void)
{
    in_threads();
    CHILD_CHECK(fake_state()->loads == 1);
}

static void test_threads(void **state)
{
    (void)state;
    char path[] = "/tmp/attn-count-XXXXXX";
    char variable[64];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    (void)snprintf(variable, sizeof(variable), "FAKE_NVRTC_COUNT=%s", path);
    IN_CHILD(compile_once, DRIVER, COMPILER, NO_CACHE, variable, "FAKE_NVRTC_SLEEP_MS=50");
    struct stat status;
    assert_int_equal(fstat(file, &status), 0);
    assert_int_equal(status.st_size, 1);
    // A failure reaches everybody who waited for it.
    IN_CHILD(in_threads, DRIVER, COMPILER, NO_CACHE, "FAKE_NVRTC_SLEEP_MS=20",
             "FAKE_CUDA_FAIL=cuLibraryLoadData=200");
    close(file);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launch),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
