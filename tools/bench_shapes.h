// bench_shapes.h: which problems attn bench measures, from text files.
//
// One line is one series, a curve of the plot; '#' starts a comment:
//
//     NAME key=value ... [causal] [backward]
//
//     b=N          sequences                            default 1
//     s=N,N,...    length of queries and keys: one case for each
//     tokens=N     instead of b: as many sequences of length s as make N rows
//     sq=N         length of the queries, if it differs from s (decoding: sq=1)
//     packed=N,N,...   instead of b and s: sequences of these lengths, packed; S is their sum
//     h=N[/M]      query heads, and K/V heads           default 16
//     d=N[/M]      head dim of q and k, and of v        default 64
//     dtype=NAME   f32, f16, bf16, f8e4m3, f8e5m2       default f32
//     window=L,R   softcap=X   splits=N   mask=random
//     causal       rows see no later keys
//     backward     measures the backward pass instead of the forward one
//
// A case is called NAME/S; files of measurements, ours and peers', find each other by this name.
#ifndef ATTN_TOOLS_BENCH_SHAPES_H
#define ATTN_TOOLS_BENCH_SHAPES_H

#include "problem.h"

enum { BENCH_NAME_BYTES = 64, BENCH_MAX_CASES = 512, BENCH_CU_SEQLENS_BYTES = 256 };

struct bench_case {
    char series[BENCH_NAME_BYTES];
    int64_t s;                               // the x of the plot
    char cu_seqlens[BENCH_CU_SEQLENS_BYTES]; // of packed sequences; the options point here
    struct problem_options options;
    bool backward;
};

struct bench_shapes {
    struct bench_case cases[BENCH_MAX_CASES];
    size_t n;
};

// Adds the cases of a file; machine options are taken from `base`. Errors name file, line and word.
int bench_shapes_read(const char *path, const struct problem_options *base,
                      struct bench_shapes *shapes, struct io_error *err);

#endif
