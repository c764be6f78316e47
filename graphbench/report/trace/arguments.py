"""What a slice tells when it is clicked: every column of its row by its CSV name, source line and generated code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from graphbench.measurements import SourceLine
from graphbench.plaintext import clean, clean_lines
from graphbench.records import KernelRecord, RegionRecord
from graphbench.report.column import Column

RowT = TypeVar("RowT")
_DIGITS: Final = 15  # Perfetto misreads numbers with more than 18 digits behind the point
_MOST: Final = 2**63 - 1


def column_args(columns: Sequence[Column[RowT]], row: RowT) -> dict[str, Any]:
    """A row's columns by their names in CSV, in the units of CSV. What is missing or empty is left out."""
    found: dict[str, Any] = {}
    for column in columns:
        value = column.get(row)
        if value is None or value == "":
            continue
        if column.kind == "fraction" and isinstance(value, (int, float)):
            value = 100 * value
        found[column.csv_name] = plain(value)
    return found


def source_args(source: SourceLine | None) -> dict[str, Any]:
    """The line of the user's code, its file with its folders."""
    if source is None:
        return {}
    told = {"source_file": source.file, "source_line": source.line, "source_function": source.function}
    return known({**told, "source_code": source.code.strip()})


def code_args(region: RegionRecord, kernel: KernelRecord, call: str) -> dict[str, Any]:
    """Where the generated code calls a kernel: `kernel` is its key in `region`, `call` the lines of the wrapper."""
    found: dict[str, Any] = {"row": f"{region.key}/{kernel.key}", "generated_code_line": kernel.line}
    return known({**found, "generated_code": call})


def known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are known and not empty, as a trace may hold them."""
    return {key: plain(value) for key, value in values.items() if value is not None and value != ""}


def plain(value: object) -> Any:
    """A value as viewers read it: what is no number in their range is text in which every character shows."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _MOST else str(value)
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return clean_lines(str(value)) if "\n" in str(value) else clean(str(value))
