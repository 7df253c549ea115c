// Compiling the kernels of probes beforehand, on all processors: see probe_build.h.
#include "probe_build.h"
#include "target.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"

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

void probe_build_add(const struct probe *probe, uint64_t seed)
{
    static struct run run;
    for (uint32_t c = 0; c < probe->cases; c++) {
        run_prepare(&run, &target_emu_late, probe, c, seed);
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
        printf("%-36s FAILED to compile: %s\n", builds[i].kernel->symbol, wrong);
        atomic_fetch_add(&build_failures, 1);
    }
    free(builds[i].run);
}

uint32_t probe_build_all(uint32_t *failures_out)
{
    attn_parallel_for(attn_context_resolve(NULL), build_count, build_one, NULL);
    *failures_out = build_failures;
    return build_count;
}
