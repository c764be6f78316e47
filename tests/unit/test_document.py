"""Saved profiles: what is written reads back equal, and whatever is wrong is named by path, field, found, expected."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphbench import document
from graphbench.errors import ConservationError, ProfileFormatError, UsageError
from graphbench.records import Fate, Measurement, NodeRole, ProfileRecord, Samples, Side
from tests.factories import cpu_run, device_run, executes, kernel, measurement, node, profile, region, steady
from tests.samples import cpu_profile, gpu_profile

NODE = ("regions", 0, "nodes", 0)


def edited(change: Callable[[dict[str, Any]], None], record: ProfileRecord | None = None) -> str:
    plain = json.loads(document.dumps(record or cpu_profile(), compact=False))
    change(plain)
    return json.dumps(plain)


def replaced(path: tuple[str | int, ...], value: object) -> str:
    def change(plain: dict[str, Any]) -> None:
        target: Any = plain
        for part in path[:-1]:
            target = target[part]
        target[path[-1]] = value

    return edited(change)


def with_node(**changes: object) -> ProfileRecord:
    return profile(region([dataclasses.replace(node("relu", 5.0), **changes)]))  # type: ignore[arg-type]


# --- round trip -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [cpu_profile, gpu_profile])
@pytest.mark.parametrize("compact", [True, False])
def test_a_profile_reads_back_equal(make: Callable[[], ProfileRecord], compact: bool) -> None:
    record = make()
    assert document.loads(document.dumps(record, compact=compact)) == record


def test_integral_floats_are_written_as_integers_and_read_back_equal() -> None:
    record = with_node(isolated=measurement(1000.0, 1001.5))
    text = document.dumps(record)
    assert "[1000,1001.5]" in text
    assert document.loads(text) == record


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(tuple(float(i) for i in range(200)), id="small integers"),
        pytest.param(tuple(1e10 + i for i in range(200)), id="large integers"),
        pytest.param(tuple(i / 7 for i in range(200)), id="fractions"),
        pytest.param((12.25,) * 200, id="constant"),
        pytest.param((*range(100), 0.5, float(2**60)), id="integers beyond a double beside fractions"),
    ],
)
def test_long_columns_are_packed_without_loss(values: tuple[float, ...]) -> None:
    record = with_node(isolated=measurement(*values))
    assert document.loads(document.dumps(record)) == record


def test_constant_columns_cost_no_more_than_one_entry() -> None:
    record = with_node(isolated=measurement(*(7.0,) * 200))
    plain = json.loads(document.dumps(record))
    assert plain["regions"][0]["nodes"][0]["isolated"]["samples"]["busy_ns"] == {"constant": 7, "n": 200}


def test_a_column_equal_to_an_earlier_one_is_stored_once() -> None:
    values = tuple(float(i) for i in range(200))
    record = with_node(isolated=measurement(*values))
    plain = json.loads(document.dumps(record))
    assert plain["regions"][0]["nodes"][0]["isolated"]["samples"]["host_ns"] == {"same_as": "busy_ns"}


def test_floats_and_integers_in_arguments_stay_what_they_are() -> None:
    record = with_node(arguments={"alpha": 1.0, "dim": 1, "flag": True, "none": None, "list": [2.0, "x"]})
    arguments = document.loads(document.dumps(record)).regions[0].nodes[0].arguments
    assert isinstance(arguments, dict)
    assert [type(value) for value in arguments.values()] == [float, int, bool, type(None), list]


# --- what does not fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field", "found", "expected"),
    [
        (replaced((*NODE, "name"), 3), "regions[0].nodes[0].name", "the number 3", "a string"),
        (replaced((*NODE, "kind"), "odd"), "regions[0].nodes[0].kind", '"odd"', "compute, view, state, host"),
        (replaced((*NODE, "outputs"), {}), "regions[0].nodes[0].outputs", "an object", "a list"),
        (replaced((*NODE, "source", "line"), "1"), "regions[0].nodes[0].source.line", '"1"', "an integer"),
        (replaced((*NODE, "source", "line"), True), "regions[0].nodes[0].source.line", "true", "an integer"),
        (replaced((*NODE, "source", "line"), 1.5), "regions[0].nodes[0].source.line", "1.5", "an integer"),
        (replaced((*NODE, "isolated", "inner"), None), "regions[0].nodes[0].isolated.inner", "null", "an integer"),
        (replaced((*NODE, "surplus"), 1), "regions[0].nodes[0].surplus", "an unknown field", "one of"),
        (replaced(("environment", "options"), [["a"]]), "environment.options[0]", "a list of 1", "a list of 2"),
        (replaced(("policy", "warmup_ms"), "x"), "policy.warmup_ms", '"x"', "a finite number"),
        (replaced(("recompiles",), 2**70), "recompiles", "beyond 64 bits", "64 bits"),
    ],
)
def test_a_wrong_value_is_named_by_field_found_and_expected(text: str, field: str, found: str, expected: str) -> None:
    with pytest.raises(ProfileFormatError) as caught:
        document.loads(text, path="p.json")
    assert caught.value.field == field
    assert caught.value.path == "p.json"
    assert found in caught.value.message
    assert expected in caught.value.message


@pytest.mark.parametrize("name", ["torch", "options"])
def test_a_missing_field_is_named_whether_or_not_it_has_a_default(name: str) -> None:
    text = edited(lambda plain: plain["environment"].pop(name))
    with pytest.raises(ProfileFormatError, match=rf"environment\.{name}: found no such field"):
        document.loads(text)


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ({"i4": "AAA"}, "busy_ns"),
        ({"i4": "AAAA"}, "busy_ns"),
        ({"i4": 5}, "busy_ns.i4"),
        ({"constant": 1, "n": 10**12}, "busy_ns"),
        ({"constant": 1}, "busy_ns"),
        ({"same_as": "host_ns"}, "busy_ns"),
        ({"f8": "AAAAAAAA8H8="}, "busy_ns[0]"),
        ([1, "2"], "busy_ns[1]"),
        ([1, True], "busy_ns[1]"),
    ],
)
def test_a_damaged_column_is_named(column: object, field: str) -> None:
    text = replaced((*NODE, "isolated", "samples", "busy_ns"), column)
    with pytest.raises(ProfileFormatError) as caught:
        document.loads(text)
    assert caught.value.field == f"regions[0].nodes[0].isolated.samples.{field}"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(literal: str) -> None:
    text = replaced(("recompiles",), "HERE").replace('"HERE"', literal)
    with pytest.raises(ProfileFormatError):
        document.loads(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "an empty file"),
        ("not json", "no valid JSON at line 1"),
        (document.dumps(cpu_profile())[:500], "truncated JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"schema_version": ' + "1" * 5000 + "}", "found"),
        ("[]", "a list of 0"),
        ("{}", "no such field"),
    ],
)
def test_what_is_no_profile_is_said_in_one_message(text: str, found: str) -> None:
    with pytest.raises(ProfileFormatError, match=found):
        document.loads(text)


def test_arguments_nested_beyond_reason_are_refused_on_reading_and_writing() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ProfileFormatError, match="64 levels"):
        document.loads(replaced((*NODE, "arguments"), deep))
    with pytest.raises(ProfileFormatError, match="64 levels"):
        document.dumps(with_node(arguments=deep))


def test_a_newer_schema_asks_for_an_upgrade() -> None:
    with pytest.raises(ProfileFormatError, match="schema 2, expected at most 1") as caught:
        document.loads(replaced(("schema_version",), 2))
    assert "upgrade graphbench" in (caught.value.hint or "")


@pytest.mark.parametrize("version", [0, "1", None, True])
def test_a_schema_version_that_never_was_is_refused(version: object) -> None:
    with pytest.raises(ProfileFormatError, match="schema_version"):
        document.loads(replaced(("schema_version",), version))


def test_a_value_of_a_wrong_type_is_not_written() -> None:
    with pytest.raises(ProfileFormatError, match=r"regions\[0\]\.nodes\[0\]\.module: found null, expected a string"):
        document.dumps(with_node(module=None))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_samples_that_are_not_finite_are_not_written(value: float) -> None:
    with pytest.raises(ProfileFormatError, match=r"busy_ns\[1\].*a finite number"):
        document.dumps(with_node(isolated=measurement(1.0, value)))


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_reads_back_equal_and_nothing_else_is_left(tmp_path: Path) -> None:
    document.write(cpu_profile(), tmp_path / "p.json")
    assert document.read(tmp_path / "p.json") == cpu_profile()
    assert [file.name for file in tmp_path.iterdir()] == ["p.json"]


def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text("mine")
    with pytest.raises(UsageError) as caught:
        document.write(cpu_profile(), file)
    assert "--force" in (caught.value.hint or "")
    assert file.read_text() == "mine"
    document.write(cpu_profile(), file, overwrite=True)
    assert document.read(file) == cpu_profile()


def test_a_profile_that_does_not_add_up_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text("mine")
    row = steady(50_000.0)
    broken = profile(region([node("a", in_graph=row)], eager=Side(run=cpu_run([row, row]))))
    with pytest.raises(ConservationError):
        document.write(broken, file, overwrite=True)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(("name", "found"), [("missing.json", "no file"), ("", "a directory")])
def test_a_path_that_is_no_file_is_said(tmp_path: Path, name: str, found: str) -> None:
    with pytest.raises(ProfileFormatError, match=f"found {found}"):
        document.read(tmp_path / name)


def test_a_binary_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileFormatError, match="no UTF-8 text"):
        document.read(tmp_path / "p.json")


def test_a_folder_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        document.write(cpu_profile(), tmp_path / "no" / "p.json")


# --- check: sums ------------------------------------------------------------------------------------------------------


def one_run(rows: list[Measurement], run: Any, timer: Any = "wallclock") -> ProfileRecord:
    nodes = [node(f"n{i}", in_graph=row) for i, row in enumerate(rows)]
    return profile(region(nodes, eager=Side(run=run)), timer=timer)


def test_device_rows_with_unattributed_and_overlap_conserve_time() -> None:
    rows = [steady(40_000.0, timer="cupti"), steady(60_000.0, timer="cupti")]
    document.check(one_run(rows, device_run(rows, unattributed_ns=7_000.0, overlap_ns=30_000.0), "cupti"))


@pytest.mark.parametrize(("lost_ns", "holds"), [(4_900.0, True), (5_100.0, False)])
def test_a_device_sum_may_miss_half_a_percent(lost_ns: float, holds: bool) -> None:
    row = steady(1_000_000.0, timer="cupti")
    run = device_run([row])
    busy_ns = tuple(value - lost_ns for value in run.busy_ns)
    record = one_run([row], dataclasses.replace(run, busy_ns=busy_ns), "cupti")
    if holds:
        document.check(record)
    else:
        with pytest.raises(ConservationError, match=r"regions\[r0\]\.eager: in sample 0, rows \+ unattributed"):
            document.check(record)


@pytest.mark.parametrize(("lost_ns", "holds"), [(990.0, True), (1_010.0, False)])
def test_a_short_run_may_miss_a_microsecond(lost_ns: float, holds: bool) -> None:
    row = steady(5_000.0)
    run = cpu_run([row])
    total = tuple(value + lost_ns for value in run.busy_ns)
    record = one_run([row], dataclasses.replace(run, busy_ns=total, wall_ns=total))
    if holds:
        document.check(record)
    else:
        with pytest.raises(ConservationError, match=r"rows \+ wrapper is 5100 ns, expected busy = 6110 ns"):
            document.check(record)


def test_on_the_cpu_busy_is_wall_time() -> None:
    row = steady(500_000.0)
    run = cpu_run([row])
    record = one_run([row], dataclasses.replace(run, wall_ns=tuple(2 * value for value in run.busy_ns)))
    with pytest.raises(ConservationError, match="busy is 500100 ns, expected wall = 1000200 ns"):
        document.check(record)


def test_one_wrong_sample_among_right_ones_is_found() -> None:
    rows = [measurement(100_000.0, 100_000.0, 100_000.0)]
    run = cpu_run(rows)
    wrong = (*run.busy_ns[:2], 150_000.0)
    with pytest.raises(ConservationError, match="in sample 2"):
        document.check(one_run(rows, dataclasses.replace(run, busy_ns=wrong, wall_ns=wrong)))


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_kernels_are_summed_against_the_run_of_their_own_phase(phase: Any) -> None:
    rows = [steady(50_000.0), steady(70_000.0)]
    kernels = [kernel("a", phase="forward", in_graph=rows[0]), kernel("b", phase="backward", in_graph=rows[1])]
    right = {"forward": Side(run=cpu_run(rows[:1])), "backward": Side(run=cpu_run(rows[1:]))}
    document.check(profile(region([], kernels, **right)))
    wrong = {**right, phase: Side(run=cpu_run(rows))}
    with pytest.raises(ConservationError, match=rf"regions\[r0\]\.{phase}"):
        document.check(profile(region([], kernels, **wrong)))


def test_step_rows_are_summed_against_the_step() -> None:
    record = gpu_profile()
    assert record.step is not None
    document.check(record)
    short = dataclasses.replace(record, step=dataclasses.replace(record.step, rows=record.step.rows[:1]))
    with pytest.raises(ConservationError, match="step: in sample 0"):
        document.check(short)


def test_sums_are_proven_on_reading_too() -> None:
    plain = json.loads(document.dumps(cpu_profile(), compact=False))
    run = plain["regions"][0]["forward"]["run"]
    run["busy_ns"] = run["wall_ns"] = [2 * value for value in run["busy_ns"]]
    with pytest.raises(ConservationError):
        document.loads(json.dumps(plain))


# --- check: structure -------------------------------------------------------------------------------------------------

OK = steady(5.0)
assert OK.samples is not None
RAGGED = dataclasses.replace(OK, samples=Samples(busy_ns=(1.0, 2.0), host_ns=(1.0,)))


@pytest.mark.parametrize(
    ("record", "field", "expected"),
    [
        pytest.param(profile(region(), region()), "regions", "unique", id="region key twice"),
        pytest.param(profile(region([node("a"), node("a")])), "regions[r0].nodes", "unique", id="node name twice"),
        pytest.param(
            profile(region([], [kernel("k"), kernel("k")])), "regions[r0].kernels", "unique", id="kernel key twice"
        ),
        pytest.param(
            profile(region([node("a", fate=Fate(kind="fused", kernels=("forward/k:0",)))])),
            "regions[r0].nodes[a].fate.kernels",
            "a kernel's key",
            id="fate names no kernel",
        ),
        pytest.param(
            profile(region([], [kernel("k", roles=(executes("ghost"),))])),
            "regions[r0].kernels[forward/k:0].roles",
            "a node's name",
            id="role names no node",
        ),
        pytest.param(
            profile(region([node("a")], [kernel("k", roles=(NodeRole(node="a", role="executes", post_grad=("g",)),))])),
            "regions[r0].kernels[forward/k:0]",
            "a forward post-grad node's name",
            id="role names no post-grad node",
        ),
        pytest.param(
            profile(region([], [kernel("k", post_grad=("g",))])),
            "regions[r0].kernels[forward/k:0]",
            "a forward post-grad node's name",
            id="kernel executes no post-grad node",
        ),
        pytest.param(
            with_node(isolated=Measurement(status="ok", timer="wallclock")),
            "regions[r0].nodes[relu].isolated",
            "samples exactly when the status is ok",
            id="ok without samples",
        ),
        pytest.param(
            with_node(isolated=dataclasses.replace(OK, status="failed", reason="x")),
            "regions[r0].nodes[relu].isolated",
            "samples exactly when the status is ok",
            id="failed with samples",
        ),
        pytest.param(
            with_node(isolated=Measurement(status="failed")),
            "regions[r0].nodes[relu].isolated.reason",
            "a reason",
            id="failed without a reason",
        ),
        pytest.param(
            with_node(isolated=RAGGED),
            "regions[r0].nodes[relu].isolated.samples.host_ns",
            "2, as in busy_ns",
            id="columns of unequal length",
        ),
        pytest.param(
            with_node(isolated=measurement(-1.0)),
            "regions[r0].nodes[relu].isolated.samples.busy_ns",
            "no negative value",
            id="negative time",
        ),
        pytest.param(
            with_node(isolated=measurement(1.0, timer="cupti")),
            "regions[r0].nodes[relu].isolated.timer",
            "wallclock",
            id="another timer in one row",
        ),
        pytest.param(
            one_run([steady(9.0)], dataclasses.replace(cpu_run([steady(9.0)]), timer="cupti")),
            "regions[r0].eager.run.timer",
            "wallclock",
            id="another timer in a run",
        ),
        pytest.param(
            one_run([steady(9.0, n=5)], cpu_run([steady(9.0, n=10)])),
            "regions[r0].eager.run",
            "10, as in the run",
            id="a row with fewer samples than its run",
        ),
    ],
)
def test_broken_structure_is_named(record: ProfileRecord, field: str, expected: str) -> None:
    with pytest.raises(ProfileFormatError) as caught:
        document.check(record)
    assert caught.value.field == field
    assert expected in caught.value.message
