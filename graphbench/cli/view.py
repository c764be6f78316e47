"""How the tables of a profile are shown: the flags of it, and what they ask of a reporter."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphbench.analysis.fold_choice import FOLD_CHOICES, FoldChoice
from graphbench.analysis.group_by import GROUP_BY, meanings
from graphbench.cli.common import positive_int
from graphbench.cli.terminal import ColorChoice, add_terminal_flags, draws_blocks, is_terminal, terminal_width
from graphbench.errors import UsageError
from graphbench.report.base import DEFAULT_WIDTH, WIDE_WIDTH

if TYPE_CHECKING:
    from graphbench.records import ProfileRecord
    from graphbench.report.base import RenderOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """How a table is cut, sorted, grouped and folded. `top` rows; `sort` a column's name; `depth` of module paths.

    `width` of a line in characters, `None` for that of the terminal; `color` says when colours are printed.
    `what_if` are patterns of nodes, and how much faster those are supposed to be.

    Raises:
        UsageError: a depth without modules, found before minutes of measuring.
    """

    top: int | None
    sort: str | None
    wide: bool
    group_by: str | None
    depth: int | None
    fold: FoldChoice = "auto"
    width: int | None = None
    color: ColorChoice = "auto"
    what_if: Sequence[tuple[str, float]] = ()

    def __post_init__(self) -> None:
        if self.depth is not None and self.group_by != "module":
            raise UsageError(
                f"--depth {self.depth} without --group-by module: only module paths are cut",
                hint="add --group-by module, or leave --depth out",
                subject="--depth",
            )

    def keywords(self) -> RenderOptions:
        """The keywords of a reporter's `render`; what was not asked for is left to its own default."""
        chosen: RenderOptions = {}
        if self.top is not None:
            chosen["top"] = self.top
        if self.sort is not None:
            chosen["sort"] = self.sort
        if self.wide:
            chosen["wide"] = True
        if self.group_by is not None:
            chosen["group_by"] = self.group_by
        if self.depth is not None:
            chosen["depth"] = self.depth
        if self.width is not None:
            chosen["width"] = self.width
        if self.fold == "always":
            chosen["fold"] = self.fold
        return chosen

    def on_screen(self) -> RenderOptions:
        """The keywords of a text that is printed: as wide as the terminal, where that is what it is printed on.

        There long tables are folded, and have bars where the terminal can draw them.
        """
        chosen, columns = self.keywords(), terminal_width()
        if is_terminal() and self.fold == "auto":
            chosen["fold"] = self.fold
        if draws_blocks():
            chosen["blocks"] = True
        if columns is not None and self.width is None:
            chosen["width"] = max(columns, WIDE_WIDTH) if self.wide else columns
        return chosen


def predictions(record: ProfileRecord, view: ViewOptions, width: int = DEFAULT_WIDTH) -> str:
    """What `--what-if` asks for, as text; empty where it asks for nothing.

    Raises:
        UsageError: a pattern that matches nothing.
    """
    if not view.what_if:
        return ""
    from graphbench.analysis.what_if import what_if
    from graphbench.report.grid import wrap

    found = [what_if(record, pattern, factor) for pattern, factor in view.what_if]
    return wrap([line for entry in found for line in entry.lines()], width)


def add_view_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the fields of `ViewOptions`."""
    group = parser.add_argument_group("table")
    group.add_argument("--top", type=positive_int, metavar="N", help="print the N first rows of each table")
    group.add_argument(
        "--sort", type=sort_key, metavar="COLUMN", help="sort rows by this column of a table instead of by cost"
    )
    group.add_argument("--wide", action="store_true", help="print every column")
    group.add_argument(
        "--group-by",
        choices=GROUP_BY,
        help=f"sums in the place of nodes and fusions. {meanings(GROUP_BY)}",
    )
    group.add_argument(
        "--depth", type=positive_int, metavar="N", help="with --group-by module: cut paths after N parts"
    )
    group.add_argument(
        "--fold",
        choices=FOLD_CHOICES,
        default="auto",
        help="nodes and kernels that layers repeat are one row. auto: of long tables on a terminal, without --wide; "
        "default: %(default)s",
    )
    group.add_argument(
        "--what-if",
        action="append",
        type=supposed,
        default=[],
        metavar="PATTERN[=FACTOR]",
        help="predict the step if these nodes, op types or modules (layers.*.mlp) were so much faster, by default 2, "
        "with inf gone; repeatable",
    )
    add_terminal_flags(group)


def supposed(text: str) -> tuple[str, float]:
    """An argument such as `gelu*=3`: a pattern, and a factor, which is 2 where it is left out."""
    pattern, equals, number = text.rpartition("=")
    if not equals:
        return text, 2.0
    try:
        factor = float(number)
    except ValueError:
        factor = 0.0
    if not factor > 0 or not pattern:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a pattern and a factor above 0, as layers.*.act=2")
    return pattern, factor


def sort_key(text: str) -> str:
    """An argument that names a column, by its header or by its name in CSV.

    Raises:
        UsageError: no table has it.
    """
    # Imported here: most command lines do not sort.
    from graphbench.report.columns import find_sort

    return find_sort(text)
