"""What the benchmarks read from a profile: rows against runs, kernel time with an owner, equal units. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from graphbench.analysis.stats import quantile
from graphbench.analysis.summary import summary
from graphbench.measurements import JsonValue, Measurement, RunRecord, TensorSpec
from graphbench.records import NodeRecord, ProfileRecord, RegionRecord, Side

COMPILED = ("forward", "backward")


def figures(record: ProfileRecord) -> dict[str, Any]:
    """All of them."""
    return {
        "runs": [run_figures(*entry) for region in record.regions for entry in runs(region)],
        "owned_time_percent": owned_time_percent(record),
        "equal_units": equal_units(record),
        "not_measured": [
            f"{entry.row}: {entry.reason}" for entry in summary(record).not_measured if entry.status == "failed"
        ],
        "regions_not_run": [f"{region.key}: {region.reason}" for region in record.regions if region.status != "ok"],
    }


def runs(region: RegionRecord) -> Iterator[tuple[str, Side, list[Measurement]]]:
    """Every side of a region that ran labelled, with the rows that must explain it."""
    sides = (
        ("eager", region.eager, [node.in_graph for node in region.nodes]),
        ("eager_backward", region.eager_backward, [node.backward_in_graph for node in region.nodes]),
        *(
            (phase, getattr(region, phase), [one.in_graph for one in region.kernels if one.phase == phase])
            for phase in COMPILED
        ),
    )
    for name, side, rows in sides:
        if side.run:
            yield f"{region.key} {name}", side, rows


def run_figures(name: str, side: Side, rows: Sequence[Measurement]) -> dict[str, Any]:
    """How far a run's rows are from its total, and what part of it they explain.

    On a device the total is the time it was busy, of which `attributed_percent` has a row. On the CPU it is the wall
    time; an overlap there is no part of the sum, since calls of one thread cannot overlap: it is a deviation, and so is
    a label outside its run. `kernels_percent` is the rows' part of a compiled run's wall time, `plain_wall_ms` that of
    the same run without labels.
    """
    run = side.run
    assert run is not None
    columns = [row.samples.busy_ns for row in rows if row.samples]
    rows_ns = [sum(column[i] for column in columns) for i in range(len(run.busy_ns))]
    on_cpu = run.wrapper_ns is not None
    totals_ns = run.wall_ns if on_cpu else run.busy_ns
    deviations = [
        100 * (_explained_ns(run, i, rows_ns[i]) / total_ns - 1) for i, total_ns in enumerate(totals_ns) if total_ns
    ]
    busy_ns = sum(run.busy_ns)
    share = [100 * row / total for row, total in zip(rows_ns, totals_ns, strict=True) if total]
    compiled = name.split()[-1] in COMPILED
    return {
        "run": name,
        "rows": len(columns),
        "wall_ms": quantile(run.wall_ns, 0.5) / 1e6,
        "plain_wall_ms": quantile(side.wall_ns, 0.5) / 1e6 if side.wall_ns else None,
        "busy_ms": quantile(run.busy_ns, 0.5) / 1e6,
        "rows_against_total_percent": max(deviations, key=abs) if deviations else None,
        "kernels_percent": quantile(share, 0.5) if on_cpu and compiled and share else None,
        "attributed_percent": None if on_cpu or not busy_ns else 100 * (1 - sum(run.unattributed_ns) / busy_ns),
        "unattributed": list(run.unattributed),
        "dropped": run.dropped,
    }


def _explained_ns(run: RunRecord, sample: int, rows_ns: float) -> float:
    if run.wrapper_ns is not None:
        return rows_ns + run.wrapper_ns[sample]
    beside_ns = run.beside_ns[sample] if run.beside_ns else 0.0
    return rows_ns + beside_ns + run.unattributed_ns[sample] - run.overlap_ns[sample]


def owned_time_percent(record: ProfileRecord) -> float | None:
    """Kernel time, forward and backward, of kernels that belong to a node; `None` where no kernel has a time."""
    owners = summary(record).owners
    time_ns = sum(entry.time_ns for entry in owners)
    return 100 * sum(entry.owned_ns for entry in owners) / time_ns if time_ns else None


def equal_units(record: ProfileRecord) -> dict[str, Any]:
    """Rows that are equal by what the profile says of them, and those measured more than once.

    Two nodes of a region are equal here when op, constants and the specs of everything read are, whether the tensors
    are the same one included. A row in the place of another must name one that is equal and was measured itself.
    """
    groups: dict[str, list[NodeRecord]] = defaultdict(list)
    for region in record.regions:
        specs = _specs(region)
        for node in region.nodes:
            if node.isolated.samples is not None:
                groups[f"{region.key} {_key(node, specs)}"].append(node)
    several = [group for group in groups.values() if len(group) > 1]
    again, strangers = [], []
    for group in several:
        own = [node.name for node in group if node.isolated.shared_with is None]
        if len(own) > 1:
            again.append(f"{group[0].op_type}: {', '.join(own)}")
    for group in groups.values():
        own = [node.name for node in group if node.isolated.shared_with is None]
        strangers += [
            f"{node.name} in the place of {node.isolated.shared_with}"
            for node in group
            if node.isolated.shared_with is not None and node.isolated.shared_with not in own
        ]
    shared = sum(node.isolated.shared_with is not None for group in several for node in group)
    return {"groups": len(several), "shared_rows": shared, "measured_again": again, "in_place_of_another": strangers}


Specs = Mapping[str, tuple[TensorSpec, ...]]


def _specs(region: RegionRecord) -> Specs:
    found: dict[str, tuple[TensorSpec, ...]] = {entry.name: (entry.spec,) for entry in region.inputs if entry.spec}
    return found | {node.name: node.outputs for node in region.nodes}


def _key(node: NodeRecord, specs: Specs) -> str:
    order: dict[str, int] = {}

    def told(value: JsonValue) -> Any:
        if isinstance(value, dict) and set(value) == {"node"}:
            name = str(value["node"])
            return [order.setdefault(name, len(order)), [astuple(spec) for spec in specs.get(name, ())]]
        if isinstance(value, dict):
            return {key: told(entry) for key, entry in value.items()}
        return [told(entry) for entry in value] if isinstance(value, list) else value

    return json.dumps([node.op, node.op_type, told(node.arguments)], sort_keys=True)
