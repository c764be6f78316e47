"""Profiles of one model over the sizes of its inputs: joined nodes, growth, sums, whole runs, what is said of it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import graphbench
from graphbench import cli, document
from graphbench.analysis.scaling import Scaling, fastest_growing, scaling
from graphbench.errors import ProfileFormatError, UsageError
from graphbench.records import InputRecord, NodeRecord, ProfileRecord, Side
from graphbench.report.profile_scaling import ProfileScaling
from graphbench.report.scaling_table import headlines
from graphbench.runs.series import write_series
from tests.factories import FAILED, ceilings, environment, executes, kernel, node, profile, region, spec, steady

US = 1000.0


def at(
    length: int,
    nodes: Sequence[NodeRecord],
    *,
    forward: Side | None = None,
    eager: Side | None = None,
    **changes: object,
) -> ProfileRecord:
    """A profile whose model was called with ids of this length."""
    record = profile(region(nodes, forward=forward, eager=eager))
    ids = InputRecord(name="ids", source="", kind="tensor", spec=spec(1, length, dtype="int64"))
    return dataclasses.replace(record, inputs=(ids,), **changes)  # type: ignore[arg-type]


def attention(length: int) -> ProfileRecord:
    """Two layers: a linear that grows as n, products that grow as n^2."""
    nodes = []
    for layer in (0, 1):
        grown = length / 128
        nodes.append(node(f"linear_{layer}", 100 * US * grown, module=f"layers.{layer}.project"))
        nodes.append(node(f"matmul_{layer}", 50 * US * grown**2, module=f"layers.{layer}.attend"))
    return at(length, nodes)


def rows_of(found: Scaling) -> dict[str, float | None]:
    return {row.name: round(row.growth.exponent, 3) if row.growth else None for row in found.rows}


def test_every_node_has_its_exponent() -> None:
    found = scaling([attention(128), attention(256), attention(512)])
    assert found.axis.name == "ids[1]"
    assert rows_of(found) == {"linear_0": 1.0, "matmul_0": 2.0, "linear_1": 1.0, "matmul_1": 2.0}


def test_sets_are_put_in_the_order_of_their_size() -> None:
    found = scaling([attention(512), attention(128)], names=["long", "short"])
    assert found.labels == ("short", "long")
    assert found.rows[0].times_ns == (100 * US, 400 * US)


def test_share_is_of_all_nodes_of_its_set() -> None:
    (linear, matmul, *_) = scaling([attention(128), attention(512)]).rows
    assert linear.shares == pytest.approx((100 / 300, 400 / 2400))
    assert matmul.shares == pytest.approx((50 / 300, 800 / 2400))


def test_what_grows_fastest_takes_a_part_worth_knowing() -> None:
    tiny = [
        at(128, [node("linear", 900 * US), node("matmul", 20 * US)]),
        at(512, [node("linear", 3600 * US), node("matmul", 180 * US)]),
    ]
    found = fastest_growing(scaling(tiny))
    assert found is not None
    assert found.name == "linear"


def test_a_growth_within_its_error_is_no_headline() -> None:
    sizes = [at(n, [node("matmul", us * US)]) for n, us in ((128, 500), (256, 900), (512, 300), (1024, 800))]
    found = scaling(sizes)
    growth = found.rows[0].growth
    assert growth is not None
    assert growth.error is not None
    assert 0 < growth.exponent < growth.error
    assert fastest_growing(found) is None
    assert headlines(found)[0].startswith("what grows fastest is not known")


def test_a_node_that_one_set_lacks_is_shown_without_growth() -> None:
    found = scaling([at(128, [node("relu", 50 * US)]), at(512, [node("relu", 200 * US), node("softmax", 90 * US)])])
    (_, softmax) = found.rows
    assert softmax.times_ns == (None, 90 * US)
    assert softmax.growth is None
    assert softmax.reason == "ids[1]=128: the node is not in this profile"


def test_a_node_that_only_the_first_set_lacks_is_one_row() -> None:
    three = [
        at(128, [node("relu", 50 * US)]),
        *(at(n, [node("relu", 50 * US), node("softmax", 90 * US)]) for n in (256, 512)),
    ]
    assert [row.times_ns for row in scaling(three).rows] == [(50 * US,) * 3, (None, 90 * US, 90 * US)]


def test_a_time_that_was_not_measured_leaves_the_growth_open() -> None:
    found = scaling([at(128, [node("relu", 50 * US)]), at(512, [node("relu", FAILED)])])
    assert found.rows[0].reason == "ids[1]=512: ran out of memory"
    assert found.ops[0].times_ns == (50 * US, None)
    assert found.ops[0].growth is None


def test_times_of_any_call_are_in_doubt_on_the_cpu() -> None:
    found = scaling([at(128, [node("relu", 2 * US)]), at(512, [node("relu", 80 * US)])])
    assert found.rows[0].growth is not None
    assert found.rows[0].doubt == "about as long as any call takes"
    assert fastest_growing(found) is None


def device(length: int, busy_ns: float, host_ns: float) -> ProfileRecord:
    measured = dataclasses.replace(steady(busy_ns, timer="cupti"))
    assert measured.samples is not None
    samples = dataclasses.replace(measured.samples, host_ns=(host_ns,) * len(measured.samples.busy_ns))
    relu = node("relu", dataclasses.replace(measured, samples=samples))
    gpu = environment(gpu="GPU", stamp_grain_ns=32)
    record = profile(
        region([relu], device="cuda:0"),
        timer="cupti",
        env=gpu,
        ceilings=ceilings(device="cuda:0", launch_ns=2000.0),
    )
    ids = InputRecord(name="ids", source="", kind="tensor", spec=spec(1, length))
    return dataclasses.replace(record, inputs=(ids,))


@pytest.mark.parametrize(
    ("busy_ns", "host_ns", "doubt"),
    [
        (3_000.0, 100.0, "hardly longer than the shortest kernel"),
        (50_000.0, 100.0, ""),
        (50_000.0, 900_000.0, "the host takes longer than the device at every size"),
        (200.0, 100.0, "not much longer than the steps of its stamps"),
    ],
)
def test_what_starting_or_issuing_costs_is_in_doubt_on_a_device(busy_ns: float, host_ns: float, doubt: str) -> None:
    found = scaling([device(128, busy_ns, host_ns), device(512, 4 * busy_ns, host_ns)])
    assert found.rows[0].doubt == doubt


def test_views_are_no_rows() -> None:
    found = scaling([at(n, [node("view", 1 * US, kind="view"), node("relu", n * US)]) for n in (128, 512)])
    assert [row.name for row in found.rows] == ["relu"]


def test_backwards_have_rows_of_their_own() -> None:
    found = scaling([at(n, [node("relu", n * US, backward=2 * n * US)]) for n in (128, 512)])
    assert [(row.phase, row.times_ns[0]) for row in found.rows] == [("forward", 128 * US), ("backward", 256 * US)]
    assert found.rows[1].shares == pytest.approx((2 / 3, 2 / 3))


def test_sums_by_op_and_by_module_with_repeated_layers_as_one() -> None:
    found = scaling([attention(128), attention(512)])
    assert [(group.group, group.nodes, group.times_ns[1]) for group in found.ops] == [
        ("matmul", 2, 1600 * US),
        ("linear", 2, 800 * US),
    ]
    assert [group.group for group in found.modules] == ["layers.*.attend", "layers.*.project"]


def test_whole_runs_have_times_a_speedup_and_growth() -> None:
    def whole(length: int, eager_ns: float, compiled_ns: float) -> ProfileRecord:
        sides = [Side(plain=steady(time), wall_ns=(2 * time,)) for time in (eager_ns, compiled_ns)]
        return at(length, [node("relu", 50 * US)], eager=sides[0], forward=sides[1])

    found = scaling([whole(128, 400 * US, 200 * US), whole(512, 1600 * US, 400 * US)])
    values = {total.name: total.values for total in found.totals}
    assert values["wall time, eager"] == (800 * US, 3200 * US)
    assert values["busy, compiled"] == (200 * US, 400 * US)
    assert values["busy, eager ÷ compiled"] == (2.0, 4.0)
    assert [round(t.growth.exponent, 2) for t in found.totals if t.growth is not None] == [1.0, 0.5, 1.0, 0.5]


def test_part_of_compiled_kernels_is_told_where_it_is_known() -> None:
    def compiled(length: int) -> ProfileRecord:
        entry = region([node("relu", length * US)], [kernel("cpp_0", 10 * length * US, roles=(executes("relu"),))])
        ids = InputRecord(name="ids", source="", kind="tensor", spec=spec(1, length))
        return dataclasses.replace(profile(entry), inputs=(ids,))

    (row,) = scaling([compiled(1), compiled(2)]).rows
    assert [point.compiled_ns for point in row.points] == [10 * US, 20 * US]


# refusals and warnings


def test_one_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="found 1 profile, expected two or more"):
        scaling([attention(128)])


def test_other_timers_are_refused() -> None:
    with pytest.raises(UsageError, match="different timers"):
        scaling([attention(128), device(512, 1.0, 1.0)])


def test_other_devices_are_refused() -> None:
    other = device(512, 50_000.0, 1.0)
    other = dataclasses.replace(other, environment=dataclasses.replace(other.environment, gpu="Another"))
    with pytest.raises(UsageError, match="different devices against their sizes: GPU and Another"):
        scaling([device(128, 50_000.0, 1.0), other])


def test_other_models_and_conditions_are_told() -> None:
    other = dataclasses.replace(attention(512), subject="Other", environment=environment(torch="2.14.1"))
    told = scaling([attention(128), other]).warnings
    assert "another model: Net for ids[1]=128, Other for ids[1]=512" in told
    assert "ids[1]=512 was measured under other conditions than ids[1]=128: torch" in told


# what is printed and written


def test_other_dtypes_are_told_other_sizes_are_not() -> None:
    def given(length: int, dtype: str) -> ProfileRecord:
        record = attention(length)
        (place,) = record.regions
        x = InputRecord(name="L_x_", source="L['x']", kind="tensor", spec=spec(1, length, dtype=dtype))
        return dataclasses.replace(record, regions=(dataclasses.replace(place, inputs=(x,)),))

    sets = [given(128, "float32"), given(256, "float32"), given(512, "bfloat16")]
    assert scaling(sets, names=["a", "b", "c"]).warnings == (
        "c, against a: r0: other dtypes: L_x_ is bfloat16, not float32",
    )


def test_table_says_what_grows_fastest() -> None:
    text = str(ProfileScaling(scaling([attention(128), attention(512)])))
    assert "matmul (2 rows) grows fastest of all op types: as n^2.00, 33.3 → 66.7 % of the measured nodes' time" in text
    assert "n: ids[1]" in text
    assert "two sizes: no error is known" in text


def test_three_sizes_have_an_error_in_the_table() -> None:
    text = str(ProfileScaling(scaling([attention(128), attention(256), attention(512)])))
    assert "2.00 ±0.00" in text
    assert "two sizes" not in text


def test_csv_has_every_set_in_a_column_of_its_own() -> None:
    (first, *_) = csv.DictReader(io.StringIO(ProfileScaling(scaling([attention(128), attention(512)])).csv()))
    assert (first["name"], first["isolated_n128_ns"], first["isolated_n512_ns"]) == ("linear_0", "100000", "400000")
    assert float(first["share_n512_percent"]) == pytest.approx(100 * 400 / 2400)
    assert float(first["exponent"]) == pytest.approx(1.0)


def test_json_has_all_tables_with_the_names_of_the_csv() -> None:
    found = json.loads(ProfileScaling(scaling([attention(128), attention(512)])).to_json())
    assert found["size"]["name"] == "ids[1]"
    assert [entry["size"] for entry in found["sets"]] == [128, 512]
    assert found["ops"][0]["group"] == "matmul"
    assert found["ops"][0]["share_n512_percent"] == pytest.approx(200 / 3)
    assert {"nodes", "ops", "modules", "totals"} <= set(found)


def test_markdown_has_a_table_of_nodes() -> None:
    text = ProfileScaling(scaling([attention(128), attention(512)])).markdown(top=1)
    assert "#### Nodes (1 of 4)" in text
    assert text.count("| matmul\\_") == 1


def test_unknown_csv_table_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown table 'fusions'"):
        ProfileScaling(scaling([attention(128), attention(512)])).csv("fusions")  # type: ignore[arg-type]


# graphbench.scaling


def test_python_takes_profiles_and_paths(tmp_path: Path) -> None:
    document.write(attention(512), tmp_path / "long.json")
    found = graphbench.scaling([graphbench.Profile(attention(128)), tmp_path / "long.json"])
    assert found.result.axis.values == (128, 512)


def test_python_takes_the_directory_of_a_series(tmp_path: Path) -> None:
    write_series(tmp_path, ["long", "short", "missing"])
    for name, length in (("long", 512), ("short", 128)):
        (tmp_path / name).mkdir()
        document.write(attention(length), tmp_path / name / "profile.json")
    assert graphbench.scaling(tmp_path).result.labels == ("short", "long")


def test_a_set_of_a_series_that_was_not_measured_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_series(tmp_path, ["short", "failed", "long"])
    for name, length in (("short", 128), ("long", 512)):
        (tmp_path / name).mkdir()
        document.write(attention(length), tmp_path / name / "profile.json")
    told = "failed: left out, since it was not measured"
    assert graphbench.scaling(tmp_path).result.warnings == (told,)
    assert cli.main(["show", str(tmp_path)]) == 0
    assert f"warning: {told}" in capsys.readouterr().out


def test_a_directory_without_a_series_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileFormatError, match=r"no series\.json"):
        graphbench.scaling(tmp_path)


@pytest.mark.parametrize(
    "text", ["[]", '{"sets": []}', '{"sets": ["../x"]}', '{"sets": ["a/b"]}', '{"sets": [7]}', "{"]
)
def test_a_list_of_runs_that_leads_elsewhere_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "series.json").write_text(text)
    with pytest.raises(ProfileFormatError):
        graphbench.scaling(tmp_path)


def test_by_names_the_dimension_to_go_by() -> None:
    def both(batch: int, length: int) -> ProfileRecord:
        ids = InputRecord(name="ids", source="", kind="tensor", spec=spec(batch, length))
        record = profile(region([node("matmul", 50 * US * batch * length**2)]))
        return dataclasses.replace(record, inputs=(ids,))

    records = [graphbench.Profile(both(batch, length)) for batch in (1, 8) for length in (16, 32)]
    found = graphbench.scaling(records, by="ids[1]")
    assert found.result.labels == ("ids=1x16", "ids=8x16", "ids=1x32", "ids=8x32")
    (row,) = found.nodes
    assert row.growth is not None
    assert row.growth.exponent == pytest.approx(2.0)
