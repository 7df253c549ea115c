// NVRTC, NVIDIA's run-time compiler, opened only when a kernel is missing: from C text to a cubin,
// without files.
#ifndef ATTN_CUDA_NVRTC_H
#define ATTN_CUDA_NVRTC_H

#include <stddef.h>
#include <stdint.h>

#include "../core/context.h"

// The oldest that knows sm_90a: CUDA 12.0.
#define ATTN_NVRTC_VERSION_MIN 12000

typedef struct attn_nvrtc attn_nvrtc_t;

// NVRTC, looked for once per process: nvrtc_find.c says where.
// Errors, the same for every call: ATTN_COMPILE_FAILED (none found, or all too old).
attn_status_t attn_nvrtc_get(const attn_nvrtc_t **nvrtc_out);
int32_t attn_nvrtc_version(const attn_nvrtc_t *nvrtc); // 13000 is 13.0
const char *attn_nvrtc_path(const attn_nvrtc_t *nvrtc);

// A text with the name by which #include finds it.
typedef struct attn_source {
    const char *path;
    const char *text;
} attn_source_t;

typedef struct attn_compile_job {
    const char *name; // of the kernel, for messages
    const char *text;
    const attn_source_t *headers;
    int32_t header_count;
    const char *const *options;
    int32_t option_count;
    const char *arch; // "sm_90a", one of the options too
} attn_compile_job_t;

// Compiles. The cubin is the caller's to free. Whatever NVRTC says goes to the context's log line
// by line: as errors if it fails, else as warnings. Any number of threads may compile at once.
// Errors: ATTN_COMPILE_FAILED with the first error lines, ATTN_OUT_OF_MEMORY.
attn_status_t attn_nvrtc_compile(const attn_nvrtc_t *nvrtc, const attn_context_t *context,
                                 const attn_compile_job_t *job, void **cubin_out,
                                 size_t *cubin_bytes_out);

#endif
