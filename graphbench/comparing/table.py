"""The result of a comparison: rows that keep every sample, printed as a table."""

from __future__ import annotations

from dataclasses import dataclass

from graphbench.analysis.implementations import ImplementationRow
from graphbench.condition_records import Environment, Policy
from graphbench.report.cells import Grid
from graphbench.report.compare_table import implementation_parts
from graphbench.report.grid import text_of
from graphbench.report.html.fragment import parts_fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class ImplementationTable:
    """What `graphbench.compare` found. Printing it gives the table.

    `rows` are in the order given, the first being the baseline; `rows[i].measurement` has the raw samples. `policy` is
    the budget of a whole row: each of its halves had half of it. `environment` is what it ran on, `notes` what else a
    reader must know.
    """

    rows: tuple[ImplementationRow, ...]
    device: str
    policy: Policy
    environment: Environment
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return text_of(self._parts())

    def _repr_html_(self) -> str:
        return parts_fragment(self._parts())

    def _parts(self) -> list[str | Grid]:
        return implementation_parts(
            self.rows, device=self.device, policy=self.policy, environment=self.environment, notes=self.notes
        )

    def __repr__(self) -> str:
        return f"<graphbench comparison on {self.device}: {', '.join(row.name for row in self.rows)}>"
