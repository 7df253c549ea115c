// Text that grows in a buffer of fixed size, as attn_explain needs it.
#include <stdarg.h>
#include <stdio.h>

#include "plan.h"

void attn_text_add(attn_text_t *text, const char *format, ...)
{
    const size_t used = text->needed < text->bytes ? text->needed : text->bytes;
    va_list list;
    va_start(list, format);
    const int length =
        vsnprintf(text->bytes > used ? text->data + used : NULL, text->bytes - used, format, list);
    va_end(list);
    if (length > 0) {
        text->needed += (size_t)length;
    }
}
