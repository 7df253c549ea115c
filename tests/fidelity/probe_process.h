// A probe in a process of its own: an instruction that is illegal, or a kernel that hangs, ends
// only that process and not the table.
#ifndef FIDELITY_PROBE_PROCESS_H
#define FIDELITY_PROBE_PROCESS_H

#include "agreement.h"
#include "probe_table.h"

// What became of a probe. It is shared with its process.
struct probe_result {
    uint32_t runs;
    uint32_t failed_cases; // that a target could not run
    uint32_t case_idx;     // the one that runs
    char wrong[512];       // what is wrong with it; empty: the process died
    struct agreement_found found;
};

// Against the emulator in all schedules instead of against the GPU: emu_only. Prints a line for
// each case that could not be run.
void probe_process_run(const struct probe *probe, bool emu_only, uint64_t seed,
                       struct probe_result *result_out);

// The first GPU: its capability, and what it is in a line; or 0, and why there is none. This
// process remains without a context of it.
int32_t probe_process_gpu(char text_out[512]);

#endif
