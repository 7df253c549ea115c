// onnx_problem.h: a recorded ONNX vector on disk, and the same problem in attn.h's words. How the
// two languages map is said in onnx_problem.c; running and judging is test_onnx_vectors.c's job.
// Every failure here fails the current cmocka test.
#ifndef ATTN_TESTS_ONNX_PROBLEM_H
#define ATTN_TESTS_ONNX_PROBLEM_H

#include "attn.h"
#include "onnx_reader.h"

enum { VECTOR_MAX_TENSORS = 12, VECTOR_PATH_BYTES = 1024 };

typedef struct vector {
    onnx_attention_node node;
    onnx_tensor tensors[VECTOR_MAX_TENSORS]; // inputs and outputs, found by name
    uint8_t *data[VECTOR_MAX_TENSORS];       // their elements, aligned
    int tensor_count;
} vector;

typedef struct problem {
    attn_desc_t desc;
    attn_forward_args_t args; // all but o
    void *k_cache, *v_cache;  // with past rows: (b, heads_kv, past + new, d); else NULL
    int32_t *seqused_kv;
    size_t o_bytes;
} problem;

// Reads DIR/onnx-attention/test_attention_NAME.
void vector_load(vector *v, const char *dir, const char *name);
void vector_free(vector *v);
// NULL where the optional argument is left out. Order of the operator: Q K V attn_mask past_key
// past_value nonpad_kv_seqlen; Y present_key present_value qk_matmul_output.
const onnx_tensor *vector_input(const vector *v, int i);
const onnx_tensor *vector_output(const vector *v, int i);

// The vector must outlive the problem.
void problem_build(problem *p, const vector *v);
void problem_free(problem *p);

// bytes of 0xff: NaN in every floating type.
void *nan_filled(size_t bytes);

#endif
