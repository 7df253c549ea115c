// table.c: text tables. All cells are kept as strings in one growing array, row after row.
#include "table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

struct table_cell {
    char *text;      // owned
    bool rule_above; // set on a row's first cell
};

struct io_table {
    int n_columns;
    char *names[IO_TABLE_MAX_COLUMNS];
    bool right[IO_TABLE_MAX_COLUMNS];
    struct table_cell *cells;
    size_t n_cells;
    size_t capacity;
    bool rule_pending;
    bool failed;
};

int io_table_create(struct io_table **table_out, int n_columns, const char *const *columns,
                    struct io_error *err)
{
    *table_out = NULL;
    if (n_columns < 1 || n_columns > IO_TABLE_MAX_COLUMNS) {
        return io_fail(err, "a table of %d columns, must be 1 to %d", n_columns,
                       IO_TABLE_MAX_COLUMNS);
    }
    struct io_table *table = calloc(1, sizeof(*table));
    if (!table) {
        return io_fail(err, "out of memory for a table");
    }
    table->n_columns = n_columns;
    for (int i = 0; i < n_columns; i++) {
        table->right[i] = columns[i][0] == '>';
        const bool marked = columns[i][0] == '>' || columns[i][0] == '<';
        table->names[i] = strdup(columns[i] + marked);
        if (!table->names[i]) {
            io_table_destroy(table);
            return io_fail(err, "out of memory for a table");
        }
    }
    *table_out = table;
    return 0;
}

// Takes text over, also on failure; NULL counts as a failed allocation.
static void add_cell(struct io_table *table, char *text)
{
    if (table->n_cells == table->capacity && text) {
        const size_t capacity = table->capacity ? 2 * table->capacity : 64;
        struct table_cell *grown = realloc(table->cells, capacity * sizeof(*grown));
        if (grown) {
            table->cells = grown;
            table->capacity = capacity;
        }
    }
    if (!text || table->n_cells == table->capacity) {
        table->failed = true;
        free(text);
        return;
    }
    table->cells[table->n_cells++] =
        (struct table_cell){.text = text, .rule_above = table->rule_pending};
    table->rule_pending = false;
}

void io_table_cell(struct io_table *table, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text) {
        vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    va_end(args);
    add_cell(table, text);
}

void io_table_rule(struct io_table *table)
{
    while (!table->failed && table->n_cells % (size_t)table->n_columns != 0) {
        add_cell(table, strdup(""));
    }
    table->rule_pending = true;
}

static void put_spaces(FILE *stream, size_t n)
{
    fprintf(stream, "%*s", (int)n, "");
}

static void put_rule(const struct io_table *table, FILE *stream, const size_t *width)
{
    for (int i = 0; i < table->n_columns; i++) {
        fputs(i ? "  " : "", stream);
        for (size_t k = 0; k < width[i]; k++) {
            fputc('-', stream);
        }
    }
    fputc('\n', stream);
}

// One cell; the last one of a line gets no trailing spaces.
static void put_cell(const struct io_table *table, FILE *stream, const size_t *width, int column,
                     const char *text)
{
    const size_t pad = width[column] - io_utf8_length(text);
    const bool is_last = column == table->n_columns - 1;
    fputs(column ? "  " : "", stream);
    if (table->right[column]) {
        put_spaces(stream, pad);
    }
    fputs(text, stream);
    if (!table->right[column] && !is_last) {
        put_spaces(stream, pad);
    }
    if (is_last) {
        fputc('\n', stream);
    }
}

int io_table_print(struct io_table *table, FILE *stream, struct io_error *err)
{
    const size_t n_columns = (size_t)table->n_columns;
    while (!table->failed && table->n_cells % n_columns != 0) {
        add_cell(table, strdup(""));
    }
    if (table->failed) {
        return io_fail(err, "out of memory for a table");
    }
    size_t width[IO_TABLE_MAX_COLUMNS];
    for (size_t i = 0; i < n_columns; i++) {
        width[i] = io_utf8_length(table->names[i]);
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        const size_t length = io_utf8_length(table->cells[i].text);
        width[i % n_columns] = length > width[i % n_columns] ? length : width[i % n_columns];
    }
    for (int i = 0; i < table->n_columns; i++) {
        put_cell(table, stream, width, i, table->names[i]);
    }
    put_rule(table, stream, width);
    for (size_t i = 0; i < table->n_cells; i++) {
        if (table->cells[i].rule_above) {
            put_rule(table, stream, width);
        }
        put_cell(table, stream, width, (int)(i % n_columns), table->cells[i].text);
    }
    if (ferror(stream)) {
        return io_fail(err, "cannot print a table: %s", strerror(errno));
    }
    return 0;
}

void io_table_destroy(struct io_table *table)
{
    if (!table) {
        return;
    }
    for (int i = 0; i < table->n_columns; i++) {
        free(table->names[i]);
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        free(table->cells[i].text);
    }
    free(table->cells);
    free(table);
}
