"""Saved profiles: one `ProfileRecord` as versioned JSON. Whatever is read or written is proven whole first."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NoReturn

from graphbench import checksum
from graphbench.codec import codec
from graphbench.collector import collector_paused
from graphbench.columnpool import ColumnPool, Constants
from graphbench.conservation import check
from graphbench.errors import ProfileFormatError
from graphbench.files import read_bounded, write_whole
from graphbench.jsonvalues import Mismatch, at, describe
from graphbench.quickcodec import quick_decoder
from graphbench.records import ProfileRecord
from graphbench.units import format_bytes

SCHEMA_VERSION = 9
"""2: a row's device kernels carry their launches; clocks, batches, Triton's choices and what
backward nodes differentiate were added. 5: peak memory of sides, regions and nodes, spilled inputs and the memory
budget were added. 6: least work of rows, traffic of kernels, refused fusions, compile times and ceilings were added. 7:
what the model was called with, and which rows were asked for within which time. 8: generated code, and where in it a
kernel is called. 9: symbolic sizes, groups of calls by their sizes, other backends, runs without CUDA graphs."""
MAX_FILE_BYTES = 1 << 30
"""16 times a profile of 10,000 nodes that all have samples of their own. Memory bound: see `read`."""
_COLUMNS = "columns"  # beside the fields of the record
# Lone surrogates, which UTF-8 lacks, and what a terminal obeys instead of showing it.
_ESCAPED = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_NOT_A_PROFILE = "pass a profile.json written by `graphbench run` or Profile.save"

__all__ = ["SCHEMA_VERSION", "check", "dumps", "loads", "read", "write"]


def read(path: str | os.PathLike[str]) -> ProfileRecord:
    """Read a saved profile and prove that it is whole.

    Whatever is in the file, reading it takes at most 100 times its size in memory and 32 MiB more; of an ordinary
    profile it takes 5 times.

    Args:
        path: file written by `write`.

    Raises:
        ProfileFormatError: no such file, not a file, unreadable, longer than `MAX_FILE_BYTES`, not a profile, damaged,
            a wrong field, or a newer schema.
        ConservationError: its rows do not add up.
    """
    file = Path(path)
    if not file.is_file():
        found = "a directory" if file.is_dir() else "something that is no regular file" if file.exists() else "no file"
        raise ProfileFormatError(str(file), None, found, "a saved profile", hint=_NOT_A_PROFILE)
    try:
        content = read_bounded(file, MAX_FILE_BYTES)
        if content is None:
            found, hint = f"a file of {format_bytes(file.stat().st_size)}", "document.loads reads text of any length"
            expected = f"at most {format_bytes(MAX_FILE_BYTES)}"
            raise ProfileFormatError(str(file), None, found, expected, hint=hint)
        text = content.decode("utf-8")
    except OSError as error:
        raise ProfileFormatError(
            str(file), None, f"an unreadable file ({error.strerror})", "a saved profile"
        ) from error
    except UnicodeDecodeError as error:
        found = f"no UTF-8 text (byte {error.start})"
        raise ProfileFormatError(str(file), None, found, "a saved profile", hint=_NOT_A_PROFILE) from error
    return _load(text, content, str(file))


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
    write_whole(file, dumps(record, path=str(file)), overwrite=overwrite)


def dumps(record: ProfileRecord, *, compact: bool = True, path: str = "profile") -> str:
    """Turn a profile into JSON text.

    Args:
        record: the profile; it is checked first.
        compact: store each distinct long column once and packed, in `columns`, and its index where it belongs, with a
            checksum in front; `False` writes every sample as a number where it belongs, for other programs, without
            one. Both read back.
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
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=separators) + "\n"
    text = text if text.isascii() else _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return checksum.with_checksum(text) if compact else text


def loads(text: str, *, path: str = "profile") -> ProfileRecord:
    """Turn JSON text into a profile and prove that it is whole.

    Args:
        text: what `dumps` made, or another program; only of a text without a checksum is none proven.
        path: what to call the profile in messages.

    Raises:
        ProfileFormatError: not JSON, damaged, a wrong, missing or unknown field, or a newer schema.
        ConservationError: its rows do not add up.
    """
    return _load(text, checksum.encoded(text), path)


def _load(text: str, content: bytes, path: str) -> ProfileRecord:
    """A profile from its text, of which `content` are the bytes."""
    with collector_paused():
        plain = _parse(text, path)
        if isinstance(plain, dict) and checksum.FIELD in plain:
            checksum.verify(plain.pop(checksum.FIELD), content, path)
        record = _decode(plain, Constants(len(content)), path)
        check(record, path=path)
    return record


def _decode(plain: Any, constants: Constants, path: str) -> ProfileRecord:
    if not isinstance(plain, dict):
        raise ProfileFormatError(path, None, describe(plain), "an object", hint=_NOT_A_PROFILE)
    if "schema_version" not in plain:
        raise ProfileFormatError(path, "schema_version", "no such field", "it to be present", hint=_NOT_A_PROFILE)
    _check_version(plain["schema_version"], path)
    try:
        pool = at(f".{_COLUMNS}", ColumnPool.read, plain.pop(_COLUMNS, []), constants)
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
