"""Files: read only up to a size, written whole or not at all, and never through a symbolic link."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from graphbench.errors import UsageError

CACHE_VARIABLE: Final = "GRAPHBENCH_CACHE_DIR"


def read_bounded(path: Path, limit_bytes: int) -> bytes | None:
    """The bytes of a file; `None` where it is longer than `limit_bytes`, and then nothing of it was read.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        return None if size > limit_bytes else stream.read(size)


def cache_folder() -> Path:
    """Where graphbench keeps what it measured of this machine: the user's cache folder, or `GRAPHBENCH_CACHE_DIR`."""
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphbench"


def write_whole(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a text file: into a temporary one beside it, which then takes its place.

    A symbolic link is replaced like any other file: what it leads to, wherever that is, stays as it was.

    Raises:
        UsageError: something is there and `overwrite` is not set, it is a directory, or it cannot be written.
    """
    if path.is_dir() and not path.is_symlink():
        raise UsageError(f"cannot write {path}: it is a directory", hint="name a file", subject=str(path))
    if os.path.lexists(path) and not overwrite:
        hint = "choose another path, or overwrite it: --force on the command line, overwrite=True in Python"
        raise UsageError(f"{path} exists and is not overwritten", hint=hint, subject=str(path))
    # A name of its own instead of tempfile's: the file keeps the permissions that the user's umask gives.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        hint = "check that the folder exists and is writable"
        raise UsageError(f"cannot write {path}: {error.strerror}", hint=hint, subject=str(path)) from error
    finally:
        with suppress(OSError):  # what went wrong before is what matters
            temporary.unlink(missing_ok=True)
