// Operands that TMA cannot load, for the tests of kernels that gather: a dense tensor copied into
// another layout, or into pages in a shuffled order, with NaN in between.
#ifndef EMU_LAYOUT_FIXTURE_H
#define EMU_LAYOUT_FIXTURE_H

#include "sm90_fixture.h"

enum { NO_ELEMENT = 0xff, SPARE_PAGES = 3 }; // each byte of memory between elements

enum layout_kind { DENSE, ODD, WORDS, STEPS, BACKWARDS, LAYOUTS };

static const struct row_layout *layout_of(enum layout_kind kind)
{
    static const struct row_layout layouts[LAYOUTS] = {[DENSE] = {0, 1, 0, 1, 16},
                                                       [ODD] = {1, 1, 3, 1, 2},
                                                       [WORDS] = {2, 1, 6, 1, 4},
                                                       [STEPS] = {5, 3, 1, 1, 2},
                                                       [BACKWARDS] = {8, 1, 8, -1, 16}};
    return &layouts[kind];
}

// How many elements fewer than the kernel's head dim a layout's copies can end at.
static inline int32_t narrower(enum layout_kind kind)
{
    int32_t copy_bytes = layout_of(kind)->copy_bytes;
    return copy_bytes == 16 ? 8 : copy_bytes == 4 ? 6 : 5;
}

struct spread {
    unsigned char *memory;
    int64_t bytes;         // of the memory
    int64_t element_bytes; // 2, or those of o
    attn_gpu_operand_t operand;
    attn_gpu_elements_t elements;
    int64_t at; // of row 0, head 0
    const int32_t *pages;
    int32_t page_size;
};

static unsigned char *spread_at(const struct spread *x, int64_t row, int64_t h, int64_t d)
{
    if (x->pages) {
        row = (int64_t)x->pages[row / x->page_size] * x->page_size + row % x->page_size;
    }
    return x->memory + (x->at + row * x->operand.stride_s + h * x->operand.stride_h +
                        d * x->elements.stride_d) *
                           x->element_bytes;
}

// Room for `rows` rows of all sequences, each of which has s; paged: for all pages.
static struct spread make_spread(const struct forward_case *c, int64_t rows, int64_t s, int64_t h,
                                 int64_t d, int64_t element_bytes)
{
    const struct row_layout *layout = c->layout ? c->layout : layout_of(DENSE);
    struct spread x = {.element_bytes = element_bytes,
                       .elements = {layout->stride_d, layout->copy_bytes}};
    int64_t head = d * layout->stride_d + layout->pad;
    int64_t row = h * head + layout->pad;
    x.bytes = (layout->first + rows * row) * element_bytes;
    x.memory = aligned_alloc(128, ((size_t)x.bytes + 255) / 128 * 128);
    memset(x.memory, NO_ELEMENT, (size_t)x.bytes);
    x.operand.stride_h = layout->sign * head;
    x.operand.stride_s = layout->sign * row;
    x.operand.stride_b = c->is_packed ? 0 : s * x.operand.stride_s;
    x.at = layout->first + (layout->sign < 0 ? (rows - 1) * row + (h - 1) * head : 0);
    x.operand.data = x.memory + x.at * element_bytes;
    return x;
}

static void spread_rows(const struct spread *x, const uint16_t *dense, int64_t first_row,
                        int64_t rows, int64_t h, int64_t d)
{
    for (int64_t i = 0; i < rows * h * d; i++) {
        memcpy(spread_at(x, i / (h * d), i / d % h, i % d), &dense[first_row * h * d + i], 2);
    }
}

// Takes out what a kernel wrote, and what it had no right to.
static void gather_spread(struct spread *x, void *dense, int64_t rows, int64_t h, int64_t d)
{
    size_t element_bytes = (size_t)x->element_bytes;
    for (int64_t i = 0; i < rows * h * d; i++) {
        unsigned char *element = spread_at(x, i / (h * d), i / d % h, i % d);
        memcpy((unsigned char *)dense + (size_t)i * element_bytes, element, element_bytes);
        memset(element, NO_ELEMENT, element_bytes);
    }
    for (int64_t i = 0; i < x->bytes; i++) {
        if (x->memory[i] != NO_ELEMENT) {
            fprintf(stderr, "byte %lld between the rows was written\n", (long long)i);
            abort();
        }
    }
}

// A problem's memory as a kernel that gathers gets it.
struct layout_data {
    struct spread q;
    struct spread k;
    struct spread v;
    struct spread o;
    int32_t pages_per_seq;
    int32_t num_pages;
    int32_t *table; // (batch, pages_per_seq), to be followed
    int32_t *given; // the same, with the numbers that are none
};

// Pages in falling order; every other bad number is negative.
static void make_table(const struct forward_case *c, struct layout_data *data)
{
    data->pages_per_seq = (c->s_kv + c->page_size - 1) / c->page_size;
    int32_t count = c->b * data->pages_per_seq;
    data->num_pages = count + SPARE_PAGES;
    data->table = malloc((size_t)count * sizeof *data->table);
    data->given = malloc((size_t)count * sizeof *data->given);
    for (int32_t i = 0; i < count; i++) {
        data->table[i] = data->given[i] = data->num_pages - 2 - i;
        if (i % data->pages_per_seq == c->bad_page - 1) {
            data->given[i] = i / data->pages_per_seq % 2 ? -1 : data->num_pages;
        }
    }
}

static struct spread make_keys(const struct forward_case *c, const struct forward_data *data,
                               const struct layout_data *layout, const uint16_t *dense, int64_t d)
{
    if (!layout->table) {
        struct spread x = make_spread(c, data->kv_rows, c->s_kv, c->h_kv, d, 2);
        spread_rows(&x, dense, 0, data->kv_rows, c->h_kv, d);
        return x;
    }
    struct spread x =
        make_spread(c, (int64_t)layout->num_pages * c->page_size, c->page_size, c->h_kv, d, 2);
    x.page_size = c->page_size;
    for (int32_t b = 0; b < c->b; b++) {
        x.pages = layout->table + b * layout->pages_per_seq;
        spread_rows(&x, dense, (int64_t)b * c->s_kv, c->s_kv, c->h_kv, d);
    }
    return x;
}

static struct layout_data make_layout(const struct forward_case *c, const struct forward_data *data)
{
    struct layout_data layout = {.table = NULL};
    if (c->page_size) {
        make_table(c, &layout);
    }
    layout.q = make_spread(c, data->q_rows, c->s_q, c->h_q, c->d_qk, 2);
    spread_rows(&layout.q, data->q, 0, data->q_rows, c->h_q, c->d_qk);
    layout.k = make_keys(c, data, &layout, data->k, c->d_qk);
    layout.v = make_keys(c, data, &layout, data->v, c->d_v);
    layout.o = make_spread(c, data->q_rows, c->s_q, c->h_q, c->d_v, ATTN_CFG_O_BYTES);
    return layout;
}

static size_t table_bytes(const struct forward_case *c, const struct layout_data *layout)
{
    return (size_t)(c->b * layout->pages_per_seq) * sizeof *layout->given;
}

static void free_layout(struct layout_data *layout)
{
    free(layout->q.memory);
    free(layout->k.memory);
    free(layout->v.memory);
    free(layout->o.memory);
    free(layout->table);
    free(layout->given);
}

static void use_layout(attn_gpu_forward_params_t *p, const struct forward_case *c,
                       const struct layout_data *layout)
{
    p->q = layout->q.operand;
    p->k = layout->k.operand;
    p->v = layout->v.operand;
    p->o = layout->o.operand;
    p->gather.q = layout->q.elements;
    p->gather.k = layout->k.elements;
    p->gather.v = layout->v.elements;
    p->gather.o = layout->o.elements;
    p->gather.page_table = layout->given;
    p->gather.page_table_stride_b = layout->pages_per_seq;
    p->gather.page_size = c->page_size;
    p->gather.num_pages = layout->num_pages;
}

#endif
