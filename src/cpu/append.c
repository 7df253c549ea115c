// Appends tokens to a K/V cache: each new token's row of K is rotated by its position and stored, V
// is copied, and the queries of the same tokens are rotated too if the caller wants them.
//
// Rotation of the pair (x, y) at position p: (x cos - y sin, x sin + y cos) with the tables' row p,
// in fp32; products and sums are rounded one by one, so that every compiler gives the same bits.
// What is not rotated is copied as bytes, whatever it is. Positions, pages and ids were checked by
// core before the first write: nothing here can fail.
#include "append.h"

#include "../core/checked.h"
#include "../core/context.h"
#include "../core/element.h"

#define TASK_TOKENS 16 // tokens of one sequence per task

typedef struct append_job {
    const attn_append_desc_t *desc;
    const attn_append_args_t *args;
    int64_t tasks_per_seq;
} append_job_t;

// One token: where its new rows are and where they go.
typedef struct token {
    int64_t new_b;    // factor of stride_b of k_new, v_new, q, q_out
    int64_t new_s;    // factor of their stride_s
    int64_t cache_b;  // factor of stride_b of the caches: entry or page
    int64_t cache_s;  // factor of their stride_s
    int64_t position; // in the sequence
} token_t;

// A head's row of dims in memory.
typedef struct head_row {
    unsigned char *data; // element 0; the sources of copies are not written to
    int64_t stride_d;
} head_row_t;

static head_row_t head_row(const void *data, const attn_tensor_t *tensor, int64_t b, int64_t s,
                           int64_t h)
{
    const int64_t index = b * tensor->stride_b + s * tensor->stride_s + h * tensor->stride_h;
    return (head_row_t){
        .data = (unsigned char *)(uintptr_t)data + index * attn_element_bytes(tensor->dtype),
        .stride_d = tensor->stride_d,
    };
}

// Dims [begin, end) as they are.
static void copy_dims(head_row_t to, head_row_t from, int64_t begin, int64_t end, int64_t bytes)
{
    if (to.data == from.data) {
        return;
    }
    if (to.stride_d == 1 && from.stride_d == 1) {
        memcpy(to.data + begin * bytes, from.data + begin * bytes, (size_t)((end - begin) * bytes));
        return;
    }
    for (int64_t d = begin; d < end; d++) {
        memcpy(to.data + d * to.stride_d * bytes, from.data + d * from.stride_d * bytes,
               (size_t)bytes);
    }
}

// Both elements of a pair are read before either is written: to may be from.
static void rotate_dims(const attn_append_desc_t *desc, attn_dtype_t dtype, head_row_t to,
                        head_row_t from, const float *cosines, const float *sines)
{
    const int64_t pairs = desc->rotary_dim / 2;
    const int is_interleaved = desc->rotary == ATTN_ROTARY_INTERLEAVED;
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t d_x = is_interleaved ? 2 * i : i;
        const int64_t d_y = is_interleaved ? 2 * i + 1 : i + pairs;
        const float x = attn_load_f32(dtype, from.data, d_x * from.stride_d);
        const float y = attn_load_f32(dtype, from.data, d_y * from.stride_d);
        attn_store_f32(dtype, to.data, d_x * to.stride_d, x * cosines[i] - y * sines[i]);
        attn_store_f32(dtype, to.data, d_y * to.stride_d, x * sines[i] + y * cosines[i]);
    }
}

static void rotate_row(const append_job_t *job, attn_dtype_t dtype, head_row_t to, head_row_t from,
                       int64_t position)
{
    const attn_append_desc_t *desc = job->desc;
    int64_t rotated = 0;
    if (desc->rotary != ATTN_ROTARY_NONE) {
        const int64_t at = position * (desc->rotary_dim / 2);
        rotate_dims(desc, dtype, to, from, job->args->rotary_cos + at, job->args->rotary_sin + at);
        rotated = desc->rotary_dim;
    }
    copy_dims(to, from, rotated, desc->d_qk, attn_element_bytes(dtype));
}

static void append_token(const append_job_t *job, token_t at)
{
    const attn_append_desc_t *desc = job->desc;
    const attn_append_args_t *args = job->args;
    for (int64_t h = 0; h < desc->heads_kv; h++) {
        rotate_row(job, desc->k_new.dtype,
                   head_row(args->k_cache, &desc->k_cache, at.cache_b, at.cache_s, h),
                   head_row(args->k_new, &desc->k_new, at.new_b, at.new_s, h), at.position);
        copy_dims(head_row(args->v_cache, &desc->v_cache, at.cache_b, at.cache_s, h),
                  head_row(args->v_new, &desc->v_new, at.new_b, at.new_s, h), 0, desc->d_v,
                  attn_element_bytes(desc->v_new.dtype));
    }
    for (int64_t h = 0; h < desc->heads_q; h++) {
        rotate_row(job, desc->q.dtype, head_row(args->q_out, &desc->q_out, at.new_b, at.new_s, h),
                   head_row(args->q, &desc->q, at.new_b, at.new_s, h), at.position);
    }
}

static token_t token_at(const append_job_t *job, int64_t b, int64_t t)
{
    const attn_append_desc_t *desc = job->desc;
    const attn_append_args_t *args = job->args;
    token_t at;
    at.new_b = desc->varlen_new ? 0 : b;
    at.new_s = desc->varlen_new ? args->cu_seqlens_new[b] + t : t;
    at.position = args->cache_seqlens[b] + t;
    if (desc->paged_kv) {
        at.cache_b =
            args->page_table[b * desc->page_table_stride_b + at.position / desc->page_size];
        at.cache_s = at.position % desc->page_size;
    } else {
        at.cache_b = desc->has_cache_batch_idx ? args->cache_batch_idx[b] : b;
        at.cache_s = at.position;
    }
    return at;
}

static void append_task(void *arg, int64_t task, int32_t worker)
{
    (void)worker;
    const append_job_t *job = arg;
    const int64_t b = task / job->tasks_per_seq;
    const int64_t begin = task % job->tasks_per_seq * TASK_TOKENS;
    const int32_t *cu = job->args->cu_seqlens_new;
    const int64_t tokens = job->desc->varlen_new ? cu[b + 1] - cu[b] : job->desc->s_new;
    const int64_t end = tokens < begin + TASK_TOKENS ? tokens : begin + TASK_TOKENS;
    for (int64_t t = begin; t < end; t++) {
        append_token(job, token_at(job, b, t));
    }
}

attn_status_t attn_cpu_append(const attn_context_t *context, const attn_append_desc_t *desc,
                              const attn_append_args_t *args, void *stream)
{
    (void)stream;
    append_job_t job = {
        .desc = desc,
        .args = args,
        .tasks_per_seq = attn_ceil_div(desc->s_new, TASK_TOKENS),
    };
    attn_parallel_for(context, desc->batch * job.tasks_per_seq, append_task, &job);
    return ATTN_OK;
}
