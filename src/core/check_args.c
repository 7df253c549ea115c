// Pointers of a run: what the descriptor asks for is there, what it does not ask for is not. A
// pointer that an option would ignore is refused, so that no argument is ever silently without
// effect.
#include "args.h"
#include "check.h"
#include "desc.h"
#include "status.h"

// Whether the operand has elements. d is never 0.
static int operand_has_elements(const attn_operand_t *operand)
{
    return operand->size_b > 0 && operand->size_s > 0;
}

static attn_status_t check_operands(const attn_desc_t *desc, const attn_forward_args_t *args,
                                    attn_op_t op)
{
    attn_desc_t copy = *desc;
    attn_operand_t list[ATTN_OPERANDS_MAX];
    attn_desc_operands(&copy, ATTN_FORWARD, list);
    const int has_q = operand_has_elements(&list[0]);
    const int has_kv = operand_has_elements(&list[1]);
    const int needs_lse = desc->wants_lse || op == ATTN_BACKWARD;
    const attn_pointer_t pointers[] = {
        {"q", args->q, 1, has_q, "the descriptor"},
        {"k", args->k, 1, has_kv, "the descriptor"},
        {"v", args->v, 1, has_kv, "the descriptor"},
        {"o", args->o, 1, has_q, "the descriptor"},
        {"lse", args->lse, needs_lse, has_q,
         op == ATTN_BACKWARD ? "the backward pass" : "desc.wants_lse"},
    };
    return attn_check_pointers(pointers, (int32_t)(sizeof(pointers) / sizeof(pointers[0])));
}

static attn_status_t check_arrays_present(const attn_desc_t *desc, const attn_forward_args_t *args)
{
    const int32_t has_batch = desc->batch > 0;
    const int32_t has_table = has_batch && desc->pages_per_seq > 0;
    const attn_pointer_t pointers[] = {
        {"cu_seqlens_q", args->cu_seqlens_q, desc->varlen_q, 1, "desc.varlen_q"},
        {"cu_seqlens_kv", args->cu_seqlens_kv, desc->varlen_kv, 1, "desc.varlen_kv"},
        {"seqused_q", args->seqused_q, desc->has_seqused_q, has_batch, "desc.has_seqused_q"},
        {"seqused_kv", args->seqused_kv, desc->has_seqused_kv, has_batch, "desc.has_seqused_kv"},
        {"leftpad_kv", args->leftpad_kv, desc->has_leftpad_kv, has_batch, "desc.has_leftpad_kv"},
        {"kv_batch_idx", args->kv_batch_idx, desc->has_kv_batch_idx, has_batch,
         "desc.has_kv_batch_idx"},
        {"page_table", args->page_table, desc->paged_kv, has_table, "desc.paged_kv"},
    };
    return attn_check_pointers(pointers, (int32_t)(sizeof(pointers) / sizeof(pointers[0])));
}

static attn_status_t check_options_present(const attn_desc_t *desc, const attn_forward_args_t *args)
{
    const int32_t has_rows = desc->batch > 0 && desc->s_q > 0;
    const int32_t has_scores = has_rows && desc->s_kv > 0;
    const int32_t has_lists = has_rows && desc->blocks_per_row > 0;
    const attn_pointer_t pointers[] = {
        {"mask", args->mask, desc->mask.present, has_scores, "desc.mask.present"},
        {"bias", args->bias, desc->bias.present, has_scores, "desc.bias.present"},
        {"alibi_slopes", args->alibi_slopes, desc->has_alibi, has_rows, "desc.has_alibi"},
        {"sink", args->sink, desc->has_sink, 1, "desc.has_sink"},
        {"block_count", args->block_count, desc->block_sparse, has_rows, "desc.block_sparse"},
        {"block_index", args->block_index, desc->block_sparse, has_lists, "desc.block_sparse"},
        {"dropout_state", args->dropout_state, desc->dropout_p > 0.0f, 1, "desc.dropout_p"},
        {"q_descale", args->q_descale, desc->q_descale.present, has_rows, "desc.q_descale.present"},
        {"k_descale", args->k_descale, desc->k_descale.present, has_scores,
         "desc.k_descale.present"},
        {"v_descale", args->v_descale, desc->v_descale.present, has_scores,
         "desc.v_descale.present"},
    };
    return attn_check_pointers(pointers, (int32_t)(sizeof(pointers) / sizeof(pointers[0])));
}

attn_status_t attn_check_forward_args(const attn_desc_t *desc, const attn_forward_args_t *args,
                                      attn_op_t op)
{
    ATTN_FORWARD_ERROR(check_operands(desc, args, op));
    ATTN_FORWARD_ERROR(check_arrays_present(desc, args));
    return check_options_present(desc, args);
}

attn_status_t attn_check_forward_arrays(const attn_desc_t *desc, const attn_forward_args_t *args)
{
    ATTN_FORWARD_ERROR(attn_check_length_arrays(desc, args));
    return desc->block_sparse ? attn_check_block_lists(desc, args) : ATTN_OK;
}

attn_status_t attn_check_backward_args(const attn_desc_t *desc, const attn_backward_args_t *args)
{
    attn_desc_t copy = *desc;
    attn_operand_t list[ATTN_OPERANDS_MAX];
    attn_desc_operands(&copy, ATTN_BACKWARD, list);
    const int has_q = operand_has_elements(&list[0]);
    const int has_bias = desc->batch > 0 && desc->s_q > 0 && desc->s_kv > 0;
    // dq, dk and dv may each be NULL: not wanted.
    const attn_pointer_t pointers[] = {
        {"do_", args->do_, 1, has_q, "the backward pass"},
        {"dlse", args->dlse, desc->has_dlse, has_q, "desc.has_dlse"},
        {"dsink", args->dsink, desc->wants_dsink, 1, "desc.wants_dsink"},
        {"dbias", args->dbias, desc->dbias.present, has_bias, "desc.dbias.present"},
    };
    ATTN_FORWARD_ERROR(attn_check_forward_args(desc, &args->in, ATTN_BACKWARD));
    return attn_check_pointers(pointers, (int32_t)(sizeof(pointers) / sizeof(pointers[0])));
}
