// A query block of a head, as the kernels before and after the main backward kernel go over them.
#ifndef ATTN_SM90_BACKWARD_BLOCK_H
#define ATTN_SM90_BACKWARD_BLOCK_H

#include "sm90_backward_tile.h"

struct query_block {
    int32_t b;
    int32_t h;
    int32_t row0;  // in the sequence
    int64_t index; // in the scratch memory; only of blocks with rows
    struct gpu_sequence sequence;
};

// Numbered (batch, heads_q, blocks of the longest sequence).
DEVICE struct query_block query_block_of(const kernel_params_t *p, uint32_t number)
{
    struct query_block block;
    uint32_t blocks = (uint32_t)(p->lengths.s_q + BLOCK_M - 1) / BLOCK_M;
    uint32_t bh = number / blocks;
    int32_t m = (int32_t)(number - bh * blocks);
    block.b = (int32_t)(bh / (uint32_t)p->heads_q);
    block.h = (int32_t)(bh - (uint32_t)block.b * (uint32_t)p->heads_q);
    block.row0 = m * BLOCK_M;
    block.sequence = sequence_at(&p->lengths, block.b);
    block.index = block_index(p, block.h, first_block_of(p, block.b, block.sequence.q_start) + m);
    return block;
}

DEVICE uint16_t *operand_row(const attn_gpu_operand_t *operand, const struct query_block *block,
                             int32_t row)
{
    return (uint16_t *)operand->data + block->b * operand->stride_b +
           (int64_t)(block->sequence.q_start + row) * operand->stride_s +
           block->h * operand->stride_h;
}

DEVICE int64_t lse_index(const kernel_params_t *p, const struct query_block *block, int32_t row)
{
    return block->b * p->lse_stride_b + block->h * p->lse_stride_h +
           (int64_t)(block->sequence.q_start + row) * p->lse_stride_s;
}

#endif
