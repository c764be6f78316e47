"""Saved profiles: one `ProfileRecord` as versioned JSON. Whatever is read or written is proven whole first."""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from graphbench.codec import codec
from graphbench.collector import collector_paused
from graphbench.columnpool import ColumnPool
from graphbench.conservation import check
from graphbench.errors import ProfileFormatError, UsageError
from graphbench.jsonvalues import Mismatch, at, describe
from graphbench.quickcodec import quick_decoder
from graphbench.records import ProfileRecord

SCHEMA_VERSION = 5
"""2: a row's device kernels carry their launches; clocks, batches, Triton's choices and what
backward nodes differentiate were added. 5: peak memory of sides, regions and nodes, spilled inputs and the memory
budget were added."""
_COLUMNS = "columns"  # beside the fields of the record
_NOT_A_PROFILE = "pass a profile.json written by `graphbench run` or Profile.save"

__all__ = ["SCHEMA_VERSION", "check", "dumps", "loads", "read", "write"]


def read(path: str | os.PathLike[str]) -> ProfileRecord:
    """Read a saved profile and prove that it is whole.

    Args:
        path: file written by `write`.

    Raises:
        ProfileFormatError: no such file, not a file, unreadable, not a profile, a wrong field, or a newer schema.
        ConservationError: its rows do not add up.
    """
    file = Path(path)
    if not file.is_file():
        found = "a directory" if file.is_dir() else "something that is no regular file" if file.exists() else "no file"
        raise ProfileFormatError(str(file), None, found, "a saved profile", hint=_NOT_A_PROFILE)
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        raise ProfileFormatError(
            str(file), None, f"an unreadable file ({error.strerror})", "a saved profile"
        ) from error
    except UnicodeDecodeError as error:
        found = f"no UTF-8 text (byte {error.start})"
        raise ProfileFormatError(str(file), None, found, "a saved profile", hint=_NOT_A_PROFILE) from error
    return loads(text, path=str(file))


def write(record: ProfileRecord, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a profile, whole or not at all: into a temporary file beside `path`, then renamed.

    Args:
        record: the profile; it is checked first.
        path: where to.
        overwrite: replace an existing file.

    Raises:
        UsageError: the file exists and `overwrite` is not set, or it cannot be written.
        ProfileFormatError: a value of the record does not fit its type.
        ConservationError: the rows do not add up.
    """
    file = Path(path)
    text = dumps(record, path=str(file))
    if file.is_dir():
        raise UsageError(f"cannot write {file}: it is a directory", hint="name a file", subject=str(file))
    if file.exists() and not overwrite:
        hint = "choose another path, or overwrite it: --force on the command line, overwrite=True in Python"
        raise UsageError(f"{file} exists and is not overwritten", hint=hint, subject=str(file))
    # A name of its own instead of tempfile's: the file keeps the permissions that the user's umask gives.
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except OSError as error:
        hint = "check that the folder exists and is writable"
        raise UsageError(f"cannot write {file}: {error.strerror}", hint=hint, subject=str(file)) from error
    finally:
        with suppress(OSError):  # what went wrong before is what matters
            temporary.unlink(missing_ok=True)


def dumps(record: ProfileRecord, *, compact: bool = True, path: str = "profile") -> str:
    """Turn a profile into JSON text.

    Args:
        record: the profile; it is checked first.
        compact: store each distinct long column once and packed, in `columns`, and its index where it belongs; `False`
            writes every sample as a number where it belongs, for other programs. Both read back.
        path: what to call the profile in messages.

    Raises:
        ProfileFormatError: a value of the record does not fit its type.
        ConservationError: the rows do not add up.
    """
    _check_version(record.schema_version, path)
    try:
        pool = ColumnPool() if compact else None
        plain = codec(ProfileRecord).encode(record, pool)
        if pool is not None:
            plain[_COLUMNS] = pool.packed()
    except Mismatch as mismatch:
        hint = "this is a fault of graphbench, not of the profile's user: please report it"
        raise ProfileFormatError(path, mismatch.field, mismatch.found, mismatch.expected, hint=hint) from mismatch
    check(record, path=path)
    separators = (",", ":") if compact else None
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=separators) + "\n"


def loads(text: str, *, path: str = "profile") -> ProfileRecord:
    """Turn JSON text into a profile and prove that it is whole.

    Args:
        text: what `dumps` made.
        path: what to call the profile in messages.

    Raises:
        ProfileFormatError: not JSON, a wrong, missing or unknown field, or a newer schema.
        ConservationError: its rows do not add up.
    """
    with collector_paused():
        record = _decode(_parse(text, path), path)
        check(record, path=path)
    return record


def _decode(plain: Any, path: str) -> ProfileRecord:
    if not isinstance(plain, dict):
        raise ProfileFormatError(path, None, describe(plain), "an object", hint=_NOT_A_PROFILE)
    if "schema_version" not in plain:
        raise ProfileFormatError(path, "schema_version", "no such field", "it to be present", hint=_NOT_A_PROFILE)
    _check_version(plain["schema_version"], path)
    try:
        pool = at(f".{_COLUMNS}", ColumnPool.read, plain.pop(_COLUMNS, []))
        record = _record(plain, pool)
    except Mismatch as mismatch:
        raise ProfileFormatError(path, mismatch.field, mismatch.found, mismatch.expected) from mismatch
    return record


def _record(plain: Any, pool: ColumnPool) -> ProfileRecord:
    record: ProfileRecord
    try:
        record = quick_decoder(ProfileRecord)(plain, pool)
    except (Mismatch, KeyError):  # decoded again, slowly, to say where
        record = codec(ProfileRecord).decode(plain, pool)
    return record


def _parse(text: str, path: str) -> Any:
    def refuse(literal: str) -> NoReturn:
        raise ProfileFormatError(path, None, f"the literal {literal}", "finite numbers", hint=_NOT_A_PROFILE)

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        what = "an empty file" if not text.strip() else f"no valid JSON at line {error.lineno}, column {error.colno}"
        ends_early = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        if text.strip() and ends_early:
            what = f"truncated JSON (it ends at line {error.lineno})"
        raise ProfileFormatError(path, None, f"{what} ({error.msg})", "a saved profile", hint=_NOT_A_PROFILE) from error
    except RecursionError as error:
        raise ProfileFormatError(
            path, None, "JSON nested too deeply", "a saved profile", hint=_NOT_A_PROFILE
        ) from error
    except ValueError as error:  # an integer with more digits than Python converts
        raise ProfileFormatError(path, None, str(error), "a saved profile", hint=_NOT_A_PROFILE) from error


def _check_version(version: object, path: str) -> None:
    if type(version) is not int or version < 1:
        raise ProfileFormatError(path, "schema_version", describe(version), f"the whole number {SCHEMA_VERSION}")
    if version < SCHEMA_VERSION:
        hint = "an unreleased graphbench wrote this profile: measure again"
        raise ProfileFormatError(path, "schema_version", f"schema {version}", f"{SCHEMA_VERSION}", hint=hint)
    if version > SCHEMA_VERSION:
        hint = "a newer graphbench wrote this profile: upgrade graphbench to read it"
        raise ProfileFormatError(path, "schema_version", f"schema {version}", f"at most {SCHEMA_VERSION}", hint=hint)
