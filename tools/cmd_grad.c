// cmd_grad.c: attn grad, the backward pass on files. Runs the forward pass first where o and lse
// are not given.
#include <stdio.h>
#include <string.h>

#include "array_load.h"
#include "command.h"
#include "launch.h"
#include "problem.h"
#include "results.h"

struct grad_options {
    struct problem_options problem;
    const char *do_, *o, *lse, *dlse;
    const char *out, *dq, *dk, *dv, *dsink, *dbias;
};

#define FIELD(member) offsetof(struct grad_options, member)

static const struct option grad_inputs[] = {
    {"do", 0, OPTION_TEXT, FIELD(do_), "FILE[:NAME]", 0, 0, NULL,
     "the gradient that reaches o, shaped like o"},
    {"o", 0, OPTION_TEXT, FIELD(o), "FILE[:NAME]", 0, 0, NULL,
     "o of the forward pass; computed if not given"},
    {"lse", 0, OPTION_TEXT, FIELD(lse), "FILE[:NAME]", 0, 0, NULL,
     "lse of the forward pass; give both or none"},
    {"dlse", 0, OPTION_TEXT, FIELD(dlse), "FILE[:NAME]", 0, 0, NULL,
     "the gradient that reaches lse"},
};

static const struct option grad_outputs[] = {
    {"out", 'O', OPTION_TEXT, FIELD(out), "FILE", 0, 0, NULL,
     "write all gradients into one .safetensors file: dq, dk, dv, and dsink, dbias if any"},
    {"dq", 0, OPTION_TEXT, FIELD(dq), "FILE[:NAME]", 0, 0, NULL, "write dq"},
    {"dk", 0, OPTION_TEXT, FIELD(dk), "FILE[:NAME]", 0, 0, NULL, "write dk"},
    {"dv", 0, OPTION_TEXT, FIELD(dv), "FILE[:NAME]", 0, 0, NULL, "write dv"},
    {"dsink", 0, OPTION_TEXT, FIELD(dsink), "FILE[:NAME]", 0, 0, NULL,
     "write the gradient of the sinks, (H)"},
    {"dbias", 0, OPTION_TEXT, FIELD(dbias), "FILE[:NAME]", 0, 0, NULL,
     "write the gradient of the bias, f32, shaped like the bias"},
};

enum { N_GRADIENTS = 5 };

// The tensors and where they go; specs of absent ones are refused.
static int collect_results(const struct problem *problem, const struct grad_options *options,
                           struct result results[N_GRADIENTS], struct io_error *err)
{
    static const char *const names[N_GRADIENTS] = {"dq", "dk", "dv", "dsink", "dbias"};
    const char *specs[N_GRADIENTS] = {options->dq, options->dk, options->dv, options->dsink,
                                      options->dbias};
    const struct problem_options *p = &options->problem;
    const bool exists[N_GRADIENTS] = {true, true, true, p->sink != NULL, p->bias != NULL};
    bool any = false;
    for (int i = 0; i < N_GRADIENTS; i++) {
        if (specs[i] && !exists[i]) {
            return io_fail(err, "--%s: there is no --%s whose gradient it would be", names[i],
                           names[i] + 1);
        }
        const char *spec = specs[i] ? specs[i] : exists[i] ? options->out : NULL;
        results[i] = (struct result){spec, &problem->tensors[OPERAND_DQ + i], names[i]};
        any = any || spec;
    }
    if (!any) {
        return io_fail(err, "nothing to write: give --out FILE.safetensors, --dq FILE, ...");
    }
    if (options->out && !strstr(options->out, ".safetensors")) {
        return io_fail(err, "--out: %s: several tensors need a .safetensors file", options->out);
    }
    return results_check(results, N_GRADIENTS, err);
}

// Replaces o and lse by those of files.
static int load_forward_results(struct problem *problem, const struct grad_options *options,
                                struct io_error *err)
{
    const struct {
        const char *spec, *name;
        enum problem_operand which;
    } files[2] = {{options->o, "o", OPERAND_O}, {options->lse, "lse", OPERAND_LSE}};
    for (int i = 0; i < 2; i++) {
        struct io_tensor *expected = &problem->tensors[files[i].which];
        struct io_tensor raw;
        if (array_load(files[i].spec, files[i].name, IO_DTYPE_NONE, &raw, err)) {
            return -1;
        }
        int status = 0;
        if (raw.ndim != expected->ndim ||
            memcmp(raw.shape, expected->shape, sizeof(raw.shape)) != 0) {
            char got[128];
            char want[128];
            status = io_fail(err, "%s: %s: shape %s, expected %s", files[i].name, files[i].spec,
                             io_shape_format(raw.ndim, raw.shape, got, sizeof(got)),
                             io_shape_format(expected->ndim, expected->shape, want, sizeof(want)));
        } else if (problem_attn_dtype(raw.dtype) < 0) {
            status = io_fail(err, "%s: %s: dtype %s, expected floats", files[i].name, files[i].spec,
                             io_dtype_name(raw.dtype));
        }
        struct io_tensor converted = {0};
        status = status ? status : io_tensor_convert(&raw, expected->dtype, &converted, err);
        io_tensor_clear(&raw);
        if (status) {
            return status;
        }
        memcpy(expected->data, converted.data, expected->bytes);
        io_tensor_clear(&converted);
    }
    return 0;
}

static int grad(const struct grad_options *options, struct io_error *err)
{
    struct problem problem = {0};
    attn_context_t *context = NULL;
    struct result results[N_GRADIENTS];
    char kernel[LAUNCH_NAME_BYTES];
    double seconds = 0.0;
    int status = collect_results(&problem, options, results, err);
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
        status = options->o ? load_forward_results(&problem, options, err)
                            : launch_once(context, &problem, ATTN_FORWARD, NULL, err);
    }
    if (!status) {
        status = problem_add_gradient_inputs(&problem, options->do_, options->dlse, 0, err);
    }
    if (!status) {
        status = problem_add_backward_results(&problem, err);
    }
    if (!status) {
        const double start = launch_clock();
        status = launch_once(context, &problem, ATTN_BACKWARD, kernel, err);
        seconds = launch_clock() - start;
    }
    status = status ? status : results_write(results, N_GRADIENTS, err);
    if (!status) {
        char title[256];
        problem_title(&problem, title, sizeof(title));
        printf("%s\n%s, %.3f ms with planning\n", title, kernel, seconds * 1e3);
    }
    attn_context_destroy(context);
    problem_destroy(&problem);
    return status;
}

int cmd_grad(int argc, char **argv)
{
    struct grad_options options = {0};
    problem_options_init(&options.problem);
    struct command_line line = {
        .usage = "attn grad --q FILE --k FILE --v FILE --do FILE --out FILE.safetensors [options]",
        .description =
            "Computes the gradients of q, k and v (and of sinks and bias, where given) from the\n"
            "gradient do that reaches the output. o and lse of the forward pass may be given;\n"
            "otherwise the forward pass runs first.",
        .examples =
            "  attn grad --q q.npy --k k.npy --v v.npy --do do.npy --causal --out g.safetensors\n"
            "  attn grad -i x.safetensors --do do.npy --dq dq.npy --dk dk.npy --dv dv.npy\n"
            "  attn grad -i x.safetensors --do do.npy --sink 0,1,5,-5 --dsink dsink.npy\n",
    };
    options_add_group(&line, "Inputs of the backward pass", grad_inputs, OPTIONS_COUNT(grad_inputs),
                      &options);
    options_add_group(&line, "Results", grad_outputs, OPTIONS_COUNT(grad_outputs), &options);
    problem_options_add(&line, &options.problem, PROBLEM_ALL & ~(unsigned)PROBLEM_SHAPE);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    if (!options.do_) {
        io_fail(&err, "do: missing; give --do FILE");
        return command_fail("grad", &err);
    }
    if (!options.o != !options.lse) {
        io_fail(&err, "--o and --lse: give both or none");
        return command_fail("grad", &err);
    }
    if (grad(&options, &err)) {
        return command_fail("grad", &err);
    }
    return command_end("grad", COMMAND_OK);
}
