// view_tiles.c: a mask as the kernel sees it, tile by tile; see view_map.h.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view_canvas.h"
#include "view_map.h"

#define LEFT 64.0
#define TOP 92.0
#define PADDING 16.0
#define LARGEST 640.0 // units of the longer side

enum { N_KINDS = 3 };

static const struct view_colour kind_colours[N_KINDS] = {
    {{228, 228, 232}}, {{230, 145, 56}}, {{49, 104, 142}}};
static const char *const kind_names[N_KINDS] = {"skipped", "partial (mask code runs)",
                                                "full (no mask code)"};

struct tiles_drawing {
    const attn_tile_map_t *map;
    const uint8_t *tiles;
    const attn_desc_t *desc;
    const char *title;
    double unit; // per row and key
    int64_t counts[N_KINDS];
    int64_t total;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void draw_tile(struct view_canvas *canvas, const struct tiles_drawing *drawing, int64_t row,
                      int64_t col)
{
    const attn_tile_map_t *map = drawing->map;
    const uint8_t kind = drawing->tiles[row * map->cols + col];
    const int64_t i = row * map->tile_q;
    const int64_t j = col * map->tile_kv;
    const double width = (double)(smaller(j + map->tile_kv, drawing->desc->s_kv) - j);
    const double height = (double)(smaller(i + map->tile_q, drawing->desc->s_q) - i);
    // A hairline between tiles, where they are large enough for one.
    const double smallest = fmin((double)map->tile_q, (double)map->tile_kv) * drawing->unit;
    const double gap = smallest > 5.0 ? 1.0 : smallest > 2.5 ? 0.5 : 0.0;
    view_rect(canvas, LEFT + (double)j * drawing->unit, TOP + (double)i * drawing->unit,
              fmax(width * drawing->unit - gap, 0.5), fmax(height * drawing->unit - gap, 0.5),
              kind_colours[kind < N_KINDS ? kind : 1]);
}

static void draw_legend(struct view_canvas *canvas, const struct tiles_drawing *drawing)
{
    double x = PADDING;
    for (int kind = 0; kind < N_KINDS; kind++) {
        char text[96];
        snprintf(text, sizeof(text), "%s, %lld (%.1f %%)", kind_names[kind],
                 (long long)drawing->counts[kind],
                 100.0 * (double)drawing->counts[kind] / (double)drawing->total);
        view_rect(canvas, x, 50.0, 11.0, 11.0, kind_colours[kind]);
        view_text(canvas, x + 16.0, 59.0, 10.0, ANCHOR_START, false, text);
        x += 36.0 + 6.2 * (double)strlen(text);
    }
}

static void draw_tiles(struct view_canvas *canvas, const void *arg)
{
    const struct tiles_drawing *drawing = arg;
    const attn_desc_t *d = drawing->desc;
    char text[128];
    view_text(canvas, PADDING, 24.0, 15.0, ANCHOR_START, false, drawing->title);
    snprintf(text, sizeof(text), "tiles of %lld rows x %lld keys: %lld x %lld",
             (long long)drawing->map->tile_q, (long long)drawing->map->tile_kv,
             (long long)drawing->map->rows, (long long)drawing->map->cols);
    view_text(canvas, PADDING, 41.0, 10.0, ANCHOR_START, false, text);
    draw_legend(canvas, drawing);
    for (int64_t row = 0; row < drawing->map->rows; row++) {
        for (int64_t col = 0; col < drawing->map->cols; col++) {
            draw_tile(canvas, drawing, row, col);
        }
    }
    for (int i = 0; i <= 4; i++) {
        const int64_t key = d->s_kv * i / 4;
        const int64_t row = d->s_q * i / 4;
        snprintf(text, sizeof(text), "%lld", (long long)key);
        view_text(canvas, LEFT + (double)key * drawing->unit, TOP - 6.0, 10.0, ANCHOR_MIDDLE, false,
                  text);
        snprintf(text, sizeof(text), "%lld", (long long)row);
        if (i == 0 || (double)d->s_q * drawing->unit > 60.0) {
            view_text(canvas, LEFT - 6.0, TOP + (double)row * drawing->unit + 4.0, 10.0, ANCHOR_END,
                      false, text);
        }
    }
}

int view_tiles_save(const char *path, const attn_tile_map_t *map, const uint8_t *tiles,
                    const attn_desc_t *desc, const char *title, struct io_error *err)
{
    struct tiles_drawing drawing = {
        .map = map,
        .tiles = tiles,
        .desc = desc,
        .title = title,
        .total = map->rows * map->cols,
    };
    if (drawing.total < 1) {
        return io_fail(err, "%s: there are no tiles to draw", path);
    }
    if (view_format_of(path) == VIEW_SVG && drawing.total > VIEW_SVG_MAX_CELLS) {
        return io_fail(err, "%s: %lld x %lld tiles are too many for an .svg; use .png", path,
                       (long long)map->rows, (long long)map->cols);
    }
    for (int64_t i = 0; i < drawing.total; i++) {
        drawing.counts[tiles[i] < N_KINDS ? tiles[i] : 1]++;
    }
    const double longer = (double)(desc->s_q > desc->s_kv ? desc->s_q : desc->s_kv);
    drawing.unit = LARGEST / longer;
    const double title_width = 9.0 * (double)strlen(title) + 2.0 * PADDING;
    const double width = LEFT + (double)desc->s_kv * drawing.unit + 40.0;
    const struct view_picture picture = {
        .width = fmax(fmax(width, title_width), 760.0),
        .height = TOP + fmax((double)desc->s_q * drawing.unit, 12.0) + PADDING,
        .title = title,
        .draw = draw_tiles,
        .arg = &drawing,
    };
    return view_save(path, &picture, err);
}
