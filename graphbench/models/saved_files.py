"""What all readers of saved tensors share: no code in a file is run, nothing that it claims is believed."""

from __future__ import annotations

import difflib
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from graphbench.errors import GraphbenchError, UsageError, first_line

SAFETENSORS: Final = ".safetensors"
_SNIFFED_BYTES: Final = 512
_ZIP: Final = b"PK\x03\x04"
_REFUSED_GLOBAL: Final = re.compile(r"GLOBAL ([\w.]+) (?:was not an allowed|whose module)")
FoundT = TypeVar("FoundT")


def check_file(path: Path, what: str, suffixes: tuple[str, ...]) -> None:
    """Refuse a path that is no file, or whose suffix is none of these.

    Raises:
        UsageError: it is such a path. `what` begins the message.
    """
    if not path.is_file():
        found = "found a folder, expected a file" if path.is_dir() else "no such file"
        raise UsageError(f"{what} {path}: {found}", hint=_files_like(path, suffixes), subject=str(path))
    if path.suffix not in suffixes:
        expected = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise UsageError(f"{what} {path}: found suffix {path.suffix!r}, expected {expected}", subject=str(path))


def _files_like(path: Path, suffixes: tuple[str, ...]) -> str:
    """What to do about a path that is no file: files beside it that are meant, perhaps."""
    folder = path if path.is_dir() else path.parent
    there = sorted(entry.name for entry in folder.iterdir() if entry.suffix in suffixes) if folder.is_dir() else []
    near = difflib.get_close_matches(path.name, there, n=3) or there[:3]
    if near:
        return f"did you mean {' or '.join(str(folder / name) for name in near)}?"
    return f"expected {', '.join(suffixes)}, from here or with its whole path"


def load_saved(path: Path, what: str, *, device: str, unsafe: bool = False) -> object:
    """Read a file of `torch.save`, or one of safetensors, by its suffix.

    Args:
        path: the file.
        what: it is, for messages.
        device: where its tensors go.
        unsafe: let a file of `torch.save` run code.

    Raises:
        UsageError: the archive unpacks to more than it is.
        Exception: whatever the readers raise; see `readable`.

    Source: `torch.load(weights_only=True)`, which runs no code of the file (torch 2.11, 2.13, 2.14).
    """
    if path.suffix == SAFETENSORS:
        from graphbench.models.packages import import_optional

        loaded: object = import_optional("safetensors.torch").load_file(path, device=device)
    else:
        import torch

        _check_archive(path, what)
        loaded = torch.load(path, map_location=device, weights_only=not unsafe)
    return loaded


def readable(path: Path, what: str, hint: str, read: Callable[[], FoundT]) -> FoundT:
    """What `read` returns; whatever else than graphbench's own errors it raises is told in one line.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return read()
    except GraphbenchError:
        raise
    except Exception as error:  # the readers raise whatever the bytes lead them to
        told = f"{what} {path}: {_content(path)} that cannot be read: {type(error).__name__}: {first_line(error)}"
        raise UsageError(told, hint=hint, subject=str(path)) from error


def refused_code(error: BaseException) -> str | None:
    """The class or function that `torch.load(weights_only=True)` would not call, if that is why it raised.

    Source: `torch._weights_only_unpickler`, whose messages name a "GLOBAL" (torch 2.11, 2.13 and 2.14).
    """
    found = _REFUSED_GLOBAL.search(str(error))
    return found[1] if found else None


def _check_archive(path: Path, what: str) -> None:
    """Refuse an archive that would unpack to more than it is: `torch.save` compresses nothing."""
    if _start(path)[: len(_ZIP)] != _ZIP:
        return
    with zipfile.ZipFile(path) as archive:
        unpacked_bytes = sum(entry.file_size for entry in archive.infolist())
    if unpacked_bytes > path.stat().st_size:
        raise UsageError(
            f"{what} {path}: found an archive that unpacks to {unpacked_bytes} bytes, expected at most the "
            f"{path.stat().st_size} of the file",
            hint="write it with torch.save, which does not compress",
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
