// options.h: command lines from tables.
//
// A command lists its options in tables; parsing, range checks, the error texts and the option part
// of --help all come from these tables, so that they cannot disagree. An option writes one field of
// a struct that the command owns. What the values mean is left to the commands.
#ifndef ATTN_TOOLS_OPTIONS_H
#define ATTN_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "io/io_error.h"

enum option_type {
    OPTION_FLAG,   // bool, set to true
    OPTION_INT,    // int64_t in [min, max]
    OPTION_U64,    // uint64_t, any
    OPTION_NUMBER, // double in [min, max]
    OPTION_TEXT,   // const char *, borrowed from argv
    OPTION_CHOICE, // int, the index of the word in choices
    OPTION_PAIR,   // int64_t[2] in [min, max], "A" or "A,B"; A alone gives both
};

struct option {
    const char *name; // without the dashes
    char letter;      // one-letter form, 0 if none
    enum option_type type;
    size_t offset;       // of the field in the group's values
    const char *value;   // placeholder in the help; NULL: the choices, or nothing for a flag
    double min, max;     // inclusive; both 0: no bounds
    const char *choices; // words separated by one blank
    const char *help;
};

struct option_group {
    const char *title;
    const struct option *options;
    size_t n;
    void *values; // the struct that offset refers to, holding the defaults
};

enum { OPTIONS_MAX_GROUPS = 12, OPTIONS_MAX = 128, OPTIONS_MAX_POSITIONAL = 16 };

struct command_line {
    const char *usage;       // "attn run --q FILE --k FILE --v FILE -o FILE [options]"
    const char *description; // paragraphs, wrapped by hand
    const char *examples;    // lines
    struct option_group groups[OPTIONS_MAX_GROUPS];
    size_t n_groups;
    size_t max_positional;
    // Filled by options_parse.
    const char *positional[OPTIONS_MAX_POSITIONAL];
    size_t n_positional;
    bool wants_help;
    bool given[OPTIONS_MAX]; // by position over all groups
};

void options_add_group(struct command_line *line, const char *title, const struct option *options,
                       size_t n, void *values);

// Reads argv[1..]. --help and -h set wants_help and stop. The text of a failure names the option,
// its value and what was expected.
int options_parse(struct command_line *line, int argc, char *const *argv, struct io_error *err);

// Whether the option was on the command line.
bool options_given(const struct command_line *line, const char *name);

void options_print_help(const struct command_line *line, FILE *stream);

// A strict decimal number: the whole text, no blanks before it, no overflow.
int options_parse_int(const char *text, int64_t *value_out);
int options_parse_number(const char *text, double *value_out);

#define OPTIONS_COUNT(table) (sizeof(table) / sizeof((table)[0]))

#endif
