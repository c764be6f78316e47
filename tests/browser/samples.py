"""The pages that browser tests look at: of a real GPU step, of hostile names, of two profiles, of several."""

from __future__ import annotations

import dataclasses
import functools

from graphbench.analysis.diff import Diff, diff
from graphbench.analysis.scaling import Scaling, scaling
from graphbench.analysis.shape_groups import by_size
from graphbench.records import InputRecord, ProfileRecord
from graphbench.report.html.diff_page import diff_page
from graphbench.report.html.render import render_page
from graphbench.report.html.reporter import HtmlReporter
from graphbench.report.html.scaling_page import scaling_page
from tests.factories import executes, kernel, node, profile, region, spec, steady
from tests.recorded import recorded_profile
from tests.size_samples import six_groups

HOSTILE = "<script>alert(1)</script>"


@functools.cache
def recorded() -> ProfileRecord:
    """A training step with a graph break, as measured on a GPU."""
    return recorded_profile()


@functools.cache
def hostile() -> ProfileRecord:
    """Everything that a user may name is markup, a quote, or a way out of a script element."""
    names = (HOSTILE, "</script><img src=x onerror=alert(2)>", "'\"><svg onload=alert(3)>", "${alert(4)}<!--<script>")
    names += ("half of a character: \udcff",)
    nodes = [node(name, steady(1000.0 * (i + 1)), module=name, op_type=name) for i, name in enumerate(names)]
    nodes = [
        dataclasses.replace(entry, source=dataclasses.replace(entry.source, file=HOSTILE, code=HOSTILE))
        for entry in nodes
        if entry.source is not None
    ]
    made = kernel(HOSTILE, steady(500.0), roles=tuple(executes(name) for name in names))
    return dataclasses.replace(profile(region(nodes, [made]), subject=HOSTILE), notes=(HOSTILE,))


@functools.cache
def many() -> ProfileRecord:
    """5,000 nodes of known times, in an order that is none."""
    times = {f"node_{index}": 1000.0 + (index * 7919) % 5003 for index in range(5000)}
    ops = ("add", "mul", "relu")
    nodes = [node(name, ns, op_type=ops[index % 3]) for index, (name, ns) in enumerate(times.items())]
    return profile(region(nodes))


@functools.cache
def compared() -> Diff:
    """The recorded step against itself with a node that takes twice as long, another that is hostile, and one gone."""
    before = recorded()
    first, *others = before.regions
    named = {entry.name: index for index, entry in enumerate(first.nodes)}
    slow = next(entry for entry in first.nodes if entry.isolated.samples is not None and entry.kind == "compute")
    samples = slow.isolated.samples
    assert samples is not None
    doubled = dataclasses.replace(samples, busy_ns=tuple(2 * value for value in samples.busy_ns))
    changed = list(first.nodes)
    changed[named[slow.name]] = dataclasses.replace(slow, isolated=dataclasses.replace(slow.isolated, samples=doubled))
    changed.append(node(HOSTILE, 100.0))
    after = dataclasses.replace(before, regions=(dataclasses.replace(first, nodes=tuple(changed)), *others))
    return diff(before, after, names=("before.json", HOSTILE))


@functools.cache
def grown() -> Scaling:
    """A product that grows as the square of its input, and a sum that grows as it."""
    records = []
    for n in (128, 256, 512):
        nodes = [node("mm", steady(10.0 * n * n)), node(HOSTILE, steady(1000.0 * n))]
        read = InputRecord(name="ids", source="", kind="tensor", spec=spec(1, n))
        records.append(dataclasses.replace(profile(region(nodes)), inputs=(read,)))
    return scaling(records)


@functools.cache
def page_of(name: str) -> str:
    """The HTML of `recorded`, `hostile`, `many`, `compared`, `grown`; of groups of `sizes`, and of these alone."""
    if name == "compared":
        return render_page(diff_page(compared()))
    if name == "grown":
        return render_page(scaling_page(grown()))
    if name == "grown_sizes":
        return render_page(scaling_page(by_size(six_groups())[0]))
    records = {"recorded": recorded, "hostile": hostile, "many": many, "sizes": six_groups}
    return HtmlReporter().render(records[name]())


ALL = ("recorded", "hostile", "compared", "grown", "sizes", "grown_sizes")
UNTOUCHED = ("recorded", "sizes", "grown_sizes")
"""Those in which no name is hostile."""
