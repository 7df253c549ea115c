// problem.h: an attention problem as a command has it: the descriptor, the arguments, and the
// memory behind them, built from options, files and random numbers.
//
// Every command that computes or draws attention starts here. All strides of the descriptor are
// explicit, so that later code can address any element without guessing. The option tables are in
// problem_options.c, masks and length arrays in problem_extras.c.
#ifndef ATTN_TOOLS_PROBLEM_H
#define ATTN_TOOLS_PROBLEM_H

#include "attn.h"
#include "io/tensor.h"
#include "options.h"

enum problem_layout { LAYOUT_BSHD = 0, LAYOUT_BHSD = 1 };

// The fields that the option tables write. Texts are NULL when not given.
struct problem_options {
    // operands
    const char *input, *q, *k, *v;
    int layout;
    int dtype, out_dtype, grad_dtype; // 0: as stored, else 1 + attn_dtype_t
    // shape of random operands
    int64_t batch, heads[2], seqlen[2], dim[2];
    uint64_t random_seed;
    // scores and masks
    double scale, softcap;
    bool causal;
    int align;
    int64_t window[2];
    const char *mask, *bias, *alibi, *sink;
    double dropout;
    uint64_t seed, offset;
    const char *block_count, *block_index;
    int64_t block_size[2];
    // lengths
    const char *cu_seqlens_q, *cu_seqlens_kv, *seqused_q, *seqused_kv, *leftpad_kv, *kv_batch_idx;
    const char *page_table;
    int64_t max_seqlen[2];
    // fp8
    const char *q_descale, *k_descale, *v_descale;
    int64_t descale_rows;
    // how
    int backend;
    int64_t device;
    int isa;
    int64_t threads, splits;
    bool deterministic, batch_invariant, verbose;
};

void problem_options_init(struct problem_options *options);

// Which option tables a command offers.
enum problem_tables {
    PROBLEM_FILES = 1,    // --q, --k, --v, --input, --layout, --dtype
    PROBLEM_SHAPE = 2,    // --batch, --heads, --seqlen, --dim, --random-seed
    PROBLEM_SCORES = 4,   // masks, bias, softcap, dropout and so on
    PROBLEM_LENGTHS = 8,  // packed, used and paged sequences
    PROBLEM_MACHINE = 16, // backend, instruction set, threads
    PROBLEM_ALL = 31,
};
void problem_options_add(struct command_line *line, struct problem_options *options,
                         unsigned tables);

// Everything in memory that a problem owns.
enum problem_operand {
    OPERAND_Q,
    OPERAND_K,
    OPERAND_V,
    OPERAND_O,
    OPERAND_LSE,
    OPERAND_DO,
    OPERAND_DLSE,
    OPERAND_DQ,
    OPERAND_DK,
    OPERAND_DV,
    OPERAND_DSINK,
    OPERAND_DBIAS,
    OPERAND_CU_SEQLENS_Q,
    OPERAND_CU_SEQLENS_KV,
    OPERAND_SEQUSED_Q,
    OPERAND_SEQUSED_KV,
    OPERAND_LEFTPAD_KV,
    OPERAND_KV_BATCH_IDX,
    OPERAND_PAGE_TABLE,
    OPERAND_MASK,
    OPERAND_BIAS,
    OPERAND_ALIBI,
    OPERAND_SINK,
    OPERAND_BLOCK_COUNT,
    OPERAND_BLOCK_INDEX,
    OPERAND_Q_DESCALE,
    OPERAND_K_DESCALE,
    OPERAND_V_DESCALE,
    OPERAND_COUNT
};

// Whether a kernel writes it.
bool problem_is_result(int which);

struct problem {
    attn_desc_t desc;
    attn_backward_args_t args; // args.in is the forward pass's
    uint64_t dropout_state[2]; // seed, offset
    enum problem_layout layout;
    bool describe_only; // no memory behind random operands: for explain and mask pictures
    struct io_tensor tensors[OPERAND_COUNT];
};

// Builds descriptor and inputs from the options: operands from files where --q or --input is given,
// else random ones of the given shape. Also allocates nothing for results; see below.
int problem_create(struct problem *problem, const struct problem_options *options,
                   bool describe_only, struct io_error *err);
void problem_destroy(struct problem *problem); // a zeroed problem is fine

// Allocates o and lse, and points the arguments at them. The shape of o follows q's, (…, d_v).
int problem_add_forward_results(struct problem *problem, struct io_error *err);
// Allocates dq, dk, dv, and dsink and dbias where there is a sink or a bias.
int problem_add_backward_results(struct problem *problem, struct io_error *err);
// do and dlse: from a file each (NULL: random do, no dlse). Shapes are checked against o and lse.
int problem_add_gradient_inputs(struct problem *problem, const char *do_spec, const char *dlse_spec,
                                uint64_t random_seed, struct io_error *err);

// One line: "B 2, S 128/128, H 8/2, D 64, bf16, causal".
void problem_title(const struct problem *problem, char *text, size_t text_bytes);

// The dtypes of files and of the library. -1 or IO_DTYPE_NONE if there is no counterpart.
int problem_attn_dtype(enum io_dtype dtype);
enum io_dtype problem_io_dtype(attn_dtype_t dtype);

// In problem_extras.c, called by problem_create: lengths first, as they complete the shape.
int problem_add_lengths(struct problem *problem, const struct problem_options *options,
                        struct io_error *err);
int problem_add_scores(struct problem *problem, const struct problem_options *options,
                       struct io_error *err);

#endif
