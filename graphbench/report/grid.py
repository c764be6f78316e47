"""From rows and columns to a table's cells: one time unit a column, long names cut in the middle, never wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TypeVar

from graphbench.plaintext import clean, clean_lines, quoted
from graphbench.report.base import DEFAULT_WIDTH, LEAST_WIDTH
from graphbench.report.cells import Grid, cell_width, fit, padded, shortened, widths
from graphbench.report.column import Column, Kind
from graphbench.report.names import shorten_head
from graphbench.units import TimeUnit, format_number, format_ratio, format_time, time_unit

RowT = TypeVar("RowT")
_LONGEST_CELL = 400  # a column is as wide as its widest cell, in every row


def build(
    columns: Sequence[Column[RowT]],
    rows: Sequence[RowT],
    *,
    wide: bool,
    without: Sequence[str] = (),
    leave: Sequence[str] = (),
) -> Grid:
    """Fill a table's cells. Columns for which no row has a value are left out; all times have one unit.

    Args:
        columns: all columns of this kind of table; those not to be shown are left out here.
        rows: what to show, in order.
        wide: whether the `wide` columns are shown.
        without: keys of columns that would say nothing here.
        leave: keys of columns that may leave where there is too little room, the first of them first; none does where
            all columns were asked for (`wide`).
    """
    grid = Grid(headers=[], rows=[[] for _ in rows], aligns=[], shrink=[], shorten=[], words=[], leave=[])
    shown = shown_values(columns, rows, wide=wide, without=without)
    unit = table_unit(shown)
    for column, values in shown:
        in_unit = column_unit(column, unit)
        grid.headers.append(f"{column.name}\n{in_unit}" if in_unit else column.name)
        grid.aligns.append(column.align)
        grid.words.append(column.word + "." * column.name.endswith("."))
        grid.leave.append(_rank(column, leave, wide))
        grid.shrink.append(column.shrink if column.kind == "text" else None)
        grid.shorten.append(column.shorten if column.kind == "text" else None)
        for line, cell in zip(grid.rows, cell_texts(column, rows, values, unit), strict=True):
            line.append(cell)
    return grid


def _rank(column: Column[RowT], leave: Sequence[str], wide: bool) -> int | None:
    """When a column leaves: never where all are wanted, unless it is a picture of another."""
    return leave.index(column.key) if column.key in leave and not (wide and column.name) else None


def shown_values(
    columns: Sequence[Column[RowT]], rows: Sequence[RowT], *, wide: bool = False, without: Sequence[str] = ()
) -> list[tuple[Column[RowT], list[object]]]:
    """The columns that a table of these rows shows, each with what stands in its cells."""
    shown = []
    for column in columns:
        if not _is_left_out(column, wide, without):
            values = brief_values(column, rows)
            if not rows or _says_something(column, values):
                shown.append((column, values))
    return shown


def _is_left_out(column: Column[RowT], wide: bool, without: Sequence[str]) -> bool:
    return column.shown == "csv" or (column.shown == "wide" and not wide) or column.key in without


def is_shown(column: Column[RowT], values: Sequence[object], *, without: Sequence[str] = ()) -> bool:
    """Whether a table shows a column at first in whose cells these values stand."""
    return not _is_left_out(column, False, without) and (not values or _says_something(column, values))


def brief_values(column: Column[RowT], rows: Sequence[RowT]) -> list[object]:
    """What stands in a column's cells: shorter than what CSV lists, where a column knows how."""
    return [(column.brief or column.get)(row) for row in rows]


def table_unit(shown: Sequence[tuple[Column[RowT], Sequence[object]]]) -> TimeUnit:
    """The one unit of all times of a table."""
    return time_unit(
        value
        for column, values in shown
        if column.kind == "time"
        for value in values
        if isinstance(value, (int, float))
    )


def column_unit(column: Column[RowT], unit: TimeUnit) -> str:
    """What a column's numbers are in, where its name does not say it."""
    return {"time": str(unit), "fraction": "%"}.get(column.kind, "")


def cell_texts(column: Column[RowT], rows: Sequence[RowT], values: Sequence[object], unit: TimeUnit) -> list[str]:
    """A column's cells, with the marks of their rows."""
    known: dict[object, str] = {}  # many rows of a large table say the same
    cells = []
    for value in values:
        key = str(value) if column.kind == "text" and value is not None else value
        cell = known.get(key)
        if cell is None:
            cell = known[key] = column.missing if key is None else _cell(column.kind, key, unit)
        cells.append(cell)
    if column.marks is None:
        return cells
    return [column.marks(row) + cell for row, cell in zip(rows, cells, strict=True)]


def _says_something(column: Column[RowT], values: Sequence[object]) -> bool:
    if all(value is None for value in values):
        return False
    if column.shown == "several":
        return len(set(values)) > 1
    return any(values) if column.shown == "nonzero" else True


class Drawn(str):
    """A table: the only text of a report that has several lines and is not wrapped."""

    __slots__ = ()


def draw(grid: Grid, width: int) -> Drawn:
    """Draw a grid as plain text of at most `width` characters a line, where the numbers alone leave room for that."""
    return drawn(grid, width)[0]


def draw_lines(grid: Grid, width: int) -> list[str]:
    """The same, and below it which columns it has no room for."""
    table, gone = drawn(grid, width)
    told = [word for word in gone if word]
    return [table, f"no room for: {', '.join(told)}; wider lines show more"] if told else [table]


def drawn(grid: Grid, width: int) -> tuple[Drawn, list[str]]:
    """The table, and the headers of the columns that it has no room for."""
    if not grid.headers:
        return Drawn(), []
    gap = "  " if sum(widths(grid)) + 2 * (len(grid.headers) - 1) <= width else " "
    fitted, gone = fit(grid, width, len(gap))
    sizes = widths(fitted)
    stacked = [header.split("\n") for header in fitted.headers]
    height = max(map(len, stacked))
    bottom = [[""] * (height - len(lines)) + lines for lines in stacked]
    rule = ["-" * size for size in sizes]
    columns = list(zip(sizes, fitted.aligns, strict=True))
    lines = [
        gap.join(padded(cell, size, align) for cell, (size, align) in zip(row, columns, strict=True)).rstrip()
        for row in [*map(list, zip(*bottom, strict=True)), rule, *fitted.rows]
    ]
    return Drawn("\n".join(lines)), gone


def wrap(lines: Sequence[str], width: int) -> str:
    """Join lines to a text that is safe to print.

    Prose that is too long continues on indented lines, and never on others, whatever names it quotes; tables are left
    alone, but for lines so short that the terminal would break every row.
    """
    wrapped: list[str] = []
    cut = False
    for line in lines:
        if isinstance(line, Drawn):
            rows = clean_lines(line).split("\n")
            if width < LEAST_WIDTH and any(cell_width(row) > width for row in rows):
                rows, cut = [shortened(row, width, shorten_head) for row in rows], True
            wrapped += rows
            continue
        prose = clean(line)
        wrapped += [prose] if len(prose) <= width else _wrapped(prose, width)
    if cut:
        wrapped += _wrapped(f"…: rows are cut at {width} characters; lines of {LEAST_WIDTH} have room for them", width)
    return "\n".join(wrapped) + "\n"


def text_of(parts: Sequence[str | Grid], width: int = DEFAULT_WIDTH) -> str:
    """Prose and tables as one text that is safe to print, ending with a line break."""
    return wrap([draw(part, width) if isinstance(part, Grid) else part for part in parts], width)


def _wrapped(prose: str, width: int) -> list[str]:
    return textwrap.wrap(prose, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _cell(kind: Kind, value: object, unit: TimeUnit) -> str:
    """A known value; two times are a range, and a text in a column of numbers stands as it is."""
    if kind == "time" and isinstance(value, tuple):
        return "..".join(format_time(part, unit) for part in value)
    if kind == "text" or not isinstance(value, (int, float)):
        return quoted(str(value), _LONGEST_CELL)
    if kind == "time":
        return format_time(value, unit)
    if kind == "fraction":
        return f"{100 * value:.1f}"
    if kind == "ratio":
        return format_ratio(value)
    return format_number(value) if value % 1 else f"{value:.0f}"
