"""Columns of bars and sample lines, which tables on a terminal have beside their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from graphbench.measurements import Measurement
from graphbench.report.blocks import BAR_ENDS, SPARK_ENDS, bar, spark
from graphbench.report.column import Column

RowT = TypeVar("RowT")
BARS: Final = "bars: parts of the largest in the column"
SAMPLES: Final = (
    "samples: in their order, each character a median, lowest to highest from the row's least to its largest, but 1 % "
    "apart at least"
)


def with_blocks(
    columns: Sequence[Column[RowT]],
    rows: Sequence[RowT],
    barred: str,
    measured: Callable[[RowT], Measurement] | None = None,
) -> tuple[Column[RowT], ...]:
    """The columns with a bar behind the one of key `barred`, and the samples behind their number.

    Samples are for wide tables.

    Args:
        columns: those of the table.
        rows: those that are shown: the largest fills its bar.
        barred: key of a column of times or fractions.
        measured: whose samples are drawn; `None` for rows that have none of their own.
    """
    return tuple(_with_blocks(columns, rows, barred, measured))


def _with_blocks(
    columns: Sequence[Column[RowT]],
    rows: Sequence[RowT],
    barred: str,
    measured: Callable[[RowT], Measurement] | None,
) -> Iterator[Column[RowT]]:
    for column in columns:
        yield column
        if column.key == barred:
            yield _bar_column(column, rows)
        if column.key == "samples" and measured is not None:
            yield _samples_column(measured)


def blocks_legend(table: Sequence[str]) -> list[str]:
    """What the pictures in a drawn table are."""
    drawn = set("".join(table))
    bars = [BARS] if drawn & set(BAR_ENDS) else []
    return bars + ([SAMPLES] if drawn & set(SPARK_ENDS) else [])


def _bar_column(column: Column[RowT], rows: Sequence[RowT]) -> Column[RowT]:
    def amount(row: RowT) -> float:
        found = column.get(row)
        return float(found) if isinstance(found, (int, float)) else 0.0

    largest = max(map(amount, rows), default=0.0)
    return Column(
        name="",
        key=f"{column.key}_bar",
        kind="text",
        get=lambda row: bar(amount(row) / largest) if largest else "",
        shown=column.shown,
        shrink=None,
    )


def _samples_column(measured: Callable[[RowT], Measurement]) -> Column[RowT]:
    def line(row: RowT) -> str:
        samples = measured(row).samples
        return "" if samples is None else spark(samples.busy_ns)

    return Column(name="samples", key="samples_line", kind="text", get=line, shown="wide", shrink=None)
