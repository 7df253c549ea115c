// Contents of a run's arrays: lengths, batch indices, page tables and block lists. After these
// checks every index that a kernel derives from them lies inside its operand, so kernels need no
// checks of their own.
#include <inttypes.h>

#include "args.h"
#include "check.h"
#include "checked.h"
#include "desc.h"
#include "sequence.h"
#include "status.h"

static attn_status_t check_entry(const char *name, int64_t b, int64_t value, int64_t high)
{
    ATTN_RETURN_IF(value < 0 || value > high, ATTN_INVALID_ARGUMENT,
                   "%s[%" PRId64 "]: %" PRId64 ", expected 0 .. %" PRId64, name, b, value, high);
    return ATTN_OK;
}

// Pages that the sequence's keys in use lie in.
static attn_status_t check_pages(const attn_desc_t *desc, const int32_t *page_table, int64_t b,
                                 int64_t len_kv)
{
    const int32_t *row = page_table + b * desc->page_table_stride_b;
    const int64_t pages = attn_ceil_div(len_kv, desc->page_size);
    for (int64_t p = 0; p < pages; p++) {
        ATTN_RETURN_IF(row[p] < 0 || row[p] >= desc->num_pages, ATTN_INVALID_ARGUMENT,
                       "page_table[%" PRId64 "][%" PRId64 "]: %" PRId32
                       ", expected a page below num_pages (%" PRId64 ")",
                       b, p, row[p], desc->num_pages);
    }
    return ATTN_OK;
}

static attn_status_t check_sequence(const attn_desc_t *desc, const attn_forward_args_t *args,
                                    int64_t b)
{
    if (desc->has_kv_batch_idx) {
        ATTN_FORWARD_ERROR(
            check_entry("kv_batch_idx", b, args->kv_batch_idx[b], desc->kv_batch - 1));
    }
    const attn_sequence_t seq = attn_sequence_at(desc, args, b);
    if (desc->has_seqused_q) {
        ATTN_FORWARD_ERROR(check_entry("seqused_q", b, args->seqused_q[b], seq.rows_q));
    }
    if (desc->has_seqused_kv) {
        ATTN_FORWARD_ERROR(check_entry("seqused_kv", b, args->seqused_kv[b], seq.rows_kv));
    }
    if (desc->has_leftpad_kv) {
        ATTN_FORWARD_ERROR(check_entry("leftpad_kv", b, args->leftpad_kv[b], seq.mask.len_kv));
    }
    return desc->paged_kv ? check_pages(desc, args->page_table, b, seq.mask.len_kv) : ATTN_OK;
}

attn_status_t attn_check_length_arrays(const attn_desc_t *desc, const attn_forward_args_t *args)
{
    if (desc->varlen_q) {
        ATTN_FORWARD_ERROR(attn_check_cu_seqlens("cu_seqlens_q", args->cu_seqlens_q, desc->batch,
                                                 desc->s_q, desc->total_q));
    }
    if (desc->varlen_kv) {
        ATTN_FORWARD_ERROR(attn_check_cu_seqlens("cu_seqlens_kv", args->cu_seqlens_kv, desc->batch,
                                                 desc->s_kv, desc->total_kv));
    }
    const int has_arrays = desc->has_kv_batch_idx || desc->has_seqused_q || desc->has_seqused_kv ||
                           desc->has_leftpad_kv || desc->paged_kv;
    for (int64_t b = 0; has_arrays && b < desc->batch; b++) {
        ATTN_FORWARD_ERROR(check_sequence(desc, args, b));
    }
    return ATTN_OK;
}

typedef struct list_place {
    int64_t b;
    int64_t h;
    int64_t block;
} list_place_t;

static attn_status_t check_list(const attn_desc_t *desc, const int32_t *index, int32_t count,
                                list_place_t at)
{
    ATTN_RETURN_IF(count < 0 || count > desc->blocks_per_row, ATTN_INVALID_ARGUMENT,
                   "block_count[%" PRId64 "][%" PRId64 "][%" PRId64 "]: %" PRId32
                   ", expected 0 .. blocks_per_row (%" PRId64 ")",
                   at.b, at.h, at.block, count, desc->blocks_per_row);
    const int64_t blocks = attn_ceil_div(desc->s_kv, desc->block_kv);
    for (int64_t i = 0; i < count; i++) {
        const int64_t low = i == 0 ? 0 : (int64_t)index[i - 1] + 1;
        ATTN_RETURN_IF(index[i] < low || index[i] >= blocks, ATTN_INVALID_ARGUMENT,
                       "block_index[%" PRId64 "][%" PRId64 "][%" PRId64 "][%" PRId64 "]: %" PRId32
                       ", expected ascending blocks below %" PRId64,
                       at.b, at.h, at.block, i, index[i], blocks);
    }
    return ATTN_OK;
}

// Lists that are shared by stride 0 are looked at once.
attn_status_t attn_check_block_lists(const attn_desc_t *desc, const attn_forward_args_t *args)
{
    const int64_t blocks = attn_desc_query_blocks(desc);
    const int64_t batch = desc->block_stride_b == 0 && desc->batch > 1 ? 1 : desc->batch;
    const int64_t heads = desc->block_stride_h == 0 ? 1 : desc->heads_q;
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t h = 0; h < heads; h++) {
            const int64_t first = b * desc->block_stride_b + h * desc->block_stride_h;
            for (int64_t block = 0; block < blocks; block++) {
                const int32_t *index =
                    desc->blocks_per_row > 0
                        ? args->block_index + (first + block) * desc->blocks_per_row
                        : NULL;
                ATTN_FORWARD_ERROR(check_list(desc, index, args->block_count[first + block],
                                              (list_place_t){b, h, block}));
            }
        }
    }
    return ATTN_OK;
}
