"""What a step would take if some nodes were faster: their parts of their kernels shrink, the rest stays. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from graphbench import markup
from graphbench.analysis.compiled_costs import kernel_parts
from graphbench.analysis.digest import Digest
from graphbench.analysis.matching import folded, is_meant, unmatched
from graphbench.analysis.step_time import SideKey, StepTime, step_time
from graphbench.errors import UsageError
from graphbench.plaintext import clean
from graphbench.records import KernelRecord, NodeRecord, ProfileRecord, RegionRecord
from graphbench.step_records import StepRow
from graphbench.units import count_text, format_duration, format_percent, format_ratio

NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedNode:
    """A node, or with an empty `region` a gap op, that a pattern matches.

    Times are its part of the kernels that work for it, all calls of the step, in nanoseconds.
    """

    region: str
    name: str
    op_type: str
    module: str
    before_ns: float
    after_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedKernel:
    """A kernel that works for matched nodes: `part` of its in-graph time is theirs, of all its calls.

    `others` are the nodes besides that it works for. `time_ns` is `None` where it was not measured: then nothing is
    predicted of it.
    """

    region: str
    key: str
    time_ns: float | None
    part: float
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A prediction. Times of a step in nanoseconds: of the recorded one, else of every region run once.

    The device's time is in-graph time, the wall time that without any instrument; `None` where not known. `factor` is
    how much faster the matched nodes get, `inf` where they are gone. `host_bound`: the device waits for the host, in
    all that matches or in some of it, so that the wall time stays. `missing` names kernels and gap ops that matched
    nodes need and that have no in-graph time: nothing is predicted of them. Printing it says all this.
    """

    pattern: str
    factor: float
    nodes: tuple[MatchedNode, ...]
    kernels: tuple[TouchedKernel, ...]
    recorded: bool
    before_ns: float | None
    after_ns: float | None
    wall_before_ns: float | None
    wall_after_ns: float | None
    host_bound: bool
    missing: tuple[str, ...] = ()

    @property
    def saved_ns(self) -> float:
        """How much less device time."""
        return sum(node.before_ns - node.after_ns for node in self.nodes)

    def __str__(self) -> str:
        return "\n".join(map(clean, self.lines()))

    def _repr_html_(self) -> str:
        first, *others = self.lines()
        return markup.block([markup.line(first, strong=True), *map(markup.line, others)])

    def lines(self) -> Iterator[str]:
        """The prediction in words, one sentence a line."""
        taken = f"1/{self.factor:g} of" if self.factor >= 1 else f"{1 / self.factor:g} times"
        what = "are gone" if math.isinf(self.factor) else f"take {taken} their time"
        yield f"what if: {count_text(len(self.nodes), 'node')} of {self.pattern!r} {what}"
        whose = "step" if self.recorded else "regions, each run once"
        yield f"  in-graph, {whose}: {_change(self.before_ns, self.after_ns)}"
        yield f"  wall: {_change(self.wall_before_ns, self.wall_after_ns)}{self._why_wall()}"
        largest = sorted(self.nodes, key=lambda node: -node.before_ns)
        named = [f"{_name(node)} {format_duration(node.before_ns)}" for node in largest[:NAMED]]
        yield f"  matched: {', '.join(named)}{_more(len(largest))}"
        shared = sorted((k for k in self.kernels if k.others), key=lambda k: -(k.time_ns or 0.0) * k.part)
        if shared:
            parts = [f"{k.key} ({format_percent(k.part, decimals=0)}, with {_few(k.others)})" for k in shared[:NAMED]]
            yield f"  kernels shared with other nodes: {', '.join(parts)}{_more(len(shared))}"
        if self.missing:
            yield f"  not predicted, since without an in-graph time: {_few(self.missing)}"
        yield (
            "  assumed: kernels stay as they are, a node's part of one is that of the bytes that its post-grad nodes "
            "move there, and the host's part does not shrink"
        )

    def _why_wall(self) -> str:
        if self.wall_before_ns is None:
            return "no uninstrumented time"
        return "; host-bound: the host's part has to shrink first" if self.host_bound else ""


def _change(before_ns: float | None, after_ns: float | None) -> str:
    if before_ns is None or after_ns is None:
        return ""
    ratio = f", {format_ratio(before_ns / after_ns)}" if after_ns else ""
    less = f" ({100 * (after_ns / before_ns - 1):+.1f} %{ratio})" if before_ns else ""
    return f"{format_duration(before_ns)} -> {format_duration(after_ns)}{less}"


def _name(node: MatchedNode) -> str:
    return f"{node.region}/{node.name}" if node.region else node.name


def _more(count: int) -> str:
    return f" and {count - NAMED} more" if count > NAMED else ""


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def what_if(record: ProfileRecord, pattern: str, factor: float = 2.0, digest: Digest | None = None) -> WhatIf:
    """Predict a step in which the nodes that match take 1/`factor` of their time, forward and backward.

    A node's time is its part of the in-graph time of the kernels that work for it, as `compiled` times are divided. Gap
    ops of a recorded step are matched too, by name and op type.

    Args:
        record: a profile.
        pattern: shell-style, of a node's name (`gelu*`, or `r0/gelu`), its op type, or its module's path, in which `*`
            is one part: `layers.*.mlp` is that module of every layer and all below it.
        factor: how much faster they get, above 0; `inf` removes them.
        digest: statistics already computed for this record.

    Raises:
        UsageError: nothing matches (the hint names what comes close), or a factor that is not above 0.
    """
    if not factor > 0:
        raise UsageError(f"factor {factor:g}: expected above 0", hint="2 is twice as fast, inf removes the nodes")
    digest = digest or Digest()
    every = [node for region in record.regions for node in region.nodes]
    step, fold = step_time(record, digest), folded(every)
    regions = [
        (region, [n for n in region.nodes if is_meant(pattern, region.key, n, fold)]) for region in record.regions
    ]
    gaps = [row for row in _gap_rows(record) if any(fnmatchcase(name, pattern) for name in (row.name, row.op_type))]
    if not gaps and not any(matched for _, matched in regions):
        raise unmatched(pattern, every, fold, [row.op_type for row in _gap_rows(record)])
    timed = [(row, time_ns) for row in gaps if (time_ns := digest.median(row.in_graph)) is not None]
    nodes = [_gap_node(row, time_ns, factor) for row, time_ns in timed]
    saved: dict[SideKey | None, float] = {None: sum(node.before_ns - node.after_ns for node in nodes)}
    kernels: list[TouchedKernel] = []
    for region, matched in regions:
        touched = _touch(region, matched, step)
        kernels += [kernel for kernel, _ in touched]
        nodes += _matched_nodes(region, matched, touched, factor)
        for kernel, found in touched:
            side = (region.key, found.phase)
            part_ns = (kernel.time_ns or 0.0) * kernel.part
            saved[side] = saved.get(side, 0.0) + part_ns - part_ns / factor
    missing = [kernel.key for kernel in kernels if kernel.time_ns is None]
    missing += [row.name for row in gaps if digest.median(row.in_graph) is None]
    return _predicted(pattern, factor, nodes, kernels, step, saved, missing)


def _gap_rows(record: ProfileRecord) -> list[StepRow]:
    return [row for row in (record.step.rows if record.step else ()) if row.kernel is None]


def _predicted(
    pattern: str,
    factor: float,
    nodes: Sequence[MatchedNode],
    kernels: Sequence[TouchedKernel],
    step: StepTime,
    saved: dict[SideKey | None, float],
    missing: Sequence[str],
) -> WhatIf:
    total_ns = sum(saved.values())
    # A labelled run may take longer than a plain one: then the wall loses the same part, not as much time.
    plain = {side: step.of_the_wall * saved_ns for side, saved_ns in saved.items()}
    wall_after_ns, due_ns = step.wall_after(plain), sum(plain.values())
    given_ns = 0.0 if wall_after_ns is None or step.wall_ns is None else step.wall_ns - wall_after_ns
    return WhatIf(
        pattern=pattern,
        factor=factor,
        nodes=tuple(nodes),
        kernels=tuple(kernels),
        recorded=step.recorded,
        before_ns=step.device_ns,
        after_ns=None if step.device_ns is None else max(step.device_ns - total_ns, 0.0),
        wall_before_ns=step.wall_ns,
        wall_after_ns=wall_after_ns,
        host_bound=step.wall_ns is not None and due_ns - given_ns > 0.01 * abs(due_ns),
        missing=tuple(missing),
    )


def _touch(
    region: RegionRecord, matched: Sequence[NodeRecord], step: StepTime
) -> list[tuple[TouchedKernel, KernelRecord]]:
    """The kernels that work for matched nodes, and how much of each."""
    names = {node.name for node in matched}
    found = []
    for kernel in region.kernels if names else ():
        parts = kernel_parts(kernel)
        if names.isdisjoint(parts) or (step.recorded and (region.key, kernel.phase) not in step.runs):
            continue
        touched = TouchedKernel(
            region=region.key,
            key=kernel.key,
            time_ns=step.kernels.get((region.key, kernel.key)),
            part=sum(part for name, part in parts.items() if name in names),
            others=tuple(name for name in parts if name not in names),
        )
        found.append((touched, kernel))
    return found


def _matched_nodes(
    region: RegionRecord,
    matched: Sequence[NodeRecord],
    touched: Sequence[tuple[TouchedKernel, KernelRecord]],
    factor: float,
) -> list[MatchedNode]:
    times: dict[str, float] = dict.fromkeys((node.name for node in matched), 0.0)
    for kernel, found in touched:
        for name, part in kernel_parts(found).items():
            if name in times:
                times[name] += (kernel.time_ns or 0.0) * part
    return [
        MatchedNode(
            region=region.key,
            name=node.name,
            op_type=node.op_type,
            module=node.module,
            before_ns=times[node.name],
            after_ns=times[node.name] / factor,
        )
        for node in matched
    ]


def _gap_node(row: StepRow, before_ns: float, factor: float) -> MatchedNode:
    return MatchedNode(
        region="", name=row.name, op_type=row.op_type, module="", before_ns=before_ns, after_ns=before_ns / factor
    )
