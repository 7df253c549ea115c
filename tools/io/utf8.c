// utf8.c: a decoder that accepts exactly the well-formed sequences (Unicode 15, table 3-7).
#include "utf8.h"

#include <stddef.h>

uint32_t io_utf8_next(const char **text)
{
    const unsigned char *bytes = (const unsigned char *)*text;
    const unsigned char lead = bytes[0];
    if (lead < 0x80) {
        *text += lead != 0;
        return lead;
    }
    const int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code_point = lead & (0xffu >> (length + 1));
    int have = 1;
    while (have < length && (bytes[have] & 0xc0) == 0x80) {
        code_point = code_point << 6 | (bytes[have++] & 0x3fu);
    }
    const int is_surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
    if (lead < 0xc2 || lead > 0xf4 || have < length || code_point < lowest[length] ||
        is_surrogate || code_point > 0x10ffff) {
        *text += 1;
        return UTF8_REPLACEMENT;
    }
    *text += length;
    return code_point;
}

void io_utf8_put(FILE *stream, uint32_t code_point)
{
    if (code_point < 0x80) {
        fputc((int)code_point, stream);
        return;
    }
    const int follow = code_point >= 0x10000 ? 3 : code_point >= 0x800 ? 2 : 1;
    fputc((int)(((0xf80u >> follow) & 0xff) | code_point >> (6 * follow)), stream);
    for (int i = follow - 1; i >= 0; i--) {
        fputc((int)(0x80 | (code_point >> (6 * i) & 0x3f)), stream);
    }
}

size_t io_utf8_length(const char *text)
{
    size_t length = 0;
    while (io_utf8_next(&text)) {
        length++;
    }
    return length;
}
