"""An op list out of a profile: every compute node once, in its ambient state, and what cannot be exported and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from graphbench.analysis.matching import meant
from graphbench.analysis.op_list import holds_ops
from graphbench.analysis.views import source_text
from graphbench.errors import UsageError
from graphbench.models.oplist import MOST_OPS, VERSION, VERSION_FIELD, is_custom
from graphbench.plaintext import clean, quoted
from graphbench.records import NodeRecord, ProfileRecord, RegionRecord
from graphbench.report.op_list.flow import flow
from graphbench.report.op_list.ops import Exported, Fields, exported
from graphbench.report.repro.draft import node_sources
from graphbench.report.repro.expressions import NotRebuilt

_NAME: Final = re.compile(r"[A-Za-z_][\w.:/-]{0,120}", re.ASCII)
_NAMES_SHOWN: Final = 8
_GAP_OPS_SHOWN: Final = 20


@dataclass(slots=True)
class _Unit:
    """An op of the list, and the names of the nodes that it stands for."""

    name: str
    op: Exported
    nodes: list[str] = field(default_factory=list)


def op_list(record: ProfileRecord, select: Sequence[str] = ()) -> str:
    """The text of an op list.

    Args:
        record: a profile.
        select: shell-style patterns of the nodes' names, op types or module paths; by default all.

    Returns:
        YAML. Equal nodes are one op. What could not be exported stands in comments, with the reason.

    Raises:
        UsageError: no node matches, none can be exported, or there are too many.
    """
    units: dict[tuple[str, str], _Unit] = {}
    refused: list[tuple[str, str]] = []
    count = 0
    sources = {region.key: node_sources(region) for region in record.regions}
    for region, node in _selected(record, select):
        count += 1
        name = node.name if len(record.regions) == 1 else f"{region.key}/{node.name}"
        try:
            op = exported(region, node, sources[region.key])
        except NotRebuilt as error:
            refused.append((name, error.message))
            continue
        key = flow({key: value for key, value in op.fields.items() if key != "module"}), flow(op.state)
        units.setdefault(key, _Unit(_op_name(region, node, record, len(units)), op)).nodes.append(name)
    found = list(units.values())
    _check(found, refused)
    return "\n".join([*_head(record, found, count), *_ops(found), *_tail(record, refused)])


def _selected(record: ProfileRecord, select: Sequence[str]) -> Iterator[tuple[RegionRecord, NodeRecord]]:
    """The compute nodes that are meant, with their regions.

    Raises:
        UsageError: a pattern means none.
    """
    every = [(region, node) for region in record.regions for node in region.nodes if node.kind == "compute"]
    yield from meant(every, select, option="select")


def _op_name(region: RegionRecord, node: NodeRecord, record: ProfileRecord, number: int) -> str:
    """A name that an op list may have, unique as the node's; sizes of a sweep are part of it."""
    plain = re.sub(r"\[(.*)\]$", lambda found: f".{found[1]}", node.name) if holds_ops(region) else node.name
    plain = re.sub(r"[=,]", "", plain) if holds_ops(region) else plain
    name = plain if len(record.regions) == 1 else f"{region.key}/{plain}"
    return name if _NAME.fullmatch(name) else f"op{number}"


def _check(found: Sequence[_Unit], refused: Sequence[tuple[str, str]]) -> None:
    if not found:
        reason = f": {refused[0][0]}: {refused[0][1]}" if refused else ": the profile has no compute nodes"
        raise UsageError(f"no op list: found nothing that can be exported{reason}", subject="op-list")
    if len(found) > MOST_OPS:
        raise UsageError(
            f"no op list: found {len(found)} different ops, expected at most {MOST_OPS}",
            hint="choose some with --select, as --select 'conv*'",
            subject="--select",
        )


def _head(record: ProfileRecord, units: Sequence[_Unit], count: int) -> Iterator[str]:
    environment = record.environment
    where = environment.gpu or environment.cpu
    yield _comment(f"{len(units)} ops of {record.subject or 'a model'}: its {count} compute nodes, equal ones once")
    yield _comment(f"from a profile of {record.created}, torch {environment.torch}, {where}")
    trains = sum(unit.op.trains for unit in units)
    backwards = f"; --train also times the backward of {trains}" if trains else ""
    yield _comment(f"graphbench run --op-list FILE measures them{backwards}; values are made up")
    if any(is_custom(str(unit.op.fields["target"])) for unit in units):
        yield _comment("custom ops need --import MODULE, of the module that registers them")
    yield f"{VERSION_FIELD}: {VERSION}"
    yield "state:"
    yield from (f"  {key}: {flow(value)}" for key, value in _common(units).items())
    yield "ops:"


def _common(units: Sequence[_Unit]) -> Fields:
    """The state that most ops have; the others say what differs."""
    counts = Counter(flow(unit.op.state) for unit in units)
    most = max(counts, key=lambda text: counts[text])
    return next(unit.op.state for unit in units if flow(unit.op.state) == most)


def _ops(units: Sequence[_Unit]) -> Iterator[str]:
    common = _common(units)
    for unit in units:
        if len(unit.nodes) > 1:
            rest = f" and {len(unit.nodes) - _NAMES_SHOWN} more" if len(unit.nodes) > _NAMES_SHOWN else ""
            yield f"  {_comment(f'{len(unit.nodes)} equal nodes: ' + ', '.join(unit.nodes[:_NAMES_SHOWN]) + rest)}"
        yield f"  - name: {flow(unit.name)}"
        for key, value in unit.op.fields.items():
            yield from _field(key, value)
        own = {key: value for key, value in unit.op.state.items() if common.get(key) != value}
        own |= {key: _LEFT_OUT[key] for key in common.keys() - unit.op.state.keys()}
        if own:
            yield f"    state: {flow(own)}"


_LEFT_OUT: Final = {"inference_mode": False, "autocast_cache": True}
"""What fields of a state mean that are written only where it matters."""


def _field(key: str, value: object) -> Iterator[str]:
    if key != "tensors" or not isinstance(value, dict):
        yield f"    {key}: {flow(value)}"
        return
    yield "    tensors:"
    yield from (f"      {name}: {flow(entry)}" for name, entry in value.items())


def _tail(record: ProfileRecord, refused: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What is missing, by reason, and the ops that ran outside of compiled graphs."""
    if refused:
        yield _comment("not exported:")
        yield from (_comment(f"  {name}: {reason}") for name, reason in refused)
    gaps = [row for row in record.step.rows if row.kernel is None] if record.step is not None else []
    if gaps:
        yield _comment(f"not exported: {len(gaps)} gap ops, of whose arguments a profile holds none:")
        for row in gaps[:_GAP_OPS_SHOWN]:
            where = f" at {source_text(row.source)}" if row.source is not None else ""
            yield _comment(f"  {row.op_type}{where}")
        if len(gaps) > _GAP_OPS_SHOWN:
            yield _comment(f"  and {len(gaps) - _GAP_OPS_SHOWN} more")
    yield ""


def _comment(text: str) -> str:
    return f"# {quoted(clean(text), 300)}"
