// onnx_problem.c: see onnx_problem.h.
//
// How ONNX is said in attn.h's words:
//   3-D Q (b, s, heads*d)   dense (b, s, h, d)
//   4-D Q (b, h, s, d)      the same with other strides
//   attn_mask               bool: mask, float: bias; shapes align at the right, stride 0 where the
//                           size is 1 or missing
//   past_key, past_value    appended with attn_append to an empty cache, then the new rows behind
//                           them; K and V are the cache
//   is_causal               row i sees key j when j <= i + offset (text of opset 24):
//                             past rows: offset = past; neither: 0    top-left, window_right
//                                                                     = offset
//                             nonpad_kv_seqlen: offset = nonpad - s_q bottom-right over seqused_kv
//   nonpad_kv_seqlen        seqused_kv
//   softmax_precision       nothing to do: the softmax is always at least fp32
#include "onnx_problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_FILE_BYTES = 1 << 24, MAX_BATCH = 16 };

// The whole file in exactly as many bytes, or NULL if it is not there.
static uint8_t *read_file(const char *path, size_t *size_out)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    assert_true(size > 0 && size <= MAX_FILE_BYTES);
    rewind(file);
    uint8_t *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    *size_out = (size_t)size;
    return bytes;
}

// raw points into the file at any address; the library wants elements aligned to their size.
static void keep_aligned(vector *v, uint8_t *file_bytes)
{
    onnx_tensor *tensor = &v->tensors[v->tensor_count];
    uint8_t *data = malloc(tensor->raw_bytes + 1);
    assert_non_null(data);
    memcpy(data, tensor->raw, tensor->raw_bytes);
    free(file_bytes);
    tensor->raw = data;
    v->data[v->tensor_count++] = data;
}

static void load_tensors(vector *v, const char *folder, const char *kind)
{
    char path[VECTOR_PATH_BYTES];
    char error[ONNX_MAX_ERROR];
    for (int i = 0;; i++) {
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", folder, kind, i);
        size_t size;
        uint8_t *bytes = read_file(path, &size);
        if (bytes == NULL) {
            break;
        }
        assert_true(v->tensor_count < VECTOR_MAX_TENSORS);
        if (onnx_parse_tensor(bytes, size, &v->tensors[v->tensor_count], error) != 0) {
            fail_msg("%s: %s", path, error);
        }
        keep_aligned(v, bytes);
    }
}

void vector_load(vector *v, const char *dir, const char *name)
{
    char folder[VECTOR_PATH_BYTES / 2];
    char path[VECTOR_PATH_BYTES];
    char error[ONNX_MAX_ERROR];
    size_t size;
    memset(v, 0, sizeof *v);
    snprintf(folder, sizeof folder, "%s/onnx-attention/test_attention_%s", dir, name);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    uint8_t *bytes = read_file(path, &size);
    if (bytes == NULL || onnx_parse_attention_model(bytes, size, &v->node, error) != 0) {
        fail_msg("%s: %s", path, bytes == NULL ? "cannot be read" : error);
    }
    free(bytes);
    load_tensors(v, folder, "input");
    load_tensors(v, folder, "output");
}

void vector_free(vector *v)
{
    for (int i = 0; i < v->tensor_count; i++) {
        free(v->data[i]);
    }
}

static const onnx_tensor *tensor_by_name(const vector *v, const char *name)
{
    for (int i = 0; i < v->tensor_count; i++) {
        if (strcmp(v->tensors[i].name, name) == 0) {
            return &v->tensors[i];
        }
    }
    fail_msg("the model names '%s', but no file holds it", name);
    return NULL;
}

const onnx_tensor *vector_input(const vector *v, int i)
{
    return i < v->node.input_count && v->node.inputs[i][0] != 0
               ? tensor_by_name(v, v->node.inputs[i])
               : NULL;
}

const onnx_tensor *vector_output(const vector *v, int i)
{
    return i < v->node.output_count && v->node.outputs[i][0] != 0
               ? tensor_by_name(v, v->node.outputs[i])
               : NULL;
}

// ---------------------------------------------------------------------------------------------
// From ONNX to a descriptor

typedef struct shape4 {
    int64_t b, h, s, d;
} shape4;

static shape4 shape_of(const onnx_tensor *tensor, int64_t heads)
{
    const int64_t *dims = tensor->dims;
    if (tensor->rank == 4) {
        return (shape4){dims[0], dims[1], dims[2], dims[3]};
    }
    assert_int_equal(tensor->rank, 3);
    assert_true(heads > 0 && dims[2] % heads == 0);
    return (shape4){dims[0], heads, dims[1], dims[2] / heads};
}

static attn_dtype_t attn_dtype_of(const onnx_tensor *tensor)
{
    assert_true(tensor->dtype == ONNX_FLOAT || tensor->dtype == ONNX_FLOAT16);
    return tensor->dtype == ONNX_FLOAT ? ATTN_F32 : ATTN_F16;
}

static void set_strides(attn_tensor_t *operand, shape4 shape, int is_bhsd)
{
    operand->stride_b = shape.h * shape.s * shape.d;
    operand->stride_h = is_bhsd ? shape.s * shape.d : shape.d;
    operand->stride_s = is_bhsd ? shape.d : shape.h * shape.d;
    operand->stride_d = 1;
}

void *nan_filled(size_t bytes)
{
    void *memory = malloc(bytes);
    assert_non_null(memory);
    memset(memory, 0xff, bytes);
    return memory;
}

// Appends rows k and v behind used rows of every batch entry's cache.
static void append_rows(problem *p, const onnx_tensor *k, const onnx_tensor *v, shape4 k_shape,
                        shape4 v_shape, int32_t used)
{
    attn_append_desc_t desc;
    attn_append_args_t args;
    int32_t cache_seqlens[MAX_BATCH];
    attn_append_desc_init(&desc, p->desc.k.dtype);
    attn_append_args_init(&args);
    assert_true(k_shape.b <= MAX_BATCH);
    for (int64_t b = 0; b < k_shape.b; b++) {
        cache_seqlens[b] = used;
    }
    desc.backend = ATTN_BACKEND_CPU;
    desc.batch = desc.cache_batch = k_shape.b;
    desc.s_new = k_shape.s;
    desc.heads_kv = k_shape.h;
    desc.d_qk = k_shape.d;
    desc.d_v = v_shape.d;
    desc.capacity = p->desc.s_kv;
    set_strides(&desc.k_new, k_shape, k->rank == 4);
    set_strides(&desc.v_new, v_shape, v->rank == 4);
    desc.k_cache = p->desc.k;
    desc.v_cache = p->desc.v;
    args.k_new = k->raw;
    args.v_new = v->raw;
    args.k_cache = p->k_cache;
    args.v_cache = p->v_cache;
    args.cache_seqlens = cache_seqlens;
    assert_int_equal(attn_append(NULL, &desc, &args, NULL), ATTN_OK);
}

static void set_past(problem *p, const vector *vec, shape4 k_new, shape4 v_new)
{
    const onnx_tensor *past_k = vector_input(vec, 4);
    const onnx_tensor *past_v = vector_input(vec, 5);
    const size_t element_bytes = attn_dtype_bytes(p->desc.k.dtype);
    shape4 k_past = shape_of(past_k, 0);
    shape4 v_past = shape_of(past_v, 0);
    shape4 k_all = {k_new.b, k_new.h, k_past.s + k_new.s, k_new.d};
    shape4 v_all = {v_new.b, v_new.h, v_past.s + v_new.s, v_new.d};
    p->desc.s_kv = k_all.s;
    set_strides(&p->desc.k, k_all, 1);
    set_strides(&p->desc.v, v_all, 1);
    p->k_cache = nan_filled((size_t)(k_all.b * k_all.h * k_all.s * k_all.d) * element_bytes);
    p->v_cache = nan_filled((size_t)(v_all.b * v_all.h * v_all.s * v_all.d) * element_bytes);
    append_rows(p, past_k, past_v, k_past, v_past, 0);
    append_rows(p, vector_input(vec, 1), vector_input(vec, 2), k_new, v_new, (int32_t)k_past.s);
    p->args.k = p->k_cache;
    p->args.v = p->v_cache;
}

static void set_mask(problem *p, const onnx_tensor *mask)
{
    const int64_t sizes[4] = {p->desc.batch, p->desc.heads_q, p->desc.s_q, p->desc.s_kv};
    int64_t strides[4] = {0, 0, 0, 0};
    int64_t stride = 1;
    for (int i = 0; i < mask->rank; i++) { // from the right
        const int64_t dim = mask->dims[mask->rank - 1 - i];
        assert_true(i < 4 && (dim == 1 || dim == sizes[3 - i]));
        strides[3 - i] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
    attn_mask_tensor_t tensor = {.present = 1,
                                 .stride_b = strides[0],
                                 .stride_h = strides[1],
                                 .stride_q = strides[2],
                                 .stride_k = strides[3]};
    if (mask->dtype == ONNX_BOOL) {
        p->desc.mask = tensor;
        p->args.mask = mask->raw;
    } else {
        tensor.dtype = attn_dtype_of(mask);
        p->desc.bias = tensor;
        p->args.bias = mask->raw;
    }
}

static void set_nonpad(problem *p, const onnx_tensor *nonpad)
{
    assert_int_equal(nonpad->dtype, ONNX_INT64);
    assert_int_equal(nonpad->count, p->desc.batch);
    p->seqused_kv = malloc((size_t)nonpad->count * sizeof(int32_t));
    assert_non_null(p->seqused_kv);
    for (int64_t b = 0; b < nonpad->count; b++) {
        int64_t length;
        memcpy(&length, nonpad->raw + 8 * b, sizeof length);
        assert_true(length >= 0 && length <= p->desc.s_kv);
        p->seqused_kv[b] = (int32_t)length;
    }
    p->desc.has_seqused_kv = 1;
    p->args.seqused_kv = p->seqused_kv;
}

static void set_causal(problem *p, int64_t past, int is_nonpad)
{
    if (is_nonpad) {
        p->desc.align = ATTN_ALIGN_BOTTOM_RIGHT;
        p->desc.causal = 1;
    } else {
        p->desc.align = ATTN_ALIGN_TOP_LEFT;
        p->desc.window_right = past;
    }
}

void problem_build(problem *p, const vector *vec)
{
    const onnx_tensor *q = vector_input(vec, 0);
    const onnx_tensor *k = vector_input(vec, 1);
    const onnx_tensor *v = vector_input(vec, 2);
    const shape4 q_shape = shape_of(q, vec->node.q_num_heads);
    const shape4 k_shape = shape_of(k, vec->node.kv_num_heads);
    const shape4 v_shape = shape_of(v, vec->node.kv_num_heads);
    const shape4 o_shape = {q_shape.b, q_shape.h, q_shape.s, v_shape.d};
    memset(p, 0, sizeof *p);
    attn_desc_init(&p->desc, attn_dtype_of(q));
    attn_forward_args_init(&p->args);
    attn_desc_set_shape(&p->desc, q_shape.b, q_shape.s, k_shape.s, q_shape.h, k_shape.h, q_shape.d);
    p->desc.d_v = v_shape.d;
    set_strides(&p->desc.q, q_shape, q->rank == 4);
    set_strides(&p->desc.k, k_shape, k->rank == 4);
    set_strides(&p->desc.v, v_shape, v->rank == 4);
    set_strides(&p->desc.o, o_shape, q->rank == 4);
    p->o_bytes =
        (size_t)(o_shape.b * o_shape.h * o_shape.s * o_shape.d) * attn_dtype_bytes(p->desc.o.dtype);
    p->args.q = q->raw;
    p->args.k = k->raw;
    p->args.v = v->raw;
    p->desc.softcap = vec->node.softcap;
    if (vec->node.has_scale) {
        p->desc.scale = vec->node.scale;
    }
    if (vector_input(vec, 4) != NULL) {
        set_past(p, vec, k_shape, v_shape);
    }
    if (vector_input(vec, 3) != NULL) {
        set_mask(p, vector_input(vec, 3));
    }
    if (vector_input(vec, 6) != NULL) {
        set_nonpad(p, vector_input(vec, 6));
    }
    if (vec->node.is_causal) {
        set_causal(p, p->desc.s_kv - k_shape.s, vector_input(vec, 6) != NULL);
    }
}

void problem_free(problem *p)
{
    free(p->k_cache);
    free(p->v_cache);
    free(p->seqused_kv);
}
