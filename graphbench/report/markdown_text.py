"""Markdown from text, lines, columns and rows: escaped, in tables that render, long ones behind a fold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from graphbench.plaintext import clean
from graphbench.report.column import Column
from graphbench.report.grid import build
from graphbench.units import count_text

RowT = TypeVar("RowT")
SHOWN = 20
FOLDED = 40
"""Rows of a table before its fold and in it, unless asked for otherwise. GitHub takes comments of 65,536 characters."""
# Brackets are in every shape, as in f32[2,64]: they make a link only with what stands behind them.
_MARKUP = re.compile(r"[\\|<*_`~$]|\](?=[(\[:])|(?<=\])\[")


def escape(text: str) -> str:
    """Escape what Markdown would read as markup, as a link or an image, or as the end of a cell."""
    return _MARKUP.sub(r"\\\g<0>", clean(text))


def bullets(lines: Sequence[str]) -> str:
    """One bullet a line; what is indented is a bullet of the one above."""
    return "\n".join(f"{' ' * _indent(line)}- {escape(line.strip())}" for line in lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def rows_table(columns: Sequence[Column[RowT]], rows: Sequence[RowT], wide: bool = False) -> str:
    """A table of the columns that are shown by default, or with `wide` of more."""
    if not rows:
        return "none"
    grid = build(columns, rows, wide=wide)
    return cells_table([_in_one_line(header) for header in grid.headers], grid.rows, grid.aligns)


def folding(columns: Sequence[Column[RowT]], rows: Sequence[RowT], wide: bool, top: int | None) -> list[str]:
    """A table of rows; of many, those that nobody asked for by number are behind a fold, or only counted."""
    if top is not None or len(rows) <= SHOWN:
        return [rows_table(columns, rows, wide)]
    grid = build(columns, rows[: SHOWN + FOLDED], wide=wide)
    headers = [_in_one_line(header) for header in grid.headers]
    parts = [cells_table(headers, grid.rows[:SHOWN], grid.aligns)]
    hidden = grid.rows[SHOWN:]
    parts += [folded(f"{count_text(len(hidden), 'more row')}", cells_table(headers, hidden, grid.aligns))]
    return [*parts, *left_out(len(rows))]


def folded(summary: str, text: str) -> str:
    """What is shown on a click. GitHub renders Markdown inside only after an empty line."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def left_out(count: int, shown: int = SHOWN) -> list[str]:
    """What is said of a table of `count` rows, of which more than fit behind the fold are left."""
    rest = count - shown - FOLDED
    return (
        [f"{count_text(rest, 'further row')} not shown: `--top {count}` shows all, CSV has them."] if rest > 0 else []
    )


def _in_one_line(header: str) -> str:
    """A header without line breaks; a word that was broken is whole again, `in-graph` keeps its hyphen."""
    return header.replace("in-\n", "in-").replace("-\n", "").replace("\n", " ")


def cells_table(headers: Sequence[str], rows: Sequence[Sequence[str]], aligns: Sequence[str]) -> str:
    """A table of cells."""
    # Written here rather than by tabulate, whose Markdown formats leave `|` inside a cell as it is.
    marks = ["---:" if align == "right" else ":---" for align in aligns[: len(headers)]]
    lines = [[escape(header) for header in headers], marks, *([escape(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
