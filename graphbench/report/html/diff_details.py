"""What a click on a row of a diff's page shows: both sides' samples and source, and the rows that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_fusions import FusionDiffRow
from graphbench.analysis.diff_gaps import GapDiffRow
from graphbench.analysis.diff_rows import DiffRow, isolated
from graphbench.analysis.views import fate_text, outputs_text
from graphbench.records import NodeRecord
from graphbench.report.html.model import Detail, Series
from graphbench.report.scaling_columns import BACKWARD


@dataclass(frozen=True, slots=True)
class DiffIds:
    """The ids of rows, by the row's own identity: names repeat between phases, and between what is gone and added."""

    by_row: Mapping[int, str]

    @classmethod
    def of(cls, result: Diff) -> DiffIds:
        """Number all rows of a comparison, each kind by itself."""
        kinds = (("node", result.rows), ("fusion", result.fusions), ("gap", result.gaps))
        return cls({id(row): f"{kind}/{index}" for kind, rows in kinds for index, row in enumerate(rows)})

    def of_row(self, row: DiffRow | FusionDiffRow | GapDiffRow) -> str:
        """The id of a row of the comparison that these are of."""
        return self.by_row[id(row)]


def details(result: Diff, ids: DiffIds) -> dict[str, Detail]:
    """All details, by the row's id."""
    members = _members(result)
    nodes = {ids.of_row(row): _node(row, ids, members) for row in result.rows}
    fusions = {ids.of_row(row): _fusion(row, ids, members) for row in result.fusions}
    return nodes | fusions | {ids.of_row(row): _gap(row, ids) for row in result.gaps}


_Members = Mapping[tuple[str, str], tuple[list[DiffRow], list[FusionDiffRow]]]


def _members(result: Diff) -> _Members:
    """By region and name of a node its rows, and the fusions that work for it."""
    found: dict[tuple[str, str], tuple[list[DiffRow], list[FusionDiffRow]]] = {}
    for row in result.rows:
        found.setdefault((row.region, row.name), ([], []))[0].append(row)
    for fusion in result.fusions:
        for name in fusion.nodes:
            found.setdefault((fusion.region, name), ([], []))[1].append(fusion)
    return found


def _node(row: DiffRow, ids: DiffIds, members: _Members) -> Detail:
    rows, fusions = members[(row.region, row.name)]
    others = tuple(ids.of_row(other) for other in rows if other.phase != row.phase and _same_nodes(other, row))
    links = (
        ("its backward" if row.phase == "forward" else "its forward", others),
        ("fusions that work for it", tuple(map(ids.of_row, fusions))),
    )
    return Detail(
        id=ids.of_row(row),
        kind="node",
        title=f"{BACKWARD if row.phase == 'backward' else ''}{row.name}",
        facts=tuple(_facts(row)),
        links=tuple(link for link in links if link[1]),
        samples=tuple(_samples(row)),
    )


def _same_nodes(one: DiffRow, other: DiffRow) -> bool:
    """Whether two rows are of the same nodes: one that is gone and one that was added may share a name."""
    return one.old is other.old and one.new is other.new


def _facts(row: DiffRow) -> Iterator[tuple[str, str]]:
    """What either side's node is; once where both say the same."""
    for what, texts in (
        ("output", [outputs_text(node.outputs) if node else "" for node in (row.old, row.new)]),
        ("fate", [fate_text(node.fate) if node else "" for node in (row.old, row.new)]),
        ("source", [_source(node) for node in (row.old, row.new)]),
    ):
        before, after = texts
        if before == after or not before:
            yield from ((what, after),) if after else ()
        elif not after:
            yield what, before
        else:
            yield f"{what} before", before
            yield f"{what} after", after


def _source(node: NodeRecord | None) -> str:
    source = node.source if node else None
    return "" if source is None else f"{source.file}:{source.line}\n{source.code}".rstrip()


def _samples(row: DiffRow) -> Iterator[Series]:
    for name, node in (("before, isolated", row.old), ("after, isolated", row.new)):
        measured = isolated(node, row.phase) if node else None
        if measured is not None and measured.samples is not None:
            yield Series(name=name, values_ns=measured.samples.busy_ns)


def _fusion(row: FusionDiffRow, ids: DiffIds, members: _Members) -> Detail:
    nodes = [other for name in row.nodes for other in members[(row.region, name)][0] if other.phase == row.phase]
    facts = (("kernels before", row.kernels_before), ("kernels after", row.kernels_after))
    return Detail(
        id=ids.of_row(row),
        kind="kernel",
        title=row.name,
        facts=tuple((what, "\n".join(names)) for what, names in facts if names),
        links=(("nodes", tuple(map(ids.of_row, nodes))),) if nodes else (),
    )


def _gap(row: GapDiffRow, ids: DiffIds) -> Detail:
    return Detail(id=ids.of_row(row), kind="gap", title=f"{row.op_type} at {row.source}" if row.source else row.op_type)
