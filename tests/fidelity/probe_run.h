// One run of a probe: its buffers, parameters and launch, made from a seed alone, so that every
// machine gets the same.
//
// prepare_* functions (prepare.h) describe a run; a machine (target.h) executes it; agreement.h
// judges two executed runs.
#ifndef FIDELITY_PROBE_RUN_H
#define FIDELITY_PROBE_RUN_H

#include "emu.h"
#include "probe.h"
#include "test_rng.h"
#include <stdbool.h>
#include <stddef.h>

struct target;
struct probe;

// How two outputs must agree. NaNs equal each other but where bits are compared.
typedef enum agreement {
    SAME_BITS,
    WITHIN,     // |difference| <= bound
    WITHIN_ULPS // bound in units of the last place, or `absolute`
} agreement;

struct comparison {
    agreement agreement;
    emu_element element;
    double bound;
    double absolute; // so close is close enough: 0, or where a result crosses 0
};

enum { RUN_BUFFERS = 12, RUN_PARAMS_BYTES = 2048 };

struct run_buffer {
    const char *name;
    void *host;    // what is in it before, and after the run what came out
    void *address; // on the machine, for parameters
    size_t bytes;
    emu_writable writable;
    struct comparison comparison; // of what is written
};

struct run {
    const struct probe *probe;
    const struct target *target;
    uint32_t case_idx;
    test_rng_t rng;
    int32_t literals[PROBE_LITERALS];
    uint32_t grid[3];
    uint32_t threads;
    uint32_t cluster;  // 1: none
    uint32_t resident; // clusters that must run together
    uint32_t smem_bytes;
    uint32_t buffer_count;
    struct run_buffer buffers[RUN_BUFFERS];
    _Alignas(64) unsigned char params[RUN_PARAMS_BYTES];
};

// Describes the run of a case on a machine; end it with run_free.
void run_prepare(struct run *run, const struct target *target, const struct probe *probe,
                 uint32_t case_idx, uint64_t seed);
void run_free(struct run *run);

// Memory of the machine that holds `host`, which becomes the run's (from run_alloc). Gives its
// address.
void *run_input(struct run *run, const char *name, void *host, size_t bytes);
// The same for what the kernel writes. EMU_OUTPUT is filled with ones before, whatever host holds.
void *run_output(struct run *run, const char *name, void *host, size_t bytes, emu_writable writable,
                 struct comparison comparison);
void *run_alloc(size_t bytes);
size_t run_element_bytes(emu_element element);

// Encodes a map by the machine's rules; data is an address of the machine.
void run_map(const struct run *run, tensor_map *map_out, const struct emu_tensor *tensor);

static inline struct probe_params *run_params(struct run *run)
{
    return (struct probe_params *)(void *)run->params;
}

#endif
