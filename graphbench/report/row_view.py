"""`Rows`: a table of a profile, a diff or a scaling as a sequence, as a DataFrame and as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from graphbench.errors import SetupError
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.report.column import Column
from graphbench.report.csv_report import csv_text
from graphbench.report.grid import build, draw
from graphbench.report.values import TypedColumn, ValueType, typed_column
from graphbench.units import count_text

if TYPE_CHECKING:
    import pandas

RowT = TypeVar("RowT")
_SHOWN: Final = 10
_DTYPES: Final[Mapping[ValueType, str]] = MappingProxyType(
    {"float": "Float64", "integer": "Int64", "flag": "boolean", "text": "string", "category": "category"}
)


class Rows(Sequence[RowT]):
    """Rows of one kind, in the order of the profile; a slice is `Rows` again. Times in rows are nanoseconds.

    Args:
        rows: the rows.
        columns: every column that CSV has of them.
        what: one of them in a word, as `node`; `several`: its plural, where no `s` makes it.
        index: keys of the columns that name a row.
    """

    def __init__(
        self,
        rows: Sequence[RowT],
        columns: Sequence[Column[Any]],
        *,
        what: str,
        several: str = "",
        index: Sequence[str] = (),
    ) -> None:
        self.rows = tuple(rows)
        self.columns = tuple(columns)
        self.what = what
        self.several = several
        self.index_keys = tuple(index)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, position: int) -> RowT: ...

    @overload
    def __getitem__(self, position: slice) -> Rows[RowT]: ...

    def __getitem__(self, position: int | slice) -> RowT | Rows[RowT]:
        if isinstance(position, slice):
            rows = self.rows[position]
            return Rows(rows, self.columns, what=self.what, several=self.several, index=self.index_keys)
        return self.rows[position]

    def __eq__(self, other: object) -> bool:
        """Equal to any list, tuple or `Rows` of the same rows."""
        if isinstance(other, (Rows, list, tuple)):
            return self.rows == tuple(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def typed(self) -> list[TypedColumn]:
        """Every column with its values, as `to_pandas` takes them."""
        return [typed_column(column, self.rows) for column in self.columns]

    def to_pandas(self) -> pandas.DataFrame:
        """Every column of the CSV, under the same name, by the names of the rows where these have any.

        Times (`_ns`), percents and ratios are `Float64`; sizes (`_bytes`) and counts `Int64`, or `Float64` where one is
        no whole number; the others `boolean`, `string` or `category`. What is missing is NA, and a `reason` says why.

        Source: the nullable dtypes of pandas, checked with 2.0 and 3.1.

        Raises:
            SetupError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise SetupError(
                "a DataFrame needs pandas, which is not installed",
                hint="pip install 'torch-graphbench[pandas]'; to_csv() needs nothing",
                subject="pandas",
            ) from error
        frame = pandas.DataFrame(
            {column.name: pandas.Series(list(column.values), dtype=_DTYPES[column.type]) for column in self.typed()}
        )
        return frame.set_index(list(self.index_keys)) if self.index_keys else frame

    def to_csv(self) -> str:
        """The rows as CSV, header line included, in which no text is a formula."""
        return csv_text(self.columns, self.rows)

    def __repr__(self) -> str:
        """How many they are, and the first ten."""
        counted = count_text(len(self.rows), self.what, self.several)
        if not self.rows:
            return f"<{counted}>"
        shown = self.rows[:_SHOWN]
        table = draw(build(self.columns, shown, wide=False), DEFAULT_WIDTH)
        more = f"\n... {count_text(len(self.rows) - _SHOWN, 'more', 'more')}" if len(self.rows) > _SHOWN else ""
        return f"<{counted}>\n{table}{more}"

    def _repr_html_(self) -> str:
        from graphbench.report.html.fragment import rows_fragment

        return rows_fragment(self.several or f"{self.what}s", self.columns, self.rows)
