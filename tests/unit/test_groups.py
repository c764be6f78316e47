"""Groups by module and by source line: repeated layers are one row, and rows add up to the total."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from graphbench.analysis.fusion import fusion_rows
from graphbench.analysis.group_by import GROUP_BY, GroupBy
from graphbench.analysis.group_homes import NO_KERNEL, NO_OWNER, NO_SOURCE, TOP_LEVEL, fold_layers, kernel_family
from graphbench.analysis.groups import GroupRow, group_rows
from graphbench.api import Profile
from graphbench.errors import UsageError
from graphbench.measurements import Measurement, SourceLine
from graphbench.records import Fate, FateKind, KernelKind, NodeRecord, ProfileRecord, RegionRecord
from graphbench.report.csv_report import CsvReporter
from graphbench.report.json_report import JsonReporter
from graphbench.report.markdown import MarkdownReporter
from tests.factories import FAILED, differentiates, executes, kernel, node, profile, region, steady
from tests.recorded_provenance import read, regions

PROVENANCE = Path(__file__).parents[1] / "data" / "provenance"


def in_module(
    name: str, time_ns: float | Measurement | None, module: str, line: int | None = None, *, fate: FateKind = "fused"
) -> NodeRecord:
    source = SourceLine(file="model.py", line=line, code="x = f(x)") if line else None
    return dataclasses.replace(node(name, time_ns, fate=Fate(kind=fate)), module=module, source=source)


def sample() -> ProfileRecord:
    nodes = [
        in_module("a", 10.0, "h.0.mlp", 3),
        in_module("b", 20.0, "h.1.mlp", 3),
        in_module("c", 5.0, "norm", 7),
        in_module("d", 1.0, "", fate="view"),
    ]
    nodes[2] = dataclasses.replace(nodes[2], backward_isolated=steady(8.0))
    kernels = [
        kernel("backward", 6.0, handle=3, phase="backward", roles=(differentiates("c"),)),
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
    assert (found["h.*.mlp"].kernels, found["norm"].kernels) == (2, 2)
    assert (found["h.*.mlp"].compiled_ns, found["norm"].compiled_ns) == (18.0, 3.0)


@pytest.mark.parametrize("by", GROUP_BY)
def test_groups_add_up_to_the_ungrouped_tables(by: GroupBy) -> None:
    found, total = group_rows(sample(), by)
    kernels_ns = sum(row.fused_ns or 0.0 for row in fusion_rows(sample().regions[0]))
    assert (total.nodes, total.kernels, total.missing) == (4, 4, 0)
    assert (total.eager_ns, total.eager_backward_ns) == (36.0, 8.0)
    assert (total.compiled_ns or 0.0) + (total.compiled_backward_ns or 0.0) == kernels_ns
    for column in ("eager_ns", "eager_backward_ns", "compiled_ns", "compiled_backward_ns", "saved_ns"):
        assert sum(getattr(row, column) for row in found) == getattr(total, column)
    assert sum(row.share or 0.0 for row in found) == pytest.approx(1.0)


def test_kernels_of_no_node_are_a_group_of_their_own() -> None:
    assert (rows()[NO_OWNER].kernels, rows()[NO_OWNER].compiled_ns, rows()[NO_OWNER].nodes) == (1, 2.0, 0)


def test_lines_carry_their_code_and_nodes_without_one_say_so() -> None:
    assert set(rows("source")) == {"model.py:3 x = f(x)", "model.py:7 x = f(x)", NO_SOURCE, NO_OWNER}


def test_depth_cuts_module_paths() -> None:
    assert {"h", "norm"} <= set(rows(depth=1))


def test_layers_are_counted_at_the_depth_of_the_row() -> None:
    paths = ["h.0.attn", "h.0.mlp", "h.1.attn", "h.1.mlp"]
    record = profile(region([in_module(f"n{i}", 1.0, path) for i, path in enumerate(paths)]))
    found = [group_rows(record, "module", depth=depth)[0][0] for depth in (1, 2, 3)]
    assert [(row.group, row.layers, row.nodes) for row in found] == [("h", 1, 4), ("h.*", 2, 4), ("h.*.attn", 2, 2)]


def test_nothing_is_saved_in_sums_that_lack_a_time() -> None:
    kernels = [kernel("k", 40.0, roles=(executes("a"),)), kernel("m", FAILED, handle=1, roles=(executes("a"),))]
    ((row,), total) = group_rows(profile(region([node("a", 50.0)], kernels)), "module")
    assert (row.compiled_ns, row.missing) == (40.0, 1)
    assert [row.saved_ns, row.speedup, total.saved_ns, total.speedup] == [None] * 4


def test_a_kernel_for_a_node_that_the_region_does_not_have_is_nobodys() -> None:
    record = profile(region([node("a", 1.0)], [kernel("k", 4.0, roles=(executes("elsewhere"),))]))
    assert {row.group: row.kernels for row in group_rows(record, "module")[0]} == {TOP_LEVEL: 0, NO_OWNER: 1}


@pytest.mark.parametrize("name", ["t5.training", "swin.training", "resnet.inference"])
@pytest.mark.parametrize(("by", "depth"), [*((by, None) for by in GROUP_BY), ("module", 2)])
def test_groups_of_recorded_models_add_up_to_their_nodes_and_kernels(name: str, by: GroupBy, depth: int | None) -> None:
    (recorded,) = regions(read(PROVENANCE / f"{name}.json.gz"))
    nodes = [dataclasses.replace(entry, isolated=steady(7.0 + i)) for i, entry in enumerate(recorded.nodes)]
    kernels = [dataclasses.replace(entry, isolated=steady(3.0 + i)) for i, entry in enumerate(recorded.kernels)]
    found, _ = group_rows(profile(region(nodes, kernels)), by, depth=depth)
    assert [sum(row.eager_ns or 0.0 for row in found), sum(row.compiled_ns or 0.0 for row in found)] == pytest.approx(
        [
            sum(7.0 + i for i, entry in enumerate(nodes) if entry.kind in ("compute", "view")),
            sum(3.0 + i for i, entry in enumerate(kernels) if entry.phase == "forward"),
        ]
    )
    backward_ns = sum(3.0 + i for i, entry in enumerate(kernels) if entry.phase == "backward")
    assert sum(row.compiled_backward_ns or 0.0 for row in found) == pytest.approx(backward_ns)


# by op type and by kernel


def repeated() -> ProfileRecord:
    """Two layers of two ops, each op a kernel, and one node that no kernel runs; trained."""
    nodes = [
        dataclasses.replace(node(f"gelu_{i}", 10.0, op_type="gelu", backward=20.0), module=f"h.{i}") for i in range(2)
    ]
    nodes += [dataclasses.replace(node(f"mm_{i}", 30.0, op_type="mm"), module=f"h.{i}") for i in range(2)]
    nodes.append(node("sin", 7.0, fate=Fate(kind="folded")))
    kernels = [
        *(kernel(f"triton_poi_fused_gelu_{3 * i}", 4.0, handle=i, roles=(executes(f"gelu_{i}"),)) for i in range(2)),
        *(kernel("mm", 25.0, kind="extern", handle=9 + i, roles=(executes(f"mm_{i}"),)) for i in range(2)),
        kernel("triton_poi_fused_gelu_5", 8.0, handle=5, phase="backward", roles=(differentiates("gelu_0"),)),
        kernel("triton_poi_fused_gelu_6", 8.0, handle=6, phase="backward", roles=(differentiates("gelu_1"),)),
    ]
    return profile(region(nodes, kernels))


def test_ops_of_one_type_are_one_row() -> None:
    found = {row.group: row for row in group_rows(repeated(), "op_type")[0]}
    assert {name: (row.nodes, row.layers, row.eager_ns) for name, row in found.items()} == {
        "gelu": (2, 2, 20.0),
        "mm": (2, 2, 60.0),
        "sin": (1, 1, 7.0),
    }


@pytest.mark.parametrize(
    ("name", "kind", "family"),
    [
        ("triton_poi_fused_gelu_12", "triton", "triton_poi_fused_gelu"),
        ("cpp_fused_add_0", "cpp", "cpp_fused_add"),
        ("triton_tem_fused_mm_3", "template", "triton_tem_fused_mm"),
        ("swiglu_v2_1", "user-triton", "swiglu_v2"),
        ("library_mm_2", "extern", "library_mm_2"),
        ("mylib.op_2", "custom", "mylib.op_2"),
    ],
)
def test_a_kernels_number_is_left_out_where_inductor_added_it(name: str, kind: KernelKind, family: str) -> None:
    assert kernel_family(name, kind) == family


def test_kernels_that_differ_in_their_number_are_one_row() -> None:
    row = {row.group: row for row in group_rows(repeated(), "kernel")[0]}["triton_poi_fused_gelu"]
    assert (row.kernels, row.nodes) == (4, 2)
    assert (row.eager_ns, row.eager_backward_ns) == (20.0, 40.0)
    assert (row.compiled_ns, row.compiled_backward_ns) == (8.0, 16.0)


def test_a_node_without_a_kernel_is_in_a_group_of_its_own() -> None:
    row = {row.group: row for row in group_rows(repeated(), "kernel")[0]}[NO_KERNEL]
    assert (row.nodes, row.kernels, row.eager_ns, row.compiled_ns) == (1, 0, 7.0, 0.0)


def test_a_node_of_two_kernels_is_divided_by_the_bytes_that_it_moves_and_counted_once_in_the_total() -> None:
    kernels = [
        kernel("triton_a_0", 3.0, roles=(executes("sort", 30),)),
        kernel("triton_b_1", 1.0, handle=1, roles=(executes("sort", 10),)),
    ]
    rows, total = group_rows(profile(region([node("sort", 8.0)], kernels)), "kernel")
    assert [(row.group, row.nodes, row.eager_ns) for row in rows] == [("triton_a", 1, 6.0), ("triton_b", 1, 2.0)]
    assert (total.nodes, total.eager_ns) == (1, 8.0)


def test_eager_time_by_kernel_is_that_of_the_fusion_table() -> None:
    found = {row.group: row for row in group_rows(sample(), "kernel")[0]}
    fusions = {row.name: row.eager.p50_ns for row in fusion_rows(sample().regions[0]) if row.eager}
    both = {name: (row.eager_ns or 0.0) + (row.eager_backward_ns or 0.0) for name, row in found.items()}
    assert {name: both[name] for name in fusions} == fusions


def test_the_table_by_kernel_says_what_a_row_is() -> None:
    text = Profile(repeated()).table(group_by="kernel")
    assert "By kernel (3, sorted by cost)" in text
    assert "a row stands for all kernels that differ in their number only" in " ".join(text.split())
    assert "## By kernel" in MarkdownReporter().render(repeated(), group_by="kernel")


def only_group(made: RegionRecord) -> GroupRow:
    ((row,), total) = group_rows(profile(made), "module")
    assert (row.eager_ns, row.compiled_ns, row.missing) == (total.eager_ns, total.compiled_ns, total.missing)
    return row


def test_two_files_of_one_name_are_two_groups() -> None:
    nodes = [in_module("a", 10.0, "m", 3), in_module("b", 20.0, "m", 3)]
    nodes[1] = dataclasses.replace(nodes[1], source=SourceLine(file="other/model.py", line=3, code="x = f(x)"))
    found, _ = group_rows(profile(region(nodes, [])), "source")
    assert [row.group for row in found] == ["other/model.py:3 x = f(x)", "model.py:3 x = f(x)"]


def test_of_a_node_with_a_failed_kernel_the_other_kernels_still_count() -> None:
    timed, failed = (kernel("k", 4.0, roles=(executes("a"),)), kernel("k", FAILED, handle=1, roles=(executes("a"),)))
    row = only_group(region([in_module("a", 10.0, "m")], [timed, failed]))
    assert (row.compiled_ns, row.kernels, row.missing) == (4.0, 2, 1)


def test_a_failed_kernel_of_two_groups_is_missing_once_in_the_total() -> None:
    nodes = [in_module("a", 10.0, "m"), in_module("b", 10.0, "n")]
    rows, total = group_rows(
        profile(region(nodes, [kernel("k", FAILED, roles=(executes("a"), executes("b")))])), "module"
    )
    assert ([row.missing for row in rows], total.missing) == ([1, 1], 1)


def test_a_node_without_a_time_is_missing_and_the_sum_is_of_the_others() -> None:
    timed = kernel("k", 4.0, roles=(executes("a"), executes("b")))
    row = only_group(region([in_module("a", 10.0, "m"), in_module("b", FAILED, "m")], [timed]))
    assert (row.eager_ns, row.missing) == (10.0, 1)


def test_a_group_of_which_nothing_is_known_has_no_number() -> None:
    row = only_group(region([in_module("a", FAILED, "m")], [kernel("k", FAILED, roles=(executes("a"),))]))
    assert (row.eager_ns, row.compiled_ns, row.saved_ns, row.speedup, row.share, row.missing) == (*(None,) * 5, 2)


@pytest.mark.parametrize(("fate", "compiled_ns", "saved_ns"), [("folded", 0.0, 10.0), ("eager", None, None)])
def test_what_is_gone_costs_nothing_compiled_and_what_did_not_run_compiled_is_not_known(
    fate: FateKind, compiled_ns: float | None, saved_ns: float | None
) -> None:
    row = only_group(region([in_module("a", 10.0, "m", fate=fate)], []))
    assert (row.compiled_ns, row.saved_ns) == (compiled_ns, saved_ns)


def test_an_eager_backward_is_not_set_against_a_compiled_one_that_nobody_measured() -> None:
    training = dataclasses.replace(in_module("a", 10.0, "m"), backward_isolated=steady(20.0))
    row = only_group(region([training], [kernel("k", 4.0, roles=(executes("a"),))]))
    assert (row.eager_backward_ns, row.compiled_backward_ns, row.saved_ns) == (20.0, None, None)


def test_the_number_of_missing_times_stands_in_the_table_and_below_it() -> None:
    record = profile(region([in_module("a", 10.0, "m"), in_module("b", FAILED, "m")], []))
    table = Profile(record).table(group_by="module").partition("By module")[2].splitlines()
    assert table[2].split()[-1] == "missing"
    assert [line.split()[-1] for line in table[4:6]] == ["1", "1"]
    assert "missing: 1 time of nodes and kernels; sums are of the others, without a saving" in table


def test_groups_are_sorted_by_their_own_columns() -> None:
    assert "(4, sorted by kernels)" in Profile(sample()).table(group_by="module", sort="kernels")
    lines = CsvReporter().render(sample(), group_by="module", sort="comp.").splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["h.*.mlp", "norm", NO_OWNER, TOP_LEVEL, "total"]


def test_a_table_and_groups_are_not_one_csv() -> None:
    with pytest.raises(UsageError, match="table='fusions' with group_by='module'"):
        CsvReporter().render(sample(), group_by="module", table="fusions")


def test_a_grouped_table_looks_like_this(golden: Callable[[str, str], None]) -> None:
    text = Profile(sample()).table(group_by="module")
    golden(text[text.index("By module") : text.index("gaps:")], "table_groups.txt")


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
