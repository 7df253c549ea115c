// Device memory for tests, through the driver that the library opens too. Guard bands lie on both
// sides of each piece.
#ifndef ATTN_TEST_CUDA_MEMORY_H
#define ATTN_TEST_CUDA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cuda_memory {
    unsigned char *data; // device address, 256-byte aligned; NULL: no memory
    size_t bytes;
} cuda_memory_t;

// Opens the driver and makes the first GPU's primary context current. false with the reason.
bool cuda_memory_open(char *why_out, size_t why_bytes);
// A copy of host memory, or garbage if it is NULL. Aborts without memory.
cuda_memory_t cuda_memory_copy(const void *host, size_t bytes);
// Copies back. false if a guard band was written to.
bool cuda_memory_fetch(const cuda_memory_t *memory, void *host, size_t bytes);
void cuda_memory_free(cuda_memory_t *memory);
// Until the GPU has done all that it was given. false with the reason if something failed.
bool cuda_memory_wait(char *why_out, size_t why_bytes);

#endif
