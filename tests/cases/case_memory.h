// case_memory.h: memory that only the operating system can give: data that ends where reading ends,
// and views of many gigabytes of which only the touched pages exist.
#ifndef ATTN_TESTS_CASE_MEMORY_H
#define ATTN_TESTS_CASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

// A copy of data that a page without access follows: a read behind it is a SIGSEGV in every build.
typedef struct fenced {
    unsigned char *memory;
    size_t memory_bytes;
    unsigned char *data;
} fenced_t;
fenced_t fenced_copy(const void *data, size_t bytes);
// Takes away access to the first bytes of the data, rounded down to whole pages.
void fenced_close(const fenced_t *fenced, size_t bytes);
void fenced_free(fenced_t *fenced);

// Zeros that take no memory until they are written. Ends the test as skipped, with a printed
// reason, where the system does not give so many addresses.
void *sparse_create(size_t bytes);
void sparse_free(void *memory, size_t bytes);

#endif
