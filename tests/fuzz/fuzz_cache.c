// Draws calls of attn_append and attn_merge from the fuzzer's bytes, as fuzz_desc.c draws runs:
// sensible descriptors with some fields overwritten, arrays of any content. What is accepted must
// stay inside its operands; an append that is refused must leave the cache alone.
#include "fuzz_input.h"

#include "core/append_check.h"
#include "core/element.h"

#define STRUCT_BYTES_MAX 4096

static void tensor_dims(const attn_tensor_t *tensor, int64_t b, int64_t s, int64_t h, int64_t d,
                        attn_dim_t dims[4])
{
    dims[0] = (attn_dim_t){d, tensor->stride_d};
    dims[1] = (attn_dim_t){h, tensor->stride_h};
    dims[2] = (attn_dim_t){s, tensor->stride_s};
    dims[3] = (attn_dim_t){b, tensor->stride_b};
}

// ---------------------------------------------------------------------------------------------
// Append

static void draw_append(fuzz_input_t *input, attn_append_desc_t *desc)
{
    attn_append_desc_init(desc, (attn_dtype_t)fuzz_up_to(input, ATTN_F64));
    const uint8_t bits = fuzz_byte(input);
    desc->batch = fuzz_up_to(input, 4);
    desc->s_new = fuzz_up_to(input, 18);
    desc->heads_kv = 1 + fuzz_up_to(input, 3);
    desc->d_qk = 1 + fuzz_up_to(input, 20);
    desc->d_v = 1 + fuzz_up_to(input, 20);
    desc->cache_batch = desc->batch + fuzz_up_to(input, 2);
    desc->capacity = fuzz_up_to(input, 60);
    desc->varlen_new = bits & 1;
    desc->total_new = fuzz_up_to(input, 50);
    desc->has_cache_batch_idx = bits >> 1 & 1;
    desc->paged_kv = bits >> 2 & 1;
    desc->page_size = 1 + fuzz_up_to(input, 15);
    desc->num_pages = 1 + fuzz_up_to(input, 20);
    desc->pages_per_seq = fuzz_up_to(input, 8);
    desc->rotary = (attn_rotary_t)fuzz_up_to(input, 2);
    desc->rotary_dim = 2 * fuzz_up_to(input, desc->d_qk / 2);
    desc->rotary_positions = fuzz_up_to(input, 150);
    desc->heads_q = fuzz_up_to(input, 3);
}

typedef struct append_sizes {
    int64_t new_b, new_s, cache_b, cache_s;
} append_sizes_t;

static append_sizes_t sizes_of(const attn_append_desc_t *desc)
{
    return (append_sizes_t){
        .new_b = desc->varlen_new ? 1 : desc->batch,
        .new_s = desc->varlen_new ? desc->total_new : desc->s_new,
        .cache_b = desc->paged_kv ? desc->num_pages : desc->cache_batch,
        .cache_s = desc->paged_kv ? desc->page_size : desc->capacity,
    };
}

// k_new, v_new, k_cache, v_cache, q, q_out, page_table, cos, sin. Returns whether all are small.
enum { APPEND_OPERANDS = 9 };
static bool append_dims(const attn_append_desc_t *desc, attn_dim_t dims[APPEND_OPERANDS][4])
{
    const append_sizes_t n = sizes_of(desc);
    tensor_dims(&desc->k_new, n.new_b, n.new_s, desc->heads_kv, desc->d_qk, dims[0]);
    tensor_dims(&desc->v_new, n.new_b, n.new_s, desc->heads_kv, desc->d_v, dims[1]);
    tensor_dims(&desc->k_cache, n.cache_b, n.cache_s, desc->heads_kv, desc->d_qk, dims[2]);
    tensor_dims(&desc->v_cache, n.cache_b, n.cache_s, desc->heads_kv, desc->d_v, dims[3]);
    const bool has_q = desc->heads_q > 0;
    tensor_dims(&desc->q, n.new_b, n.new_s, desc->heads_q, has_q ? desc->d_qk : 0, dims[4]);
    tensor_dims(&desc->q_out, n.new_b, n.new_s, desc->heads_q, has_q ? desc->d_qk : 0, dims[5]);
    const attn_dim_t one = {1, 0};
    const attn_dim_t none = {0, 0};
    for (int i = 6; i < APPEND_OPERANDS; i++) {
        dims[i][2] = dims[i][3] = one;
    }
    dims[6][0] = desc->paged_kv ? (attn_dim_t){desc->pages_per_seq, 1} : none;
    dims[6][1] = (attn_dim_t){desc->batch, desc->paged_kv ? desc->page_table_stride_b : 0};
    for (int i = 7; i < APPEND_OPERANDS; i++) {
        const bool is_rotated = desc->rotary != ATTN_ROTARY_NONE;
        dims[i][0] = is_rotated ? (attn_dim_t){desc->rotary_dim / 2, 1} : none;
        dims[i][1] = (attn_dim_t){desc->rotary_positions, is_rotated ? desc->rotary_dim / 2 : 0};
    }
    bool small = desc->batch <= 16 && desc->s_new <= 100;
    for (int i = 0; i < APPEND_OPERANDS; i++) {
        const bool is_used = i < 4 || (i < 6 && has_q) || (i == 6 && desc->paged_kv) ||
                             (i > 6 && desc->rotary != ATTN_ROTARY_NONE);
        if (!is_used) {
            for (int k = 0; k < 4; k++) {
                dims[i][k] = none;
            }
        }
        small = small && fuzz_is_small(dims[i], 4);
    }
    return small;
}

static int32_t *draw_ints(fuzz_input_t *input, int64_t count, int64_t high)
{
    const fuzz_buffer_t buffer = fuzz_bytes(input, (size_t)count * sizeof(int32_t));
    int32_t *values = (int32_t *)(void *)buffer.memory;
    for (int64_t i = 0; i < count; i++) {
        values[i] = (int32_t)fuzz_up_to(input, high < 0 ? 0 : high);
    }
    if (count > 0 && fuzz_byte(input) % 8 == 1) {
        values[fuzz_up_to(input, count - 1)] = (int32_t)fuzz_odd_value(input);
    }
    return values;
}

static int32_t *draw_cu_seqlens(fuzz_input_t *input, const attn_append_desc_t *desc)
{
    int32_t *cu = draw_ints(input, desc->batch + 1, 0);
    // Unpacked, total_new is any value and the library does not look.
    for (int64_t b = 0; b < desc->batch && desc->varlen_new; b++) {
        const int64_t left = desc->total_new - cu[b];
        const int64_t room = left < desc->s_new ? left : desc->s_new;
        cu[b + 1] = (int32_t)(cu[b] + fuzz_up_to(input, room < 0 ? 0 : room));
    }
    return cu;
}

// Rows of the cache that a sequence may have in use before the call, so that new ones mostly fit.
static int64_t likely_length(const attn_append_desc_t *desc)
{
    if (!desc->paged_kv) {
        return desc->capacity < 256 ? desc->capacity / 2 : 100;
    }
    const bool is_small = desc->page_size < 256 && desc->pages_per_seq < 256;
    return is_small ? desc->page_size * desc->pages_per_seq / 2 : 100;
}

static void run_append(fuzz_input_t *input, const attn_context_t *context,
                       const attn_append_desc_t *given, const attn_append_desc_t *desc)
{
    attn_dim_t dims[APPEND_OPERANDS][4];
    if (!append_dims(desc, dims)) {
        return;
    }
    const attn_dtype_t dtypes[APPEND_OPERANDS] = {
        desc->k_new.dtype,
        desc->v_new.dtype,
        desc->k_cache.dtype,
        desc->v_cache.dtype,
        desc->q.dtype,
        desc->q_out.dtype,
        ATTN_F32,
        ATTN_F32,
        ATTN_F32,
    };
    fuzz_buffer_t buffers[APPEND_OPERANDS];
    for (int i = 0; i < APPEND_OPERANDS; i++) {
        buffers[i] = fuzz_operand(input, dims[i], 4, attn_element_bytes(dtypes[i]));
    }
    for (size_t i = 0; i < buffers[6].bytes / sizeof(int32_t) && desc->num_pages > 0; i++) {
        ((int32_t *)(void *)buffers[6].memory)[i] = (int32_t)fuzz_up_to(input, desc->num_pages - 1);
    }
    int32_t *lengths = draw_ints(input, desc->batch, likely_length(desc));
    int32_t *cu = draw_cu_seqlens(input, desc);
    const bool has_entries = desc->cache_batch > 0 && desc->cache_batch <= 255;
    int32_t *entries = draw_ints(input, desc->batch, has_entries ? desc->cache_batch - 1 : 0);
    attn_append_args_t args;
    attn_append_args_init(&args);
    args.k_new = buffers[0].origin;
    args.v_new = buffers[1].origin;
    args.k_cache = buffers[2].origin;
    args.v_cache = buffers[3].origin;
    args.q = desc->heads_q > 0 ? buffers[4].origin : NULL;
    args.q_out = desc->heads_q > 0 ? buffers[5].origin : NULL;
    args.page_table = desc->paged_kv ? (const int32_t *)(void *)buffers[6].origin : NULL;
    if (desc->rotary != ATTN_ROTARY_NONE) {
        args.rotary_cos = (const float *)(void *)buffers[7].origin;
        args.rotary_sin = (const float *)(void *)buffers[8].origin;
    }
    args.cache_seqlens = lengths;
    args.cu_seqlens_new = desc->varlen_new ? cu : NULL;
    args.cache_batch_idx = desc->has_cache_batch_idx ? entries : NULL;
    unsigned char *before = malloc(buffers[2].bytes + 1);
    if (before == NULL) {
        abort();
    }
    memcpy(before, buffers[2].memory, buffers[2].bytes);
    const attn_status_t status = attn_append(context, given, &args, NULL);
    fuzz_check_status(status);
    if (status != ATTN_OK && memcmp(before, buffers[2].memory, buffers[2].bytes) != 0) {
        fprintf(stderr, "refused (%s), but the cache was written\n", attn_last_error());
        abort();
    }
    free(before);
    free(lengths);
    free(cu);
    free(entries);
    for (int i = 0; i < APPEND_OPERANDS; i++) {
        free(buffers[i].memory);
    }
}

static void fuzz_append(fuzz_input_t *input, const attn_context_t *context)
{
    union {
        attn_append_desc_t desc;
        unsigned char bytes[STRUCT_BYTES_MAX];
    } drawn = {.bytes = {0}};
    draw_append(input, &drawn.desc);
    fuzz_mutate(input, &drawn, sizeof(drawn.desc) + 16);
    // Which sizes are meant is known only for a struct of this header's length.
    attn_append_desc_t full = drawn.desc;
    if (full.struct_size == sizeof(full) && attn_append_desc_check(&full) == ATTN_OK) {
        run_append(input, context, &drawn.desc, &full);
        return;
    }
    attn_append_args_t args;
    attn_append_args_init(&args);
    fuzz_check_status(attn_append(context, &drawn.desc, &args, NULL));
}

// ---------------------------------------------------------------------------------------------
// Merge

static void fuzz_merge(fuzz_input_t *input, const attn_context_t *context)
{
    attn_merge_desc_t desc;
    attn_merge_desc_init(&desc, (attn_dtype_t)fuzz_up_to(input, ATTN_F64));
    desc.parts = fuzz_up_to(input, 5);
    desc.batch = fuzz_up_to(input, 3);
    desc.s_q = fuzz_up_to(input, 9);
    desc.heads_q = 1 + fuzz_up_to(input, 3);
    desc.d_v = 1 + fuzz_up_to(input, 140);
    // Parts may overlap or be shared; results must not.
    int64_t *const strides[] = {&desc.o_part_stride_p, &desc.o_part_stride_s,
                                &desc.lse_part_stride_p, &desc.lse_part_stride_h};
    const uint8_t given = fuzz_byte(input);
    for (int i = 0; i < 4; i++) {
        if (given >> i & 1) {
            *strides[i] = fuzz_up_to(input, 30);
        }
    }
    const int64_t p = given & 1 ? desc.o_part_stride_p : desc.batch * desc.s_q * desc.heads_q * 141;
    const size_t o_part_count =
        (size_t)(desc.parts * (p + 30) + desc.batch * (desc.s_q + 1) * (desc.heads_q * 141 + 30));
    const size_t lse_count =
        (size_t)((desc.parts + 1) * (desc.batch + 1) * (desc.s_q + 30) * (desc.heads_q + 30));
    const size_t rows = (size_t)(desc.batch * desc.s_q * desc.heads_q);
    const fuzz_buffer_t o_part = fuzz_bytes(input, o_part_count * sizeof(float));
    const fuzz_buffer_t lse_part = fuzz_bytes(input, lse_count * sizeof(float));
    const fuzz_buffer_t o =
        fuzz_bytes(input, rows * (size_t)desc.d_v * attn_dtype_bytes(desc.o.dtype));
    const fuzz_buffer_t lse = fuzz_bytes(input, rows * sizeof(float));
    fuzz_check_status(attn_merge(context, &desc, (const float *)(void *)o_part.memory,
                                 (const float *)(void *)lse_part.memory, o.memory,
                                 (float *)(void *)lse.memory, NULL));
    free(o_part.memory);
    free(lse_part.memory);
    free(o.memory);
    free(lse.memory);
}

// Any fields at all; no memory to go with them, so that only a problem without elements is
// accepted.
static void fuzz_merge_desc(fuzz_input_t *input, const attn_context_t *context)
{
    union {
        attn_merge_desc_t desc;
        unsigned char bytes[STRUCT_BYTES_MAX];
    } drawn = {.bytes = {0}};
    attn_merge_desc_init(&drawn.desc, ATTN_F32);
    drawn.desc.parts = drawn.desc.batch = drawn.desc.s_q = drawn.desc.heads_q = 1;
    drawn.desc.d_v = 8;
    fuzz_mutate(input, &drawn, sizeof(drawn.desc) + 16);
    fuzz_check_status(attn_merge(context, &drawn.desc, NULL, NULL, NULL, NULL, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input_t input = {data, size};
    const attn_context_t *context = fuzz_context(&input);
    switch (fuzz_byte(&input) % 4) {
    case 0: fuzz_merge(&input, context); break;
    case 1: fuzz_merge_desc(&input, context); break;
    default: fuzz_append(&input, context); break;
    }
    return 0;
}
