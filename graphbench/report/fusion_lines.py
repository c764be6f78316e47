"""The lines above the tables that say whether fusion paid: time and traffic, limits, what is slower or suspicious."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphbench.analysis.fusion_totals import FAR, AtLimit, FusionTotals, Removed
from graphbench.analysis.roofline import OVER
from graphbench.analysis.totals import BeforeAfter, Timed
from graphbench.report.overview import names_text
from graphbench.units import UNKNOWN, count_text, format_duration, format_percent, format_traffic

BEYOND = "faster than at the limit, which cannot be: see suspicious"


def fusion_lines(found: FusionTotals, before_after: Sequence[BeforeAfter]) -> Iterator[str]:
    """One line each: times, traffic, limits that nobody knows, slower kernels, those far from their limit, suspicions.

    Args:
        found: sums over the rows of all kernels.
        before_after: the before/after summary.
    """
    if found.at_limit:
        yield f"fusion: {_times(found.at_limit, before_after)}"
    if found.removed:
        yield f"traffic: {_traffic(found.removed)}"
    if found.no_limits:
        yield f"limits: {UNKNOWN}: {found.no_limits}"
    if found.slower:
        yield f"slower than what it replaced: {count_text(len(found.slower), 'kernel')}: {names_text(found.slower)}"
    if found.far:
        share = f" with {format_percent(found.far_share)} of kernel time" if found.far_share is not None else ""
        far = f"{count_text(len(found.far), 'kernel')} below {format_percent(FAR, decimals=0)} of it{share}"
        yield f"far from the limit: {far}: {names_text(found.far)}"
    if found.suspicious:
        rows = sum(len(names) for _, names in found.suspicious)
        told = "; ".join(f"{names_text(names)} ({reason})" for reason, names in found.suspicious)
        yield f"suspicious: {count_text(rows, 'row')}: {told}"


def _times(at_limit: AtLimit, before_after: Sequence[BeforeAfter]) -> str:
    """Such as `eager 2.28 ms → unfused 3.18 ms → fused 1.22 ms → at the limit 740 µs (60.7 % reached)`."""
    isolated = [line for line in before_after if line.basis == "isolated"]
    line = next((line for line in isolated if line.part == "both"), isolated[0])
    timed = line.timed or Timed()
    steps = (
        ("eager", line.eager_ns, timed.nodes, "nodes"),
        ("unfused", line.unfused_ns, timed.post_grad, "post-grad nodes"),
        ("fused", line.compiled_ns, timed.kernels, "kernels"),
    )
    told = [
        f"{name} {format_duration(time_ns)}{f' ({count} of {of} {what})' if count < of else ''}"
        for name, time_ns, (count, of), what in steps
        if time_ns is not None
    ]
    told.append(f"at the limit {format_duration(at_limit.limit_ns)}")
    notes = []
    if at_limit.kernels < at_limit.timed:
        notes.append(
            f"of {at_limit.kernels} of {at_limit.timed} kernels, which take {format_duration(at_limit.fused_ns)}"
        )
    if at_limit.fused_ns:
        reached = at_limit.limit_ns / at_limit.fused_ns
        notes.append(f"{format_percent(reached)} reached" if reached <= OVER else BEYOND)
    return f"{' → '.join(told)} ({'; '.join(notes)})"


def _traffic(removed: Removed) -> str:
    """Such as `eager 250 MB → unfused 1.55 GB → fused 150 MB: fusion removed 100 MB, 40.0 % of eager's`."""
    steps = [f"eager {format_traffic(removed.eager_bytes)}"]
    if removed.unfused_bytes is not None:
        steps.append(f"unfused {format_traffic(removed.unfused_bytes)}")
    steps.append(f"fused {format_traffic(removed.moved_bytes)}")
    less = removed.removed_bytes
    words = f"fusion removed {format_traffic(less)}" if less >= 0 else f"fusion added {format_traffic(-less)}"
    part = f", {format_percent(abs(less) / removed.eager_bytes)} of eager's" if removed.eager_bytes else ""
    return f"{' → '.join(steps)}: {words}{part}{_among(removed)}"


def _among(removed: Removed) -> str:
    if removed.whole:
        return ""
    if removed.kernels < removed.of:
        return f" (of {removed.kernels} of {removed.of} kernels, whose traffic is known)"
    return " (of what became kernels; not every node's traffic is known)"
