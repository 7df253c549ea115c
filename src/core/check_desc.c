// attn_desc_check: reads, checks, resolves. The rules themselves are in check_shape.c (shape,
// lengths), check_tensors.c (dtypes, strides) and check_options.c (mask, options).
#include <math.h>

#include "desc.h"
#include "status.h"

// No sequence is longer than the pack that holds it. Work is cut by these bounds, and a generous
// one must cost nothing. Strides are resolved before: those of masks follow the caller's bounds. So
// does the bias gradient, which is written up to them.
static void tighten_lengths(attn_desc_t *desc, attn_op_t op)
{
    if (op == ATTN_BACKWARD && desc->dbias.present) {
        return;
    }
    if (desc->varlen_q && desc->s_q > desc->total_q) {
        desc->s_q = desc->total_q;
    }
    if (desc->varlen_kv && desc->s_kv > desc->total_kv) {
        desc->s_kv = desc->total_kv;
    }
}

// A bound that no row can reach is no bound: all spellings of it take the same kernel and give the
// same bits.
static void fold_windows(attn_desc_t *desc)
{
    if (desc->causal) {
        desc->window_right = 0;
        desc->causal = 0;
    }
    // Row i is at position i + s_kv - s_q (bottom right) or i (top left): the largest and smallest
    // positions decide.
    const int is_bottom_right = desc->align == ATTN_ALIGN_BOTTOM_RIGHT;
    const int64_t left_needed = (is_bottom_right ? desc->s_kv : desc->s_q) - 1;
    const int64_t right_needed = (is_bottom_right ? desc->s_q : desc->s_kv) - 1;
    if (desc->window_left >= left_needed) {
        desc->window_left = -1;
    }
    if (desc->window_right >= right_needed) {
        desc->window_right = -1;
    }
}

attn_status_t attn_desc_check(const attn_desc_t *source, attn_op_t op, attn_desc_t *desc_out)
{
    ATTN_RETURN_IF(op != ATTN_FORWARD && op != ATTN_BACKWARD, ATTN_INVALID_ARGUMENT,
                   "op: %d, expected an attn_op_t", (int)op);
    ATTN_FORWARD_ERROR(attn_desc_read(source, desc_out));
    ATTN_FORWARD_ERROR(attn_check_shape(desc_out));
    ATTN_FORWARD_ERROR(attn_check_lengths(desc_out, op));
    ATTN_FORWARD_ERROR(attn_check_dtypes(desc_out, op));
    ATTN_FORWARD_ERROR(attn_check_tensors(desc_out, op));
    ATTN_FORWARD_ERROR(attn_check_mask(desc_out, op));
    ATTN_FORWARD_ERROR(attn_check_options(desc_out, op));
    tighten_lengths(desc_out, op);
    fold_windows(desc_out);
    if (isnan(desc_out->scale)) {
        desc_out->scale = (float)(1.0 / sqrt((double)desc_out->d_qk));
    }
    return ATTN_OK;
}
