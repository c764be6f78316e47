"""`ProfileScaling`: what `graphbench.scaling` returns, a facade over profiles of one model on several inputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from graphbench.analysis.scaling import Scaling, TotalScaling, scaling
from graphbench.analysis.scaling_groups import GroupScaling
from graphbench.analysis.scaling_rows import NodeScaling
from graphbench.analysis.shape_groups import by_size
from graphbench.analysis.sizes import Axis
from graphbench.arguments import check_type
from graphbench.document import read
from graphbench.errors import UsageError
from graphbench.records import ProfileRecord
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.report.row_view import Rows
from graphbench.report.scaling_columns import group_columns, node_columns, total_columns
from graphbench.report.scaling_table import SHOWN_ROWS, headlines, markdown_scaling, render_scaling
from graphbench.report.values import plain_value

ScalingTable = Literal["nodes", "ops", "modules", "totals"]
SCALING_TABLES: Final[tuple[ScalingTable, ...]] = ("nodes", "ops", "modules", "totals")


class ProfileScaling:
    """Every node's time over the sizes of the inputs. Printing it gives the tables; `result` is all of it as data.

    Times in the rows are nanoseconds, shares fractions of 1.
    """

    def __init__(self, result: Scaling) -> None:
        self.result = result

    @property
    def nodes(self) -> Rows[NodeScaling]:
        """Nodes, forward and backward, in program order."""
        return Rows(self.result.rows, node_columns(self.result), what="node", index=("region", "name", "phase"))

    @property
    def ops(self) -> Rows[GroupScaling]:
        """Sums by op type, what takes most at the largest size first."""
        return Rows(self.result.ops, group_columns(self.result, "op"), what="op type", index=("group",))

    @property
    def modules(self) -> Rows[GroupScaling]:
        """Sums by module, repeated layers as one."""
        return Rows(self.result.modules, group_columns(self.result, "module"), what="module", index=("group",))

    @property
    def totals(self) -> Rows[TotalScaling]:
        """Whole runs without labels, and their speedup."""
        return Rows(self.result.totals, total_columns(self.result), what="total", index=("name",))

    def table(self, *, top: int | None = SHOWN_ROWS, wide: bool = False, width: int = DEFAULT_WIDTH) -> str:
        """The tables as text.

        Args:
            top: how many rows per table at most, what takes most at the largest size first; `None` for all.
            wide: also what every node reads, and its part of compiled kernels.
            width: of a line, in characters.

        Raises:
            UsageError: a value of another type, or `top` below 1.
        """
        check_type("wide", wide, bool)
        check_type("width", width, int)
        return render_scaling(self.result, top=_checked_top(top), wide=wide, width=width)

    def markdown(self, *, top: int | None = SHOWN_ROWS) -> str:
        """The tables as Markdown.

        Raises:
            UsageError: a value of another type, or `top` below 1.
        """
        return markdown_scaling(self.result, top=_checked_top(top))

    def html(self) -> str:
        """Everything as a page: one HTML file that loads nothing from elsewhere.

        Raises:
            SetupError: jinja2 or plotly is not installed.
        """
        from graphbench.report.html.render import render_page
        from graphbench.report.html.scaling_page import scaling_page

        return render_page(scaling_page(self.result))

    def csv(self, table: ScalingTable = "nodes") -> str:
        """One table as CSV: every row and column, times in nanoseconds.

        Args:
            table: `nodes`, `ops`, `modules` or `totals`.

        Raises:
            UsageError: no such table.
        """
        return self._rows(table).to_csv()

    def to_json(self) -> str:
        """Everything as JSON, one object per row with the names of the CSV. A missing value is `null`."""
        found = self.result
        told: dict[str, Any] = {
            "subject": found.subject,
            "timer": found.timer,
            "sets": [
                {"label": label, "inputs": inputs, "size": size}
                for label, inputs, size in zip(found.labels, found.inputs, found.axis.values, strict=True)
            ],
            "size": _axis(found.axis),
            "further_sizes": [_axis(axis) for axis in found.others],
            "symbols": dict(found.symbols),
            "headlines": headlines(found),
            "warnings": found.warnings,
        }
        for table in SCALING_TABLES:
            rows = self._rows(table)
            told[table] = [{column.csv_name: plain_value(column, row) for column in rows.columns} for row in rows]
        return json.dumps(told, indent=1, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from graphbench.report.html.fragment import scaling_fragment

        return scaling_fragment(self.result)

    def _rows(self, table: ScalingTable) -> Rows[Any]:
        if table not in SCALING_TABLES:
            hint = f"the tables are: {', '.join(SCALING_TABLES)}"
            raise UsageError(f"unknown table {table!r}", hint=hint, subject="table")
        rows: Rows[Any] = getattr(self, table)
        return rows


def by_size_of(record: ProfileRecord) -> tuple[ProfileScaling, ...]:
    """Every region that was measured with several groups of sizes, over these; none where there is none."""
    return tuple(map(ProfileScaling, by_size(record)))


def _axis(axis: Axis) -> dict[str, Any]:
    return {"name": axis.name, "values": axis.values, "together": axis.together, "groups": axis.groups}


def scaling_of_files(paths: Sequence[Path], names: Sequence[str], left_out: Sequence[str] = ()) -> ProfileScaling:
    """The comparison of saved profiles; `left_out` names further ones that were not measured.

    Raises:
        ProfileFormatError: one cannot be read.
        UsageError: they cannot be compared.
    """
    return ProfileScaling(scaling([read(path) for path in paths], names=names, left_out=left_out))


def _checked_top(top: int | None) -> int | None:
    check_type("top", top, int | None)
    if top is not None and top < 1:
        raise UsageError(f"top is {top}, expected at least 1", hint="leave it out", subject="top")
    return top
