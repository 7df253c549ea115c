// Dropout bits: Philox4x32 with 7 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011), which is counter based: the bits of an element depend on seed, offset and position
// alone, so forward, backward, every tile size and every backend agree.
//
// One call gives 128 bits = eight 16-bit numbers, for 8 elements of one row i. A group of 32
// columns takes four calls; call c of the group serves the columns j with (j % 8) / 2 == c, number
// ((j % 32) / 8) * 2 + j % 2. These are the columns that one thread holds in the accumulator layout
// of mma and wgmma (PTX ISA, "Register Fragments for wgmma"), so a GPU thread computes no bits that
// it does not use.
#ifndef ATTN_SHARED_PHILOX_H
#define ATTN_SHARED_PHILOX_H

#include "shared_types.h"

typedef struct attn_philox {
    uint32_t x[4];
} attn_philox_t;

#define ATTN_PHILOX_ROUNDS 7
#define ATTN_PHILOX_M0 0xD2511F53u
#define ATTN_PHILOX_M1 0xCD9E8D57u
#define ATTN_PHILOX_W0 0x9E3779B9u
#define ATTN_PHILOX_W1 0xBB67AE85u

ATTN_SHARED attn_philox_t attn_philox4x32(attn_philox_t counter, uint32_t key0, uint32_t key1,
                                          int32_t rounds)
{
    for (int32_t r = 0; r < rounds; r++) {
        const uint64_t p0 = (uint64_t)ATTN_PHILOX_M0 * counter.x[0];
        const uint64_t p1 = (uint64_t)ATTN_PHILOX_M1 * counter.x[2];
        attn_philox_t next;
        next.x[0] = (uint32_t)(p1 >> 32) ^ counter.x[1] ^ key0;
        next.x[1] = (uint32_t)p1;
        next.x[2] = (uint32_t)(p0 >> 32) ^ counter.x[3] ^ key1;
        next.x[3] = (uint32_t)p0;
        counter = next;
        key0 += ATTN_PHILOX_W0;
        key1 += ATTN_PHILOX_W1;
    }
    return counter;
}

// The call that serves columns of group j / 32 with (j % 8) / 2 == quad. bh = b * heads_q + h; i is
// the row in its sequence.
ATTN_SHARED attn_philox_t attn_dropout_call(uint64_t seed, uint64_t offset, int64_t bh, int64_t i,
                                            int64_t group, int32_t quad)
{
    attn_philox_t counter;
    counter.x[0] = (uint32_t)(group * 4 + quad);
    counter.x[1] = (uint32_t)i;
    counter.x[2] = (uint32_t)bh;
    counter.x[3] = (uint32_t)offset;
    return attn_philox4x32(counter, (uint32_t)seed,
                           (uint32_t)(seed >> 32) ^ (uint32_t)(offset >> 32), ATTN_PHILOX_ROUNDS);
}

// 16-bit number of a call, index in [0, 8). Words are selected, not indexed: they stay in
// registers.
ATTN_SHARED uint32_t attn_dropout_number(attn_philox_t bits, int32_t index)
{
    const uint32_t low = index & 2 ? bits.x[1] : bits.x[0];
    const uint32_t high = index & 2 ? bits.x[3] : bits.x[2];
    return ((index & 4 ? high : low) >> ((index & 1) * 16)) & 0xffffu;
}

// Elements with number < threshold are dropped: round(p * 2^16), at most 2^16 - 1.
ATTN_SHARED uint32_t attn_dropout_threshold(float p)
{
    const uint32_t threshold = (uint32_t)(p * 65536.0f + 0.5f);
    return threshold > 65535u ? 65535u : threshold;
}

// What a kept weight is multiplied by: 1 / (1 - p) with the p that is really applied.
ATTN_SHARED float attn_dropout_scale(uint32_t threshold)
{
    return 65536.0f / (float)(65536u - threshold);
}

// Whether element (bh, i, j) is kept.
ATTN_SHARED int32_t attn_dropout_keep(uint64_t seed, uint64_t offset, int64_t bh, int64_t i,
                                      int64_t j, uint32_t threshold)
{
    const attn_philox_t bits = attn_dropout_call(seed, offset, bh, i, j / 32, (int32_t)(j % 8) / 2);
    return attn_dropout_number(bits, (int32_t)((j % 32) / 8 * 2 + j % 2)) >= threshold;
}

#endif
