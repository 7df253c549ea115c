// Public structs as the caller filled them, perhaps with another version of the header.
#ifndef ATTN_CORE_IMPORT_H
#define ATTN_CORE_IMPORT_H

#include "attn.h"

// Copies the struct at source, whose first field is its size_t struct_size, over a destination that
// holds the defaults. A shorter one (older header) leaves the defaults in the rest. A longer one
// (newer header) is refused unless what this library does not know is 0. name is the argument's
// name for the error text.
attn_status_t attn_import(const char *name, void *destination, size_t bytes, const void *source);

// The other way: the library's full struct into the caller's struct of size bytes, which may know
// fewer fields (they are left out) or more (they are 0). Sets its struct_size.
void attn_export(void *destination, size_t size, const void *full, size_t bytes);

// attn_forward_args_t and attn_backward_args_t likewise. The second holds the first, whose own size
// says where the rest begins.
attn_status_t attn_import_forward_args(attn_forward_args_t *destination,
                                       const attn_forward_args_t *source);
attn_status_t attn_import_backward_args(attn_backward_args_t *destination,
                                        const attn_backward_args_t *source);

#endif
