"""Files of saved tensors as inputs, from anybody: no code in them is run, nothing that they claim is believed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from graphbench.errors import GraphbenchError, UsageError, first_line
from graphbench.models.inputs import Inputs, as_inputs

SUFFIXES: Final = (".pt", ".pth", ".safetensors")
MOST_VALUES: Final = 100_000
MOST_LEVELS: Final = 64
_SNIFFED_BYTES: Final = 512
_ZIP: Final = b"PK\x03\x04"


def load_inputs(path: Path, *, device: str) -> Inputs:
    """Read saved tensors: `.pt` or `.pth` (a tensor, a tuple or list, or a dict by name), or `.safetensors` (a dict).

    Raises:
        UsageError: no such file, another suffix, or something in it that is no plain data, or more than the file holds.

    Source: `torch.load(weights_only=True)`, which runs no code of the file (torch 2.11, 2.13, 2.14).
    """
    if not path.is_file():
        raise UsageError(f"example inputs {path}: no such file", subject=str(path))
    if path.suffix not in SUFFIXES:
        raise UsageError(
            f"example inputs {path}: found suffix {path.suffix!r}, expected .pt, .pth or .safetensors",
            subject=str(path),
        )
    try:
        load = _load_safetensors if path.suffix == ".safetensors" else _load_torch
        loaded = load(path, device)
        _check_values(path, loaded)
        return as_inputs(loaded, origin=str(path), device=device)
    except GraphbenchError:
        raise
    except Exception as error:  # the readers raise whatever the bytes lead them to
        raise _unreadable(path, error) from error


def _load_torch(path: Path, device: str) -> object:
    import torch

    _check_archive(path)
    loaded: object = torch.load(path, map_location=device, weights_only=True)
    return loaded


def _load_safetensors(path: Path, device: str) -> object:
    from graphbench.models.packages import import_optional

    loaded: object = import_optional("safetensors.torch").load_file(path, device=device)
    return loaded


def _check_archive(path: Path) -> None:
    """Refuse an archive that would unpack to more than it is: `torch.save` compresses nothing."""
    if _start(path)[: len(_ZIP)] != _ZIP:
        return
    with zipfile.ZipFile(path) as archive:
        unpacked_bytes = sum(entry.file_size for entry in archive.infolist())
    if unpacked_bytes > path.stat().st_size:
        raise UsageError(
            f"example inputs {path}: found an archive that unpacks to {unpacked_bytes} bytes, expected at most the "
            f"{path.stat().st_size} of the file",
            hint="write it with torch.save, which does not compress",
            subject=str(path),
        )


def _check_values(path: Path, loaded: object) -> None:
    """Refuse containers without end: a few bytes can describe lists that hold each other."""
    seen, pending = 0, [(loaded, 0)]
    while pending:
        value, level = pending.pop()
        seen += 1
        if seen + len(pending) > MOST_VALUES or level > MOST_LEVELS:
            raise UsageError(
                f"example inputs {path}: found containers that go on without end, expected at most {MOST_VALUES} "
                f"values on {MOST_LEVELS} levels",
                subject=str(path),
            )
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, (list, tuple, set)):
            pending += [(entry, level + 1) for entry in value]


def _unreadable(path: Path, error: Exception) -> UsageError:
    return UsageError(
        f"example inputs {path}: {_content(path)} that cannot be read: {type(error).__name__}: {first_line(error)}",
        hint="read are .pt and .pth files of plain tensors, tuples or dicts of them, as torch.save({'x': x}, path) "
        "writes, and .safetensors files",
        subject=str(path),
    )


def _content(path: Path) -> str:
    """What a file looks like by its first bytes."""
    try:
        start = _start(path)
    except OSError as error:
        return f"found a file ({error.strerror})"
    if not start:
        return "found an empty file"
    if start.startswith(_ZIP):
        return "found a zip archive, as torch.save writes,"
    binary = any(byte < 32 and byte not in b"\t\n\r\f" for byte in start)
    return "found a binary file" if binary else "found a text file"


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_SNIFFED_BYTES)
