// command.h: what the subcommands of attn share: exit statuses and the list of commands.
#ifndef ATTN_TOOLS_COMMAND_H
#define ATTN_TOOLS_COMMAND_H

#include "io/io_error.h"
#include "options.h"

enum command_status {
    COMMAND_OK = 0,
    COMMAND_CHECK_FAILED = 1, // it ran, and a comparison failed
    COMMAND_BAD_INPUT = 2,    // bad options, bad files, or it could not run
};

// argv[0] is the command's own name. Returns a command_status.
typedef int (*command_fn)(int argc, char **argv);

// X(name, function, one line of help)
#define COMMANDS(X)                                                                                \
    X(run, cmd_run, "attention of q, k, v from files; writes o and lse")                           \
    X(grad, cmd_grad, "the backward pass; writes dq, dk, dv")                                      \
    X(check, cmd_check, "compares every kernel of this machine with the fp64 reference")           \
    X(bench, cmd_bench, "measures speed, against the machine's own rates and against peers")       \
    X(view, cmd_view, "draws an attention map, or a mask as the kernel sees it")                   \
    X(explain, cmd_explain, "says which kernel a problem gets, and why")                           \
    X(compile, cmd_compile, "compiles GPU kernels ahead of time, into a pack")                     \
    X(cache, cmd_cache, "shows, checks and trims the compiled GPU kernels")                        \
    X(info, cmd_info, "version, processor, GPUs, instruction sets, caches, environment")           \
    X(random, cmd_random, "writes a tensor of random or given numbers, to try things with")        \
    X(demo, cmd_demo, "every layer of a real model: error, time and a picture")

#define COMMAND_DECLARE(name, function, help) int function(int argc, char **argv);
COMMANDS(COMMAND_DECLARE)
#undef COMMAND_DECLARE

// Prints "attn NAME: text" to stderr and gives COMMAND_BAD_INPUT.
int command_fail(const char *name, const struct io_error *err);

// Parses, and handles --help: returns -1 to go on, else the status to return.
int command_begin(struct command_line *line, int argc, char **argv);

// Flushes stdout; a full disk or closed pipe there is an error like any other.
int command_end(const char *name, int status);

#endif
