"""What a profile lacks or got wrong: rows without a time, and results that are not what they should be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.views import is_unfaithful
from graphbench.records import Comparison, KernelRecord, PostGradNode, RegionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """A row without a time, and why. `what` says which of its times is missing."""

    region: str
    row: str
    what: Literal["region", "node", "kernel", "run"]
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
        rows = [*((node.name, node.isolated) for node in region.nodes), *((k.key, k.isolated) for k in region.kernels)]
        unfaithful += [
            (named(region, name, many), measured.fidelity)
            for name, measured in rows
            if measured.fidelity is not None and is_unfaithful(measured)
        ]
        kernels += [
            (named(region, kernel.key, many), kernel.difference)
            for kernel in region.kernels
            if kernel.difference is not None and kernel.difference.equal is False
        ]
    differing = [(r.key, r.outputs) for r in regions if r.outputs is not None and r.outputs.equal is False]
    return Mismatches(unfaithful=tuple(unfaithful), regions=tuple(differing), kernels=tuple(kernels))


def not_measured(region: RegionRecord) -> list[NotMeasured]:
    """Everything of a region that has no time, itself included, and why."""
    missing: list[NotMeasured] = []

    def note(row: str, what: Literal["region", "node", "kernel", "run"], status: str, reason: str) -> None:
        missing.append(NotMeasured(region=region.key, row=row, what=what, status=status, reason=reason))

    if region.status != "ok":
        note(region.key, "region", region.status, region.reason)
    for node in region.nodes:
        if node.kind in TIMED_KINDS and node.isolated.status != "ok":
            note(node.name, "node", node.isolated.status, node.isolated.reason)
    for kernel in region.kernels:
        if kernel.isolated.status != "ok":
            note(kernel.key, "kernel", kernel.isolated.status, kernel.isolated.reason)
    for name, side in (("eager", region.eager), ("forward", region.forward), ("backward", region.backward)):
        if side.run is None and side.reason and not (name == "backward" and _has_no_backward(region)):
            note(name, "run", "failed" if side.plain.status == "failed" else "skipped", side.reason)
    return missing


def _has_no_backward(region: RegionRecord) -> bool:
    """In inference there is nothing to measure, which is no news."""
    parts: tuple[Sequence[KernelRecord | PostGradNode], ...] = (region.kernels, region.post_grad)
    found = any(part.phase == "backward" for entries in parts for part in entries)
    return region.backward.plain.status == "skipped" and not found
