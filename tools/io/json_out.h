// json_out.h: a streaming JSON writer for `--json`: two-space indent, NaN and inf as null.
//
// Inside an object every value takes a key, inside an array (and at the top) key is NULL. Strings
// are escaped; bytes that are no UTF-8 become U+FFFD. Doubles are written so that they read back
// bit for bit. Misuse (wrong key, unbalanced end, deeper than IO_JSON_MAX_DEPTH) and stream errors
// are remembered and reported by io_json_finish.
#ifndef ATTN_TOOLS_IO_JSON_OUT_H
#define ATTN_TOOLS_IO_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "io_error.h"

enum { IO_JSON_MAX_DEPTH = 32 };

struct io_json {
    FILE *stream;
    int depth;
    bool in_array[IO_JSON_MAX_DEPTH + 1];
    bool has_value[IO_JSON_MAX_DEPTH + 1]; // [0] is the top level
    bool misused;
};

void io_json_begin(struct io_json *json, FILE *stream);
// Ends the document with a newline. path is for error texts.
int io_json_finish(struct io_json *json, const char *path, struct io_error *err);

void io_json_object_begin(struct io_json *json, const char *key);
void io_json_object_end(struct io_json *json);
void io_json_array_begin(struct io_json *json, const char *key);
void io_json_array_end(struct io_json *json);
void io_json_string(struct io_json *json, const char *key, const char *value); // NULL is null
void io_json_number(struct io_json *json, const char *key, double value);
void io_json_integer(struct io_json *json, const char *key, int64_t value);
void io_json_bool(struct io_json *json, const char *key, bool value);
void io_json_null(struct io_json *json, const char *key);

#endif
