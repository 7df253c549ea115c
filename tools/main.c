// main.c: the attn command. Finds the subcommand and calls it; everything else is in cmd_*.c.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "attn.h"
#include "command.h"

struct command {
    const char *name;
    command_fn run;
    const char *help;
};

static const struct command commands[] = {
#define COMMAND_ROW(name, function, help) {#name, function, help},
    COMMANDS(COMMAND_ROW)
#undef COMMAND_ROW
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

int command_fail(const char *name, const struct io_error *err)
{
    fprintf(stderr, "attn %s: %s\n", name, err->text);
    return COMMAND_BAD_INPUT;
}

int command_end(const char *name, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return status;
    }
    struct io_error err;
    io_fail(&err, "standard output: cannot write: %s", strerror(errno));
    return command_fail(name, &err);
}

int command_begin(struct command_line *line, int argc, char **argv)
{
    struct io_error err;
    if (options_parse(line, argc, argv, &err)) {
        return command_fail(argv[0], &err);
    }
    if (line->wants_help) {
        options_print_help(line, stdout);
        return command_end(argv[0], COMMAND_OK);
    }
    return -1;
}

static void print_usage(FILE *stream)
{
    fprintf(stream, "usage: attn COMMAND [options]\n\n"
                    "Exact attention on files, from the command line.\n\nCommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(stream, "  %-10s%s\n", commands[i].name, commands[i].help);
    }
    fprintf(stream,
            "\nattn COMMAND --help teaches a command. A first try, without any files:\n\n"
            "  attn check                                  is everything right on this machine?\n"
            "  attn random --shape 128,8,64 -o q.npy       a tensor to play with: (S, H, D)\n"
            "  attn run --q q.npy --k q.npy --v q.npy --causal -o o.npy\n\n"
            "Exit status: 0 fine, 1 a check failed, 2 bad options or files.\n");
}

int main(int argc, char **argv)
{
    // A closed pipe is an error to report like any other, not a signal.
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        print_usage(stderr);
        return COMMAND_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return command_end("help", COMMAND_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("attn %s\n", attn_version_string());
        return command_end("version", COMMAND_OK);
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "attn: '%s' is no command; attn --help lists them\n", argv[1]);
    return COMMAND_BAD_INPUT;
}
