// options.c: see options.h. Options are matched whole (no abbreviations), --name=value and
// --name value are the same, "--" ends them, and giving one twice is an error: in a long command
// line the second is a slip more often than a wish.
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void options_add_group(struct command_line *line, const char *title, const struct option *options,
                       size_t n, void *values)
{
    line->groups[line->n_groups++] =
        (struct option_group){.title = title, .options = options, .n = n, .values = values};
}

// Where an option stands: its table row, the struct it writes, its position over all groups.
struct found_option {
    const struct option *option;
    void *values;
    size_t position;
};

// Finds by long name (letter 0) or by letter.
static bool find_option(const struct command_line *line, const char *name, size_t name_len,
                        char letter, struct found_option *found)
{
    size_t position = 0;
    for (size_t g = 0; g < line->n_groups; g++) {
        const struct option_group *group = &line->groups[g];
        for (size_t i = 0; i < group->n; i++, position++) {
            const struct option *o = &group->options[i];
            const bool same =
                letter ? o->letter == letter
                       : strlen(o->name) == name_len && memcmp(o->name, name, name_len) == 0;
            if (same) {
                *found = (struct found_option){o, group->values, position};
                return true;
            }
        }
    }
    return false;
}

bool options_given(const struct command_line *line, const char *name)
{
    struct found_option found;
    return find_option(line, name, strlen(name), 0, &found) && line->given[found.position];
}

// ------------------------------------------------------------------------------------------------
// Suggestions for misspelt options

// Edit distance of two short words; 99 for long ones.
static int edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 31 };
    int row[LONGEST + 1];
    const size_t a_len = strlen(a);
    const size_t b_len = strlen(b);
    if (a_len > LONGEST || b_len > LONGEST) {
        return 99;
    }
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_len; j++) {
            const int above = row[j];
            int best = diagonal + (a[i - 1] != b[j - 1]);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[b_len];
}

static const char *nearest_name(const struct command_line *line, const char *name)
{
    const char *nearest = NULL;
    // Two slips at most, and fewer than letters: every name is one slip away from "x".
    int best = strlen(name) < 3 ? (int)strlen(name) : 3;
    for (size_t g = 0; g < line->n_groups; g++) {
        for (size_t i = 0; i < line->groups[g].n; i++) {
            const char *candidate = line->groups[g].options[i].name;
            const int distance = edit_distance(name, candidate);
            if (distance < best) {
                best = distance;
                nearest = candidate;
            }
        }
    }
    return nearest;
}

static int fail_unknown(const struct command_line *line, const char *word, struct io_error *err)
{
    char name[64];
    const char *start = word + strspn(word, "-");
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(start, "="), start);
    const char *nearest = nearest_name(line, name);
    if (nearest) {
        return io_fail(err, "%s: no such option; did you mean --%s?", word, nearest);
    }
    return io_fail(err, "%s: no such option; --help lists them", word);
}

// ------------------------------------------------------------------------------------------------
// Values

int options_parse_int(const char *text, int64_t *value_out)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || isspace((unsigned char)*text)) {
        return -1;
    }
    *value_out = value;
    return 0;
}

int options_parse_number(const char *text, double *value_out)
{
    char *end = NULL;
    errno = 0;
    const double value = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text) || (errno && !isfinite(value))) {
        return -1;
    }
    *value_out = value;
    return 0;
}

static bool bounded(const struct option *o)
{
    return o->min != 0.0 || o->max != 0.0;
}

static int fail_value(const struct option *o, const char *text, const char *expected,
                      struct io_error *err)
{
    if (bounded(o)) {
        return io_fail(err, "--%s: '%s', expected %s in [%.15g, %.15g]", o->name, text, expected,
                       o->min, o->max);
    }
    return io_fail(err, "--%s: '%s', expected %s", o->name, text, expected);
}

static int set_int(const struct option *o, const char *text, int64_t *field, struct io_error *err)
{
    int64_t value;
    const bool bad = options_parse_int(text, &value) ||
                     (bounded(o) && ((double)value < o->min || (double)value > o->max));
    if (bad) {
        return fail_value(o, text, "a whole number", err);
    }
    *field = value;
    return 0;
}

static int set_pair(const struct option *o, const char *text, int64_t *field, struct io_error *err)
{
    char first[32];
    const char *comma = strchr(text, ',');
    const size_t first_len = comma ? (size_t)(comma - text) : strlen(text);
    if (first_len >= sizeof(first)) {
        return fail_value(o, text, "one or two whole numbers", err);
    }
    memcpy(first, text, first_len);
    first[first_len] = 0;
    if (set_int(o, first, &field[0], err)) {
        return -1;
    }
    return set_int(o, comma ? comma + 1 : first, &field[1], err);
}

static int set_u64(const struct option *o, const char *text, uint64_t *field, struct io_error *err)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 0);
    if (!isdigit((unsigned char)*text) || *end || errno) {
        return fail_value(o, text, "a whole number from 0 to 2^64 - 1", err);
    }
    *field = value;
    return 0;
}

static int set_number(const struct option *o, const char *text, double *field, struct io_error *err)
{
    double value;
    const bool bad = options_parse_number(text, &value) || isnan(value) ||
                     (bounded(o) && !(value >= o->min && value <= o->max));
    if (bad) {
        return fail_value(o, text, "a number", err);
    }
    *field = value;
    return 0;
}

static int set_choice(const struct option *o, const char *text, int *field, struct io_error *err)
{
    const size_t len = strlen(text);
    int index = 0;
    for (const char *word = o->choices; word; index++) {
        const size_t word_len = strcspn(word, " ");
        if (word_len == len && memcmp(word, text, len) == 0) {
            *field = index;
            return 0;
        }
        word = word[word_len] ? word + word_len + 1 : NULL;
    }
    return io_fail(err, "--%s: '%s', expected one of: %s", o->name, text, o->choices);
}

static int set_value(const struct found_option *found, const char *text, struct io_error *err)
{
    const struct option *o = found->option;
    void *field = (char *)found->values + o->offset;
    switch (o->type) {
    case OPTION_FLAG: *(bool *)field = true; return 0;
    case OPTION_INT: return set_int(o, text, field, err);
    case OPTION_U64: return set_u64(o, text, field, err);
    case OPTION_NUMBER: return set_number(o, text, field, err);
    case OPTION_TEXT: *(const char **)field = text; return 0;
    case OPTION_CHOICE: return set_choice(o, text, field, err);
    case OPTION_PAIR: return set_pair(o, text, field, err);
    }
    return io_fail(err, "--%s: option of an unknown type", o->name);
}

// ------------------------------------------------------------------------------------------------
// The command line

// One option at argv[*index]; moves *index past it and its value.
static int parse_option(struct command_line *line, int argc, char *const *argv, int *index,
                        struct io_error *err)
{
    const char *word = argv[(*index)++];
    const bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    const size_t name_len = strcspn(name, "=");
    struct found_option found;
    if ((!is_long && name_len != 1) ||
        !find_option(line, name, name_len, is_long ? 0 : name[0], &found)) {
        return fail_unknown(line, word, err);
    }
    if (line->given[found.position]) {
        return io_fail(err, "--%s: given twice", found.option->name);
    }
    line->given[found.position] = true;
    const char *text = name[name_len] == '=' ? name + name_len + 1 : NULL;
    if (found.option->type == OPTION_FLAG) {
        if (text) {
            return io_fail(err, "--%s: takes no value, got '%s'", found.option->name, text);
        }
        return set_value(&found, NULL, err);
    }
    if (!text) {
        if (*index >= argc) {
            return io_fail(err, "--%s: its value is missing", found.option->name);
        }
        text = argv[(*index)++];
    }
    return set_value(&found, text, err);
}

int options_parse(struct command_line *line, int argc, char *const *argv, struct io_error *err)
{
    bool only_positional = false;
    for (int i = 1; i < argc;) {
        const char *word = argv[i];
        if (only_positional || word[0] != '-' || word[1] == 0) {
            if (line->n_positional >= line->max_positional) {
                return io_fail(err, "'%s': unexpected; usage: %s", word, line->usage);
            }
            line->positional[line->n_positional++] = word;
            i++;
        } else if (strcmp(word, "--") == 0) {
            only_positional = true;
            i++;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            line->wants_help = true;
            return 0;
        } else if (parse_option(line, argc, argv, &i, err)) {
            return -1;
        }
    }
    return 0;
}

// ------------------------------------------------------------------------------------------------
// Help

enum { HELP_INDENT = 32, HELP_WIDTH = 98 };

// Prints text wrapped between HELP_INDENT and HELP_WIDTH; the cursor stands at HELP_INDENT.
static void print_wrapped(const char *text, FILE *stream)
{
    int column = HELP_INDENT;
    while (*text) {
        const int word_len = (int)strcspn(text, " ");
        if (column + word_len > HELP_WIDTH && column > HELP_INDENT) {
            fprintf(stream, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        }
        fprintf(stream, "%.*s", word_len, text);
        column += word_len;
        text += word_len;
        if (*text == ' ') {
            text++;
            if (column < HELP_WIDTH) {
                fputc(' ', stream);
                column++;
            }
        }
    }
    fputc('\n', stream);
}

// "--scale X", "-o, --out FILE", "--layout bshd|bhsd".
static int option_heading(const struct option *o, char *text, size_t text_bytes)
{
    char letter[8] = "    ";
    if (o->letter) {
        snprintf(letter, sizeof(letter), "-%c, ", o->letter);
    }
    int n = snprintf(text, text_bytes, "  %s--%s", letter, o->name);
    const char *value = o->value ? o->value : o->choices;
    if (o->type != OPTION_FLAG && value) {
        n += snprintf(text + n, text_bytes - (size_t)n, " %s", value);
        if (!o->value) {
            for (char *c = text + n - strlen(value); *c; c++) {
                *c = *c == ' ' ? '|' : *c;
            }
        }
    }
    return n;
}

static void print_option(const struct option *o, FILE *stream)
{
    char heading[160];
    char help[1024];
    const int n = option_heading(o, heading, sizeof(heading));
    if (bounded(o) && o->max < 1e15) {
        snprintf(help, sizeof(help), "%s (%.15g to %.15g)", o->help, o->min, o->max);
    } else {
        snprintf(help, sizeof(help), "%s", o->help);
    }
    if (n + 2 <= HELP_INDENT) {
        fprintf(stream, "%-*s", HELP_INDENT, heading);
    } else {
        fprintf(stream, "%s\n%*s", heading, HELP_INDENT, "");
    }
    print_wrapped(help, stream);
}

void options_print_help(const struct command_line *line, FILE *stream)
{
    fprintf(stream, "usage: %s\n\n%s\n", line->usage, line->description);
    for (size_t g = 0; g < line->n_groups; g++) {
        fprintf(stream, "\n%s:\n", line->groups[g].title);
        for (size_t i = 0; i < line->groups[g].n; i++) {
            print_option(&line->groups[g].options[i], stream);
        }
    }
    if (line->examples) {
        fprintf(stream, "\nExamples:\n%s", line->examples);
    }
}
