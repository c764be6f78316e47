"""Which nodes of a Dynamo graph a result depends on, in-place writes included. Pure; no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from graphbench.records import NodeRecord


def live(nodes: Sequence[NodeRecord], results: Iterable[str], may_alias: Collection[str]) -> set[str]:
    """Names of nodes that matter: a result reads them, or they write to what is read afterwards or comes from outside.

    Args:
        nodes: the graph in program order.
        results: names of what it returns.
        may_alias: ops that may return their input, which counts where it was not measured whether they do.
    """
    memory = _memory(nodes, may_alias)
    inside = {node.name for node in nodes}
    escapes = {memory[name] for node in nodes for name in node.inputs if name not in inside and name in memory}
    found = set(results)
    read = {memory[name] for name in found if name in memory}
    for node in reversed(nodes):
        writes_what_matters = is_in_place(node) and (not node.inputs or memory[node.name] in read | escapes)
        if node.name in found or writes_what_matters:
            found.add(node.name)
            found.update(node.inputs)
            read.update(memory[name] for name in node.inputs if name in memory)
    return found & inside


def is_in_place(node: NodeRecord) -> bool:
    """By torch's naming rule; `operator.and_` and its like only dodge Python's keywords."""
    return node.op_type == "setitem" or (
        node.op_type.endswith("_") and node.op_type not in ("and_", "or_", "not_", "is_")
    )


def _memory(nodes: Sequence[NodeRecord], may_alias: Collection[str]) -> dict[str, str]:
    """By node, and by input of the graph, the name of the node whose memory it shows."""
    by_name = {node.name: node for node in nodes}
    found: dict[str, str] = {}
    for node in nodes:
        for name in node.inputs:
            found.setdefault(name, name)
        shows = node.inputs[0] if node.inputs and _shows_its_input(node, by_name, may_alias) else None
        found[node.name] = found[shows] if shows is not None else node.name
    return found


def _shows_its_input(node: NodeRecord, nodes: dict[str, NodeRecord], may_alias: Collection[str]) -> bool:
    parent = nodes.get(node.inputs[0])
    if node.op_type == "getitem" and parent is not None and parent.kind != "view" and len(parent.outputs) > 1:
        return False  # one of several results, each with memory of its own
    unknown = node.isolated.status != "ok" and node.op_type in may_alias
    return is_in_place(node) or node.kind == "view" or unknown
