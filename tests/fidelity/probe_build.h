// Compiling the kernels of probes beforehand, on all processors.
#ifndef FIDELITY_PROBE_BUILD_H
#define FIDELITY_PROBE_BUILD_H

#include "probe_table.h"

// Lists the kernels that the probe's cases need, each set of literals once.
void probe_build_add(const struct probe *probe, uint64_t seed);
// Compiles all that are listed, for the GPU that target.h opened, and says which fail. Gives how
// many there are.
uint32_t probe_build_all(uint32_t *failures_out);

#endif
