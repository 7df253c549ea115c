// svg.c: SVG elements as text.
#include "svg.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "utf8.h"

static const char font[] = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif";

// Text or attribute value. XML 1.0 (section 2.2) has no place for most control characters at all.
static void put_escaped(FILE *stream, const char *text)
{
    for (uint32_t c; (c = io_utf8_next(&text)) != 0;) {
        switch (c) {
        case '&': fputs("&amp;", stream); break;
        case '<': fputs("&lt;", stream); break;
        case '>': fputs("&gt;", stream); break;
        case '"': fputs("&quot;", stream); break;
        case '\n':
        case '\r':
        case '\t': fputc(' ', stream); break;
        default: io_utf8_put(stream, c < 0x20 || (c & 0xfffe) == 0xfffe ? UTF8_REPLACEMENT : c);
        }
    }
}

// Hundredths of a pixel are enough, and trailing zeros only make files large.
static void put_number(FILE *stream, double value)
{
    char text[400]; // %.2f of DBL_MAX has 312 characters
    int length = snprintf(text, sizeof(text), "%.2f", value);
    while (text[length - 1] == '0') {
        length--;
    }
    if (text[length - 1] == '.') {
        length--;
    }
    text[length] = '\0';
    fputs(strcmp(text, "-0") ? text : "0", stream);
}

static void put_attribute(FILE *stream, const char *name, double value)
{
    fprintf(stream, " %s=\"", name);
    put_number(stream, value);
    fputc('"', stream);
}

static void put_string_attribute(FILE *stream, const char *name, const char *value)
{
    fprintf(stream, " %s=\"", name);
    put_escaped(stream, value);
    fputc('"', stream);
}

static void put_style(FILE *stream, const struct io_svg_style *style)
{
    put_string_attribute(stream, "fill", style->fill ? style->fill : "none");
    if (style->stroke) {
        put_string_attribute(stream, "stroke", style->stroke);
        put_attribute(stream, "stroke-width", style->stroke_width);
        if (style->dash) {
            put_string_attribute(stream, "stroke-dasharray", style->dash);
        }
    }
    if (style->opacity > 0 && style->opacity < 1) {
        put_attribute(stream, "opacity", style->opacity);
    }
}

static bool all_finite(const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

void io_svg_begin(FILE *stream, double width, double height, const char *title)
{
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"",
          stream);
    put_attribute(stream, "width", width);
    put_attribute(stream, "height", height);
    fputs(" viewBox=\"0 0 ", stream);
    put_number(stream, width);
    fputc(' ', stream);
    put_number(stream, height);
    fputs("\" role=\"img\"", stream);
    put_string_attribute(stream, "font-family", font);
    fputs(">\n<title>", stream);
    put_escaped(stream, title);
    fputs("</title>\n", stream);
}

void io_svg_end(FILE *stream)
{
    fputs("</svg>\n", stream);
}

void io_svg_rect(FILE *stream, double x, double y, double width, double height, double radius,
                 const struct io_svg_style *style)
{
    if (!all_finite((const double[]){x, y, width, height, radius}, 5)) {
        return;
    }
    fputs("<rect", stream);
    put_attribute(stream, "x", x);
    put_attribute(stream, "y", y);
    put_attribute(stream, "width", width);
    put_attribute(stream, "height", height);
    if (radius > 0) {
        put_attribute(stream, "rx", radius);
    }
    put_style(stream, style);
    fputs("/>\n", stream);
}

void io_svg_line(FILE *stream, double x1, double y1, double x2, double y2,
                 const struct io_svg_style *style)
{
    if (!all_finite((const double[]){x1, y1, x2, y2}, 4)) {
        return;
    }
    fputs("<line", stream);
    put_attribute(stream, "x1", x1);
    put_attribute(stream, "y1", y1);
    put_attribute(stream, "x2", x2);
    put_attribute(stream, "y2", y2);
    put_style(stream, style);
    fputs("/>\n", stream);
}

void io_svg_circle(FILE *stream, double x, double y, double radius,
                   const struct io_svg_style *style)
{
    if (!all_finite((const double[]){x, y, radius}, 3)) {
        return;
    }
    fputs("<circle", stream);
    put_attribute(stream, "cx", x);
    put_attribute(stream, "cy", y);
    put_attribute(stream, "r", radius);
    put_style(stream, style);
    fputs("/>\n", stream);
}

void io_svg_polyline(FILE *stream, const double *xy, size_t n, const struct io_svg_style *style)
{
    if (n == 0 || !all_finite(xy, 2 * n)) {
        return;
    }
    fputs("<polyline points=\"", stream);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? " " : "", stream);
        put_number(stream, xy[2 * i]);
        fputc(',', stream);
        put_number(stream, xy[2 * i + 1]);
    }
    fputs("\" stroke-linejoin=\"round\" stroke-linecap=\"round\"", stream);
    put_style(stream, style);
    fputs("/>\n", stream);
}

void io_svg_text(FILE *stream, double x, double y, const char *text,
                 const struct io_svg_text_style *style)
{
    if (!all_finite((const double[]){x, y, style->size, style->rotate}, 4)) {
        return;
    }
    fputs("<text", stream);
    put_attribute(stream, "x", x);
    put_attribute(stream, "y", y);
    put_attribute(stream, "font-size", style->size > 0 ? style->size : 12);
    put_string_attribute(stream, "fill", style->fill ? style->fill : "#000000");
    if (style->anchor) {
        put_string_attribute(stream, "text-anchor", style->anchor);
    }
    if (style->weight) {
        put_string_attribute(stream, "font-weight", style->weight);
    }
    if (style->rotate != 0) {
        fputs(" transform=\"rotate(", stream);
        put_number(stream, style->rotate);
        fputc(' ', stream);
        put_number(stream, x);
        fputc(' ', stream);
        put_number(stream, y);
        fputs(")\"", stream);
    }
    fputc('>', stream);
    put_escaped(stream, text);
    fputs("</text>\n", stream);
}

void io_svg_group_begin(FILE *stream, const char *tooltip)
{
    fputs("<g>\n", stream);
    if (tooltip) {
        fputs("<title>", stream);
        put_escaped(stream, tooltip);
        fputs("</title>\n", stream);
    }
}

void io_svg_group_end(FILE *stream)
{
    fputs("</g>\n", stream);
}
