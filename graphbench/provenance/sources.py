"""From what kernels execute (post-grad nodes) to what the user wrote (Dynamo nodes). Pure; no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from graphbench.provenance.ownership import Ownership
from graphbench.records import NodeRole, PostGradNode, Role


def roles(ownership: Ownership, nodes: Mapping[str, PostGradNode]) -> tuple[NodeRole, ...]:
    """The parts that Dynamo nodes play in one kernel, strongest first, one entry per node and role.

    Args:
        ownership: what the kernel executes, recomputes, prepares and reads.
        nodes: the post-grad graph by name, in program order.

    Views move nothing and give no role: a linear is not executed by the kernel that reshapes its result.

    A backward graph's nodes that come from a Dynamo node are forward ops computed again, so they are `recomputes`; its
    other nodes are part of the backward of what they differentiate.

    Returns:
        Roles in the order executes, differentiates, recomputes, prepares, contributes. A node with a stronger role is
        not repeated with a weaker one; one that is differentiated may be recomputed as well. `moved_bytes` are those
        that its post-grad nodes move in this kernel, of one that several kernels execute this kernel's part; a
        post-grad node made of several Dynamo nodes gives each an equal share.
    """
    ranked: tuple[tuple[Role, set[str]], ...] = (
        ("executes", ownership.executes),
        ("recomputes", ownership.recomputes),
        ("prepares", ownership.prepares),
        ("contributes", ownership.contributes),
    )
    found: list[NodeRole] = []
    placed: set[str] = set()
    for role, names in ranked:
        members = [nodes[name] for name in nodes if name in names and not nodes[name].is_view]
        if role == "executes":
            found += _of_role("differentiates", members, _differentiated, ownership.parts)
        effective: Role = "recomputes" if role == "executes" and any(m.phase == "backward" for m in members) else role
        named = _worked_for if role == "prepares" else _came_from
        part = [entry for entry in _of_role(effective, members, named, ownership.parts) if entry.node not in placed]
        placed |= {entry.node for entry in part}
        found += part
    if not any(entry.role != "contributes" for entry in found):
        # A copy of a view's result, such as of an expanded gradient, or a gradient computed again: no op of its own.
        rest = [nodes[name] for name in nodes if name in ownership.executes | ownership.recomputes]
        found = [
            *_of_role("differentiates", rest, _differentiated, ownership.parts),
            *_of_role("executes", rest, _came_from, ownership.parts),
            *found,
        ]
    return tuple(found)


def _came_from(node: PostGradNode) -> Sequence[str]:
    return node.sources


def _differentiated(node: PostGradNode) -> Sequence[str]:
    return node.differentiates


def _worked_for(node: PostGradNode) -> Sequence[str]:
    return node.sources or node.differentiates


def _of_role(
    role: Role,
    post_grad_nodes: Iterable[PostGradNode],
    named: Callable[[PostGradNode], Sequence[str]],
    parts: Mapping[str, float],
) -> list[NodeRole]:
    through: dict[str, list[str]] = {}
    moved: dict[str, float] = {}
    for node in post_grad_nodes:
        moved_bytes = (node.moved_bytes or 0) * parts.get(node.name, 1.0)
        for source in named(node):
            through.setdefault(source, []).append(node.name)
            moved[source] = moved.get(source, 0.0) + moved_bytes / len(named(node))
    return [
        NodeRole(node=source, role=role, post_grad=tuple(names), moved_bytes=round(moved[source]))
        for source, names in through.items()
    ]
