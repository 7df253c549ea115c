"""libattn by ctypes, for timing it beside peers in one process. The structs are read from attn.h, so that they are its own."""

import ctypes
import re
from pathlib import Path

_SCALARS = {
    "size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "float": ctypes.c_float,
    "attn_dtype_t": ctypes.c_int, "attn_backend_t": ctypes.c_int, "attn_align_t": ctypes.c_int,
}
_STRUCTS = ("attn_tensor", "attn_mask_tensor", "attn_descale", "attn_desc", "attn_forward_args")
DTYPES = {"f16": 1, "bf16": 2}
BACKEND_CUDA = 3
FORWARD = 0


def read_structs(header: str) -> dict[str, type[ctypes.Structure]]:
    """The structs of attn.h that a forward pass needs, by their names without _t."""
    text = re.sub(r"//[^\n]*", "", Path(header).read_text(encoding="utf-8"))
    types = dict(_SCALARS)
    made = {}
    for name in _STRUCTS:
        body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name}_t;", text, re.S).group(1)
        fields = []
        for declaration in filter(None, (d.strip() for d in body.split(";"))):
            type_name, names = re.match(r"(?:const )?(\w+)\s+(.*)", declaration, re.S).groups()
            for field in (n.strip() for n in names.split(",")):
                kind = ctypes.c_void_p if field.startswith("*") else types[type_name]
                fields.append((field.lstrip("* "), kind))
        made[name] = types[name + "_t"] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return made


class Libattn:
    """The library, and its forward pass on tensors of PyTorch."""

    def __init__(self, library: str, header: str):
        self.c = ctypes.CDLL(library)
        self.structs = read_structs(header)
        self.c.attn_last_error.restype = ctypes.c_char_p
        self.c.attn_version_string.restype = ctypes.c_char_p
        self.c.attn_plan_kernel_name.restype = ctypes.c_char_p
        self.c.attn_plan_kernel_name.argtypes = [ctypes.c_void_p]
        self.c.attn_plan_workspace_bytes.restype = ctypes.c_size_t
        self.c.attn_plan_workspace_bytes.argtypes = [ctypes.c_void_p]
        self.c.attn_forward.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t, ctypes.c_void_p]
        self.c.attn_plan_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]

    @property
    def version(self) -> str:
        return self.c.attn_version_string().decode()

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.c.attn_last_error().decode())

    def new_desc(self, dtype: str):
        desc = self.structs["attn_desc"]()
        self.c.attn_desc_init_sized(ctypes.byref(desc), ctypes.c_size_t(ctypes.sizeof(desc)), DTYPES[dtype])
        desc.backend = BACKEND_CUDA
        return desc

    def new_args(self, **pointers):
        args = self.structs["attn_forward_args"]()
        args.struct_size = ctypes.sizeof(args)
        for name, tensor in pointers.items():
            setattr(args, name, tensor.data_ptr() if tensor is not None else None)
        return args

    @staticmethod
    def pointer(struct):
        return ctypes.byref(struct)

    def plan(self, desc) -> ctypes.c_void_p:
        plan = ctypes.c_void_p()
        self.check(self.c.attn_plan_create(None, ctypes.byref(desc), FORWARD, ctypes.byref(plan)))
        return plan

    def kernel_name(self, plan) -> str:
        return self.c.attn_plan_kernel_name(plan).decode()
