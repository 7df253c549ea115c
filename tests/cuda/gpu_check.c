// gpu_check.c: the GPU runtime on a real GPU: compile, cache, load, launch, streams, contexts,
// graph capture, threads, several GPUs. Stand-alone: it needs the driver, NVRTC and nothing else,
// and ends with "N passed, N failed". Without a GPU it says why and exits with 77.
//
//   gpu_check [NAME...]    all checks, or those named
//
// Each check is a process of its own, because a process that used CUDA cannot fork a usable one.
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attn.h"
#include "gpu_memory.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition,         \
                    attn_last_error());                                                            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

// ---- a problem without keys, its memory and what must come out

enum { GUARD_BYTES = 256, BATCH = 3, S_Q = 70, HEADS = 4, D = 72 };

struct filled {
    attn_desc_t desc;
    attn_plan_t *plan;
    gpu_pointer o, lse, sink; // o and lse with a guard before and behind
    size_t o_bytes, lse_bytes;
    int has_sink;
};

static attn_desc_t problem(attn_dtype_t dtype, int device)
{
    attn_desc_t desc;
    attn_desc_init(&desc, dtype);
    attn_desc_set_shape(&desc, BATCH, S_Q, 0, HEADS, 2, D);
    desc.backend = ATTN_BACKEND_CUDA;
    desc.device_index = device;
    desc.wants_lse = 1;
    return desc;
}

static void memory_of(struct filled *f)
{
    static const float sink[HEADS] = {0.5f, -1.0f, 2.0f, 0.0f};
    f->o_bytes = (size_t)BATCH * S_Q * HEADS * D * attn_dtype_bytes(f->desc.o.dtype);
    f->lse_bytes = (size_t)BATCH * HEADS * S_Q * sizeof(float);
    GPU(alloc(&f->o, f->o_bytes + 2 * GUARD_BYTES));
    GPU(alloc(&f->lse, f->lse_bytes + 2 * GUARD_BYTES));
    GPU(alloc(&f->sink, sizeof(sink)));
    GPU(to_device(f->sink, sink, sizeof(sink)));
}

static void reset(const struct filled *f)
{
    GPU(fill(f->o, 0xff, f->o_bytes + 2 * GUARD_BYTES));
    GPU(fill(f->lse, 0xff, f->lse_bytes + 2 * GUARD_BYTES));
    GPU(synchronize());
}

static struct filled make(attn_dtype_t dtype, int device, int has_sink)
{
    struct filled f = {.desc = problem(dtype, device), .has_sink = has_sink};
    f.desc.has_sink = has_sink;
    CHECK(attn_plan_create(NULL, &f.desc, ATTN_FORWARD, &f.plan) == ATTN_OK);
    CHECK(attn_plan_workspace_bytes(f.plan) == 0);
    memory_of(&f);
    reset(&f);
    return f;
}

static void run(const struct filled *f, void *stream)
{
    attn_forward_args_t args;
    attn_forward_args_init(&args);
    args.q = (void *)(uintptr_t)f->o; // not read
    args.o = (void *)(uintptr_t)(f->o + GUARD_BYTES);
    args.lse = (float *)(uintptr_t)(f->lse + GUARD_BYTES);
    args.sink = f->has_sink ? (const float *)(uintptr_t)f->sink : NULL;
    CHECK(attn_forward(f->plan, &args, NULL, 0, stream) == ATTN_OK);
}

static int is_untouched(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0xff) {
            return 0;
        }
    }
    return 1;
}

static void expect_filled(const struct filled *f)
{
    static const float sink[HEADS] = {0.5f, -1.0f, 2.0f, 0.0f};
    unsigned char *o = malloc(f->o_bytes + 2 * GUARD_BYTES);
    unsigned char *lse = malloc(f->lse_bytes + 2 * GUARD_BYTES);
    CHECK(o != NULL && lse != NULL);
    GPU(to_host(o, f->o, f->o_bytes + 2 * GUARD_BYTES));
    GPU(to_host(lse, f->lse, f->lse_bytes + 2 * GUARD_BYTES));
    CHECK(is_untouched(o, GUARD_BYTES) && is_untouched(o + GUARD_BYTES + f->o_bytes, GUARD_BYTES));
    CHECK(is_untouched(lse, GUARD_BYTES) &&
          is_untouched(lse + GUARD_BYTES + f->lse_bytes, GUARD_BYTES));
    for (size_t i = 0; i < f->o_bytes; i++) {
        CHECK(o[GUARD_BYTES + i] == 0);
    }
    for (size_t i = 0; i < f->lse_bytes / sizeof(float); i++) {
        float value;
        memcpy(&value, lse + GUARD_BYTES + i * sizeof(float), sizeof(float));
        CHECK(f->has_sink ? value == sink[i / S_Q % HEADS] : value == -INFINITY);
    }
    free(o);
    free(lse);
}

static void use_primary(int device)
{
    cu_context context;
    GPU(retain(&context, device));
    GPU(set_current(context));
}

static int gpu_count(void)
{
    int count = 0;
    attn_gpu_info_t info = {.struct_size = sizeof(info)};
    while (attn_gpu_query(count, &info) == ATTN_OK) {
        count++;
    }
    return count;
}

// ---- the checks

static void check_info(void)
{
    attn_gpu_info_t info = {.struct_size = sizeof(info)};
    char text[512];
    for (int i = 0; i < gpu_count(); i++) {
        CHECK(attn_gpu_query(i, &info) == ATTN_OK);
        printf("  GPU %d: %s, %d.%d, %d multiprocessors, %d MHz, memory %d MHz, %lld MiB, L2 %lld "
               "KiB, shared %lld bytes\n",
               i, info.name, info.compute / 10, info.compute % 10, info.multiprocessors,
               info.clock_khz / 1000, info.memory_clock_khz / 1000,
               (long long)(info.memory_bytes >> 20), (long long)(info.l2_bytes >> 10),
               (long long)info.shared_bytes);
        CHECK(info.compute >= 75 && info.multiprocessors > 0 && info.shared_bytes >= 48 << 10);
        CHECK(info.memory_bytes > 0);
    }
    CHECK(attn_runtime_text("driver", text, sizeof(text)) == ATTN_OK);
    printf("  driver: %s\n", text);
    CHECK(attn_runtime_text("compiler", text, sizeof(text)) == ATTN_OK);
    printf("  compiler: %s\n", text);
}

static void check_results(void)
{
    const attn_dtype_t dtypes[] = {ATTN_BF16, ATTN_F16, ATTN_F32};
    use_primary(0);
    for (int i = 0; i < 6; i++) {
        const struct filled f = make(dtypes[i / 2], 0, i % 2);
        run(&f, NULL);
        GPU(synchronize());
        expect_filled(&f);
        attn_plan_destroy(f.plan);
    }
}

// No context is current, before or after: the library brings its own and takes it away.
static void check_no_context(void)
{
    cu_context context;
    GPU(current(&context));
    CHECK(context == NULL);
    attn_desc_t desc = problem(ATTN_BF16, 0);
    attn_plan_t *plan;
    CHECK(attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan) == ATTN_OK);
    GPU(current(&context));
    CHECK(context == NULL);
    use_primary(0);
    struct filled f = make(ATTN_BF16, 0, 0);
    GPU(set_current(NULL));
    run(&f, NULL);
    GPU(current(&context));
    CHECK(context == NULL);
    use_primary(0);
    GPU(synchronize());
    expect_filled(&f);
    attn_plan_destroy(plan);
}

// A context that the caller made: memory, stream and launch are all its own.
static void check_own_context(void)
{
    cu_context mine;
    cu_context current;
    GPU(create_context(&mine, 0, 0));
    const struct filled f = make(ATTN_F16, 0, 1);
    run(&f, NULL);
    GPU(synchronize());
    expect_filled(&f);
    cu_stream stream;
    GPU(stream_create(&stream, 1));
    reset(&f);
    run(&f, stream);
    GPU(stream_wait(stream));
    expect_filled(&f);
    GPU(current(&current));
    CHECK(current == mine);
    // The same kernel in the primary context, from the same plan.
    use_primary(0);
    struct filled other = make(ATTN_F16, 0, 1);
    run(&other, NULL);
    GPU(synchronize());
    expect_filled(&other);
}

// The caller's stream decides where the launch goes, whichever context is current.
static void check_stream_alone(void)
{
    use_primary(0);
    const struct filled f = make(ATTN_BF16, 0, 0);
    cu_stream streams[2];
    GPU(stream_create(&streams[0], 1));
    GPU(stream_create(&streams[1], 1));
    struct filled second = make(ATTN_F32, 0, 1);
    GPU(set_current(NULL));
    run(&f, streams[0]);
    run(&second, streams[1]);
    use_primary(0);
    GPU(stream_wait(streams[0]));
    GPU(stream_wait(streams[1]));
    expect_filled(&f);
    expect_filled(&second);
}

static void check_graph(void)
{
    use_primary(0);
    const struct filled f = make(ATTN_BF16, 0, 1);
    cu_stream stream;
    gpu_graph graph;
    gpu_graph_exec exec;
    GPU(stream_create(&stream, 1));
    enum { CAPTURE_GLOBAL = 0 };
    GPU(capture_begin(stream, CAPTURE_GLOBAL));
    run(&f, stream);
    GPU(capture_end(stream, &graph));
    GPU(instantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        reset(&f);
        GPU(graph_launch(exec, stream));
        GPU(stream_wait(stream));
        expect_filled(&f);
    }
}

static void *plans_from_thread(void *arg)
{
    use_primary(0);
    for (int i = 0; i < 20; i++) {
        const struct filled f = make(i % 2 ? ATTN_BF16 : ATTN_F32, 0, i % 3 == 0);
        cu_stream stream;
        GPU(stream_create(&stream, 1));
        run(&f, stream);
        GPU(stream_wait(stream));
        expect_filled(&f);
        GPU(stream_destroy(stream));
        GPU(free(f.o));
        GPU(free(f.lse));
        GPU(free(f.sink));
        attn_plan_destroy(f.plan);
    }
    return arg;
}

static void check_threads(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, plans_from_thread, NULL) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

// All GPUs at once, each with another one's context current.
static void check_all_gpus(void)
{
    enum { GPUS_MAX = 16 };
    struct filled f[GPUS_MAX];
    const int count = gpu_count() < GPUS_MAX ? gpu_count() : GPUS_MAX;
    for (int i = 0; i < count; i++) {
        use_primary(i);
        f[i] = make(ATTN_BF16, i, i % 2);
    }
    for (int i = 0; i < count; i++) {
        use_primary((i + 1) % count);
        run(&f[i], NULL);
    }
    for (int i = 0; i < count; i++) {
        use_primary(i);
        GPU(synchronize());
        expect_filled(&f[i]);
    }
    printf("  %d GPU%s\n", count, count == 1 ? ": contexts of others were not tried" : "s");
}

// Runs a plan repeatedly and prints its least host time a run. Few enough a round that the queue of
// launches never fills. The operands are one piece of memory: nobody looks at the results.
static void print_host_time(const char *what, const attn_desc_t *desc, attn_op_t op)
{
    enum { ROUNDS = 20, RUNS = 100 };
    attn_plan_t *plan;
    CHECK(attn_plan_create(NULL, desc, op, &plan) == ATTN_OK);
    const size_t workspace_bytes = attn_plan_workspace_bytes(plan);
    gpu_pointer memory, workspace;
    GPU(alloc(&memory, (size_t)1 << 24));
    GPU(fill(memory, 0, (size_t)1 << 24));
    GPU(alloc(&workspace, workspace_bytes + 1));
    cu_stream stream;
    GPU(stream_create(&stream, 1));
    void *const any = (void *)(uintptr_t)memory;
    attn_forward_args_t forward;
    attn_forward_args_init(&forward);
    forward.q = forward.k = forward.v = forward.o = any;
    forward.lse = any;
    attn_backward_args_t backward;
    attn_backward_args_init(&backward);
    backward.in = forward;
    backward.do_ = backward.dq = backward.dk = backward.dv = any;
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = now_ms();
        for (int i = 0; i < RUNS; i++) {
            void *const space = (void *)(uintptr_t)workspace;
            CHECK((op == ATTN_FORWARD ? attn_forward(plan, &forward, space, workspace_bytes, stream)
                                      : attn_backward(plan, &backward, space, workspace_bytes,
                                                      stream)) == ATTN_OK);
        }
        const double each = 1e3 * (now_ms() - begin) / RUNS;
        best = each < best ? each : best;
        GPU(stream_wait(stream));
    }
    printf("  %s: a run takes %.2f us of host time\n", what, best);
    const double begin = now_ms();
    for (int i = 0; i < RUNS; i++) {
        attn_plan_t *again;
        CHECK(attn_plan_create(NULL, desc, op, &again) == ATTN_OK);
        attn_plan_destroy(again);
    }
    printf("  %s: a plan whose kernel is loaded takes %.1f us\n", what,
           1e3 * (now_ms() - begin) / RUNS);
    GPU(stream_destroy(stream));
    GPU(free(memory));
    GPU(free(workspace));
    attn_plan_destroy(plan);
}

static void check_host_time(void)
{
    use_primary(0);
    attn_desc_t desc = problem(ATTN_BF16, 0);
    print_host_time("no keys", &desc, ATTN_FORWARD);
    attn_desc_set_shape(&desc, 1, 256, 256, 16, 16, 128);
    if (attn_supports(NULL, &desc, ATTN_FORWARD) == ATTN_OK) {
        print_host_time("forward", &desc, ATTN_FORWARD);
    }
    desc.causal = 1;
    attn_desc_set_shape(&desc, 1, 2048, 2048, 16, 16, 128);
    if (attn_supports(NULL, &desc, ATTN_FORWARD) == ATTN_OK) {
        print_host_time("causal forward with a counter of tiles", &desc, ATTN_FORWARD);
    }
    attn_desc_set_shape(&desc, 1, 256, 256, 16, 16, 128);
    if (attn_supports(NULL, &desc, ATTN_BACKWARD) == ATTN_OK) {
        print_host_time("causal backward", &desc, ATTN_BACKWARD);
    }
}

static char first_plan_log[1024];
static void keep_log(void *user, attn_log_level_t level, const char *text)
{
    (void)user;
    (void)level;
    if (strncmp(text, "kernel ", 7) == 0) {
        (void)snprintf(first_plan_log, sizeof(first_plan_log), "%s", text);
    }
}

// The first plan of a process: driver, context, compiler and kernel, each timed.
static void first_plan(const char *origin)
{
    char text[512];
    const double begin = now_ms();
    use_primary(0);
    const double with_context = now_ms();
    (void)attn_runtime_text("compiler", text, sizeof(text));
    const double with_compiler = now_ms();
    attn_context_config_t config;
    attn_context_config_init(&config);
    config.log = keep_log;
    config.log_level = ATTN_LOG_INFO;
    attn_context_t *context;
    CHECK(attn_context_create(&config, &context) == ATTN_OK);
    attn_desc_t desc = problem(ATTN_BF16, 0);
    attn_plan_t *plan;
    CHECK(attn_plan_create(context, &desc, ATTN_FORWARD, &plan) == ATTN_OK);
    printf("  from the %s: context %.0f ms, opening NVRTC %.1f ms, plan %.1f ms; %s\n", origin,
           with_context - begin, with_compiler - with_context, now_ms() - with_compiler,
           first_plan_log);
    CHECK(strstr(first_plan_log, origin) != NULL);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
}

static void check_compile(void)
{
    first_plan("compiler");
}
static void check_cache(void)
{
    first_plan("cache folder");
}

static void check_pack(void)
{
    attn_gpu_info_t info = {.struct_size = sizeof(info)};
    CHECK(attn_gpu_query(0, &info) == ATTN_OK);
    char arch[32];
    (void)snprintf(arch, sizeof(arch), "sm_%d%s", info.compute, info.compute >= 90 ? "a" : "");
    const attn_desc_t desc = problem(ATTN_BF16, 0);
    const attn_desc_t *const list[] = {&desc};
    const attn_op_t ops[] = {ATTN_FORWARD};
    char path[300];
    int64_t kernels;
    (void)snprintf(path, sizeof(path), "%s/pack", getenv("ATTN_CACHE"));
    CHECK(attn_pack_create(NULL, path, arch, list, ops, 1, &kernels) == ATTN_OK && kernels == 3);
    // The first look at ATTN_PACK is still to come in this process.
    (void)setenv("ATTN_PACK", path, 1);
    (void)setenv("ATTN_CACHE", "off", 1);
    (void)setenv("ATTN_JIT", "0", 1);
    first_plan("pack");
    (void)unlink(path);
}

// ---- running them

static const struct check {
    const char *name;
    void (*body)(void);
} checks[] = {
    {"info", check_info},
    // In this order: what the first compiles, the second finds.
    {"compile", check_compile},
    {"cache", check_cache},
    {"pack", check_pack},
    {"results", check_results},
    {"no_context", check_no_context},
    {"own_context", check_own_context},
    {"stream_alone", check_stream_alone},
    {"graph", check_graph},
    {"threads", check_threads},
    {"all_gpus", check_all_gpus},
    {"host_time", check_host_time},
};
enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

static int is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return 1;
        }
    }
    return argc == 1;
}

// The exit status of body in a process of its own.
static int in_child(void (*body)(void), int needs_memory)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        if (needs_memory) {
            gpu_load();
            GPU(init(0));
        }
        body();
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    return pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ? 1
                                                                            : WEXITSTATUS(status);
}

static void look_for_gpu(void)
{
    attn_gpu_info_t info = {.struct_size = sizeof(info)};
    if (attn_gpu_query(0, &info) != ATTN_OK) {
        printf("skipped: %s\n", attn_last_error());
        fflush(NULL);
        _exit(77);
    }
}

int main(int argc, char **argv)
{
    if (in_child(look_for_gpu, 0) == 77) {
        return 77;
    }
    char folder[] = "/tmp/attn-gpu-XXXXXX";
    if (mkdtemp(folder) == NULL) {
        perror(folder);
        return 1;
    }
    (void)setenv("ATTN_CACHE", folder, 1);
    int passed = 0;
    int failed = 0;
    for (int i = 0; i < CHECKS; i++) {
        if (!is_wanted(checks[i].name, argc, argv)) {
            continue;
        }
        printf("%s\n", checks[i].name);
        const int status = in_child(checks[i].body, 1);
        printf("%s %s\n", status == 0 ? "ok    " : "FAILED", checks[i].name);
        passed += status == 0;
        failed += status != 0;
    }
    int64_t removed;
    (void)attn_cache_trim(0, &removed);
    (void)rmdir(folder);
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
