"""Which rows are measured, and for how long: --select, --exclude, --only-region, --max-seconds."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
import torch

import graphbench
from graphbench import session
from graphbench.analysis.shares import shares
from graphbench.analysis.summary import summary
from graphbench.measuring import region as region_module
from graphbench.measuring import spending
from graphbench.measuring.whole import measure_session
from graphbench.models.demo import SmallTransformer
from graphbench.options import MeasureOptions
from graphbench.records import NOT_SELECTED, ProfileRecord, RegionRecord
from graphbench.session import Session

QUICK = {"warmup": 1, "repeat": 3, "ceilings": "off", "progress": False}


@functools.cache
def captured() -> Session:
    """What a training step of a small transformer and a call of something smaller left behind."""
    graphbench.reset()
    torch.manual_seed(0)
    model = torch.compile(SmallTransformer(width=32, heads=2, layers=2, vocabulary=50), backend="graphbench")
    model(torch.randint(50, (2, 16))).sum().backward()
    torch.compile(lambda x: x.sin() + 1, backend="graphbench")(torch.ones(8))
    return session.current()


def measured(**options: Any) -> ProfileRecord:
    return measure_session(captured(), MeasureOptions(**{**QUICK, "only_region": "r0", **options}))


def region(record: ProfileRecord) -> RegionRecord:
    found, _ = record.regions
    return found


def timed_nodes(record: ProfileRecord) -> set[str]:
    return {node.name for node in region(record).nodes if node.isolated.samples is not None}


def test_only_selected_nodes_are_isolated_forward_and_backward() -> None:
    found = region(measured(select="linear*"))
    chosen = {node.name for node in found.nodes if node.op_type == "linear"}
    timed = {node.name for node in found.nodes if node.isolated.samples is not None}
    assert chosen <= timed
    assert {node.op_type for node in found.nodes if node.name not in timed} >= {"softmax", "embedding"}
    others = [node for node in found.nodes if node.name not in timed]
    assert {node.isolated.reason for node in others} == {NOT_SELECTED}
    assert not [node for node in others if node.backward_isolated.samples is not None]
    assert all(node.backward_isolated.samples for node in found.nodes if node.name in chosen)


def test_a_selected_nodes_kernels_are_measured_with_all_that_they_are_judged_against() -> None:
    found = region(measured(select="gelu"))
    kernels = [kernel for kernel in found.kernels if kernel.isolated.samples is not None]
    (gelu,) = {node.name for node in found.nodes if node.op_type == "gelu" and node.module.startswith("blocks.0")}
    assert any(role.node == gelu for kernel in kernels for role in kernel.roles)
    nodes = {node.name: node for node in found.nodes}
    for kernel in kernels:
        for role in kernel.roles:
            if role.role in ("executes", "differentiates"):
                assert nodes[role.node].isolated.samples is not None or nodes[role.node].kind == "view"


def merging(**options: Any) -> RegionRecord:
    """A kernel's worth of ops, two of which are equal: autograd's graph has one of them."""
    graphbench.reset()
    x = torch.rand(8, requires_grad=True)
    torch.compile(lambda x: (x.exp() + 1) * (x.exp() + 2), backend="graphbench")(x).sum().backward()
    (found,) = measure_session(session.current(), MeasureOptions(**{**QUICK, **options})).regions
    return found


def test_what_was_merged_into_a_selected_kernels_nodes_is_measured_too() -> None:
    found = merging(select="add")  # which means neither `exp`
    assert "merged" in {node.fate.kind for node in found.nodes}
    (kernel,) = [kernel for kernel in found.kernels if kernel.phase == "forward"]
    assert shares(found).kernels[kernel.key].missing == ()


def test_a_merged_nodes_kernel_is_that_of_the_node_that_is_left() -> None:
    (merged,) = [node.name for node in merging().nodes if node.fate.kind == "merged"]
    kernels = merging(select=merged).kernels
    assert {kernel.isolated.status for kernel in kernels if kernel.phase == "forward"} == {"ok"}


def test_whole_runs_and_coverage_are_those_of_everything() -> None:
    whole, part = measured(), measured(select="gelu")
    assert summary(part).coverage.kernels == summary(whole).coverage.kernels > 0
    assert [entry.owned for entry in summary(part).owners] == [entry.owned for entry in summary(whole).owners]
    every, some = region(whole), region(part)
    assert [kernel.in_graph.status for kernel in some.kernels] == [kernel.in_graph.status for kernel in every.kernels]
    assert {kernel.in_graph.status for kernel in some.kernels} == {"ok"}


def test_rows_left_out_keep_their_kinds_and_fates() -> None:
    every, some = region(measured()), region(measured(select="gelu"))
    assert [(node.kind, node.fate) for node in some.nodes] == [(node.kind, node.fate) for node in every.nodes]


def test_excluded_rows_are_left_out_though_an_equal_one_is_measured() -> None:
    every = region(measured(select="linear"))
    linears = [node.name for node in every.nodes if node.op_type == "linear"]
    shared = next(node for node in every.nodes if node.isolated.shared_with is not None and node.name in linears)
    found = {node.name: node for node in region(measured(select="linear", exclude=shared.name)).nodes}
    assert found[shared.name].isolated.reason == NOT_SELECTED
    assert found[str(shared.isolated.shared_with)].isolated.samples is not None


def test_a_module_path_selects_what_is_below_it() -> None:
    record = measured(select="blocks.0.attention")
    modules = {node.module for node in region(record).nodes if node.name in timed_nodes(record)}
    assert "blocks.0.attention" in modules
    assert not any(module.startswith("blocks.1.attention.") for module in modules)


def test_a_kernel_is_selected_by_its_name() -> None:
    found = region(measured(select="*softmax*:*"))
    timed = [kernel.key for kernel in found.kernels if kernel.isolated.samples is not None]
    assert timed
    assert all("softmax" in key for key in timed)


@pytest.mark.parametrize(
    ("option", "pattern", "message"),
    [
        ("select", "lineaa", "select 'lineaa': no node, op type, module or kernel matches"),
        ("exclude", "lineaa", "exclude 'lineaa': no node, op type, module or kernel matches"),
        ("only_region", "r9", "only_region 'r9': no such region"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused_with_what_comes_close(option: str, pattern: str, message: str) -> None:
    with pytest.raises(graphbench.GraphbenchError) as caught:
        measured(**{option: pattern})
    assert caught.value.message == message
    assert ("linear" if option != "only_region" else "r0 (demo.py:") in (caught.value.hint or "")


def test_a_region_that_is_not_asked_for_says_so() -> None:
    one, other = measured(only_region="demo.py:*").regions
    assert (one.status, other.status, other.reason) == ("ok", "skipped", NOT_SELECTED)
    one, other = measured(only_region=["r1", "r1*"]).regions
    assert (one.status, one.reason, other.status) == ("skipped", NOT_SELECTED, "ok")


def test_tables_list_what_was_asked_for_and_count_the_rest() -> None:
    text = str(graphbench.Profile(measured(select="gelu")))
    assert "only gelu" in text
    assert "– not selected: " in text
    nodes = text.split("Nodes, isolated", 1)[1].split("Fusions", 1)[0]
    assert "gelu" in nodes
    assert "embedding" not in nodes


# limited time


def repeated(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.relu(x @ x) @ x) @ x


@functools.cache
def limited(seconds: float) -> RegionRecord:
    """The region of a few equal products, measured within a time that passes as often as it is looked at."""
    graphbench.reset()
    torch.compile(repeated, backend="graphbench")(torch.rand(64, 64))
    options = MeasureOptions(max_seconds=seconds, measure_ms=5.0, warmup_ms=1.0, ceilings="off", progress=False)
    ticks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spending, "monotonic", lambda: 0.01 * next(ticks))
        (found,) = measure_session(session.current(), options).regions
    return found


def n_samples(found: RegionRecord) -> dict[str, int]:
    rows = [*((node.name, node.isolated) for node in found.nodes), *((k.key, k.isolated) for k in found.kernels)]
    return {name: len(m.samples.busy_ns) for name, m in rows if m.samples is not None and m.shared_with is None}


def test_with_limited_time_every_row_has_a_time_and_what_matters_was_measured_again() -> None:
    found = limited(6.0)
    assert {node.isolated.status for node in found.nodes} == {"ok"}
    assert {kernel.isolated.status for kernel in found.kernels} == {"ok"}
    assert max(n_samples(found).values()) > 9, "a first pass takes 5 to 9 samples"


def test_equal_rows_have_the_measurement_that_was_made_again() -> None:
    nodes = {node.name: node.isolated for node in limited(6.0).nodes}
    shared = [m for m in nodes.values() if m.shared_with is not None]
    assert len(shared) == 2
    assert all(m.samples == nodes[str(m.shared_with)].samples for m in shared)


def test_time_that_is_up_leaves_rows_out_by_name_and_fails_none() -> None:
    found = limited(1e-6)
    assert "time was up before it was measured" in {node.isolated.reason for node in found.nodes} | {found.reason}
    assert "failed" not in {node.isolated.status for node in found.nodes}


def test_rows_have_half_of_the_time_however_long_whole_runs_take(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    sides = region_module._Measuring._measured_sides

    def long(self: Any) -> Any:
        clock[0] += 100.0
        return sides(self)

    monkeypatch.setattr(spending, "monotonic", lambda: clock[0])
    monkeypatch.setattr(region_module._Measuring, "_measured_sides", long)
    graphbench.reset()
    torch.compile(repeated, backend="graphbench")(torch.rand(64, 64))
    options = MeasureOptions(max_seconds=6.0, measure_ms=5.0, warmup_ms=1.0, ceilings="off", progress=False)
    (found,) = measure_session(session.current(), options).regions
    assert {node.isolated.status for node in found.nodes} == {"ok"}
    assert {kernel.isolated.status for kernel in found.kernels} == {"ok"}
