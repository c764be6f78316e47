"""The result of a replacement: what the candidate gave in each setting, printed as a table."""

from __future__ import annotations

from dataclasses import dataclass

from graphbench.analysis.replacements import ReplacementRow
from graphbench.condition_records import Environment, Policy
from graphbench.report.cells import Grid
from graphbench.report.grid import text_of
from graphbench.report.html.fragment import parts_fragment
from graphbench.report.replacement_table import replacement_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What `graphbench.replace` found. Printing it gives the table.

    `nodes` are those that were replaced, as `r0/gelu`; `rows` have the raw samples of both sides
    (`rows[0].candidate.measurement`). `how` says what the prediction was made from. `policy` is the budget of one side
    in one setting.
    """

    nodes: tuple[str, ...]
    candidate: str
    rows: tuple[ReplacementRow, ...]
    how: str
    policy: Policy
    environment: Environment
    notes: tuple[str, ...] = ()

    def row(self, setting: str) -> ReplacementRow:
        """The row of a setting: `alone`, `alone, backward`, `in graph` or `in graph, with backward`.

        Raises:
            KeyError: it has none.
        """
        for row in self.rows:
            if row.setting == setting:
                return row
        raise KeyError(setting)

    def __str__(self) -> str:
        return text_of(self._parts())

    def _repr_html_(self) -> str:
        return parts_fragment(self._parts())

    def _parts(self) -> list[str | Grid]:
        return replacement_parts(
            self.rows,
            nodes=self.nodes,
            candidate=self.candidate,
            how=self.how,
            policy=self.policy,
            environment=self.environment,
            notes=self.notes,
        )

    def __repr__(self) -> str:
        return f"<graphbench replacement of {', '.join(self.nodes)} by {self.candidate}>"
