"""The lines above the tables: before and after fusion, findings, coverage, what is missing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from graphbench.analysis.by_hand import ByHandOp, by_hand_ops
from graphbench.analysis.clocks import ClockCounts, clock_counts
from graphbench.analysis.memory import memory_peaks
from graphbench.analysis.missing import Mismatches, NotMeasured, What, sides
from graphbench.analysis.op_list import is_op_list
from graphbench.analysis.size_groups import base_of, groups_of, size_names, sizes_text, worst
from graphbench.analysis.steps import StepSummary, nothing_compiled
from graphbench.analysis.summary import Coverage, Owners, ProfileSummary
from graphbench.analysis.totals import BeforeAfter
from graphbench.bench_protocol import BENCH
from graphbench.measurements import EVENT_TIMERS, Comparison, TimerName
from graphbench.plaintext import clean
from graphbench.records import BY_HAND, TOLD_FIRST, ProfileRecord
from graphbench.report.cuda_graph_lines import graph_lines, unused_lines
from graphbench.report.names import shorten_kernel
from graphbench.report.step_lines import nothing_compiled_line, step_lines, verdict_lines
from graphbench.step_records import FOREIGN_GRAPHS
from graphbench.units import count_text, format_bytes, format_coverage, format_duration, format_percent, format_ratio

NAMES_SHOWN = 4
REASONS_SHOWN = 6
NAME_WIDTH = 48


def totals_table(summary: ProfileSummary, timer: TimerName) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the before/after table: forward, and where there is one backward and both, on each basis.

    Columns for which no row has a value are left out, and so is the phase where there is only one.
    """
    lines = totals_lines(summary, timer)
    headers = ["", "", "eager", "unfused", "compiled", "saved", "speedup"]
    rows = [
        [
            line.part if position == 0 or lines[position - 1].part != line.part else "",
            basis_text(line, timer),
            *map(format_duration, (line.eager_ns, line.unfused_ns, line.compiled_ns, line.saved_ns)),
            format_ratio(line.speedup),
        ]
        for position, line in enumerate(lines)
    ]
    without = {0} if all(line.part == "forward" for line in lines) else set()
    without |= {3} if all(line.unfused_ns is None for line in lines) else set()
    return _without(headers, without), [_without(row, without) for row in rows]


def totals_lines(summary: ProfileSummary, timer: TimerName) -> list[BeforeAfter]:
    """The lines of the before/after table: without wall times where nobody took them, or where busy time is one."""
    # On the CPU busy time is wall time, and the plain run's is taken without any instrument.
    on_cpu = timer == "wallclock"
    walls = [line for line in summary.before_after if line.basis == "wall"]
    hidden = "wall" if on_cpu or all(line.eager_ns is line.compiled_ns is None for line in walls) else None
    return [line for line in summary.before_after if line.basis != hidden]


def totals_aligns(headers: Sequence[str]) -> list[str]:
    """Names stand left, numbers right."""
    return ["right" if header else "left" for header in headers]


def _without(cells: Sequence[str], positions: Container[int]) -> list[str]:
    return [cell for position, cell in enumerate(cells) if position not in positions]


def basis_text(line: BeforeAfter, timer: TimerName) -> str:
    """What the times of a line are; a sum that is not of all rows says of how many."""
    if line.basis == "wall":
        return "wall (no instrument)"
    if line.basis == "plain":
        on_device = "between events" if timer in EVENT_TIMERS else "device busy"
        return f"plain run ({'wall' if timer == 'wallclock' else on_device})"
    if line.basis == "in_graph":
        return "in-graph (labelled run)"
    return "Σ isolated (part)" if _parts(line) else "Σ isolated"


def _parts(line: BeforeAfter) -> str:
    """Of how many rows a sum is, where that is not all of them."""
    timed = line.timed
    if line.basis != "isolated" or timed is None:
        return ""
    parts = [] if timed.whole else [f"{timed.nodes[0]}/{timed.nodes[1]} nodes"]
    parts += [f"{timed.post_grad[0]}/{timed.post_grad[1]} post-grad"] if timed.post_grad[0] < timed.post_grad[1] else []
    parts += [] if timed.whole else [f"{timed.kernels[0]}/{timed.kernels[1]} kernels"]
    return ", ".join(parts)


def partial_sums(summary: ProfileSummary) -> list[str]:
    """Of how many rows the sums of the table above are, where that is not all of them."""
    told = [(line.part, parts) for line in summary.before_after if (parts := _parts(line))]
    one = len({part for part, _ in told}) == 1 == len(told)
    return [f"Σ isolated (part){'' if one else f', {part}'}: of {parts}" for part, parts in told]


def replay_lines(record: ProfileRecord) -> list[str]:
    """Which in-graph times are of CUDA-graph replays."""
    many = len({base_of(region) for region in record.regions}) > 1
    replayed = [
        (f"{base_of(region)} {name}" if many else name, side.graph_nodes)
        for region in record.regions
        for name, side in sides(region)
        if side.graph_nodes is not None
    ]
    replayed = list(dict.fromkeys(replayed))
    return [f"{name}: in-graph times are of CUDA-graph replays ({nodes} nodes each)" for name, nodes in replayed]


def finding_lines(
    record: ProfileRecord,
    summary: ProfileSummary,
    step: StepSummary | None = None,
    *,
    fusion: Iterable[str] = (),
    wide: bool = False,
) -> list[str]:
    """What to know before reading the tables: clocks, who waits for whom, wrong results, then what is covered.

    `step` sums up the recorded step, where there is one; `fusion` are the lines that say whether fusion paid; `wide`
    names every kernel without a node.
    """
    eager_only = nothing_compiled(record)
    timer = record.policy.timer
    told = [f"warning: {clean(note)}" for note in record.notes if note.startswith(TOLD_FIRST)]
    told += _clocks(clock_counts(record))
    if is_op_list(record):
        return [*told, *_ops(summary), *mismatch_lines(summary.mismatches), *not_measured_lines(summary.not_measured)]
    return [
        *told,
        *unused_lines(record),
        *([nothing_compiled_line(record)] if eager_only else []),
        *size_lines(record),
        *(verdict_lines(step, compiled=not eager_only and not _has_foreign_graphs(record)) if step else ()),
        *_host_bound(record, summary),
        *graph_lines(record),
        *mismatch_lines(summary.mismatches),
        *fusion,
        *([] if eager_only else [f"coverage: {coverage_text(summary.coverage, timer)}"]),
        *(step_lines(step) if step else ()),
        *_step_coverage(record, summary),
        *(f"owners: {_owners(owners, wide)}" for owners in summary.owners),
        *([] if eager_only else [_nodes(summary), _kernels(summary)]),
        *_memory(record),
        *by_hand_lines(by_hand_ops(record)),
        *not_measured_lines(entry for entry in summary.not_measured if not entry.reason.startswith(BY_HAND)),
        *_unknown(summary),
    ]


def size_lines(record: ProfileRecord) -> Iterator[str]:
    """Which graphs were called with several sizes, and which sizes each of their regions had."""
    for groups in groups_of(record):
        if len(groups) < 2:
            continue
        base, names = base_of(groups[0]), size_names(groups[0]).values()
        yield (
            f"sizes: {base} takes any {clean(', '.join(names))}: {len(groups)} groups of sizes, each measured as a "
            "region; totals add one call of each"
        )
        told = [
            f"{region.key} {sizes_text(region)}" + (f" ({count_text(region.calls, 'call')})" if region.calls else "")
            for region in groups
        ]
        yield f"sizes: {clean('; '.join(told))}"


def compares_sides(record: ProfileRecord) -> bool:
    """Whether there is anything compiled to compare with eager: not in an eager step, nor in an op list."""
    return not nothing_compiled(record) and not is_op_list(record)


def _ops(summary: ProfileSummary) -> Iterator[str]:
    """What an op list took, and that nothing of it was compiled."""
    count, total = summary.nodes, summary.total
    sums = [f"Σ isolated {format_duration(total.eager_isolated_ns)}"]
    backward_ns = total.eager_backward_isolated_ns
    sums += [f"of backwards {format_duration(backward_ns)}"] if backward_ns is not None else []
    shared = f" ({count.shared} by an equal op's measurement)" if count.shared else ""
    states = f", under {len(summary.regions)} ambient states" if len(summary.regions) > 1 else ""
    yield (
        f"op list: {count_text(count.captured, 'op')}{states}, {count.timed} timed{shared}, {count.skipped} skipped, "
        f"{count.failed} failed; {', '.join(sums)}"
    )
    yield "op list: every op ran alone and eagerly; nothing was compiled, so that no side is there to compare with"


def _has_foreign_graphs(record: ProfileRecord) -> bool:
    return record.step is not None and any(note.startswith(FOREIGN_GRAPHS) for note in record.step.notes)


def coverage_text(coverage: Coverage, timer: TimerName, what: str = "kernel") -> str:
    """Such as `attributed 100.00 % (122 kernels, 0 unattributed, 0 dropped)`; `what` was counted."""
    if coverage.attributed is None:
        return "nothing ran labelled"
    if timer in EVENT_TIMERS and coverage.wrapper is not None:
        return (
            f"labelled {format_coverage(1 - coverage.wrapper)} ({count_text(coverage.kernels, 'row')}); {timer} cannot "
            f"tell whether the other {format_percent(coverage.wrapper)} was idle or unlabelled work"
        )
    text = (
        f"attributed {format_coverage(coverage.attributed)} ({count_text(coverage.kernels, what)}, "
        f"{len(coverage.unattributed)} unattributed, {coverage.dropped} dropped)"
    )
    if coverage.unattributed:
        text += f": {names_text(coverage.unattributed)}"
    if coverage.wrapper is not None:
        text += f", of which {format_percent(coverage.wrapper)} between {what}s (wrapper)"
    return text


def names_text(names: Sequence[str], *, shown: int = NAMES_SHOWN) -> str:
    """The first names of a list, and how many more there are."""
    return _listed([shorten_kernel(clean(name), NAME_WIDTH) for name in names[:shown]], len(names))


def _listed(shown: Sequence[str], total: int) -> str:
    text = ", ".join(shown)
    return text if len(shown) == total else f"{text} and {total - len(shown)} more"


def mismatch_lines(mismatches: Mismatches) -> list[str]:
    """Warnings of results that are not what they should be, each naming its rows and the largest difference."""
    kinds = (
        (mismatches.regions, "compiled results differ from eager's beyond tolerance"),
        (mismatches.kernels, "kernels whose result differs from eager's beyond tolerance"),
        (mismatches.unfaithful, "unfaithful: alone these gave another result than in the run"),
    )
    return [f"warning: {words}: {_differences(found)}" for found, words in kinds if found]


def _differences(found: Sequence[tuple[str, Comparison]]) -> str:
    def size(comparison: Comparison) -> str:
        return clean(comparison.note or "no size") if comparison.max_abs is None else f"by {comparison.max_abs:.1e}"

    named = [f"{shorten_kernel(clean(name), NAME_WIDTH)} ({size(entry)})" for name, entry in found[:NAMES_SHOWN]]
    return _listed(named, len(found))


def by_hand_lines(ops: Sequence[ByHandOp]) -> list[str]:
    """What is to be benchmarked by hand: the ops, what to do, and of each why."""
    if not ops:
        return []
    names = names_text([entry.op for entry in ops])
    return [
        f"to benchmark by hand: {count_text(len(ops), 'op')}: {names}; implement {BENCH}, see graphbench docs "
        "custom-ops",
        *(f"by hand: {clean(op.op)}: {clean(op.why)} ({names_text(op.rows)})" for op in ops[:REASONS_SHOWN]),
    ]


def not_measured_lines(missing: Iterable[NotMeasured]) -> list[str]:
    """What has no time, grouped by reason; of many reasons the most frequent, and how many rows the others are."""
    groups: dict[What, dict[tuple[str, str], list[str]]] = {}
    for entry in missing:
        groups.setdefault(entry.what, {}).setdefault((entry.status, entry.reason), []).append(entry.row)
    lines: list[str] = []
    for what, by_reason in groups.items():
        ordered = sorted(by_reason.items(), key=lambda found: -len(found[1]))
        for (status, reason), rows in ordered[:REASONS_SHOWN]:
            lines.append(f"not measured: {count_text(len(rows), what)} {status}: {clean(reason)} ({names_text(rows)})")
        rest = [rows for _, rows in ordered[REASONS_SHOWN:]]
        if rest:
            more = count_text(sum(map(len, rest)), f"more {what}")
            lines.append(f"not measured: {more} for {count_text(len(rest), 'other reason')}, which JSON lists")
    return lines


def _clocks(counts: ClockCounts) -> Iterator[str]:
    if counts.matters:
        yield (
            f"warning: clocks: of {count_text(counts.timed, 'timed row')}, {counts.throttled} throttled and "
            f"{counts.moved} with a clock that moved: their times are not of one clock"
        )


def _host_bound(record: ProfileRecord, summary: ProfileSummary) -> Iterator[str]:
    """Of the groups of sizes of a graph, the one whose host is behind most."""
    bound = [region for region in summary.regions if region.host_bound]
    replaying = {region.key for region in record.regions if region.forward.graph_nodes is not None}
    if bound:
        late = worst(
            record,
            bound,
            lambda region: region.region,
            lambda region: (region.times.forward_host_ns or 0.0) - (region.times.plain_forward_ns or 0.0),
        )
        for region in late:
            host, device = region.times.forward_host_ns, region.times.plain_forward_ns
            what = "launching its CUDA graphs" if region.region in replaying else "issuing its kernels"
            yield (
                f"host-bound: {region.region}: {what} takes {format_duration(host)}, the device needs "
                f"{format_duration(device)}: fusing them further will not make it faster"
            )


def _step_coverage(record: ProfileRecord, summary: ProfileSummary) -> Iterator[str]:
    """The step's coverage, unless the regions' line has said it: one whole region and nothing around it."""
    step, coverage = record.step, summary.step_coverage
    if step is None or coverage is None:
        return
    ran = {(row.region, row.kernel) for row in step.rows}
    regions = [region for region in record.regions if region.status == "ok"]
    known = {(region.key, kernel.key) for region in regions for kernel in region.kernels}
    whole = coverage.attributed is not None and coverage.attributed >= 1 and not coverage.dropped
    whole = whole and record.policy.timer not in EVENT_TIMERS
    if len(regions) > 1 or ran != known or not whole:
        what = "row" if step.run.n_kernels is None else "kernel"
        yield f"coverage of the step: {coverage_text(coverage, record.policy.timer, what)}"


def _owners(owners: Owners, wide: bool) -> str:
    fraction = owners.owned_ns / owners.time_ns if owners.time_ns else None
    text = f"{owners.phase}: {owners.owned} of {owners.kernels} kernels have a node"
    text += f", {format_coverage(fraction)} of kernel time" if fraction is not None else ""
    if not owners.without:
        return text
    if len(owners.without) > NAMES_SHOWN and not wide:
        return f"{text}; {len(owners.without)} without"
    return f"{text}; without: {names_text(owners.without, shown=len(owners.without))}"


def _nodes(summary: ProfileSummary) -> str:
    count = summary.nodes
    rest = f"{count.host} host, {count.state} state, {count.skipped} skipped, {count.failed} failed"
    shared = f", {count.shared} by an equal node's measurement" if count.shared else ""
    return f"nodes: {count.captured} captured, {count.timed} timed{shared}; {count.views} views, {rest}"


def _kernels(summary: ProfileSummary) -> str:
    count = summary.kernels
    return f"kernels: {count.total}, {count.timed} timed, {count.skipped} skipped, {count.failed} failed"


def _memory(record: ProfileRecord) -> Iterator[str]:
    """Such as `memory: eager peaks at 1.20 GiB, compiled 0.90 GiB; most results of eager are alive at mlp: ...`."""
    many = len(record.regions) > 1
    for peak in worst(record, memory_peaks(record), lambda peak: peak.region, lambda peak: peak.held_bytes):
        sides = (("eager peaks at", peak.eager_bytes), ("compiled", peak.compiled_bytes))
        known = [f"{name} {format_bytes(size)}" for name, size in sides if size is not None]
        where = clean(f"{peak.node} ({peak.module})" if peak.module else peak.node)
        held = f"{format_bytes(peak.held_bytes)} of {count_text(peak.holders, 'node')}"
        text = "; ".join(
            [*([", ".join(known)] if known else []), f"most results of eager are alive at {where}: {held}"]
        )
        yield f"memory: {f'{peak.region}: ' if many else ''}{text}"


def _unknown(summary: ProfileSummary) -> Iterator[str]:
    if summary.unknown_fate:
        yield f"fate unknown: {count_text(len(summary.unknown_fate), 'node')} ({names_text(summary.unknown_fate)})"
