"""Post-grad graphs and the kernels that Inductor made of them, small enough to judge by eye."""

from __future__ import annotations

from graphbench.provenance.claims import IrNode, KernelOrigins
from graphbench.records import PostGradNode


def post(name: str, *inputs: str, target: str = "", view: bool = False, op: str = "call_function") -> PostGradNode:
    """A post-grad node; one that is no view moves 300 bytes."""
    return PostGradNode(
        name=name,
        phase="forward",
        op=op,
        target=target or name,
        inputs=inputs,
        moved_bytes=0 if view else 300,
        is_view=view,
    )


def placeholder(name: str) -> PostGradNode:
    """An input of the graph."""
    return post(name, op="placeholder")


def fused(key: str, *irs: IrNode) -> KernelOrigins:
    """A generated kernel."""
    return KernelOrigins(key, False, irs)


def extern(key: str, *irs: IrNode) -> KernelOrigins:
    """A library or fallback call."""
    return KernelOrigins(key, True, irs)
