// Problems of several tiles: see random_problem.h. They are what fast kernels are made for, those
// of a GPU above all: 16-bit operands, dense tensors and head dims in steps of 8 for the most part;
// every mask, every length and every option of the scores.
#include "random_problem.h"

// Multiply-adds of both products: bounds the time of the reference.
#define WORK_MAX 120000000

static int64_t draw_dim(test_rng_t *rng)
{
    static const int64_t dims[] = {8, 37, 64, 64, 72, 96, 128, 128, 136, 192, 256};
    return dims[test_rng_range(rng, 0, (int64_t)(sizeof(dims) / sizeof(dims[0])) - 1)];
}

static void draw_shape(test_rng_t *rng, attn_desc_t *desc)
{
    const int64_t longest = test_rng_chance(rng, 20) ? 1500 : 300;
    const int64_t batch = test_rng_range(rng, 1, 4);
    const int64_t heads_kv = test_rng_range(rng, 1, 3);
    const int64_t heads_q = heads_kv * test_rng_range(rng, 1, 4);
    const int64_t d_qk = draw_dim(rng);
    const int64_t d_v = test_rng_chance(rng, 70) ? d_qk : draw_dim(rng);
    int64_t s_q = test_rng_range(rng, 1, longest);
    int64_t s_kv = test_rng_range(rng, 1, longest);
    while (batch * heads_q * s_q * s_kv * (d_qk + d_v) > WORK_MAX) {
        int64_t *const longer = s_q > s_kv ? &s_q : &s_kv;
        *longer /= 2;
    }
    attn_desc_set_shape(desc, batch, s_q, s_kv, heads_q, heads_kv, d_qk);
    desc->d_v = d_v;
}

static void draw_keys(test_rng_t *rng, attn_desc_t *desc)
{
    if (test_rng_chance(rng, 30)) {
        desc->paged_kv = 1;
        desc->page_size = test_rng_range(rng, 1, 100);
        desc->pages_per_seq = desc->s_kv / desc->page_size + 1;
        desc->num_pages = desc->batch * desc->pages_per_seq;
    } else if (test_rng_chance(rng, 20)) {
        desc->has_kv_batch_idx = 1;
        desc->kv_batch = desc->batch + 2;
    }
}

static void draw_lengths(test_rng_t *rng, attn_desc_t *desc, bool backward)
{
    desc->has_seqused_q = test_rng_chance(rng, 20);
    desc->has_seqused_kv = test_rng_chance(rng, 30);
    desc->has_leftpad_kv = test_rng_chance(rng, 20);
    if (test_rng_chance(rng, 30)) {
        desc->varlen_q = 1;
        desc->total_q = desc->batch * desc->s_q;
    }
    if (test_rng_chance(rng, 30)) {
        desc->varlen_kv = 1;
        desc->total_kv = desc->batch * desc->s_kv;
    } else if (!backward) {
        draw_keys(rng, desc);
    }
}

// Blocks that tiles divide, as kernels want them.
static void draw_blocks(test_rng_t *rng, attn_desc_t *desc)
{
    desc->block_sparse = 1;
    desc->block_q = 64 * test_rng_range(rng, 1, 3);
    desc->block_kv = 64 * test_rng_range(rng, 1, 3);
    const int64_t blocks = (desc->s_kv + desc->block_kv - 1) / desc->block_kv;
    desc->blocks_per_row = test_rng_chance(rng, 70) ? blocks : test_rng_range(rng, 0, blocks);
    if (test_rng_chance(rng, 30)) {
        desc->block_stride_h = 0;
    }
}

static void draw_mask(test_rng_t *rng, attn_desc_t *desc)
{
    desc->causal = test_rng_chance(rng, 40);
    desc->align = test_rng_chance(rng, 30) ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
    desc->window_left = test_rng_chance(rng, 30) ? test_rng_range(rng, 0, 300) : -1;
    desc->window_right = test_rng_chance(rng, 20) ? test_rng_range(rng, 0, 300) : -1;
    desc->mask.present = test_rng_chance(rng, 15);
    if (test_rng_chance(rng, 15)) {
        draw_blocks(rng, desc);
    }
}

static void draw_scores(test_rng_t *rng, attn_desc_t *desc)
{
    desc->scale = test_rng_chance(rng, 20) ? 0.5f : desc->scale;
    desc->has_sink = test_rng_chance(rng, 30);
    desc->softcap = test_rng_chance(rng, 10) ? 5.0f : 0.0f;
    desc->has_alibi = test_rng_chance(rng, 10);
    desc->dropout_p = test_rng_chance(rng, 10) ? 0.25f : 0.0f;
    if (test_rng_chance(rng, 10)) {
        desc->bias.present = 1;
        desc->bias.dtype = test_rng_chance(rng, 50) ? ATTN_F32 : desc->q.dtype;
    }
}

static void draw_gradients(test_rng_t *rng, random_problem_t *r)
{
    r->options.no_dq = test_rng_chance(rng, 5);
    r->options.no_dk = test_rng_chance(rng, 5);
    r->options.no_dv = test_rng_chance(rng, 5);
    r->desc.has_dlse = test_rng_chance(rng, 30);
    r->desc.wants_dsink = r->desc.has_sink && test_rng_chance(rng, 70);
    r->desc.deterministic = test_rng_chance(rng, 30);
}

random_problem_t random_tiled_draw(uint64_t seed, uint64_t index)
{
    test_rng_t rng = test_rng_at(seed, index);
    random_problem_t r = {.options = {.seed = test_rng_next(&rng)}, .workers = 1};
    attn_desc_init(&r.desc, test_rng_chance(&rng, 50) ? ATTN_BF16 : ATTN_F16);
    r.desc.wants_lse = 1;
    r.options.fill = test_rng_chance(&rng, 30) ? FILL_CORRELATED : FILL_NORMAL;
    r.options.visible_nans = test_rng_chance(&rng, 10) ? 2 : 0;
    r.options.backward = test_rng_chance(&rng, 50);
    draw_shape(&rng, &r.desc);
    draw_lengths(&rng, &r.desc, r.options.backward);
    draw_mask(&rng, &r.desc);
    draw_scores(&rng, &r.desc);
    if (r.options.backward) {
        draw_gradients(&rng, &r);
    } else {
        r.desc.o.dtype = test_rng_chance(&rng, 20) ? ATTN_F32 : r.desc.o.dtype;
        r.desc.q.stride_d = test_rng_chance(&rng, 10) ? 2 : r.desc.q.stride_d;
    }
    return r;
}
