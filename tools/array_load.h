// array_load.h: from what the user typed to a tensor: a file, a tensor within a file, or numbers.
//
//     q.npy                       the array of an .npy file
//     x.safetensors:layer3.q      one tensor of a .safetensors file
//     x.safetensors               its only tensor, or the one with the operand's own name
//     0,100,250   or   0,1;2,3    numbers, also nan and inf; ';' starts a new row
#ifndef ATTN_TOOLS_ARRAY_LOAD_H
#define ATTN_TOOLS_ARRAY_LOAD_H

#include <stdbool.h>

#include "io/tensor.h"

// void1: what nameless 1-byte elements of an .npy are (IO_DTYPE_NONE: refuse them). Nameless 2-byte
// elements are read as bf16, the only 2-byte type that NumPy cannot name.
int array_load(const char *spec, const char *operand, enum io_dtype void1, struct io_tensor *out,
               struct io_error *err);

// The same for small arrays, where numbers may stand in place of a file. The result is IO_I32
// (integers only, range checked) or IO_F32.
int array_load_i32(const char *spec, const char *operand, struct io_tensor *out,
                   struct io_error *err);
int array_load_f32(const char *spec, const char *operand, struct io_tensor *out,
                   struct io_error *err);

// Splits "x.safetensors:name" into path (malloc) and name (points into spec, NULL if none);
// *is_safetensors_out says what the path is. NULL without memory.
char *array_split_spec(const char *spec, const char **name_out, bool *is_safetensors_out);

// Whether elements are floats, of any width.
bool array_is_float(enum io_dtype dtype);

// Parses numbers alone, "1,2;3,4", into an IO_F64 tensor of one or two dims.
int array_parse_numbers(const char *text, const char *operand, struct io_tensor *out,
                        struct io_error *err);

#endif
