// What instructions tell the counters (count.c). Each returns at once when nothing is counted.
#ifndef EMU_COUNT_H
#define EMU_COUNT_H

#include "emu_report.h"
#include "state.h"

bool counter_create(void);
void counter_destroy(void);
void count_cluster_end(const struct cluster *cluster);
void count_role(struct fiber *fiber);
void count_mma(uint32_t flops, bool bits_8, uint32_t shared_bytes);
void count_mufu(void);
void count_fma(uint32_t operations);
void count_conversion(void);
void count_transfer(uint32_t bytes);
void count_global(uint32_t bytes);
void count_shared(uint32_t bytes, bool write);
// One lane's access; all lanes of a warp come to it sooner or later.
void count_lane(const char *instruction, uint32_t addr, uint32_t bytes, bool write);
void count_tiles(const char *instruction, const uint64_t *rows, uint32_t tiles, bool write);

#endif
