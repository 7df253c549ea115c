// view_canvas.c: see view_canvas.h.
#include "view_canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/png_image.h"
#include "io/svg.h"
#include "view_font.h"

enum { PIXELS_PER_UNIT = 2 };

enum view_format view_format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (dot && strcmp(dot, ".svg") == 0) {
        return VIEW_SVG;
    }
    return dot && strcmp(dot, ".png") == 0 ? VIEW_PNG : VIEW_NONE;
}

// ------------------------------------------------------------------------------------------------
// Files

struct svg_job {
    const struct view_picture *picture;
};

static int write_svg(FILE *stream, void *arg, struct io_error *err)
{
    (void)err; // stream errors are found at commit
    const struct view_picture *picture = ((const struct svg_job *)arg)->picture;
    struct view_canvas canvas = {.svg = stream};
    io_svg_begin(stream, picture->width, picture->height, picture->title);
    view_rect(&canvas, 0, 0, picture->width, picture->height,
              (struct view_colour){{255, 255, 255}});
    picture->draw(&canvas, picture->arg);
    io_svg_end(stream);
    return 0;
}

static int save_png(const char *path, const struct view_picture *picture, struct io_error *err)
{
    struct view_canvas canvas = {
        .width = (int)ceil(picture->width * PIXELS_PER_UNIT),
        .height = (int)ceil(picture->height * PIXELS_PER_UNIT),
    };
    const size_t bytes = 3 * (size_t)canvas.width * (size_t)canvas.height;
    canvas.pixels = malloc(bytes);
    if (!canvas.pixels) {
        return io_fail(err, "%s: out of memory for %d x %d pixels", path, canvas.width,
                       canvas.height);
    }
    memset(canvas.pixels, 255, bytes);
    picture->draw(&canvas, picture->arg);
    const int status = io_png_save(path, canvas.width, canvas.height, canvas.pixels, err);
    free(canvas.pixels);
    return status;
}

int view_save(const char *path, const struct view_picture *picture, struct io_error *err)
{
    struct svg_job job = {picture};
    switch (view_format_of(path)) {
    case VIEW_SVG: return io_file_write(path, write_svg, &job, err);
    case VIEW_PNG: return save_png(path, picture, err);
    default: return io_fail(err, "%s: expected a name ending in .svg or .png", path);
    }
}

// ------------------------------------------------------------------------------------------------
// Shapes

// A rectangle of whole pixels, cut to the picture.
static void fill(struct view_canvas *canvas, int left, int top, int right, int bottom,
                 struct view_colour colour)
{
    left = left < 0 ? 0 : left;
    top = top < 0 ? 0 : top;
    right = right > canvas->width ? canvas->width : right;
    bottom = bottom > canvas->height ? canvas->height : bottom;
    for (int y = top; y < bottom; y++) {
        uint8_t *row = canvas->pixels + 3 * (size_t)y * (size_t)canvas->width;
        for (int x = left; x < right; x++) {
            memcpy(row + 3 * (size_t)x, colour.rgb, 3);
        }
    }
}

void view_rect(struct view_canvas *canvas, double x, double y, double width, double height,
               struct view_colour colour)
{
    if (canvas->svg) {
        char text[8];
        snprintf(text, sizeof(text), "#%02x%02x%02x", colour.rgb[0], colour.rgb[1], colour.rgb[2]);
        const struct io_svg_style style = {.fill = text};
        io_svg_rect(canvas->svg, x, y, width, height, 0, &style);
        return;
    }
    const double p = PIXELS_PER_UNIT;
    fill(canvas, (int)lround(x * p), (int)lround(y * p), (int)lround((x + width) * p),
         (int)lround((y + height) * p), colour);
}

// One character with its lower left corner at (x, y); upwards when rotated.
static void draw_glyph(struct view_canvas *canvas, int x, int y, int scale, bool rotate,
                       char character)
{
    const uint8_t *rows = view_font_glyph(character);
    const struct view_colour ink = {{40, 40, 40}};
    for (int row = 0; row < VIEW_FONT_HEIGHT; row++) {
        for (int column = 0; column < VIEW_FONT_WIDTH; column++) {
            if (!(rows[row] >> (VIEW_FONT_WIDTH - 1 - column) & 1)) {
                continue;
            }
            const int up = (VIEW_FONT_HEIGHT - row) * scale;
            const int along = column * scale;
            const int left = rotate ? x - up : x + along;
            const int top = rotate ? y - along - scale : y - up;
            fill(canvas, left, top, left + scale, top + scale, ink);
        }
    }
}

void view_text(struct view_canvas *canvas, double x, double y, double size, enum view_anchor anchor,
               bool rotate, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    if (canvas->svg) {
        const struct io_svg_text_style style = {
            .fill = "#282828",
            .size = size,
            .anchor = anchors[anchor],
            .rotate = rotate ? -90 : 0,
        };
        io_svg_text(canvas->svg, x, y, text, &style);
        return;
    }
    // Capitals of a common font are 0.7 of its size high.
    const double height = 0.7 * size * PIXELS_PER_UNIT;
    const int scale = height < 2 * VIEW_FONT_HEIGHT - 3 ? 1 : (int)(height / VIEW_FONT_HEIGHT);
    const int advance = VIEW_FONT_ADVANCE * scale;
    const int length = (int)strlen(text) * advance;
    const int shift = anchor == ANCHOR_START ? 0 : anchor == ANCHOR_END ? length : length / 2;
    const int px = (int)lround(x * PIXELS_PER_UNIT);
    const int py = (int)lround(y * PIXELS_PER_UNIT);
    for (int i = 0; text[i]; i++) {
        const int along = i * advance - shift;
        draw_glyph(canvas, rotate ? px : px + along, rotate ? py - along : py, scale, rotate,
                   text[i]);
    }
}
