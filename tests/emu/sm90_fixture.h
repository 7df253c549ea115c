// Problems for the Hopper kernels on the emulator: operands, lengths, tensor maps, and the forward
// pass in fp64. For a file that includes a kernel first, with its configuration given by the build.
#ifndef EMU_SM90_FIXTURE_H
#define EMU_SM90_FIXTURE_H

#include "emu.h"
#include "random_input.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQUENCES = 8 };

// A problem; zero is off. Lengths given per sequence are those of a packed or a padded batch.
struct forward_case {
    int32_t b;
    int32_t h_q;
    int32_t h_kv;
    int32_t s_q;
    int32_t s_kv;
    int32_t d_qk; // 0: the kernel's
    int32_t d_v;
    bool is_packed;
    int32_t rows_q[MAX_SEQUENCES]; // packed: rows of each sequence
    int32_t rows_kv[MAX_SEQUENCES];
    int32_t padding; // rows of the packs behind the last sequence
    bool has_used;
    int32_t used_q[MAX_SEQUENCES];
    int32_t used_kv[MAX_SEQUENCES];
    bool has_leftpad;
    int32_t leftpad[MAX_SEQUENCES];
    bool has_windows;
    int32_t window_left;
    int32_t window_right;
    bool is_top_left;
    bool has_sink;
    bool has_dlse;   // backward
    float amplitude; // of q
    // Only where operands are gathered: how elements lie in memory, and K and V in pages.
    const struct row_layout *layout;
    int32_t page_size; // 0: not paged
    int32_t bad_page;  // of each sequence (from 1): its number is none
    int32_t nan_key;   // v of this key (from 1) of each sequence is NaN
    uint32_t ctas;     // of the grid
    uint32_t section_heads;
};

// Strides in elements from what is dense: rows and heads lie apart by pad, elements by stride_d.
struct row_layout {
    int32_t first; // element of the memory, which is aligned to 128 bytes
    int32_t stride_d;
    int32_t pad;
    int32_t sign;       // -1: rows and heads run backwards
    int32_t copy_bytes; // what the host says of it
};

struct forward_data {
    uint16_t *q;
    uint16_t *k;
    uint16_t *v;
    uint16_t *o;
    double *q64; // the same numbers
    double *k64;
    double *v64;
    float *lse;
    double *want_o;
    double *want_lse;
    int32_t cu_q[MAX_SEQUENCES + 1];
    int32_t cu_kv[MAX_SEQUENCES + 1];
    float sink[32];
    int64_t q_rows; // of the memory, all sequences
    int64_t kv_rows;
};

static uint16_t to_element(float x)
{
    return (uint16_t)PACK_X2(x, 0.0f);
}

static uint16_t *random_elements(int64_t count, uint32_t *state, float amplitude)
{
    uint16_t *x = aligned_alloc(128, ((size_t)count * sizeof *x + 255) / 128 * 128);
    for (int64_t i = 0; x && i < count; i++) {
        x[i] = to_element(random_bell(state) * amplitude);
    }
    return x;
}

static double *f64_of_elements(const uint16_t *x, int64_t count)
{
    double *wide = malloc((size_t)count * sizeof *wide + 1);
    for (int64_t i = 0; wide && i < count; i++) {
        wide[i] = (double)F32_OF_ELEMENT(x[i]);
    }
    return wide;
}

// Fills in what a case left 0.
static struct forward_case whole_case(struct forward_case c)
{
    c.d_qk = c.d_qk ? c.d_qk : D_QK;
    c.d_v = c.d_v ? c.d_v : D_V;
    c.amplitude = c.amplitude == 0.0f ? 1.0f : c.amplitude;
    if (!c.has_windows) {
        c.window_left = c.window_right = -1;
    }
    for (int32_t b = 0; b < c.b && !c.is_packed; b++) {
        c.rows_q[b] = c.s_q;
        c.rows_kv[b] = c.s_kv;
    }
    c.ctas = c.ctas ? c.ctas : 2;
    c.section_heads = c.section_heads ? c.section_heads : 2;
    return c;
}

static int32_t used(const struct forward_case *c, const int32_t *lengths, int32_t b, int32_t rows)
{
    return c->has_used ? lengths[b] : rows;
}

static bool sees(const struct forward_case *c, int32_t b, int64_t i, int64_t j)
{
    int64_t len_q = used(c, c->used_q, b, c->rows_q[b]);
    int64_t len_kv = used(c, c->used_kv, b, c->rows_kv[b]);
    int64_t position = i + (c->is_top_left ? 0 : len_kv - len_q);
    if (c->bad_page && c->page_size && j / c->page_size == c->bad_page - 1) {
        return false;
    }
    return i < len_q && j < len_kv && (!c->has_leftpad || j >= c->leftpad[b]) &&
           (c->window_left < 0 || j >= position - c->window_left) &&
           (c->window_right < 0 || j <= position + c->window_right);
}

// One row in fp64: q_row and the keys' first row in memory.
static void reference_row(const struct forward_case *c, const struct forward_data *data, int32_t b,
                          int32_t h, int64_t i, double *scores)
{
    int32_t h_kv = h / (c->h_q / c->h_kv);
    int64_t q_row = data->cu_q[b] + i;
    const double *q = data->q64 + (q_row * c->h_q + h) * c->d_qk;
    double max = -INFINITY;
    double *o = data->want_o + (q_row * c->h_q + h) * c->d_v;
    double *lse = &data->want_lse[h * data->q_rows + q_row];
    for (int32_t j = 0; j < c->rows_kv[b]; j++) {
        scores[j] = -INFINITY;
        if (sees(c, b, i, j)) {
            const double *k =
                data->k64 + ((data->cu_kv[b] + j) * (int64_t)c->h_kv + h_kv) * c->d_qk;
            double dot = 0.0;
            for (int32_t d = 0; d < c->d_qk; d++) {
                dot += q[d] * k[d];
            }
            scores[j] = dot / sqrt(c->d_qk);
            max = scores[j] > max ? scores[j] : max;
        }
    }
    bool is_used = i < used(c, c->used_q, b, c->rows_q[b]);
    double sink = c->has_sink && is_used ? (double)data->sink[h] : -INFINITY;
    max = sink > max ? sink : max;
    double sum = max == -INFINITY ? 0.0 : exp(sink - max);
    for (int32_t j = 0; j < c->rows_kv[b]; j++) {
        double weight = max == -INFINITY ? 0.0 : exp(scores[j] - max);
        sum += weight;
        const double *v = data->v64 + ((data->cu_kv[b] + j) * (int64_t)c->h_kv + h_kv) * c->d_v;
        for (int32_t d = 0; d < c->d_v && sees(c, b, i, j); d++) {
            o[d] += weight * v[d];
        }
    }
    for (int32_t d = 0; d < c->d_v && sum > 0.0; d++) {
        o[d] /= sum;
    }
    *lse = max + log(sum);
}

static void reference(const struct forward_case *c, struct forward_data *data)
{
    double *scores = malloc(((size_t)c->s_kv + 1) * sizeof *scores);
    for (int64_t i = 0; i < data->q_rows * c->h_q; i++) {
        data->want_lse[i] = -INFINITY;
    }
    for (int32_t b = 0; b < c->b; b++) {
        for (int32_t h = 0; h < c->h_q; h++) {
            for (int32_t i = 0; i < c->rows_q[b]; i++) {
                reference_row(c, data, b, h, i, scores);
            }
        }
    }
    free(scores);
}

static struct forward_data make_data(const struct forward_case *c)
{
    uint32_t state = 99;
    struct forward_data data = {.cu_q = {0}};
    for (int32_t b = 0; b < c->b; b++) {
        data.cu_q[b + 1] = data.cu_q[b] + c->rows_q[b];
        data.cu_kv[b + 1] = data.cu_kv[b] + c->rows_kv[b];
    }
    data.q_rows = data.cu_q[c->b] + c->padding;
    data.kv_rows = data.cu_kv[c->b] + c->padding;
    data.q = random_elements(data.q_rows * c->h_q * c->d_qk, &state, c->amplitude);
    data.k = random_elements(data.kv_rows * c->h_kv * c->d_qk, &state, 1.0f);
    data.v = random_elements(data.kv_rows * c->h_kv * c->d_v, &state, 1.0f);
    data.o = random_elements(data.q_rows * c->h_q * c->d_v, &state, 1.0f);
    data.lse = malloc((size_t)(data.q_rows * c->h_q) * sizeof(float));
    data.want_o = calloc((size_t)(data.q_rows * c->h_q * c->d_v), sizeof(double));
    data.want_lse = malloc((size_t)(data.q_rows * c->h_q) * sizeof(double));
    for (int32_t h = 0; h < 32; h++) {
        data.sink[h] = 0.5f * (float)h - 1.0f;
    }
    for (int32_t b = 0; b < c->b && c->nan_key; b++) {
        int64_t row = data.cu_kv[b] + c->nan_key - 1;
        for (int64_t d = 0; d < c->h_kv * c->d_v; d++) {
            data.v[row * c->h_kv * c->d_v + d] = to_element(NAN);
        }
    }
    data.q64 = f64_of_elements(data.q, data.q_rows * c->h_q * c->d_qk);
    data.k64 = f64_of_elements(data.k, data.kv_rows * c->h_kv * c->d_qk);
    data.v64 = f64_of_elements(data.v, data.kv_rows * c->h_kv * c->d_v);
    reference(c, &data);
    return data;
}

static void free_data(struct forward_data *data)
{
    free(data->q);
    free(data->k);
    free(data->v);
    free(data->o);
    free(data->q64);
    free(data->k64);
    free(data->v64);
    free(data->lse);
    free(data->want_o);
    free(data->want_lse);
}

// Memory is (b, s, h, d), or (rows, h, d) packed. box_heads > 1: of that many heads and box_rows
// rows in all, a position's heads beside each other.
static void encode_heads(tensor_map *map, void *x, const struct forward_case *c, int32_t rows,
                         int32_t h, int32_t d, uint32_t box_rows, uint32_t box_heads)
{
    uint64_t row_bytes = (uint64_t)h * (uint64_t)d * 2;
    uint64_t b = c->is_packed ? 1 : (uint64_t)c->b;
    struct emu_tensor tensor = {
        .data = x,
        .element = ATTN_CFG_BF16 ? EMU_BF16 : EMU_F16,
        .rank = 4,
        .dims = {(uint64_t)d, (uint64_t)rows, (uint64_t)h, b},
        .strides_bytes = {row_bytes, (uint64_t)d * 2, (uint64_t)rows * row_bytes},
        .box = {64, box_rows, 1, 1},
        .swizzle = EMU_SWIZZLE_128};
    if (box_heads > 1) {
        tensor.dims[1] = (uint64_t)h;
        tensor.dims[2] = (uint64_t)rows;
        tensor.strides_bytes[0] = (uint64_t)d * 2;
        tensor.strides_bytes[1] = row_bytes;
        tensor.box[1] = box_heads;
        tensor.box[2] = box_rows / box_heads;
    }
    const char *wrong = emu_tensor_map_encode(map, &tensor);
    if (wrong) {
        fprintf(stderr, "tensor map: %s\n", wrong);
        abort();
    }
}

static void encode(tensor_map *map, void *x, const struct forward_case *c, int32_t rows, int32_t h,
                   int32_t d, uint32_t box_rows)
{
    encode_heads(map, x, c, rows, h, d, box_rows, 1);
}

static attn_gpu_operand_t operand(const struct forward_case *c, const void *x, int64_t rows,
                                  int64_t h, int64_t d)
{
    attn_gpu_operand_t operand = {x, c->is_packed ? 0 : rows * h * d, h * d, d};
    return operand;
}

static attn_gpu_lengths_t make_lengths(const struct forward_case *c,
                                       const struct forward_data *data)
{
    attn_gpu_lengths_t lengths = {.batch = c->b,
                                  .s_q = c->s_q,
                                  .s_kv = c->s_kv,
                                  .total_q = (int32_t)data->q_rows,
                                  .total_kv = (int32_t)data->kv_rows,
                                  .cu_seqlens_q = c->is_packed ? data->cu_q : NULL,
                                  .cu_seqlens_kv = c->is_packed ? data->cu_kv : NULL,
                                  .seqused_q = c->has_used ? c->used_q : NULL,
                                  .seqused_kv = c->has_used ? c->used_kv : NULL,
                                  .leftpad_kv = c->has_leftpad ? c->leftpad : NULL};
    return lengths;
}

// Infinity where NaN or infinity are not where they should be.
static double difference(double got, double want)
{
    if (isnan(want) || isinf(want)) {
        return (isnan(want) && isnan(got)) || got == want ? 0.0 : INFINITY;
    }
    return isnan(got) ? INFINITY : fabs(got - want);
}

#endif
