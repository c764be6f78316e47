"""Groups by module and by source line: repeated layers are one row, and rows add up to the total."""

from __future__ import annotations

import dataclasses
import io

import pytest

from graphbench.analysis.fusion import fusion_rows
from graphbench.analysis.groups import NO_OWNER, NO_SOURCE, TOP_LEVEL, GroupBy, GroupRow, fold_layers, group_rows
from graphbench.api import Profile
from graphbench.errors import UsageError
from graphbench.records import NodeRecord, ProfileRecord, SourceLine
from graphbench.report.csv_report import CsvReporter
from graphbench.report.json_report import JsonReporter
from graphbench.report.markdown import MarkdownReporter
from tests.factories import executes, kernel, node, profile, region, steady


def in_module(name: str, time_ns: float, module: str, line: int | None = None) -> NodeRecord:
    source = SourceLine(file="model.py", line=line, code="x = f(x)") if line else None
    return dataclasses.replace(node(name, time_ns), module=module, source=source)


def sample() -> ProfileRecord:
    nodes = [
        in_module("a", 10.0, "h.0.mlp", 3),
        in_module("b", 20.0, "h.1.mlp", 3),
        in_module("c", 5.0, "norm", 7),
        in_module("d", 1.0, ""),
    ]
    nodes[2] = dataclasses.replace(nodes[2], backward_isolated=steady(8.0))
    kernels = [
        kernel("fused", 12.0, roles=(executes("a", 30), executes("c", 10))),
        kernel("mm", 9.0, handle=1, roles=(executes("b"),)),
        kernel("lost", 2.0, handle=2),
    ]
    return profile(region(nodes, kernels))


def rows(by: GroupBy = "module", depth: int | None = None) -> dict[str, GroupRow]:
    return {row.group: row for row in group_rows(sample(), by, depth=depth)[0]}


@pytest.mark.parametrize(
    ("path", "folded"),
    [
        ("h.0.mlp", "h.*.mlp"),
        ("h.1.mlp.0", "h.*.mlp.0"),
        ("stages.0.blocks.3.conv", "stages.*.blocks.*.conv"),
        ("only.7.norm", "only.7.norm"),
        ("", ""),
    ],
)
def test_a_number_with_siblings_becomes_a_star_and_one_without_stays(path: str, folded: str) -> None:
    paths = ["h.0.mlp", "h.1.mlp.0", "stages.0.blocks.3.conv", "stages.1.blocks.4.conv", "only.7.norm", ""]
    assert fold_layers(paths)[path] == folded


def test_repeated_layers_are_one_row() -> None:
    found = rows()
    assert set(found) == {"h.*.mlp", "norm", TOP_LEVEL, NO_OWNER}
    assert (found["h.*.mlp"].layers, found["h.*.mlp"].nodes, found["h.*.mlp"].eager_ns) == (2, 2, 30.0)


def test_a_kernel_of_two_groups_is_counted_in_both_and_its_time_divided() -> None:
    found = rows()
    assert (found["h.*.mlp"].kernels, found["norm"].kernels) == (2, 1)
    assert (found["h.*.mlp"].compiled_ns, found["norm"].compiled_ns) == (18.0, 3.0)


@pytest.mark.parametrize("by", ["module", "source"])
def test_groups_add_up_to_the_ungrouped_tables(by: GroupBy) -> None:
    found, total = group_rows(sample(), by)
    kernels_ns = sum(row.fused_ns or 0.0 for row in fusion_rows(sample().regions[0]))
    assert (total.nodes, total.kernels) == (4, 3)
    assert (total.eager_ns, total.eager_backward_ns, total.compiled_ns) == (36.0, 8.0, kernels_ns)
    assert sum(row.share or 0.0 for row in found) == pytest.approx(1.0)


def test_kernels_of_no_node_are_a_group_of_their_own() -> None:
    assert (rows()[NO_OWNER].kernels, rows()[NO_OWNER].compiled_ns, rows()[NO_OWNER].nodes) == (1, 2.0, 0)


def test_lines_carry_their_code_and_nodes_without_one_say_so() -> None:
    assert set(rows("source")) == {"model.py:3 x = f(x)", "model.py:7 x = f(x)", NO_SOURCE, NO_OWNER}


def test_depth_cuts_module_paths() -> None:
    assert {"h", "norm"} <= set(rows(depth=1))


def test_a_time_that_is_missing_is_counted_and_never_a_number() -> None:
    record = profile(region([in_module("a", 10.0, "m"), dataclasses.replace(node("b"), module="m")], []))
    ((row,), total) = group_rows(record, "module")
    assert (row.eager_ns, row.missing, total.missing) == (10.0, 1, 1)


def test_the_table_puts_groups_in_the_place_of_nodes_and_ends_with_the_total() -> None:
    text = Profile(sample()).table(group_by="module")
    assert "By module (4, sorted by cost)" in text
    assert "Nodes, isolated" not in text
    table = text[text.index("By module") :]
    assert table.index("h.*.mlp") < table.index("norm") < table.index("total")
    assert "critical path of forward: 1 of 3 kernels, 52.2 % of kernel time" in table


def test_csv_and_markdown_have_the_groups_too() -> None:
    lines = io.StringIO(CsvReporter().render(sample(), group_by="module")).read().splitlines()
    assert lines[0].startswith("group,layers,nodes,kernels,eager_ns")
    assert [line.split(",")[0] for line in lines[1:]][-1] == "total"
    assert "## By module" in MarkdownReporter().render(sample(), group_by="module")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_by": "layer"}, "cannot group by 'layer'"),
        ({"depth": 2}, "depth=2 with group_by=None"),
        ({"group_by": "source", "depth": 2}, "depth=2 with group_by='source'"),
        ({"group_by": "module", "depth": 0}, "depth=0"),
        ({"group_by": 3}, "group_by=3"),
    ],
)
def test_what_cannot_be_grouped_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Profile(sample()).table(**options)  # type: ignore[arg-type]


def test_json_holds_everything_and_takes_no_groups() -> None:
    with pytest.raises(UsageError, match="group_by"):
        JsonReporter().render(sample(), group_by="module")
