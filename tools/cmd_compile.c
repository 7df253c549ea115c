// cmd_compile.c: attn compile, GPU kernels ahead of time, for machines that shall not compile.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_shapes.h"
#include "command.h"
#include "io/json_out.h"
#include "launch.h"
#include "problem.h"

struct compile_options {
    struct problem_options problem;
    const char *archs, *out;
    bool backward, json;
};

static const struct option compile_table[] = {
    {"arch", 'a', OPTION_TEXT, offsetof(struct compile_options, archs), "sm_90a,...", 0, 0, NULL,
     "architectures to compile for; required"},
    {"out", 'o', OPTION_TEXT, offsetof(struct compile_options, out), "FILE", 0, 0, NULL,
     "the pack to write; required"},
    {"backward", 0, OPTION_FLAG, offsetof(struct compile_options, backward), NULL, 0, 0, NULL,
     "the kernels of the backward pass, not of the forward pass"},
    {"json", 0, OPTION_FLAG, offsetof(struct compile_options, json), NULL, 0, 0, NULL,
     "print as JSON"},
};

// The problems that were asked for: the cases of the shape files, or the one of the options.
struct wanted {
    struct bench_shapes shapes;
    attn_desc_t descs[BENCH_MAX_CASES];
    const attn_desc_t *list[BENCH_MAX_CASES];
    attn_op_t ops[BENCH_MAX_CASES];
};

static int read_problems(const struct compile_options *options, const struct command_line *line,
                         struct wanted *wanted, struct io_error *err)
{
    for (size_t i = 0; i < line->n_positional; i++) {
        if (bench_shapes_read(line->positional[i], &options->problem, &wanted->shapes, err)) {
            return -1;
        }
    }
    if (line->n_positional == 0) {
        wanted->shapes.n = 1;
        wanted->shapes.cases[0].options = options->problem;
    }
    if (wanted->shapes.n == 0) {
        return io_fail(err, "nothing to compile: the shape files have no case");
    }
    for (size_t i = 0; i < wanted->shapes.n; i++) {
        const struct bench_case *c = &wanted->shapes.cases[i];
        struct problem problem = {0};
        const int status = problem_create(&problem, &c->options, true, err);
        wanted->descs[i] = problem.desc;
        wanted->list[i] = &wanted->descs[i];
        wanted->ops[i] = c->backward || options->backward ? ATTN_BACKWARD : ATTN_FORWARD;
        problem_destroy(&problem);
        if (status) {
            return -1;
        }
    }
    return 0;
}

// The library's reason, with the problem's place in the list as a user knows it.
static int fail_problem(const struct wanted *wanted, attn_status_t status, struct io_error *err)
{
    const char *reason = attn_last_error();
    size_t place = 0;
    int used = 0;
    if (sscanf(reason, "descs[%zu]: %n", &place, &used) != 1 || used == 0 ||
        place >= wanted->shapes.n) {
        return io_fail(err, "%s: %s", attn_status_string(status), reason);
    }
    const struct bench_case *c = &wanted->shapes.cases[place];
    if (c->series[0] == '\0') {
        return io_fail(err, "%s: %s", attn_status_string(status), reason + used);
    }
    return io_fail(err, "%s/%lld: %s: %s", c->series, (long long)c->s, attn_status_string(status),
                   reason + used);
}

static int print_result(const struct compile_options *options, size_t problems, int64_t kernels,
                        double seconds, struct io_error *err)
{
    if (!options->json) {
        printf("%s: kernels %lld, problems %zu, architectures %s, %.2f s\n", options->out,
               (long long)kernels, problems, options->archs, seconds);
        return 0;
    }
    struct io_json out;
    io_json_begin(&out, stdout);
    io_json_object_begin(&out, NULL);
    io_json_string(&out, "pack", options->out);
    io_json_string(&out, "archs", options->archs);
    io_json_integer(&out, "problems", (int64_t)problems);
    io_json_integer(&out, "kernels", kernels);
    io_json_number(&out, "seconds", seconds);
    io_json_object_end(&out);
    return io_json_finish(&out, "standard output", err);
}

static int compile(const struct compile_options *options, const struct command_line *line,
                   struct io_error *err)
{
    attn_context_t *context = NULL;
    struct wanted *wanted = calloc(1, sizeof(*wanted));
    int status = wanted ? read_problems(options, line, wanted, err) : io_fail(err, "out of memory");
    status = status ? status : launch_context(&options->problem, &context, err);
    if (!status) {
        int64_t kernels;
        const double begin = launch_clock();
        const attn_status_t made =
            attn_pack_create(context, options->out, options->archs, wanted->list, wanted->ops,
                             wanted->shapes.n, &kernels);
        status =
            made ? fail_problem(wanted, made, err)
                 : print_result(options, wanted->shapes.n, kernels, launch_clock() - begin, err);
    }
    attn_context_destroy(context);
    free(wanted);
    return status;
}

int cmd_compile(int argc, char **argv)
{
    struct compile_options options = {0};
    problem_options_init(&options.problem);
    struct command_line line = {
        .usage = "attn compile --arch sm_90a,... -o PACK [SHAPES...] [options]",
        .description =
            "Compiles the GPU kernels that problems need, for the architectures named, into one\n"
            "file, beside those of merge and append. Problems are those of shape files (as attn\n"
            "bench reads them), or one from the options. NVRTC must be there, a GPU need not.\n"
            "Programs find the pack by the variable ATTN_PACK (several with colons), and compile\n"
            "nothing that is in it; ATTN_JIT=0 forbids them to compile at all.",
        .examples =
            "  attn compile --arch sm_90a --dtype bf16 --seqlen 4096 --dim 128 --causal -o k.pack\n"
            "  attn compile --arch sm_90a bench/shapes/hopper.txt -o kernels.pack\n"
            "  ATTN_PACK=kernels.pack ATTN_JIT=0 ./program\n",
        .max_positional = OPTIONS_MAX_POSITIONAL,
    };
    options_add_group(&line, "Options", compile_table, OPTIONS_COUNT(compile_table), &options);
    problem_options_add(&line, &options.problem, PROBLEM_ALL);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    if (!options.archs || !options.out) {
        io_fail(&err, "%s: missing; --help shows how", options.archs ? "--out" : "--arch");
        return command_fail("compile", &err);
    }
    return compile(&options, &line, &err) ? command_fail("compile", &err)
                                          : command_end("compile", COMMAND_OK);
}
