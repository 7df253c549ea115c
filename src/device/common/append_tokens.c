// Appends tokens to a K/V cache: attn_append on a GPU. A token's rows of K are rotated by its
// position and stored, V is copied, and the queries of the same tokens are rotated too if they are
// wanted.
//
// The host cannot look at lengths, tables and entries before: a token that has no place is left
// out, and nothing is written outside of the cache, whatever the arrays hold.
//
// It runs on every architecture, needs no shared memory, and is bound by moving the rows.
//
//   who         a warp for a row of one head of a token; warps go over the rows in strides of the
//               grid. A lane reads both elements of a pair before it writes: q may be q_out
//   prologue    ATTN_CFG_KERNEL   the kernel's name
#include "../../shared/gpu_append_params.h"
#include "gpu_element.h"
#include "kernel.h"

enum { APPEND_THREADS = 128, APPEND_WARPS = APPEND_THREADS / 32 };

// A token: where its new rows are and where they go, as factors of the strides.
struct token {
    int64_t new_b;
    int64_t new_s;
    int64_t cache_b;
    int64_t cache_s;
    int64_t position; // in the sequence
    int is_placed;
};

DEVICE int64_t load_index(const int32_t *p)
{
    return (int32_t)ld_global_u32(p);
}

// The sequence that a row of the pack belongs to: the last that begins at or before it.
DEVICE int64_t sequence_of_row(const attn_gpu_append_params_t *p, int64_t row)
{
    int64_t low = 0;
    int64_t high = p->batch;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (load_index(p->cu_seqlens_new + middle) <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

DEVICE void place_in_cache(const attn_gpu_append_params_t *p, int64_t b, struct token *token)
{
    if (p->page_table) {
        token->cache_b =
            load_index(p->page_table + b * p->page_table_stride_b + token->position / p->page_size);
        token->cache_s = token->position % p->page_size;
    } else {
        token->cache_b = p->cache_batch_idx ? load_index(p->cache_batch_idx + b) : b;
        token->cache_s = token->position;
    }
    token->is_placed = token->cache_b >= 0 && token->cache_b < p->entries;
}

DEVICE struct token token_of(const attn_gpu_append_params_t *p, int64_t number)
{
    struct token token = {0, number, 0, 0, -1, 0};
    int64_t b;
    int64_t t;
    if (p->cu_seqlens_new) {
        b = sequence_of_row(p, number);
        t = number - load_index(p->cu_seqlens_new + b);
        if (number >= load_index(p->cu_seqlens_new + p->batch)) {
            return token; // behind the last sequence
        }
    } else {
        b = number / p->s_new;
        t = number - b * p->s_new;
        token.new_b = b;
        token.new_s = t;
    }
    int64_t used = load_index(p->cache_seqlens + b);
    token.position = used + t;
    if (used >= 0 && t >= 0 && token.position < p->positions) {
        place_in_cache(p, b, &token);
    }
    return token;
}

DEVICE unsigned char *row_at(const void *data, int32_t type, const attn_gpu_strides_t *strides,
                             int64_t b, int64_t s, int64_t h)
{
    return (unsigned char *)data +
           (b * strides->b + s * strides->s + h * strides->h) * element_bytes(type);
}

// The pair (x, y) becomes (x cos - y sin, x sin + y cos). The products are exact in fp64 and
// rounded one by one, so that the bits are the CPU's, whatever a compiler contracts.
DEVICE void rotate_pair(const attn_gpu_append_params_t *p, const attn_gpu_append_operand_t *operand,
                        unsigned char *to, const unsigned char *from, int64_t i, int64_t position)
{
    int64_t pairs = operand->rotated_dims / 2;
    int64_t d_x = p->is_interleaved ? 2 * i : i;
    int64_t d_y = p->is_interleaved ? 2 * i + 1 : i + pairs;
    double x = (double)load_as_f32(operand->type, from, d_x * operand->from_strides.d);
    double y = (double)load_as_f32(operand->type, from, d_y * operand->from_strides.d);
    double c = (double)ld_global_f32(p->rotary_cos + position * pairs + i);
    double s = (double)ld_global_f32(p->rotary_sin + position * pairs + i);
    float new_x = (float)(x * c) - (float)(y * s);
    float new_y = (float)(x * s) + (float)(y * c);
    store_from_f64(operand->type, to, d_x * operand->to_strides.d, (double)new_x);
    store_from_f64(operand->type, to, d_y * operand->to_strides.d, (double)new_y);
}

DEVICE void copy_row(const attn_gpu_append_operand_t *operand, unsigned char *to,
                     const unsigned char *from, int64_t lane)
{
    int64_t bytes = element_bytes(operand->type);
    int64_t per_access = operand->is_vector ? 16 / bytes : 1;
    for (int64_t d = operand->rotated_dims + lane * per_access; d < operand->d;
         d += 32 * per_access) {
        if (operand->is_vector) {
            uint32_t chunk[4];
            ld_global_v4_u32(chunk, from + d * bytes);
            st_global_v4_u32(to + d * bytes, chunk);
        } else {
            copy_element(operand->type, to, d * operand->to_strides.d, from,
                         d * operand->from_strides.d);
        }
    }
}

DEVICE void append_row(const attn_gpu_append_params_t *p, const attn_gpu_append_operand_t *operand,
                       const struct token *token, int64_t h, int64_t lane)
{
    const unsigned char *from =
        row_at(operand->from, operand->type, &operand->from_strides, token->new_b, token->new_s, h);
    unsigned char *to = row_at(operand->to, operand->type, &operand->to_strides,
                               operand->is_cached ? token->cache_b : token->new_b,
                               operand->is_cached ? token->cache_s : token->new_s, h);
    for (int64_t i = lane; i < operand->rotated_dims / 2; i += 32) {
        rotate_pair(p, operand, to, from, i, token->position);
    }
    copy_row(operand, to, from, lane);
}

KERNEL(APPEND_THREADS) ATTN_CFG_KERNEL(GRID_CONSTANT const attn_gpu_append_params_t p)
{
    const int64_t warp = (int64_t)block_idx_x() * APPEND_WARPS + thread_idx() / 32;
    const int64_t warps = (int64_t)grid_dim_x() * APPEND_WARPS;
    int64_t heads = 0;
    for (int i = 0; i < ATTN_GPU_APPEND_OPERANDS; i++) {
        heads += p.operands[i].heads;
    }
    for (int64_t unit = warp; unit < p.tokens * heads; unit += warps) {
        struct token token = token_of(&p, unit / heads);
        int64_t h = unit % heads;
        int operand = 0;
        while (h >= p.operands[operand].heads) {
            h -= p.operands[operand].heads;
            operand++;
        }
        if (token.is_placed) {
            append_row(&p, &p.operands[operand], &token, h, thread_idx() % 32);
        }
    }
}
