"""What kernels could give: those slower than what they replaced, far from their limit, that only copy, and so on. Pure.

Every gain is of the kernels' own in-graph time in the step, and at most all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import partial
from typing import Final

from graphbench.analysis.attention import attention_opportunities
from graphbench.analysis.costs import post_grad_cost
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.fusion_totals import FAR
from graphbench.analysis.missed import MissedFusion, missed_fusions
from graphbench.analysis.opportunity import Found, OpportunityKind, Scene
from graphbench.analysis.roofline import Limit
from graphbench.analysis.unfused import moves_nothing
from graphbench.records import KernelRecord
from graphbench.units import count_text, format_bytes, format_duration, format_percent

SLOWER: Final = 1.05
"""A kernel is told to be slower than its post-grad nodes one by one from this ratio on."""
COPIES: Final = frozenset({"clone", "copy", "contiguous"})
CASTS: Final = frozenset({"_to_copy", "convert_element_type", "to"})


def kernel_opportunities(scene: Scene, rows: Sequence[FusionRow]) -> Iterator[Found]:
    """All of one region; `rows` are its fusions."""
    yield from _slower(scene, rows)
    yield from _far_from_limit(scene, rows)
    yield from attention_opportunities(scene)
    yield from _missed(scene)
    yield from _copies(scene)
    yield from _recomputed(scene)


def _slower(scene: Scene, rows: Sequence[FusionRow]) -> Iterator[Found]:
    """Kernels slower than their nodes were; those that compute a node together once, by their sum."""
    by_key, told = {row.key: row for row in rows}, set[str]()
    for row in rows:
        if row.key in told:
            continue
        members = [row, *(by_key[key] for key in row.together)]
        told.update(member.key for member in members)
        kernels = [scene.kernels[member.key] for member in members]
        against = _replaced(scene, members, kernels)
        fused_ns = _whole([member.fused_ns for member in members])
        in_graph_ns = scene.time_ns(*kernels)
        if against is None or fused_ns is None or in_graph_ns is None:
            continue
        how, base_ns = against
        runs = scene.runs(row.phase)
        # In the graph it may be faster than alone, its inputs being in the cache: that cannot be gained again.
        gain_ns = min((fused_ns - base_ns) * runs, in_graph_ns - base_ns * runs)
        if gain_ns > 0:  # at a place that loses nothing it would take from the gain of equal ones
            tell = partial(_tell_slower, fused_ns, base_ns, how)
            yield Found(kind="slower", gain_ns=gain_ns, kernels=kernels, tell=tell)


def _tell_slower(fused_ns: float, base_ns: float, how: str) -> tuple[str, str]:
    return f"{format_duration(fused_ns)} where its nodes take {format_duration(base_ns)} {how}", ""


def _replaced(scene: Scene, members: Sequence[FusionRow], kernels: Sequence[KernelRecord]) -> tuple[str, float] | None:
    """What kernels are slower than, and its time; `None` where nothing is known to be faster."""
    fused_ns = _whole([member.fused_ns for member in members])
    eager_ns = _whole([member.eager.p50_ns if member.eager else None for member in members])
    unfused_ns = _whole([member.unfused_ns for member in members])
    if members[0].verdict == "slower" and eager_ns is not None:
        return "eager", eager_ns
    if fused_ns is None or unfused_ns is None or fused_ns <= SLOWER * unfused_ns:
        return None
    least_ns = _whole([member.fused.p10 * max(1, member.calls) if member.fused else None for member in members])
    most_ns = _whole([_most_unfused(scene, kernel) for kernel in kernels])
    return ("one by one", unfused_ns) if least_ns is not None and most_ns is not None and least_ns > most_ns else None


def _most_unfused(scene: Scene, kernel: KernelRecord) -> float | None:
    """The 90th percentiles of a kernel's post-grad nodes together, as `unfused_times` adds up their medians."""
    nodes, parts = scene.post_grad[kernel.phase], dict(kernel.parts)
    found = [(name, scene.digest.summary(nodes[name].isolated)) for name in kernel.executes if name in nodes]
    known = [summary.p90 * parts.get(name, 1.0) for name, summary in found if summary is not None]
    return max(1, kernel.calls) * sum(known) if known else None


def _far_from_limit(scene: Scene, rows: Sequence[FusionRow]) -> Iterator[Found]:
    for row in rows:
        kernel = scene.kernels[row.key]
        in_graph_ns, limit = scene.time_ns(kernel), row.limit
        calls = max(1, kernel.calls) * scene.runs(kernel.phase)
        if not in_graph_ns or not calls or limit.part is None or limit.time_ns is None:
            continue
        # In the graph it may be nearer to its limit than alone, its inputs being in the cache.
        part = max(limit.part, limit.time_ns * calls / in_graph_ns)
        if 0 < part < FAR:
            tell = partial(_tell_far, part, limit, limit.time_ns / part)
            yield Found(kind="far from limit", gain_ns=in_graph_ns * (1 - part), kernels=[kernel], tell=tell)


def _tell_far(part: float, limit: Limit, call_ns: float) -> tuple[str, str]:
    bound = f" ({limit.bound})" if limit.bound != "launch" else ""  # the host's limit: another opportunity
    reached = format_percent(part, decimals=0) if part >= 0.01 else "under 1 %"  # 0 % would say that it does nothing
    what = f"reaches {reached} of its limit{bound}"
    return what, f"{format_duration(call_ns)} a call, {format_duration(limit.time_ns)} at the limit"


def _missed(scene: Scene) -> Iterator[Found]:
    for missed in missed_fusions(scene.region, scene.ceilings):
        first, second = scene.kernels[missed.first], scene.kernels[missed.second]
        most_ns = [_part_ns(scene, first, missed.written_bytes), _part_ns(scene, second, missed.read_bytes)]
        whole_ns = _whole(most_ns)
        if missed.saved_ns is None or whole_ns is None:
            continue
        yield Found(
            kind="missed fusion",
            gain_ns=min(missed.saved_ns * scene.runs(missed.phase), whole_ns),
            kernels=[first, second],
            tell=partial(_tell_missed, missed),
        )


def _tell_missed(missed: MissedFusion) -> tuple[str, str]:
    parts = [f"{format_bytes(missed.read_bytes)} read again"]
    parts += [f"{format_bytes(missed.written_bytes)} written for it"] if missed.written_bytes else []
    said = f"the scheduler: {missed.reason}" if missed.reason else ""
    return ", ".join(parts), "; ".join(filter(None, (missed.how, said)))


def _part_ns(scene: Scene, kernel: KernelRecord, moved_bytes: int) -> float | None:
    """The part of a kernel's in-graph time that falls to some of its bytes: in the cache they cost less than memory."""
    time_ns = scene.time_ns(kernel)
    all_bytes = sum(entry.read_bytes + entry.written_bytes for entry in kernel.traffic) * max(1, kernel.calls)
    return None if time_ns is None or not all_bytes else time_ns * min(moved_bytes / all_bytes, 1.0)


def _copies(scene: Scene) -> Iterator[Found]:
    """Kernels that compute nothing: a copy in another layout, or in another dtype."""
    for kernel in scene.region.kernels:
        in_graph_ns = scene.time_ns(kernel)
        nodes = [scene.post_grad[kernel.phase].get(name) for name in kernel.executes]
        targets = {node.target for node in nodes if node is not None and not moves_nothing(node)}
        roles = {role.role for role in kernel.roles} - {"contributes"}
        if in_graph_ns is None or None in nodes:
            continue
        if targets and targets <= COPIES | CASTS:
            kind: OpportunityKind = "copy" if targets.isdisjoint(CASTS) else "cast"
        elif not targets and roles == {"prepares"}:
            kind = "copy"
        else:
            continue
        yield Found(kind=kind, gain_ns=in_graph_ns, kernels=[kernel], tell=partial(_tell_copy, kernel, targets))


def _tell_copy(kernel: KernelRecord, targets: Set[str]) -> tuple[str, str]:
    if targets:
        return f"only copies: {', '.join(sorted(targets))}", ""
    prepared = list(dict.fromkeys(role.node for role in kernel.roles if role.role == "prepares"))
    return f"only copies, into the layout that {', '.join(prepared[:2])} needs", ""


def _recomputed(scene: Scene) -> Iterator[Found]:
    """Kernels in which computing values again takes longer than reading them would, had they been kept."""
    for kernel in scene.region.kernels:
        again = _again(kernel)
        in_graph_ns, share = scene.time_ns(kernel), _share(scene, kernel, again) if again else None
        if in_graph_ns is None or share is None:
            continue
        kept_bytes = _kept_bytes(scene, kernel, again)
        least_ns = None if kept_bytes is None else _least_ns(scene, kernel, kept_bytes, alone=share == 1)
        if kept_bytes is None or least_ns is None:
            continue
        read_ns = scene.ceilings.memory_ns(kept_bytes, 0) or 0.0
        calls = max(1, kernel.calls) * scene.runs(kernel.phase)
        gain_ns = min(in_graph_ns * share - calls * read_ns, in_graph_ns - calls * least_ns)
        if gain_ns > 0:
            tell = partial(_tell_recomputed, len(again), kept_bytes)
            yield Found(kind="recomputed", gain_ns=gain_ns, kernels=[kernel], tell=tell)


def _least_ns(scene: Scene, kernel: KernelRecord, kept_bytes: float, *, alone: bool) -> float | None:
    """What a call takes at least that reads kept values beside what it moves now: arithmetic may cost it nothing.

    Of a kernel that does nothing else, `alone`, only the reading is left, in whoever needs the values.
    """
    if alone:
        return scene.ceilings.memory_ns(kept_bytes, 0)
    if not kernel.traffic:
        return None
    read, written = (sum(getattr(entry, name) for entry in kernel.traffic) for name in ("read_bytes", "written_bytes"))
    return scene.ceilings.memory_ns(read + kept_bytes, written)


def _tell_recomputed(count: int, kept_bytes: float) -> tuple[str, str]:
    what = f"computes {count_text(count, 'post-grad node')} again: reading is shorter"
    return what, f"keeping it takes {format_bytes(int(kept_bytes))} of memory meanwhile"


def _again(kernel: KernelRecord) -> frozenset[str]:
    """The post-grad nodes of a kernel whose values were computed before, in its own graph or in the forward."""
    forward = {name for role in kernel.roles if role.role == "recomputes" for name in role.post_grad}
    return frozenset(kernel.recomputes) | (forward & set(kernel.executes))


def _share(scene: Scene, kernel: KernelRecord, again: frozenset[str]) -> float | None:
    """Part of a kernel that falls to what it computes again, by the nodes' times one by one."""
    times: dict[str, float] = {}
    for name in kernel.executes:
        node = scene.post_grad[kernel.phase].get(name)
        if node is None:
            return None
        time_ns = 0.0 if moves_nothing(node) else scene.digest.median(node.isolated)
        if time_ns is None:
            return None
        times[name] = time_ns
    total_ns = sum(times.values())
    return sum(times.get(name, 0.0) for name in again) / total_ns if total_ns else None


def _kept_bytes(scene: Scene, kernel: KernelRecord, again: frozenset[str]) -> float | None:
    """Bytes of the recomputed values that the rest of a kernel needs; without such a rest, of what it writes."""
    nodes = scene.post_grad[kernel.phase]
    waiting = [name for name in kernel.executes if name not in again]
    needed, seen = set[str](), set(waiting)
    while waiting:
        for name in nodes[waiting.pop()].inputs:
            if name in again and not moves_nothing(nodes[name]):
                needed.add(name)
            elif name in again and name not in seen:  # a view: what it is of
                seen.add(name)
                waiting.append(name)
    if not needed:
        return sum(entry.written_bytes for entry in kernel.traffic) if kernel.traffic else None
    return _whole([post_grad_cost(nodes[name]).written_bytes for name in needed])


def _whole(times: Sequence[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return sum(known) if len(known) == len(times) else None
