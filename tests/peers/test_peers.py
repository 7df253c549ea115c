#!/usr/bin/env python3
"""What bench/peers says of problems and of libattn's structs, against libattn and attn bench; needs no PyTorch and no GPU.

    test_peers.py ATTN LIBRARY SOURCE_FOLDER
"""

import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ATTN, LIBRARY, SOURCE = sys.argv[1:4]
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(SOURCE, "bench/peers")))

from libattn_ctypes import Libattn  # noqa: E402
from shape_file import read_shapes  # noqa: E402

SHAPES = """
# as attn bench reads them
full    tokens=96 s=32,200 h=2 d=16
causal  b=2 s=20 sq=7 h=4/2 d=16/8 causal
window  s=40 h=2 d=16 window=5,2
both    s=40 h=2 d=16 window=5,0 causal
packed  packed=30,1,17 h=2 d=16 causal
mask    s=24 h=2 d=16 mask=random
"""


class Buffer:
    """Host memory that looks to Libattn like a tensor."""

    def __init__(self, count: int, value: int):
        self.memory = (ctypes.c_uint16 * count)(*[value] * count)

    def data_ptr(self) -> int:
        return ctypes.addressof(self.memory)


def test_operations() -> None:
    """Peers are charged for the same work as we are."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "shapes.txt"), Path(folder, "out.json")
        path.write_text(SHAPES, encoding="utf-8")
        subprocess.run([ATTN, "bench", path, "--no-rates", "--samples", "3", "--max-seconds", "0", "--json", out],
                       check=True, stdout=subprocess.DEVNULL)
        ours = {r["case"]: r["flops"] for r in json.loads(out.read_text(encoding="utf-8"))["results"]}
        theirs = {c.name: c.flops() for c in read_shapes(str(path))}
    assert ours == theirs, f"{ours} and {theirs}"


def test_structs() -> None:
    """A forward pass by the structs that are read from attn.h: equal rows of v give that row."""
    lib = Libattn(LIBRARY, str(Path(SOURCE, "include/attn.h")))
    desc = lib.new_desc("bf16")
    desc.backend = 1  # the CPU
    desc.batch, desc.s_q, desc.s_kv, desc.heads_q, desc.heads_kv, desc.d_qk, desc.d_v = 1, 5, 7, 2, 1, 16, 8
    desc.causal = 1
    plan = lib.plan(desc)
    bytes_ = lib.c.attn_plan_workspace_bytes(plan)
    workspace = Buffer(bytes_ // 2 + 1, 0)
    o = Buffer(5 * 2 * 8, 0)
    q, k, v = Buffer(5 * 2 * 16, 0x3F80), Buffer(7 * 16, 0x3F80), Buffer(7 * 8, 0x4000)
    args = lib.new_args(q=q, k=k, v=v, o=o, mask=None)
    lib.check(lib.c.attn_forward(plan, lib.pointer(args), workspace.data_ptr(), bytes_, None))
    assert set(o.memory) == {0x4000}, list(o.memory)[:8]
    assert lib.kernel_name(plan).startswith("cpu_")
    desc.s_q = -3
    try:
        lib.plan(desc)
    except RuntimeError as error:
        assert str(error) == "s_q: -3, expected >= 0", error
    else:
        raise AssertionError("a wrong length was accepted")


test_operations()
test_structs()
