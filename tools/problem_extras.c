// problem_extras.c: lengths, masks, biases and the other optional operands of a problem.
//
// Only shapes that the library cannot see are checked here: it gets pointers and strides. What it
// can see (lengths out of range, pages that do not exist) is left to it, so that the tool shows the
// library's own words.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array_load.h"
#include "problem.h"
#include "random_fill.h"

// ------------------------------------------------------------------------------------------------
// Lengths

static int fail_shape(const char *operand, const struct io_tensor *t, const char *expected,
                      struct io_error *err)
{
    char shape[128];
    return io_fail(err, "%s: shape %s, expected %s", operand,
                   io_shape_format(t->ndim, t->shape, shape, sizeof(shape)), expected);
}

// Loads one number per sequence (plus `extra`).
static int load_per_sequence(struct problem *problem, enum problem_operand which,
                             const char *operand, const char *spec, int64_t extra,
                             const int32_t **pointer_out, struct io_error *err)
{
    struct io_tensor *t = &problem->tensors[which];
    if (array_load_i32(spec, operand, t, err)) {
        return -1;
    }
    if (t->ndim != 1 || t->count != problem->desc.batch + extra) {
        char expected[64];
        snprintf(expected, sizeof(expected), "(%lld,)", (long long)(problem->desc.batch + extra));
        return fail_shape(operand, t, expected, err);
    }
    *pointer_out = t->data;
    return 0;
}

// The largest difference of neighbours: an upper bound of the lengths, at least 0.
static int64_t longest(const struct io_tensor *cu)
{
    int64_t most = 0;
    for (int64_t i = 0; i + 1 < cu->count; i++) {
        const int64_t len = (int64_t)(io_tensor_get(cu, i + 1) - io_tensor_get(cu, i));
        most = len > most ? len : most;
    }
    return most;
}

static int add_packed(struct problem *problem, bool is_kv, const char *spec, int64_t max_seqlen,
                      struct io_error *err)
{
    attn_desc_t *d = &problem->desc;
    const char *operand = is_kv ? "cu-seqlens-kv" : "cu-seqlens-q";
    const enum problem_operand which = is_kv ? OPERAND_CU_SEQLENS_KV : OPERAND_CU_SEQLENS_Q;
    if (problem->tensors[is_kv ? OPERAND_K : OPERAND_Q].ndim != 3) {
        return io_fail(err, "%s: %s: a packed operand has 3 dims, (total, H, D)", operand,
                       is_kv ? "k and v" : "q");
    }
    const int32_t **pointer =
        is_kv ? &problem->args.in.cu_seqlens_kv : &problem->args.in.cu_seqlens_q;
    if (load_per_sequence(problem, which, operand, spec, 1, pointer, err)) {
        return -1;
    }
    const int64_t bound = max_seqlen >= 0 ? max_seqlen : longest(&problem->tensors[which]);
    if (is_kv) {
        d->varlen_kv = 1;
        d->total_kv = d->s_kv;
        d->s_kv = bound;
    } else {
        d->varlen_q = 1;
        d->total_q = d->s_q;
        d->s_q = bound;
    }
    return 0;
}

// k and v came in as (pages, page size, heads, dim).
static int add_pages(struct problem *problem, const char *spec, struct io_error *err)
{
    attn_desc_t *d = &problem->desc;
    struct io_tensor *table = &problem->tensors[OPERAND_PAGE_TABLE];
    if (problem->tensors[OPERAND_K].ndim != 4) {
        return io_fail(err, "page-table: k and v must have 4 dims, (pages, page size, HKV, D)");
    }
    if (array_load_i32(spec, "page-table", table, err)) {
        return -1;
    }
    const bool one_row = table->ndim == 1 && d->batch == 1;
    if (!one_row && (table->ndim != 2 || table->shape[0] != d->batch)) {
        char expected[64];
        snprintf(expected, sizeof(expected), "(%lld, pages per sequence)", (long long)d->batch);
        return fail_shape("page-table", table, expected, err);
    }
    d->paged_kv = 1;
    d->num_pages = problem->tensors[OPERAND_K].shape[0];
    d->page_size = d->s_kv;
    d->pages_per_seq = table->shape[table->ndim - 1];
    d->page_table_stride_b = d->pages_per_seq;
    if (d->pages_per_seq > 0 && d->page_size > INT64_MAX / d->pages_per_seq) {
        return io_fail(err, "page-table: %lld pages of %lld keys overflow",
                       (long long)d->pages_per_seq, (long long)d->page_size);
    }
    d->s_kv = d->page_size * d->pages_per_seq;
    problem->args.in.page_table = table->data;
    return 0;
}

// Packed operands and pages say how many sequences there are; batch follows q otherwise.
static int find_batch(struct problem *problem, const struct problem_options *options,
                      struct io_error *err)
{
    const char *spec = options->cu_seqlens_q ? options->cu_seqlens_q : options->cu_seqlens_kv;
    if (!spec || (!options->cu_seqlens_q && problem->tensors[OPERAND_Q].ndim == 4)) {
        return 0;
    }
    struct io_tensor cu;
    if (array_load_i32(spec, "cu-seqlens", &cu, err)) {
        return -1;
    }
    problem->desc.batch = cu.count - 1;
    io_tensor_clear(&cu);
    if (problem->desc.batch < 0) {
        return io_fail(err, "cu-seqlens: %s: is empty, expected batch + 1 numbers", spec);
    }
    return 0;
}

static int check_kv_batch(const struct problem *problem, const struct problem_options *options,
                          int64_t kv_batch, struct io_error *err)
{
    const attn_desc_t *d = &problem->desc;
    if (d->varlen_kv || d->paged_kv || options->kv_batch_idx || kv_batch == d->batch) {
        return 0;
    }
    return io_fail(err, "k: %lld batch entries, expected %lld", (long long)kv_batch,
                   (long long)d->batch);
}

int problem_add_lengths(struct problem *problem, const struct problem_options *options,
                        struct io_error *err)
{
    attn_desc_t *d = &problem->desc;
    attn_forward_args_t *in = &problem->args.in;
    const struct io_tensor *k = &problem->tensors[OPERAND_K];
    const int64_t kv_batch = k->ndim == 4 ? k->shape[0] : 1;
    if (find_batch(problem, options, err)) {
        return -1;
    }
    if (options->cu_seqlens_q &&
        add_packed(problem, false, options->cu_seqlens_q, options->max_seqlen[0], err)) {
        return -1;
    }
    if (options->cu_seqlens_kv &&
        add_packed(problem, true, options->cu_seqlens_kv, options->max_seqlen[1], err)) {
        return -1;
    }
    if (options->page_table && add_pages(problem, options->page_table, err)) {
        return -1;
    }
    if (check_kv_batch(problem, options, kv_batch, err)) {
        return -1;
    }
    const struct {
        enum problem_operand which;
        const char *operand;
        const char *spec;
        const int32_t **pointer;
        int32_t *flag;
    } arrays[] = {
        {OPERAND_SEQUSED_Q, "seqused-q", options->seqused_q, &in->seqused_q, &d->has_seqused_q},
        {OPERAND_SEQUSED_KV, "seqused-kv", options->seqused_kv, &in->seqused_kv,
         &d->has_seqused_kv},
        {OPERAND_LEFTPAD_KV, "leftpad-kv", options->leftpad_kv, &in->leftpad_kv,
         &d->has_leftpad_kv},
        {OPERAND_KV_BATCH_IDX, "kv-batch-idx", options->kv_batch_idx, &in->kv_batch_idx,
         &d->has_kv_batch_idx},
    };
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        if (arrays[i].spec) {
            *arrays[i].flag = 1;
            if (load_per_sequence(problem, arrays[i].which, arrays[i].operand, arrays[i].spec, 0,
                                  arrays[i].pointer, err)) {
                return -1;
            }
        }
    }
    if (d->has_kv_batch_idx) {
        d->kv_batch = kv_batch;
    }
    return 0;
}

// ------------------------------------------------------------------------------------------------
// Masks and biases

// The strides with which a tensor of up to 4 dims broadcasts to (B, H, S, SKV).
static int broadcast(const struct problem *problem, const struct io_tensor *t, const char *operand,
                     attn_mask_tensor_t *out, struct io_error *err)
{
    const attn_desc_t *d = &problem->desc;
    const int64_t full[4] = {d->batch, d->heads_q, d->s_q, d->s_kv};
    int64_t strides[4] = {0, 0, 0, 0};
    int64_t stride = 1;
    bool fits = t->ndim <= 4;
    for (int i = t->ndim - 1; i >= 0 && fits; i--) {
        const int axis = 4 - t->ndim + i;
        fits = t->shape[i] == 1 || t->shape[i] == full[axis];
        strides[axis] = t->shape[i] == 1 ? 0 : stride;
        stride *= t->shape[i];
    }
    if (!fits) {
        char expected[128];
        char shape[96];
        snprintf(expected, sizeof(expected), "one that broadcasts to %s",
                 io_shape_format(4, full, shape, sizeof(shape)));
        return fail_shape(operand, t, expected, err);
    }
    *out = (attn_mask_tensor_t){
        .present = 1,
        .dtype = (attn_dtype_t)problem_attn_dtype(t->dtype == IO_U8 ? IO_F32 : t->dtype),
        .stride_b = strides[0],
        .stride_h = strides[1],
        .stride_q = strides[2],
        .stride_k = strides[3],
    };
    return 0;
}

// A random (S, SKV) tensor, or only its shape.
static int make_random_square(struct problem *problem, enum problem_operand which,
                              const char *operand, enum io_dtype dtype, uint64_t seed,
                              struct io_error *err)
{
    struct io_tensor *t = &problem->tensors[which];
    const int64_t shape[2] = {problem->desc.s_q, problem->desc.s_kv};
    if (problem->describe_only) {
        t->dtype = dtype;
        t->ndim = 2;
        memcpy(t->shape, shape, sizeof(shape));
        return 0;
    }
    if (io_tensor_init(t, operand, dtype, 2, shape, err)) {
        return -1;
    }
    random_fill(t, seed, operand, 1.0, 0.8);
    return 0;
}

static int add_mask(struct problem *problem, const char *spec, uint64_t seed, struct io_error *err)
{
    struct io_tensor *t = &problem->tensors[OPERAND_MASK];
    if (strcmp(spec, "random") == 0) {
        if (make_random_square(problem, OPERAND_MASK, "mask", IO_U8, seed, err)) {
            return -1;
        }
    } else {
        struct io_tensor raw;
        if (array_load(spec, "mask", IO_DTYPE_NONE, &raw, err)) {
            return -1;
        }
        const bool is_boolean = raw.dtype == IO_BOOL || raw.dtype == IO_U8 || raw.dtype == IO_I8;
        int status = 0;
        if (!is_boolean) {
            status = io_fail(err, "mask: %s: dtype %s, expected bool or u8 (use --bias to add)",
                             spec, io_dtype_name(raw.dtype));
        }
        status = status ? status : io_tensor_init(t, "mask", IO_U8, raw.ndim, raw.shape, err);
        for (int64_t i = 0; i < raw.count && !status; i++) {
            ((uint8_t *)t->data)[i] = io_tensor_get(&raw, i) != 0.0;
        }
        io_tensor_clear(&raw);
        if (status) {
            return status;
        }
    }
    problem->args.in.mask = t->data;
    return broadcast(problem, t, "mask", &problem->desc.mask, err);
}

static int add_bias(struct problem *problem, const char *spec, uint64_t seed, struct io_error *err)
{
    struct io_tensor *t = &problem->tensors[OPERAND_BIAS];
    if (strcmp(spec, "random") == 0) {
        if (make_random_square(problem, OPERAND_BIAS, "bias", IO_F32, seed, err)) {
            return -1;
        }
    } else {
        struct io_tensor raw;
        if (array_load(spec, "bias", IO_DTYPE_NONE, &raw, err)) {
            return -1;
        }
        const bool is_kept = raw.dtype == IO_F32 || raw.dtype == IO_F16 || raw.dtype == IO_BF16;
        int status = 0;
        if (is_kept) {
            *t = raw;
            raw = (struct io_tensor){0};
        } else if (raw.dtype == IO_F64) {
            status = io_tensor_convert(&raw, IO_F32, t, err);
        } else {
            status = io_fail(err, "bias: %s: dtype %s, expected f32, f16, bf16 or f64", spec,
                             io_dtype_name(raw.dtype));
        }
        io_tensor_clear(&raw);
        if (status) {
            return status;
        }
    }
    problem->args.in.bias = t->data;
    return broadcast(problem, t, "bias", &problem->desc.bias, err);
}

// ------------------------------------------------------------------------------------------------
// ALiBi, sink, dropout, blocks, descale factors

static int add_alibi(struct problem *problem, const char *spec, struct io_error *err)
{
    attn_desc_t *d = &problem->desc;
    struct io_tensor *t = &problem->tensors[OPERAND_ALIBI];
    if (strcmp(spec, "standard") == 0) {
        if (io_tensor_init(t, "alibi", IO_F32, 1, &d->heads_q, err)) {
            return -1;
        }
        for (int64_t h = 0; h < d->heads_q; h++) {
            // Press et al. 2022, arXiv:2108.12409, section 3: 2^(-8/n), 2^(-16/n), ...
            io_tensor_set(t, h, exp2(-8.0 * (double)(h + 1) / (double)d->heads_q));
        }
    } else if (array_load_f32(spec, "alibi", t, err)) {
        return -1;
    }
    const bool per_head = t->ndim == 1 && t->shape[0] == d->heads_q;
    const bool per_batch = t->ndim == 2 && t->shape[0] == d->batch && t->shape[1] == d->heads_q;
    if (!per_head && !per_batch) {
        char expected[96];
        snprintf(expected, sizeof(expected), "(%lld,) or (%lld, %lld)", (long long)d->heads_q,
                 (long long)d->batch, (long long)d->heads_q);
        return fail_shape("alibi", t, expected, err);
    }
    d->has_alibi = 1;
    d->alibi_stride_b = per_head ? 0 : d->heads_q;
    problem->args.in.alibi_slopes = t->data;
    return 0;
}

static int add_sink(struct problem *problem, const char *spec, uint64_t seed, struct io_error *err)
{
    attn_desc_t *d = &problem->desc;
    struct io_tensor *t = &problem->tensors[OPERAND_SINK];
    if (strcmp(spec, "random") == 0) {
        if (io_tensor_init(t, "sink", IO_F32, 1, &d->heads_q, err)) {
            return -1;
        }
        random_fill(t, seed, "sink", 1.0, 0.5);
    } else if (array_load_f32(spec, "sink", t, err)) {
        return -1;
    }
    if (t->ndim != 1 || t->count != d->heads_q) {
        char expected[64];
        snprintf(expected, sizeof(expected), "(%lld,), one per query head", (long long)d->heads_q);
        return fail_shape("sink", t, expected, err);
    }
    d->has_sink = 1;
    problem->args.in.sink = t->data;
    return 0;
}

// Lists are (B, H, blocks of q[, room]); B and H may be 1 and broadcast.
static int check_block_shape(const struct problem *problem, const struct io_tensor *t, int ndim,
                             const char *operand, struct io_error *err)
{
    const attn_desc_t *d = &problem->desc;
    const int64_t rows = d->s_q / d->block_q + (d->s_q % d->block_q != 0);
    const bool fits = t->ndim == ndim && (t->shape[0] == 1 || t->shape[0] == d->batch) &&
                      (t->shape[1] == 1 || t->shape[1] == d->heads_q) && t->shape[2] == rows;
    if (fits) {
        return 0;
    }
    char expected[128];
    snprintf(expected, sizeof(expected), "(%lld, %lld, %lld%s)", (long long)d->batch,
             (long long)d->heads_q, (long long)rows, ndim == 4 ? ", room" : "");
    return fail_shape(operand, t, expected, err);
}

static int add_blocks(struct problem *problem, const struct problem_options *options,
                      struct io_error *err)
{
    attn_desc_t *d = &problem->desc;
    struct io_tensor *count = &problem->tensors[OPERAND_BLOCK_COUNT];
    struct io_tensor *index = &problem->tensors[OPERAND_BLOCK_INDEX];
    if (!options->block_count || !options->block_index || options->block_size[0] < 1) {
        return io_fail(err, "block-size, block-count, block-index: all three or none");
    }
    d->block_sparse = 1;
    d->block_q = options->block_size[0];
    d->block_kv = options->block_size[1];
    if (array_load_i32(options->block_count, "block-count", count, err) ||
        array_load_i32(options->block_index, "block-index", index, err) ||
        check_block_shape(problem, count, 3, "block-count", err) ||
        check_block_shape(problem, index, 4, "block-index", err)) {
        return -1;
    }
    if (memcmp(count->shape, index->shape, 3 * sizeof(count->shape[0]))) {
        return io_fail(err, "block-index: its first three dims differ from block-count's");
    }
    d->blocks_per_row = index->shape[3];
    d->block_stride_h = count->shape[1] == 1 ? 0 : count->shape[2];
    d->block_stride_b = count->shape[0] == 1 ? 0 : count->shape[1] * count->shape[2];
    problem->args.in.block_count = count->data;
    problem->args.in.block_index = index->data;
    return 0;
}

static int add_descale(struct problem *problem, enum problem_operand which, const char *operand,
                       const char *spec, int64_t rows, attn_descale_t *out,
                       const float **pointer_out, struct io_error *err)
{
    const attn_desc_t *d = &problem->desc;
    struct io_tensor *t = &problem->tensors[which];
    if (array_load_f32(spec, operand, t, err)) {
        return -1;
    }
    const bool is_q = which == OPERAND_Q_DESCALE;
    const int64_t heads = is_q ? d->heads_q : d->heads_kv;
    const int64_t s = is_q ? d->s_q : d->s_kv;
    const int64_t blocks = s / rows + (s % rows != 0);
    *out = (attn_descale_t){.present = 1, .rows = (int32_t)rows};
    *pointer_out = t->data;
    if (t->count == 1) {
        return 0;
    }
    if (t->ndim == 1 && t->shape[0] == heads) {
        out->stride_h = 1;
        return 0;
    }
    if (t->ndim == 2 && t->shape[0] == d->batch && t->shape[1] == heads) {
        out->stride_b = heads;
        out->stride_h = 1;
        return 0;
    }
    if (t->ndim == 3 && t->shape[0] == d->batch && t->shape[1] == heads && t->shape[2] == blocks) {
        out->stride_b = heads * blocks;
        out->stride_h = blocks;
        out->stride_s = 1;
        return 0;
    }
    char expected[160];
    snprintf(expected, sizeof(expected), "one number, (%lld,), (%lld, %lld) or (%lld, %lld, %lld)",
             (long long)heads, (long long)d->batch, (long long)heads, (long long)d->batch,
             (long long)heads, (long long)blocks);
    return fail_shape(operand, t, expected, err);
}

static int add_descales(struct problem *problem, const struct problem_options *options,
                        struct io_error *err)
{
    attn_desc_t *d = &problem->desc;
    attn_forward_args_t *in = &problem->args.in;
    const int64_t rows = options->descale_rows;
    if (options->q_descale &&
        add_descale(problem, OPERAND_Q_DESCALE, "q-descale", options->q_descale, rows,
                    &d->q_descale, &in->q_descale, err)) {
        return -1;
    }
    if (options->k_descale &&
        add_descale(problem, OPERAND_K_DESCALE, "k-descale", options->k_descale, rows,
                    &d->k_descale, &in->k_descale, err)) {
        return -1;
    }
    if (options->v_descale &&
        add_descale(problem, OPERAND_V_DESCALE, "v-descale", options->v_descale, rows,
                    &d->v_descale, &in->v_descale, err)) {
        return -1;
    }
    return 0;
}

int problem_add_scores(struct problem *problem, const struct problem_options *options,
                       struct io_error *err)
{
    attn_desc_t *d = &problem->desc;
    d->scale = (float)options->scale;
    d->softcap = (float)options->softcap;
    if (options->softcap > 0 && d->softcap == 0) {
        return io_fail(err, "--softcap: %g is 0 as a 32-bit float, which would mean off",
                       options->softcap);
    }
    d->causal = options->causal;
    d->align = (attn_align_t)options->align;
    d->window_left = options->window[0];
    d->window_right = options->window[1];
    d->dropout_p = (float)options->dropout;
    if (d->dropout_p > 0) {
        problem->dropout_state[0] = options->seed;
        problem->dropout_state[1] = options->offset;
        problem->args.in.dropout_state = problem->dropout_state;
    }
    const uint64_t seed = options->random_seed;
    const bool wants_blocks =
        options->block_count || options->block_index || options->block_size[0] > 0;
    if ((options->mask && add_mask(problem, options->mask, seed, err)) ||
        (options->bias && add_bias(problem, options->bias, seed, err)) ||
        (options->alibi && add_alibi(problem, options->alibi, err)) ||
        (options->sink && add_sink(problem, options->sink, seed, err)) ||
        (wants_blocks && add_blocks(problem, options, err)) ||
        add_descales(problem, options, err)) {
        return -1;
    }
    return 0;
}
