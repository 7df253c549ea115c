// The NVIDIA driver, opened when somebody first asks for it and never before: libattn loads on any
// machine. One table of functions for the whole process.
#ifndef ATTN_CUDA_DRIVER_H
#define ATTN_CUDA_DRIVER_H

#include "attn.h"
#include "driver_api.h"

// The oldest driver that has every function of the table, as cuDriverGetVersion counts: CUDA 12.0.
#define ATTN_DRIVER_VERSION_MIN 12000

typedef struct attn_driver {
#define ATTN_DRIVER_FIELD(field, symbol, parameters) cu_result(*field) parameters;
    ATTN_DRIVER_FUNCTIONS(ATTN_DRIVER_FIELD)
#undef ATTN_DRIVER_FIELD
    int32_t version; // the newest CUDA that the driver knows: 13000 is 13.0
} attn_driver_t;

// The driver, loaded and initialised once per process, by whichever thread comes first. The
// environment variable ATTN_CUDA_LIBRARY names another file than libcuda.so.1.
// Errors, the same for every call: ATTN_NO_DEVICE (no driver, or it sees no GPU), ATTN_DRIVER_ERROR
// (too old, damaged, or cuInit fails).
attn_status_t attn_driver_get(const attn_driver_t **driver_out);

// The status of a failed call, with the driver's own words: what is the function's name.
attn_status_t attn_driver_fail(const attn_driver_t *driver, const char *what, cu_result result);

// Returns from the calling function if call fails; what is the driver's name of the function.
#define ATTN_DRIVER_CHECK(driver, what, call)                                                      \
    do {                                                                                           \
        const cu_result result_ = (call);                                                          \
        if (result_ != CU_SUCCESS) {                                                               \
            return attn_driver_fail((driver), (what), result_);                                    \
        }                                                                                          \
    } while (0)

#endif
