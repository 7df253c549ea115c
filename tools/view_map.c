// view_map.c: the attention map; see view_map.h.
//
//        keys ->
//     +-----------+  +-+ largest
//   r |           |  |c|
//   o |   cells   |  |o| colour scale
//   w |           |  |l|
//   s +-----------+  +-+ 0
#include "view_map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/colormap.h"
#include "io/file.h"
#include "view_canvas.h"

// ------------------------------------------------------------------------------------------------
// Labels

int view_labels_read(const char *path, struct view_labels *labels, struct io_error *err)
{
    struct io_buffer file;
    memset(labels, 0, sizeof(*labels));
    if (io_file_read(path, &file, err)) {
        return -1;
    }
    int64_t lines = 0;
    for (size_t i = 0; i < file.bytes; i++) {
        lines += file.data[i] == '\n' || i + 1 == file.bytes;
    }
    labels->lines = calloc((size_t)lines + 1, sizeof(char *));
    int status = labels->lines ? 0 : io_fail(err, "%s: out of memory", path);
    for (size_t at = 0; at < file.bytes && !status;) {
        const unsigned char *end = memchr(file.data + at, '\n', file.bytes - at);
        const size_t len = end ? (size_t)(end - file.data) - at : file.bytes - at;
        char *line = calloc(len + 1, 1);
        if (!line) {
            status = io_fail(err, "%s: out of memory", path);
            break;
        }
        memcpy(line, file.data + at, len);
        labels->lines[labels->n++] = line;
        at += len + 1;
    }
    io_buffer_clear(&file);
    if (status) {
        view_labels_destroy(labels);
    }
    return status;
}

void view_labels_destroy(struct view_labels *labels)
{
    for (int64_t i = 0; i < labels->n; i++) {
        free(labels->lines[i]);
    }
    free(labels->lines);
    memset(labels, 0, sizeof(*labels));
}

// ------------------------------------------------------------------------------------------------
// Drawing

#define TITLE_HEIGHT 44.0
#define SCALE_WIDTH 100.0 // the colour scale at the right with its numbers
#define PADDING 16.0

static const struct view_colour hidden_colour = {{228, 228, 232}};

struct map_drawing {
    const struct attention_map *map;
    const struct view_map_style *style;
    double left, top, cell;
};

static struct view_colour colour_of(const struct map_drawing *drawing, float weight)
{
    if (weight < 0.0f) {
        return hidden_colour;
    }
    struct view_colour colour;
    const double largest = drawing->map->largest > 0.0f ? (double)drawing->map->largest : 1.0;
    const double t = (double)weight / largest;
    // 64 steps: neighbours of one colour become one rectangle.
    const double shown = drawing->style->linear ? t : sqrt(t);
    io_colormap_viridis(isnan(shown) ? shown : round(shown * 63.0) / 63.0, colour.rgb);
    return colour;
}

// Runs of one colour are one rectangle, which keeps an .svg small.
static void draw_row(struct view_canvas *canvas, const struct map_drawing *drawing, int64_t i)
{
    const struct attention_map *map = drawing->map;
    const float *row = map->weights + i * map->keys;
    const double y = drawing->top + (double)i * drawing->cell;
    int64_t begin = 0;
    while (begin < map->keys) {
        const struct view_colour colour = colour_of(drawing, row[begin]);
        int64_t end = begin + 1;
        while (end < map->keys) {
            const struct view_colour next = colour_of(drawing, row[end]);
            if (memcmp(&next, &colour, sizeof(colour)) != 0) {
                break;
            }
            end++;
        }
        view_rect(canvas, drawing->left + (double)begin * drawing->cell, y,
                  (double)(end - begin) * drawing->cell, drawing->cell, colour);
        begin = end;
    }
}

// Steps of 1, 2, 5 x 10^n so that about six labels stand along an axis.
static int64_t tick_step(int64_t n)
{
    int64_t step = 1;
    while (n / step > 6) {
        const int64_t leading = step;
        int64_t power = 1;
        while (leading / power >= 10) {
            power *= 10;
        }
        step = leading / power == 2 ? 5 * power : leading * 2;
    }
    return step;
}

static void draw_axis_labels(struct view_canvas *canvas, const struct map_drawing *drawing,
                             bool is_rows)
{
    const struct view_labels *labels =
        is_rows ? &drawing->style->row_labels : &drawing->style->key_labels;
    const int64_t n = is_rows ? drawing->map->rows : drawing->map->keys;
    const double size = labels->lines && drawing->cell < 11.0 ? 0.9 * drawing->cell : 10.0;
    const int64_t step = labels->lines ? 1 : tick_step(n);
    for (int64_t i = 0; i < n; i += step) {
        char number[24];
        snprintf(number, sizeof(number), "%lld", (long long)i);
        const char *text = labels->lines ? labels->lines[i] : number;
        const double at = ((double)i + 0.5) * drawing->cell;
        if (is_rows) {
            view_text(canvas, drawing->left - 5.0, drawing->top + at + 0.35 * size, size,
                      ANCHOR_END, false, text);
        } else if (labels->lines) {
            view_text(canvas, drawing->left + at + 0.35 * size, drawing->top - 5.0, size,
                      ANCHOR_START, true, text);
        } else {
            view_text(canvas, drawing->left + at, drawing->top - 6.0, size, ANCHOR_MIDDLE, false,
                      text);
        }
    }
}

static void draw_scale(struct view_canvas *canvas, const struct map_drawing *drawing)
{
    enum { STEPS = 64 };
    const double height = 160.0;
    const double x = drawing->left + (double)drawing->map->keys * drawing->cell + 20.0;
    const double y = drawing->top + 16.0;
    for (int i = 0; i < STEPS; i++) {
        struct view_colour colour;
        io_colormap_viridis((double)(STEPS - 1 - i) / (STEPS - 1), colour.rgb);
        view_rect(canvas, x, y + height * i / STEPS, 14.0, height / STEPS + 0.5, colour);
    }
    view_text(canvas, x, y - 8.0, 10.0, ANCHOR_START, false, "weight");
    for (int i = 0; i <= 4; i++) {
        char text[24];
        const double t = i / 4.0;
        const double weight = (double)drawing->map->largest * (drawing->style->linear ? t : t * t);
        snprintf(text, sizeof(text), "%.3g", weight);
        view_text(canvas, x + 19.0, y + height * (1.0 - t) + 3.5, 10.0, ANCHOR_START, false, text);
    }
    view_rect(canvas, x, y + height + 16.0, 14.0, 14.0, hidden_colour);
    view_text(canvas, x + 19.0, y + height + 27.0, 10.0, ANCHOR_START, false, "hidden");
}

static void draw_map(struct view_canvas *canvas, const void *arg)
{
    const struct map_drawing *drawing = arg;
    const struct attention_map *map = drawing->map;
    view_text(canvas, PADDING, 24.0, 15.0, ANCHOR_START, false, drawing->style->title);
    view_text(canvas, PADDING, 40.0, 10.0, ANCHOR_START, false,
              drawing->style->linear
                  ? "rows: queries, columns: keys; colour: weight"
                  : "rows: queries, columns: keys; colour: square root of the weight");
    for (int64_t i = 0; i < map->rows; i++) {
        draw_row(canvas, drawing, i);
    }
    draw_axis_labels(canvas, drawing, true);
    draw_axis_labels(canvas, drawing, false);
    draw_scale(canvas, drawing);
}

// Room for the longest label, in units.
static double label_room(const struct view_labels *labels, double size)
{
    size_t longest = 4;
    for (int64_t i = 0; i < labels->n; i++) {
        const size_t len = strlen(labels->lines[i]);
        longest = len > longest ? len : longest;
    }
    const double characters = longest > 24 ? 24.0 : (double)longest;
    return 14.0 + 0.62 * size * characters;
}

int view_map_save(const char *path, const struct attention_map *map,
                  const struct view_map_style *style, struct io_error *err)
{
    const int64_t longer = map->rows > map->keys ? map->rows : map->keys;
    if (view_format_of(path) == VIEW_SVG && map->rows * map->keys > VIEW_SVG_MAX_CELLS) {
        return io_fail(err, "%s: %lld x %lld cells are too many for an .svg; use .png", path,
                       (long long)map->rows, (long long)map->keys);
    }
    struct map_drawing drawing = {.map = map, .style = style};
    const bool has_labels = style->row_labels.lines || style->key_labels.lines;
    const double wanted = (has_labels ? 860.0 : 640.0) / (double)longer;
    // A cell is at least one pixel of a .png, that is half a unit, and whole pixels wide.
    drawing.cell = wanted > 28.0 ? 28.0 : wanted < 0.5 ? 0.5 : floor(wanted * 2.0) / 2.0;
    const double size = drawing.cell < 11.0 ? 0.9 * drawing.cell : 10.0;
    drawing.left = PADDING + label_room(&style->row_labels, style->row_labels.lines ? size : 10.0);
    drawing.top =
        TITLE_HEIGHT + (style->key_labels.lines ? label_room(&style->key_labels, size) : 22.0);
    const double drawn = (double)map->rows * drawing.cell;
    const double title_width = 9.0 * (double)strlen(style->title) + 2.0 * PADDING;
    const double width = drawing.left + (double)map->keys * drawing.cell + SCALE_WIDTH;
    const struct view_picture picture = {
        .width = fmax(width, fmax(title_width, 420.0)),
        .height = drawing.top + fmax(drawn, 220.0) + PADDING,
        .title = style->title,
        .draw = draw_map,
        .arg = &drawing,
    };
    return view_save(path, &picture, err);
}
