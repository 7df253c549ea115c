// bench_report.c: see bench_report.h.
#include "bench_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/plot.h"
#include "io/table.h"

// How many times as long the peer takes: the median over rounds of the ratio within a round where
// both have the same number of rounds, else the ratio of the medians. NaN: not measured.
static double ratio_to(const struct bench_result *ours, const struct bench_result *peer,
                       int our_rounds, int peer_rounds)
{
    double ratios[BENCH_MAX_ROUNDS];
    size_t n = 0;
    if (!peer) {
        return NAN;
    }
    for (int round = 0; round < our_rounds && our_rounds == peer_rounds; round++) {
        const double ratio = peer->round_median_s[round] / ours->round_median_s[round];
        if (isfinite(ratio)) {
            ratios[n++] = ratio;
        }
    }
    if (n > 0) {
        return bench_summarise(ratios, n).median;
    }
    return bench_summarise(peer->samples_s, peer->n_samples).median /
           bench_summarise(ours->samples_s, ours->n_samples).median;
}

// ------------------------------------------------------------------------------------------------
// Table

static void print_rates(const struct bench_set *set, FILE *stream)
{
    fprintf(stream, "%s, %d thread%s\n", set->machine, set->threads, set->threads == 1 ? "" : "s");
    if (set->has_rates) {
        fprintf(stream,
                "this run's rates, by loops of our own: fp32 FMA on registers %.1f GFLOP/s, "
                "sgemm of 1152 %.1f GFLOP/s, memory read %.1f GB/s\n",
                set->rates.fma_gflops, set->rates.sgemm_gflops, set->rates.read_gbs);
    }
    fputc('\n', stream);
}

static void share_cell(struct io_table *table, double part, double whole)
{
    if (whole > 0.0) {
        io_table_cell(table, "%.0f %%", 100.0 * part / whole);
    } else {
        io_table_cell(table, "-");
    }
}

// The columns of every row; behind them each peer has two. add_row fills them in this order.
static const char *const own_columns[] = {
    "<case", "<kernel", ">ms", ">quartiles", ">GFLOP/s", ">of sgemm", ">GB/s", ">of read",
};
enum { OWN_COLUMNS = sizeof(own_columns) / sizeof(own_columns[0]) };

static void add_row(struct io_table *table, const struct bench_set *sets, int n_sets,
                    const struct bench_result *result)
{
    const struct bench_summary t = bench_summarise(result->samples_s, result->n_samples);
    const double gflops = result->flops / t.median * 1e-9;
    const double gbs = result->bytes / t.median * 1e-9;
    io_table_cell(table, "%s", result->name);
    io_table_cell(table, "%s", result->kernel);
    io_table_cell(table, "%.3f", t.median * 1e3);
    io_table_cell(table, "%.1f %%", 100.0 * (t.high - t.low) / t.median);
    io_table_cell(table, "%.1f", gflops);
    share_cell(table, gflops, sets[0].rates.sgemm_gflops);
    io_table_cell(table, "%.2f", gbs);
    share_cell(table, gbs, sets[0].rates.read_gbs);
    for (int i = 1; i < n_sets; i++) {
        const struct bench_result *peer = bench_set_find(&sets[i], result->name);
        if (!peer) {
            io_table_cell(table, "-");
            io_table_cell(table, "-");
            continue;
        }
        io_table_cell(table, "%.3f",
                      bench_summarise(peer->samples_s, peer->n_samples).median * 1e3);
        io_table_cell(table, "%.2fx", ratio_to(result, peer, sets[0].n_rounds, sets[i].n_rounds));
    }
}

int bench_report_table(const struct bench_set *sets, int n_sets, FILE *stream, struct io_error *err)
{
    const char *columns[OWN_COLUMNS + 2 * BENCH_MAX_SETS];
    char names[BENCH_MAX_SETS][BENCH_NAME_BYTES + 8];
    int n_columns = OWN_COLUMNS;
    memcpy(columns, own_columns, sizeof(own_columns));
    for (int i = 1; i < n_sets; i++) {
        snprintf(names[i], sizeof(names[i]), ">%s ms", sets[i].name);
        columns[n_columns++] = names[i];
        columns[n_columns++] = ">we are";
    }
    struct io_table *table = NULL;
    print_rates(&sets[0], stream);
    if (io_table_create(&table, n_columns, columns, err)) {
        return -1;
    }
    for (size_t i = 0; i < sets[0].n; i++) {
        if (i > 0 && strcmp(sets[0].results[i].series, sets[0].results[i - 1].series) != 0) {
            io_table_rule(table);
        }
        add_row(table, sets, n_sets, &sets[0].results[i]);
    }
    const int status = io_table_print(table, stream, err);
    io_table_destroy(table);
    fprintf(stream, "\nms: median of all samples; quartiles: distance of the outer quartiles, in "
                    "%% of the median; GB/s: every operand counted once\n");
    return status;
}

// ------------------------------------------------------------------------------------------------
// Plot

enum { MAX_POINTS = 64 };

struct curve {
    char name[2 * BENCH_NAME_BYTES + 4];
    double x[MAX_POINTS], y[MAX_POINTS], low[MAX_POINTS], high[MAX_POINTS];
    size_t n;
};

// The points of one series of one set. Peers are drawn at our count of operations.
static void make_curve(const struct bench_set *ours, const struct bench_set *set,
                       const char *series, struct curve *curve)
{
    snprintf(curve->name, sizeof(curve->name), "%s, %s", series, set->name);
    curve->n = 0;
    for (size_t i = 0; i < ours->n && curve->n < MAX_POINTS; i++) {
        const struct bench_result *own = &ours->results[i];
        const struct bench_result *result = bench_set_find(set, own->name);
        if (strcmp(own->series, series) != 0 || !result || result->n_samples == 0) {
            continue;
        }
        const struct bench_summary t = bench_summarise(result->samples_s, result->n_samples);
        curve->x[curve->n] = (double)own->s;
        curve->y[curve->n] = own->flops / t.median * 1e-9;
        curve->low[curve->n] = own->flops / t.high * 1e-9;
        curve->high[curve->n++] = own->flops / t.low * 1e-9;
    }
}

// All curves that have points; the number of them, or more than the most there may be.
static size_t make_curves(const struct bench_set *sets, int n_sets, struct curve *curves,
                          struct io_plot_series *series)
{
    size_t n = 0;
    for (size_t i = 0; i < sets[0].n; i++) {
        const char *name = sets[0].results[i].series;
        bool seen = false;
        for (size_t j = 0; j < i; j++) {
            seen = seen || strcmp(sets[0].results[j].series, name) == 0;
        }
        for (int set = 0; set < n_sets && !seen; set++) {
            if (n == IO_PLOT_MAX_SERIES) {
                return n + 1;
            }
            make_curve(&sets[0], &sets[set], name, &curves[n]);
            if (curves[n].n > 0) {
                series[n] = (struct io_plot_series){
                    .name = curves[n].name,
                    .x = curves[n].x,
                    .y = curves[n].y,
                    .y_low = curves[n].low,
                    .y_high = curves[n].high,
                    .n = curves[n].n,
                    .emphasis = set == 0,
                };
                n++;
            }
        }
    }
    return n;
}

int bench_report_plot(const char *path, const struct bench_set *sets, int n_sets,
                      struct io_error *err)
{
    struct curve *curves = calloc(IO_PLOT_MAX_SERIES + 1, sizeof(*curves));
    struct io_plot_series series[IO_PLOT_MAX_SERIES + 1];
    char subtitle[256];
    if (!curves) {
        return io_fail(err, "%s: out of memory", path);
    }
    const size_t n = make_curves(sets, n_sets, curves, series);
    int status;
    if (n > IO_PLOT_MAX_SERIES) {
        status = io_fail(err, "%s: more than %d lines; choose some with --series", path,
                         IO_PLOT_MAX_SERIES);
    } else {
        const int used = snprintf(subtitle, sizeof(subtitle), "%s, %d threads", sets[0].machine,
                                  sets[0].threads);
        if (sets[0].has_rates && used > 0 && (size_t)used < sizeof(subtitle)) {
            snprintf(subtitle + used, sizeof(subtitle) - (size_t)used,
                     "; sgemm %.0f GFLOP/s in the same run", sets[0].rates.sgemm_gflops);
        }
        const struct io_plot plot = {
            .title = "Attention: speed against sequence length",
            .subtitle = subtitle,
            .x_label = "sequence length",
            .y_label = "GFLOP/s",
            .series = series,
            .n_series = n,
        };
        status = io_plot_save(path, &plot, err);
    }
    free(curves);
    return status;
}
