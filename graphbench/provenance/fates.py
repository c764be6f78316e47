"""What became of every Dynamo node. Pure; no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from graphbench.provenance.liveness import live
from graphbench.provenance.vanished import NO_OPERATION
from graphbench.records import Fate, FateKind, KernelRecord, NodeRecord, PostGradNode

EXECUTING = ("executes", "recomputes")
# fmt: off
MAY_DO_NOTHING = frozenset({
    "to", "type", "type_as", "float", "half", "bfloat16", "double", "int", "long", "bool", "cpu", "cuda",
    "contiguous", "clone", "detach", "detach_", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
    "feature_alpha_dropout", "getitem", "expand", "expand_as", "reshape", "view", "view_as", "flatten",
    "unflatten", "squeeze", "unsqueeze", "chunk", "split", "unbind", "narrow", "permute", "transpose",
    "requires_grad_", "positive", "real", "resolve_conj", "resolve_neg", "broadcast_to", "ravel", "atleast_1d",
    "atleast_2d", "pad", "masked_fill", "wait_tensor",
})
# fmt: on
"""Ops that may return their input, so that tracing them records nothing; of any other op the trace was lost."""
CONSTANTS = ("full", "full_like", "scalar_tensor")
"""What constant folding leaves of ops on constants; kernels hold such values in their code."""
NO_WORK: Final = "no device work of its own"


def fates(
    nodes: Sequence[NodeRecord],
    post_grad: Iterable[PostGradNode],
    kernels: Sequence[KernelRecord],
    results: Iterable[str],
    vanished: Mapping[str, Fate] | None = None,
    constants: Collection[str] = (),
) -> dict[str, Fate]:
    """The fate of every node of a region.

    Args:
        nodes: the region's nodes in program order.
        post_grad: post-grad nodes of the forward graph.
        kernels: the region's kernels with their roles; backward kernels do not decide a fate.
        results: names of the nodes that the region returns.
        vanished: fates of nodes that the forward graph does not name.
        constants: names of the constants that the forward graph reads.

    Returns:
        A `Fate` per node name: `kernel`, `fused` or `split` for what kernels execute; `rewritten` for what kernels
        execute as something else, which the note names; `folded` for what became a constant or did nothing; `merged`
        for what is computed once for two; `view` for what moved no data; `dead` for what no result depends on;
        `unknown` for the rest, which every report counts. What backward alone computes has the fate that it has there.
    """
    executing: dict[str, list[KernelRecord]] = {}
    companions: dict[str, set[str]] = {}
    for phase in ("forward", "backward"):
        known = frozenset(executing)
        for kernel in kernels:
            members = {role.node for role in kernel.roles if role.role in EXECUTING and kernel.phase == phase}
            for member in members - known:
                executing.setdefault(member, []).append(kernel)
                companions.setdefault(member, set()).update(members - {member})
    lowered: dict[str, list[PostGradNode]] = {}
    by_name = {node.name: node for node in post_grad}
    for node in by_name.values():
        for source in node.sources:
            lowered.setdefault(source, []).append(node)
    compute = {node.name for node in nodes if node.kind == "compute"}
    known_of = _Known(
        executing=executing,
        beside={name: members & compute for name, members in companions.items()},
        lowered=lowered,
        constant=_of_constants(by_name, constants),
        live=live(nodes, results, MAY_DO_NOTHING),
        vanished=vanished or {},
    )
    return {node.name: _fate(node, known_of) for node in nodes}


class _Known(NamedTuple):
    """What decides fates.

    By Dynamo node: the kernels that execute it, what these execute beside it, what it became, and fates of those
    without a trace. Names of post-grad nodes that are constant, and of Dynamo nodes that matter.
    """

    executing: Mapping[str, Sequence[KernelRecord]]
    beside: Mapping[str, set[str]]
    lowered: Mapping[str, Sequence[PostGradNode]]
    constant: set[str]
    live: set[str]
    vanished: Mapping[str, Fate]


def _fate(node: NodeRecord, known: _Known) -> Fate:
    kernels = tuple(kernel.key for kernel in known.executing.get(node.name, ()))
    if node.kind in ("state", "host"):
        return Fate(kind="unknown", kernels=kernels, note=f"{node.kind} node: {NO_WORK}")
    if node.kind == "view":
        return Fate(kind="view", kernels=kernels, note="materialised by a kernel" if kernels else "")
    became = known.lowered.get(node.name, ())
    computing = [entry for entry in became if not entry.is_view and entry.target != "getitem"]
    targets = ", ".join(dict.fromkeys(entry.target for entry in computing))
    if kernels and computing and all(entry.rewrote for entry in computing):
        kind: FateKind = "folded" if all(entry.target in CONSTANTS for entry in computing) else "rewritten"
        return Fate(kind=kind, kernels=kernels, note=targets)
    if len(kernels) > 1:
        return Fate(kind="split", kernels=kernels)
    if kernels:
        return Fate(kind="fused" if known.beside[node.name] else "kernel", kernels=kernels)
    if node.name not in known.live:
        return Fate(kind="dead")
    if computing and all(entry.name in known.constant for entry in computing):
        return Fate(kind="folded", note="its value is known when compiling")
    if became and all(entry.is_view for entry in became):
        return Fate(kind="view", note="lowered to views only")
    gone = known.vanished.get(node.name)
    if gone is not None and (gone.note != NO_OPERATION or node.op_type in MAY_DO_NOTHING):
        return gone
    return Fate(kind="unknown", note="no kernel executes it" if became else "no post-grad node names it")


def _of_constants(nodes: Mapping[str, PostGradNode], constants: Collection[str]) -> set[str]:
    """Post-grad nodes that depend on no input of their graph; inputs are not among `nodes`, which are in order."""
    found = set(constants)
    for name, node in nodes.items():
        if all(source in found for source in node.inputs):
            found.add(name)
    return found
