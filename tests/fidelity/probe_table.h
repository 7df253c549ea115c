// The table of probes: everything that is compared between the emulator and a GPU.
#ifndef FIDELITY_PROBE_TABLE_H
#define FIDELITY_PROBE_TABLE_H

#include "prepare.h"
#include "probe_run.h"

// Which GPUs have a kernel's instructions.
typedef enum probe_gpus { SINCE_SM80, SINCE_SM89, SINCE_SM90, HOPPER, BLACKWELL, SM103 } probe_gpus;
// Capabilities are as 90 for 9.0.
bool probe_runs_on(probe_gpus gpus, int32_t compute);
int32_t probe_first_compute(probe_gpus gpus);

// A kernel: its text, relative to the repository, its symbol, and the same compiled for the
// emulator.
struct probe_kernel {
    const char *path;
    const char *symbol;
    const char *section; // of the PTX ISA: what it shows
    probe_gpus gpus;
    uint32_t threads; // of a CTA
    void (*function)(const struct probe_params p);
    void (*entry)(const void *params); // instead, of a kernel with parameters of its own
    const char *prologue;              // lines of #define besides the literals, or NULL
};

// in and out of a probe that prepare_words describes.
struct probe_words {
    uint32_t in;
    uint32_t out;
    fill fill;
    struct comparison comparison;
};

struct probe {
    const char *name;
    const struct probe_kernel *kernel;
    const struct probe_kernel *second; // a programmatic dependent of the first, or NULL
    uint32_t cases;
    uint32_t ctas;    // 0: 1
    uint32_t cluster; // 0: 1
    void (*prepare)(struct run *run);
    int32_t literals[PROBE_LITERALS];
    struct probe_words words;
};

// Probes of one kind.
struct probe_list {
    const struct probe *probes;
    uint32_t count;
};
extern const struct probe_list *const probe_lists[];
extern const uint32_t probe_list_count;

#endif
