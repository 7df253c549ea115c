// The backward kernels' configuration: what the prologue says (ATTN_CFG_*), and the tile sizes,
// shared-memory map and barriers that follow from it.
//
//   ATTN_CFG_BF16            1: bf16, 0: f16
//   ATTN_CFG_D_QK, _D_V      head dims, rounded up to 16; literals, as wgmma's n is one
//   ATTN_CFG_BLOCK_M         query rows of a block, 64 or 128; a literal
//   ATTN_CFG_WARPGROUPS      of keys, which take turns at the tensor core
//   ATTN_CFG_PAIR            0: each has 64 keys; 1: two share 64 keys, one has the weights and dV,
//                            the other their gradients and dK
//   ATTN_CFG_STAGES          buffers for Q and dO, and if there is room for dS; a power of 2
//   ATTN_CFG_MASK            bits: what may hide keys besides the ends of the sequence
//                            1: an upper limit that depends on the row, 2: a lower limit
//   ATTN_CFG_DETERMINISTIC   1: key tiles add to dQ in a fixed order
//   ATTN_CFG_LOAD_REGISTERS, ATTN_CFG_COMPUTE_REGISTERS   after the hand-over; dQ has the rest
#ifndef ATTN_SM90_BACKWARD_CONFIG_H
#define ATTN_SM90_BACKWARD_CONFIG_H

#include "../../shared/gpu_backward_params.h"
#include "../../shared/sm90_backward_layout.h"
#include "sm90_operand.h"

#define MASK_UPPER 1
#define MASK_LOWER 2

typedef attn_gpu_backward_params_t kernel_params_t;

enum {
    BLOCK_M = ATTN_CFG_BLOCK_M,
    D_QK = ATTN_CFG_D_QK,
    D_V = ATTN_CFG_D_V,
    WARPGROUPS = ATTN_CFG_WARPGROUPS,
    STAGES = ATTN_CFG_STAGES,
    WARPGROUP_N = ATTN_SM90_WARPGROUP_N,
    KEY_GROUPS = ATTN_CFG_PAIR ? 1 : WARPGROUPS,
    BLOCK_N = KEY_GROUPS * WARPGROUP_N,
    DS_STAGES = ATTN_CFG_PAIR ? 1 : STAGES,
    // With a mask a block may see none of a warpgroup's keys, but some of the other's. Longer
    // blocks seldom do.
    SKIPS_BLOCKS = ATTN_CFG_MASK && BLOCK_M < BLOCK_N,
    BOX_ROWS = 64, // of all tensor maps
    TILE_SLOTS = ATTN_SM90_TILE_SLOTS,
    TILE_BYTES = ATTN_SM90_BACKWARD_TILE_BYTES,

    QK_PANELS = (D_QK + PANEL_COLUMNS - 1) / PANEL_COLUMNS,
    V_PANELS = (D_V + PANEL_COLUMNS - 1) / PANEL_COLUMNS,
    ROWS_PANEL_BYTES = BLOCK_M * PANEL_ROW_BYTES,     // of a block of Q or dO
    KEYS_PANEL_BYTES = BLOCK_N * PANEL_ROW_BYTES,     // of K or V
    GROUP_KEYS_BYTES = WARPGROUP_N * PANEL_ROW_BYTES, // of a panel: a warpgroup's rows
    BOX_BYTES = BOX_ROWS * PANEL_ROW_BYTES,
    Q_BYTES = QK_PANELS * ROWS_PANEL_BYTES,
    DO_BYTES = V_PANELS * ROWS_PANEL_BYTES,
    K_BYTES = QK_PANELS * KEYS_PANEL_BYTES,
    V_BYTES = V_PANELS * KEYS_PANEL_BYTES,
    STATS_BYTES = BLOCK_M * 4,                  // of lse or delta
    GROUP_DS_BYTES = BLOCK_M * PANEL_ROW_BYTES, // dS of a warpgroup's keys: a panel
    DS_BYTES = KEY_GROUPS * GROUP_DS_BYTES,

    // dQ is computed and added in units of 64 rows and 64 columns, columns first.
    DQ_SLOTS = ATTN_CFG_PAIR ? 1 : 2,
    DQ_UNIT_BYTES = ATTN_SM90_DQ_UNIT_BYTES,
    DQ_UNIT_FLOATS = DQ_UNIT_BYTES / 4,
    DQ_UNITS = BLOCK_M / 64 * QK_PANELS,
    DQ_BLOCK_FLOATS = DQ_UNITS * DQ_UNIT_FLOATS,

    SMEM_K = 0,
    SMEM_V = SMEM_K + K_BYTES,
    SMEM_Q = SMEM_V + V_BYTES,
    SMEM_DO = SMEM_Q + STAGES * Q_BYTES,
    SMEM_DS = SMEM_DO + STAGES * DO_BYTES,
    SMEM_DQ = SMEM_DS + DS_STAGES * DS_BYTES,
    SMEM_P = SMEM_DQ + DQ_SLOTS * DQ_UNIT_BYTES, // of a pair: fragments
    SMEM_LSE = SMEM_P + ATTN_CFG_PAIR * GROUP_DS_BYTES,
    SMEM_DELTA = SMEM_LSE + STAGES * STATS_BYTES,
    SMEM_BARRIERS = SMEM_DELTA + STAGES * STATS_BYTES,
    SMEM_KV_FULL = SMEM_BARRIERS,
    SMEM_KV_EMPTY = SMEM_KV_FULL + 8,
    SMEM_Q_FULL = SMEM_KV_EMPTY + 8,
    SMEM_DO_FULL = SMEM_Q_FULL + 8 * STAGES,
    SMEM_Q_EMPTY = SMEM_DO_FULL + 8 * STAGES, // Q and dO
    SMEM_DS_FULL = SMEM_Q_EMPTY + 8 * STAGES,
    SMEM_DS_EMPTY = SMEM_DS_FULL + 8 * DS_STAGES,
    SMEM_P_FULL = SMEM_DS_EMPTY + 8 * DS_STAGES,
    SMEM_P_EMPTY = SMEM_P_FULL + 8,
    SMEM_TILE_FULL = SMEM_P_EMPTY + 8,
    SMEM_TILE_EMPTY = SMEM_TILE_FULL + 8 * TILE_SLOTS,
    SMEM_TILE_WANTED = SMEM_TILE_EMPTY + 8 * TILE_SLOTS,
    SMEM_TILES = (SMEM_TILE_WANTED + 8 + 15) / 16 * 16,
    BACKWARD_SMEM_BYTES = SMEM_TILES + TILE_BYTES * TILE_SLOTS,

    // Named barriers: a warpgroup's turn at the tensor core, its own meeting, that of dQ.
    BARRIER_TURN = 1,
    BARRIER_DQ = 7,
    BARRIER_GROUP = 8,

    // Load, dQ, and the keys. A thread starts with its share of the registers, a multiple of 8.
    BACKWARD_THREADS = (WARPGROUPS + 2) * WARPGROUP_THREADS,
    START_REGISTERS = 65536 / BACKWARD_THREADS / 8 * 8,
    DQ_REGISTERS = (WARPGROUPS + 2) * START_REGISTERS - ATTN_CFG_LOAD_REGISTERS -
                   WARPGROUPS * ATTN_CFG_COMPUTE_REGISTERS
};

// Beyond this, in units of log2, the rounding of lse is felt in the weights: 2^14 * 2^-24, doubled
// by that of the scale, is 2^-9 of a weight.
#define LSE_TRUSTED 16384.0f

#endif
