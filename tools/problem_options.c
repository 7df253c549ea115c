// problem_options.c: the options that describe a problem, as tables. The parser, the range checks
// and the help text come from options.c.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "problem.h"

#define FIELD(member) offsetof(struct problem_options, member)
#define DTYPE_CHOICES "stored f32 f16 bf16 f8e4m3 f8e5m2 f64"
// Largest length or count that a command accepts; the library itself has no such limit.
#define MAX_COUNT 1e9

static const struct option file_options[] = {
    {"input", 'i', OPTION_TEXT, FIELD(input), "FILE[:PREFIX]", 0, 0, NULL,
     "a .safetensors file that holds PREFIXq, PREFIXk and PREFIXv"},
    {"q", 0, OPTION_TEXT, FIELD(q), "FILE[:NAME]", 0, 0, NULL,
     "queries: an .npy file, or a tensor of a .safetensors file; (S, H, D) or (B, S, H, D)"},
    {"k", 0, OPTION_TEXT, FIELD(k), "FILE[:NAME]", 0, 0, NULL, "keys, likewise"},
    {"v", 0, OPTION_TEXT, FIELD(v), "FILE[:NAME]", 0, 0, NULL, "values, likewise"},
    {"layout", 0, OPTION_CHOICE, FIELD(layout), NULL, 0, 0, "bshd bhsd",
     "order of the dims in files; bhsd is PyTorch's. Results have the same order"},
    {"dtype", 0, OPTION_CHOICE, FIELD(dtype), NULL, 0, 0, DTYPE_CHOICES,
     "convert q, k, v (and do) to this type first; random operands are f32 by default"},
    {"out-dtype", 0, OPTION_CHOICE, FIELD(out_dtype), NULL, 0, 0, DTYPE_CHOICES,
     "type of o; by default q's, and f32 for fp8 inputs"},
    {"grad-dtype", 0, OPTION_CHOICE, FIELD(grad_dtype), NULL, 0, 0, DTYPE_CHOICES,
     "type of dq, dk, dv; by default that of q, k, v"},
    {"q-descale", 0, OPTION_TEXT, FIELD(q_descale), "FILE|NUMBERS", 0, 0, NULL,
     "factors of fp8 q: one number, (H), (B, H) or (B, H, blocks)"},
    {"k-descale", 0, OPTION_TEXT, FIELD(k_descale), "FILE|NUMBERS", 0, 0, NULL,
     "factors of fp8 k, with H the K/V heads"},
    {"v-descale", 0, OPTION_TEXT, FIELD(v_descale), "FILE|NUMBERS", 0, 0, NULL, "factors of fp8 v"},
    {"descale-rows", 0, OPTION_INT, FIELD(descale_rows), "N", 1, MAX_COUNT, NULL,
     "rows of a sequence that share a factor"},
};

static const struct option shape_options[] = {
    {"batch", 0, OPTION_INT, FIELD(batch), "B", 0, MAX_COUNT, NULL,
     "sequences of a random problem; default 1"},
    {"heads", 0, OPTION_PAIR, FIELD(heads), "H[,HKV]", 1, MAX_COUNT, NULL,
     "query heads and K/V heads; default 4"},
    {"seqlen", 0, OPTION_PAIR, FIELD(seqlen), "S[,SKV]", 0, MAX_COUNT, NULL,
     "query rows and keys; default 256"},
    {"dim", 0, OPTION_PAIR, FIELD(dim), "D[,DV]", 1, 65536, NULL,
     "head dim of q and k, and of v; default 64"},
    {"random-seed", 0, OPTION_U64, FIELD(random_seed), "N", 0, 0, NULL,
     "another seed gives other random numbers"},
};

static const struct option score_options[] = {
    {"scale", 0, OPTION_NUMBER, FIELD(scale), "X", 0, 0, NULL, "factor of q.k; default 1/sqrt(D)"},
    {"softcap", 0, OPTION_NUMBER, FIELD(softcap), "X", 0, 3e38, NULL,
     "scores become X * tanh(score / X); 0 is off"},
    {"causal", 0, OPTION_FLAG, FIELD(causal), NULL, 0, 0, NULL,
     "a row sees no key behind its own position"},
    {"window", 0, OPTION_PAIR, FIELD(window), "L,R", -1, MAX_COUNT, NULL,
     "a row sees L keys before and R behind its own position; -1 is unbounded"},
    {"align", 0, OPTION_CHOICE, FIELD(align), NULL, 0, 0, "bottom-right top-left",
     "which key is a row's own: the last query stands at the last key, or the first at the first"},
    {"mask", 0, OPTION_TEXT, FIELD(mask), "FILE|random", 0, 0, NULL,
     "boolean mask, 0 hides; any shape that broadcasts to (B, H, S, SKV)"},
    {"bias", 0, OPTION_TEXT, FIELD(bias), "FILE|random", 0, 0, NULL,
     "added to the scores; any shape that broadcasts to (B, H, S, SKV)"},
    {"alibi", 0, OPTION_TEXT, FIELD(alibi), "FILE|NUMBERS|standard", 0, 0, NULL,
     "slopes, (H) or (B, H); standard: 2^(-8 (h + 1) / H)"},
    {"sink", 0, OPTION_TEXT, FIELD(sink), "FILE|NUMBERS|random", 0, 0, NULL,
     "one logit per query head that takes weight and gives nothing"},
    {"dropout", 0, OPTION_NUMBER, FIELD(dropout), "P", 0, 0.999985, NULL,
     "share of the weights to drop"},
    {"seed", 0, OPTION_U64, FIELD(seed), "N", 0, 0, NULL, "seed of the dropout"},
    {"offset", 0, OPTION_U64, FIELD(offset), "N", 0, 0, NULL,
     "second half of the seed: what a program counts up from call to call"},
    {"block-size", 0, OPTION_PAIR, FIELD(block_size), "Q,KV", 1, MAX_COUNT, NULL,
     "block sparsity: rows and keys per block; needs the two lists"},
    {"block-count", 0, OPTION_TEXT, FIELD(block_count), "FILE", 0, 0, NULL,
     "K/V blocks listed per query block: (B, H, blocks of q), integers"},
    {"block-index", 0, OPTION_TEXT, FIELD(block_index), "FILE", 0, 0, NULL,
     "the lists, ascending: (B, H, blocks of q, room), integers"},
};

static const struct option length_options[] = {
    {"cu-seqlens-q", 0, OPTION_TEXT, FIELD(cu_seqlens_q), "FILE|NUMBERS", 0, 0, NULL,
     "q is packed, (total, H, D), and sequence b starts at row cu[b]; 0,100,250 are two sequences"},
    {"cu-seqlens-kv", 0, OPTION_TEXT, FIELD(cu_seqlens_kv), "FILE|NUMBERS", 0, 0, NULL,
     "k and v are packed, likewise"},
    {"seqused-q", 0, OPTION_TEXT, FIELD(seqused_q), "FILE|NUMBERS", 0, 0, NULL,
     "rows in use of each sequence"},
    {"seqused-kv", 0, OPTION_TEXT, FIELD(seqused_kv), "FILE|NUMBERS", 0, 0, NULL,
     "keys in use of each sequence"},
    {"leftpad-kv", 0, OPTION_TEXT, FIELD(leftpad_kv), "FILE|NUMBERS", 0, 0, NULL,
     "keys at the start of each sequence that are hidden"},
    {"kv-batch-idx", 0, OPTION_TEXT, FIELD(kv_batch_idx), "FILE|NUMBERS", 0, 0, NULL,
     "which batch entry of k and v each sequence reads"},
    {"page-table", 0, OPTION_TEXT, FIELD(page_table), "FILE|NUMBERS", 0, 0, NULL,
     "k and v are pages, (pages, page size, HKV, D); row b lists the pages of sequence b"},
    {"max-seqlen", 0, OPTION_PAIR, FIELD(max_seqlen), "S,SKV", 0, MAX_COUNT, NULL,
     "bounds of packed lengths; by default the largest that there are"},
};

// The instruction sets as words of a choice: a word's place is its value.
#define ISA_TEXT(name, value, text) " " text
#define ISA_CHOICES (&ATTN_ISA_LIST(ISA_TEXT)[1])

static const struct option machine_options[] = {
    {"backend", 0, OPTION_CHOICE, FIELD(backend), NULL, 0, 0, "auto cpu reference cuda",
     "auto is the CPU; reference: fp64, row by row, slow; cuda: a GPU, to which operands are "
     "copied"},
    {"device", 0, OPTION_INT, FIELD(device), "N", 0, 1023, NULL,
     "which GPU of --backend cuda; default 0"},
    {"isa", 0, OPTION_CHOICE, FIELD(isa), NULL, 0, 0, ISA_CHOICES,
     "highest instruction set of the CPU to use"},
    {"threads", 0, OPTION_INT, FIELD(threads), "N", 0, 65536, NULL,
     "threads of the CPU backend; 0: all there are"},
    {"splits", 0, OPTION_INT, FIELD(splits), "N", 0, 65536, NULL,
     "pieces to cut the keys into when queries are few; 0: the library chooses, 1: never"},
    {"deterministic", 0, OPTION_FLAG, FIELD(deterministic), NULL, 0, 0, NULL,
     "backward gives the same bits every time (the CPU always does)"},
    {"batch-invariant", 0, OPTION_FLAG, FIELD(batch_invariant), NULL, 0, 0, NULL,
     "a row's bits depend on its own sequence alone"},
    {"verbose", 0, OPTION_FLAG, FIELD(verbose), NULL, 0, 0, NULL,
     "print the library's log lines to standard error"},
};

void problem_options_init(struct problem_options *options)
{
    memset(options, 0, sizeof(*options));
    *options = (struct problem_options){
        .batch = 1,
        .heads = {4, 4},
        .seqlen = {256, 256},
        .dim = {64, 64},
        .scale = (double)NAN,
        .window = {-1, -1},
        .max_seqlen = {-1, -1},
        .block_size = {0, 0},
        .descale_rows = 1,
        .random_seed = 1,
    };
}

void problem_options_add(struct command_line *line, struct problem_options *options,
                         unsigned tables)
{
    if (tables & PROBLEM_FILES) {
        options_add_group(line, "Operands", file_options, OPTIONS_COUNT(file_options), options);
    }
    if (tables & PROBLEM_SHAPE) {
        options_add_group(line, "Random operands, where no files are given", shape_options,
                          OPTIONS_COUNT(shape_options), options);
    }
    if (tables & PROBLEM_SCORES) {
        options_add_group(line, "Scores and masks (all that are given apply together)",
                          score_options, OPTIONS_COUNT(score_options), options);
    }
    if (tables & PROBLEM_LENGTHS) {
        options_add_group(line, "Lengths", length_options, OPTIONS_COUNT(length_options), options);
    }
    if (tables & PROBLEM_MACHINE) {
        options_add_group(line, "How", machine_options, OPTIONS_COUNT(machine_options), options);
    }
}
