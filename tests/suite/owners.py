"""Kernels without an owner, and how often each post-grad node is executed. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphbench.analysis.summary import is_owned
from graphbench.provenance.claims import RUN_GRAPHS
from graphbench.records import KernelRecord, PostGradNode, RegionRecord

TOKENS = ("torch.ops.prims._make_token", "torch.ops.prims._sink_tokens", "torch.ops.higher_order.with_effects")
"""What keeps effects in order, and an effect with its token, of which Inductor calls what is inside."""
SIZES = ("operator.", "_operator.", "math.", "torch.sym_", "torch.ops.aten._assert_")
"""How calls begin that compute with sizes or check them: the host's work, and no kernel's."""


def unowned(kernels: Iterable[KernelRecord]) -> list[str]:
    """Keys of kernels that belong to no node."""
    return [kernel.key for kernel in kernels if not is_owned(kernel)]


def executed_times(post_grad: Iterable[PostGradNode], kernels: Sequence[KernelRecord]) -> dict[str, float]:
    """How often each computing post-grad node is executed over all kernels, recomputation left out: once."""
    found: dict[str, float] = {}
    for node in post_grad:
        if node.op in ("placeholder", "get_attr") or node.is_view or node.target in ("getitem", *RUN_GRAPHS):
            continue
        if node.callee.startswith((*SIZES, *TOKENS)):
            continue
        found[f"{node.phase}:{node.name}"] = sum(
            dict(kernel.parts).get(node.name, 1.0)
            for kernel in kernels
            if kernel.phase == node.phase and node.name in kernel.executes and node.name not in kernel.recomputes
        )
    return found


def not_once(times: Mapping[str, float]) -> dict[str, float]:
    """Those that are not executed exactly once."""
    return {name: count for name, count in times.items() if abs(count - 1.0) > 1e-9}


def lacks_of_training(region: RegionRecord) -> list[str]:
    """What a region of a training step must have and this one has not."""
    backward = [kernel for kernel in region.kernels if kernel.phase == "backward"]
    idle = [kernel.key for kernel in backward if {role.role for role in kernel.roles} <= {"contributes"}]
    found = [f"{key} works for no node" for key in idle] + ([] if backward else ["no backward kernels"])
    if not any(role.role == "differentiates" for kernel in backward for role in kernel.roles):
        found.append("nothing is differentiated")
    if region.eager_backward.run is None or region.backward.run is None:
        found.append(f"a backward did not run: {region.eager_backward.reason or region.backward.reason}")
    return found
