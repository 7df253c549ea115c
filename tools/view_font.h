// view_font.h: a 5 x 7 pixel font for the labels of .png pictures, drawn for this program. Capitals
// only: small letters look up their capital, anything unknown is a box.
#ifndef ATTN_TOOLS_VIEW_FONT_H
#define ATTN_TOOLS_VIEW_FONT_H

#include <stdint.h>

enum { VIEW_FONT_WIDTH = 5, VIEW_FONT_HEIGHT = 7, VIEW_FONT_ADVANCE = 6 };

// Seven rows from the top, each with its leftmost pixel in bit 4.
const uint8_t *view_font_glyph(char character);

#endif
