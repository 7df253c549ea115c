// view_canvas.h: one set of drawing calls for both kinds of pictures, .svg and .png.
//
// Coordinates are those of the SVG; a .png has two pixels for each unit.
#ifndef ATTN_TOOLS_VIEW_CANVAS_H
#define ATTN_TOOLS_VIEW_CANVAS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "io/io_error.h"

struct view_colour {
    uint8_t rgb[3];
};

enum view_anchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END };

struct view_canvas {
    FILE *svg;         // NULL for a .png
    uint8_t *pixels;   // NULL for an .svg
    int width, height; // of pixels
};

// What a picture is: its size, and how it is drawn. draw is called once.
struct view_picture {
    double width, height;
    const char *title; // of the document
    void (*draw)(struct view_canvas *canvas, const void *arg);
    const void *arg;
};

enum view_format { VIEW_NONE, VIEW_SVG, VIEW_PNG };
// From the ending of the file's name.
enum view_format view_format_of(const char *path);

// Draws and writes the file, atomically.
int view_save(const char *path, const struct view_picture *picture, struct io_error *err);

void view_rect(struct view_canvas *canvas, double x, double y, double width, double height,
               struct view_colour colour);
// rotate: false, or true for text that reads upwards. y is the base line.
void view_text(struct view_canvas *canvas, double x, double y, double size, enum view_anchor anchor,
               bool rotate, const char *text);

#endif
