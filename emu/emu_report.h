// What a kernel does, counted: a launch whose `report` is set fills it in. Instructions per role
// (the names of ROLE), and bank conflicts of shared memory per line of the source. Divided by what
// a multiprocessor can do in a cycle that is a floor of the kernel's time, known without a GPU.
//
// Only instructions are seen: arithmetic that a kernel writes as plain C is not.
#ifndef EMU_REPORT_H
#define EMU_REPORT_H

#include "emu.h"
#include <stdio.h>

enum { EMU_MAX_ROLES = 16, EMU_MAX_SITES = 256, EMU_ROLE_CHARS = 24 };

// Of one role, over the whole grid.
struct emu_counts {
    char role[EMU_ROLE_CHARS];   // empty: threads without one
    uint64_t mma_flops_16;       // of matrix instructions on 16-bit operands; a multiply-add is 2
    uint64_t mma_flops_8;        // on 8-bit operands
    uint64_t mma_shared_bytes;   // that they read from shared memory
    uint64_t mufu;               // ex2, lg2, rcp; of each thread
    uint64_t fma;                // fp32 add, mul, fma; of each thread, packed ones twice
    uint64_t conversions;        // to 16 and 8 bits, packed pairs
    uint64_t shared_read_bytes;  // by threads, and by ldmatrix
    uint64_t shared_write_bytes; // by threads, stmatrix and cp.async
    uint64_t shared_wavefronts;  // cycles of the banks for the instructions that have sites
    uint64_t tma_bytes;          // by TMA and bulk copies that this role started
    uint64_t global_bytes;       // by threads
};

// A load or store of shared memory at a line of the source.
struct emu_site {
    const char *file;
    int line;
    const char *instruction;
    uint64_t executions; // by warps
    uint64_t wavefronts; // cycles of the banks
    uint64_t conflicts;  // of them: beyond one for each phase
};

struct emu_report {
    struct emu_counts roles[EMU_MAX_ROLES]; // what finds no room is counted in the last
    uint32_t role_count;
    struct emu_site sites[EMU_MAX_SITES]; // further ones are not counted
    uint32_t site_count;
    uint64_t ctas;
};

// What a multiprocessor does in a cycle.
struct emu_rates {
    const char *name;
    double mma_flops_16;
    double mma_flops_8;
    double mufu;
    double fma;
    double conversions;
    double shared_bytes;
};
extern const struct emu_rates emu_rates_sm90;  // H100, H200
extern const struct emu_rates emu_rates_sm100; // B200
extern const struct emu_rates emu_rates_sm103; // B300

// The cycles that the CTAs need on average if nothing but that unit held them up; the largest is
// the floor.
struct emu_floor {
    double mma;
    double mufu;
    double fma;
    double conversions;
    double shared; // what threads and matrix instructions move, with the bank conflicts
};
struct emu_floor emu_report_floor(const struct emu_report *report, const struct emu_rates *rates);

// A table of roles, one of sites with conflicts, and the floor.
void emu_report_print(FILE *file, const struct emu_report *report, const struct emu_rates *rates);

#endif
