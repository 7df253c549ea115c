// svg.h: a small SVG writer over a FILE: shapes and text, in pixels, y downwards.
//
// Plain calls that print one element each. Stream errors are left to whoever closes the stream
// (file.h's commit reports them). Strings are escaped; bytes that are no UTF-8 become U+FFFD.
// Numbers must be finite; a shape with one that is not is left out.
#ifndef ATTN_TOOLS_IO_SVG_H
#define ATTN_TOOLS_IO_SVG_H

#include <stddef.h>
#include <stdio.h>

struct io_svg_style {
    const char *fill;    // colour such as "#336699"; NULL: none
    const char *stroke;  // colour; NULL: none
    double stroke_width; // pixels
    const char *dash;    // such as "4 3"; NULL: solid
    double opacity;      // 0..1 of the whole element; 0 means 1 so that {0} is opaque
};

struct io_svg_text_style {
    const char *fill;   // colour; NULL: black
    double size;        // pixels; 0: 12
    const char *anchor; // "start", "middle" or "end"; NULL: start
    const char *weight; // "normal" or "bold"; NULL: normal
    double rotate;      // degrees, clockwise, around the anchor point
};

void io_svg_begin(FILE *stream, double width, double height, const char *title);
void io_svg_end(FILE *stream);
void io_svg_rect(FILE *stream, double x, double y, double width, double height, double radius,
                 const struct io_svg_style *style);
void io_svg_line(FILE *stream, double x1, double y1, double x2, double y2,
                 const struct io_svg_style *style);
void io_svg_circle(FILE *stream, double x, double y, double radius,
                   const struct io_svg_style *style);
// n points as x0 y0 x1 y1 ...
void io_svg_polyline(FILE *stream, const double *xy, size_t n, const struct io_svg_style *style);
void io_svg_text(FILE *stream, double x, double y, const char *text,
                 const struct io_svg_text_style *style);
void io_svg_group_begin(FILE *stream, const char *tooltip); // <g>, tooltip may be NULL
void io_svg_group_end(FILE *stream);

#endif
