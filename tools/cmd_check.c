// cmd_check.c: attn check, every kernel that this machine can run, or a GPU's, against the fp64
// reference.
//
// Without a problem on the command line it runs a list of small ones that touches every option: is
// this build right on this machine? With one it answers: is my problem computed right?
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_truth.h"
#include "command.h"
#include "io/json_out.h"
#include "io/progress.h"
#include "io/table.h"
#include "launch.h"
#include "problem.h"

struct check_options {
    struct problem_options problem;
    bool backward, all, json;
};

#define FIELD(member) offsetof(struct check_options, member)

static const struct option check_table[] = {
    {"backward", 0, OPTION_FLAG, FIELD(backward), NULL, 0, 0, NULL,
     "check the gradients too (the built-in list always does where it can)"},
    {"all", 0, OPTION_FLAG, FIELD(all), NULL, 0, 0, NULL,
     "a line for every kernel and tensor, not only for the one nearest to its allowance"},
    {"json", 0, OPTION_FLAG, FIELD(json), NULL, 0, 0, NULL, "print as JSON"},
};

// The built-in problems, as the options that one would type.
static const char *const suite[] = {
    "--backward --seqlen 128 --heads 4 --dim 64",
    "--backward --seqlen 129,257 --heads 6,2 --dim 64 --causal",
    "--backward --seqlen 113,203 --heads 4,1 --dim 128 --causal --align top-left",
    "--backward --seqlen 203,113 --heads 2 --dim 40 --causal",
    "--backward --seqlen 200 --heads 2 --dim 96,56 --window 31,17",
    "--backward --seqlen 150 --heads 2 --dim 64 --softcap 5",
    "--backward --seqlen 100,140 --heads 4,2 --dim 64 --alibi standard --causal",
    "--backward --seqlen 120,96 --heads 4,2 --dim 64 --bias random",
    "--backward --seqlen 96,120 --heads 2 --dim 64 --mask random",
    "--backward --seqlen 130 --heads 4 --dim 64 --sink random --causal",
    "--backward --seqlen 128 --heads 2 --dim 64 --dropout 0.25 --seed 7",
    "--backward --cu-seqlens-q 0,50,50,180 --cu-seqlens-kv 0,70,100,300 --heads 4,2 --causal",
    "--backward --batch 3 --seqlen 100 --seqused-q 100,1,0 --seqused-kv 3,100,50 --heads 2",
    "--batch 2 --seqlen 70,90 --leftpad-kv 5,90 --heads 2 --dim 64",
    "--seqlen 1,1500 --heads 8,2 --dim 128",
    "--seqlen 1,1500 --heads 8,2 --dim 128 --splits 3",
    "--seqlen 7 --heads 1 --dim 1",
    "--seqlen 33,65 --heads 2,1 --dim 576,512",
    "--backward --seqlen 128 --heads 4,2 --dim 64 --dtype bf16 --causal",
    "--backward --seqlen 130,100 --heads 2 --dim 80 --dtype bf16 --softcap 10 --sink random",
    "--backward --seqlen 128 --heads 4,2 --dim 64 --dtype f16 --causal",
    "--seqlen 1,1500 --heads 8,2 --dim 128 --dtype bf16",
    "--seqlen 128 --heads 2 --dim 64 --dtype f8e4m3 --q-descale 0.5 --k-descale 2 --v-descale 3",
    "--seqlen 100 --heads 2 --dim 64 --dtype f8e5m2 --causal --out-dtype bf16",
    "--backward --seqlen 0,10 --heads 2 --dim 64",
    "--backward --seqlen 10,0 --heads 2 --dim 64 --sink random",
};
enum { N_SUITE = sizeof(suite) / sizeof(suite[0]) };

// ------------------------------------------------------------------------------------------------
// Reports

struct report {
    const struct check_options *options;
    bool is_suite;
    struct io_table *table;
    struct io_json json;
    int failures;
    int refusals; // by the GPU
    int64_t comparisons;
    bool has_worst; // of the problem at hand
    struct check_row worst;
    char worst_kernel[LAUNCH_NAME_BYTES];
};

static double excess(const struct check_row *row)
{
    return row->stats.mismatches    ? INFINITY
           : row->tolerance > 0.0   ? row->stats.max_abs / row->tolerance
           : row->stats.max_abs > 0 ? INFINITY
                                    : 0.0;
}

static void report_row(struct report *report, const char *title, const struct check_row *row)
{
    if (report->options->json) {
        struct io_json *json = &report->json;
        io_json_object_begin(json, NULL);
        io_json_string(json, "problem", title);
        io_json_string(json, "kernel", row->kernel);
        io_json_string(json, "tensor", row->tensor);
        io_json_number(json, "max_abs", row->stats.max_abs);
        io_json_number(json, "rms", row->stats.rms);
        io_json_number(json, "plain_max_abs", row->plain_max);
        io_json_number(json, "tolerance", row->tolerance);
        io_json_integer(json, "misplaced_nan_or_inf", row->stats.mismatches);
        io_json_integer(json, "worst_element", row->stats.worst);
        io_json_bool(json, "ok", row->ok);
        io_json_object_end(json);
        return;
    }
    if (report->is_suite) {
        io_table_cell(report->table, "%s", title);
    }
    io_table_cell(report->table, "%s", row->kernel);
    io_table_cell(report->table, "%s", row->tensor);
    io_table_cell(report->table, "%.2e", row->stats.max_abs);
    io_table_cell(report->table, "%.2e", row->stats.rms);
    io_table_cell(report->table, "%.2e", row->plain_max);
    io_table_cell(report->table, "%.2e", row->tolerance);
    if (row->stats.mismatches) {
        io_table_cell(report->table, "FAIL: %lld NaN or inf misplaced, first at %lld",
                      (long long)row->stats.mismatches, (long long)row->stats.worst);
    } else if (!row->ok) {
        io_table_cell(report->table, "FAIL at %lld", (long long)row->stats.worst);
    } else {
        io_table_cell(report->table, "ok");
    }
}

// Counts the rows of one kernel, and prints them; in a list of problems only those that fail,
// unless --all is given, and remembers the one that comes nearest to its allowance.
static void report_rows(struct report *report, const char *title, const struct check_row *rows,
                        int n)
{
    const bool show_all = report->options->all || report->options->json || !report->is_suite;
    for (int i = 0; i < n; i++) {
        report->comparisons++;
        report->failures += !rows[i].ok;
        if (show_all || !rows[i].ok) {
            report_row(report, title, &rows[i]);
        }
        if (!report->has_worst || excess(&rows[i]) > excess(&report->worst)) {
            report->has_worst = true;
            report->worst = rows[i];
            snprintf(report->worst_kernel, sizeof(report->worst_kernel), "%s", rows[i].kernel);
        }
    }
}

// One line for a problem of the list all of whose kernels are right.
static void report_problem(struct report *report, const char *title)
{
    const bool show_all = report->options->all || report->options->json;
    if (report->has_worst && report->worst.ok && !show_all) {
        report->worst.kernel = report->worst_kernel;
        report_row(report, title, &report->worst);
    }
    report->has_worst = false;
}

// What a GPU has no kernel for: part is "forward" or "backward".
static void report_refusal(struct report *report, const char *title, const char *part,
                           const char *reason)
{
    report->refusals++;
    if (report->options->json) {
        struct io_json *json = &report->json;
        io_json_object_begin(json, NULL);
        io_json_string(json, "problem", title);
        io_json_string(json, "refused", part);
        io_json_string(json, "reason", reason);
        io_json_object_end(json);
        return;
    }
    const char *const cells[] = {title, "-", part, "-", "-", "-", "-"};
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        io_table_cell(report->table, "%s", cells[i]);
    }
    io_table_cell(report->table, "refused");
}

// ------------------------------------------------------------------------------------------------
// One problem

// Runs forward, or backward on the forward results that are there, on one instruction set or GPU.
static int check_op(struct problem *problem, attn_context_t *context, attn_op_t op,
                    const struct check_truth *truth, const char *title, struct report *report,
                    struct io_error *err)
{
    struct check_row rows[CHECK_MAX_ROWS];
    char kernel[LAUNCH_NAME_BYTES];
    if (attn_supports(context, &problem->desc, op) == ATTN_UNSUPPORTED) {
        if (report->is_suite) {
            return io_fail(err, "%s: %s", title, attn_last_error());
        }
        return io_fail(err, "%s", attn_last_error());
    }
    if (launch_once(context, problem, op, kernel, err)) {
        return -1;
    }
    const int n = check_compare(truth, problem, kernel, op == ATTN_BACKWARD, rows);
    report_rows(report, title, rows, n);
    return 0;
}

static int check_isa(struct problem *problem, const struct check_options *options, attn_isa_t isa,
                     const struct check_truth *truth, const char *title, struct report *report,
                     struct io_error *err)
{
    struct problem_options machine = options->problem;
    machine.isa = (int)isa;
    attn_context_t *context = NULL;
    int status = launch_context(&machine, &context, err);
    // An environment variable may have lowered it: then this one was checked already.
    if (!status && attn_context_isa(context) == isa) {
        check_spoil_results(problem);
        status = check_op(problem, context, ATTN_FORWARD, truth, title, report, err);
        if (!status && truth->backward) {
            status = check_op(problem, context, ATTN_BACKWARD, truth, title, report, err);
        }
    }
    attn_context_destroy(context);
    return status;
}

static bool is_on_gpu(const struct check_options *options)
{
    return options->problem.backend == ATTN_BACKEND_CUDA;
}

static int check_gpu(struct problem *problem, const struct check_options *options,
                     const struct check_truth *truth, const char *title, struct report *report,
                     struct io_error *err)
{
    attn_context_t *context = NULL;
    int status = launch_context(&options->problem, &context, err);
    check_spoil_results(problem);
    status = status ? status : check_op(problem, context, ATTN_FORWARD, truth, title, report, err);
    if (!status && truth->backward) {
        status = check_op(problem, context, ATTN_BACKWARD, truth, title, report, err);
    }
    attn_context_destroy(context);
    return status;
}

static int check_isas(struct problem *problem, const struct check_options *options,
                      const struct check_truth *truth, const char *title, struct report *report,
                      struct io_error *err)
{
    const int only = options->problem.isa;
    int status = 0;
    for (int isa = ATTN_ISA_SCALAR; isa < (int)ATTN_ISA_COUNT && !status; isa++) {
        if (attn_isa_available((attn_isa_t)isa) && (only == ATTN_ISA_AUTO || only == isa)) {
            status = check_isa(problem, options, (attn_isa_t)isa, truth, title, report, err);
        }
    }
    return status;
}

// Of a list of problems, what the GPU has no kernel for is reported and left out. Returns whether
// it has one at all, and sets *backward to whether the backward pass is left.
static bool keep_what_gpu_has(const struct problem *problem, const char *title, bool *backward,
                              struct report *report)
{
    if (attn_supports(NULL, &problem->desc, ATTN_FORWARD) == ATTN_UNSUPPORTED) {
        report_refusal(report, title, "forward", attn_last_error());
        return false;
    }
    if (*backward && attn_supports(NULL, &problem->desc, ATTN_BACKWARD) == ATTN_UNSUPPORTED) {
        report_refusal(report, title, "backward", attn_last_error());
        *backward = false;
    }
    return true;
}

static int prepare(struct problem *problem, const struct check_options *options,
                   struct io_error *err)
{
    if (problem_create(problem, &options->problem, false, err) ||
        problem_add_forward_results(problem, err)) {
        return -1;
    }
    if (problem->desc.q.dtype == ATTN_F64) {
        return io_fail(err, "dtype f64: only the reference has it, so there is nothing to compare; "
                            "use --dtype");
    }
    if (problem->desc.backend == ATTN_BACKEND_AUTO) {
        problem->desc.backend = ATTN_BACKEND_CPU;
    }
    if (options->backward &&
        (problem_add_gradient_inputs(problem, NULL, NULL, options->problem.random_seed, err) ||
         problem_add_backward_results(problem, err))) {
        return -1;
    }
    return 0;
}

static int check_problem(const struct check_options *options, struct report *report,
                         struct io_error *err)
{
    struct problem problem = {0};
    struct check_truth truth = {0};
    char title[256] = "";
    bool backward = options->backward;
    bool is_able = true;
    int status = prepare(&problem, options, err);
    if (!status) {
        problem_title(&problem, title, sizeof(title));
        is_able = !report->is_suite || !is_on_gpu(options) ||
                  keep_what_gpu_has(&problem, title, &backward, report);
    }
    if (!status && is_able) {
        status = check_truth_create(&truth, &problem, backward, err);
        status = status               ? status
                 : is_on_gpu(options) ? check_gpu(&problem, options, &truth, title, report, err)
                                      : check_isas(&problem, options, &truth, title, report, err);
    }
    if (!status && report->is_suite) {
        report_problem(report, title);
    } else if (!status && !report->options->json) {
        printf("%s\n\n", title);
    }
    check_truth_destroy(&truth);
    problem_destroy(&problem);
    return status;
}

// ------------------------------------------------------------------------------------------------
// The built-in list

// Reads a row of the list with the same tables as a command line. text is cut into words, which the
// options borrow.
static int parse_suite_row(char *text, const struct check_options *given,
                           struct check_options *options, struct io_error *err)
{
    enum { MAX_WORDS = 40 };
    char *words[MAX_WORDS] = {"check"};
    int n = 1;
    for (char *word = strtok(text, " "); word && n < MAX_WORDS; word = strtok(NULL, " ")) {
        words[n++] = word;
    }
    *options = *given;
    problem_options_init(&options->problem);
    options->problem.backend = given->problem.backend;
    options->problem.device = given->problem.device;
    options->problem.dtype = given->problem.dtype;
    options->problem.isa = given->problem.isa;
    options->problem.threads = given->problem.threads;
    options->problem.verbose = given->problem.verbose;
    options->problem.random_seed = given->problem.random_seed;
    struct command_line line = {.usage = "attn check"};
    options_add_group(&line, "", check_table, OPTIONS_COUNT(check_table), options);
    problem_options_add(&line, &options->problem, PROBLEM_ALL);
    return options_parse(&line, n, words, err);
}

static int check_list(const struct check_options *given, struct report *report,
                      struct io_error *err)
{
    struct io_progress progress;
    io_progress_begin(&progress, stderr, "check", N_SUITE);
    int status = 0;
    for (int i = 0; i < N_SUITE && !status; i++) {
        char text[256];
        struct check_options options;
        snprintf(text, sizeof(text), "%s", suite[i]);
        io_progress_update(&progress, i);
        status = parse_suite_row(text, given, &options, err);
        if (!status) {
            status = check_problem(&options, report, err);
        }
        if (!status && report->table && options.all) {
            io_table_rule(report->table);
        }
    }
    io_progress_end(&progress);
    return status;
}

// GPU kernels are for 16-bit types: there the list is gone through in both, or in the one given.
static int check_suite(const struct check_options *given, struct report *report,
                       struct io_error *err)
{
    static const attn_dtype_t dtypes[] = {ATTN_BF16, ATTN_F16};
    if (!is_on_gpu(given) || given->problem.dtype) {
        return check_list(given, report, err);
    }
    int status = 0;
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]) && !status; i++) {
        struct check_options options = *given;
        options.problem.dtype = 1 + (int)dtypes[i];
        status = check_list(&options, report, err);
    }
    return status;
}

// Whether the command line describes a problem at all.
static bool names_a_problem(const struct command_line *line, const struct check_options *options)
{
    // For a GPU the last three say where and in what the list is computed.
    static const char *const neutral[] = {"all",         "json",    "isa",    "threads", "verbose",
                                          "random-seed", "backend", "device", "dtype"};
    const size_t n = sizeof(neutral) / sizeof(neutral[0]) - (is_on_gpu(options) ? 0 : 3);
    size_t given = 0;
    for (size_t i = 0; i < OPTIONS_MAX; i++) {
        given += line->given[i];
    }
    for (size_t i = 0; i < n; i++) {
        given -= options_given(line, neutral[i]);
    }
    return given > 0;
}

static int run_checks(const struct check_options *options, struct report *report,
                      struct io_error *err)
{
    static const char *const columns[] = {"<problem", "<kernel",      "<tensor",  ">max error",
                                          ">rms",     ">plain's max", ">allowed", "<verdict"};
    if (options->json) {
        io_json_begin(&report->json, stdout);
        io_json_array_begin(&report->json, NULL);
    } else {
        const int skipped = !report->is_suite;
        if (io_table_create(&report->table, 8 - skipped, columns + skipped, err)) {
            return -1;
        }
    }
    int status =
        report->is_suite ? check_suite(options, report, err) : check_problem(options, report, err);
    if (options->json) {
        io_json_array_end(&report->json);
        status = status ? status : io_json_finish(&report->json, "standard output", err);
    } else if (!status) {
        status = io_table_print(report->table, stdout, err);
        printf("\n%lld comparisons with the fp64 reference, %d failed",
               (long long)report->comparisons, report->failures);
        printf(report->refusals ? ", %d refused: attn explain says why\n" : "\n", report->refusals);
    }
    io_table_destroy(report->table);
    return status;
}

int cmd_check(int argc, char **argv)
{
    struct check_options options = {0};
    problem_options_init(&options.problem);
    struct command_line line = {
        .usage = "attn check [options]",
        .description =
            "Computes a problem with every instruction set of this machine, or with --backend\n"
            "cuda on a GPU, and compares with the fp64 reference. Without a problem: a list of\n"
            "small ones that touches every option; for a GPU in bf16 and f16, and what it has no\n"
            "kernel for is listed as refused.\n"
            "The allowed error is 2 times (gradients: 3 times) that of a plain implementation in "
            "the\n"
            "same precision, plus the rounding of the result. Exit status 1 if any is larger.",
        .examples =
            "  attn check                                    everything, in some seconds\n"
            "  attn check --seqlen 1000 --heads 8,2 --dim 128 --dtype bf16 --causal --backward\n"
            "  attn check --q q.npy --k k.npy --v v.npy --window 128,0\n"
            "  attn check --isa avx2 --all\n"
            "  attn check --backend cuda                     the list, on the first GPU\n"
            "  attn check --backend cuda --device 1 --dtype f16 --seqlen 4096 --dim 128 --causal\n",
    };
    options_add_group(&line, "Options", check_table, OPTIONS_COUNT(check_table), &options);
    problem_options_add(&line, &options.problem, PROBLEM_ALL);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    struct report report = {.options = &options, .is_suite = !names_a_problem(&line, &options)};
    int status = run_checks(&options, &report, &err);
    if (!status && report.comparisons == 0) {
        status = is_on_gpu(&options)
                     ? io_fail(&err, "nothing was compared: the GPU has no kernel for any of it")
                     : io_fail(&err, "nothing was compared: this machine (or ATTN_ISA) has no such "
                                     "instruction set");
    }
    if (status) {
        return command_fail("check", &err);
    }
    return command_end("check", report.failures ? COMMAND_CHECK_FAILED : COMMAND_OK);
}
