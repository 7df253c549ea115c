// What tests ask the fake driver about what it was asked to do.
#ifndef ATTN_TESTS_FAKE_DRIVER_H
#define ATTN_TESTS_FAKE_DRIVER_H

#include <stdatomic.h>

#include "cuda/driver_api.h"

struct fake_state {
    atomic_int inits;
    atomic_int retains; // of primary contexts
    atomic_int pushes, pops;
    atomic_int loads, unloads; // of cubins
    char kernel[128];          // the last looked up
    atomic_int shared_bytes;
    atomic_int launches;
    cu_launch_config config; // of the last launch
    cu_context context;      // current at the last launch
};

struct fake_state *fake_state_get(void);
// A context of a device: the primary one, or one that a caller made.
cu_context fake_context_of(int device, int is_primary);

// The functions that tests call as a user of the driver would.
cu_result cuCtxPushCurrent_v2(cu_context context);
cu_result cuCtxPopCurrent_v2(cu_context *context_out);
cu_result cuCtxGetCurrent(cu_context *context_out);

#endif
