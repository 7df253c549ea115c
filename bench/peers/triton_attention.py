"""A plain FlashAttention-2 forward pass in Triton, as its users write one: a peer, not a reference.

One program per block of query rows; keys in two loops, those that no row's mask touches and those on the diagonal.
"""

import torch
import triton
import triton.language as tl


def _configs():
    return [triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_stages=stages, num_warps=warps)
            for m, n, stages, warps in ((128, 128, 2, 8), (128, 64, 3, 8), (128, 64, 3, 4))]


@triton.jit
def _blocks(acc, row_sum, row_max, q, k_ptr, v_ptr, stride_k, stride_v, rows, low, high, s_kv, scale_log2,
            MASKED: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr):
    dims = tl.arange(0, D)
    for start in range(low, high, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[None, :] * stride_k + dims[:, None], mask=keys[None, :] < s_kv, other=0.0)
        scores = tl.dot(q, k) * scale_log2
        if MASKED:
            scores = tl.where((keys[None, :] <= rows[:, None]) & (keys[None, :] < s_kv), scores, -1.0e30)
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        p = tl.math.exp2(scores - new_max[:, None])
        factor = tl.math.exp2(row_max - new_max)
        row_sum = row_sum * factor + tl.sum(p, 1)
        v = tl.load(v_ptr + keys[:, None] * stride_v + dims[None, :], mask=keys[:, None] < s_kv, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
        row_max = new_max
    return acc, row_sum, row_max


@triton.autotune(_configs(), key=["s_q", "s_kv", "D", "CAUSAL"])
@triton.jit
def _forward(q_ptr, k_ptr, v_ptr, o_ptr, sqb, sqs, sqh, skb, sks, skh, svb, svs, svh, sob, sos, soh, heads, group,
             s_q, s_kv, scale_log2, CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    # The longest rows first, where their lengths differ.
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    b = (tl.program_id(1) // heads).to(tl.int64)
    h = (tl.program_id(1) % heads).to(tl.int64)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q = tl.load(q_ptr + b * sqb + h * sqh + rows[:, None] * sqs + dims[None, :], mask=rows[:, None] < s_q, other=0.0)
    k_ptr += b * skb + (h // group) * skh
    v_ptr += b * svb + (h // group) * svh
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    row_max = tl.full([BLOCK_M], -1.0e30, tl.float32)
    full = block * BLOCK_M // BLOCK_N * BLOCK_N if CAUSAL else s_kv // BLOCK_N * BLOCK_N
    end = tl.minimum((block + 1) * BLOCK_M, s_kv) if CAUSAL else s_kv
    acc, row_sum, row_max = _blocks(acc, row_sum, row_max, q, k_ptr, v_ptr, sks, svs, rows, 0, full, s_kv, scale_log2,
                                    False, BLOCK_N, D)
    last = rows if CAUSAL else rows + s_kv
    acc, row_sum, row_max = _blocks(acc, row_sum, row_max, q, k_ptr, v_ptr, sks, svs, last, full, end, s_kv, scale_log2,
                                    True, BLOCK_N, D)
    o = (acc / row_sum[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + b * sob + h * soh + rows[:, None] * sos + dims[None, :], o, mask=rows[:, None] < s_q)


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, causal: bool) -> torch.Tensor:
    """q (B, S, H, D), k and v (B, S, H_kv, D), one head dim that is a power of two; causal needs equal lengths."""
    b, s_q, h, d = q.shape
    assert d & (d - 1) == 0 and v.shape[3] == d and (not causal or s_q == k.shape[1])
    strides = [n for t in (q, k, v, o) for n in t.stride()[:3]]
    _forward[lambda config: (triton.cdiv(s_q, config["BLOCK_M"]), b * h)](
        q, k, v, o, *strides, h, h // k.shape[2], s_q, k.shape[1], d ** -0.5 * 1.4426950408889634, causal, d)
    return o
