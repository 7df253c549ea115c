// table.h: aligned text tables for people. Cells are kept until printed, so columns fit.
#ifndef ATTN_TOOLS_IO_TABLE_H
#define ATTN_TOOLS_IO_TABLE_H

#include <stdio.h>

#include "io_error.h"

enum { IO_TABLE_MAX_COLUMNS = 32 };

struct io_table;

// columns: one string per column, the first character gives the alignment: "<name" left, ">ms"
// right. At most IO_TABLE_MAX_COLUMNS.
int io_table_create(struct io_table **table_out, int n_columns, const char *const *columns,
                    struct io_error *err);

// Adds the next cell, row by row, formatted as printf does. An allocation that fails is remembered
// and reported by io_table_print.
void io_table_cell(struct io_table *table, const char *format, ...) IO_PRINTF_LIKE(2, 3);

// A horizontal rule before the next row. An unfinished row is filled with empty cells first.
void io_table_rule(struct io_table *table);

// Prints header, rule and rows. UTF-8 characters count as one column each.
int io_table_print(struct io_table *table, FILE *stream, struct io_error *err);

void io_table_destroy(struct io_table *table); // NULL is fine

#endif
