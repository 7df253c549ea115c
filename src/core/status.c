// Status texts, this thread's last error, and the version: what every other file may use and that
// uses none of them.
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[ATTN_ERROR_TEXT_BYTES];

attn_status_t attn_fail(attn_status_t status, const char *format, ...)
{
    // The arguments may point into the old text.
    char text[ATTN_ERROR_TEXT_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    memcpy(last_error, text, sizeof(text));
    return status;
}

void attn_error_save(attn_error_text_t *saved)
{
    memcpy(saved->text, last_error, sizeof(last_error));
}

void attn_error_restore(const attn_error_text_t *saved)
{
    memcpy(last_error, saved->text, sizeof(last_error));
}

const char *attn_last_error(void)
{
    return last_error;
}

const char *attn_status_string(attn_status_t status)
{
    switch (status) {
#define ATTN_STATUS_CASE(name, value, text)                                                        \
    case name: return text;
        ATTN_STATUS_LIST(ATTN_STATUS_CASE)
#undef ATTN_STATUS_CASE
    }
    return "unknown status";
}

int attn_version(void)
{
    return ATTN_VERSION_MAJOR * 10000 + ATTN_VERSION_MINOR * 100 + ATTN_VERSION_PATCH;
}

#define ATTN_TEXT_OF(value) #value
#define ATTN_VERSION_TEXT(major, minor, patch)                                                     \
    ATTN_TEXT_OF(major) "." ATTN_TEXT_OF(minor) "." ATTN_TEXT_OF(patch)

const char *attn_version_string(void)
{
    return ATTN_VERSION_TEXT(ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR, ATTN_VERSION_PATCH);
}
