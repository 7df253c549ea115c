// bench_report.h: measurements as a table for people and as a plot.
#ifndef ATTN_TOOLS_BENCH_REPORT_H
#define ATTN_TOOLS_BENCH_REPORT_H

#include <stdio.h>

#include "bench_results.h"

// sets[0] is ours; the others are peers, each a column of times and one of ratios.
int bench_report_table(const struct bench_set *sets, int n_sets, FILE *stream,
                       struct io_error *err);

// Speed against sequence length, a line for each series of each set. Works at our flops for peers
// too: the work is the same.
int bench_report_plot(const char *path, const struct bench_set *sets, int n_sets,
                      struct io_error *err);

#endif
