// cmd_bench.c: attn bench, speed on this machine, against its own rates and against peers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_gpu.h"
#include "bench_measure.h"
#include "bench_report.h"
#include "command.h"
#include "io/progress.h"
#include "launch.h"
#include "machine.h"

struct bench_options {
    struct problem_options problem;
    struct bench_protocol protocol;
    const char *json, *svg, *peers, *from, *series;
    bool backward, no_check, no_rates;
};

#define FIELD(member) offsetof(struct bench_options, member)

static const struct option bench_table[] = {
    {"json", 0, OPTION_TEXT, FIELD(json), "FILE", 0, 0, NULL,
     "write every sample, the rates and the machine"},
    {"svg", 0, OPTION_TEXT, FIELD(svg), "FILE", 0, 0, NULL,
     "draw speed against sequence length, a line for each series and peer"},
    {"peers", 0, OPTION_TEXT, FIELD(peers), "FILE,FILE...", 0, 0, NULL,
     "measurements of other programs, as bench/peers/ writes them; files of one peer are pooled"},
    {"from", 0, OPTION_TEXT, FIELD(from), "FILE,FILE...", 0, 0, NULL,
     "measure nothing: report on these files of earlier runs, pooled"},
    {"series", 0, OPTION_TEXT, FIELD(series), "NAME,NAME...", 0, 0, NULL, "only these series"},
    {"backward", 0, OPTION_FLAG, FIELD(backward), NULL, 0, 0, NULL,
     "the backward pass of every case"},
    {"samples", 0, OPTION_INT, FIELD(protocol.samples), "N", 3, 1000, NULL,
     "samples of each case at most; default 20"},
    {"warmup", 0, OPTION_INT, FIELD(protocol.warmup), "N", 0, 1000, NULL,
     "runs before the first sample; default 5"},
    {"max-seconds", 0, OPTION_NUMBER, FIELD(protocol.max_seconds), "X", 0, 3600, NULL,
     "time for the samples of a case; default 3. At least 3 samples are taken"},
    {"idle", 0, OPTION_NUMBER, FIELD(protocol.idle_seconds), "X", 0, 60, NULL,
     "on a GPU: seconds of rest before the cold samples; default 0.4"},
    {"heat", 0, OPTION_NUMBER, FIELD(protocol.heat_seconds), "X", 0, 600, NULL,
     "on a GPU: seconds of work before the sustained samples; default 1"},
    {"rounds", 0, OPTION_INT, FIELD(protocol.rounds), "N", 1, 1000, NULL,
     "on a GPU: sustained samples, each of 0.1 s; default 5"},
    {"no-check", 0, OPTION_FLAG, FIELD(no_check), NULL, 0, 0, NULL,
     "do not compare with the reference before timing"},
    {"no-rates", 0, OPTION_FLAG, FIELD(no_rates), NULL, 0, 0, NULL,
     "do not measure the machine's own rates"},
};

// Whether name is in a list "a,b,c"; a NULL list holds everything.
static bool is_listed(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = list; at && *at;) {
        const size_t word = strcspn(at, ",");
        if (word == len && strncmp(at, name, len) == 0) {
            return true;
        }
        at += word + (at[word] == ',');
    }
    return !list;
}

// ------------------------------------------------------------------------------------------------
// Reading measurements

struct all_sets {
    struct bench_set sets[BENCH_MAX_SETS]; // [0] is ours
    int n;
};

// Adds a peer's file to the set of that name.
static int read_peer(const char *path, struct all_sets *all, struct io_error *err)
{
    struct bench_set probe = {0};
    if (bench_set_read(path, &probe, err)) {
        bench_set_destroy(&probe);
        return -1;
    }
    for (int i = 1; i < all->n; i++) {
        if (strcmp(all->sets[i].name, probe.name) == 0) {
            bench_set_destroy(&probe);
            return bench_set_read(path, &all->sets[i], err);
        }
    }
    if (all->n == BENCH_MAX_SETS) {
        bench_set_destroy(&probe);
        return io_fail(err, "%s: more than %d peers", path, BENCH_MAX_SETS - 1);
    }
    all->sets[all->n++] = probe;
    return 0;
}

// Reads every file of a list, as ours or as peers.
static int read_list(const char *list, bool is_ours, struct all_sets *all, struct io_error *err)
{
    for (const char *at = list; at && *at;) {
        char path[4096];
        const size_t len = strcspn(at, ",");
        if (len >= sizeof(path)) {
            return io_fail(err, "%s: path too long", at);
        }
        memcpy(path, at, len);
        path[len] = 0;
        at += len + (at[len] == ',');
        const int status =
            is_ours ? bench_set_read(path, &all->sets[0], err) : read_peer(path, all, err);
        if (status) {
            return status;
        }
    }
    return 0;
}

// Drops the results of series that are not wanted.
static int keep_series(struct bench_set *set, const char *series, struct io_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->n; i++) {
        if (is_listed(series, set->results[i].series)) {
            set->results[kept++] = set->results[i];
        } else {
            bench_result_clear(&set->results[i]);
        }
    }
    set->n = kept;
    return kept ? 0 : io_fail(err, "no case to report on: --series %s", series ? series : "");
}

// ------------------------------------------------------------------------------------------------
// Measuring

static int measure_rates(const struct bench_options *options, attn_context_t *context,
                         const struct bench_gpu *gpu, struct bench_set *set, struct io_error *err)
{
    if (options->no_rates) {
        return 0;
    }
    struct bench_rates rates = {.threads = set->threads};
    if (gpu) {
        if (bench_gpu_copy_rate(gpu, &rates.copy_gbs, err)) {
            return -1;
        }
    } else if (bench_rates_measure(attn_context_isa(context), set->threads, &rates)) {
        return io_fail(err, "out of memory for measuring the machine's rates");
    }
    // Measured before and after the cases; the better one counts.
    bench_rates_keep_best(&set->rates, &rates);
    set->has_rates = true;
    return 0;
}

static void name_set(const attn_context_t *context, const struct bench_gpu *gpu,
                     struct bench_set *set)
{
    struct machine machine;
    snprintf(set->name, sizeof(set->name), "libattn %s", attn_version_string());
    set->threads = gpu ? 1 : (int)attn_context_workers(context);
    if (gpu) {
        snprintf(set->machine, sizeof(set->machine), "%s", bench_gpu_name(gpu));
        return;
    }
    machine_read(&machine);
    snprintf(set->machine, sizeof(set->machine), "%s, %s", machine.processor,
             attn_isa_name(attn_context_isa(context)));
}

static int measure_all(const struct bench_options *options, const struct bench_shapes *shapes,
                       struct bench_set *set, bool *wrong_out, struct io_error *err)
{
    attn_context_t *context = NULL;
    struct bench_gpu *gpu = NULL;
    int status = launch_context(&options->problem, &context, err);
    if (!status && options->problem.backend == ATTN_BACKEND_CUDA) {
        status = bench_gpu_open((int)options->problem.device, !options->no_rates, &gpu, err);
    }
    if (!status) {
        name_set(context, gpu, set);
        status = measure_rates(options, context, gpu, set, err);
    }
    struct io_progress progress;
    io_progress_begin(&progress, stderr, "bench", (int64_t)shapes->n);
    size_t measured = 0;
    for (size_t i = 0; i < shapes->n && !status; i++) {
        struct bench_case c = shapes->cases[i];
        c.backward = c.backward || options->backward;
        io_progress_update(&progress, (int64_t)i);
        if (is_listed(options->series, c.series)) {
            status = bench_measure(&c, context, gpu, &options->protocol, set, wrong_out, err);
            measured++;
        }
    }
    io_progress_end(&progress);
    status = status ? status : measure_rates(options, context, gpu, set, err);
    bench_set_end_round(set);
    bench_gpu_close(gpu);
    attn_context_destroy(context);
    if (!status && measured == 0) {
        return options->series ? io_fail(err, "no case to measure: --series %s", options->series)
                               : io_fail(err, "no case to measure: the shape files have none");
    }
    return status;
}

static int bench(const struct bench_options *options, const struct command_line *line,
                 bool *wrong_out, struct io_error *err)
{
    struct all_sets *all = calloc(1, sizeof(*all));
    struct bench_shapes *shapes = calloc(1, sizeof(*shapes));
    int status = all && shapes ? 0 : io_fail(err, "out of memory");
    for (size_t i = 0; i < line->n_positional && !status; i++) {
        status = bench_shapes_read(line->positional[i], &options->problem, shapes, err);
    }
    if (!status) {
        all->n = 1;
        status = read_list(options->peers, false, all, err);
    }
    if (!status && options->from) {
        status = read_list(options->from, true, all, err);
        status = status ? status : keep_series(&all->sets[0], options->series, err);
    } else if (!status) {
        status = measure_all(options, shapes, &all->sets[0], wrong_out, err);
    }
    status = status ? status : bench_report_table(all->sets, all->n, stdout, err);
    if (!status && options->json) {
        status = bench_set_write(options->json, &all->sets[0], err);
    }
    if (!status && options->svg) {
        status = bench_report_plot(options->svg, all->sets, all->n, err);
    }
    for (int i = 0; all && i < all->n; i++) {
        bench_set_destroy(&all->sets[i]);
    }
    free(all);
    free(shapes);
    return status;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_options options = {
        .protocol = {.warmup = 5,
                     .samples = 20,
                     .max_seconds = 3.0,
                     .check = true,
                     .idle_seconds = 0.4,
                     .heat_seconds = 1.0,
                     .rounds = 5},
    };
    problem_options_init(&options.problem);
    struct command_line line = {
        .usage = "attn bench SHAPES... [options]",
        .description =
            "Measures the cases of shape files (bench/shapes/ has some, bench/README.md says\n"
            "how they are written). Each case is first compared with the fp64 reference, then\n"
            "timed: warm-up, median and quartiles. Work is 4 B H S SKV D operations, half of it "
            "when causal, 2.5\n"
            "times as much backward. The machine's own rates are measured in the same run: fused\n"
            "multiply-adds on registers, a blocked fp32 matrix product and a memory read, all by\n"
            "loops of this program. Exit status 1 if a result is wrong.\n"
            "With --backend cuda on a GPU, by its own events: cold, each run alone behind a rest,\n"
            "L2 emptied; and sustained, back to back on the heated GPU, by turns with cuBLAS's\n"
            "matrix product of 8192. Clock and energy are NVML's. What the GPU has no kernel for "
            "is\nsaid and left out.",
        .examples = "  attn bench bench/shapes/quick.txt\n"
                    "  attn bench bench/shapes/cpu.txt --series f32-d64-full --json ours.json\n"
                    "  attn bench --from ours.json --peers torch.json --svg speed.svg\n"
                    "  attn bench bench/shapes/hopper.txt --backend cuda --json ours.json\n",
        .max_positional = OPTIONS_MAX_POSITIONAL,
    };
    options_add_group(&line, "Options", bench_table, OPTIONS_COUNT(bench_table), &options);
    problem_options_add(&line, &options.problem, PROBLEM_MACHINE);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    options.protocol.check = !options.no_check;
    if ((line.n_positional == 0) == (options.from == NULL)) {
        io_fail(&err, "give shape files to measure, or --from files to report on");
        return command_fail("bench", &err);
    }
    bool wrong = false;
    if (bench(&options, &line, &wrong, &err)) {
        const int status = command_fail("bench", &err);
        return wrong ? COMMAND_CHECK_FAILED : status;
    }
    return command_end("bench", COMMAND_OK);
}
