// A function of a library that was opened with dlopen.
#ifndef ATTN_CUDA_LIBRARY_SYMBOL_H
#define ATTN_CUDA_LIBRARY_SYMBOL_H

#include <dlfcn.h>
#include <string.h>

// Writes the function's address to the pointer at function_out; 0 if the library has none of this
// name. ISO C has no cast from an object pointer to a function pointer; POSIX promises that the
// bits are the same.
static inline int attn_library_symbol(void *library, const char *symbol, void *function_out)
{
    void *const address = dlsym(library, symbol);
    memcpy(function_out, &address, sizeof(address));
    return address != NULL;
}

#endif
