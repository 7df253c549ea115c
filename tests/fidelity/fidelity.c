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
#include "probe_build.h"
#include "probe_process.h"
#include "target.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/kernel_config.h"

static struct {
    bool emu_only;
    int32_t compile_for; // compute capability, 0: run
    uint64_t seed;
    const char *source;
    char **names;
    int name_count;
} options;

static int32_t compute; // of the GPU at hand, or of the one to compile for

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
    return probe_runs_on(probe->kernel->gpus, compute);
}

static void for_each_probe(void (*visit)(const struct probe *probe))
{
    for (uint32_t l = 0; l < probe_list_count; l++) {
        for (uint32_t i = 0; i < probe_lists[l]->count; i++) {
            if (is_wanted(&probe_lists[l]->probes[i])) {
                visit(&probe_lists[l]->probes[i]);
            }
        }
    }
}

// ---- a probe

// How the outputs agreed, and which section of the PTX ISA to look into where they did not.
static void print_row(const struct probe *probe, const struct agreement_found *found)
{
    static const char *const units[] = {"", "", " ulp"};
    char text[512];
    if (found->differing > 0) {
        snprintf(text, sizeof text, "%" PRIu64 " DIFFER; %s", found->differing, found->first);
    } else if (found->bound == 0.0) {
        snprintf(text, sizeof text, "bits equal");
    } else {
        snprintf(text, sizeof text, "at most %.3g%s apart, bound %.3g", found->largest,
                 units[found->agreement], found->bound);
    }
    printf("%-36s %10" PRIu64 "  %-40s  %s\n", probe->name, found->elements, text,
           probe->kernel->section);
}

static void run_probe(const struct probe *probe)
{
    if (!options.emu_only && !gpu_has(probe)) {
        printf("%-36s %10s  not yet shown: it needs sm_%-10d  %s\n", probe->name, "-",
               (int)probe_first_compute(probe->kernel->gpus), probe->kernel->section);
        totals.not_shown++;
        return;
    }
    struct probe_result result;
    probe_process_run(probe, options.emu_only, options.seed, &result);
    print_row(probe, &result.found);
    totals.probes++;
    totals.runs += result.runs;
    totals.elements += result.found.elements;
    totals.differing += result.failed_cases > 0 || result.found.differing > 0;
}

static int run_all(const char *where)
{
    printf("%s; seed %" PRIu64 "\n", where, options.seed);
    for_each_probe(run_probe);
    printf("%u probes, %u runs, %" PRIu64 " elements: %u differ; %u not yet shown\n", totals.probes,
           totals.runs, totals.elements, totals.differing, totals.not_shown);
    return totals.differing > 0 || totals.probes == 0;
}

static void add_build(const struct probe *probe)
{
    if (gpu_has(probe)) {
        probe_build_add(probe, options.seed);
    }
}

static int compile_all(void)
{
    const char *why;
    uint32_t failures;
    compute = options.compile_for;
    if (!target_gpu_open_compiler(compute, &why)) {
        printf("skipped: %s\n", why);
        return 77;
    }
    for_each_probe(add_build);
    uint32_t count = probe_build_all(&failures);
    printf("%u kernels, %u failed to compile\n", count, failures);
    return failures > 0 || count == 0;
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

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        fprintf(stderr, "usage: fidelity [--emu | --compile ARCH] [--seed N] [--source FOLDER] "
                        "[NAME...]\n");
        return 2;
    }
    setenv("ATTN_KERNEL_SOURCE", options.source, 1);
    if (options.compile_for) {
        return compile_all();
    }
    if (options.emu_only) {
        return run_all("emulator alone, three schedules");
    }
    char text[512];
    compute = probe_process_gpu(text);
    if (compute == 0) {
        printf("skipped: %s\n", text);
        return 77;
    }
    return run_all(text);
}
