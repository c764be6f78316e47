"""Files of saved tensors as inputs, from anybody: no code in them is run, nothing that they claim is believed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from graphbench.errors import UsageError
from graphbench.models.inputs import Inputs, as_inputs
from graphbench.models.saved_files import SAFETENSORS, check_file, load_saved, readable

SUFFIXES: Final = (".pt", ".pth", SAFETENSORS)
MOST_VALUES: Final = 100_000
MOST_LEVELS: Final = 64
WHAT: Final = "example inputs"
_HINT: Final = (
    "read are .pt and .pth files of plain tensors, tuples or dicts of them, as torch.save({'x': x}, path) "
    "writes, and .safetensors files"
)


def load_inputs(path: Path, *, device: str) -> Inputs:
    """Read saved tensors: `.pt` or `.pth` (a tensor, a tuple or list, or a dict by name), or `.safetensors` (a dict).

    Raises:
        UsageError: no such file, another suffix, or something in it that is no plain data, or more than the file holds.
    """
    check_file(path, WHAT, SUFFIXES)

    def read() -> Inputs:
        loaded = load_saved(path, WHAT, device=device)
        _check_values(path, loaded)
        return as_inputs(loaded, origin=str(path), device=device)

    return readable(path, WHAT, _HINT, read)


def _check_values(path: Path, loaded: object) -> None:
    """Refuse containers without end: a few bytes can describe lists that hold each other."""
    seen, pending = 0, [(loaded, 0)]
    while pending:
        value, level = pending.pop()
        seen += 1
        if seen + len(pending) > MOST_VALUES or level > MOST_LEVELS:
            raise UsageError(
                f"{WHAT} {path}: found containers that go on without end, expected at most {MOST_VALUES} "
                f"values on {MOST_LEVELS} levels",
                subject=str(path),
            )
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, (list, tuple, set)):
            pending += [(entry, level + 1) for entry in value]
