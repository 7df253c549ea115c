// K and V of one (sequence, K/V head) for the forward kernels: where each key's row lies, dense,
// packed or paged, and tiles of keys as descaled fp32 rows.
#ifndef ATTN_CPU_KV_SOURCE_TMPL_H
#define ATTN_CPU_KV_SOURCE_TMPL_H

#include "../../core/sequence.h"
#include "../isa/row_tmpl.h"
#include "forward_task.h"

static float descale_at(const attn_descale_t *descale, const float *factors, int64_t b, int64_t h,
                        int64_t s)
{
    if (!descale->present) {
        return 1.0f;
    }
    return factors[b * descale->stride_b + h * descale->stride_h +
                   s / descale->rows * descale->stride_s];
}

// Where K or V of one (sequence, K/V head) lie.
typedef struct kv_source {
    const attn_tensor_t *tensor;
    const unsigned char *base; // row 0 of the sequence; paged: of page 0
    int64_t row_bytes;         // from key to key
    int64_t page_bytes;        // from page to page
    int64_t page_size;         // 0: not paged
    int64_t num_pages;
    const int32_t *pages; // the sequence's row of the page table
    const attn_descale_t *descale;
    const float *factors;
    int64_t b;
    int64_t h;
    int64_t d;
} kv_source_t;

static kv_source_t kv_source_at(const attn_cpu_forward_t *run, const attn_sequence_t *seq,
                                int64_t b, int64_t h, int32_t is_v)
{
    const attn_desc_t *desc = run->desc;
    const attn_forward_args_t *args = run->args;
    kv_source_t source = {.tensor = is_v ? &desc->v : &desc->k,
                          .base = is_v ? args->v : args->k,
                          .descale = is_v ? &desc->v_descale : &desc->k_descale,
                          .factors = is_v ? args->v_descale : args->k_descale,
                          .b = b,
                          .h = h,
                          .d = is_v ? desc->d_v : desc->d_qk};
    const attn_tensor_t *tensor = source.tensor;
    const int64_t bytes = attn_element_bytes(tensor->dtype);
    source.row_bytes = tensor->stride_s * bytes;
    int64_t at = h * tensor->stride_h;
    if (desc->paged_kv) {
        source.page_size = desc->page_size;
        source.num_pages = desc->num_pages;
        source.page_bytes = tensor->stride_b * bytes;
        source.pages = args->page_table + b * desc->page_table_stride_b;
    } else {
        at += seq->kv_batch * tensor->stride_b + seq->kv_row * tensor->stride_s;
    }
    source.base += at * bytes;
    return source;
}

// Key j's row; NULL for a page id out of range.
static const unsigned char *kv_row(const kv_source_t *source, int64_t j)
{
    if (!source->page_size) {
        return source->base + j * source->row_bytes;
    }
    const int64_t page = source->pages[j / source->page_size];
    if (page < 0 || page >= source->num_pages) {
        return NULL;
    }
    return source->base + page * source->page_bytes + j % source->page_size * source->row_bytes;
}

// Rows of keys [j_begin, j_begin + count), as kv_row gives them.
static void kv_rows(const kv_source_t *source, int64_t j_begin, int64_t count,
                    const unsigned char **rows)
{
    if (!source->page_size) {
        const unsigned char *first = source->base + j_begin * source->row_bytes;
        for (int64_t n = 0; n < count; n++) {
            rows[n] = first + n * source->row_bytes;
        }
        return;
    }
    for (int64_t n = 0; n < count;) {
        const unsigned char *first = kv_row(source, j_begin + n);
        const int64_t left = source->page_size - (j_begin + n) % source->page_size;
        const int64_t end = n + left < count ? n + left : count;
        for (int64_t row = 0; n < end; row++, n++) {
            rows[n] = first ? first + row * source->row_bytes : NULL;
        }
    }
}

// Asks for rows that will be read some thousand cycles later. Only hints: rows without unit stride
// are left alone.
static void prefetch_kv(const kv_source_t *source, int64_t j_begin, int64_t count)
{
    const int64_t bytes = source->d * attn_element_bytes(source->tensor->dtype);
    if (source->tensor->stride_d != 1 || count <= 0) {
        return;
    }
    const unsigned char *rows[ATTN_CPU_TILE_KV];
    kv_rows(source, j_begin, count, rows);
    for (int64_t n = 0; n < count; n++) {
        for (int64_t byte = 0; rows[n] && byte < bytes; byte += 64) {
            __builtin_prefetch(rows[n] + byte, 0, 2);
        }
    }
}

// Rows that the products can read where they are.
static int kv_is_direct(const kv_source_t *source)
{
    return source->tensor->dtype == ATTN_F32 && source->tensor->stride_d == 1 &&
           !source->page_size && !source->descale->present && (uintptr_t)source->base % 4 == 0;
}

// At most ATTN_CPU_TILE_KV keys [j_begin, j_end) as fp32 rows of stride floats; the floats behind d
// up to a multiple of PANEL become 0.
static void load_kv(float *out, int64_t stride, const kv_source_t *source, int64_t j_begin,
                    int64_t j_end)
{
    const int64_t tail = (source->d + PANEL - 1) / PANEL * PANEL - source->d;
    const unsigned char *rows[ATTN_CPU_TILE_KV];
    kv_rows(source, j_begin, j_end - j_begin, rows);
    for (int64_t n = 0; n < j_end - j_begin; n++) {
        float *row = out + n * stride;
        if (rows[n]) {
            const float factor =
                descale_at(source->descale, source->factors, source->b, source->h, j_begin + n);
            load_row(row, source->tensor, rows[n], source->d, factor);
        } else {
            memset(row, 0, (size_t)source->d * sizeof *row);
        }
        memset(row + source->d, 0, (size_t)tail * sizeof *row);
    }
}

#endif
