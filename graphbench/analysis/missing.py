"""What a profile lacks or got wrong: rows without a time, and results that are not what they should be. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from graphbench.analysis.op_list import holds_ops
from graphbench.analysis.shares import TIMED_KINDS, has_no_backward
from graphbench.analysis.unfused import moves_nothing
from graphbench.analysis.views import is_unfaithful
from graphbench.conservation import post_grad_row
from graphbench.measurements import Comparison, Measurement
from graphbench.records import KernelRecord, NodeRecord, PostGradNode, RegionRecord, Side

What = Literal["region", "node", "eager backward", "post-grad node", "kernel", "run"]
"""Whose time is missing: `eager backward` is that of a node, `run` a side of a region as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """A row without a time, and why. `what` says which time is missing."""

    region: str
    row: str
    what: What
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatches:
    """Results that are not what they should be, by name, with what is known of the difference.

    `unfaithful`: rows whose isolated call gave another result than the real one. `regions` and `kernels`: compiled
    results that differ from eager's.
    """

    unfaithful: tuple[tuple[str, Comparison], ...]
    regions: tuple[tuple[str, Comparison], ...]
    kernels: tuple[tuple[str, Comparison], ...]


def named(region: RegionRecord, row: str, many: bool) -> str:
    """A row's name, with that of its region where there are `many`."""
    return f"{region.key}/{row}" if many else row


def mismatches(regions: Sequence[RegionRecord], many: bool) -> Mismatches:
    """Wrong results of all regions; names carry their region's where there are `many`."""
    unfaithful: list[tuple[str, Comparison]] = []
    kernels: list[tuple[str, Comparison]] = []
    for region in regions:
        unfaithful += [
            (named(region, name, many), measured.fidelity)
            for name, measured in isolated(region)
            if measured.fidelity is not None and is_unfaithful(measured)
        ]
        kernels += [
            (named(region, kernel.key, many), kernel.difference)
            for kernel in region.kernels
            if kernel.difference is not None and kernel.difference.equal is False
        ]
    differing = [(r.key, r.outputs) for r in regions if r.outputs is not None and r.outputs.equal is False]
    return Mismatches(unfaithful=tuple(unfaithful), regions=tuple(differing), kernels=tuple(kernels))


def isolated(region: RegionRecord) -> Iterator[tuple[str, Measurement]]:
    """Everything that was measured alone, by name."""
    yield from ((node.name, node.isolated) for node in region.nodes)
    yield from ((f"backward of {node.name}", node.backward_isolated) for node in region.nodes)
    yield from ((post_grad_row(node.phase, node.name), node.isolated) for node in region.post_grad)
    yield from ((kernel.key, kernel.isolated) for kernel in region.kernels)


def not_measured(region: RegionRecord) -> list[NotMeasured]:
    """Everything of a region that has no time though it should, itself included, and why.

    That a view, or the backward of what needs no gradient, was not timed is no news.
    """
    missing: list[NotMeasured] = []

    def note(row: str, what: What, status: str, reason: str) -> None:
        missing.append(NotMeasured(region=region.key, row=row, what=what, status=status, reason=reason))

    if region.status != "ok":
        note(region.key, "region", region.status, region.reason)
    for row, what, measured in _expected(region):
        if measured.status != "ok":
            note(row, what, measured.status, measured.reason)
    for name, side in () if holds_ops(region) else sides(region):
        if side.run is None and side.reason and not ("backward" in name and lacks_backward(region)):
            note(name, "run", "failed" if side.plain.status == "failed" else "skipped", side.reason)
    return missing


def sides(region: RegionRecord) -> tuple[tuple[str, Side], ...]:
    """The sides of a region by name, in the order in which they are told."""
    return (
        ("eager", region.eager),
        ("eager backward", region.eager_backward),
        ("forward", region.forward),
        ("backward", region.backward),
    )


def expected_backwards(region: RegionRecord) -> list[NodeRecord]:
    """The nodes whose own backward should have a time: none where nobody could call backward."""
    if lacks_backward(region):
        return []
    return [node for node in region.nodes if node.kind in TIMED_KINDS and not has_no_backward(node)]


def lacks_backward(region: RegionRecord) -> bool:
    """Whether there is no backward to measure, as in inference, which is no news."""
    parts: tuple[Sequence[KernelRecord | PostGradNode], ...] = (region.kernels, region.post_grad)
    found = any(part.phase == "backward" for entries in parts for part in entries)
    ran = any(node.backward_isolated.samples for node in region.nodes) or region.eager_backward.run is not None
    failed = "failed" in (region.backward.plain.status, region.eager_backward.plain.status)
    return not (found or ran or failed)


def _expected(region: RegionRecord) -> Iterator[tuple[str, What, Measurement]]:
    """The rows that should have a time, with what there is of it."""
    nodes = [node for node in region.nodes if node.kind in TIMED_KINDS]
    yield from ((node.name, "node", node.isolated) for node in nodes)
    if region.status == "ok":  # else its nodes and kernels say so already
        yield from ((node.name, "eager backward", node.backward_isolated) for node in expected_backwards(region))
        computing = [node for node in region.post_grad if not moves_nothing(node)]
        yield from ((post_grad_row(node.phase, node.name), "post-grad node", node.isolated) for node in computing)
    yield from ((kernel.key, "kernel", kernel.isolated) for kernel in region.kernels)
