// What attn_append may be asked for, and that every token has its place: in the cache, in a page
// that exists, and in the rotation tables.
#include "append_check.h"

#include <inttypes.h>

#include "check.h"
#include "checked.h"
#include "desc.h"
#include "status.h"

// -------------------------------------------------------------------------------------------------
// Descriptor

static attn_status_t check_shape(const attn_append_desc_t *desc)
{
    ATTN_FORWARD_ERROR(attn_check_backend(desc->backend, desc->device_index));
    ATTN_FORWARD_ERROR(attn_check_range("batch", desc->batch, 0, ATTN_COUNT_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("s_new", desc->s_new, 0, ATTN_LENGTH_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("heads_kv", desc->heads_kv, 1, ATTN_COUNT_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("heads_q", desc->heads_q, 0, ATTN_COUNT_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("d_qk", desc->d_qk, 1, ATTN_DIM_MAX));
    ATTN_FORWARD_ERROR(attn_check_range("d_v", desc->d_v, 1, ATTN_DIM_MAX));
    ATTN_FORWARD_ERROR(attn_check_flag("varlen_new", desc->varlen_new));
    ATTN_FORWARD_ERROR(attn_check_flag("has_cache_batch_idx", desc->has_cache_batch_idx));
    ATTN_FORWARD_ERROR(attn_check_flag("paged_kv", desc->paged_kv));
    if (desc->varlen_new) {
        ATTN_FORWARD_ERROR(attn_check_range("total_new", desc->total_new, 0, ATTN_LENGTH_MAX));
    }
    ATTN_FORWARD_ERROR(attn_check_rows("s_new", desc->batch, desc->heads_kv, desc->s_new));
    return attn_check_rows("s_new", desc->batch, desc->heads_q, desc->s_new);
}

static attn_status_t check_cache(const attn_append_desc_t *desc)
{
    if (desc->paged_kv) {
        ATTN_RETURN_IF(desc->has_cache_batch_idx, ATTN_INVALID_ARGUMENT,
                       "has_cache_batch_idx: 1, expected 0 with paged_kv: page_table says it all");
        ATTN_FORWARD_ERROR(attn_check_range("page_size", desc->page_size, 1, ATTN_LENGTH_MAX));
        ATTN_FORWARD_ERROR(attn_check_range("num_pages", desc->num_pages, 0, ATTN_COUNT_MAX));
        return attn_check_range("pages_per_seq", desc->pages_per_seq, 0, ATTN_LENGTH_MAX);
    }
    ATTN_FORWARD_ERROR(attn_check_range("capacity", desc->capacity, 0, ATTN_LENGTH_MAX));
    const int64_t needed = desc->has_cache_batch_idx ? 0 : desc->batch;
    return attn_check_range("cache_batch", desc->cache_batch, needed, ATTN_COUNT_MAX);
}

static attn_status_t check_pair(const char *name, attn_dtype_t dtype, const char *like,
                                attn_dtype_t expected)
{
    ATTN_FORWARD_ERROR(attn_check_dtype(like, expected));
    ATTN_RETURN_IF(dtype != expected, ATTN_INVALID_ARGUMENT, "%s.dtype: %s, expected %s like %s",
                   name, attn_dtype_name(dtype), attn_dtype_name(expected), like);
    return ATTN_OK;
}

static attn_status_t check_rotated(const attn_append_desc_t *desc, const char *name,
                                   attn_dtype_t dtype)
{
    ATTN_RETURN_IF(desc->rotary != ATTN_ROTARY_NONE &&
                       (attn_dtype_is_fp8(dtype) || dtype == ATTN_F64),
                   ATTN_UNSUPPORTED, "%s.dtype: %s, only f32, f16 and bf16 can be rotated", name,
                   attn_dtype_name(dtype));
    return ATTN_OK;
}

static attn_status_t check_dtypes(const attn_append_desc_t *desc)
{
    ATTN_FORWARD_ERROR(check_pair("k_cache", desc->k_cache.dtype, "k_new", desc->k_new.dtype));
    ATTN_FORWARD_ERROR(check_pair("v_cache", desc->v_cache.dtype, "v_new", desc->v_new.dtype));
    ATTN_FORWARD_ERROR(check_rotated(desc, "k_new", desc->k_new.dtype));
    if (desc->heads_q > 0) {
        ATTN_FORWARD_ERROR(check_pair("q_out", desc->q_out.dtype, "q", desc->q.dtype));
        ATTN_FORWARD_ERROR(check_rotated(desc, "q", desc->q.dtype));
    }
    return ATTN_OK;
}

static attn_status_t check_rotary(const attn_append_desc_t *desc)
{
    ATTN_RETURN_IF((unsigned)desc->rotary > ATTN_ROTARY_HALF, ATTN_INVALID_ARGUMENT,
                   "rotary: %d, expected an attn_rotary_t", (int)desc->rotary);
    if (desc->rotary == ATTN_ROTARY_NONE) {
        return ATTN_OK;
    }
    ATTN_FORWARD_ERROR(attn_check_range("rotary_dim", desc->rotary_dim, 2, desc->d_qk));
    ATTN_RETURN_IF(desc->rotary_dim % 2 != 0, ATTN_INVALID_ARGUMENT,
                   "rotary_dim: %" PRId64 ", expected an even number", desc->rotary_dim);
    return attn_check_range("rotary_positions", desc->rotary_positions, 0, ATTN_LENGTH_MAX);
}

static attn_status_t resolve_new(attn_append_desc_t *desc, const char *name, attn_tensor_t *tensor,
                                 int64_t heads, int64_t d, int32_t is_output)
{
    const attn_operand_t operand = {
        .name = name,
        .tensor = tensor,
        .size_b = desc->varlen_new ? 1 : desc->batch,
        .size_s = desc->varlen_new ? desc->total_new : desc->s_new,
        .size_h = heads,
        .size_d = d,
        .is_packed = desc->varlen_new,
        .is_output = is_output,
    };
    return attn_operand_resolve(&operand);
}

static attn_status_t resolve_cache(attn_append_desc_t *desc, const char *name,
                                   attn_tensor_t *tensor, int64_t d)
{
    const attn_operand_t operand = {
        .name = name,
        .tensor = tensor,
        .size_b = desc->paged_kv ? desc->num_pages : desc->cache_batch,
        .size_s = desc->paged_kv ? desc->page_size : desc->capacity,
        .size_h = desc->heads_kv,
        .size_d = d,
        .is_output = 1,
    };
    return attn_operand_resolve(&operand);
}

static attn_status_t resolve_page_table(attn_append_desc_t *desc)
{
    attn_dim_t dims[2] = {{desc->pages_per_seq, 1}, {desc->batch, desc->page_table_stride_b}};
    ATTN_FORWARD_ERROR(attn_strides_resolve("page_table", dims, 2));
    desc->page_table_stride_b = dims[1].stride;
    return attn_strides_check_extent("page_table", dims, 2, (int64_t)sizeof(int32_t));
}

attn_status_t attn_append_desc_check(attn_append_desc_t *desc)
{
    ATTN_FORWARD_ERROR(check_shape(desc));
    ATTN_FORWARD_ERROR(check_cache(desc));
    ATTN_FORWARD_ERROR(check_rotary(desc));
    ATTN_FORWARD_ERROR(check_dtypes(desc));
    ATTN_FORWARD_ERROR(resolve_new(desc, "k_new", &desc->k_new, desc->heads_kv, desc->d_qk, 0));
    ATTN_FORWARD_ERROR(resolve_new(desc, "v_new", &desc->v_new, desc->heads_kv, desc->d_v, 0));
    ATTN_FORWARD_ERROR(resolve_cache(desc, "k_cache", &desc->k_cache, desc->d_qk));
    ATTN_FORWARD_ERROR(resolve_cache(desc, "v_cache", &desc->v_cache, desc->d_v));
    if (desc->heads_q > 0) {
        ATTN_FORWARD_ERROR(resolve_new(desc, "q", &desc->q, desc->heads_q, desc->d_qk, 0));
        ATTN_FORWARD_ERROR(resolve_new(desc, "q_out", &desc->q_out, desc->heads_q, desc->d_qk, 1));
    }
    if (desc->varlen_new && desc->s_new > desc->total_new) {
        desc->s_new = desc->total_new; // no sequence is longer than the pack: work is cut by it
    }
    return desc->paged_kv ? resolve_page_table(desc) : ATTN_OK;
}

// -------------------------------------------------------------------------------------------------
// Arguments

static attn_status_t check_pointers(const attn_append_desc_t *desc, const attn_append_args_t *args)
{
    const int32_t has_batch = desc->batch > 0;
    const int32_t has_new = desc->varlen_new ? desc->total_new > 0 : has_batch && desc->s_new > 0;
    const int32_t has_cache = has_batch && has_new;
    const int32_t is_rotated = desc->rotary != ATTN_ROTARY_NONE;
    const int32_t has_tables = has_cache && desc->rotary_positions > 0;
    const int32_t has_table = has_batch && desc->pages_per_seq > 0;
    const int32_t has_q = desc->heads_q > 0;
    const attn_pointer_t pointers[] = {
        {"k_new", args->k_new, 1, has_new, "the descriptor"},
        {"v_new", args->v_new, 1, has_new, "the descriptor"},
        {"k_cache", args->k_cache, 1, has_cache, "the descriptor"},
        {"v_cache", args->v_cache, 1, has_cache, "the descriptor"},
        {"cache_seqlens", args->cache_seqlens, 1, has_batch, "the descriptor"},
        {"cu_seqlens_new", args->cu_seqlens_new, desc->varlen_new, 1, "desc.varlen_new"},
        {"cache_batch_idx", args->cache_batch_idx, desc->has_cache_batch_idx, has_batch,
         "desc.has_cache_batch_idx"},
        {"page_table", args->page_table, desc->paged_kv, has_table, "desc.paged_kv"},
        {"rotary_cos", args->rotary_cos, is_rotated, has_tables, "desc.rotary"},
        {"rotary_sin", args->rotary_sin, is_rotated, has_tables, "desc.rotary"},
        {"q", args->q, has_q, has_new, "desc.heads_q"},
        {"q_out", args->q_out, has_q, has_new, "desc.heads_q"},
    };
    return attn_check_pointers(pointers, (int32_t)(sizeof(pointers) / sizeof(pointers[0])));
}

static int have_equal_strides(const attn_tensor_t *x, const attn_tensor_t *y)
{
    return x->stride_b == y->stride_b && x->stride_s == y->stride_s && x->stride_h == y->stride_h &&
           x->stride_d == y->stride_d;
}

// Pages that rows [begin, end) of the sequence lie in. Needs: end <= page_size * pages_per_seq.
static attn_status_t check_pages(const attn_append_desc_t *desc, const int32_t *page_table,
                                 int64_t b, int64_t begin, int64_t end)
{
    const int32_t *row = page_table + b * desc->page_table_stride_b;
    for (int64_t p = begin / desc->page_size; p * desc->page_size < end; p++) {
        ATTN_RETURN_IF(row[p] < 0 || row[p] >= desc->num_pages, ATTN_INVALID_ARGUMENT,
                       "page_table[%" PRId64 "][%" PRId64 "]: %" PRId32
                       ", expected a page below num_pages (%" PRId64 ")",
                       b, p, row[p], desc->num_pages);
    }
    return ATTN_OK;
}

// Whether so many rows fit in the sequence's part of the cache.
static attn_status_t check_room(const attn_append_desc_t *desc, int64_t b, int64_t used,
                                int64_t added)
{
    int64_t capacity = desc->capacity;
    if (desc->paged_kv && !attn_checked_mul(desc->page_size, desc->pages_per_seq, &capacity)) {
        capacity = INT64_MAX;
    }
    ATTN_RETURN_IF(used < 0, ATTN_INVALID_ARGUMENT,
                   "cache_seqlens[%" PRId64 "]: %" PRId64 ", expected >= 0", b, used);
    ATTN_RETURN_IF(used + added > capacity, ATTN_INVALID_ARGUMENT,
                   "cache_seqlens[%" PRId64 "] + %" PRId64 " new = %" PRId64 ", capacity %" PRId64,
                   b, added, used + added, capacity);
    ATTN_RETURN_IF(desc->rotary != ATTN_ROTARY_NONE && used + added > desc->rotary_positions,
                   ATTN_INVALID_ARGUMENT,
                   "cache_seqlens[%" PRId64 "] + %" PRId64 " new = %" PRId64
                   ", rotary_positions %" PRId64,
                   b, added, used + added, desc->rotary_positions);
    return ATTN_OK;
}

static attn_status_t check_sequence(const attn_append_desc_t *desc, const attn_append_args_t *args,
                                    int64_t b)
{
    const int32_t *cu = args->cu_seqlens_new;
    const int64_t used = args->cache_seqlens[b];
    const int64_t added = desc->varlen_new ? cu[b + 1] - cu[b] : desc->s_new;
    if (desc->has_cache_batch_idx) {
        const int64_t entry = args->cache_batch_idx[b];
        ATTN_RETURN_IF(entry < 0 || entry >= desc->cache_batch, ATTN_INVALID_ARGUMENT,
                       "cache_batch_idx[%" PRId64 "]: %" PRId64 ", expected 0 .. %" PRId64, b,
                       entry, desc->cache_batch - 1);
    }
    if (added == 0) {
        return ATTN_OK;
    }
    ATTN_FORWARD_ERROR(check_room(desc, b, used, added));
    return desc->paged_kv ? check_pages(desc, args->page_table, b, used, used + added) : ATTN_OK;
}

attn_status_t attn_append_args_check(const attn_append_desc_t *desc, const attn_append_args_t *args)
{
    ATTN_FORWARD_ERROR(check_pointers(desc, args));
    ATTN_RETURN_IF(desc->heads_q > 0 && args->q != NULL && args->q == args->q_out &&
                       !have_equal_strides(&desc->q, &desc->q_out),
                   ATTN_INVALID_ARGUMENT,
                   "q_out: the same memory as q, expected the same strides too");
    return ATTN_OK;
}

attn_status_t attn_append_arrays_check(const attn_append_desc_t *desc,
                                       const attn_append_args_t *args)
{
    if (desc->varlen_new) {
        ATTN_FORWARD_ERROR(attn_check_cu_seqlens("cu_seqlens_new", args->cu_seqlens_new,
                                                 desc->batch, desc->s_new, desc->total_new));
    }
    for (int64_t b = 0; b < desc->batch; b++) {
        ATTN_FORWARD_ERROR(check_sequence(desc, args, b));
    }
    return attn_append_check_places(desc, args);
}
