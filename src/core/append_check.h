// The checks of attn_append.
#ifndef ATTN_CORE_APPEND_CHECK_H
#define ATTN_CORE_APPEND_CHECK_H

#include "attn.h"

// Checks the descriptor and resolves its strides.
attn_status_t attn_append_desc_check(attn_append_desc_t *desc);

// Checks pointers. desc is checked.
attn_status_t attn_append_args_check(const attn_append_desc_t *desc,
                                     const attn_append_args_t *args);

// Checks lengths, places in the cache and rows of the rotation tables, in the host's memory.
attn_status_t attn_append_arrays_check(const attn_append_desc_t *desc,
                                       const attn_append_args_t *args);

// Refuses two tokens with one place in the cache. All else is checked.
attn_status_t attn_append_check_places(const attn_append_desc_t *desc,
                                       const attn_append_args_t *args);

#endif
