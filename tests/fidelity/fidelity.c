// fidelity: does the emulator compute what a GPU computes?
//
//   fidelity [--emu | --compile ARCH] [--seed N] [--source FOLDER] [NAME...]
//
// Runs every probe of the table (or those whose names begin with NAME) in the emulator and on the
// first GPU, on the same random inputs, and compares their outputs. Prints a line for each probe
// and a last one with totals; exit status 1 if anything differs, 77 where there is no GPU or no
// NVRTC.
//
// --emu needs no GPU: every probe runs in the emulator's three schedules, under all its checks, and
// their outputs must be the same. --compile needs no GPU either, only NVRTC: every kernel that a
// GPU of the architecture would get is compiled. FOLDER is the repository, whose kernels the GPU
// gets.
#include "agreement.h"
#include "probe_table.h"
#include "target.h"
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/context.h"
#include "cuda/kernel_config.h"

static struct {
    bool emu_only;
    int32_t compile_for; // compute capability, 0: run
    uint64_t seed;
    const char *source;
    char **names;
    int name_count;
} options;

static struct {
    uint32_t probes;
    uint32_t runs;
    uint64_t elements;
    uint32_t differing;
    uint32_t not_shown;
} totals;

// ---- which

static bool is_wanted(const struct probe *probe)
{
    for (int i = 0; i < options.name_count; i++) {
        if (strncmp(probe->name, options.names[i], strlen(options.names[i])) == 0) {
            return true;
        }
    }
    return options.name_count == 0;
}

static bool gpu_has(const struct probe *probe)
{
    return probe_runs_on(probe->kernel->gpus, target_gpu_compute());
}

static void for_each_probe(void (*visit)(const struct probe *probe))
{
    for (uint32_t l = 0; l < probe_list_count; l++) {
        for (uint32_t i = 0; i < probe_lists[l].count; i++) {
            if (is_wanted(&probe_lists[l].probes[i])) {
                visit(&probe_lists[l].probes[i]);
            }
        }
    }
}

// ---- compiling beforehand, on all processors

// A kernel with its literals; the run is described and not executed.
enum { BUILDS_MAX = 2048 };
static struct build {
    const struct probe_kernel *kernel;
    struct run *run;
} builds[BUILDS_MAX];
static uint32_t build_count;
static atomic_uint build_failures;

static bool is_listed(const struct probe_kernel *kernel, const int32_t *literals)
{
    for (uint32_t i = 0; i < build_count; i++) {
        if (builds[i].kernel == kernel &&
            memcmp(builds[i].run->literals, literals, sizeof builds[i].run->literals) == 0) {
            return true;
        }
    }
    return false;
}

static void list_build(const struct probe_kernel *kernel, const struct run *run)
{
    if (kernel && !is_listed(kernel, run->literals) && build_count < BUILDS_MAX) {
        struct run *copy = run_alloc(sizeof *copy);
        *copy = *run;
        builds[build_count++] = (struct build){kernel, copy};
    }
}

static void list_builds(const struct probe *probe)
{
    static struct run run;
    for (uint32_t c = 0; c < probe->cases && gpu_has(probe); c++) {
        run_prepare(&run, &target_emu_late, probe, c, options.seed);
        list_build(probe->kernel, &run);
        list_build(probe->second, &run);
        run_free(&run);
    }
}

static void build_one(void *unused, int64_t i, int32_t worker)
{
    (void)unused;
    (void)worker;
    const char *wrong = target_gpu_compile(builds[i].run, builds[i].kernel);
    if (wrong) {
        printf("%-26s FAILED to compile: %s\n", builds[i].kernel->symbol, wrong);
        atomic_fetch_add(&build_failures, 1);
    }
    free(builds[i].run);
}

static void build_all(void)
{
    for_each_probe(list_builds);
    attn_parallel_for(attn_context_resolve(NULL), build_count, build_one, NULL);
}

// ---- a probe

// A kernel that hangs on the GPU cannot be stopped: the process ends and says where it was.
static const char *running = "";

static void give_up(int signal_number)
{
    (void)signal_number;
    static const char text[] = " did not end\n";
    (void)!write(STDERR_FILENO, running, strlen(running));
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

// Text of an error, or NULL.
static const char *run_on(struct run *run, const struct target *target, const struct probe *probe,
                          uint32_t case_idx)
{
    run_prepare(run, target, probe, case_idx, options.seed);
    alarm(60);
    const char *wrong = target->execute(run);
    alarm(0);
    return wrong;
}

// false when a machine could not run it.
static bool run_case(const struct probe *probe, uint32_t case_idx, const struct target *const *with,
                     struct agreement_found *found)
{
    static struct run first;
    static struct run other;
    const char *wrong = run_on(&first, &target_emu_late, probe, case_idx);
    const struct target *where = &target_emu_late;
    for (; !wrong && *with; with++) {
        where = *with;
        wrong = run_on(&other, where, probe, case_idx);
        if (!wrong) {
            compare_runs(&first, &other, found);
        }
        totals.runs++;
        run_free(&other);
    }
    if (wrong) {
        printf("%-26s FAILED on the %s, case %u: %s\n", probe->name, where->name, case_idx, wrong);
    }
    run_free(&first);
    return !wrong;
}

static void print_row(const struct probe *probe, const struct agreement_found *found)
{
    static const char *const units[] = {"", "", " ulp"};
    printf("%-26s %10" PRIu64 "  ", probe->name, found->elements);
    if (found->differing > 0) {
        printf("%" PRIu64 " DIFFER; %s\n", found->differing, found->first);
    } else if (found->bound == 0.0) {
        printf("bits equal\n");
    } else {
        printf("at most %.3g%s apart, bound %.3g\n", found->largest, units[found->agreement],
               found->bound);
    }
}

static void run_probe(const struct probe *probe)
{
    static const struct target *const schedules[] = {&target_emu_early, &target_emu_random, NULL};
    static const struct target *const gpus[] = {&target_gpu, NULL};
    if (!options.emu_only && !gpu_has(probe)) {
        printf("%-26s %10s  not shown on this GPU: it needs sm_%d\n", probe->name, "-",
               (int)probe_first_compute(probe->kernel->gpus));
        totals.not_shown++;
        return;
    }
    struct agreement_found found = {0};
    running = probe->name;
    bool ran = true;
    for (uint32_t c = 0; ran && c < probe->cases; c++) {
        ran = run_case(probe, c, options.emu_only ? schedules : gpus, &found);
    }
    totals.probes++;
    totals.elements += found.elements;
    totals.differing += !ran || found.differing > 0;
    if (ran) {
        print_row(probe, &found);
    }
    fflush(stdout);
}

// ---- the program

static bool read_options(int argc, char **argv)
{
    options.seed = (uint64_t)time(NULL);
    options.source = SOURCE_FOLDER;
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--emu") == 0) {
            options.emu_only = true;
        } else if (strcmp(argv[i], "--compile") == 0 && has_value) {
            i++;
            options.compile_for = attn_arch_compute(argv[i], strlen(argv[i]));
            if (options.compile_for == 0) {
                return false;
            }
        } else if (strcmp(argv[i], "--seed") == 0 && has_value) {
            options.seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--source") == 0 && has_value) {
            options.source = argv[++i];
        } else {
            return false;
        }
    }
    options.names = argv + i;
    options.name_count = argc - i;
    return true;
}

static void run_all(void)
{
    printf("%s; seed %" PRIu64 "\n",
           options.emu_only ? "emulator alone, three schedules" : target_gpu_text(), options.seed);
    for_each_probe(run_probe);
    printf("%u probes, %u runs, %" PRIu64 " elements: %u differ; %u not shown\n", totals.probes,
           totals.runs, totals.elements, totals.differing, totals.not_shown);
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        fprintf(
            stderr,
            "usage: fidelity [--emu | --compile ARCH] [--seed N] [--source FOLDER] [NAME...]\n");
        return 2;
    }
    setenv("ATTN_KERNEL_SOURCE", options.source, 1);
    signal(SIGALRM, give_up);
    const char *why = "";
    bool is_open = options.emu_only      ? true
                   : options.compile_for ? target_gpu_open_compiler(options.compile_for, &why)
                                         : target_gpu_open(&why);
    if (!is_open) {
        printf("skipped: %s\n", why);
        return 77;
    }
    if (!options.emu_only) {
        build_all();
    }
    if (options.compile_for) {
        printf("%u kernels, %u failed to compile\n", build_count, build_failures);
        return build_failures > 0 || build_count == 0;
    }
    run_all();
    return totals.differing > 0 || totals.probes == 0;
}
