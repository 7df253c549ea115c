// cmd_run.c: attn run, the forward pass on files.
#include <stdio.h>

#include "command.h"
#include "io/json_out.h"
#include "launch.h"
#include "problem.h"
#include "results.h"

struct run_options {
    struct problem_options problem;
    const char *out, *lse;
    bool json;
};

static const struct option run_table[] = {
    {"out", 'o', OPTION_TEXT, offsetof(struct run_options, out), "FILE[:NAME]", 0, 0, NULL,
     "write o: .npy, or a tensor (default name o) of a .safetensors file"},
    {"lse", 0, OPTION_TEXT, offsetof(struct run_options, lse), "FILE[:NAME]", 0, 0, NULL,
     "write the log-sum-exp of every row, (B, H, S), f32; may name the same .safetensors"},
    {"json", 0, OPTION_FLAG, offsetof(struct run_options, json), NULL, 0, 0, NULL,
     "print kernel, shape and time as JSON"},
};

static int print_report(const struct problem *problem, const char *kernel, double seconds,
                        bool json, struct io_error *err)
{
    char title[256];
    problem_title(problem, title, sizeof(title));
    if (!json) {
        printf("%s\n%s, %.3f ms\n", title, kernel, seconds * 1e3);
        return 0;
    }
    struct io_json out;
    io_json_begin(&out, stdout);
    io_json_object_begin(&out, NULL);
    io_json_string(&out, "problem", title);
    io_json_string(&out, "kernel", kernel);
    io_json_number(&out, "seconds", seconds);
    io_json_object_end(&out);
    return io_json_finish(&out, "standard output", err);
}

static int run(const struct run_options *options, struct io_error *err)
{
    struct problem problem = {0};
    attn_context_t *context = NULL;
    struct launch launch = {0};
    const struct result results[] = {
        {options->out, &problem.tensors[OPERAND_O], "o"},
        {options->lse, &problem.tensors[OPERAND_LSE], "lse"},
    };
    int status = results_check(results, 2, err);
    if (!status) {
        status = problem_create(&problem, &options->problem, false, err);
    }
    if (!status) {
        status = problem_add_forward_results(&problem, err);
    }
    if (!status) {
        status = launch_context(&options->problem, &context, err);
    }
    if (!status) {
        status = launch_create(&launch, context, &problem.desc, ATTN_FORWARD, err);
    }
    if (!status) {
        status = launch_load(&launch, &problem, err);
    }
    if (!status) {
        const double start = launch_clock();
        status = launch_run(&launch, err);
        const double seconds = launch_clock() - start;
        status = status ? status : launch_fetch(&launch, &problem, err);
        status = status ? status : results_write(results, 2, err);
        if (!status) {
            status = print_report(&problem, attn_plan_kernel_name(launch.plan), seconds,
                                  options->json, err);
        }
    }
    launch_destroy(&launch);
    attn_context_destroy(context);
    problem_destroy(&problem);
    return status;
}

int cmd_run(int argc, char **argv)
{
    struct run_options options = {0};
    problem_options_init(&options.problem);
    struct command_line line = {
        .usage = "attn run --q FILE --k FILE --v FILE -o FILE [options]",
        .description =
            "Computes o = softmax(scale * q k^T) v, exactly, with all the masks and options "
            "below.\n"
            "Operands are (S, H, D) or (B, S, H, D); k and v may have fewer heads than q, then "
            "each\n"
            "serves a group of query heads. Nothing is written unless everything went well.",
        .examples =
            "  attn run --q q.npy --k k.npy --v v.npy --causal -o o.npy --lse lse.npy\n"
            "  attn run -i layer.safetensors:layer3. -o out.safetensors --lse out.safetensors\n"
            "  attn run --q q.npy --k k.npy --v v.npy --dtype bf16 --window 127,0 --softcap 30 "
            "-o o.npy\n"
            "  attn run --q q.npy --k k.npy --v v.npy --cu-seqlens-q 0,100,250 "
            "--cu-seqlens-kv 0,100,250 -o o.npy\n"
            "  attn run -i layer.safetensors --dtype bf16 --backend cuda -o out.safetensors\n",
    };
    options_add_group(&line, "Results", run_table, OPTIONS_COUNT(run_table), &options);
    problem_options_add(&line, &options.problem, PROBLEM_ALL & ~(unsigned)PROBLEM_SHAPE);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    if (!options.out && !options.lse) {
        io_fail(&err, "nothing to write: give --out FILE or --lse FILE");
        return command_fail("run", &err);
    }
    if (run(&options, &err)) {
        return command_fail("run", &err);
    }
    return command_end("run", COMMAND_OK);
}
