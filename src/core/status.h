// Errors inside the library: a status is returned, its text is written once, by the function that
// first decides it.
#ifndef ATTN_CORE_STATUS_H
#define ATTN_CORE_STATUS_H

#include "attn.h"

// Writes this thread's error text and returns status. The text names the argument and its value.
__attribute__((format(printf, 2, 3))) attn_status_t attn_fail(attn_status_t status,
                                                              const char *format, ...);

// Returns a failure from the calling function if condition holds.
#define ATTN_RETURN_IF(condition, status, ...)                                                     \
    do {                                                                                           \
        if (condition) {                                                                           \
            return attn_fail((status), __VA_ARGS__);                                               \
        }                                                                                          \
    } while (0)

// Returns another function's failure as it is.
#define ATTN_FORWARD_ERROR(call)                                                                   \
    do {                                                                                           \
        const attn_status_t forwarded_ = (call);                                                   \
        if (forwarded_ != ATTN_OK) {                                                               \
            return forwarded_;                                                                     \
        }                                                                                          \
    } while (0)

#define ATTN_ERROR_TEXT_BYTES 512

// A copy of the thread's text, for a function that tries something, reports the outcome in another
// way and succeeds: a successful call leaves the text as it was.
typedef struct attn_error_text {
    char text[ATTN_ERROR_TEXT_BYTES];
} attn_error_text_t;
void attn_error_save(attn_error_text_t *saved);
void attn_error_restore(const attn_error_text_t *saved);

#endif
