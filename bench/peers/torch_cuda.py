#!/usr/bin/env python3
"""Times libattn and its peers on a GPU, by turns in one process, on the cases of a shape file.

    python3 bench/peers/torch_cuda.py bench/shapes/hopper.txt --libattn build/release/src/libattn.so --out build/bench

Writes one JSON file per program into the folder, in the format of `attn bench`, and prints a table.
`attn bench --from OUT/libattn.json --peers OUT/cudnn.json,...` makes tables and plots of the files. Forward pass alone.

Programs: libattn (its C ABI by ctypes); cudnn and flash2 (PyTorch's backends of scaled_dot_product_attention); flex
(FlexAttention, compiled); fa4 (the package flash-attn-4, if installed); triton (triton_attention.py). Each gets its tensors in
(B, S, H, D) memory. A program that refuses a case, or whose result is wrong, has no figure, and the table says why.

Two protocols. cold: one program alone, 0.4 s of idling, 5 warm-ups, then single calls, of which the median counts; before
each call a buffer larger than L2 is filled twice, so that L2 is cold and the host is ahead of the GPU. sustained: the GPU is
heated, then all programs take turns in rounds, each calling back to back for a while: one thermal state, so the ratios hold where the
power limit rules. In both the tensors rotate over copies that do not fit L2 together.

An 8192 x 8192 x 8192 matrix product of cuBLAS takes part as a program of its own, to say what the GPU could do at the time. SM clock
and, with --batch 0.5 or more, joules are NVML's, where the module pynvml is there.
"""

import argparse
import contextlib
import json
import math
import os
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from libattn_ctypes import Libattn
from shape_file import Case, read_shapes

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
L2_FACTOR = 3  # the copies of a case hold at least this many times L2
CHECK_ROWS = 16
METER_SECONDS = 0.5
GEMM = 8192
ROOT = Path(__file__).resolve().parents[2]


class Refused(Exception):
    """A program does not take a case."""


# ---- operands


class Operands:
    """Tensors of a case in (B, S, H, D) memory, packed ones with B = 1, in several copies."""

    def __init__(self, case: Case):
        generator = torch.Generator("cuda").manual_seed(1)
        b, s_q, s_kv = (1, case.s, case.s) if case.packed else (case.b, case.sq, case.s)

        def normal(s: int, h: int, d: int) -> torch.Tensor:
            return torch.randn((b, s, h, d), generator=generator, device="cuda").to(DTYPES[case.dtype])

        one = 2 * b * (s_q * case.h * (case.d + case.d_v) + s_kv * case.h_kv * (case.d + case.d_v))
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.count = max(2, math.ceil(L2_FACTOR * l2 / one))
        first = (normal(s_q, case.h, case.d), normal(s_kv, case.h_kv, case.d), normal(s_kv, case.h_kv, case.d_v))
        self.sets = [first] + [tuple(t.clone() for t in first) for _ in range(self.count - 1)]
        self.results = [torch.empty((b, s_q, case.h, case.d_v), dtype=DTYPES[case.dtype], device="cuda")
                        for _ in range(self.count)]
        self.mask = None
        if case.mask:
            self.mask = torch.rand((1, 1, s_q, s_kv), generator=generator, device="cuda") < 0.5
        self.cu_seqlens = None
        if case.packed:
            ends = torch.tensor([0] + case.packed).cumsum(0)
            self.cu_seqlens = ends.to(dtype=torch.int32, device="cuda")


def expected_rows(case: Case, data: Operands) -> tuple[list[int], torch.Tensor]:
    """Some rows of the result, of the first sequence and the last head, in fp64: (rows, D_v)."""
    q, k, v = data.sets[0]
    s_q, s_kv = (case.packed[0],) * 2 if case.packed else (case.sq, case.s)
    rows = sorted({i * (s_q - 1) // (CHECK_ROWS - 1) for i in range(CHECK_ROWS)})
    scores = q[0, rows, -1].double() @ k[0, :s_kv, -1].double().T * case.d ** -0.5
    position = torch.tensor(rows, device="cuda")[:, None] + (s_kv - s_q)
    keys = torch.arange(s_kv, device="cuda")[None, :]
    left, right = case.window
    right = 0 if case.causal else right
    seen = torch.ones_like(scores, dtype=torch.bool)
    seen = seen & (keys <= position + right) if right >= 0 else seen
    seen = seen & (keys >= position - left) if left >= 0 else seen
    seen = seen & data.mask[0, 0, rows] if data.mask is not None else seen
    return rows, scores.masked_fill(~seen, -math.inf).softmax(-1).nan_to_num() @ v[0, :s_kv, -1].double()


# ---- programs: each makes a list of calls, one for each copy of the operands, and says what kernel it is


def make_libattn(case: Case, data: Operands, lib: Libattn):
    desc = lib.new_desc(case.dtype)
    desc.batch, desc.s_q, desc.s_kv = case.b, case.sq, case.s
    desc.heads_q, desc.heads_kv, desc.d_qk, desc.d_v = case.h, case.h_kv, case.d, case.d_v
    desc.causal = int(case.causal)
    desc.window_left, desc.window_right = case.window
    desc.softcap = case.softcap
    if data.mask is not None:
        desc.mask.present = 1
        desc.mask.stride_b = desc.mask.stride_h = 0
        desc.mask.stride_q, desc.mask.stride_k = data.mask.stride()[2:]
    if case.packed:
        desc.batch, desc.s_q, desc.s_kv = len(case.packed), max(case.packed), max(case.packed)
        desc.varlen_q = desc.varlen_kv = 1
        desc.total_q = desc.total_kv = case.s
    try:
        plan = lib.plan(desc)
    except RuntimeError as error:
        raise Refused(str(error)) from error
    bytes_ = lib.c.attn_plan_workspace_bytes(plan)
    workspace = torch.empty(max(bytes_, 1), dtype=torch.uint8, device="cuda")
    calls = []
    for (q, k, v), o in zip(data.sets, data.results):
        args = lib.new_args(q=q, k=k, v=v, o=o, mask=data.mask, cu_seqlens_q=data.cu_seqlens,
                            cu_seqlens_kv=data.cu_seqlens)

        def call(args=args, o=o):
            stream = torch.cuda.current_stream().cuda_stream
            lib.check(lib.c.attn_forward(plan, lib.pointer(args), workspace.data_ptr(), bytes_, stream))
            return o

        calls.append(call)
    return lib.kernel_name(plan), calls


def _plain_only(case: Case, *, window: bool = False, mask: bool = False) -> None:
    if case.packed or case.softcap or (case.mask and not mask) or (case.window != (-1, -1) and not window):
        raise Refused("no such option")


def _sdpa(case: Case, data: Operands, backend: SDPBackend, mask: bool):
    _plain_only(case, mask=mask)
    calls = []
    for q, k, v in data.sets:
        heads_first = tuple(t.transpose(1, 2) for t in (q, k, v))

        def call(qkv=heads_first):
            with sdpa_kernel([backend]):
                o = F.scaled_dot_product_attention(*qkv, attn_mask=data.mask, is_causal=case.causal and case.sq > 1,
                                                   enable_gqa=case.h != case.h_kv)
            return o.transpose(1, 2)

        calls.append(call)
    return "sdpa", calls


def make_cudnn(case: Case, data: Operands, _lib):
    return _sdpa(case, data, SDPBackend.CUDNN_ATTENTION, mask=True)


def make_flash2(case: Case, data: Operands, _lib):
    if not case.packed:
        return _sdpa(case, data, SDPBackend.FLASH_ATTENTION, mask=False)
    from torch.nn.attention.varlen import varlen_attn
    longest = max(case.packed)
    # Its causal flag has changed place between versions.
    options = {"is_causal": True} if case.causal else {}

    def make(q, k, v):
        return lambda: varlen_attn(q[0], k[0], v[0], data.cu_seqlens, data.cu_seqlens, longest, longest, **options)[None]

    return "varlen_attn", [make(*qkv) for qkv in data.sets]


_flex = None


def make_flex(case: Case, data: Operands, _lib):
    global _flex
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    if case.softcap or case.mask:
        raise Refused("not written here")
    _flex = _flex or torch.compile(flex_attention, dynamic=False)
    left, _ = case.window
    document = None
    if case.packed:
        document = torch.repeat_interleave(torch.arange(len(case.packed), device="cuda"),
                                           torch.tensor(case.packed, device="cuda"))

    def sees(b, h, i, j):
        seen = i >= j if case.causal else i >= 0
        seen = seen & (i - j <= left) if left >= 0 else seen
        return seen & (document[i] == document[j]) if document is not None else seen

    needs_mask = case.causal or case.packed or left >= 0
    block_mask = create_block_mask(sees, None, None, case.sq, case.s, device="cuda") if needs_mask else None
    calls = []
    for q, k, v in data.sets:
        heads_first = tuple(t.transpose(1, 2) for t in (q, k, v))

        def call(qkv=heads_first):
            return _flex(*qkv, block_mask=block_mask, enable_gqa=case.h != case.h_kv).transpose(1, 2)

        calls.append(call)
    return "flex_attention", calls


def make_fa4(case: Case, data: Operands, _lib):
    try:
        from flash_attn.cute import flash_attn_func, flash_attn_varlen_func
    except ImportError as error:
        raise Refused(f"not installed: {error}") from error
    if case.softcap or case.mask:
        raise Refused("not written here")
    options = {"causal": case.causal and case.window == (-1, -1)}
    if case.window != (-1, -1):
        options["window_size"] = tuple(n if n >= 0 else None for n in case.window)

    def make(q, k, v):
        if case.packed:
            lengths = {"cu_seqlens_q": data.cu_seqlens, "cu_seqlens_k": data.cu_seqlens,
                       "max_seqlen_q": max(case.packed), "max_seqlen_k": max(case.packed)}
            return lambda: _first(flash_attn_varlen_func(q[0], k[0], v[0], **lengths, **options))[None]
        return lambda: _first(flash_attn_func(q, k, v, **options))

    return "cute", [make(*qkv) for qkv in data.sets]


def _first(result):
    return result[0] if isinstance(result, tuple) else result


def make_triton(case: Case, data: Operands, _lib):
    _plain_only(case)
    if case.d & (case.d - 1) or case.d != case.d_v or case.d > 256:
        raise Refused("one head dim that is a power of two")
    from triton_attention import forward
    return "triton_attention", [lambda qkv=qkv, o=o: forward(*qkv, o, case.causal)
                                for qkv, o in zip(data.sets, [torch.empty_like(r) for r in data.results])]


def make_gemm(_case, _data, _lib):
    a, b, c = (torch.randn((GEMM, GEMM), device="cuda").to(torch.bfloat16) for _ in range(3))
    return "cuBLAS", [lambda: torch.matmul(a, b, out=c)]


PROGRAMS = {"libattn": make_libattn, "cudnn": make_cudnn, "flash2": make_flash2, "flex": make_flex, "fa4": make_fa4,
            "triton": make_triton}


def display_name(program: str, lib: Libattn) -> str:
    torch_version = torch.__version__.split("+")[0]
    cudnn = torch.backends.cudnn.version() or 0
    names = {"libattn": f"libattn {lib.version}", "cudnn": f"cuDNN {cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}",
             "flash2": f"FlashAttention-2 of PyTorch {torch_version}", "flex": f"FlexAttention {torch_version}",
             "gemm": "cuBLAS GEMM"}
    with contextlib.suppress(ImportError):
        from importlib.metadata import PackageNotFoundError, version
        for program_, package in (("fa4", "flash-attn-4"), ("triton", "triton")):
            with contextlib.suppress(PackageNotFoundError):
                names[program_] = f"{'FlashAttention-4' if program_ == 'fa4' else 'Triton'} {version(package)}"
    return names.get(program, program)


# ---- clocks and power


class Meter:
    """The first GPU's SM clock in MHz and joules, or NaN."""

    def __init__(self):
        self.nvml = None
        try:
            import pynvml
            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            self.nvml = pynvml
        except Exception:  # noqa: BLE001  no module, no driver, no permission: all the same here
            pass

    def _read(self, read) -> float:
        if self.nvml is None:
            return math.nan
        try:
            return read(self.nvml)
        except Exception:  # noqa: BLE001
            return math.nan

    def clock_mhz(self) -> float:
        return self._read(lambda n: float(n.nvmlDeviceGetClockInfo(self.handle, n.NVML_CLOCK_SM)))

    def joules(self) -> float:
        return self._read(lambda n: n.nvmlDeviceGetTotalEnergyConsumption(self.handle) * 1e-3)


# ---- timing


class Timer:
    def __init__(self, options):
        self.options = options
        self.meter = Meter()
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush = torch.empty(4 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")

    def _elapsed_s(self) -> float:
        self.end.synchronize()
        return self.begin.elapsed_time(self.end) * 1e-3

    def cold(self, calls) -> list[float]:
        torch.cuda.synchronize()
        time.sleep(self.options.idle)
        samples = []
        for i in range(self.options.warmup + self.options.samples):
            self.flush.zero_()
            self.flush.zero_()
            self.begin.record()
            calls[i % len(calls)]()
            self.end.record()
            samples.append(self._elapsed_s())
        return samples[self.options.warmup:]

    def _batch(self, calls, runs: int) -> float:
        self.begin.record()
        for i in range(runs):
            calls[i % len(calls)]()
        self.end.record()
        return self._elapsed_s() / runs

    def heat(self, calls) -> None:
        until = time.monotonic() + self.options.heat
        while time.monotonic() < until:
            self._batch(calls, 20)

    def sustained(self, programs: dict) -> dict:
        """{program: {samples, clock_mhz, joules per run}}, programs by turns."""
        runs = {name: max(2, int(self.options.batch / self._batch(calls, 3))) for name, calls in programs.items()}
        out = {name: {"samples": [], "clocks": [], "joules": 0.0, "runs": 0} for name in programs}
        for _ in range(self.options.rounds):
            for name, calls in programs.items():
                before = self.meter.joules()
                self.begin.record()
                for i in range(runs[name]):
                    calls[i % len(calls)]()
                self.end.record()
                time.sleep(self.options.batch / 2)  # the host was done long ago: the middle of the batch
                out[name]["clocks"].append(self.meter.clock_mhz())
                out[name]["samples"].append(self._elapsed_s() / runs[name])
                out[name]["joules"] += self.meter.joules() - before
                out[name]["runs"] += runs[name]
        # The meter counts in steps of up to 0.1 s: short batches say nothing about energy.
        has_energy = self.options.batch >= METER_SECONDS
        return {name: {"samples": o["samples"], "clock_mhz": median(o["clocks"]),
                       "joules": o["joules"] / o["runs"] if has_energy else math.nan}
                for name, o in out.items()}


def median(values) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan


# ---- a case


def prepare(case: Case, data: Operands, lib: Libattn, names: list[str]) -> tuple[dict, dict]:
    """The programs that take the case and are right, as {name: (kernel, calls)}; and why the others are not."""
    rows, expected = expected_rows(case, data)
    programs, reasons = {}, {}
    for name in names:
        try:
            kernel, calls = PROGRAMS[name](case, data, lib)
            got = calls[0]()[0, rows, -1].double()
            torch.cuda.synchronize()
            error = ((got - expected).norm() / expected.norm()).item()
            if not error < 1e-2:  # a NaN is wrong too; two roundings to bf16 are about 3e-3
                raise Refused(f"wrong: relative error {error:.1e}")
            programs[name] = (kernel, calls)
        except Exception as error:  # noqa: BLE001  whatever a peer throws, the others are measured
            reasons[name] = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return programs, reasons


def finite(value: float):
    return value if math.isfinite(value) else None


def measure(case: Case, lib: Libattn, timer: Timer, names: list[str], results: dict) -> None:
    data = Operands(case)
    programs, reasons = prepare(case, data, lib, names)
    for name, reason in reasons.items():
        print(f"{case.name}: {name}: {reason}", file=sys.stderr)
    rows = {name: {"case": case.name, "kernel": kernel, "flops": case.flops(), "samples_s": timer.cold(calls)}
            for name, (kernel, calls) in programs.items()}
    calls = {name: calls for name, (_, calls) in programs.items()} | {"gemm": make_gemm(case, data, lib)[1]}
    timer.heat(calls["gemm"])
    hot = timer.sustained(calls)
    for name, measured in hot.items():
        row = rows.setdefault(name, {"case": case.name, "kernel": "cuBLAS", "flops": 2.0 * GEMM ** 3,
                                     "samples_s": measured["samples"]})
        row["sustained_s"] = measured["samples"]
        row["clock_mhz"] = finite(measured["clock_mhz"])
        row["joules"] = finite(measured["joules"])
        row["gemm_gflops"] = 2.0 * GEMM ** 3 / median(hot["gemm"]["samples"]) * 1e-9
        results.setdefault(name, []).append(row)
    print_case(case, results, reasons)
    torch.cuda.empty_cache()


def print_case(case: Case, results: dict, reasons: dict) -> None:
    """TFLOP/s cold / sustained, clock, and pJ/FLOP of each program."""
    cells = []
    for name, rows in results.items():
        row = next((r for r in rows if r["case"] == case.name), None)
        if row is None:
            continue
        cold, hot = (row["flops"] / median(row[key]) * 1e-12 for key in ("samples_s", "sustained_s"))
        energy = f" {row['joules'] / row['flops'] * 1e12:.2f} pJ" if row["joules"] else ""
        clock = f" {row['clock_mhz']:.0f} MHz" if row["clock_mhz"] else ""
        cells.append(f"{name} {cold:.0f} / {hot:.0f}{clock}{energy}")
    cells += [f"{name} -" for name in reasons]
    print(f"{case.name:22}" + "; ".join(cells), flush=True)


def write(folder: Path, results: dict, lib: Libattn) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in results.items():
        document = {"name": display_name(name, lib), "threads": 1, "machine": torch.cuda.get_device_name(0), "results": rows}
        partial = folder / f"{name}.json.partial"
        partial.write_text(json.dumps(document, indent=1), encoding="utf-8")
        os.replace(partial, folder / f"{name}.json")


def main() -> None:
    parser = argparse.ArgumentParser(description="Times libattn and its peers on a GPU.")
    parser.add_argument("shapes", nargs="+")
    parser.add_argument("--libattn", default=str(ROOT / "build/release/src/libattn.so"))
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="of: %(default)s")
    parser.add_argument("--series", help="only these, separated by commas")
    parser.add_argument("--lengths", help="only these, separated by commas")
    parser.add_argument("--idle", type=float, default=0.4, help="seconds before the cold runs")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--heat", type=float, default=0.5, help="seconds of matrix products before the rounds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=float, default=0.2, help="seconds of each program in a round")
    options = parser.parse_args()
    names = options.programs.split(",")
    if not set(names) <= PROGRAMS.keys():
        parser.error(f"--programs: expected some of {', '.join(PROGRAMS)}")
    lib = Libattn(options.libattn, str(ROOT / "include/attn.h"))
    timer = Timer(options)
    results: dict[str, list] = {}
    wanted = options.series.split(",") if options.series else None
    lengths = {int(n) for n in options.lengths.split(",")} if options.lengths else None
    print("TFLOP/s cold / sustained, SM clock, energy per operation; " +
          ", ".join(f"{n}: {display_name(n, lib)}" for n in names), flush=True)
    for case in (c for path in options.shapes for c in read_shapes(path)):
        if (wanted and case.series not in wanted) or (lengths and case.s not in lengths):
            continue
        measure(case, lib, timer, names, results)
        write(options.out, results, lib)


if __name__ == "__main__":
    main()
