// utf8.h: walking over text that may not be valid UTF-8, for the writers of SVG, JSON and tables.
#ifndef ATTN_TOOLS_IO_UTF8_H
#define ATTN_TOOLS_IO_UTF8_H

#include <stdint.h>
#include <stdio.h>

enum { UTF8_REPLACEMENT = 0xfffd };

// The code point at *text, which moves past it; U+FFFD for each byte that starts no valid sequence
// (overlong forms and surrogates are invalid). At the terminator: 0, and *text stays.
uint32_t io_utf8_next(const char **text);

// Prints one code point (at most 0x10ffff).
void io_utf8_put(FILE *stream, uint32_t code_point);

// Number of code points.
size_t io_utf8_length(const char *text);

#endif
