// How programs use both passes on a real GPU: CUDA graphs whose lengths change between
// replays, several streams and several GPUs at once, no memory left, many processes that start on
// an empty cache. Each part is a process of its own. Says so and exits with 77 without a GPU.
#include "child.h"

#include <signal.h>
#include <time.h>

#include "gpu_memory.h"
#include "gpu_use.h"

static char folder[300];
static char cache_variable[320];

// ---- a problem

static attn_desc_t decoder(attn_dtype_t dtype, int device)
{
    attn_desc_t desc;
    attn_desc_init(&desc, dtype);
    attn_desc_set_shape(&desc, 3, 200, 300, 4, 2, 64);
    desc.causal = 1;
    desc.wants_lse = 1;
    desc.has_seqused_kv = 1;
    desc.backend = ATTN_BACKEND_CUDA;
    desc.device_index = device;
    return desc;
}

// ---- graphs

// Captured once with one set of lengths, replayed with others: they are read on the GPU.
static void replays_with_lengths(attn_desc_t desc, bool backward, const int32_t lengths[][3],
                                 int sets)
{
    enum { CAPTURE_GLOBAL = 0 };
    gpu_copy_open(0);
    cu_stream stream;
    gpu_graph graph;
    gpu_graph_exec exec;
    problem_options_t options = {.seed = 1, .backward = backward, .seqused_kv = lengths[0]};
    gpu_use_t use;
    gpu_use_create(&use, &desc, &options);
    GPU(stream_create(&stream, 1));
    GPU(capture_begin(stream, CAPTURE_GLOBAL));
    gpu_use_run(&use, &use, stream);
    GPU(capture_end(stream, &graph));
    GPU(instantiate(&exec, graph, 0));
    for (int i = 0; i < sets; i++) {
        options.seed++;
        options.seqused_kv = lengths[i];
        gpu_use_load(&use, &desc, &options);
        GPU(graph_launch(exec, stream));
        GPU(stream_wait(stream));
        gpu_use_fetch(&use);
        gpu_use_judge(&use);
    }
    gpu_use_destroy(&use);
}

static const int32_t lengths[][3] = {{300, 300, 300}, {1, 0, 299}, {0, 0, 0}, {64, 200, 65}};
enum { LENGTH_SETS = sizeof(lengths) / sizeof(lengths[0]) };

static void replays_padded(void)
{
    replays_with_lengths(decoder(ATTN_BF16, 0), false, lengths, LENGTH_SETS);
}

static void replays_packed(void)
{
    attn_desc_t desc = decoder(ATTN_F16, 0);
    desc.varlen_q = 1;
    desc.total_q = desc.batch * desc.s_q;
    replays_with_lengths(desc, false, lengths, LENGTH_SETS);
}

static void replays_training(void)
{
    replays_with_lengths(decoder(ATTN_BF16, 0), true, lengths, LENGTH_SETS);
}

static void replays_deterministic_training(void)
{
    attn_desc_t desc = decoder(ATTN_F16, 0);
    desc.deterministic = 1;
    replays_with_lengths(desc, true, lengths, LENGTH_SETS);
}

static void test_graph_replay(void **state)
{
    (void)state;
    IN_CHILD(replays_padded, cache_variable);
    IN_CHILD(replays_packed, cache_variable);
    IN_CHILD(replays_training, cache_variable);
    IN_CHILD(replays_deterministic_training, cache_variable);
}

// ---- streams, GPUs

enum { ROUNDS = 20 };

// One plan in two streams at once, and another plan in a third.
static void runs_in_streams(void)
{
    enum { STREAMS = 3 };
    gpu_copy_open(0);
    cu_stream streams[STREAMS];
    gpu_use_t uses[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        const attn_desc_t desc = decoder(i < 2 ? ATTN_BF16 : ATTN_F16, 0);
        const problem_options_t options = {.seed = 10 + (uint64_t)i, .backward = true};
        GPU(stream_create(&streams[i], 1));
        gpu_use_create(&uses[i], &desc, &options);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < STREAMS; i++) {
            gpu_use_run(&uses[i], &uses[i < 2 ? 0 : i], streams[i]);
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        GPU(stream_wait(streams[i]));
        gpu_use_fetch(&uses[i]);
        gpu_use_judge(&uses[i]);
        gpu_use_destroy(&uses[i]);
    }
}

static void test_streams(void **state)
{
    (void)state;
    IN_CHILD(runs_in_streams, cache_variable);
}

// All GPUs (8 at most) at once; each run with another GPU's context current, so that its stream
// alone says where it goes.
static void runs_on_all(void)
{
    enum { GPUS_MAX = 8 };
    gpu_use_t uses[GPUS_MAX];
    cu_stream streams[GPUS_MAX];
    int count = 0;
    attn_gpu_info_t info = {.struct_size = sizeof(info)};
    while (count < GPUS_MAX && attn_gpu_query(count, &info) == ATTN_OK) {
        gpu_copy_open(count);
        const attn_desc_t desc = decoder(count % 2 ? ATTN_F16 : ATTN_BF16, count);
        const problem_options_t options = {.seed = 20 + (uint64_t)count};
        GPU(stream_create(&streams[count], 1));
        gpu_use_create(&uses[count], &desc, &options);
        count++;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < count; i++) {
            gpu_copy_open((i + 1) % count);
            gpu_use_run(&uses[i], &uses[i], streams[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        gpu_copy_open(i);
        GPU(stream_wait(streams[i]));
        gpu_use_fetch(&uses[i]);
        gpu_use_judge(&uses[i]);
        gpu_use_destroy(&uses[i]);
    }
    printf("ran on %d GPU%s\n", count, count == 1 ? "" : "s at once");
}

static void test_all_gpus(void **state)
{
    (void)state;
    IN_CHILD(runs_on_all, cache_variable);
}

// ---- no memory left

// Plans, while the GPU has no memory left, for kernels that it has not loaded yet: a clear status
// or a plan, and with memory the same plan is made and right.
static void plans_without_memory(void)
{
    enum { BLOCKS_MAX = 4096, SMALLEST_BYTES = 1 << 16 };
    static gpu_pointer blocks[BLOCKS_MAX];
    int count = 0;
    gpu_copy_open(0);
    for (size_t bytes = (size_t)1 << 36; bytes >= SMALLEST_BYTES; bytes /= 2) {
        while (count < BLOCKS_MAX && gpu.alloc(&blocks[count], bytes) == CU_SUCCESS) {
            count++;
        }
    }
    attn_desc_t desc = decoder(ATTN_BF16, 0);
    attn_plan_t *plan = NULL;
    const attn_status_t status = attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan);
    printf("without memory: %s%s%s\n", attn_status_string(status), status == ATTN_OK ? "" : ": ",
           status == ATTN_OK ? "" : attn_last_error());
    CHILD_CHECK(status == ATTN_OK || (status == ATTN_OUT_OF_MEMORY && plan == NULL));
    attn_plan_destroy(plan);
    for (int i = 0; i < count; i++) {
        GPU(free(blocks[i]));
    }
    const problem_options_t options = {.seed = 30};
    gpu_use_t use;
    gpu_use_create(&use, &desc, &options);
    gpu_use_run(&use, &use, NULL);
    gpu_copy_wait();
    gpu_use_fetch(&use);
    gpu_use_judge(&use);
    gpu_use_destroy(&use);
}

static void test_no_memory(void **state)
{
    (void)state;
    IN_CHILD(plans_without_memory, cache_variable);
}

// ---- many processes, an empty cache folder

enum { PROCESSES = 32, KILLED = 7 };

static void plans_and_runs(void)
{
    gpu_copy_open(0);
    const attn_desc_t desc = decoder(ATTN_BF16, 0);
    const problem_options_t options = {.seed = 40};
    gpu_use_t use;
    gpu_use_create(&use, &desc, &options);
    gpu_use_run(&use, &use, NULL);
    gpu_copy_wait();
    gpu_use_fetch(&use);
    gpu_use_judge(&use);
    gpu_use_destroy(&use);
}

static void is_in_cache(void)
{
    (void)setenv("ATTN_JIT", "0", 1);
    plans_and_runs();
}

static void pause_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

// One is killed while it compiles, or while it writes. All others must be right, and so must the
// folder be.
static void test_starts(void **state)
{
    (void)state;
    char empty[400];
    char variable[440];
    pid_t processes[PROCESSES];
    (void)snprintf(empty, sizeof(empty), "%s/starts", folder);
    (void)snprintf(variable, sizeof(variable), "ATTN_CACHE=%s", empty);
    for (int i = 0; i < PROCESSES; i++) {
        processes[i] = fork();
        assert_true(processes[i] >= 0);
        if (processes[i] == 0) {
            (void)putenv(variable);
            plans_and_runs();
            _exit(0);
        }
    }
    pause_ms(1500);
    (void)kill(processes[KILLED], SIGKILL);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(processes[i], &status, 0), processes[i]);
        assert_true(i == KILLED || status == 0);
    }
    IN_CHILD(is_in_cache, variable);
}

// ---- running them

static int setup(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%s/attn-use-XXXXXX", base ? base : "/tmp");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(cache_variable, sizeof(cache_variable), "ATTN_CACHE=%s/cache", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[400];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_replay), cmocka_unit_test(test_streams),
        cmocka_unit_test(test_all_gpus),     cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_starts),
    };
    return child_supports(decoder(ATTN_BF16, 0), ATTN_BACKWARD)
               ? cmocka_run_group_tests_name("gpu_use", tests, setup, teardown)
               : 77;
}
