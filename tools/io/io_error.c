// io_error.c: formatting of error texts.
#include "io_error.h"

#include <stdarg.h>
#include <stdio.h>

int io_fail(struct io_error *err, const char *format, ...)
{
    if (!err) {
        return -1;
    }
    va_list args;
    va_start(args, format);
    if (vsnprintf(err->text, sizeof(err->text), format, args) < 0) {
        snprintf(err->text, sizeof(err->text), "(the error text could not be formatted)");
    }
    va_end(args);
    // Texts quote names out of files; a terminal must not obey what those names contain.
    for (char *c = err->text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
    return -1;
}
