"""Which node is meant: by its name, with its region's key where several regions have it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import fx

from graphbench.errors import CaptureError, UsageError
from graphbench.measurements import JsonValue
from graphbench.measuring.collectives import COLLECTIVE, is_collective
from graphbench.measuring.whole import nothing_captured
from graphbench.records import NodeRecord
from graphbench.regions import Region
from graphbench.session import Session


@dataclass(frozen=True, slots=True)
class Target:
    """A node of a captured region."""

    region: Region
    node: NodeRecord

    @property
    def name(self) -> str:
        """As `r0/gelu`."""
        return f"{self.region.key}/{self.node.name}"

    def fx_node(self) -> fx.Node:
        """The node in the region's own graph."""
        found: fx.Node = next(node for node in self.region.gm.graph.nodes if node.name == self.node.name)
        return found


def find_target(session: Session, text: str) -> Target:
    """The node that is named, as `gelu` or `r0/gelu`.

    Args:
        session: what was captured. Regions that a recompile took over from need their key.
        text: the name.

    Raises:
        CaptureError: nothing was captured, or the region has no inputs to replay it on.
        UsageError: no such node, or several; one that computes no tensor, or waits for other ranks.
    """
    if not session.regions:
        raise nothing_captured(session)
    key, slash, name = text.rpartition("/")
    regions = [region for region in session.regions if not slash or region.key == key]
    if not slash:
        regions = [region for region in regions if session.superseded(region) is None]
    found = [Target(region, node) for region in regions for node in region.nodes if node.name == name]
    if not found:
        raise _no_such_node(session, text, name)
    if len(found) > 1:
        raise UsageError(
            f"{text}: several regions have such a node: {', '.join(target.name for target in found)}",
            hint="name the one that is meant",
            subject=text,
        )
    _check(found[0])
    return found[0]


def _no_such_node(session: Session, text: str, name: str) -> UsageError:
    names = [f"{region.key}/{node.name}" for region in session.regions for node in region.nodes]
    short = {full.partition("/")[2]: full for full in reversed(names)}
    near = [short[match] for match in difflib.get_close_matches(name, short, n=5, cutoff=0.5)]
    hint = f"nodes of similar names: {', '.join(near)}" if near else "the tables of graphbench.measure() list all nodes"
    return UsageError(f"no node {text!r} was captured", hint=hint, subject=text)


def _check(target: Target) -> None:
    region, node = target.region, target.node
    if region.capture is None:
        raise CaptureError(
            f"{target.name}: {region.problem or 'its region was never called, so no inputs were recorded'}",
            hint="call the compiled model once, then replace",
            subject=target.name,
        )
    why = ""
    if node.kind == "state":
        why = "it sets state only"
    elif node.kind == "host":
        why = "it computes no tensor"
    elif is_collective(target.fx_node().target):
        why = COLLECTIVE
    if why:
        raise UsageError(f"{target.name} cannot be replaced: {why}", subject=target.name)


def equal_nodes(target: Target) -> tuple[str, ...]:
    """The names of all nodes of the region that make the same call as a node on tensors like its own, itself first.

    Such are the same layers of a model, one after another: the source line, its op and all its constants are the same.
    """
    wanted = _kind_of_call(target.region, target.node)
    others = [node for node in target.region.nodes if node.name != target.node.name]
    return (target.node.name, *(node.name for node in others if _kind_of_call(target.region, node) == wanted))


def _kind_of_call(region: Region, node: NodeRecord) -> tuple[Any, ...]:
    known = {other.name: other.outputs for other in region.nodes}
    records = region.capture.records if region.capture is not None else ()
    known |= {record.name: (record.spec,) if record.spec is not None else () for record in records}
    numbers = {name: position for position, name in enumerate(node.inputs)}
    where = None if node.source is None else (node.source.file, node.source.line)
    inputs = tuple(known.get(name, ()) for name in node.inputs)
    return (node.op, node.op_type, where, inputs, node.outputs, tuple(_numbered(node.arguments, numbers)))


def _numbered(value: JsonValue, numbers: dict[str, int]) -> Iterator[object]:
    """An argument's prototype, flat, its nodes told by position instead of by name."""
    if isinstance(value, dict):
        if set(value) == {"node"}:
            yield ("node", numbers[str(value["node"])])
            return
        for key, entry in value.items():
            yield key
            yield from _numbered(entry, numbers)
    elif isinstance(value, list):
        yield len(value)
        for entry in value:
            yield from _numbered(entry, numbers)
    else:
        yield (type(value).__name__, value)
