// machine.h: what the operating system says about the processor (Linux; elsewhere "unknown").
#ifndef ATTN_TOOLS_MACHINE_H
#define ATTN_TOOLS_MACHINE_H

#include <stdint.h>

enum { MACHINE_MAX_CACHES = 6 };

struct machine {
    char processor[128];
    int n_caches;
    struct {
        char name[16]; // "L1d", "L2"
        int64_t kib;   // of one instance
    } caches[MACHINE_MAX_CACHES];
};

void machine_read(struct machine *machine);

#endif
