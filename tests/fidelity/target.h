// What executes runs: the emulator, in a schedule, or a GPU.
#ifndef FIDELITY_TARGET_H
#define FIDELITY_TARGET_H

#include "probe_run.h"

struct probe_kernel;

struct target {
    const char *name;
    // Memory with the contents of host.
    void *(*allocate)(const void *host, size_t bytes);
    void (*release)(void *address, size_t bytes);
    // NULL, or what is wrong with the map.
    const char *(*encode)(tensor_map *map_out, const struct emu_tensor *tensor);
    // Runs the kernel, and the second one if the probe has one, and copies every buffer back. NULL,
    // or what went wrong.
    const char *(*execute)(struct run *run);
};

// In the schedules of emu.h.
extern const struct target target_emu_late;
extern const struct target target_emu_early;
extern const struct target target_emu_random;

// The first GPU. false, and why, where there is none or no compiler.
bool target_gpu_open(const char **why_out);
extern const struct target target_gpu;
// Only to compile, for any GPU: no GPU and no driver is needed.
bool target_gpu_open_compiler(int32_t for_compute, const char **why_out);
int32_t target_gpu_compute(void);  // capability, 90 is 9.0
const char *target_gpu_text(void); // GPU, driver, compiler in a line
// Compiles a kernel with the run's literals, or says why not. Any number of threads at once.
const char *target_gpu_compile(const struct run *run, const struct probe_kernel *kernel);

#endif
