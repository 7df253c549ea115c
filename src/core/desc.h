// The descriptor inside the library: its operands as a list, and the one function that turns a
// caller's descriptor into a checked, resolved one.
#ifndef ATTN_CORE_DESC_H
#define ATTN_CORE_DESC_H

#include "attn.h"
#include "strides.h"

// What every initialiser gives an operand: its strides follow from the shape.
static inline attn_tensor_t attn_tensor_auto(attn_dtype_t dtype)
{
    return (attn_tensor_t){
        .dtype = dtype,
        .stride_b = ATTN_STRIDE_AUTO,
        .stride_s = ATTN_STRIDE_AUTO,
        .stride_h = ATTN_STRIDE_AUTO,
        .stride_d = ATTN_STRIDE_AUTO,
    };
}

// A tensor of the descriptor with the sizes that its four strides walk.
typedef struct attn_operand {
    const char *name;
    attn_tensor_t *tensor;
    int64_t size_b; // packed: 1; paged: pages
    int64_t size_s; // packed: rows of the pack; paged: rows of a page
    int64_t size_h;
    int64_t size_d;
    int32_t is_packed;
    int32_t is_output;
} attn_operand_t;

#define ATTN_OPERANDS_MAX 8

// Lists the operands: q, k, v, o for a forward pass, then do_, dq, dk, dv for a backward pass.
// Returns their number.
int32_t attn_desc_operands(attn_desc_t *desc, attn_op_t op,
                           attn_operand_t list_out[ATTN_OPERANDS_MAX]);

// The dimensions of an operand from the innermost outwards.
void attn_operand_dims(const attn_operand_t *operand, attn_dim_t dims_out[4]);

// Resolves the operand's strides, and checks that its offsets fit and, for an output, that it does
// not overlap itself.
attn_status_t attn_operand_resolve(const attn_operand_t *operand);

// Query blocks of a block-sparse problem.
int64_t attn_desc_query_blocks(const attn_desc_t *desc);

// Reads the caller's descriptor, whatever its header's version; checks nothing else.
attn_status_t attn_desc_read(const attn_desc_t *source, attn_desc_t *desc_out);

// Reads the caller's descriptor and checks every rule of attn.h for the operation. The result has
// no ATTN_STRIDE_AUTO in what the operation uses, scale is a number, causal is folded into
// window_right, and a window that cannot hide a key is -1.
attn_status_t attn_desc_check(const attn_desc_t *source, attn_op_t op, attn_desc_t *desc_out);

// The parts of attn_desc_check, in this order; each relies on those before it.
attn_status_t attn_check_shape(const attn_desc_t *desc);
attn_status_t attn_check_lengths(const attn_desc_t *desc, attn_op_t op);
attn_status_t attn_check_dtypes(const attn_desc_t *desc, attn_op_t op);
attn_status_t attn_check_tensors(attn_desc_t *desc, attn_op_t op);
attn_status_t attn_check_mask(attn_desc_t *desc, attn_op_t op);
attn_status_t attn_check_options(attn_desc_t *desc, attn_op_t op);

#endif
