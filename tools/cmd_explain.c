// cmd_explain.c: attn explain, which kernel a problem gets and why, or why none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "io/json_out.h"
#include "launch.h"
#include "problem.h"

struct explain_options {
    struct problem_options problem;
    bool backward, json;
};

static const struct option explain_table[] = {
    {"backward", 0, OPTION_FLAG, offsetof(struct explain_options, backward), NULL, 0, 0, NULL,
     "explain the backward pass"},
    {"json", 0, OPTION_FLAG, offsetof(struct explain_options, json), NULL, 0, 0, NULL,
     "print as JSON"},
};

// The library's explanation in fresh memory, or NULL with err filled.
static char *explain_text(attn_context_t *context, const attn_desc_t *desc, attn_op_t op,
                          struct io_error *err)
{
    size_t needed = 0;
    attn_status_t status = attn_explain(context, desc, op, NULL, 0, &needed);
    char *text = status ? NULL : malloc(needed + 1);
    if (text) {
        status = attn_explain(context, desc, op, text, needed + 1, &needed);
    }
    if (status || !text) {
        io_fail(err, "%s: %s", attn_status_string(status), status ? attn_last_error() : "text");
        free(text);
        return NULL;
    }
    return text;
}

static int print_json(attn_context_t *context, const struct problem *problem, attn_op_t op,
                      const char *text, struct io_error *err)
{
    char title[256];
    problem_title(problem, title, sizeof(title));
    struct launch launch = {0};
    struct io_error reason = {{0}};
    const bool supported = launch_create(&launch, context, &problem->desc, op, &reason) == 0;
    struct io_json out;
    io_json_begin(&out, stdout);
    io_json_object_begin(&out, NULL);
    io_json_string(&out, "problem", title);
    io_json_string(&out, "op", op == ATTN_FORWARD ? "forward" : "backward");
    io_json_bool(&out, "supported", supported);
    io_json_string(&out, "reason", supported ? NULL : reason.text);
    io_json_string(&out, "kernel", supported ? attn_plan_kernel_name(launch.plan) : NULL);
    io_json_integer(&out, "workspace_bytes", supported ? (int64_t)launch.workspace_bytes : 0);
    io_json_string(&out, "text", text);
    io_json_object_end(&out);
    launch_destroy(&launch);
    return io_json_finish(&out, "standard output", err);
}

static int explain(const struct explain_options *options, struct io_error *err)
{
    struct problem problem = {0};
    attn_context_t *context = NULL;
    char *text = NULL;
    const attn_op_t op = options->backward ? ATTN_BACKWARD : ATTN_FORWARD;
    int status = problem_create(&problem, &options->problem, true, err);
    problem.desc.wants_lse = 1;
    status = status ? status : launch_context(&options->problem, &context, err);
    if (!status) {
        text = explain_text(context, &problem.desc, op, err);
        status = text ? 0 : -1;
    }
    if (!status && options->json) {
        status = print_json(context, &problem, op, text, err);
    } else if (!status) {
        const size_t len = strlen(text);
        printf("%s%s", text, len && text[len - 1] == '\n' ? "" : "\n");
    }
    free(text);
    attn_context_destroy(context);
    problem_destroy(&problem);
    return status;
}

int cmd_explain(int argc, char **argv)
{
    struct explain_options options = {0};
    problem_options_init(&options.problem);
    struct command_line line = {
        .usage = "attn explain [options]",
        .description = "Says which kernel would run for a problem and why, with tiles, splits and "
                       "workspace; or\n"
                       "which requirement each candidate fails. Nothing is computed and no memory "
                       "is taken for\n"
                       "operands, so any size can be asked for.",
        .examples = "  attn explain --seqlen 4096 --heads 32,8 --dim 128 --dtype bf16 --causal\n"
                    "  attn explain --seqlen 1,131072 --heads 32,8 --dim 128\n"
                    "  attn explain --backend cuda\n",
    };
    options_add_group(&line, "Options", explain_table, OPTIONS_COUNT(explain_table), &options);
    problem_options_add(&line, &options.problem, PROBLEM_ALL);
    const int early = command_begin(&line, argc, argv);
    if (early >= 0) {
        return early;
    }
    struct io_error err = {{0}};
    return explain(&options, &err) ? command_fail("explain", &err)
                                   : command_end("explain", COMMAND_OK);
}
