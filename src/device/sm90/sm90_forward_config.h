// The forward kernel's configuration: what the prologue says (ATTN_CFG_*), and the tile sizes,
// shared-memory map and barriers that follow from it.
//
//   ATTN_CFG_BF16            1: bf16, 0: f16
//   ATTN_CFG_D_QK, _D_V      head dims, rounded up to 16; literals, as wgmma's n is one
//   ATTN_CFG_BLOCK_N         keys of a block, a multiple of 16; a literal
//   ATTN_CFG_WARPGROUPS      1 to 3 that compute, 64 query rows each
//   ATTN_CFG_STAGES          buffers for K, and as many for V
//   ATTN_CFG_MASK            bits: what may hide keys besides the end of the sequence
//                            1: an upper limit that depends on the row, 2: a lower limit
//   ATTN_CFG_O_BYTES         of an element of o: 2 as the inputs (if not defined), 4 fp32
//   ATTN_CFG_ANY_SCALE, _SOFTCAP, _ALIBI, _BIAS, _BOOL_MASK, _DROPOUT   ../common/score_options.h
//   ATTN_CFG_PING_PONG       1: the warpgroups take turns at the tensor core
//   ATTN_CFG_SEPARATE_O      1: O has a buffer of its own, so that the next Q can come early
//   ATTN_CFG_GATHER          1: operands by cp.async and plain loads and stores, not by TMA
//   ATTN_CFG_PACK_GQA        query heads that share a tile, a power of 2 from 2 to 64; 0 (if not
//                            defined): each has its own
//   ATTN_CFG_CTAS            per multiprocessor
//   ATTN_CFG_LOAD_REGISTERS, ATTN_CFG_COMPUTE_REGISTERS   after the hand-over
#ifndef ATTN_SM90_FORWARD_CONFIG_H
#define ATTN_SM90_FORWARD_CONFIG_H

#include "sm90_operand.h"

#ifndef ATTN_CFG_O_BYTES
#define ATTN_CFG_O_BYTES 2
#endif

#ifndef ATTN_CFG_PACK_GQA
#define ATTN_CFG_PACK_GQA 0
#endif

#define MASK_UPPER 1
#define MASK_LOWER 2

enum {
    BLOCK_N = ATTN_CFG_BLOCK_N,
    D_QK = ATTN_CFG_D_QK,
    D_V = ATTN_CFG_D_V,
    WARPGROUPS = ATTN_CFG_WARPGROUPS,
    STAGES = ATTN_CFG_STAGES,
    WARPGROUP_M = ATTN_SM90_WARPGROUP_M,
    BLOCK_M = WARPGROUPS * WARPGROUP_M,
    PACK_HEADS = ATTN_CFG_PACK_GQA ? ATTN_CFG_PACK_GQA : 1, // of a position, row after row
    TILE_SLOTS = ATTN_SM90_TILE_SLOTS,
    TILE_BYTES = ATTN_SM90_TILE_BYTES,
    FORWARD_THREADS = (WARPGROUPS + 1) * WARPGROUP_THREADS,

    QK_PANELS = (D_QK + PANEL_COLUMNS - 1) / PANEL_COLUMNS,
    V_PANELS = (D_V + PANEL_COLUMNS - 1) / PANEL_COLUMNS,
    ROWS_PANEL_BYTES = WARPGROUP_M * PANEL_ROW_BYTES, // of a warpgroup's Q or O
    KEYS_PANEL_BYTES = BLOCK_N * PANEL_ROW_BYTES,     // of a block of K or V
    Q_GROUP_BYTES = QK_PANELS * ROWS_PANEL_BYTES,
    O_GROUP_BYTES = V_PANELS * ROWS_PANEL_BYTES,
    Q_BYTES = WARPGROUPS * Q_GROUP_BYTES,
    K_BYTES = QK_PANELS * KEYS_PANEL_BYTES,
    V_BYTES = V_PANELS * KEYS_PANEL_BYTES,

    // Who brings the operands: a thread that starts TMA, or two warps that copy.
    GATHER_WARP = 2, // the first of them
    GATHER_WARPS = 2,
    LOAD_WARPS = ATTN_CFG_GATHER ? GATHER_WARPS : 1,
    LOAD_ARRIVALS = ATTN_CFG_GATHER ? GATHER_WARPS * 32 : 1, // at a buffer that is full
    // A bit for each key of a block that has no page.
    HIDDEN_BYTES = ATTN_SM90_HIDDEN_BYTES,
    HIDDEN_WORDS = (BLOCK_N + 31) / 32,

    // A warpgroup's O lies behind its Q, or over it: then nobody else's Q lies there.
    O_OFFSET_BYTES = ATTN_CFG_SEPARATE_O ? Q_GROUP_BYTES : 0,
    QO_GROUP_BYTES = O_OFFSET_BYTES + O_GROUP_BYTES > Q_GROUP_BYTES ? O_OFFSET_BYTES + O_GROUP_BYTES
                                                                    : Q_GROUP_BYTES,

    SMEM_QO = 0,
    SMEM_K = SMEM_QO + WARPGROUPS * QO_GROUP_BYTES,
    SMEM_V = SMEM_K + STAGES * K_BYTES,
    SMEM_BARRIERS = SMEM_V + STAGES * V_BYTES,
    SMEM_Q_FULL = SMEM_BARRIERS,
    SMEM_Q_EMPTY = SMEM_Q_FULL + 8,
    SMEM_K_FULL = SMEM_Q_EMPTY + 8,
    SMEM_K_EMPTY = SMEM_K_FULL + 8 * STAGES,
    SMEM_V_FULL = SMEM_K_EMPTY + 8 * STAGES,
    SMEM_V_EMPTY = SMEM_V_FULL + 8 * STAGES,
    SMEM_TILE_FULL = SMEM_V_EMPTY + 8 * STAGES,
    SMEM_TILE_EMPTY = SMEM_TILE_FULL + 8 * TILE_SLOTS,
    SMEM_TILE_WANTED = SMEM_TILE_EMPTY + 8 * TILE_SLOTS,
    SMEM_TILES = (SMEM_TILE_WANTED + 8 + 15) / 16 * 16,
    SMEM_HIDDEN = SMEM_TILES + TILE_BYTES * TILE_SLOTS,
    FORWARD_SMEM_BYTES = SMEM_HIDDEN + (ATTN_CFG_GATHER ? STAGES * HIDDEN_BYTES : 0),

    // Named barriers: a warpgroup's turn at the tensor core, and its own meeting.
    BARRIER_TURN = 1,
    BARRIER_GROUP = 8
};

#endif
