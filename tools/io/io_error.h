// io_error.h: how the functions of tools/io report failure.
//
// Every function that can fail returns 0, or -1 after filling a struct io_error with one sentence
// for the user: which file, which field, which value. The function that first decides the error
// writes the text; callers only forward it. Nothing here prints or exits: the command does that.
#ifndef ATTN_TOOLS_IO_ERROR_H
#define ATTN_TOOLS_IO_ERROR_H

enum { IO_ERROR_TEXT_BYTES = 512 };

struct io_error {
    char text[IO_ERROR_TEXT_BYTES]; // always terminated; longer texts are cut
};

#if defined(__GNUC__)
#define IO_PRINTF_LIKE(format_idx, args_idx) __attribute__((format(printf, format_idx, args_idx)))
#else
#define IO_PRINTF_LIKE(format_idx, args_idx)
#endif

// Writes the text (control characters that a hostile file smuggled into it become '?') and
// returns -1, so that `return io_fail(err, ...)` is the usual form. err may be NULL.
int io_fail(struct io_error *err, const char *format, ...) IO_PRINTF_LIKE(2, 3);

#endif
