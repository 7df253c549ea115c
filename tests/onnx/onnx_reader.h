// onnx_reader.h: reads the two kinds of protobuf message that ONNX's recorded test vectors hold: a
// TensorProto (input_0.pb) and a ModelProto with one Attention node (model.onnx). Nothing else of
// ONNX is understood; whatever is not understood and could change the meaning is an error. Field
// numbers are those of onnx.proto (ONNX 1.23, IR version 3 to 13).
//
// The files count as hostile: every length is checked against what is left, and results point into
// the caller's bytes. What a node means for attention is left to test_onnx_vectors.c.
#ifndef ATTN_TESTS_ONNX_READER_H
#define ATTN_TESTS_ONNX_READER_H

#include <stddef.h>
#include <stdint.h>

enum { ONNX_MAX_RANK = 8, ONNX_MAX_NAME = 64, ONNX_MAX_ARGS = 8, ONNX_MAX_ERROR = 128 };

// TensorProto.DataType, the values that the vectors use.
typedef enum onnx_dtype {
    ONNX_FLOAT = 1,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
} onnx_dtype;

typedef struct onnx_tensor {
    char name[ONNX_MAX_NAME];
    onnx_dtype dtype;
    int rank;
    int64_t dims[ONNX_MAX_RANK];
    int64_t count; // product of dims
    // count elements, little endian, any alignment; inside the bytes that were parsed
    const uint8_t *raw;
    size_t raw_bytes;
} onnx_tensor;

typedef struct onnx_attention_node {
    int input_count, output_count;
    char inputs[ONNX_MAX_ARGS][ONNX_MAX_NAME]; // "" where an optional input is left out
    char outputs[ONNX_MAX_ARGS][ONNX_MAX_NAME];
    int64_t is_causal;
    int64_t q_num_heads, kv_num_heads; // 0 unless given: 3-D inputs only
    int64_t qk_matmul_output_mode;
    int64_t softmax_precision; // an onnx_dtype; 0: not given
    int has_scale;
    float scale;
    float softcap;
} onnx_attention_node;

// Both return 0, or -1 with the reason in error. The tensor stays valid as long as bytes.
int onnx_parse_tensor(const uint8_t *bytes, size_t size, onnx_tensor *tensor_out,
                      char error[ONNX_MAX_ERROR]);
int onnx_parse_attention_model(const uint8_t *bytes, size_t size, onnx_attention_node *node_out,
                               char error[ONNX_MAX_ERROR]);

// Bytes of one element; 0 for a type that this reader does not know.
size_t onnx_dtype_bytes(int64_t dtype);

#endif
