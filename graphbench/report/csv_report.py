"""CSV of one table at a time: every column, times in whole nanoseconds, units in the headers, safe for spreadsheets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from graphbench.analysis.break_costs import break_rows
from graphbench.analysis.fusion import all_fusion_rows
from graphbench.analysis.gaps import gap_rows
from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.places import place_rows
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
from graphbench.report.step_table import PLACE_COLUMNS, STEP_COLUMNS

if TYPE_CHECKING:
    from typing_extensions import Unpack

RowT = TypeVar("RowT")

_OTHER_TABLES = ("gaps", "places", "step", "breaks", "opportunities")
_FORMULA_STARTS = tuple("=+-@＝＋－＠")  # the wide ones too, which some spreadsheets take for the others


class CsvReporter:
    """One table as CSV: `table="nodes"` (default), `fusions`, `gaps`, `places`, `step`, `breaks` or `opportunities`.

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
            return _write(GROUP_COLUMNS, shown_groups(record, grouping, sort, top)[1])
        if table == "nodes":
            return _write(NODE_COLUMNS, sort_rows(node_rows(record), node_sort_keys(), sort, top))
        if table == "fusions":
            rows = all_fusion_rows(record)
            return _write(FUSION_COLUMNS, sort_rows(rows, sort_keys(FUSION_COLUMNS, "all_calls_fused_p50"), sort, top))
        if table == "opportunities":
            return _write(OPPORTUNITY_COLUMNS, opportunities(record)[:top])
        if table in _OTHER_TABLES:
            return _step_table(record, table, sort, top)
        known = ", ".join(("nodes", "fusions", *_OTHER_TABLES))
        raise UsageError(f"unknown table {table!r}", hint=f"the tables are: {known}", subject="table")


def _step_table(record: ProfileRecord, table: str, sort: str, top: int | None) -> str:
    """A table of the recorded step; its header alone where none was recorded. Parts and places keep their order."""
    step = record.step
    if table == "gaps":
        rows = gap_rows(step) if step else []
        return _write(GAP_COLUMNS, sort_rows(rows, sort_keys(GAP_COLUMNS, "in_graph"), sort, top))
    if table == "places":
        return _write(PLACE_COLUMNS, (place_rows(step) if step else [])[:top])
    if table == "step":
        return _write(STEP_COLUMNS, (step_parts(step) if step else [])[:top])
    return _write(BREAK_COLUMNS, break_rows(record)[:top])


def csv_text(columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> str:
    """A table of every column as CSV, header line included."""
    return _write(columns, rows)


def _write(columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> str:
    lines = [[column.csv_name for column in columns]]
    lines += [[_cell(column, column.get(row)) for column in columns] for row in rows]
    return "".join(f"{','.join(map(_quoted, line))}\n" for line in lines)


def _quoted(cell: str) -> str:
    """A cell in quotes where it must be, also where a spreadsheet would split it: many take semicolons for commas."""
    doubled = cell.replace('"', '""')
    return f'"{doubled}"' if doubled != cell or "," in cell or ";" in cell else cell


def _cell(column: Column[RowT], value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)) and column.kind != "text":
        number = 100 * value if column.kind == "fraction" else value
        return repr(int(number) if float(number).is_integer() else float(number))
    text = clean(str(value))
    # A spreadsheet runs a cell that starts so as a formula; the apostrophe makes it text.
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
