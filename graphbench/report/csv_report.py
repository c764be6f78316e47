"""CSV of one table at a time: every column, times in whole nanoseconds, units in the headers, safe for spreadsheets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from graphbench.analysis.break_costs import break_rows
from graphbench.analysis.fusion import all_fusion_rows
from graphbench.analysis.gaps import gap_rows
from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.places import place_rows
from graphbench.analysis.shape_groups import size_rows
from graphbench.analysis.step_parts import step_parts
from graphbench.analysis.views import node_rows, sort_rows
from graphbench.errors import UsageError
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.break_columns import BREAK_COLUMNS
from graphbench.report.column import Column, sort_keys
from graphbench.report.columns import FUSION_COLUMNS, find_sort
from graphbench.report.gaps_table import GAP_COLUMNS
from graphbench.report.groups_table import GROUP_COLUMNS, checked_grouping, shown_groups
from graphbench.report.node_columns import NODE_COLUMNS, node_sort_keys
from graphbench.report.opportunities_table import OPPORTUNITY_COLUMNS
from graphbench.report.size_columns import SIZE_COLUMNS
from graphbench.report.step_table import PLACE_COLUMNS, STEP_COLUMNS
from graphbench.report.values import Value, plain_value

if TYPE_CHECKING:
    from typing_extensions import Unpack

RowT = TypeVar("RowT")

_OTHER_TABLES = ("gaps", "places", "step", "breaks", "opportunities", "sizes")
_FORMULA_STARTS = tuple("=+-@＝＋－＠")  # the wide ones too, which some spreadsheets take for the others


class CsvReporter:
    """One table as CSV: `table="nodes"` (default), `fusions`, `gaps`, `places`, `step`, `breaks`, or another.

    With `group_by` groups. Also takes `top` and `sort`.
    """

    suffix = ".csv"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The CSV text, header line included. A missing value is an empty cell; `reason` says why.

        Raises:
            UsageError: an unknown option, table or sort key.
        """
        check_options("csv", options, ("table", "top", "sort", "group_by", "depth"))
        grouping = checked_grouping(options.get("group_by"), options.get("depth"))
        table, sort, top = options.get("table", "nodes"), find_sort(options.get("sort", "cost")), options.get("top")
        if grouping is not None:
            if "table" in options:
                raise UsageError(
                    f"table={table!r} with group_by={grouping.by!r}: groups are a table of their own",
                    hint="leave out one of the two",
                    subject="table",
                )
            return csv_text(GROUP_COLUMNS, shown_groups(record, grouping, sort, top)[1])
        if table == "nodes":
            return csv_text(NODE_COLUMNS, sort_rows(node_rows(record), node_sort_keys(), sort, top))
        if table == "fusions":
            keys = sort_keys(FUSION_COLUMNS, "all_calls_fused_p50")
            return csv_text(FUSION_COLUMNS, sort_rows(all_fusion_rows(record), keys, sort, top))
        if table == "opportunities":
            return csv_text(OPPORTUNITY_COLUMNS, opportunities(record)[:top])
        if table == "sizes":
            return csv_text(SIZE_COLUMNS, size_rows(record)[:top])
        if table in _OTHER_TABLES:
            return _step_table(record, table, sort, top)
        known = ", ".join(("nodes", "fusions", *_OTHER_TABLES))
        raise UsageError(f"unknown table {table!r}", hint=f"the tables are: {known}", subject="table")


def _step_table(record: ProfileRecord, table: str, sort: str, top: int | None) -> str:
    """A table of the recorded step; its header alone where none was recorded. Parts and places keep their order."""
    step = record.step
    if table == "gaps":
        rows = gap_rows(step) if step else []
        return csv_text(GAP_COLUMNS, sort_rows(rows, sort_keys(GAP_COLUMNS, "in_graph"), sort, top))
    if table == "places":
        return csv_text(PLACE_COLUMNS, (place_rows(step) if step else [])[:top])
    if table == "step":
        return csv_text(STEP_COLUMNS, (step_parts(step) if step else [])[:top])
    return csv_text(BREAK_COLUMNS, break_rows(record)[:top])


def csv_text(columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> str:
    """A table of every column as CSV, header line included."""
    lines = [[column.csv_name for column in columns]]
    lines += [[_cell(plain_value(column, row)) for column in columns] for row in rows]
    return "".join(f"{','.join(map(_quoted, line))}\n" for line in lines)


def _quoted(cell: str) -> str:
    """A cell in quotes where it must be, also where a spreadsheet would split it: many take semicolons for commas."""
    doubled = cell.replace('"', '""')
    return f'"{doubled}"' if doubled != cell or "," in cell or ";" in cell else cell


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(int(value) if float(value).is_integer() else float(value))
    text = clean(value)
    # A spreadsheet runs a cell that starts so as a formula; the apostrophe makes it text.
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
