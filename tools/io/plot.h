// plot.h: the line plot of `attn bench`: a figure over sequence length, one line per series.
//
// x is drawn on a log2 axis, y on a linear one from 0. Points that are not finite, or whose x is
// not positive, or whose y is beyond 1e30, are left out; such a gap breaks the line.
#ifndef ATTN_TOOLS_IO_PLOT_H
#define ATTN_TOOLS_IO_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "io_error.h"

enum { IO_PLOT_MAX_SERIES = 16 };

struct io_plot_series {
    const char *name;     // in the legend
    const double *x;      // n values, rising
    const double *y;      // n values, e.g. TFLOP/s
    const double *y_low;  // n values or NULL: lower and upper end of the spread,
    const double *y_high; // drawn as a whisker
    size_t n;
    bool emphasis; // ours: a thicker line; peers are thin
};

struct io_plot {
    const char *title;
    const char *subtitle; // one line: machine, dtype, shape, date; may be NULL
    const char *x_label;
    const char *y_label;
    const struct io_plot_series *series;
    size_t n_series; // 1..IO_PLOT_MAX_SERIES
};

// Writes the plot as SVG; path is for error texts. errors: no series or too many, no finite point.
int io_plot_write(FILE *stream, const char *path, const struct io_plot *plot, struct io_error *err);

// The same into a file, atomically.
int io_plot_save(const char *path, const struct io_plot *plot, struct io_error *err);

#endif
