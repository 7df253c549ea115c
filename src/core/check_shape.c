// Shape and lengths of a descriptor: sizes in range, and combinations that mean something.
#include <inttypes.h>

#include "check.h"
#include "checked.h"
#include "desc.h"
#include "status.h"

attn_status_t attn_check_shape(const attn_desc_t *desc)
{
    ATTN_FORWARD_ERROR(attn_check_backend(desc->backend, desc->device_index));
    ATTN_FORWARD_ERROR(attn_check_range("batch", desc->batch, 0, ATTN_COUNT_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("s_q", desc->s_q, 0, ATTN_LENGTH_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("s_kv", desc->s_kv, 0, ATTN_LENGTH_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("heads_q", desc->heads_q, 1, ATTN_COUNT_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("heads_kv", desc->heads_kv, 1, ATTN_COUNT_MAX));
    ATTN_RETURN_IF(desc->heads_q % desc->heads_kv != 0, ATTN_INVALID_ARGUMENT,
                   "heads_q: %" PRId64 ", expected a multiple of heads_kv (%" PRId64 ")",
                   desc->heads_q, desc->heads_kv);
    ATTN_FORWARD_ERROR(attn_check_range("d_qk", desc->d_qk, 1, ATTN_DIM_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("d_v", desc->d_v, 1, ATTN_DIM_MAX));
    ATTN_FORWARD_ERROR(attn_check_rows("s_q", desc->batch, desc->heads_q, desc->s_q));
    return attn_check_rows("s_kv", desc->batch, desc->heads_q, desc->s_kv);
}

static attn_status_t check_length_flags(const attn_desc_t *desc)
{
    ATTN_FORWARD_ERROR(attn_check_flag("varlen_q", desc->varlen_q));
    ATTN_FORWARD_ERROR(attn_check_flag("varlen_kv", desc->varlen_kv));
    ATTN_FORWARD_ERROR(attn_check_flag("has_seqused_q", desc->has_seqused_q));
    ATTN_FORWARD_ERROR(attn_check_flag("has_seqused_kv", desc->has_seqused_kv));
    ATTN_FORWARD_ERROR(attn_check_flag("has_leftpad_kv", desc->has_leftpad_kv));
    ATTN_FORWARD_ERROR(attn_check_flag("has_kv_batch_idx", desc->has_kv_batch_idx));
    return attn_check_flag("paged_kv", desc->paged_kv);
}

static attn_status_t check_pages(const attn_desc_t *desc)
{
    ATTN_RETURN_IF(desc->varlen_kv, ATTN_INVALID_ARGUMENT,
                   "paged_kv: 1, expected 0 with varlen_kv: pages have no pack");
    ATTN_RETURN_IF(desc->has_kv_batch_idx, ATTN_INVALID_ARGUMENT,
                   "paged_kv: 1, expected 0 with has_kv_batch_idx: page_table says it all");
    ATTN_FORWARD_ERROR(attn_check_range("page_size", desc->page_size, 1, ATTN_LENGTH_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("num_pages", desc->num_pages, 0, ATTN_COUNT_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("pages_per_seq", desc->pages_per_seq, 0, ATTN_LENGTH_MAX));
    ATTN_RETURN_IF(
        attn_ceil_div(desc->s_kv, desc->page_size) > desc->pages_per_seq, ATTN_INVALID_ARGUMENT,
        "s_kv: %" PRId64 ", expected <= page_size * pages_per_seq (%" PRId64 " * %" PRId64 ")",
        desc->s_kv, desc->page_size, desc->pages_per_seq);
    return ATTN_OK;
}

attn_status_t attn_check_lengths(const attn_desc_t *desc, attn_op_t op)
{
    ATTN_FORWARD_ERROR(check_length_flags(desc));
    if (desc->varlen_q) {
        ATTN_FORWARD_ERROR(attn_check_range("total_q", desc->total_q, 0, ATTN_LENGTH_MAX));
    }
    if (desc->varlen_kv) {
        ATTN_FORWARD_ERROR(attn_check_range("total_kv", desc->total_kv, 0, ATTN_LENGTH_MAX));
    }
    if (desc->has_kv_batch_idx) {
        ATTN_RETURN_IF(desc->varlen_kv, ATTN_INVALID_ARGUMENT,
                       "has_kv_batch_idx: 1, expected 0 with varlen_kv: a pack has no entries");
        ATTN_FORWARD_ERROR(attn_check_range("kv_batch", desc->kv_batch, 0, ATTN_COUNT_MAX));
    }
    if (desc->paged_kv) {
        ATTN_FORWARD_ERROR(check_pages(desc));
    }
    ATTN_RETURN_IF(op == ATTN_BACKWARD && desc->paged_kv, ATTN_UNSUPPORTED,
                   "paged_kv: 1, the backward pass has no kernel for pages");
    ATTN_RETURN_IF(op == ATTN_BACKWARD && desc->has_kv_batch_idx, ATTN_UNSUPPORTED,
                   "has_kv_batch_idx: 1, the backward pass has no kernel for it");
    return ATTN_OK;
}
