"""One column of a table: its name, unit and value, where it is shown, and what rows are sorted by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from graphbench.report.names import Shorten, shorten
from graphbench.units import MISSING

RowT = TypeVar("RowT")
RowT_contra = TypeVar("RowT_contra", contravariant=True)
Kind = Literal["text", "time", "fraction", "ratio", "number"]
Shown = Literal["always", "several", "nonzero", "wide", "csv"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[RowT_contra]):
    """One column. `name` heads it in text; `key` is its name in CSV and for sorting.

    Times are given in nanoseconds, fractions as 0 to 1; `None` is a missing value. `shown`: `always`; `several` where
    its values differ between rows; `nonzero` where any is not 0; with `wide`; or in `csv` only. A column without any
    value is shown in CSV only. Tables show `brief` where CSV lists more. A text column may be shortened by `shorten`,
    down to `shrink` characters, and not at all where that is `None`. Rows are sorted by `order`, where the value itself
    would sort wrongly. `missing` stands for `None` in text.
    """

    name: str
    key: str
    kind: Kind
    get: Callable[[RowT_contra], object]
    shown: Shown = "always"
    shrink: int | None = 8
    shorten: Shorten = shorten
    brief: Callable[[RowT_contra], object] | None = None
    marks: Callable[[RowT_contra], str] | None = None
    order: Callable[[RowT_contra], object] | None = None
    missing: str = MISSING

    @property
    def align(self) -> Literal["left", "right"]:
        """Texts stand left, numbers right."""
        return "left" if self.kind == "text" else "right"

    @property
    def csv_name(self) -> str:
        """Name with unit, such as `isolated_p50_ns`."""
        return self.key + {"time": "_ns", "fraction": "_percent"}.get(self.kind, "")

    @property
    def title(self) -> str:
        """Its header in one line: `in-graph`, `p90/p50`, `max diff`, `kern.`."""
        head, hyphen, tail = self.name.partition("-\n")
        if hyphen:  # of the word itself, or because it is broken there: the key has no breaks
            parted = f"{head.split()[-1]}_{tail.split()[0]}".casefold() in self.key
            head = f"{head}{'-' if parted else ''}{tail}"
        return head.replace("/\n", "/").replace("\n/", "/").replace("\n", " ")

    @property
    def word(self) -> str:
        """Its header in one line and lower case, as a reader would type it."""
        return self.title.rstrip(".").casefold()


def sort_keys(columns: tuple[Column[RowT], ...], cost: str) -> Mapping[str, Callable[[RowT], object]]:
    """What rows can be sorted by: `cost`, which is the column of that key, and each column by its header or its key.

    Of columns with one header the first that this table shows is meant, else the first that CSV has.
    """
    keys = {column.key: column.order or column.get for column in columns}
    words: dict[str, Callable[[RowT], object]] = {}
    for column in sorted(columns, key=lambda column: column.shown == "csv"):
        words.setdefault(column.word, column.order or column.get)
    return {"cost": keys[cost], **words, **keys}
