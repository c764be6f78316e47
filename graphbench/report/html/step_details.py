"""What a click on a gap op, a graph break or an opportunity shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphbench.analysis.break_costs import BreakRow
from graphbench.analysis.digest import Digest
from graphbench.analysis.opportunity import Opportunity
from graphbench.analysis.views import outputs_text
from graphbench.plaintext import clean, clean_lines
from graphbench.records import ProfileRecord
from graphbench.report.break_lines import cost_text
from graphbench.report.html.detail_facts import Fact, measured_facts, series, source_facts
from graphbench.report.html.model import Detail, addressed, gap_id, kernel_id, node_id
from graphbench.step_records import StepRecord, StepRow
from graphbench.units import format_bytes, format_duration


def break_id(position: int) -> str:
    """How a graph break is named on a page: by its rank."""
    return f"break/{position + 1}"


def opportunity_id(position: int) -> str:
    """How an opportunity is named on a page: by its rank."""
    return f"opportunity/{position + 1}"


def place_id(key: str) -> str:
    """How a place of a step is named on a page."""
    return addressed(f"place/{key}")


def place_details(step: StepRecord) -> dict[str, Detail]:
    """The details of all places with rows, by id: the kernels and gap ops that ran there, in order."""
    places: dict[str, tuple[list[str], list[str]]] = {}
    for position, row in enumerate(step.rows):
        kernels, gaps = places.setdefault(row.place, ([], []))
        if row.kernel is None:
            gaps.append(gap_id(position))
        elif row.region is not None:
            kernels.append(kernel_id(row.region, row.kernel))
    return {
        place_id(key): Detail(
            id=place_id(key),
            kind="place",
            title=clean(key),
            links=tuple((head, tuple(ids)) for head, ids in (("kernels", kernels), ("gap ops", gaps)) if ids),
        )
        for key, (kernels, gaps) in places.items()
    }


def gap_details(step: StepRecord, digest: Digest) -> dict[str, Detail]:
    """The details of all gap ops, by id."""
    found = {}
    for position, row in enumerate(step.rows):
        if row.kernel is None:
            measured = (("in the step, all calls", row.in_graph), ("isolated, one call", row.isolated))
            found[gap_id(position)] = Detail(
                id=gap_id(position),
                kind="gap",
                title=clean(row.op_type),
                facts=(*_gap_facts(row), *measured_facts(measured, digest)),
                samples=series(measured),
            )
    return found


def _gap_facts(row: StepRow) -> Iterator[Fact]:
    yield from source_facts(row.source, "source of its forward op" if row.phase == "backward" else "source")
    yield "place", clean(row.place)
    if row.inputs:
        yield "inputs", clean(outputs_text(row.inputs))
    if row.autograd_node:
        yield "autograd node", clean(row.autograd_node)
    if row.copied_bytes:
        yield "copied, all calls", clean(f"{format_bytes(row.copied_bytes)} {row.copied}")


def break_details(record: ProfileRecord, rows: Sequence[BreakRow]) -> dict[str, Detail]:
    """The details of graph breaks, `rows` by rank: the whole reason, what it costs, the ops that run for it."""
    gaps: dict[str, list[str]] = {}
    for position, entry in enumerate(record.step.rows if record.step else ()):
        if entry.kernel is None:
            gaps.setdefault(entry.place, []).append(gap_id(position))
    found = {}
    for position, row in enumerate(rows):
        place = row.cost.place if row.cost else None
        ops = gaps.get(place, []) if place else []
        found[break_id(position)] = Detail(
            id=break_id(position),
            kind="break",
            title=clean(row.graph_break.cause or row.graph_break.reason.partition("\n")[0]),
            facts=tuple(_break_facts(row)),
            links=(("ops in the gap behind it", tuple(ops)),) if ops else (),
        )
    return found


def _break_facts(row: BreakRow) -> Iterator[Fact]:
    entry = row.graph_break
    yield "reason", clean_lines(entry.reason)
    yield from source_facts(entry.source)
    yield from source_facts(entry.frame, "runs eagerly")
    if entry.hint:
        yield "hint", clean_lines(entry.hint)
    if row.cost is not None:
        yield "cost", cost_text(row.cost)
    elif row.told_with is not None:
        yield "cost", f"that of break {row.told_with + 1}, the same ops"
    elif row.reason:
        yield "no cost", clean(row.reason)


def opportunity_details(found: Sequence[Opportunity]) -> dict[str, Detail]:
    """The details of opportunities by rank: what could be gained, and where."""
    return {opportunity_id(position): _opportunity(position, entry) for position, entry in enumerate(found)}


def _opportunity(position: int, entry: Opportunity) -> Detail:
    kernels = tuple(kernel_id(entry.region, key) for key in entry.kernels)
    nodes = tuple(node_id(entry.region, name) for name in entry.nodes) if entry.kind != "gap ops" else ()
    links = [("kernels", kernels)] if kernels else []
    links += [("nodes", nodes)] if nodes else []
    return Detail(
        id=opportunity_id(position),
        kind="opportunity",
        title=clean(f"{entry.kind}: {entry.what}"),
        facts=tuple(_opportunity_facts(entry)),
        links=tuple(links),
    )


def _opportunity_facts(entry: Opportunity) -> Iterator[Fact]:
    yield "gives at most", f"{format_duration(entry.gain_ns)}, alone: opportunities overlap and do not add up"
    if entry.wall_gain_ns is not None:
        yield "of the wall time", f"at most {format_duration(entry.wall_gain_ns)}"
    if entry.note:
        yield "note", clean_lines(entry.note)
    yield from source_facts(entry.source)
    if entry.kind == "gap ops":
        yield "ops", clean(", ".join(entry.nodes))
