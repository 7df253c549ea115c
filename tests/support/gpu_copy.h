// Copies of host memory on a GPU, with guard bands on both sides, for tests.
#ifndef ATTN_TESTS_GPU_COPY_H
#define ATTN_TESTS_GPU_COPY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gpu_copy {
    unsigned char *data; // device address, 256-byte aligned; NULL: no memory
    size_t bytes;
} gpu_copy_t;

// Loads the driver and makes this GPU's primary context current. This and the others end the
// process where the driver fails.
void gpu_copy_open(int device);
// Garbage if host is NULL.
gpu_copy_t gpu_copy_create(const void *host, size_t bytes);
// Copies the contents anew.
void gpu_copy_load(const gpu_copy_t *copy, const void *host);
// Copies back, unless host is NULL. false if a guard band was written to.
bool gpu_copy_fetch(const gpu_copy_t *copy, void *host);
void gpu_copy_destroy(gpu_copy_t *copy);
// Until the GPU has done all that it was given.
void gpu_copy_wait(void);

#endif
