// A kernel's configuration: all that is fixed when it is compiled, as one small struct. Its name
// and its prologue are made from it and from nothing else.
#ifndef ATTN_CUDA_KERNEL_CONFIG_H
#define ATTN_CUDA_KERNEL_CONFIG_H

#include "../core/plan.h"

typedef enum attn_kernel_kind {
    ATTN_KERNEL_FILL, // o = 0 and lse where there are no keys
    ATTN_KERNEL_FORWARD,
    ATTN_KERNEL_BACKWARD,
    ATTN_KERNEL_BACKWARD_PREPROCESS,
    ATTN_KERNEL_BACKWARD_POSTPROCESS,
    ATTN_KERNEL_SURVEY, // of a mask tensor and block lists, before a forward kernel
} attn_kernel_kind_t;

// What may hide keys besides the end of the sequence.
enum { ATTN_KERNEL_MASK_UPPER = 1, ATTN_KERNEL_MASK_LOWER = 2 };
// The dtype of a bias.
enum { ATTN_KERNEL_BIAS_F32 = 1, ATTN_KERNEL_BIAS_F16 = 2, ATTN_KERNEL_BIAS_BF16 = 3 };

// X(field, NAME, short form in the kernel's name). A field that is 0 is left out of the name; the
// prologue has a line ATTN_CFG_NAME for every one. All are int32_t.
#define ATTN_KERNEL_AXES(X)                                                                        \
    X(arch, ARCH, NULL)                     /* compute capability: 90 is 9.0 */                    \
    X(bf16, BF16, NULL)                     /* 1: 16-bit operands are bf16, 0: f16 */              \
    X(o_bytes, O_BYTES, "o")                /* of an element of o */                               \
    X(d_qk, D_QK, "d")                      /* head dims, rounded up */                            \
    X(d_v, D_V, "x")                        /* of V and O */                                       \
    X(tile_m, BLOCK_M, "m")                 /* query rows of a tile */                             \
    X(tile_n, BLOCK_N, "n")                 /* keys of a block */                                  \
    X(stages, STAGES, "s")                  /* buffers for K, and for V */                         \
    X(warpgroups, WARPGROUPS, "w")          /* that compute */                                     \
    X(ctas, CTAS, "c")                      /* per multiprocessor */                               \
    X(load_registers, LOAD_REGISTERS, NULL) /* per thread, after the hand-over */                  \
    X(compute_registers, COMPUTE_REGISTERS, NULL)                                                  \
    X(mask, MASK, "_mask")                  /* ATTN_KERNEL_MASK_* */                               \
    X(paged, PAGED, "_paged")               /* K and V in pages of any size */                     \
    X(gather, GATHER, "_gather")            /* operands by copies: what TMA cannot address */      \
    X(split, SPLIT, "_split")               /* keys are cut, partial results are written */        \
    X(any_scale, ANY_SCALE, "_scale")       /* 1: the scale may be zero or negative */             \
    X(softcap, SOFTCAP, "_cap")             /* 1: scores are capped */                             \
    X(alibi, ALIBI, "_alibi")               /* 1: ALiBi slopes */                                  \
    X(bias, BIAS, "_bias")                  /* ATTN_KERNEL_BIAS_* */                               \
    X(bool_mask, BOOL_MASK, "_bool")        /* 1: a mask tensor */                                 \
    X(block_lists, BLOCK_LISTS, "_lists")   /* 1: lists of key blocks */                           \
    X(dropout, DROPOUT, "_drop")            /* 1: weights are dropped */                           \
    X(pack_gqa, PACK_GQA, "_gqa")           /* query heads of a group share a tile */              \
    X(ping_pong, PING_PONG, "_pp")          /* warpgroups take turns at the tensor core */         \
    X(separate_o, SEPARATE_O, "_so")        /* O has a buffer of its own */                        \
    X(pair, PAIR, "_pair")                  /* two warpgroups share keys */                        \
    X(deterministic, DETERMINISTIC, "_det") /* sums of several CTAs in a fixed order */

typedef struct attn_kernel_config {
    attn_kernel_kind_t kind;
#define ATTN_KERNEL_FIELD(field, name, letter) int32_t field;
    ATTN_KERNEL_AXES(ATTN_KERNEL_FIELD)
#undef ATTN_KERNEL_FIELD
} attn_kernel_config_t;

// "sm90_fill_o2": the symbol, and the name in cache, log, tests and profiles.
void attn_kernel_config_name(const attn_kernel_config_t *config,
                             char name_out[ATTN_KERNEL_NAME_BYTES]);

// The lines of #define that make the kernel of this configuration from its text.
#define ATTN_KERNEL_PROLOGUE_BYTES 2048
void attn_kernel_config_prologue(const attn_kernel_config_t *config,
                                 char text_out[ATTN_KERNEL_PROLOGUE_BYTES]);

// The architecture that a compute capability is compiled for, with the features of exactly this one
// where it has such: 90 is "sm_90a".
#define ATTN_ARCH_BYTES 16
void attn_arch_name(int32_t compute, char name_out[ATTN_ARCH_BYTES]);
// The other way: 0 for a name that is none.
int32_t attn_arch_compute(const char *name, size_t bytes);

#endif
