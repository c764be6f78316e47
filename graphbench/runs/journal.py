"""The journal of a run: an append-only file of checksummed lines, written by one process at a time.

A line is the CRC-32 of its JSON text as eight hexadecimal digits, a space, the text, and a line end. Whatever ends the
process, the lines before stay whole; a line that was not finished, or was damaged later, is dropped and said so.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from graphbench.codec import codec
from graphbench.columnpool import ColumnPool, Constants
from graphbench.document import MAX_FILE_BYTES, SCHEMA_VERSION
from graphbench.errors import JournalError, ProfileFormatError, UsageError
from graphbench.jsonvalues import Mismatch, at, describe
from graphbench.runs.entries import ENTRIES, Entry, Started
from graphbench.units import format_bytes

JOURNAL: Final = "journal.jsonl"
SYNC_EVERY_S: Final = 1.0
MOST_DAMAGE_NAMED: Final = 5
_CRC_DIGITS: Final = 8


class Journal:
    """A journal that is open for appending, and locked: nobody else writes it.

    The lock belongs to the open file. A worker that inherits its descriptor shares it, so that a directory stays locked
    until supervisor and worker are both gone.

    Args:
        folder: the run's directory.
        fd: an open, locked descriptor of its journal.
    """

    def __init__(self, folder: Path, fd: int) -> None:
        self.folder = folder
        self.fd = fd
        self._synced_s = 0.0

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Open a run's journal, made if there is none. A line that was not finished is cut off.

        Raises:
            UsageError: another process writes it.
            JournalError: it cannot be opened or written.
        """
        path = folder / JOURNAL
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise UsageError(
                f"{folder}: another graphbench run is writing to it",
                hint="wait for it, stop it, or choose another --output-dir",
                subject=str(folder),
            ) from error
        except OSError as error:
            os.close(fd)
            raise _unwritable(path, error) from error
        journal = cls(folder, fd)
        try:
            journal.cut_unfinished()
        except JournalError:
            journal.close()
            raise
        return journal

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / JOURNAL

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return os.fstat(self.fd).st_size

    def append(self, entry: Entry) -> None:
        """Add an entry, handed to the operating system before this returns, and to the disk within a second or so.

        Raises:
            JournalError: it cannot be written; what was written before stays readable.
        """
        line = _line(entry)
        try:
            size = self.size
            try:
                _write_whole(self.fd, line)
            except OSError:
                os.ftruncate(self.fd, size)  # a full disk takes half a line
                raise
            if time.monotonic() - self._synced_s > SYNC_EVERY_S:
                os.fdatasync(self.fd)
                self._synced_s = time.monotonic()
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def clear(self) -> None:
        """Forget everything that is in it.

        Raises:
            JournalError: it cannot be written.
        """
        try:
            os.ftruncate(self.fd, 0)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def close(self) -> None:
        """Let go of it; a process that shares it keeps it locked."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def cut_unfinished(self) -> None:
        """Cut off a line that was not finished: the next one would be read as its end.

        Raises:
            JournalError: it cannot be read or written.
        """
        try:
            self._cut()
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _cut(self) -> None:
        size = os.fstat(self.fd).st_size
        with self.path.open("rb") as stream:
            end = size
            while end > 0:
                start = max(0, end - (1 << 16))
                stream.seek(start)
                last = stream.read(end - start).rfind(b"\n")
                if last >= 0:
                    os.ftruncate(self.fd, start + last + 1)
                    return
                end = start
        os.ftruncate(self.fd, 0)


class Tail:
    """Reads what is added to a journal from now on."""

    def __init__(self, journal: Journal) -> None:
        self._path = journal.path
        self._offset = journal.size

    def read(self) -> list[Entry]:
        """The entries that were added since the last time; a journal that is gone has none."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                text = stream.read()
        except FileNotFoundError:
            return []
        text = text[: text.rfind(b"\n") + 1]
        self._offset += len(text)
        constants, lines = Constants(len(text)), text.splitlines(keepends=True)
        return [found for line in lines if not isinstance(found := _entry(line, constants), str)]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a journal holds, in order, and what had to be dropped of it."""

    entries: tuple[Entry, ...]
    dropped: tuple[str, ...] = ()

    @property
    def started(self) -> Started | None:
        """How the run was started; `None` where that line was damaged."""
        return next((entry for entry in self.entries if isinstance(entry, Started)), None)


def read_journal(folder: Path) -> Contents:
    """Read a run's journal, also while it is being written.

    Args:
        folder: the run's directory.

    Raises:
        ProfileFormatError: there is none, it cannot be read, is longer than a profile may be, or another version of
            graphbench wrote it.
    """
    path = folder / JOURNAL
    if not path.is_file():
        raise ProfileFormatError(
            str(folder), None, f"no {JOURNAL}", "the directory of a run", hint="name the --output-dir of a run"
        )
    entries: list[Entry] = []
    dropped: list[str] = []
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > MAX_FILE_BYTES:
                length, limit = format_bytes(size), format_bytes(MAX_FILE_BYTES)
                raise ProfileFormatError(str(path), None, f"a file of {length}", f"at most {limit}")
            constants = Constants(size)
            for number, line in enumerate(stream, start=1):
                found = _entry(line, constants)
                if isinstance(found, str):
                    dropped.append(f"line {number} {found}")
                else:
                    entries.append(found)
                if isinstance(found, Started):
                    _check_version(found, path)
    except OSError as error:
        raise ProfileFormatError(str(path), None, f"an unreadable file ({error.strerror})", "a journal") from error
    if not entries:
        found = dropped[0] if dropped else "an empty file"
        raise ProfileFormatError(str(path), None, found, "a journal", hint="start the run again")
    return Contents(tuple(entries), tuple(_shortened(dropped)))


def _check_version(found: Started, path: Path) -> None:
    if found.schema_version != SCHEMA_VERSION:
        raise ProfileFormatError(
            str(path),
            "schema_version",
            f"schema {found.schema_version}",
            str(SCHEMA_VERSION),
            hint=f"graphbench {found.graphbench} wrote it: continue the run with that version, or start it again",
        )


def _shortened(dropped: list[str]) -> Iterator[str]:
    yield from dropped[:MOST_DAMAGE_NAMED]
    if len(dropped) > MOST_DAMAGE_NAMED:
        yield f"and {len(dropped) - MOST_DAMAGE_NAMED} lines more"


def _line(entry: Entry) -> bytes:
    pool, name = ColumnPool(), type(entry).__name__
    try:
        plain = codec(ENTRIES[name]).encode(entry, pool)
    except Mismatch as mismatch:
        hint = "this is a fault of graphbench, not of its user: please report it"
        name = f"{name}.{mismatch.field}"
        raise ProfileFormatError(JOURNAL, name, mismatch.found, mismatch.expected, hint=hint) from mismatch
    text = json.dumps([name, pool.packed(), plain], ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode(
        "ascii"
    )
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _entry(line: bytes, constants: Constants) -> Entry | str:
    """What a line holds, or what is wrong with it."""
    if not line.endswith(b"\n"):
        return f"was not finished ({len(line)} bytes): dropped"
    checksum, text = line[:_CRC_DIGITS], line[_CRC_DIGITS + 1 : -1]
    if line[_CRC_DIGITS : _CRC_DIGITS + 1] != b" " or checksum != b"%08x" % zlib.crc32(text):
        return "is damaged (its checksum does not fit): dropped"
    try:
        return _decoded(json.loads(text), constants)
    except Mismatch as mismatch:
        where = f" in {mismatch.field}" if mismatch.field else ""
        return f"cannot be used (found {mismatch.found}{where}, expected {mismatch.expected}): dropped"
    except (ValueError, RecursionError) as error:
        return f"cannot be used ({type(error).__name__}): dropped"


def _decoded(plain: Any, constants: Constants) -> Entry:
    if type(plain) is not list or len(plain) != 3 or type(plain[0]) is not str or plain[0] not in ENTRIES:
        raise Mismatch(describe(plain), "an entry of a journal")
    name, columns, value = plain
    pool = at(".columns", ColumnPool.read, columns, constants)
    entry: Entry = at(f".{name}", codec(ENTRIES[name]).decode, value, pool)
    return entry


def _write_whole(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def _unwritable(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"cannot write {path}: {error.strerror}",
        hint=f"what was measured before is safe: mend that, then continue with graphbench run --resume {path.parent}",
        subject=str(path),
    )
