"""Names of torch that may be used because a file says so: what is known to be an op, whoever wrote the file. Pure."""

from __future__ import annotations

import keyword
import re
from typing import Final

from graphbench.plaintext import quoted


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DTYPES: Final = _words(
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 "
    "complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
LAYOUTS: Final = _words("strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc jagged")
FORMATS: Final = _words("contiguous_format preserve_format channels_last channels_last_3d")
_FUNCTION: Final = re.compile(
    r"torch\.((nn\.functional|functional|special|fft|linalg|_VF|_C\._nn|_C\._fft|_C\._linalg|_C\._special)\.)?(?!__)"
    r"[a-z_]\w{0,80}"
    r"|torch\.ops\.(aten|prims)\.\w{1,80}(\.\w{1,80})?",
    re.ASCII,
)
_NO_OP: Final = re.compile(
    r"load|save|file|compile|import|export|package|hub|jit|script|module|register|library|storage|cdata|dlpack|buffer|"
    r"multiprocessing"
)
_METHOD: Final = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,80}")
OPERATORS: Final = _words(
    "abs add and_ eq floordiv ge getitem gt iadd iand ifloordiv imod imul inv invert ior ipow isub "
    "itruediv ixor le lt matmul mod mul ne neg not_ or_ pos pow setitem sub truediv xor lshift rshift "
    "imatmul"
)
_DUNDERS: Final = frozenset(f"__{name.strip('_')}__" for name in OPERATORS)


def op_name(callee: str) -> str:
    """`addmm` of `torch.ops.aten.addmm.default`, `linear` of `torch._C._nn.linear`, `relu` of the method `relu`."""
    words = callee.split(".")
    return words[3] if callee.startswith("torch.ops.") and len(words) > 3 else words[-1]


def function_problem(callee: str) -> str:
    """Why a function is none of torch's own ops; "" where it is one, by its name."""
    name = callee.removeprefix("_operator.").removeprefix("operator.")
    shown = quoted(callee, 100)
    if name != callee:
        return "" if name in OPERATORS else f"operator.{quoted(name, 100)} is called, which is no operation on tensors"
    if callee.startswith("torch.ops.higher_order."):
        return f"{shown} runs graphs or kernels that a profile does not hold"
    if callee.startswith("torch.ops.") and not _FUNCTION.fullmatch(callee):
        return f"{shown} is a custom op: a script that needs only torch cannot call it"
    if not _FUNCTION.fullmatch(callee) or _NO_OP.search(op_name(callee)):
        return f"{shown or 'an unnamed function'} is called, which is no op of torch"
    return ""


def is_method(name: str) -> bool:
    """Whether a name can be that of a tensor's method that is an op."""
    plain = _METHOD.fullmatch(name) and not keyword.iskeyword(name)
    return bool(plain and not _NO_OP.search(name)) or name in _DUNDERS
