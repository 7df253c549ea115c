// Draws a whole attention problem from the fuzzer's bytes: a descriptor that makes sense, some
// fields of which are then overwritten with odd values, arrays of lengths, tables and lists of any
// content. Whatever the library accepts and is small enough must run without touching memory
// outside the operands; whatever it refuses must leave the output alone.
#include "fuzz_input.h"

#include "core/checked.h"
#include "core/desc.h"
#include "core/element.h"

#define DESC_BYTES_MAX 4096 // the largest struct_size that the library reads
#define BUFFERS_MAX 40

typedef struct problem {
    fuzz_input_t *input;
    attn_desc_t desc; // resolved
    attn_op_t op;
    attn_backward_args_t args;
    fuzz_buffer_t buffers[BUFFERS_MAX];
    int count;
} problem_t;

// ---------------------------------------------------------------------------------------------
// Descriptor

static void draw_shape(fuzz_input_t *input, attn_op_t op, attn_desc_t *desc)
{
    static const attn_dtype_t dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F8_E4M3,
                                          ATTN_F8_E5M2};
    attn_desc_init(desc, dtypes[fuzz_up_to(input, op == ATTN_FORWARD ? 4 : 2)]);
    const int64_t heads_kv = 1 + fuzz_up_to(input, 1);
    attn_desc_set_shape(desc, fuzz_up_to(input, 2), fuzz_up_to(input, 40), fuzz_up_to(input, 90),
                        heads_kv * (1 + fuzz_up_to(input, 2)), heads_kv, 1 + fuzz_up_to(input, 24));
    desc->d_v = 1 + fuzz_up_to(input, 24);
    desc->backend = fuzz_byte(input) % 4 == 0 ? ATTN_BACKEND_REFERENCE : ATTN_BACKEND_CPU;
    if (fuzz_byte(input) % 4 == 0) {
        (void)attn_desc_set_bhsd(desc);
    }
}

// Keys are dense or packed; for a forward pass also in chosen entries or in pages.
static void draw_lengths(fuzz_input_t *input, attn_op_t op, attn_desc_t *desc)
{
    enum { DENSE, PACKED, ENTRIES, PAGES };
    const int64_t place = fuzz_up_to(input, op == ATTN_FORWARD ? PAGES : PACKED);
    const uint8_t bits = fuzz_byte(input);
    desc->varlen_q = bits & 1;
    desc->varlen_kv = place == PACKED;
    desc->has_seqused_q = bits >> 2 & 1;
    desc->has_seqused_kv = bits >> 3 & 1;
    desc->has_leftpad_kv = bits >> 4 & 1;
    desc->has_kv_batch_idx = place == ENTRIES;
    desc->paged_kv = place == PAGES;
    desc->total_q = fuzz_up_to(input, 150);
    desc->total_kv = fuzz_up_to(input, 200);
    desc->kv_batch = fuzz_up_to(input, 3);
    desc->page_size = 1 + fuzz_up_to(input, 40);
    desc->num_pages = fuzz_up_to(input, 9);
    desc->pages_per_seq = attn_ceil_div(desc->s_kv, desc->page_size) + fuzz_up_to(input, 1);
}

static void draw_mask(fuzz_input_t *input, attn_desc_t *desc)
{
    const uint8_t bits = fuzz_byte(input);
    desc->causal = bits & 1;
    desc->align = (attn_align_t)(bits >> 1 & 1);
    desc->mask.present = bits >> 2 & 1;
    desc->bias.present = bits >> 3 & 1;
    desc->has_alibi = bits >> 4 & 1;
    desc->has_sink = bits >> 5 & 1;
    desc->block_sparse = bits >> 6 & 1;
    desc->dbias.present = bits >> 7 & desc->bias.present;
    desc->window_left = fuzz_up_to(input, 80) - 1;
    desc->window_right = fuzz_up_to(input, 80) - 1;
    desc->block_q = 1 + fuzz_up_to(input, 40);
    desc->block_kv = 1 + fuzz_up_to(input, 40);
    desc->blocks_per_row = fuzz_up_to(input, 6);
    attn_mask_tensor_t *const tensors[] = {&desc->mask, &desc->bias, &desc->dbias};
    for (int i = 0; i < 3; i++) {
        const uint8_t broadcast = fuzz_byte(input);
        int64_t *const strides[] = {&tensors[i]->stride_b, &tensors[i]->stride_h,
                                    &tensors[i]->stride_q, &tensors[i]->stride_k};
        for (int s = 0; s < 4; s++) {
            if (broadcast >> s & 1) {
                *strides[s] = 0;
            }
        }
    }
    desc->bias.dtype = (attn_dtype_t)fuzz_up_to(input, 2);
}

static void draw_options(fuzz_input_t *input, attn_desc_t *desc)
{
    const uint8_t bits = fuzz_byte(input);
    desc->wants_lse = bits & 1;
    desc->has_dlse = bits >> 1 & 1;
    desc->wants_dsink = bits >> 2 & desc->has_sink;
    desc->batch_invariant = bits >> 3 & 1;
    desc->softcap = bits >> 4 & 1 ? 3.0f : 0.0f;
    desc->dropout_p = bits >> 5 & 1 ? 0.3f : 0.0f;
    desc->o.dtype = bits >> 6 & 1 ? ATTN_F32 : desc->o.dtype;
    desc->do_.dtype = desc->o.dtype;
    desc->num_splits = (int32_t)fuzz_up_to(input, 9);
    attn_descale_t *const descales[] = {&desc->q_descale, &desc->k_descale, &desc->v_descale};
    for (int i = 0; i < 3; i++) {
        descales[i]->present = attn_element_bytes(desc->q.dtype) == 1 && bits >> 7;
        descales[i]->rows = 1 + (int32_t)fuzz_up_to(input, 40);
        descales[i]->stride_s = fuzz_up_to(input, 2);
        descales[i]->stride_h = fuzz_up_to(input, 2);
    }
    attn_tensor_t *const inputs[] = {&desc->q, &desc->k, &desc->v};
    if (fuzz_byte(input) % 4 == 0) {
        attn_tensor_t *tensor = inputs[fuzz_up_to(input, 2)];
        int64_t *const strides[] = {&tensor->stride_b, &tensor->stride_s, &tensor->stride_h,
                                    &tensor->stride_d};
        *strides[fuzz_up_to(input, 3)] = fuzz_up_to(input, 60) - 20;
    }
}

// ---------------------------------------------------------------------------------------------
// Arguments. A pointer that is set asks for memory; NULL once in a while, to be refused.

static void *keep(problem_t *problem, fuzz_buffer_t buffer)
{
    if (problem->count == BUFFERS_MAX) {
        abort();
    }
    problem->buffers[problem->count++] = buffer;
    return buffer.origin;
}

static void *draw_elements(problem_t *problem, const attn_dim_t *dims, int32_t count,
                           int64_t element_bytes)
{
    return keep(problem, fuzz_operand(problem->input, dims, count, element_bytes));
}

// count values in [0, high], sometimes one that is odd.
static const int32_t *draw_ints(problem_t *problem, int64_t count, int64_t high)
{
    int32_t *values = keep(problem, fuzz_bytes(problem->input, (size_t)count * sizeof(int32_t)));
    for (int64_t i = 0; i < count; i++) {
        values[i] = (int32_t)fuzz_up_to(problem->input, high < 0 ? 0 : high);
    }
    if (count > 0 && fuzz_byte(problem->input) % 16 == 1) {
        values[fuzz_up_to(problem->input, count - 1)] = (int32_t)fuzz_odd_value(problem->input);
    }
    return values;
}

// Running sums of lengths that fit.
static const int32_t *draw_cu_seqlens(problem_t *problem, int64_t length_max, int64_t total)
{
    const int64_t batch = problem->desc.batch;
    int32_t *cu = keep(problem, fuzz_bytes(problem->input, (size_t)(batch + 1) * sizeof(int32_t)));
    cu[0] = 0;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t room = total - cu[b] < length_max ? total - cu[b] : length_max;
        cu[b + 1] = cu[b] + (int32_t)fuzz_up_to(problem->input, room);
    }
    if (fuzz_byte(problem->input) % 16 == 1) {
        cu[fuzz_up_to(problem->input, batch)] = (int32_t)fuzz_odd_value(problem->input);
    }
    return cu;
}

// Ascending lists, mostly.
static void draw_lists(problem_t *problem)
{
    const attn_desc_t *desc = &problem->desc;
    attn_forward_args_t *args = &problem->args.in;
    const int64_t blocks = attn_ceil_div(desc->s_kv, desc->block_kv);
    const attn_dim_t lists[3] = {
        {attn_desc_query_blocks(desc), 1},
        {desc->heads_q, desc->block_stride_h},
        {desc->batch, desc->block_stride_b},
    };
    attn_dim_t entries[4] = {{desc->blocks_per_row, 1}};
    for (int i = 0; i < 3; i++) {
        entries[i + 1] = (attn_dim_t){lists[i].size, lists[i].stride * desc->blocks_per_row};
    }
    int32_t *count = draw_elements(problem, lists, 3, (int64_t)sizeof(int32_t));
    const fuzz_buffer_t count_buffer = problem->buffers[problem->count - 1];
    int32_t *index = draw_elements(problem, entries, 4, (int64_t)sizeof(int32_t));
    const fuzz_buffer_t index_buffer = problem->buffers[problem->count - 1];
    const int64_t room = desc->blocks_per_row < blocks ? desc->blocks_per_row : blocks;
    for (size_t i = 0; i < count_buffer.bytes / sizeof(int32_t); i++) {
        ((int32_t *)(void *)count_buffer.memory)[i] = (int32_t)fuzz_up_to(problem->input, room);
    }
    for (size_t i = 0; i < index_buffer.bytes / sizeof(int32_t); i++) {
        ((int32_t *)(void *)index_buffer.memory)[i] = (int32_t)(i % (size_t)desc->blocks_per_row);
    }
    args->block_count = count;
    args->block_index = index;
}

static void mask_dims(const attn_desc_t *desc, const attn_mask_tensor_t *tensor, attn_dim_t *dims)
{
    dims[0] = (attn_dim_t){desc->s_kv, tensor->stride_k};
    dims[1] = (attn_dim_t){desc->s_q, tensor->stride_q};
    dims[2] = (attn_dim_t){desc->heads_q, tensor->stride_h};
    dims[3] = (attn_dim_t){desc->batch, tensor->stride_b};
}

static const float *draw_descale(problem_t *problem, const attn_descale_t *descale, int64_t heads,
                                 int64_t rows)
{
    if (!descale->present) {
        return NULL;
    }
    const attn_dim_t dims[3] = {
        {attn_ceil_div(rows, descale->rows), descale->stride_s},
        {heads, descale->stride_h},
        {problem->desc.batch, descale->stride_b},
    };
    return draw_elements(problem, dims, 3, (int64_t)sizeof(float));
}

static void draw_lse_dims(const attn_desc_t *desc, attn_dim_t *dims)
{
    dims[0] = (attn_dim_t){desc->varlen_q ? desc->total_q : desc->s_q, desc->lse_stride_s};
    dims[1] = (attn_dim_t){desc->heads_q, desc->lse_stride_h};
    dims[2] = (attn_dim_t){desc->varlen_q ? 1 : desc->batch, desc->lse_stride_b};
}

static void draw_operands(problem_t *problem)
{
    attn_operand_t list[ATTN_OPERANDS_MAX];
    const int32_t count = attn_desc_operands(&problem->desc, problem->op, list);
    void *pointers[ATTN_OPERANDS_MAX] = {NULL};
    for (int32_t i = 0; i < count; i++) {
        attn_dim_t dims[4];
        attn_operand_dims(&list[i], dims);
        pointers[i] = draw_elements(problem, dims, 4, attn_element_bytes(list[i].tensor->dtype));
    }
    problem->args.in.q = pointers[0];
    problem->args.in.k = pointers[1];
    problem->args.in.v = pointers[2];
    problem->args.in.o = pointers[3];
    problem->args.do_ = pointers[4];
    problem->args.dq = pointers[5];
    problem->args.dk = pointers[6];
    problem->args.dv = pointers[7];
}

static void draw_arrays(problem_t *problem)
{
    const attn_desc_t *desc = &problem->desc;
    attn_forward_args_t *args = &problem->args.in;
    if (desc->varlen_q) {
        args->cu_seqlens_q = draw_cu_seqlens(problem, desc->s_q, desc->total_q);
    }
    if (desc->varlen_kv) {
        args->cu_seqlens_kv = draw_cu_seqlens(problem, desc->s_kv, desc->total_kv);
    }
    if (desc->has_seqused_q) {
        args->seqused_q = draw_ints(problem, desc->batch, desc->varlen_q ? 2 : desc->s_q);
    }
    if (desc->has_seqused_kv) {
        args->seqused_kv = draw_ints(problem, desc->batch, desc->varlen_kv ? 2 : desc->s_kv);
    }
    if (desc->has_leftpad_kv) {
        args->leftpad_kv = draw_ints(problem, desc->batch, 2);
    }
    if (desc->has_kv_batch_idx) {
        args->kv_batch_idx = draw_ints(problem, desc->batch, desc->kv_batch - 1);
    }
    if (desc->paged_kv) {
        const attn_dim_t dims[2] = {{desc->pages_per_seq, 1},
                                    {desc->batch, desc->page_table_stride_b}};
        args->page_table = draw_elements(problem, dims, 2, (int64_t)sizeof(int32_t));
        const fuzz_buffer_t table = problem->buffers[problem->count - 1];
        for (size_t i = 0; i < table.bytes / sizeof(int32_t) && desc->num_pages > 0; i++) {
            ((int32_t *)(void *)table.memory)[i] =
                (int32_t)fuzz_up_to(problem->input, desc->num_pages - 1);
        }
    }
    if (desc->block_sparse) {
        draw_lists(problem);
    }
}

static void draw_scores(problem_t *problem)
{
    const attn_desc_t *desc = &problem->desc;
    attn_forward_args_t *args = &problem->args.in;
    attn_dim_t dims[4];
    if (desc->mask.present) {
        mask_dims(desc, &desc->mask, dims);
        args->mask = draw_elements(problem, dims, 4, 1);
    }
    if (desc->bias.present) {
        mask_dims(desc, &desc->bias, dims);
        args->bias = draw_elements(problem, dims, 4, attn_element_bytes(desc->bias.dtype));
    }
    if (desc->has_alibi) {
        const attn_dim_t slopes[2] = {{desc->heads_q, 1}, {desc->batch, desc->alibi_stride_b}};
        args->alibi_slopes = draw_elements(problem, slopes, 2, (int64_t)sizeof(float));
    }
    const attn_dim_t heads = {desc->heads_q, 1};
    if (desc->has_sink) {
        args->sink = draw_elements(problem, &heads, 1, (int64_t)sizeof(float));
    }
    if (desc->dropout_p > 0.0f) {
        args->dropout_state = keep(problem, fuzz_bytes(problem->input, 2 * sizeof(uint64_t)));
    }
    args->q_descale = draw_descale(problem, &desc->q_descale, desc->heads_q, desc->s_q);
    args->k_descale = draw_descale(problem, &desc->k_descale, desc->heads_kv, desc->s_kv);
    args->v_descale = draw_descale(problem, &desc->v_descale, desc->heads_kv, desc->s_kv);
    draw_lse_dims(desc, dims);
    if (desc->wants_lse || problem->op == ATTN_BACKWARD) {
        args->lse = draw_elements(problem, dims, 3, (int64_t)sizeof(float));
    }
    if (problem->op == ATTN_BACKWARD && desc->has_dlse) {
        problem->args.dlse = draw_elements(problem, dims, 3, (int64_t)sizeof(float));
    }
    if (problem->op == ATTN_BACKWARD && desc->wants_dsink) {
        problem->args.dsink = draw_elements(problem, &heads, 1, (int64_t)sizeof(float));
    }
    if (problem->op == ATTN_BACKWARD && desc->dbias.present) {
        mask_dims(desc, &desc->dbias, dims);
        problem->args.dbias =
            draw_elements(problem, dims, 4, attn_element_bytes(desc->dbias.dtype));
    }
}

// ---------------------------------------------------------------------------------------------

// Whether every operand, array and list has few elements.
static bool is_small(attn_desc_t *desc, attn_op_t op)
{
    attn_operand_t list[ATTN_OPERANDS_MAX];
    attn_dim_t dims[4];
    const int32_t count = attn_desc_operands(desc, op, list);
    bool small = desc->batch <= 8 && desc->heads_q <= 16 && desc->s_q <= 200 && desc->s_kv <= 200 &&
                 desc->d_qk <= 300 && desc->d_v <= 300;
    for (int32_t i = 0; i < count; i++) {
        attn_operand_dims(&list[i], dims);
        small = small && fuzz_is_small(dims, 4);
    }
    const attn_mask_tensor_t *const tensors[] = {&desc->mask, &desc->bias, &desc->dbias};
    for (int i = 0; i < 3; i++) {
        mask_dims(desc, tensors[i], dims);
        small = small &&
                (!tensors[i]->present || (i == 2 && op == ATTN_FORWARD) || fuzz_is_small(dims, 4));
    }
    draw_lse_dims(desc, dims);
    small = small && fuzz_is_small(dims, 3);
    const attn_descale_t *const descales[] = {&desc->q_descale, &desc->k_descale, &desc->v_descale};
    for (int i = 0; i < 3; i++) {
        const attn_dim_t factors[3] = {
            {200, descales[i]->stride_s}, {16, descales[i]->stride_h}, {8, descales[i]->stride_b}};
        small = small && (!descales[i]->present || fuzz_is_small(factors, 3));
    }
    const attn_dim_t table[2] = {{desc->pages_per_seq, 1},
                                 {desc->batch, desc->page_table_stride_b}};
    small = small && (!desc->paged_kv || fuzz_is_small(table, 2));
    const attn_dim_t slopes[2] = {{desc->heads_q, 1}, {desc->batch, desc->alibi_stride_b}};
    small = small && (!desc->has_alibi || fuzz_is_small(slopes, 2));
    if (small && desc->block_sparse) {
        // Strides count lists: so many entries at most.
        const attn_dim_t lists[3] = {{desc->blocks_per_row * attn_desc_query_blocks(desc), 1},
                                     {desc->heads_q, desc->block_stride_h},
                                     {desc->batch, desc->block_stride_b}};
        small = desc->blocks_per_row < 64 && fuzz_is_small(lists, 3);
    }
    return small;
}

static void run(problem_t *problem, const attn_plan_t *plan)
{
    draw_operands(problem);
    draw_arrays(problem);
    draw_scores(problem);
    const fuzz_buffer_t o = problem->buffers[3];
    unsigned char *before = malloc(o.bytes + 1);
    const size_t bytes = attn_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes > 0 ? bytes : 1);
    if (before == NULL || workspace == NULL) {
        abort();
    }
    memcpy(before, o.memory, o.bytes);
    const attn_status_t status = problem->op == ATTN_FORWARD
                                     ? attn_forward(plan, &problem->args.in, workspace, bytes, NULL)
                                     : attn_backward(plan, &problem->args, workspace, bytes, NULL);
    fuzz_check_status(status);
    if (status != ATTN_OK && memcmp(before, o.memory, o.bytes) != 0) {
        fprintf(stderr, "refused (%s), but o was written\n", attn_last_error());
        abort();
    }
    free(workspace);
    free(before);
    for (int i = 0; i < problem->count; i++) {
        free(problem->buffers[i].memory);
    }
}

// What the library says about any descriptor at all.
static void ask(const attn_context_t *context, const attn_desc_t *desc, attn_op_t op)
{
    char text[300];
    fuzz_check_status(attn_explain(context, desc, op, text, sizeof(text), NULL));
    attn_tile_map_t map;
    fuzz_check_status(attn_tile_map(context, desc, &map, NULL, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input_t input = {data, size};
    attn_context_t *context = fuzz_context(&input);
    problem_t problem = {.input = &input};
    problem.op = fuzz_byte(&input) % 2 == 0 ? ATTN_FORWARD : ATTN_BACKWARD;
    // The struct may claim to be longer than this header's.
    union {
        attn_desc_t desc;
        unsigned char bytes[DESC_BYTES_MAX];
    } drawn = {.bytes = {0}};
    draw_shape(&input, problem.op, &drawn.desc);
    draw_lengths(&input, problem.op, &drawn.desc);
    draw_mask(&input, &drawn.desc);
    draw_options(&input, &drawn.desc);
    fuzz_mutate(&input, &drawn, sizeof(drawn.desc) + 16);

    ask(context, &drawn.desc, problem.op);
    attn_plan_t *plan = NULL;
    const attn_status_t status = attn_plan_create(context, &drawn.desc, problem.op, &plan);
    fuzz_check_status(status);
    if (status != ATTN_OK) {
        return 0;
    }
    if (attn_desc_check(&drawn.desc, problem.op, &problem.desc) != ATTN_OK) {
        abort();
    }
    attn_backward_args_init(&problem.args);
    if (is_small(&problem.desc, problem.op) && attn_plan_workspace_bytes(plan) < (1u << 26)) {
        run(&problem, plan);
    }
    attn_plan_destroy(plan);
    return 0;
}
