"""Repeated layers as one row: what repeats and what does not, and that nothing is lost on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from graphbench import cli, document
from graphbench.analysis.fold_choice import worth_folding
from graphbench.analysis.folding import Fold, Layers
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.rows import profile_rows
from graphbench.analysis.views import NodeRow
from graphbench.api import Profile
from graphbench.errors import UsageError
from graphbench.measurements import Measurement
from graphbench.records import Fate, ProfileRecord
from graphbench.report.table import TableReporter
from tests.factories import differentiates, executes, kernel, measurement, node, profile, region, spec, steady
from tests.layer_samples import LARGE, LAYERS, kernels, layer, repeated
from tests.recorded import recorded_profile
from tests.samples import cpu_profile, gpu_profile
from tests.step_samples import training_step


def of_nodes(record: ProfileRecord) -> list[Fold[NodeRow]]:
    return Layers(record).fold_nodes(profile_rows(record).nodes)


def of_kernels(record: ProfileRecord) -> list[Fold[FusionRow]]:
    return Layers(record).fold_fusions(profile_rows(record).fusions)


def counts(folds: list[Fold[NodeRow]] | list[Fold[FusionRow]]) -> dict[str, int]:
    return {fold.name: fold.count for fold in folds}


def changed(record: ProfileRecord, name: str, **changes: object) -> ProfileRecord:
    """The record with one node changed."""
    place = record.regions[0]
    nodes = tuple(dataclasses.replace(entry, **changes) if entry.name == name else entry for entry in place.nodes)  # type: ignore[arg-type]
    return dataclasses.replace(record, regions=(dataclasses.replace(place, nodes=nodes),))


def test_an_op_of_every_layer_is_one_row_and_others_stay() -> None:
    assert [(fold.name, fold.count) for fold in of_nodes(repeated())] == [
        ("embedding", 1),
        ("model.layers.*.norm", LAYERS),
        ("model.layers.*.mlp.up_proj", LAYERS),
        ("model.layers.*: gelu", LAYERS),
        ("model.layers.*: add", LAYERS),
        ("model.layers.*: add", LAYERS),
        ("logits", 1),
    ]


def test_equal_ops_of_one_module_are_told_apart_by_their_place_in_it() -> None:
    adds = [fold for fold in of_nodes(repeated()) if fold.name.endswith("add")]
    assert [{row.node.source.line for row in fold.rows if row.node.source} for fold in adds] == [{5}, {9}]


def test_a_fold_has_each_layer_once() -> None:
    for fold in of_nodes(repeated()):
        modules = [row.module for row in fold.rows]
        assert len(set(modules)) == len(modules)


@pytest.mark.parametrize(
    "changes",
    [
        {"outputs": (spec(4, 16),)},
        {"outputs": (dataclasses.replace(LARGE, dtype="bfloat16"),)},
        {"op_type": "matmul"},
        {"fate": Fate(kind="split")},
        {"module": "model.layers.2.mlp.gate_proj"},
        {"isolated": Measurement(status="failed", reason="out of memory")},
        {"in_graph": steady(5.0)},
    ],
    ids=["shape", "dtype", "op", "fate", "module", "state", "what is known"],
)
def test_a_layer_that_differs_in_it_stays_a_row(changes: dict[str, object]) -> None:
    folds = of_nodes(changed(repeated(), "linear_2", **changes))
    assert counts(folds)["model.layers.*.mlp.up_proj"] == LAYERS - 1
    assert "linear_2" in counts(folds)


def test_what_an_op_reads_counts_as_well() -> None:
    record = repeated(2)
    place = record.regions[0]
    wide = node("wide", 1.0, outputs=(spec(4, 99),))
    record = dataclasses.replace(record, regions=(dataclasses.replace(place, nodes=(wide, *place.nodes)),))
    record = changed(record, "linear", inputs=("wide",))
    assert {"linear", "linear_1"} <= set(counts(of_nodes(record)))


def test_a_number_without_a_sibling_is_no_layer() -> None:
    assert set(counts(of_nodes(repeated(1))).values()) == {1}


def test_kernels_fold_by_name_without_number_and_by_the_patterns_of_their_nodes() -> None:
    assert counts(of_kernels(repeated())) == {"extern_kernels.mm": LAYERS, "triton_poi_fused_gelu_add": LAYERS}


def test_kernels_of_other_nodes_do_not_fold_with_them() -> None:
    record = repeated()
    place = record.regions[0]
    head = kernel("extern_kernels.mm", 45_000.0, kind="extern", handle=99, roles=(executes("logits"),))
    record = dataclasses.replace(record, regions=(dataclasses.replace(place, kernels=(*place.kernels, head)),))
    assert [fold.count for fold in of_kernels(record) if fold.name.startswith("extern")] == [LAYERS, 1]


def test_two_kernels_of_one_node_are_two_rows() -> None:
    made = [
        kernel("extern_kernels.mm", 9_000.0, phase="backward", kind="extern", handle=10 * index + part,
               roles=(differentiates("linear" if index == 0 else f"linear_{index}"),))
        for index in range(3)
        for part in range(2)
    ]  # fmt: skip
    record = profile(region([entry for index in range(3) for entry in layer(index)], made))
    folds = of_kernels(record)
    assert [fold.count for fold in folds] == [3, 3]
    assert [[row.key[-2:] for row in fold.rows] for fold in folds] == [[":0", "10", "20"], [":1", "11", "21"]]


def test_what_a_kernel_only_reads_does_not_keep_layers_apart() -> None:
    record = repeated()
    place = record.regions[0]
    reading = [
        dataclasses.replace(
            entry, roles=(*entry.roles, dataclasses.replace(executes("embedding"), role="contributes"))
        ) if entry.handle == 0 else entry
        for entry in place.kernels
    ]  # fmt: skip
    record = dataclasses.replace(record, regions=(dataclasses.replace(place, kernels=tuple(reading)),))
    assert counts(of_kernels(record))["extern_kernels.mm"] == LAYERS


def test_layers_in_regions_of_their_own_fold_too() -> None:
    places = [region(layer(index), kernels(index), key=f"r{index}") for index in range(3)]
    assert counts(of_nodes(profile(*places)))["model.layers.*.mlp.up_proj"] == 3


def test_a_region_that_was_compiled_twice_is_two_rows() -> None:
    again = [region([*layer(0), *layer(1)], key=key) for key in ("r0", "r1")]
    folds = [fold for fold in of_nodes(profile(*again)) if fold.name.endswith("up_proj")]
    assert [[row.region for row in fold.rows] for fold in folds] == [["r0", "r0"], ["r1", "r1"]]


@pytest.mark.parametrize("make", [repeated, cpu_profile, gpu_profile, training_step, recorded_profile])
def test_folded_tables_add_up_to_those_of_single_rows(make: Callable[[], ProfileRecord]) -> None:
    check_sums(make())


def check_sums(record: ProfileRecord) -> None:
    """Every row is in one fold, and what is known of all rows is known of all folds."""
    rows, layers = profile_rows(record), Layers(record)
    nodes, fused = layers.fold_nodes(rows.nodes), layers.fold_fusions(rows.fusions)
    assert sorted(id(row) for fold in nodes for row in fold.rows) == sorted(map(id, rows.nodes))
    assert sorted(id(row) for fold in fused for row in fold.rows) == sorted(map(id, rows.fusions))
    of_node: list[Callable[[NodeRow], float | None]] = [
        lambda row: row.isolated_p50_ns,
        lambda row: row.in_graph_ns,
        lambda row: row.backward_p50_ns,
        lambda row: row.compiled.forward_ns,
        lambda row: row.compiled.backward_ns,
        lambda row: row.share,
    ]
    of_kernel: list[Callable[[FusionRow], float | None]] = [
        lambda row: row.fused_ns,
        lambda row: row.eager.p50_ns if row.eager else None,
        lambda row: row.saved_ns,
        lambda row: row.unfused_ns,
        lambda row: row.in_graph_ns,
    ]
    for value in of_node:
        total = sum(value(row) or 0.0 for row in rows.nodes)
        assert sum(fold.total(value) or 0.0 for fold in nodes) == pytest.approx(total)
    for of_fused in of_kernel:
        total = sum(of_fused(row) or 0.0 for row in rows.fusions)
        assert sum(fold.total(of_fused) or 0.0 for fold in fused) == pytest.approx(total)


def test_a_row_has_the_sum_the_median_and_the_spread_of_its_layers() -> None:
    nodes = [entry for index in range(3) for entry in layer(index, up_ns=10_000.0 * (index + 1))]
    fold = next(fold for fold in of_nodes(profile(region(nodes))) if fold.name.endswith("up_proj"))
    assert fold.total(lambda row: row.isolated_p50_ns) == 60_000.0
    assert fold.median(lambda row: row.isolated_p50_ns) == 20_000.0
    assert fold.spread(lambda row: row.isolated) == (10_000.0, 30_000.0)


def test_layers_within_their_noise_have_no_spread() -> None:
    nodes = [
        dataclasses.replace(layer(index)[1], isolated=steady(20_000.0 + 500 * index, spread_ns=2_000.0))
        for index in range(3)
    ]
    (fold,) = of_nodes(profile(region(nodes)))
    assert fold.spread(lambda row: row.isolated) is None


def test_single_samples_have_no_spread() -> None:
    nodes = [dataclasses.replace(layer(index)[1], isolated=measurement(1e4 * (index + 1))) for index in range(2)]
    (fold,) = of_nodes(profile(region(nodes)))
    assert fold.spread(lambda row: row.isolated) is None


def test_a_sum_that_lacks_a_row_is_missing() -> None:
    nodes = [dataclasses.replace(layer(index)[1], isolated=measurement(1e4)) for index in range(2)]
    (fold,) = of_nodes(profile(region(nodes)))
    assert fold.total(lambda row: None if row.name == "linear" else 1.0) is None


@pytest.mark.parametrize(
    ("rows", "folds", "choice", "folded"),
    [
        (281, 100, "auto", True),
        (60, 10, "auto", False),
        (90, 61, "auto", False),
        (90, 60, "auto", True),
        (281, 10, "never", False),
        (5, 4, "always", True),
        (5, 5, "always", False),
    ],
)
def test_by_itself_a_table_folds_where_it_is_long_and_a_third_is_saved(
    rows: int, folds: int, choice: str, folded: bool
) -> None:
    assert worth_folding(rows, folds, choice) is folded  # type: ignore[arg-type]


def test_the_folded_report_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(TableReporter().render(repeated(), fold="always", width=120), "table_folded.txt")


def table(record: ProfileRecord, **options: object) -> list[str]:
    return TableReporter().render(record, **options).splitlines()  # type: ignore[arg-type]


def test_the_line_above_the_table_says_that_it_is_folded_and_how_to_see_all() -> None:
    lines = table(repeated(), fold="always")
    assert "Nodes, isolated (7, sorted by cost, folded from 22; --fold never shows all)" in lines


def test_top_counts_folded_rows() -> None:
    lines = table(repeated(), fold="always", top=2)
    assert "Nodes, isolated (2 of 7, sorted by cost, folded from 22; --fold never shows all)" in lines


def test_folded_rows_are_sorted_by_their_sums() -> None:
    lines = table(repeated(head_ns=70_000.0), fold="always")
    first = next(index for index, line in enumerate(lines) if line.startswith("Nodes, isolated")) + 4
    assert "up_proj" in lines[first]  # 4 times 20 µs
    assert "logits" in lines[first + 1]


def test_by_itself_no_table_folds_that_is_sorted_by_what_folds_do_not_have() -> None:
    record = repeated(20)
    assert any("folded from" in line for line in table(record, fold="auto"))
    nodes = [line for line in table(record, fold="auto", sort="p90") if line.startswith("Nodes")]
    assert nodes == ["Nodes, isolated (102, sorted by p90)"]


def test_groups_win_over_folds() -> None:
    assert table(repeated(), fold="always", group_by="module") == table(repeated(), group_by="module")


def test_all_columns_are_of_single_rows_unless_folds_are_asked_for() -> None:
    record = repeated(20)
    assert table(record, fold="auto", wide=True) == table(record, wide=True)
    assert any("folded from" in line for line in table(record, fold="always", wide=True))


def test_a_profile_prints_every_row_unless_told_otherwise() -> None:
    found = Profile(repeated(20))
    assert "folded from" not in str(found)
    assert "folded from" in found.table(fold="auto")


def test_an_unknown_way_to_fold_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot fold 'yes'"):
        Profile(repeated()).table(fold="yes")


@pytest.mark.parametrize("words", [["--fold", "always"], ["--fold=always", "--top", "3"]])
def test_folding_is_for_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    document.write(repeated(), tmp_path / "p.json")
    assert cli.main(["show", str(tmp_path / "p.json"), *words]) == 0
    assert "folded from 22" in capsys.readouterr().out
    assert cli.main(["show", str(tmp_path / "p.json"), *words, "--format", "csv"]) == 2


def test_what_is_piped_has_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document.write(repeated(20), tmp_path / "p.json")
    assert cli.main(["show", str(tmp_path / "p.json")]) == 0
    assert capsys.readouterr().out == TableReporter().render(repeated(20))


def test_several_profiles_have_nothing_to_fold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.json", "b.json"):
        document.write(repeated(), tmp_path / name)
    assert cli.main(["show", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--fold", "always"]) == 2
    assert "--fold with several profiles" in capsys.readouterr().err


def test_a_hostile_module_is_shown_and_folds_nothing_apart() -> None:
    nodes = [node(f"n_{index}", 1e3, op_type="add", module=f"\x1b[31m.{index}.<b>") for index in range(2)]
    text = "\n".join(table(profile(region(nodes)), fold="always"))
    assert "\x1b" not in text
    assert "folded from 2" in text


@pytest.mark.parametrize(("sort", "first"), [("each", "up_proj"), ("count", "norm"), ("node", "embedding")])
def test_folds_are_sorted_by_columns_of_their_own(sort: str, first: str) -> None:
    lines = table(repeated(), fold="always", sort=sort)
    start = next(index for index, line in enumerate(lines) if line.startswith("Nodes, isolated"))
    assert f"sorted by {sort}, folded" in lines[start]
    assert first in lines[start + 4]
    assert any(line.startswith("Nodes, isolated (22, sorted by ") for line in table(repeated(), sort=sort))
