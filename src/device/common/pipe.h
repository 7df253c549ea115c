// A ring of buffers: the one in turn, and the parity of the phase that its "full" barrier has when
// it is filled. A producer waits for "empty" with the other parity: a fresh barrier lets it pass.
#ifndef ATTN_DEVICE_PIPE_H
#define ATTN_DEVICE_PIPE_H

#include "kernel.h"

struct pipe {
    uint32_t stage;
    uint32_t phase;
};

DEVICE void pipe_advance(struct pipe *pipe, uint32_t stages)
{
    pipe->stage++;
    if (pipe->stage == stages) {
        pipe->stage = 0;
        pipe->phase ^= 1;
    }
}

#endif
