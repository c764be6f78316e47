"""What a slice tells when it is clicked: every column of its row by its CSV name, source line and generated code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from graphbench.measurements import SourceLine
from graphbench.records import KernelRecord, RegionRecord
from graphbench.report.column import Column
from graphbench.report.values import plain_value

RowT = TypeVar("RowT")


def column_args(columns: Sequence[Column[RowT]], row: RowT) -> dict[str, Any]:
    """A row's columns by their names in CSV, in the units of CSV. What is missing or empty is left out."""
    return known({column.csv_name: plain_value(column, row) for column in columns})


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
    """Those that are known and not empty."""
    return {key: value for key, value in values.items() if value is not None and value != ""}
