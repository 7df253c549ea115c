// results.h: the files that a command writes: all of them appear, or none.
#ifndef ATTN_TOOLS_RESULTS_H
#define ATTN_TOOLS_RESULTS_H

#include "io/tensor.h"

enum { RESULTS_MAX = 16 };

// One tensor and where it goes: "o.npy", "out.safetensors" or "out.safetensors:name". Tensors of
// one .safetensors path end up in one file.
struct result {
    const char *spec; // NULL: not wanted, skipped
    const struct io_tensor *tensor;
    const char *name; // in a .safetensors file, unless spec names it
};

// Checks, before any work is done, that every path can be written: names, extensions, folders.
int results_check(const struct result *results, size_t n, struct io_error *err);
int results_write(const struct result *results, size_t n, struct io_error *err);

#endif
