// test_io_picture.c: PNG read back by libpng, the colour map, SVG escaping, and the line plot.
#include "io_scratch.h"

#include <math.h>
#include <png.h>

#include "colormap.h"
#include "plot.h"
#include "png_image.h"
#include "svg.h"

static void png_round_trip(void **state)
{
    enum { WIDTH = 37, HEIGHT = 5 };
    const char *path = scratch_path(state, "map.png");
    struct io_error err;
    uint8_t pixels[HEIGHT * WIDTH * 3];
    for (size_t i = 0; i < sizeof(pixels); i++) {
        pixels[i] = (uint8_t)(i * 89);
    }
    assert_int_equal(io_png_save(path, WIDTH, HEIGHT, pixels, &err), 0);
    png_image image = {.version = PNG_IMAGE_VERSION};
    uint8_t back[sizeof(pixels)] = {0};
    assert_true(png_image_begin_read_from_file(&image, path));
    assert_int_equal(image.width, WIDTH);
    assert_int_equal(image.height, HEIGHT);
    image.format = PNG_FORMAT_RGB;
    assert_true(png_image_finish_read(&image, NULL, back, 0, NULL));
    assert_memory_equal(back, pixels, sizeof(pixels));
}

static void png_errors(void **state)
{
    struct io_error err;
    const uint8_t pixel[3] = {0};
    assert_int_equal(io_png_save(scratch_path(state, "no.png"), 0, 1, pixel, &err), -1);
    assert_contains(err.text, "a picture of 0 x 1 pixels");
    assert_int_equal(io_png_save("no.png", 1, IO_PNG_MAX_SIZE + 1, pixel, &err), -1);
    assert_int_equal(access("no.png", F_OK), -1);
    // A stream that cannot be written, without a buffer to hide it.
    FILE *full = fopen("/dev/full", "wb");
    assert_non_null(full);
    setvbuf(full, NULL, _IONBF, 0);
    assert_int_equal(io_png_write(full, "full.png", 1, 1, pixel, &err), -1);
    assert_string_equal(err.text, "full.png: cannot write: No space left on device");
    fclose(full);
}

static void colormap_is_viridis(void **state)
{
    (void)state;
    // Rows 0, 64, 128, 191 and 255 of the published table.
    static const struct {
        double t;
        int rgb[3];
    } known[] = {{0.0, {68, 1, 84}},
                 {64 / 255.0, {59, 82, 139}},
                 {128 / 255.0, {33, 145, 140}},
                 {191 / 255.0, {94, 201, 98}},
                 {1.0, {253, 231, 37}}};
    uint8_t rgb[3];
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        io_colormap_viridis(known[i].t, rgb);
        for (int channel = 0; channel < 3; channel++) {
            assert_in_range(rgb[channel] + 3 - known[i].rgb[channel], 0, 6);
        }
    }
    // Brightness only rises: what makes the map readable in grey.
    double last = -1;
    for (int i = 0; i <= 1000; i++) {
        io_colormap_viridis(i / 1000.0, rgb);
        const double luma = 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
        assert_true(luma > last - 1.0);
        last = fmax(last, luma);
    }
    uint8_t edge[3];
    io_colormap_viridis(0.0, edge);
    io_colormap_viridis(-INFINITY, rgb);
    assert_memory_equal(rgb, edge, 3);
    io_colormap_viridis(NAN, rgb);
    assert_int_equal(rgb[0], 128);
}

static void svg_escapes(void **state)
{
    (void)state;
    FILE *stream = tmpfile();
    assert_non_null(stream);
    io_svg_begin(stream, 10, 10, "a < b & \"c\"");
    io_svg_text(stream, 1.50, -0.001, "x>y\x01\xff\n", &(struct io_svg_text_style){0});
    io_svg_line(stream, NAN, 0, 1, 1, &(struct io_svg_style){.stroke = "#000000"});
    io_svg_rect(stream, 1, 2, 3, 4, 0.125, &(struct io_svg_style){.fill = "\"/><script>"});
    io_svg_group_begin(stream, "<tip>");
    io_svg_polyline(stream, (const double[]){1, 2, 3, 4.5}, 2,
                    &(struct io_svg_style){.stroke = "red", .stroke_width = 1, .dash = "1 2"});
    io_svg_group_end(stream);
    io_svg_end(stream);
    const char *svg = stream_content(stream);
    assert_contains(svg, "<title>a &lt; b &amp; &quot;c&quot;</title>");
    assert_contains(svg, "x=\"1.5\" y=\"0\"");
    assert_contains(svg, ">x&gt;y\xef\xbf\xbd\xef\xbf\xbd </text>");
    assert_contains(svg, "fill=\"&quot;/&gt;&lt;script&gt;\"");
    assert_contains(svg, "<g>\n<title>&lt;tip&gt;</title>");
    assert_contains(svg, "points=\"1,2 3,4.5\"");
    assert_contains(svg, "stroke-dasharray=\"1 2\"");
    assert_null(strstr(svg, "<line"));
    assert_null(strstr(svg, "nan"));
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) {
        n++;
    }
    return n;
}

static const char *plotted(const struct io_plot *plot)
{
    struct io_error err;
    FILE *stream = tmpfile();
    assert_non_null(stream);
    if (io_plot_write(stream, "p.svg", plot, &err)) {
        fail_msg("%s", err.text);
    }
    const char *svg = stream_content(stream);
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    return svg;
}

static void plot_of_two_series(void **state)
{
    const double x[] = {512, 1024, 2048, 4096};
    const double ours[] = {100, 300, 500, 640};
    const double low[] = {90, 290, NAN, 630};
    const double high[] = {110, 310, 510, 9000};
    const double peer[] = {90, NAN, 400, 420};
    const struct io_plot_series series[] = {
        {.name = "libattn", .x = x, .y = ours, .y_low = low, .y_high = high, .n = 4, .emphasis = 1},
        {.name = "peer <1>", .x = x, .y = peer, .n = 4}};
    const struct io_plot plot = {.title = "Forward & backward",
                                 .subtitle = "one machine",
                                 .x_label = "sequence length",
                                 .y_label = "TFLOP/s",
                                 .series = series,
                                 .n_series = 2};
    const char *svg = plotted(&plot);
    assert_int_equal(count(svg, "<circle"), 7);
    assert_int_equal(count(svg, "opacity"), 3);   // whiskers
    assert_int_equal(count(svg, "<polyline"), 3); // one for ours, two around the gap
    assert_contains(svg, ">512</text>");
    assert_contains(svg, ">4k</text>");
    assert_contains(svg, ">800</text>"); // the axis ends on a round number
    assert_contains(svg, ">peer &lt;1&gt;</text>");
    assert_contains(svg, "<title>libattn: 300 at 1024</title>");
    assert_true(strstr(svg, ">libattn</text>") < strstr(svg, ">peer &lt;1&gt;</text>"));
    struct io_error err;
    const char *path = scratch_path(state, "plot.svg");
    assert_int_equal(io_plot_save(path, &plot, &err), 0);
    assert_contains(scratch_content(path), "</svg>");
}

// Axes survive what measurements rarely are: one point, zeros, negative, tiny, huge.
static void plot_of_odd_numbers(void **state)
{
    (void)state;
    const double x[] = {1, 1000, 1e18};
    static const double ys[][3] = {{0, 0, 0},       {-5, 3, 2},          {1e-12, 2e-12, 3e-12},
                                   {1e29, 1, 2e29}, {INFINITY, 1, 1e31}, {-1e-300, 0, 1e-300}};
    for (size_t i = 0; i < sizeof(ys) / sizeof(ys[0]); i++) {
        for (size_t n = 2; n <= 3; n++) {
            const struct io_plot_series series = {.name = "s", .x = x, .y = ys[i], .n = n};
            const struct io_plot plot = {
                .title = "t", .x_label = "x", .y_label = "y", .series = &series, .n_series = 1};
            const char *svg = plotted(&plot);
            assert_in_range(count(svg, "text-anchor=\"end\""), 2, 20);    // y ticks
            assert_in_range(count(svg, "text-anchor=\"middle\""), 2, 16); // x ticks and x label
        }
    }
}

static void long_and_crowded_plots(void **state)
{
    (void)state;
    enum { POINTS = 300 };
    static double x[POINTS];
    static double y[POINTS];
    for (int i = 0; i < POINTS; i++) {
        x[i] = 64 + i;
        y[i] = 7;
    }
    struct io_plot_series series[IO_PLOT_MAX_SERIES];
    for (int k = 0; k < IO_PLOT_MAX_SERIES; k++) {
        series[k] = (struct io_plot_series){.name = "same end", .x = x, .y = y, .n = 2};
    }
    series[0].n = POINTS;
    series[1].n = 0;
    const struct io_plot plot = {.title = "t",
                                 .x_label = "x",
                                 .y_label = "y",
                                 .series = series,
                                 .n_series = IO_PLOT_MAX_SERIES};
    const char *svg = plotted(&plot);
    // 300 points in pieces of 128 that share their ends, and 14 lines of two points.
    assert_int_equal(count(svg, "<polyline"), 3 + 14);
    // Names keep their distance and stay within the picture, whose height is 508.
    double last = 0;
    for (const char *at = svg; (at = strstr(at, "<text x=\"720\" y=\"")) != NULL; at++) {
        const double at_y = strtod(at + strlen("<text x=\"720\" y=\""), NULL);
        assert_true(at_y >= last + 18.9 || last == 0);
        assert_in_range((int)at_y, 90, 500);
        last = at_y;
    }
    assert_true(last > 0);
}

static void plots_that_cannot_be(void **state)
{
    struct io_error err;
    const double x[] = {0, -1, NAN};
    const double y[] = {1, 1, 1};
    const struct io_plot_series series = {.name = "s", .x = x, .y = y, .n = 3};
    struct io_plot plot = {
        .title = "t", .x_label = "x", .y_label = "y", .series = &series, .n_series = 1};
    const char *path = scratch_path(state, "none.svg");
    assert_int_equal(io_plot_save(path, &plot, &err), -1);
    assert_contains(err.text, "nothing to plot");
    plot.n_series = 0;
    assert_int_equal(io_plot_save(path, &plot, &err), -1);
    plot.n_series = IO_PLOT_MAX_SERIES + 1;
    assert_int_equal(io_plot_save(path, &plot, &err), -1);
    assert_contains(err.text, "a plot of 17 series");
    assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_round_trip),         cmocka_unit_test(png_errors),
        cmocka_unit_test(colormap_is_viridis),    cmocka_unit_test(svg_escapes),
        cmocka_unit_test(plot_of_two_series),     cmocka_unit_test(plot_of_odd_numbers),
        cmocka_unit_test(long_and_crowded_plots), cmocka_unit_test(plots_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
