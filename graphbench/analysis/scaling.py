"""Profiles of one model on several sets of inputs: nodes, sums of nodes and whole runs over their sizes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.analysis.conditions import environment, findings, other_arithmetic, other_device
from graphbench.analysis.diff_regions import pair_regions
from graphbench.analysis.digest import Digest
from graphbench.analysis.growth import Growing, Growth, growths_over
from graphbench.analysis.scaling_groups import GroupScaling, groups_by_module, groups_by_op
from graphbench.analysis.scaling_rows import NodeScaling, node_scaling
from graphbench.analysis.sizes import Axis, axis_of, inputs_text, sizes_of
from graphbench.analysis.summary import summary
from graphbench.analysis.totals import Basis, BeforeAfter
from graphbench.errors import UsageError
from graphbench.measurements import TimerName
from graphbench.records import TOLD_FIRST, ProfileRecord

_WHOLE_RUNS: tuple[tuple[Basis, str], ...] = (("wall", "wall time"), ("plain", "busy"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalScaling(Growing):
    """Whole runs of all regions without labels, in nanoseconds or as a ratio, one value a set."""

    name: str
    is_time: bool
    values: tuple[float | None, ...]
    growth: Growth | None = None
    further: tuple[Growth, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Profiles over the sizes of their inputs, the smallest first. `labels` name the sets, `axis` is their size.

    `ops` and `modules` are sums of nodes. `warnings` may explain a growth that is no property of the model's.
    `others` are further sizes, where several change and the exponents of all come from one fit. Of groups of one
    `region` of a profile, `symbols` say what its sizes are called and which dimensions those are.
    """

    subject: str
    timer: TimerName
    labels: tuple[str, ...]
    inputs: tuple[str, ...]
    axis: Axis
    totals: tuple[TotalScaling, ...]
    rows: tuple[NodeScaling, ...]
    ops: tuple[GroupScaling, ...]
    modules: tuple[GroupScaling, ...]
    warnings: tuple[str, ...] = ()
    others: tuple[Axis, ...] = ()
    region: str = ""
    symbols: tuple[tuple[str, str], ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All sizes that change."""
        return (self.axis, *self.others)


def scaling(
    records: Sequence[ProfileRecord],
    *,
    names: Sequence[str] = (),
    by: str | None = None,
    left_out: Sequence[str] = (),
) -> Scaling:
    """Set the times of several profiles of one model against the sizes of their inputs.

    Regions and nodes are joined as by `diff`. Profiles are put in the order of the size; a node that one of them lacks
    has no time there, and no growth.

    Args:
        records: two or more, measured in the same way.
        names: what to call them; by default after their sizes.
        by: the dimension to go by, such as `input_ids[1]`, or `elements`; others may change too, and are then held.
        left_out: names of sets that belong to these and were not measured, to be told.

    Raises:
        UsageError: fewer than two profiles, no such dimension, or timers, cache states or devices that differ.
    """
    if len(records) < 2:
        raise UsageError(
            f"found {len(records)} profile, expected two or more", hint="measure the model on other sizes too"
        )
    for record in records[1:]:
        _check_alike(records[0], record)
    axis = axis_of([sizes_of(record) for record in records], by)
    return scaled(records, (axis,), names or _names(records, axis), left_out)


def scaled(
    records: Sequence[ProfileRecord], axes: Sequence[Axis], names: Sequence[str], left_out: Sequence[str] = ()
) -> Scaling:
    """The same over sizes that are known, with the exponents of all from one fit; in the order of the first of them.

    Args:
        records: two or more, measured in the same way.
        axes: what changes, in the order of the records.
        names: what to call the records.
        left_out: as of `scaling`.
    """
    order = sorted(range(len(records)), key=lambda index: tuple(axis.values[index] for axis in axes))
    records, names = [records[index] for index in order], [names[index] for index in order]
    axes = [axis.ordered(order) for axis in axes]
    digests = [Digest() for _ in records]
    rows = node_scaling(records, digests, names, axes)
    return Scaling(
        subject=records[0].subject,
        timer=records[0].policy.timer,
        labels=tuple(names),
        inputs=tuple(map(inputs_text, records)),
        axis=axes[0],
        others=tuple(axes[1:]),
        totals=tuple(_totals(records, digests, axes)),
        rows=tuple(rows),
        ops=tuple(groups_by_op(rows, axes)),
        modules=tuple(groups_by_module(rows, axes)),
        warnings=(*(f"{name}: left out, since it was not measured" for name in left_out), *_warnings(records, names)),
    )


def fastest_growing(found: Scaling, *, share: float = 0.05) -> NodeScaling | None:
    """The node with the largest exponent of those that take a part worth knowing at the largest size."""
    known = [
        (entry.exponent, row)
        for row in found.rows
        for entry in row.growths
        if entry.is_known and not row.doubt and (row.shares[-1] or 0.0) >= share
    ]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _names(records: Sequence[ProfileRecord], axis: Axis) -> list[str]:
    """After their sizes, or where several have one size after all their inputs."""
    if len(set(axis.values)) == len(axis.values):
        return [f"{axis.name}={value}" for value in axis.values]
    return [inputs_text(record) or f"set {index}" for index, record in enumerate(records, start=1)]


def _check_alike(first: ProfileRecord, other: ProfileRecord) -> None:
    for what, a, b in (
        ("timers", first.policy.timer, other.policy.timer),
        ("cache states", first.policy.cache, other.policy.cache),
    ):
        if a != b:
            raise UsageError(
                f"cannot set profiles of different {what} against their sizes: {a} and {b}",
                hint="measure all of them in the same way",
                subject=what,
            )
    devices = other_device(first, other)
    if devices is not None:
        raise UsageError(
            f"cannot set profiles of different devices against their sizes: {devices[0]} and {devices[1]}",
            hint="measure all of them on one; graphbench diff compares two devices",
            subject="devices",
        )


def _warnings(records: Sequence[ProfileRecord], names: Sequence[str]) -> list[str]:
    """What else than the sizes differs from the first profile."""
    found: list[str] = []
    for name, record in zip(names, records, strict=True):
        found += [f"{name}: {note}" for note in record.notes if note.startswith(TOLD_FIRST)]
        if record.subject != records[0].subject:
            found.append(f"another model: {records[0].subject} for {names[0]}, {record.subject} for {name}")
        found += [f"{names[0]} (before) and {name} (after): {finding}" for finding in findings(records[0], record)]
        for old, new in pair_regions(records[0].regions, record.regions):
            if old is not None and new is not None:
                found += [f"{name}, against {names[0]}: {text}" for text in other_arithmetic(old, new)]
        differing = [what for what, _, _ in environment(records[0], record) if not what.startswith("ceiling ")]
        if differing:
            found.append(f"{name} was measured under other conditions than {names[0]}: {', '.join(differing)}")
    return found


def _totals(records: Sequence[ProfileRecord], digests: Sequence[Digest], axes: Sequence[Axis]) -> list[TotalScaling]:
    """Eager and compiled runs, forward and backward together where every profile has both."""
    lines = [summary(record, digest).before_after for record, digest in zip(records, digests, strict=True)]
    found: list[TotalScaling] = []
    for basis, what in _WHOLE_RUNS:
        both = [_line(entry, "both", basis) for entry in lines]
        chosen = both if all(both) else [_line(entry, "forward", basis) for entry in lines]
        eager = tuple(line.eager_ns if line else None for line in chosen)
        compiled = tuple(line.compiled_ns if line else None for line in chosen)
        if not any((*eager, *compiled)):
            continue
        found += [_time(f"{what}, eager", eager, axes), _time(f"{what}, compiled", compiled, axes)]
        speedups = tuple(line.speedup if line else None for line in chosen)
        found.append(TotalScaling(name=f"{what}, eager ÷ compiled", is_time=False, values=speedups))
    return found


def _line(lines: Sequence[BeforeAfter], part: str, basis: Basis) -> BeforeAfter | None:
    return next((line for line in lines if (line.part, line.basis) == (part, basis) and _known(line)), None)


def _known(line: BeforeAfter) -> bool:
    return line.eager_ns is not None or line.compiled_ns is not None


def _time(name: str, values: tuple[float | None, ...], axes: Sequence[Axis]) -> TotalScaling:
    known = [value for value in values if value is not None]
    found = growths_over(axes, known, [0.0] * len(known)) if len(known) == len(values) else ()
    return TotalScaling(name=name, is_time=True, values=values, growth=found[0] if found else None, further=found[1:])
