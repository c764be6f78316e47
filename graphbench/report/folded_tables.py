"""Whether the tables of nodes and kernels are folded by repeated layers, and with which columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from graphbench.analysis.fold_choice import FOLD_ABOVE, FoldChoice, worth_folding
from graphbench.analysis.folding import Fold, Layers
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.views import NodeRow, verdict_grain_ns
from graphbench.records import ProfileRecord
from graphbench.report.column import Column, sort_keys
from graphbench.report.folded_columns import folded_fusion_columns, folded_legend, folded_node_columns

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedTable(Generic[RowT]):
    """A table of folds: its rows, its columns, and what it can be sorted by."""

    folds: Sequence[Fold[RowT]]
    columns: tuple[Column[Fold[RowT]], ...]
    keys: Mapping[str, Callable[[Fold[RowT]], object]]

    @property
    def unfolded(self) -> int:
        """Rows that the folds stand for."""
        return sum(fold.count for fold in self.folds)

    def legend(self, drawn: str) -> str:
        """What the columns of the drawn table are."""
        return folded_legend(drawn)


def folded_nodes(
    record: ProfileRecord, rows: Sequence[NodeRow], choice: FoldChoice, wanted: Callable[[Mapping[str, object]], bool]
) -> FoldedTable[NodeRow] | None:
    """The nodes by layer; `None` where they stay single rows.

    Args:
        record: of the rows.
        rows: those asked for.
        choice: when to fold.
        wanted: whether `auto` may fold to a table with these sort keys.
    """
    if not _may_fold(rows, choice):
        return None
    folds = Layers(record).fold_nodes(rows)
    columns = folded_node_columns(rows, verdict_grain_ns(record))
    return _table(rows, folds, columns, "isolated_p50", choice, wanted)


def folded_fusions(
    record: ProfileRecord, rows: Sequence[FusionRow], choice: FoldChoice, wanted: Callable[[Mapping[str, object]], bool]
) -> FoldedTable[FusionRow] | None:
    """The kernels by layer; `None` where they stay single rows. Arguments as of `folded_nodes`."""
    if not _may_fold(rows, choice):
        return None
    layers = Layers(record)
    folds = layers.fold_fusions(rows)
    columns = folded_fusion_columns(layers, verdict_grain_ns(record))
    return _table(rows, folds, columns, "all_calls_fused_p50", choice, wanted)


def _may_fold(rows: Sequence[NodeRow] | Sequence[FusionRow], choice: FoldChoice) -> bool:
    return choice == "always" or (choice == "auto" and len(rows) > FOLD_ABOVE)


def _table(
    rows: Sequence[RowT],
    folds: Sequence[Fold[RowT]],
    columns: tuple[Column[Fold[RowT]], ...],
    cost: str,
    choice: FoldChoice,
    wanted: Callable[[Mapping[str, object]], bool],
) -> FoldedTable[RowT] | None:
    keys = sort_keys(columns, cost)
    if not worth_folding(len(rows), len(folds), choice) or (choice == "auto" and not wanted(keys)):
        return None
    return FoldedTable(folds=folds, columns=columns, keys=keys)
