// cmd_demo.c: attn demo, real attention from end to end: every layer of a sentence model through
// the library, its error against the model's own outputs, its time, and a picture.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array_load.h"
#include "attention_map.h"
#include "bench_results.h"
#include "command.h"
#include "compare.h"
#include "io/safetensors.h"
#include "io/table.h"
#include "launch.h"
#include "problem.h"
#include "view_map.h"

struct demo_options {
    struct problem_options problem;
    const char *data, *out;
    int64_t layer, head;
};

#define FIELD(member) offsetof(struct demo_options, member)

static const struct option demo_table[] = {
    {"data", 0, OPTION_TEXT, FIELD(data), "FOLDER", 0, 0, NULL,
     "the folder with minilm.safetensors and tokens.txt; default examples/minilm"},
    {"out", 'o', OPTION_TEXT, FIELD(out), "FOLDER", 0, 0, NULL,
     "where the pictures go; default the working folder"},
    {"layer", 0, OPTION_INT, FIELD(layer), "N", 0, 1000, NULL, "the layer in the picture"},
    {"head", 0, OPTION_INT, FIELD(head), "N", 0, 1000, NULL, "the head in the picture"},
};

enum { PATH_BYTES = 4096, SAMPLES = 31 };
// The model's outputs are fp32 and themselves off by up to 1.3e-6 (examples/minilm/README.md).
#define ALLOWED_ERROR 1e-5

static int join_path(char path[PATH_BYTES], const char *folder, const char *name,
                     struct io_error *err)
{
    if (snprintf(path, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES) {
        return io_fail(err, "%s/%s: path too long", folder, name);
    }
    return 0;
}

// Layers layer0, layer1, ... that the file holds.
static int count_layers(const char *path, int64_t *n_out, struct io_error *err)
{
    struct io_safetensors *file = NULL;
    if (io_safetensors_open(path, &file, err)) {
        return -1;
    }
    char name[32];
    *n_out = 0;
    do {
        snprintf(name, sizeof(name), "layer%lld.q", (long long)(*n_out)++);
    } while (io_safetensors_find(file, name));
    (*n_out)--;
    io_safetensors_close(file);
    return *n_out ? 0 : io_fail(err, "%s: no tensor layer0.q", path);
}

// ------------------------------------------------------------------------------------------------
// One layer

struct layer_outcome {
    struct error_stats error; // against the model's o
    struct bench_summary seconds;
    char kernel[LAUNCH_NAME_BYTES];
};

static int load_layer(const struct demo_options *options, const char *path, int64_t layer,
                      struct problem *problem, struct io_error *err)
{
    char input[PATH_BYTES + 32];
    struct problem_options inputs = options->problem;
    snprintf(input, sizeof(input), "%s:layer%lld.", path, (long long)layer);
    inputs.input = input;
    if (problem_create(problem, &inputs, false, err)) {
        return -1;
    }
    return problem_add_forward_results(problem, err);
}

static int time_layer(attn_context_t *context, struct problem *problem,
                      struct layer_outcome *outcome, struct io_error *err)
{
    struct launch launch;
    double samples[SAMPLES];
    if (launch_create(&launch, context, &problem->desc, ATTN_FORWARD, err)) {
        return -1;
    }
    snprintf(outcome->kernel, sizeof(outcome->kernel), "%s", attn_plan_kernel_name(launch.plan));
    int status = launch_load(&launch, problem, err);
    status = status ? status : launch_run(&launch, err);
    for (int i = 0; i < SAMPLES && !status; i++) {
        const double start = launch_clock();
        status = launch_run(&launch, err);
        samples[i] = launch_clock() - start;
    }
    outcome->seconds = bench_summarise(samples, SAMPLES);
    status = status ? status : launch_fetch(&launch, problem, err);
    launch_destroy(&launch);
    return status;
}

static int compare_layer(const char *path, int64_t layer, const struct problem *problem,
                         struct layer_outcome *outcome, struct io_error *err)
{
    char spec[PATH_BYTES + 32];
    struct io_tensor expected;
    snprintf(spec, sizeof(spec), "%s:layer%lld.o", path, (long long)layer);
    if (array_load(spec, "o", IO_DTYPE_NONE, &expected, err)) {
        return -1;
    }
    int status = 0;
    if (expected.count != problem->tensors[OPERAND_O].count) {
        status = io_fail(err, "%s: %lld elements, expected %lld", spec, (long long)expected.count,
                         (long long)problem->tensors[OPERAND_O].count);
    } else {
        outcome->error = compare_tensors(&problem->tensors[OPERAND_O], &expected);
    }
    io_tensor_clear(&expected);
    return status;
}

static int run_layer(const struct demo_options *options, attn_context_t *context, const char *path,
                     int64_t layer, struct layer_outcome *outcome, struct io_error *err)
{
    struct problem problem = {0};
    int status = load_layer(options, path, layer, &problem, err);
    status = status ? status : time_layer(context, &problem, outcome, err);
    status = status ? status : compare_layer(path, layer, &problem, outcome, err);
    problem_destroy(&problem);
    return status;
}

static int run_layers(const struct demo_options *options, attn_context_t *context, const char *path,
                      bool *wrong_out, struct io_error *err)
{
    static const char *const columns[] = {"<layer", ">max error", ">rms", ">largest |o|",
                                          ">ms",    "<kernel",    "<"};
    struct io_table *table = NULL;
    int64_t layers;
    if (count_layers(path, &layers, err) || io_table_create(&table, 7, columns, err)) {
        return -1;
    }
    int status = 0;
    for (int64_t layer = 0; layer < layers && !status; layer++) {
        struct layer_outcome outcome;
        status = run_layer(options, context, path, layer, &outcome, err);
        if (!status) {
            const bool ok = outcome.error.mismatches == 0 && outcome.error.max_abs <= ALLOWED_ERROR;
            *wrong_out = *wrong_out || !ok;
            io_table_cell(table, "%lld", (long long)layer);
            io_table_cell(table, "%.1e", outcome.error.max_abs);
            io_table_cell(table, "%.1e", outcome.error.rms);
            io_table_cell(table, "%.2f", outcome.error.max_reference);
            io_table_cell(table, "%.3f", outcome.seconds.median * 1e3);
            io_table_cell(table, "%s", outcome.kernel);
            io_table_cell(table, "%s", ok ? "ok" : "WRONG");
        }
    }
    status = status ? status : io_table_print(table, stdout, err);
    io_table_destroy(table);
    return status;
}

// ------------------------------------------------------------------------------------------------
// The picture

static int draw(const struct demo_options *options, const char *path, struct io_error *err)
{
    struct problem problem = {0};
    struct attention_map map = {0};
    char tokens[PATH_BYTES];
    char title[128];
    snprintf(title, sizeof(title), "all-MiniLM-L6-v2, layer %lld, head %lld",
             (long long)options->layer, (long long)options->head);
    struct view_map_style style = {.title = title};
    int status = load_layer(options, path, options->layer, &problem, err);
    status = status ? status : attention_map_create(&problem, 0, options->head, &map, err);
    status = status ? status : join_path(tokens, options->data, "tokens.txt", err);
    status = status ? status : view_labels_read(tokens, &style.row_labels, err);
    if (!status && (style.row_labels.n != map.rows || map.rows != map.keys)) {
        status = io_fail(err, "%s: %lld lines, layer %lld has %lld rows and %lld keys", tokens,
                         (long long)style.row_labels.n, (long long)options->layer,
                         (long long)map.rows, (long long)map.keys);
    }
    static const char *const endings[] = {"svg", "png"};
    style.key_labels = style.row_labels; // borrowed
    for (int i = 0; i < 2 && !status; i++) {
        char name[64];
        char picture[PATH_BYTES];
        snprintf(name, sizeof(name), "minilm-layer%lld-head%lld.%s", (long long)options->layer,
                 (long long)options->head, endings[i]);
        status = join_path(picture, options->out, name, err);
        status = status ? status : view_map_save(picture, &map, &style, err);
        if (!status) {
            printf("%s%s", i ? ", " : "\nattention map: ", picture);
        }
    }
    printf("%s", status ? "" : "\n");
    view_labels_destroy(&style.row_labels);
    attention_map_destroy(&map);
    problem_destroy(&problem);
    return status;
}

static int demo(const struct demo_options *options, bool *wrong_out, struct io_error *err)
{
    attn_context_t *context = NULL;
    char path[PATH_BYTES];
    int status = join_path(path, options->data, "minilm.safetensors", err);
    status = status ? status : launch_context(&options->problem, &context, err);
    if (!status) {
        printf("Every attention layer of the sentence model all-MiniLM-L6-v2 on a paragraph of "
               "text,\ncompared with what the model's own framework computed:\n\n");
        status = run_layers(options, context, path, wrong_out, err);
    }
    status = status ? status : draw(options, path, err);
    attn_context_destroy(context);
    return status;
}

int cmd_demo(int argc, char **argv)
{
    struct demo_options options = {.data = "examples/minilm", .out = ".", .layer = 3, .head = 0};
    problem_options_init(&options.problem);
    struct command_line line = {
        .usage = "attn demo [--data FOLDER] [-o FOLDER] [options]",
        .description = "Runs the queries, keys and values of every layer of a real model through "
                       "the library,\n"
                       "prints the error against the model's own outputs and the time (median of "
                       "31 runs), and\n"
                       "draws one head's attention map with its words, as .svg and .png. Exit "
                       "status 1 if any\n"
                       "output is off by more than 1e-5.",
        .examples = "  attn demo\n"
                    "  attn demo --data examples/minilm -o pictures --layer 5 --head 7\n",
    };
    options_add_group(&line, "Options", demo_table, OPTIONS_COUNT(demo_table), &options);
    problem_options_add(&line, &options.problem, PROBLEM_MACHINE);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    bool wrong = false;
    if (demo(&options, &wrong, &err)) {
        fflush(stdout);
        return command_fail("demo", &err);
    }
    return command_end("demo", wrong ? COMMAND_CHECK_FAILED : COMMAND_OK);
}
