"""The lines above the tables: on what and how it was measured, before and after fusion, coverage, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from graphbench.analysis.stats import quantile
from graphbench.analysis.summary import Coverage, NotMeasured, Owners, ProfileSummary
from graphbench.records import Environment, Policy, ProfileRecord
from graphbench.report.grid import clean, shorten
from graphbench.units import MISSING, format_bytes, format_coverage, format_duration, format_percent, format_ratio

NAMES_SHOWN = 5
NAME_WIDTH = 80


def heading_lines(record: ProfileRecord) -> list[str]:
    """Title, environment and policy."""
    return [
        f"graphbench profile of {clean(record.subject)} ({record.created})",
        _environment(record.environment),
        _policy(record.policy),
    ]


def totals_table(summary: ProfileSummary) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the before/after table: eager, compiled forward, their ratio, compiled backward."""
    totals = summary.total
    partial = _partial(summary)
    lines = (
        ("plain run (uninstrumented)", totals.plain_eager_ns, totals.plain_forward_ns, totals.plain_backward_ns),
        ("in-graph (labelled run)", totals.eager_in_graph_ns, totals.forward_in_graph_ns, totals.backward_in_graph_ns),
        (f"Σ isolated{partial}", totals.eager_isolated_ns, totals.forward_isolated_ns, totals.backward_isolated_ns),
    )
    rows = []
    for name, eager_ns, forward_ns, backward_ns in lines:
        whole = not (partial and name.endswith(partial))
        ratio = eager_ns / forward_ns if whole and eager_ns is not None and forward_ns else None
        times = (format_duration(eager_ns), format_duration(forward_ns), format_ratio(ratio))
        rows.append([name, *times, format_duration(backward_ns)])
    headers = ["", "eager", "compiled", "eager/compiled", "backward"]
    if all(row[-1] == MISSING for row in rows):
        return headers[:-1], [row[:-1] for row in rows]
    return headers, rows


def _partial(summary: ProfileSummary) -> str:
    """How many rows a sum of isolated times is of, unless of all: such a sum is not set against another."""
    n_nodes = summary.nodes.timed + summary.nodes.skipped + summary.nodes.failed
    if summary.nodes.timed == n_nodes and summary.kernels.timed == summary.kernels.total:
        return ""
    return f" ({summary.nodes.timed}/{n_nodes} nodes, {summary.kernels.timed}/{summary.kernels.total} kernels)"


def finding_lines(record: ProfileRecord, summary: ProfileSummary) -> list[str]:
    """What to know before reading the tables: host-bound regions first, then coverage, owners, counts and gaps."""
    return [
        *_host_bound(summary),
        f"coverage: {coverage_text(summary.coverage)}",
        *_step(record),
        *([f"coverage of the step: {coverage_text(summary.step_coverage)}"] if summary.step_coverage else []),
        *(f"owners: {_owners(owners)}" for owners in summary.owners),
        _nodes(summary),
        _kernels(summary),
        *not_measured_lines(summary.not_measured),
        *_unknown(summary),
    ]


def coverage_text(coverage: Coverage) -> str:
    """Such as `attributed 100.00 % (122 kernels, 0 unattributed, 0 dropped)`."""
    if coverage.attributed is None:
        return "nothing ran labelled"
    text = (
        f"attributed {format_coverage(coverage.attributed)} ({coverage.kernels} kernels, "
        f"{len(coverage.unattributed)} unattributed, {coverage.dropped} dropped)"
    )
    if coverage.unattributed:
        text += f": {names_text(coverage.unattributed)}"
    if coverage.wrapper is not None:
        text += f", of which {format_percent(coverage.wrapper)} between kernels (wrapper)"
    return text


def names_text(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    shown = ", ".join(shorten(clean(name), NAME_WIDTH, tail=True) for name in names[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{shown} and {len(names) - NAMES_SHOWN} more"


def not_measured_lines(missing: Iterable[NotMeasured]) -> list[str]:
    """What has no time, grouped by reason."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for entry in missing:
        groups.setdefault((entry.what, entry.status, entry.reason), []).append(entry.row)
    return [
        f"not measured: {len(rows)} {what}{'s' if len(rows) > 1 else ''} {status}: {clean(reason)} ({names_text(rows)})"
        for (what, status, reason), rows in groups.items()
    ]


def break_lines(record: ProfileRecord) -> list[str]:
    """Graph breaks, recompiles and notes."""
    lines = [f"graph breaks: {len(record.breaks) or 'none'}; recompiles: {record.recompiles}"]
    for entry in record.breaks:
        where = f"{entry.source.file}:{entry.source.line}" if entry.source else "unknown place"
        region = f" (ends {entry.region})" if entry.region else ""
        lines.append(f"  {clean(where)}: {clean(entry.reason)}{region}")
    notes = [*record.notes, *(record.step.notes if record.step else ())]
    lines.extend(f"note: {clean(note)}" for note in notes)
    lines.extend(f"note: {region.key}: {clean(note)}" for region in record.regions for note in region.notes)
    return lines


def _environment(environment: Environment) -> str:
    parts = [f"torch {environment.torch}", f"Python {environment.python}"]
    if environment.gpu:
        clock = f", SM {environment.sm_clock_mhz} MHz" if environment.sm_clock_mhz else ""
        l2 = f", L2 {format_bytes(environment.gpu_l2_bytes)}" if environment.gpu_l2_bytes else ""
        parts.append(f"{environment.gpu}{l2}{clock}")
        parts += [f"{name} {value}" for name, value in _gpu_software(environment) if value]
    parts.append(f"{environment.cpu}, {environment.num_threads} threads")
    return "on: " + clean(" | ".join(parts))


def _gpu_software(environment: Environment) -> Iterator[tuple[str, str | None]]:
    yield "CUDA", environment.cuda
    yield "driver", environment.driver
    yield "CUPTI", environment.libcupti
    yield "Triton", environment.triton


def _policy(policy: Policy) -> str:
    fixed = policy.repeat is not None
    amount = f"{policy.repeat} samples" if fixed else f"{policy.min_samples} to {policy.max_samples} samples a row"
    budget = "" if fixed else f" in {policy.measure_ms:g} ms"
    warmup = f"{policy.warmup_ms:g} ms warm-up" if policy.warmup is None else f"{policy.warmup} warm-ups"
    return f"how: timer {policy.timer} | cache {policy.cache} | values {policy.values} | {amount}{budget}, {warmup}"


def _host_bound(summary: ProfileSummary) -> Iterator[str]:
    for region in summary.regions:
        if region.host_bound:
            host, device = region.times.forward_host_ns, region.times.plain_forward_ns
            yield (
                f"host-bound: {region.region}: issuing its kernels takes {format_duration(host)}, the device needs "
                f"{format_duration(device)}: fusing them further will not make it faster"
            )


def _step(record: ProfileRecord) -> Iterator[str]:
    if record.step is not None:
        plain = record.step.plain_wall_ns
        wall = format_duration(quantile(plain, 0.5) if plain else None)
        busy = format_duration(quantile(record.step.run.busy_ns, 0.5))
        yield f"step: {wall} of wall time uninstrumented; labelled, {busy} busy"


def _owners(owners: Owners) -> str:
    fraction = owners.owned_ns / owners.time_ns if owners.time_ns else None
    text = f"{owners.phase}: {owners.owned} of {owners.kernels} kernels have a node"
    text += f", {format_coverage(fraction)} of kernel time" if fraction is not None else ""
    return f"{text}; without: {names_text(owners.without)}" if owners.without else text


def _nodes(summary: ProfileSummary) -> str:
    count = summary.nodes
    rest = f"{count.host} host, {count.state} state, {count.skipped} skipped, {count.failed} failed"
    shared = f", {count.shared} by an equal node's measurement" if count.shared else ""
    return f"nodes: {count.captured} captured, {count.timed} timed{shared}; {count.views} views, {rest}"


def _kernels(summary: ProfileSummary) -> str:
    count = summary.kernels
    return f"kernels: {count.total}, {count.timed} timed, {count.skipped} skipped, {count.failed} failed"


def _unknown(summary: ProfileSummary) -> Iterator[str]:
    if summary.unknown_fate:
        n_nodes = len(summary.unknown_fate)
        yield f"fate unknown: {n_nodes} node{'s' if n_nodes > 1 else ''} ({names_text(summary.unknown_fate)})"
