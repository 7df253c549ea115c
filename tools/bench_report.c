// bench_report.c: see bench_report.h.
#include "bench_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/plot.h"
#include "io/table.h"

// How many times as long the peer takes: the median over rounds of the ratio within a round where
// both have the same number of rounds, else the ratio of the medians.
static double ratio_to(const struct bench_result *ours, const struct bench_result *peer,
                       int our_rounds, int peer_rounds)
{
    double ratios[BENCH_MAX_ROUNDS];
    size_t n = 0;
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

// Of a GPU, which is measured in two protocols.
static bool is_of_gpu(const struct bench_set *set)
{
    bool is = set->rates.copy_gbs > 0.0;
    for (size_t i = 0; i < set->n; i++) {
        is = is || set->results[i].n_sustained > 0;
    }
    return is;
}

static void print_rates(const struct bench_set *set, FILE *stream)
{
    if (is_of_gpu(set)) {
        fprintf(stream, "%s", set->machine);
        if (set->rates.copy_gbs > 0.0) {
            fprintf(stream, ", memory copied in the same run: %.0f GB/s read and written",
                    set->rates.copy_gbs);
        }
        fprintf(stream, "\n\n");
        return;
    }
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

// The columns of every row; behind them each peer has two. cpu_row and gpu_row fill them in this
// order.
static const char *const cpu_columns[] = {
    "<case", "<kernel", ">ms", ">quartiles", ">GFLOP/s", ">of sgemm", ">GB/s", ">of read",
};
static const char *const gpu_columns[] = {
    "<case",      "<kernel",  ">cold us", ">quartiles", ">TFLOP/s",
    ">sustained", ">of gemm", ">MHz",     ">W",         ">pJ/FLOP",
};
enum {
    CPU_COLUMNS = sizeof(cpu_columns) / sizeof(cpu_columns[0]),
    GPU_COLUMNS = sizeof(gpu_columns) / sizeof(gpu_columns[0]),
};

// A number that may not be known.
static void number_cell(struct io_table *table, const char *format, double value)
{
    if (!isfinite(value)) {
        io_table_cell(table, "-");
        return;
    }
    char text[64];
    snprintf(text, sizeof(text), format, value);
    io_table_cell(table, "%s", text);
}

// TFLOP/s cold and sustained, and the sustained state's figures.
static void gpu_row(struct io_table *table, const struct bench_set *sets, int n_sets,
                    const struct bench_result *result)
{
    const struct bench_summary cold = bench_summarise(result->samples_s, result->n_samples);
    const double hot = bench_summarise(result->sustained_s, result->n_sustained).median;
    io_table_cell(table, "%s", result->name);
    io_table_cell(table, "%s", result->kernel);
    io_table_cell(table, "%.1f", cold.median * 1e6);
    io_table_cell(table, "%.1f %%", 100.0 * (cold.high - cold.low) / cold.median);
    io_table_cell(table, "%.0f", result->flops / cold.median * 1e-12);
    number_cell(table, "%.0f", result->flops / hot * 1e-12);
    number_cell(table, "%.0f %%", 100.0 * result->flops / hot * 1e-9 / result->gemm_gflops);
    number_cell(table, "%.0f", result->clock_mhz);
    number_cell(table, "%.0f", result->joules / hot);
    number_cell(table, "%.2f", result->joules / result->flops * 1e12);
    for (int i = 1; i < n_sets; i++) {
        const struct bench_result *peer = bench_set_find(&sets[i], result->name);
        const double theirs =
            peer ? bench_summarise(peer->sustained_s, peer->n_sustained).median : NAN;
        number_cell(table, "%.0f", result->flops / theirs * 1e-12);
        number_cell(table, "%.2fx", theirs / hot);
    }
}

static void cpu_row(struct io_table *table, const struct bench_set *sets, int n_sets,
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
    const bool is_gpu = is_of_gpu(&sets[0]);
    const char *columns[GPU_COLUMNS + 2 * BENCH_MAX_SETS];
    char names[BENCH_MAX_SETS][BENCH_NAME_BYTES + 8];
    int n_columns = is_gpu ? GPU_COLUMNS : CPU_COLUMNS;
    memcpy(columns, is_gpu ? gpu_columns : cpu_columns, (size_t)n_columns * sizeof(*columns));
    for (int i = 1; i < n_sets; i++) {
        snprintf(names[i], sizeof(names[i]), is_gpu ? ">%s" : ">%s ms", sets[i].name);
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
        (is_gpu ? gpu_row : cpu_row)(table, sets, n_sets, &sets[0].results[i]);
    }
    const int status = io_table_print(table, stream, err);
    io_table_destroy(table);
    fprintf(stream, is_gpu ? "\ncold: median of single runs, L2 empty; quartiles: distance of the "
                             "outer quartiles, in %% of the median; sustained, and all to its "
                             "right: back to back on the heated GPU, in TFLOP/s\n"
                           : "\nms: median of all samples; quartiles: distance of the outer "
                             "quartiles, in %% of the median; GB/s: every operand counted once\n");
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

// A GPU's points are those of the sustained protocol, in TFLOP/s; a CPU's are in GFLOP/s.
static struct bench_summary point_of(const struct bench_result *result, bool is_gpu)
{
    return is_gpu ? bench_summarise(result->sustained_s, result->n_sustained)
                  : bench_summarise(result->samples_s, result->n_samples);
}

// The points of one series of one set. Peers are drawn at our count of operations.
static void make_curve(const struct bench_set *ours, const struct bench_set *set,
                       const char *series, struct curve *curve)
{
    const bool is_gpu = is_of_gpu(ours);
    const double unit = is_gpu ? 1e-12 : 1e-9;
    snprintf(curve->name, sizeof(curve->name), "%s, %s", series, set->name);
    curve->n = 0;
    for (size_t i = 0; i < ours->n && curve->n < MAX_POINTS; i++) {
        const struct bench_result *own = &ours->results[i];
        const struct bench_result *result = bench_set_find(set, own->name);
        if (strcmp(own->series, series) != 0 || !result) {
            continue;
        }
        const struct bench_summary t = point_of(result, is_gpu);
        if (!isfinite(t.median)) {
            continue;
        }
        curve->x[curve->n] = (double)own->s;
        curve->y[curve->n] = own->flops / t.median * unit;
        curve->low[curve->n] = own->flops / t.high * unit;
        curve->high[curve->n++] = own->flops / t.low * unit;
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
        const bool is_gpu = is_of_gpu(&sets[0]);
        const int used =
            is_gpu ? snprintf(subtitle, sizeof(subtitle), "%s, sustained", sets[0].machine)
                   : snprintf(subtitle, sizeof(subtitle), "%s, %d threads", sets[0].machine,
                              sets[0].threads);
        if (!is_gpu && sets[0].has_rates && used > 0 && (size_t)used < sizeof(subtitle)) {
            snprintf(subtitle + used, sizeof(subtitle) - (size_t)used,
                     "; sgemm %.0f GFLOP/s in the same run", sets[0].rates.sgemm_gflops);
        }
        const struct io_plot plot = {
            .title = "Attention: speed against sequence length",
            .subtitle = subtitle,
            .x_label = "sequence length",
            .y_label = is_gpu ? "TFLOP/s" : "GFLOP/s",
            .series = series,
            .n_series = n,
        };
        status = io_plot_save(path, &plot, err);
    }
    free(curves);
    return status;
}
