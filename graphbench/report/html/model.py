"""What a page consists of: sections of prose, tables and figures, and what a click on a row shows. Pure data.

A page of one profile, of a diff and of a scaling are all such a `Page`; `render.py` turns one into HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from graphbench.analysis.generated_code import KernelCode
from graphbench.measurements import JsonValue
from graphbench.records import KernelRecord, NodeRecord, RegionRecord
from graphbench.report.column import Kind

RowKind = Literal["node", "kernel", "gap", "break", "place", "group", "opportunity"]
Filter = Literal["", "choice", "any"]


def node_id(region: RegionRecord | str, node: NodeRecord | str) -> str:
    """How a node is named on a page and in its links: `r0/conv1`."""
    return addressed(f"{_name(region, 'key')}/{_name(node, 'name')}")


def kernel_id(region: RegionRecord | str, kernel: KernelRecord | str) -> str:
    """How a kernel is named on a page and in its links: `r0/forward/triton_poi_fused_relu_0:3`."""
    return addressed(f"{_name(region, 'key')}/{_name(kernel, 'key')}")


def gap_id(row: int) -> str:
    """How a gap op is named: by its position in `StepRecord.rows`."""
    return f"step/{row}"


def addressed(name: str) -> str:
    """A name as an id. Half a character, as in a path that is no UTF-8, is written out: no address can hold it."""
    return name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column of a table, all rows of it.

    `values` are what rows are sorted by and what the profile holds (times in nanoseconds, fractions from 0 to 1, `None`
    where missing); `texts` are what the cells say. `unit` stands beside the name. `hidden` columns are shown on demand.
    `order` is what rows are sorted by where `values` would sort wrongly. Rows can be filtered by `choice` of one of the
    values (up to an arrow: `fused` of `fused → kernel`), or by whether there is `any` value but `ok`.
    """

    key: str
    name: str
    kind: Kind
    values: tuple[JsonValue, ...]
    texts: tuple[str, ...]
    unit: str = ""
    help: str = ""
    hidden: bool = False
    order: tuple[JsonValue, ...] = ()
    filter: Filter = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table. `ids` name its rows for links and clicks; `sort` is the key of the column it comes sorted by.

    `head` is the key of the column that names a row, by default the first. `notes` explain its marks; `empty` is said
    in the place of a table without rows. A `closed` table is opened on demand.
    """

    id: str
    title: str
    columns: tuple[TableColumn, ...]
    ids: tuple[str, ...] = ()
    sort: str = ""
    head: str = ""
    notes: tuple[str, ...] = ()
    empty: str = ""
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One picture: `traces` and `layout` as plotly takes them, as plain values; colours are `var(--NAME)` of the page.

    `customdata` of a trace holds the id of the row that a point is, so that a click shows it. `caption` says what is
    drawn, of what, and what the total is; `totals_ns` are the sums that must agree with the summary, by name.
    `alternative` is the same in words and numbers, for those who do not see it. A `wide` one takes all of the page's
    width.
    """

    id: str
    title: str
    caption: str
    traces: tuple[dict[str, Any], ...]
    layout: dict[str, Any]
    totals_ns: Mapping[str, float] = field(default_factory=dict)
    alternative: tuple[tuple[str, str], ...] = ()
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The samples of one measurement of a row, in the order in which they were taken, in nanoseconds."""

    name: str
    values_ns: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What a click on a row shows: facts, other rows by what they are to it, code, samples.

    The values of its table's columns are shown anyway, `facts` is what no column has: names and texts, which may have
    several lines. `links` are heads, such as `executed by`, with ids of rows. `code` is the generated code.
    """

    id: str
    kind: RowKind
    title: str
    facts: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, tuple[str, ...]], ...] = ()
    code: KernelCode | None = None
    samples: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A figure to see first: `value` as it is written, `label` what it is, `note` what it is made of."""

    label: str
    value: str
    note: str = ""
    tone: Literal["", "good", "bad"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page: `tiles` and `lines` of prose above its figures and tables.

    `facts` are names and values, below them.
    """

    id: str
    title: str
    tiles: tuple[Tile, ...] = ()
    lines: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole page; `details` by id of the row. All texts are plain: whoever renders them escapes them."""

    title: str
    lines: tuple[str, ...]
    sections: tuple[Section, ...]
    details: Mapping[str, Detail] = field(default_factory=dict)


def _name(entry: object, attribute: str) -> str:
    return entry if isinstance(entry, str) else str(getattr(entry, attribute))
