// Probes in processes: see probe_process.h.
#include "probe_process.h"
#include "probe_build.h"
#include "target.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// Seconds for a case with a GPU, and for compiling. The emulator ends by itself.
enum { CASE_SECONDS = 60, BUILD_SECONDS = 300, FAILED_CASES_MAX = 8 };

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return memory;
}

// 0 in the child.
static pid_t start_process(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    return child;
}

static int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    return status;
}

// Text of an error, or NULL.
static const char *run_case(const struct probe *probe, const struct target *const *with,
                            uint64_t seed, struct probe_result *result)
{
    static struct run first;
    static struct run other;
    run_prepare(&first, &target_emu_late, probe, result->case_idx, seed);
    const char *wrong = target_emu_late.execute(&first);
    for (; !wrong && *with; with++) {
        run_prepare(&other, *with, probe, result->case_idx, seed);
        wrong = (*with)->execute(&other);
        if (!wrong) {
            compare_runs(&first, &other, &result->found);
            result->runs++;
        }
        run_free(&other);
    }
    run_free(&first);
    return wrong;
}

static void run_cases(const struct probe *probe, bool emu_only, uint64_t seed,
                      struct probe_result *result)
{
    static const struct target *const schedules[] = {&target_emu_early, &target_emu_random, NULL};
    static const struct target *const gpus[] = {&target_gpu, NULL};
    const char *wrong = NULL;
    if (!emu_only) {
        uint32_t failures = 0;
        alarm(BUILD_SECONDS);
        if (!target_gpu_open(&wrong)) {
            snprintf(result->wrong, sizeof result->wrong, "%s", wrong);
            return;
        }
        probe_build_add(probe, seed);
        (void)probe_build_all(&failures);
    }
    for (; !wrong && result->case_idx < probe->cases; result->case_idx += !wrong) {
        alarm(emu_only ? 0 : CASE_SECONDS);
        wrong = run_case(probe, emu_only ? schedules : gpus, seed, result);
    }
    snprintf(result->wrong, sizeof result->wrong, "%s", wrong ? wrong : "");
}

static void say_failed(const struct probe *probe, struct probe_result *result, int status)
{
    const char *how = result->wrong[0]                                     ? result->wrong
                      : WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "it did not end"
                                                                           : "its process died";
    printf("%-36s FAILED, case %u: %s\n", probe->name, result->case_idx, how);
    result->failed_cases++;
}

// After a case that fails the next process goes on with the one behind it.
void probe_process_run(const struct probe *probe, bool emu_only, uint64_t seed,
                       struct probe_result *result_out)
{
    struct probe_result *result = shared_memory(sizeof *result);
    while (result->case_idx < probe->cases && result->failed_cases < FAILED_CASES_MAX) {
        result->wrong[0] = 0;
        pid_t child = start_process();
        if (child == 0) {
            run_cases(probe, emu_only, seed, result);
            _exit(0);
        }
        int status = wait_for(child);
        if (result->case_idx < probe->cases) {
            say_failed(probe, result, status);
            result->case_idx++;
        }
    }
    *result_out = *result;
    munmap(result, sizeof *result);
}

int32_t probe_process_gpu(char text_out[512])
{
    struct {
        int32_t compute;
        char text[512];
    } *shared = shared_memory(sizeof *shared);
    pid_t child = start_process();
    if (child == 0) {
        const char *why;
        bool is_open = target_gpu_open(&why);
        shared->compute = is_open ? target_gpu_compute() : 0;
        snprintf(shared->text, sizeof shared->text, "%s", is_open ? target_gpu_text() : why);
        _exit(0);
    }
    (void)wait_for(child);
    int32_t compute = shared->compute;
    memcpy(text_out, shared->text, sizeof shared->text);
    munmap(shared, sizeof *shared);
    return compute;
}
