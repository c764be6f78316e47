"""The ambient state of an op in an op list: grad mode, autocast, precision and switches. No torch import."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from graphbench.models.sizes import read_size
from graphbench.models.yaml_cursor import Cursor
from graphbench.torch_names import DTYPES

FLAGS: Final = (
    *("cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic"),
    *("cuda.matmul.fp16_reduction", "cuda.matmul.bf16_reduction"),
)
FP32_SETTINGS: Final = ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
SDPA: Final = ("flash", "mem_efficient", "math", "cudnn")
"""As in `graphbench.capture.ambient`, which imports torch; a test compares them."""
_PRECISION: Final = re.compile(r"[a-z0-9_]{1,16}")
_MOST_THREADS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class OpState:
    """What of the global state an op asks for; `None` and nothing leave it as it is where the list is run.

    `autocast` is the dtype that it casts to on the device that is measured, "" for switched off. `deterministic` is
    `True`, `False` or `warn`. `sdpa` are the attention backends that are on.
    """

    grad: bool | None = None
    inference_mode: bool | None = None
    autocast: str | None = None
    autocast_cache: bool | None = None
    default_dtype: str | None = None
    fp32_precision: tuple[tuple[str, str], ...] = ()
    flags: tuple[tuple[str, bool], ...] = ()
    sdpa: tuple[str, ...] | None = None
    deterministic: bool | str | None = None
    num_threads: int | None = None


NO_STATE: Final = OpState()
FIELDS: Final = tuple(OpState.__dataclass_fields__)


def read_state(cursor: Cursor, base: OpState) -> OpState:
    """A state: what it does not say is as in `base`.

    Raises:
        UsageError: a field that does not fit.
    """
    found: dict[str, Any] = {}
    for name, entry in cursor.fields(FIELDS, f"a state, with {', '.join(FIELDS)}").items():
        if name in ("grad", "inference_mode", "autocast_cache"):
            found[name] = entry.flag()
        elif name == "autocast":
            found[name] = "" if entry.entry.value is False else entry.chosen(DTYPES, "a dtype, or false for none")
        elif name == "default_dtype":
            found[name] = entry.chosen(DTYPES, "a dtype")
        elif name == "num_threads":
            found[name] = read_size(entry, {}, least=1, most=_MOST_THREADS)
        elif name == "deterministic":
            found[name] = "warn" if entry.entry.value == "warn" else entry.flag()
        elif name == "sdpa":
            found[name] = tuple(one.chosen(SDPA, "an attention backend") for one in entry.items("backends"))
        elif name == "flags":
            given = entry.fields(FLAGS, "switches by name").items()
            found[name] = _merged(base.flags, {key: one.flag() for key, one in given})
        else:
            given = entry.fields(FP32_SETTINGS, "precisions by what they are for").items()
            found[name] = _merged(base.fp32_precision, {key: _precision(one) for key, one in given})
    return replace(base, **found)


def _precision(cursor: Cursor) -> str:
    text = cursor.text("a precision, as ieee or tf32")
    if not _PRECISION.fullmatch(text):
        raise cursor.error("a precision, as ieee or tf32")
    return text


def _merged(base: tuple[tuple[str, Any], ...], own: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple({**dict(base), **own}.items())
