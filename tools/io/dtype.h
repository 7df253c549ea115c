// dtype.h: the element types that the file formats know, and scalar conversion to and from double.
//
// Here so that readers, writers and commands agree on one list. Conversions are one element at a
// time and written to be read; the fast ones belong to the library.
#ifndef ATTN_TOOLS_IO_DTYPE_H
#define ATTN_TOOLS_IO_DTYPE_H

#include <stddef.h>

// X(enum suffix, bytes, name in messages and flags, name in safetensors, descr in .npy)
// The .npy descr lacks its byte order mark. NumPy has no bfloat16 or fp8: ml_dtypes stores them as
// raw void bytes, V2 and V1, which a reader cannot tell from other 2- or 1-byte types (npy.h).
#define IO_DTYPES(X)                                                                               \
    X(F64, 8, "f64", "F64", "f8")                                                                  \
    X(F32, 4, "f32", "F32", "f4")                                                                  \
    X(F16, 2, "f16", "F16", "f2")                                                                  \
    X(BF16, 2, "bf16", "BF16", "V2")                                                               \
    X(F8E4M3, 1, "f8e4m3", "F8_E4M3", "V1")                                                        \
    X(F8E5M2, 1, "f8e5m2", "F8_E5M2", "V1")                                                        \
    X(I64, 8, "i64", "I64", "i8")                                                                  \
    X(I32, 4, "i32", "I32", "i4")                                                                  \
    X(I16, 2, "i16", "I16", "i2")                                                                  \
    X(I8, 1, "i8", "I8", "i1")                                                                     \
    X(U64, 8, "u64", "U64", "u8")                                                                  \
    X(U32, 4, "u32", "U32", "u4")                                                                  \
    X(U16, 2, "u16", "U16", "u2")                                                                  \
    X(U8, 1, "u8", "U8", "u1")                                                                     \
    X(BOOL, 1, "bool", "BOOL", "b1")

enum io_dtype {
    IO_DTYPE_NONE = 0,
#define IO_DTYPE_ENUM(suffix, bytes, name, safetensors, npy) IO_##suffix,
    IO_DTYPES(IO_DTYPE_ENUM)
#undef IO_DTYPE_ENUM
        IO_DTYPE_COUNT
};

// Bytes of one element; 0 for IO_DTYPE_NONE and values outside the list.
size_t io_dtype_bytes(enum io_dtype dtype);

// Name in messages and flags ("bf16"), in safetensors ("BF16"), in .npy ("V2"); "none" if unknown.
const char *io_dtype_name(enum io_dtype dtype);
const char *io_dtype_safetensors_name(enum io_dtype dtype);
const char *io_dtype_npy_code(enum io_dtype dtype);

// The dtype of a name as io_dtype_name and io_dtype_safetensors_name give it; IO_DTYPE_NONE if
// there is none.
enum io_dtype io_dtype_from_name(const char *name);
enum io_dtype io_dtype_from_safetensors_name(const char *name);

// The element at `element` (host byte order, any alignment) as a double; 64-bit integers above 2^53
// are rounded. bool is 0 or 1.
double io_dtype_decode(enum io_dtype dtype, const void *element);

// Stores value, rounded to nearest even for floats and truncated towards zero for integers, which
// saturate. f16 and bf16 overflow to infinity; both fp8 types saturate to their largest finite
// value, as the GPU's cvt.satfinite does (PTX ISA 9.7.9.21). A NaN becomes NaN, or 0 as an integer.
void io_dtype_encode(enum io_dtype dtype, double value, void *element);

#endif
