// What the families of Hopper kernels ask of a problem in the same way: types, shapes and strides
// that TMA can do, operands as kernels take them, lengths.
#ifndef ATTN_CUDA_SM90_PROBLEM_H
#define ATTN_CUDA_SM90_PROBLEM_H

#include "../shared/gpu_forward_params.h"
#include "kernel_family.h"

#define ATTN_SM90_LENGTH_MAX ((int64_t)1 << 30)

// Ends a legal function with its reason.
#define ATTN_REFUSE_IF(condition, ...)                                                             \
    do {                                                                                           \
        if (condition) {                                                                           \
            (void)snprintf(reason, ATTN_REASON_BYTES, __VA_ARGS__);                                \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)

// Rows of Q and K in memory, over a whole pack.
int64_t attn_sm90_rows_q(const attn_desc_t *desc);
int64_t attn_sm90_rows_kv(const attn_desc_t *desc);

// Parts of legal: 1, or 0 with the reason.
int attn_sm90_dtypes_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES]);
int attn_sm90_shape_legal(const attn_desc_t *desc, char reason[ATTN_REASON_BYTES]);

// An operand or a result, as memory has it.
typedef struct attn_sm90_operand {
    const char *name;
    const void *data;
    const attn_tensor_t *tensor;
    int64_t b;
    int64_t s;
    int64_t h;
    int64_t d;
} attn_sm90_operand_t;

// One that has the rows and heads of Q, or of K. data may be NULL: then only the rest is asked for.
attn_sm90_operand_t attn_sm90_like_q(const char *name, const void *data, const attn_desc_t *desc,
                                     const attn_tensor_t *tensor, int64_t d);
attn_sm90_operand_t attn_sm90_like_k(const char *name, const void *data, const attn_desc_t *desc,
                                     const attn_tensor_t *tensor, int64_t d);

// Whether TMA can do it: 1, or 0 with the reason.
int attn_sm90_operand_legal(const attn_sm90_operand_t *operand, char reason[ATTN_REASON_BYTES]);

// For plain loads and stores. Errors: ATTN_INVALID_ARGUMENT (the pointer's alignment).
attn_status_t attn_sm90_plain(const attn_sm90_operand_t *operand, attn_gpu_operand_t *plain_out);

// For kernels that gather: any strides, any pointer; the widest copies that they allow.
attn_gpu_operand_t attn_sm90_gathered(const attn_sm90_operand_t *operand,
                                      attn_gpu_elements_t *elements_out);

// For TMA: (d, s, h, b), boxes of 64 columns. Errors: ATTN_DRIVER_ERROR.
attn_status_t attn_sm90_encode(const attn_gpu_t *gpu, const attn_sm90_operand_t *operand,
                               int32_t box_rows, tensor_map *map_out);
// The same as (d, h, s, b), boxes of `box_heads` heads of each of so many positions.
attn_status_t attn_sm90_encode_heads(const attn_gpu_t *gpu, const attn_sm90_operand_t *operand,
                                     int32_t box_heads, int32_t box_positions, tensor_map *map_out);

attn_gpu_lengths_t attn_sm90_lengths(const attn_desc_t *desc, const attn_forward_args_t *args);

// Whether tiles differ in length: then a counter hands them out.
int attn_sm90_has_unlike_tiles(const attn_desc_t *desc);

#endif
