// bench_shapes.c: see bench_shapes.h.
#include "bench_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"

enum { MAX_LENGTHS = 32, MAX_LINE = 512 };

struct line_state {
    const char *path;
    int number;
    struct bench_case row;
    int64_t lengths[MAX_LENGTHS];
    int n_lengths;
    int64_t sq;
    int64_t tokens;
    bool is_packed;
};

static int fail_word(const struct line_state *line, const char *word, const char *expected,
                     struct io_error *err)
{
    return io_fail(err, "%s:%d: '%s', expected %s", line->path, line->number, word, expected);
}

static int read_count(const char *text, int64_t *out)
{
    return options_parse_int(text, out) || *out < 0 || *out > 1000000000 ? -1 : 0;
}

// "N", or "N<separator>M"; N alone gives both.
static int read_pair(char *text, char separator, int64_t out[2])
{
    char *second = strchr(text, separator);
    if (second) {
        *second++ = 0;
    }
    return options_parse_int(text, &out[0]) || options_parse_int(second ? second : text, &out[1]);
}

static int read_lengths(struct line_state *line, char *text)
{
    for (char *word = text; word; text = word) {
        word = strchr(text, ',');
        if (word) {
            *word++ = 0;
        }
        if (line->n_lengths == MAX_LENGTHS || read_count(text, &line->lengths[line->n_lengths])) {
            return -1;
        }
        line->n_lengths++;
    }
    return 0;
}

static int read_dtype(const char *text, int *out)
{
    const int dtype = problem_attn_dtype(io_dtype_from_name(text));
    *out = 1 + dtype;
    return dtype < 0 || dtype == (int)ATTN_F64 ? -1 : 0;
}

static int read_key(struct line_state *line, const char *key, char *value)
{
    struct problem_options *o = &line->row.options;
    if (strcmp(key, "b") == 0) {
        return read_count(value, &o->batch);
    }
    if (strcmp(key, "s") == 0) {
        return read_lengths(line, value);
    }
    if (strcmp(key, "packed") == 0) {
        line->is_packed = true;
        return read_lengths(line, value);
    }
    if (strcmp(key, "tokens") == 0) {
        return read_count(value, &line->tokens);
    }
    if (strcmp(key, "mask") == 0) {
        o->mask = "random";
        return strcmp(value, o->mask);
    }
    if (strcmp(key, "sq") == 0) {
        return read_count(value, &line->sq);
    }
    if (strcmp(key, "h") == 0) {
        return read_pair(value, '/', o->heads);
    }
    if (strcmp(key, "d") == 0) {
        return read_pair(value, '/', o->dim);
    }
    if (strcmp(key, "dtype") == 0) {
        return read_dtype(value, &o->dtype);
    }
    if (strcmp(key, "window") == 0) {
        return read_pair(value, ',', o->window);
    }
    if (strcmp(key, "softcap") == 0) {
        return options_parse_number(value, &o->softcap);
    }
    if (strcmp(key, "splits") == 0) {
        return read_count(value, &o->splits);
    }
    return -1;
}

static int read_word(struct line_state *line, const char *word, struct io_error *err)
{
    char text[MAX_LINE];
    snprintf(text, sizeof(text), "%s", word);
    char *equals = strchr(text, '=');
    if (!equals && strcmp(word, "causal") == 0) {
        line->row.options.causal = true;
        return 0;
    }
    if (!equals && strcmp(word, "backward") == 0) {
        line->row.backward = true;
        return 0;
    }
    if (!equals) {
        return fail_word(line, word, "key=value, causal or backward", err);
    }
    *equals = 0;
    if (read_key(line, text, equals + 1)) {
        return fail_word(
            line, word,
            "b, tokens, s, packed, sq, h, d, dtype, window, softcap, splits or mask with a legal "
            "value",
            err);
    }
    return 0;
}

static struct bench_case *add_case(const struct line_state *line, struct bench_shapes *shapes,
                                   struct io_error *err)
{
    if (shapes->n == BENCH_MAX_CASES) {
        io_fail(err, "%s:%d: more than %d cases", line->path, line->number, BENCH_MAX_CASES);
        return NULL;
    }
    struct bench_case *c = &shapes->cases[shapes->n++];
    *c = line->row;
    return c;
}

static int add_dense_case(const struct line_state *line, int64_t s, struct bench_shapes *shapes,
                          struct io_error *err)
{
    struct bench_case *c = add_case(line, shapes, err);
    if (!c) {
        return -1;
    }
    c->s = s;
    c->options.seqlen[0] = line->sq >= 0 ? line->sq : s;
    c->options.seqlen[1] = s;
    if (line->tokens > 0) {
        c->options.batch = s > 0 && s < line->tokens ? line->tokens / s : 1;
    }
    return 0;
}

// All lengths of the line in one case.
static int add_packed_case(const struct line_state *line, struct bench_shapes *shapes,
                           struct io_error *err)
{
    struct bench_case *c = add_case(line, shapes, err);
    int used = c ? snprintf(c->cu_seqlens, sizeof(c->cu_seqlens), "0") : -1;
    for (int i = 0; i < line->n_lengths && used >= 0; i++) {
        c->s += line->lengths[i];
        used += snprintf(c->cu_seqlens + used, sizeof(c->cu_seqlens) - (size_t)used, ",%lld",
                         (long long)c->s);
        if ((size_t)used >= sizeof(c->cu_seqlens)) {
            return io_fail(err, "%s:%d: packed: too many sequences", line->path, line->number);
        }
    }
    if (!c) {
        return -1;
    }
    c->options.seqlen[0] = c->options.seqlen[1] = c->s;
    c->options.cu_seqlens_q = c->options.cu_seqlens_kv = c->cu_seqlens;
    return 0;
}

// One line into one case for each of its lengths.
static int read_line(struct line_state *line, char *text, const struct problem_options *base,
                     struct bench_shapes *shapes, struct io_error *err)
{
    char *save = NULL;
    text[strcspn(text, "#")] = 0;
    const char *name = strtok_r(text, " \t\r", &save);
    if (!name) {
        return 0;
    }
    if (strlen(name) >= BENCH_NAME_BYTES || strchr(name, '=') || strchr(name, '/')) {
        return fail_word(line, name, "a short name without '=' and '/' first", err);
    }
    memset(&line->row, 0, sizeof(line->row));
    line->row.options = *base;
    line->row.options.heads[0] = line->row.options.heads[1] = 16;
    line->n_lengths = 0;
    line->sq = -1;
    line->tokens = 0;
    line->is_packed = false;
    snprintf(line->row.series, sizeof(line->row.series), "%s", name);
    for (char *word = strtok_r(NULL, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save)) {
        if (read_word(line, word, err)) {
            return -1;
        }
    }
    if (line->n_lengths == 0) {
        return fail_word(line, name, "s=N,N,... or packed=N,N,... behind it", err);
    }
    if (line->is_packed) {
        return add_packed_case(line, shapes, err);
    }
    int status = 0;
    for (int i = 0; i < line->n_lengths && !status; i++) {
        status = add_dense_case(line, line->lengths[i], shapes, err);
    }
    return status;
}

int bench_shapes_read(const char *path, const struct problem_options *base,
                      struct bench_shapes *shapes, struct io_error *err)
{
    struct io_buffer file;
    if (io_file_read(path, &file, err)) {
        return -1;
    }
    struct line_state line = {.path = path};
    int status = 0;
    for (size_t at = 0; at < file.bytes && !status;) {
        char text[MAX_LINE];
        const unsigned char *end = memchr(file.data + at, '\n', file.bytes - at);
        const size_t len = end ? (size_t)(end - file.data) - at : file.bytes - at;
        line.number++;
        if (len >= sizeof(text) || memchr(file.data + at, 0, len)) {
            status = io_fail(err, "%s:%d: no text, or longer than %d characters", path, line.number,
                             MAX_LINE - 1);
            break;
        }
        memcpy(text, file.data + at, len);
        text[len] = 0;
        status = read_line(&line, text, base, shapes, err);
        at += len + 1;
    }
    io_buffer_clear(&file);
    return status;
}
