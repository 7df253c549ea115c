#!/usr/bin/env python3
"""Times PyTorch's scaled dot product attention on the CPU for the cases of a shape file.

    python3 bench/peers/torch_cpu.py bench/shapes/cpu.txt --threads 2 --json torch.json

Writes the format that `attn bench --peers` reads. The shapes, the number of threads, the warm-up and
the rule for samples are those of `attn bench`; bench/run.sh runs both by turns. Inputs are normal
random numbers in PyTorch's own layout, (B, H, S, D) in memory, so that no copy is timed.

What is called is torch.nn.functional.scaled_dot_product_attention under the flash backend, with
enable_gqa where heads are shared; where PyTorch refuses (a window, a softcap), the case is left out.
Its causal mask is top-left aligned: for decoding (sq=1) causal is the same as no mask for ours, so
none is passed. The backward pass is timed as torch.autograd.grad on a kept graph, which computes dq,
dk and dv from the stored o and lse as ours does. Inference runs without autograd.
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from shape_file import Case, read_shapes

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
SAMPLE_SECONDS = 1e-3  # as in attn bench: shorter runs are repeated within a sample


def is_supported(case: Case) -> bool:
    return case.dtype in DTYPES and case.window == (-1, -1) and not (case.softcap or case.mask or case.packed)


def make_call(case: Case):
    """A function without arguments that does the work of the case once."""
    generator = torch.Generator().manual_seed(1)

    def normal(heads: int, rows: int, dim: int) -> torch.Tensor:
        shape = (case.b, heads, rows, dim)
        return torch.randn(shape, generator=generator).to(DTYPES[case.dtype])

    q = normal(case.h, case.sq, case.d)
    k = normal(case.h_kv, case.s, case.d)
    v = normal(case.h_kv, case.s, case.d_v)
    options = {"is_causal": case.causal and case.sq > 1, "enable_gqa": case.h != case.h_kv}
    if not case.backward:
        def forward():
            with torch.inference_mode():
                F.scaled_dot_product_attention(q, k, v, **options)
        return forward
    inputs = [t.requires_grad_() for t in (q, k, v)]
    o = F.scaled_dot_product_attention(*inputs, **options)
    do = torch.randn(o.shape, generator=generator).to(o.dtype)
    return lambda: torch.autograd.grad(o, inputs, do, retain_graph=True)


def time_runs(call, runs: int) -> float:
    start = time.perf_counter()
    for _ in range(runs):
        call()
    return (time.perf_counter() - start) / runs


def take_samples(call, warmup: int, samples: int, max_seconds: float) -> list[float]:
    estimate = time_runs(call, 1)
    for i in range(warmup):
        estimate = min(estimate, time_runs(call, 1))
        if (i + 1) * estimate > max_seconds / 4:
            break
    runs = max(1, int(SAMPLE_SECONDS / estimate) + 1) if estimate < SAMPLE_SECONDS else 1
    taken: list[float] = []
    start = time.perf_counter()
    while len(taken) < samples:
        if len(taken) >= 3 and time.perf_counter() - start > max_seconds:
            break
        taken.append(time_runs(call, runs))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description="Times PyTorch's CPU attention.")
    parser.add_argument("shapes")
    parser.add_argument("--json", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--series", help="only these, separated by commas")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--max-seconds", type=float, default=3.0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    wanted = options.series.split(",") if options.series else None
    results = []
    for case in read_shapes(options.shapes):
        if not is_supported(case) or (wanted and case.series not in wanted):
            continue
        try:
            # Flash first; math only for what flash does not take, and then the kernel says so.
            with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
                call = make_call(case)
                call()
                kernel = "flash"
                samples = take_samples(call, options.warmup, options.samples, options.max_seconds)
        except RuntimeError:
            call = make_call(case)
            kernel = "default"
            samples = take_samples(call, options.warmup, options.samples, options.max_seconds)
        results.append({"case": case.name, "kernel": kernel, "samples_s": samples})
        print(f"{case.name}: {sorted(samples)[len(samples) // 2] * 1e3:.3f} ms", file=sys.stderr)
    document = {
        "name": f"PyTorch {torch.__version__.split('+')[0]}",
        "threads": options.threads,
        "machine": torch.backends.cpu.get_cpu_capability(),
        "results": results,
    }
    partial = options.json + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
    os.replace(partial, options.json)


if __name__ == "__main__":
    main()
