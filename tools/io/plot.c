// plot.c: the line plot over sequence length.
//
//      title
//      subtitle
//      y_label
//        |                         name of the series whose
//        |    lines, whiskers      last point is highest
//        |    and points           ...
//        +--------------------
//               x_label
//
// Names stand at the right, in the order of the lines' ends, so that no legend has to be decoded.
#include "plot.h"

#include <math.h>
#include <string.h>

#include "file.h"
#include "svg.h"
#include "utf8.h"

// The picture, in pixels. Its width grows with the longest name.
enum {
    LEFT = 72,
    TOP = 104,
    PLOT_WIDTH = 600,
    PLOT_HEIGHT = 340,
    BELOW = 64,
    NAME_GAP = 18,      // from the plot to the swatches
    SWATCH = 22,        // width of a swatch
    NAME_LINE = 19,     // height of a name
    MAX_X_TICKS = 12,   // then every second power of two, and so on
    WANTED_Y_TICKS = 6, // roughly
    PIECE_POINTS = 128, // of one polyline element
    MAX_Y_TICKS = 64    // guards the loop against rounding
};
static const double character_width = 7.2; // of the font at 13 pixels, generously
static const double largest_value = 1e30;  // of y, either sign; what is beyond is no measurement

static const char ink[] = "#1f2933";
static const char soft_ink[] = "#616e7c";
static const char grid[] = "#e4e7eb";
static const char axis[] = "#9aa5b1";

// Okabe and Ito's colour-blind safe set (jfly.uni-koeln.de/color), without its yellow, which is too
// faint on white, and with a grey. The second round is dashed.
static const char *const palette[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#7b8794", "#000000"};
enum { PALETTE_COLOURS = sizeof(palette) / sizeof(palette[0]) };

struct scale {
    double x_low; // log2
    double x_high;
    double y_low; // multiples of y_step
    double y_high;
    double y_step;
};

static bool is_visible(const struct io_plot_series *series, size_t idx)
{
    return isfinite(series->x[idx]) && series->x[idx] > 0 && isfinite(series->y[idx]) &&
           fabs(series->y[idx]) <= largest_value;
}

static double to_x(const struct scale *scale, double x)
{
    return LEFT + PLOT_WIDTH * (log2(x) - scale->x_low) / (scale->x_high - scale->x_low);
}

static double to_y(const struct scale *scale, double y)
{
    return TOP + PLOT_HEIGHT * (scale->y_high - y) / (scale->y_high - scale->y_low);
}

// The smallest of 1, 2, 2.5, 5 x 10^k that is >= value.
static double nice_step(double value)
{
    static const double steps[] = {1, 2, 2.5, 5};
    const double magnitude = pow(10, floor(log10(value)));
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i] * magnitude >= value) {
            return steps[i] * magnitude;
        }
    }
    return 10 * magnitude;
}

// False if no point is visible.
static bool find_scale(const struct io_plot *plot, struct scale *scale)
{
    *scale = (struct scale){.x_low = INFINITY, .x_high = -INFINITY};
    for (size_t k = 0; k < plot->n_series; k++) {
        const struct io_plot_series *series = &plot->series[k];
        for (size_t i = 0; i < series->n; i++) {
            if (is_visible(series, i)) {
                scale->x_low = fmin(scale->x_low, log2(series->x[i]));
                scale->x_high = fmax(scale->x_high, log2(series->x[i]));
                scale->y_low = fmin(scale->y_low, series->y[i]);
                scale->y_high = fmax(scale->y_high, series->y[i]);
            }
        }
    }
    if (!isfinite(scale->x_low)) {
        return false;
    }
    if (scale->x_high - scale->x_low < 1) { // so that a power of two is in sight
        scale->x_low = floor(scale->x_low);
        scale->x_high = ceil(scale->x_high);
    }
    scale->x_low -= 0.25;
    scale->x_high += 0.25;
    const double span = scale->y_high - scale->y_low;
    scale->y_step = nice_step(span > 1e-30 ? span / WANTED_Y_TICKS : 1.0 / WANTED_Y_TICKS);
    scale->y_low = floor(scale->y_low / scale->y_step) * scale->y_step;
    scale->y_high = ceil(fmax(scale->y_high / scale->y_step, 1e-9)) * scale->y_step;
    return true;
}

static void draw_head(FILE *stream, const struct io_plot *plot)
{
    io_svg_text(stream, LEFT, 34, plot->title,
                &(struct io_svg_text_style){.fill = ink, .size = 19, .weight = "bold"});
    if (plot->subtitle) {
        io_svg_text(stream, LEFT, 56, plot->subtitle,
                    &(struct io_svg_text_style){.fill = soft_ink, .size = 13});
    }
    io_svg_text(stream, LEFT, TOP - 16, plot->y_label,
                &(struct io_svg_text_style){.fill = soft_ink, .size = 13});
    io_svg_text(stream, LEFT + PLOT_WIDTH / 2.0, TOP + PLOT_HEIGHT + 46, plot->x_label,
                &(struct io_svg_text_style){.fill = soft_ink, .size = 13, .anchor = "middle"});
}

static void draw_y_axis(FILE *stream, const struct scale *scale)
{
    const double first = rint(scale->y_low / scale->y_step);
    for (int i = 0; i <= MAX_Y_TICKS; i++) {
        const double value = (first + i) * scale->y_step;
        if (value > scale->y_high + 0.5 * scale->y_step) {
            break;
        }
        const double y = to_y(scale, value);
        char label[32];
        snprintf(label, sizeof(label), "%.6g", value);
        io_svg_line(stream, LEFT, y, LEFT + PLOT_WIDTH, y,
                    &(struct io_svg_style){.stroke = value == 0 ? axis : grid, .stroke_width = 1});
        io_svg_text(stream, LEFT - 10, y + 4, label,
                    &(struct io_svg_text_style){.fill = soft_ink, .size = 12, .anchor = "end"});
    }
}

// 512, 1k, 2k, ... 1M; k and M are powers of 1024, as sequence lengths are meant.
static void format_power(int power, char *text, size_t text_bytes)
{
    static const char *const units[] = {"", "k", "M", "G"};
    if (power >= 0 && power < 40) {
        snprintf(text, text_bytes, "%d%s", 1 << power % 10, units[power / 10]);
    } else {
        snprintf(text, text_bytes, "2^%d", power);
    }
}

static void draw_x_axis(FILE *stream, const struct scale *scale)
{
    const int first = (int)ceil(scale->x_low);
    const int last = (int)floor(scale->x_high);
    const int every = (last - first) / MAX_X_TICKS + 1;
    for (int power = first; power <= last; power += every) {
        const double x = to_x(scale, ldexp(1.0, power));
        char label[32];
        format_power(power, label, sizeof(label));
        io_svg_line(stream, x, TOP, x, TOP + PLOT_HEIGHT,
                    &(struct io_svg_style){.stroke = grid, .stroke_width = 1});
        io_svg_line(stream, x, TOP + PLOT_HEIGHT, x, TOP + PLOT_HEIGHT + 5,
                    &(struct io_svg_style){.stroke = axis, .stroke_width = 1});
        io_svg_text(stream, x, TOP + PLOT_HEIGHT + 21, label,
                    &(struct io_svg_text_style){.fill = soft_ink, .size = 12, .anchor = "middle"});
    }
    io_svg_line(stream, LEFT, TOP + PLOT_HEIGHT, LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT,
                &(struct io_svg_style){.stroke = axis, .stroke_width = 1});
}

static struct io_svg_style line_style(const struct io_plot *plot, size_t k)
{
    return (struct io_svg_style){.stroke = palette[k % PALETTE_COLOURS],
                                 .stroke_width = plot->series[k].emphasis ? 3 : 1.75,
                                 .dash = k >= PALETTE_COLOURS ? "6 4" : NULL};
}

// The lowest and highest value of the spread at a point; false if it has none.
static bool find_spread(const struct io_plot_series *series, size_t idx, double *low_out,
                        double *high_out)
{
    if (!series->y_low || !series->y_high) {
        return false;
    }
    *low_out = series->y_low[idx];
    *high_out = series->y_high[idx];
    return isfinite(*low_out) && isfinite(*high_out);
}

static void draw_point(FILE *stream, const struct scale *scale, const struct io_plot *plot,
                       size_t k, size_t idx)
{
    const struct io_plot_series *series = &plot->series[k];
    const char *colour = palette[k % PALETTE_COLOURS];
    const double x = to_x(scale, series->x[idx]);
    double low = 0;
    double high = 0;
    char tooltip[256];
    snprintf(tooltip, sizeof(tooltip), "%.100s: %.4g at %.10g", series->name, series->y[idx],
             series->x[idx]);
    io_svg_group_begin(stream, tooltip);
    if (find_spread(series, idx, &low, &high)) {
        // A spread may leave the range of the points; the plot's frame cuts it off.
        low = fmin(fmax(low, scale->y_low), scale->y_high);
        high = fmin(fmax(high, scale->y_low), scale->y_high);
        io_svg_line(stream, x, to_y(scale, low), x, to_y(scale, high),
                    &(struct io_svg_style){.stroke = colour, .stroke_width = 1.5, .opacity = 0.55});
    }
    io_svg_circle(
        stream, x, to_y(scale, series->y[idx]), series->emphasis ? 4.5 : 3.5,
        &(struct io_svg_style){.fill = colour, .stroke = "#ffffff", .stroke_width = 1.25});
    io_svg_group_end(stream);
}

// The line, in pieces: it breaks where a point is missing, and goes on from the last point of a
// piece that is full.
static void draw_line(FILE *stream, const struct scale *scale, const struct io_plot_series *series,
                      const struct io_svg_style *style)
{
    double xy[2 * PIECE_POINTS];
    size_t have = 0;
    for (size_t i = 0; i < series->n; i++) {
        const bool visible = is_visible(series, i);
        if (!visible || have == PIECE_POINTS) {
            io_svg_polyline(stream, xy, have, style);
            if (visible) {
                memcpy(xy, &xy[2 * (PIECE_POINTS - 1)], 2 * sizeof(xy[0]));
            }
            have = visible ? 1 : 0;
        }
        if (visible) {
            xy[2 * have] = to_x(scale, series->x[i]);
            xy[2 * have + 1] = to_y(scale, series->y[i]);
            have++;
        }
    }
    io_svg_polyline(stream, xy, have, style);
}

static void draw_series(FILE *stream, const struct scale *scale, const struct io_plot *plot,
                        size_t k)
{
    const struct io_plot_series *series = &plot->series[k];
    const struct io_svg_style style = line_style(plot, k);
    draw_line(stream, scale, series, &style);
    for (size_t i = 0; i < series->n; i++) {
        if (is_visible(series, i)) {
            draw_point(stream, scale, plot, k, i);
        }
    }
}

// Where the line of a series ends, or the bottom for one that is not there at all.
static double end_of(const struct io_plot_series *series, const struct scale *scale)
{
    for (size_t i = series->n; i > 0; i--) {
        if (is_visible(series, i - 1)) {
            return to_y(scale, series->y[i - 1]);
        }
    }
    return TOP + PLOT_HEIGHT;
}

// Names beside the ends of their lines, from the top, moved apart where they would touch.
static void draw_names(FILE *stream, const struct scale *scale, const struct io_plot *plot)
{
    size_t order[IO_PLOT_MAX_SERIES];
    double y[IO_PLOT_MAX_SERIES]; // y[i] belongs to series order[i]
    const size_t n = plot->n_series;
    for (size_t k = 0; k < n; k++) {
        const double end = end_of(&plot->series[k], scale);
        size_t i = k;
        for (; i > 0 && y[i - 1] > end; i--) {
            y[i] = y[i - 1];
            order[i] = order[i - 1];
        }
        y[i] = end;
        order[i] = k;
    }
    for (size_t i = 1; i < n; i++) {
        y[i] = fmax(y[i], y[i - 1] + NAME_LINE);
    }
    y[n - 1] = fmin(y[n - 1], TOP + PLOT_HEIGHT);
    for (size_t i = n - 1; i > 0; i--) {
        y[i - 1] = fmin(y[i - 1], y[i] - NAME_LINE);
    }
    const double x = LEFT + PLOT_WIDTH + NAME_GAP;
    for (size_t i = 0; i < n; i++) {
        const struct io_plot_series *series = &plot->series[order[i]];
        const struct io_svg_style style = line_style(plot, order[i]);
        io_svg_line(stream, x, y[i], x + SWATCH, y[i], &style);
        io_svg_text(stream, x + SWATCH + 8, y[i] + 4.5, series->name,
                    &(struct io_svg_text_style){
                        .fill = ink, .size = 13, .weight = series->emphasis ? "bold" : NULL});
    }
}

static double picture_width(const struct io_plot *plot)
{
    size_t longest = 0;
    for (size_t k = 0; k < plot->n_series; k++) {
        const size_t length = io_utf8_length(plot->series[k].name);
        longest = length > longest ? length : longest;
    }
    return LEFT + PLOT_WIDTH + NAME_GAP + SWATCH + 24 + character_width * (double)longest;
}

int io_plot_write(FILE *stream, const char *path, const struct io_plot *plot, struct io_error *err)
{
    struct scale scale;
    if (plot->n_series < 1 || plot->n_series > IO_PLOT_MAX_SERIES) {
        return io_fail(err, "%s: a plot of %zu series, must be 1 to %d", path, plot->n_series,
                       IO_PLOT_MAX_SERIES);
    }
    if (!find_scale(plot, &scale)) {
        return io_fail(err, "%s: nothing to plot, no point is finite", path);
    }
    const double width = picture_width(plot);
    const double height = TOP + PLOT_HEIGHT + BELOW;
    io_svg_begin(stream, width, height, plot->title);
    io_svg_rect(stream, 0, 0, width, height, 0, &(struct io_svg_style){.fill = "#ffffff"});
    draw_head(stream, plot);
    draw_y_axis(stream, &scale);
    draw_x_axis(stream, &scale);
    for (int pass = 0; pass < 2; pass++) { // ours on top of the peers
        for (size_t k = 0; k < plot->n_series; k++) {
            if (plot->series[k].emphasis == (pass == 1)) {
                draw_series(stream, &scale, plot, k);
            }
        }
    }
    draw_names(stream, &scale, plot);
    io_svg_end(stream);
    return 0;
}

struct save_arg {
    const char *path;
    const struct io_plot *plot;
};

static int save_body(FILE *stream, void *arg, struct io_error *err)
{
    const struct save_arg *save = arg;
    return io_plot_write(stream, save->path, save->plot, err);
}

int io_plot_save(const char *path, const struct io_plot *plot, struct io_error *err)
{
    struct save_arg save = {.path = path, .plot = plot};
    return io_file_write(path, save_body, &save, err);
}
