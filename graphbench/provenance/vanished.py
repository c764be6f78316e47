"""What became of nodes that the compiler removed before it lowered their graph. Pure; no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from graphbench.provenance.rewrites import OUTPUT, Inputs
from graphbench.records import Fate

NO_OPERATION = "tracing it records no operation: it returns its input"
NO_OP = "does nothing: its input is used in its place"
CONSTANT = "its value is known when compiling"
UNREAD = "nothing that reads it is left"


@dataclass(slots=True)
class Traced:
    """A graph as it was traced, in program order.

    `calls` holds for every call its op and arguments, those that are nodes as `%name%`; `sources` the Dynamo nodes of
    forward's nodes.
    """

    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)


def vanished(nodes: Iterable[str], before: Traced, after: Inputs) -> dict[str, Fate]:
    """The fates of Dynamo nodes that the lowered graph does not name.

    Args:
        nodes: names of the Dynamo nodes.
        before: the graph that was traced.
        after: the graph that was lowered.

    Returns:
        `folded` for what did nothing or is constant, `merged` (the note is the Dynamo node) for what is computed once
        for two, `dead` for what nothing reads. Nodes of which something is left are not among them.
    """
    values: dict[str, str] = {}  # Dynamo node -> the last node that it was traced to
    for name, sources in before.sources.items():
        values.update(dict.fromkeys(sources, name))
    left = {source for name, sources in before.sources.items() if name in after for source in sources}
    seen_as = _seen_as(before.inputs, after)
    twins = _twins(before)
    constant = _constants(before)
    live = _live(before.inputs)
    found: dict[str, Fate] = {}
    for node in nodes:
        value = values.get(node)
        if value is None:
            found[node] = Fate(kind="folded", note=NO_OPERATION)
        elif node not in left:
            found[node] = _fate(node, value, before, (seen_as.get(value), twins.get(value)), constant, live)
    return found


def _fate(
    node: str,
    value: str,
    before: Traced,
    instead: Sequence[str | None],
    constant: Collection[str],
    live: Collection[str],
) -> Fate:
    for other in instead:
        if other is None:
            continue
        if other in _ancestors(value, before.inputs):
            return Fate(kind="folded", note=NO_OP)
        into = [source for source in before.sources.get(other, ()) if source != node]
        if into:
            return Fate(kind="merged", note=into[-1])
    if value in constant:
        return Fate(kind="folded", note=CONSTANT)
    return Fate(kind="dead", note=UNREAD if value in live else "")


def _seen_as(before: Inputs, after: Inputs) -> dict[str, str]:
    """Nodes that are gone -> what their users read now, where that was there before."""
    found: dict[str, str] = {}
    for user, inputs in after.items():
        old = before.get(user, ())
        if user != OUTPUT and len(old) == len(inputs):
            pairs = zip(old, inputs, strict=True)
            found.update({gone: now for gone, now in pairs if gone != now and gone not in after and now in before})
    return found


def _twins(before: Traced) -> dict[str, str]:
    """Calls -> the first call of the same op with the same arguments, or with twins of them."""
    first: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, call in before.calls.items():
        for source in before.inputs[name]:
            if source in found:
                call = call.replace(f"%{source}%", f"%{found[source]}%")
        twin = first.setdefault(call, name)
        if twin != name:
            found[name] = twin
    return found


def _constants(before: Traced) -> set[str]:
    """Calls that depend on no input of the graph."""
    found: set[str] = set()
    for name in before.calls:
        if all(source in found for source in before.inputs[name]):
            found.add(name)
    return found


def _live(before: Inputs) -> set[str]:
    return _ancestors(OUTPUT, before)


def _ancestors(name: str, before: Inputs) -> set[str]:
    """Everything that a node was computed from."""
    found: set[str] = set()
    stack = list(before.get(name, ()))
    while stack:
        current = stack.pop()
        if current not in found:
            found.add(current)
            stack.extend(before.get(current, ()))
    return found
