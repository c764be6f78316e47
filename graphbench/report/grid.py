"""From rows and columns to a table's cells: one time unit a column, long names cut in the middle, never wrapped."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from graphbench.report.columns import Column
from graphbench.units import MISSING, format_number, format_ratio, format_time, time_unit

RowT = TypeVar("RowT")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Cells ready to be drawn. `absent` names columns that were left out since no row has a value."""

    headers: list[str]
    rows: list[list[str]]
    aligns: list[str]
    shrink: list[int | None]
    tails: list[bool]
    absent: list[str]


def build(columns: Sequence[Column[RowT]], rows: Sequence[RowT], *, wide: bool) -> Grid:
    """Fill a table's cells.

    Args:
        columns: all columns of this kind of table; those not to be shown are left out here.
        rows: what to show, in order.
        wide: whether the `wide` columns are shown.
    """
    grid = Grid(headers=[], rows=[[] for _ in rows], aligns=[], shrink=[], tails=[], absent=[])
    for column in columns:
        if column.shown == "csv" or (column.shown == "wide" and not wide):
            continue
        values = [column.get(row) for row in rows]
        if rows and (column.shown == "several" and len(set(values)) == 1):
            continue
        if rows and all(value is None for value in values):
            grid.absent.append(_plain_name(column))
            continue
        header, cells = _cells(column, values)
        if column.marks is not None:
            cells = [column.marks(row) + cell for row, cell in zip(rows, cells, strict=True)]
        grid.headers.append(header)
        grid.aligns.append(column.align)
        grid.shrink.append(column.shrink if column.kind == "text" else None)
        grid.tails.append(column.tail)
        for line, cell in zip(grid.rows, cells, strict=True):
            line.append(cell)
    return grid


def draw(grid: Grid, width: int) -> str:
    """Draw a grid as plain text of at most `width` characters a line, where the numbers alone leave room for that."""
    # Imported here: a CSV or JSON report needs no table.
    from tabulate import DataRow, TableFormat, tabulate

    if not grid.headers:
        return ""
    natural = sum(_widths(grid)) + 2 * (len(grid.headers) - 1)
    gap = "  " if natural <= width else " "
    fitted = fit(grid, width - len(gap) * (len(grid.headers) - 1))
    row = DataRow("", gap, "")
    style = TableFormat(None, None, None, None, headerrow=row, datarow=row, padding=0, with_header_hide=None)
    # The header goes in as rows: tabulate pads real headers, and keeps their line breaks in its own formats only.
    text = tabulate([*_header_rows(grid, fitted), *fitted], tablefmt=style, colalign=grid.aligns, disable_numparse=True)
    return "\n".join(line.rstrip() for line in text.splitlines())


def fit(grid: Grid, width: int) -> list[list[str]]:
    """Shorten texts until the columns take `width` characters together: the widest column gives way first."""
    widths = _widths(grid)
    floors = [
        min(size, max(floor, _header_width(header))) if floor is not None else size
        for size, floor, header in zip(widths, grid.shrink, grid.headers, strict=True)
    ]
    limits = list(widths)
    while sum(limits) > width:
        candidates = [index for index in range(len(limits)) if limits[index] > floors[index]]
        if not candidates:
            break
        limits[max(candidates, key=lambda index: limits[index])] -= 1
    shortened = [index for index in range(len(limits)) if limits[index] < widths[index]]
    rows = [list(row) for row in grid.rows]
    for index in shortened:
        for row in rows:
            row[index] = shorten(row[index], limits[index], tail=grid.tails[index])
    return rows


def shorten(text: str, width: int, *, tail: bool = False) -> str:
    """Cut a text to `width` characters in its middle; `tail` keeps twice as much of its end as of its start."""
    if len(text) <= width:
        return text
    keep = max(1, width - 1)
    end = (2 * keep + 2) // 3 if tail else keep // 2
    return text[: keep - end] + "…" + (text[-end:] if end else "")


def wrap(lines: Sequence[str], width: int) -> str:
    """Join lines to a text; prose that is too long continues on indented lines, tables are left alone."""
    wrapped: list[str] = []
    for line in lines:
        if "\n" in line or len(line) <= width:
            wrapped.append(line)
        else:
            wrapped += textwrap.wrap(
                line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
    return "\n".join(wrapped) + "\n"


def clean(text: str) -> str:
    """Make a name from user code safe for one cell: no line breaks, no terminal control characters."""
    return text if text.isprintable() else _CONTROL.sub("·", text)


def _plain_name(column: Column[RowT]) -> str:
    return column.key.replace("_", " ")


def _cells(column: Column[RowT], values: Sequence[object]) -> tuple[str, list[str]]:
    if column.kind == "text":
        return column.name, [MISSING if value is None else clean(str(value)) for value in values]
    numbers = [float(value) if isinstance(value, (int, float)) else None for value in values]
    if column.kind == "time":
        unit = time_unit(numbers)
        return f"{column.name}\n{unit}", [format_time(number, unit) for number in numbers]
    if column.kind == "fraction":
        return f"{column.name}\n%", [MISSING if n is None else f"{100 * n:.1f}" for n in numbers]
    if column.kind == "ratio":
        return column.name, [format_ratio(number) for number in numbers]
    return column.name, [MISSING if n is None else format_number(n) if n % 1 else f"{n:.0f}" for n in numbers]


def _header_rows(grid: Grid, rows: list[list[str]]) -> list[list[str]]:
    """The header's lines, bottom-aligned, and the rule below them."""
    stacked = [header.split("\n") for header in grid.headers]
    height = max(map(len, stacked))
    padded = [[""] * (height - len(lines)) + lines for lines in stacked]
    widths = [max(_header_width(h), *(len(row[i]) for row in rows), 0) for i, h in enumerate(grid.headers)]
    return [*(list(line) for line in zip(*padded, strict=True)), ["-" * width for width in widths]]


def _header_width(header: str) -> int:
    return max(map(len, header.split("\n")))


def _widths(grid: Grid) -> list[int]:
    return [
        max([_header_width(header), *(len(row[index]) for row in grid.rows)])
        for index, header in enumerate(grid.headers)
    ]
