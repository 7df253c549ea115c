// The arguments of a run, checked against the plan's descriptor.
#ifndef ATTN_CORE_ARGS_H
#define ATTN_CORE_ARGS_H

#include "attn.h"

// Missing and superfluous pointers. desc is a plan's. lse and o are outputs of a forward pass
// (ATTN_FORWARD), inputs of a backward pass.
attn_status_t attn_check_forward_args(const attn_desc_t *desc, const attn_forward_args_t *args,
                                      attn_op_t op);
attn_status_t attn_check_backward_args(const attn_desc_t *desc, const attn_backward_args_t *args);

// Every array of lengths, tables and lists, where the host can read them. Pointers are there.
attn_status_t attn_check_forward_arrays(const attn_desc_t *desc, const attn_forward_args_t *args);

// The parts of it: lengths, then tables and lists that rely on the lengths.
attn_status_t attn_check_length_arrays(const attn_desc_t *desc, const attn_forward_args_t *args);
attn_status_t attn_check_block_lists(const attn_desc_t *desc, const attn_forward_args_t *args);

#endif
