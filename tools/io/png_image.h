// png_image.h: RGB pictures as .png, through libpng.
#ifndef ATTN_TOOLS_IO_PNG_IMAGE_H
#define ATTN_TOOLS_IO_PNG_IMAGE_H

#include <stdint.h>
#include <stdio.h>

#include "io_error.h"

// pixels: height x width x 3, 8 bits, rows from the top, no padding. Both sizes 1..IO_PNG_MAX_SIZE.
enum { IO_PNG_MAX_SIZE = 32768 };

// Writes the picture to a stream; path is for error texts.
int io_png_write(FILE *stream, const char *path, int width, int height, const uint8_t *pixels,
                 struct io_error *err);

// The same into a file, atomically.
int io_png_save(const char *path, int width, int height, const uint8_t *pixels,
                struct io_error *err);

#endif
