// gpu_args.c: see gpu_args.h.
#include "gpu_args.h"

// The end of a range belongs to it (an empty view may stand there) unless the next one begins
// there: of the ranges that begin at or before the pointer, the last one.
static void *on_device(const struct gpu_range *ranges, size_t n, const void *host)
{
    const uintptr_t at = (uintptr_t)host;
    const struct gpu_range *best = NULL;
    for (size_t i = 0; i < n && host; i++) {
        const uintptr_t begin = (uintptr_t)ranges[i].host;
        if (at >= begin && at <= begin + ranges[i].bytes &&
            (!best || begin > (uintptr_t)best->host)) {
            best = &ranges[i];
        }
    }
    return best ? (char *)best->device + (at - (uintptr_t)best->host) : NULL;
}

void gpu_args_forward(attn_forward_args_t *args, const struct gpu_range *ranges, size_t n)
{
#define MOVE(field) args->field = on_device(ranges, n, args->field)
    MOVE(q);
    MOVE(k);
    MOVE(v);
    MOVE(o);
    MOVE(lse);
    MOVE(cu_seqlens_q);
    MOVE(cu_seqlens_kv);
    MOVE(seqused_q);
    MOVE(seqused_kv);
    MOVE(leftpad_kv);
    MOVE(kv_batch_idx);
    MOVE(page_table);
    MOVE(mask);
    MOVE(bias);
    MOVE(alibi_slopes);
    MOVE(sink);
    MOVE(block_count);
    MOVE(block_index);
    MOVE(dropout_state);
    MOVE(q_descale);
    MOVE(k_descale);
    MOVE(v_descale);
}

void gpu_args_backward(attn_backward_args_t *args, const struct gpu_range *ranges, size_t n)
{
    gpu_args_forward(&args->in, ranges, n);
    MOVE(do_);
    MOVE(dlse);
    MOVE(dq);
    MOVE(dk);
    MOVE(dv);
    MOVE(dsink);
    MOVE(dbias);
#undef MOVE
}
