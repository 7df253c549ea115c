// png_image.c: libpng behind our error and stream conventions.
#include "png_image.h"

#include <png.h>
#include <setjmp.h>
#include <stdbool.h>

#include "file.h"

struct sink {
    FILE *stream;
    const char *path;
    struct io_error *err;
    bool has_text; // the first error has been written to err
};

// libpng must not return from its error callback; the text is kept and png_write unwinds.
static void on_error(png_structp png, png_const_charp message)
{
    struct sink *sink = png_get_error_ptr(png);
    if (!sink->has_text) {
        io_fail(sink->err, "%s: libpng: %s", sink->path, message);
    }
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void on_write(png_structp png, png_bytep data, size_t bytes)
{
    struct sink *sink = png_get_io_ptr(png);
    if (io_stream_write(sink->stream, sink->path, data, bytes, sink->err)) {
        sink->has_text = true;
        png_error(png, "write failed");
    }
}

static void on_flush(png_structp png)
{
    (void)png; // the stream is flushed by whoever closes it
}

// Between setjmp and a longjmp only libpng's own state changes, so no local needs volatile.
static int write_image(png_structp png, png_infop info, struct sink *sink, int width, int height,
                       const uint8_t *pixels)
{
    if (setjmp(png_jmpbuf(png))) {
        return -1;
    }
    png_set_write_fn(png, sink, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < height; y++) {
        png_write_row(png, pixels + (size_t)y * (size_t)width * 3);
    }
    png_write_end(png, info);
    return 0;
}

int io_png_write(FILE *stream, const char *path, int width, int height, const uint8_t *pixels,
                 struct io_error *err)
{
    if (width < 1 || height < 1 || width > IO_PNG_MAX_SIZE || height > IO_PNG_MAX_SIZE) {
        return io_fail(err, "%s: a picture of %d x %d pixels, must be 1 to %d each", path, width,
                       height, IO_PNG_MAX_SIZE);
    }
    struct sink sink = {.stream = stream, .path = path, .err = err};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_write_struct(&png, NULL);
        return sink.has_text ? -1 : io_fail(err, "%s: cannot start libpng", path);
    }
    const int status = write_image(png, info, &sink, width, height, pixels);
    png_destroy_write_struct(&png, &info);
    return status;
}

struct save_arg {
    const char *path;
    int width;
    int height;
    const uint8_t *pixels;
};

static int save_body(FILE *stream, void *arg, struct io_error *err)
{
    const struct save_arg *save = arg;
    return io_png_write(stream, save->path, save->width, save->height, save->pixels, err);
}

int io_png_save(const char *path, int width, int height, const uint8_t *pixels,
                struct io_error *err)
{
    struct save_arg save = {.path = path, .width = width, .height = height, .pixels = pixels};
    return io_file_write(path, save_body, &save, err);
}
