// attention_map.h: the weights of one head as a matrix: the O(S^2) object that the library never
// makes, for looking at.
#ifndef ATTN_TOOLS_ATTENTION_MAP_H
#define ATTN_TOOLS_ATTENTION_MAP_H

#include "problem.h"

enum { ATTENTION_MAP_MAX = 4096 }; // rows and keys

struct attention_map {
    int64_t rows, keys;
    float *weights; // rows x keys; -1 where the row does not see the key
    float *lse;     // rows
    float largest;  // of all weights
};

// Sequence b, head h, softmax as the problem's options say, without dropout.
int attention_map_create(const struct problem *problem, int64_t b, int64_t h,
                         struct attention_map *map, struct io_error *err);
void attention_map_destroy(struct attention_map *map);

// Compares the map's lse with the one that the library computed into the problem's results. Both
// were written apart: if they agree, the picture shows what the kernel does.
int attention_map_verify(const struct attention_map *map, const struct problem *problem, int64_t b,
                         int64_t h, struct io_error *err);

#endif
