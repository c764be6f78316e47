"""Cells that have to fit into a line: how wide they are on a screen, and what gives way where there is too little room.

The order, until the columns fit:

1. every text in its short form, which may be all that is needed;
2. the widest text is shortened, down to what its column should have (`shrink`);
3. columns without a header, which are pictures of others, leave the table;
4. texts are shortened to less than they should have;
5. columns leave in the order of `leave`; a line below the table says which;
6. texts are shortened further, down to what still says something.

What is too wide even then runs over the line: numbers are never cut.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from graphbench.report.names import Shorten

_T = TypeVar("_T")

_ANY_WIDTH: Final = 1 << 30
_LEAST: Final = 3
_AS_THEY_SHOULD: Final = (1.0,)
_MODEST: Final = (1.0, 0.8, 0.6)
"""Parts of `shrink` to which texts are shortened before columns leave."""
_HARD: Final = (0.6, 0.4)
_ODD: Final = re.compile(r"[^\x00-\u02ff\u2010-\u2027\u2190-\u2193\u2200-\u22ff\u2580-\u259f]")
"""Whatever may take more or less than one column; the signs of a report do not."""
_WIDE: Final = ("W", "F")
_NO_WIDTH: Final = ("Mn", "Me", "Cf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Cells ready to be drawn. `shorten` and `shrink` say how, and how far, a column may be cut: `None` not at all.

    `words` are the headers in one line; columns with a `leave` may be left out, those with the smallest first.
    """

    headers: list[str]
    rows: list[list[str]]
    aligns: list[str]
    shrink: list[int | None]
    shorten: list[Shorten | None]
    words: list[str] = field(default_factory=list)
    leave: list[int | None] = field(default_factory=list)

    def without(self, position: int) -> Grid:
        """The same without one column."""

        def rest(entries: list[_T]) -> list[_T]:
            return entries[:position] + entries[position + 1 :]

        return Grid(
            headers=rest(self.headers),
            rows=[rest(row) for row in self.rows],
            aligns=rest(self.aligns),
            shrink=rest(self.shrink),
            shorten=rest(self.shorten),
            words=rest(self.words),
            leave=rest(self.leave),
        )


def cell_width(text: str) -> int:
    """Columns of a terminal that a text takes: two for a wide character, none for one that changes that before it.

    Source: Unicode's East Asian width, as terminals follow it (UAX 11); checked with Python 3.11, Unicode 14.
    """
    if text.isascii() or not _ODD.search(text):
        return len(text)
    return sum(
        0 if unicodedata.category(character) in _NO_WIDTH else 1 + (unicodedata.east_asian_width(character) in _WIDE)
        for character in text
    )


def spaced(text: str, beside: str) -> str:
    """The text with another character beside each wide one."""
    if text.isascii() or not _ODD.search(text):
        return text
    return "".join(character + beside * (cell_width(character) - 1) for character in text)


def padded(text: str, width: int, align: str) -> str:
    """A cell with blanks up to its column's width, on the right of a text and on the left of a number."""
    blanks = " " * (width - cell_width(text))
    return text + blanks if align == "left" else blanks + text


def shortened(text: str, width: int, shorten: Shorten) -> str:
    """A text that takes at most `width` columns of a terminal, cut by `shorten`, which counts characters.

    Where that keeps more than there is room for, the end goes.
    """
    found, room = shorten(text, width), width
    while cell_width(found) > width and room > 1:
        room -= 1
        found = shorten(text, room)
    while cell_width(found) > width and len(found) > 1:
        found = f"{found[:-2]}…"
    return found


def header_width(header: str) -> int:
    """Width of the widest line of a header."""
    return max(map(cell_width, header.split("\n")))


def widths(grid: Grid) -> list[int]:
    """Width of each column, its header included."""
    return [
        max([header_width(header), *(cell_width(row[index]) for row in grid.rows)])
        for index, header in enumerate(grid.headers)
    ]


def fit(grid: Grid, width: int, gap: int = 0) -> tuple[Grid, list[str]]:
    """Make the columns take `width` together, with a `gap` between two; also the headers of those that left.

    The module says what gives way, in which order.
    """
    if _taken(widths(grid), gap) <= width:
        return grid, []
    short = _short_forms(grid)
    gone = []
    while True:
        sizes = widths(short)
        leaving = [(rank, index) for index, rank in enumerate(short.leave) if rank is not None]
        index = min(leaving)[1] if leaving else -1
        shares = _AS_THEY_SHOULD if leaving and not short.words[index] else _MODEST
        if not leaving or _taken(_limits(short, sizes, width - gap * (len(sizes) - 1), shares), gap) <= width:
            break
        gone.append(short.words[index])
        grid, short = grid.without(index), short.without(index)
    limits = _limits(short, sizes, width - gap * (len(sizes) - 1), (*_MODEST, *_HARD))
    for index, form in enumerate(grid.shorten):
        if form is not None and limits[index] < sizes[index]:
            for source, row in zip(grid.rows, short.rows, strict=True):
                row[index] = shortened(source[index], limits[index], form)
    return short, gone


def _taken(sizes: Sequence[int], gap: int) -> int:
    return sum(sizes) + gap * (len(sizes) - 1)


def _short_forms(grid: Grid) -> Grid:
    """What says nothing new goes first, however much room there is."""
    rows = [
        [cell if form is None else form(cell, _ANY_WIDTH) for form, cell in zip(grid.shorten, row, strict=True)]
        for row in grid.rows
    ]
    return Grid(
        headers=grid.headers,
        rows=rows,
        aligns=grid.aligns,
        shrink=grid.shrink,
        shorten=grid.shorten,
        words=grid.words,
        leave=grid.leave,
    )


def _limits(grid: Grid, sizes: Sequence[int], room: int, shares: Sequence[float]) -> list[int]:
    """Widths to cut the columns to: the widest text gives way first, to each share of what it should have in turn."""
    limits = list(sizes)
    for share in shares:
        floors = [
            min(size, max(int(floor * share), _LEAST, header_width(header))) if floor is not None else size
            for size, floor, header in zip(sizes, grid.shrink, grid.headers, strict=True)
        ]
        while sum(limits) > room:
            candidates = [index for index in range(len(limits)) if limits[index] > floors[index]]
            if not candidates:
                break
            limits[max(candidates, key=lambda index: limits[index])] -= 1
    return limits
