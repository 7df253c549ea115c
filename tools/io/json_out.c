// json_out.c: the streaming JSON writer.
#include "json_out.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

void io_json_begin(struct io_json *json, FILE *stream)
{
    *json = (struct io_json){.stream = stream};
    json->in_array[0] = true; // the top level takes a value without key
}

int io_json_finish(struct io_json *json, const char *path, struct io_error *err)
{
    if (json->misused || json->depth != 0 || !json->has_value[0]) {
        return io_fail(err, "%s: the JSON writer was used in a wrong order", path);
    }
    fputc('\n', json->stream);
    errno = 0;
    if (fflush(json->stream) || ferror(json->stream)) {
        return io_fail(err, "%s: cannot write: %s", path,
                       errno ? strerror(errno) : "an earlier write failed");
    }
    return 0;
}

static void indent(const struct io_json *json)
{
    fprintf(json->stream, "\n%*s", 2 * json->depth, "");
}

static void put_string(FILE *stream, const char *text)
{
    fputc('"', stream);
    for (uint32_t c; (c = io_utf8_next(&text)) != 0;) {
        if (c == '"' || c == '\\') {
            fprintf(stream, "\\%c", (int)c);
        } else if (c == '\n') {
            fputs("\\n", stream);
        } else if (c < 0x20 || c == 0x7f) {
            fprintf(stream, "\\u%04x", (unsigned)c);
        } else {
            io_utf8_put(stream, c);
        }
    }
    fputc('"', stream);
}

// What stands before any value: comma, line, key. False, with nothing printed, on misuse.
static bool start_value(struct io_json *json, const char *key)
{
    const int depth = json->depth;
    const bool second_top = depth == 0 && json->has_value[0];
    if (json->misused || second_top || (key != NULL) == json->in_array[depth]) {
        json->misused = true;
        return false;
    }
    if (json->has_value[depth]) {
        fputc(',', json->stream);
    }
    json->has_value[depth] = true;
    if (depth > 0) {
        indent(json);
    }
    if (key) {
        put_string(json->stream, key);
        fputs(": ", json->stream);
    }
    return true;
}

static void open_scope(struct io_json *json, const char *key, bool is_array)
{
    json->misused = json->misused || json->depth == IO_JSON_MAX_DEPTH;
    if (start_value(json, key)) {
        fputc(is_array ? '[' : '{', json->stream);
        json->depth++;
        json->in_array[json->depth] = is_array;
        json->has_value[json->depth] = false;
    }
}

static void close_scope(struct io_json *json, bool is_array)
{
    if (json->misused || json->depth == 0 || json->in_array[json->depth] != is_array) {
        json->misused = true;
        return;
    }
    const bool has_value = json->has_value[json->depth];
    json->depth--;
    if (has_value) {
        indent(json);
    }
    fputc(is_array ? ']' : '}', json->stream);
}

void io_json_object_begin(struct io_json *json, const char *key)
{
    open_scope(json, key, false);
}

void io_json_object_end(struct io_json *json)
{
    close_scope(json, false);
}

void io_json_array_begin(struct io_json *json, const char *key)
{
    open_scope(json, key, true);
}

void io_json_array_end(struct io_json *json)
{
    close_scope(json, true);
}

void io_json_string(struct io_json *json, const char *key, const char *value)
{
    if (!value) {
        io_json_null(json, key);
    } else if (start_value(json, key)) {
        put_string(json->stream, value);
    }
}

void io_json_number(struct io_json *json, const char *key, double value)
{
    if (!isfinite(value)) {
        io_json_null(json, key);
        return;
    }
    // The fewest digits that read back as the same double; 17 always do.
    char text[32];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    if (start_value(json, key)) {
        fputs(text, json->stream);
    }
}

void io_json_integer(struct io_json *json, const char *key, int64_t value)
{
    if (start_value(json, key)) {
        fprintf(json->stream, "%" PRId64, value);
    }
}

void io_json_bool(struct io_json *json, const char *key, bool value)
{
    if (start_value(json, key)) {
        fputs(value ? "true" : "false", json->stream);
    }
}

void io_json_null(struct io_json *json, const char *key)
{
    if (start_value(json, key)) {
        fputs("null", json->stream);
    }
}
