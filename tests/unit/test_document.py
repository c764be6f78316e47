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
from graphbench.codec import codec
from graphbench.columnpool import ColumnPool
from graphbench.errors import ConservationError, ProfileFormatError, UsageError
from graphbench.quickcodec import quick_decoder
from graphbench.records import ProfileRecord, Side
from tests.factories import cpu_run, measurement, node, profile, region, steady
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
    plain = json.loads(document.dumps(with_node(isolated=measurement(*(7.0,) * 200))))
    assert plain["columns"] == [{"constant": 7, "n": 200}]


def test_equal_columns_are_stored_once_and_referred_to() -> None:
    values = tuple(float(i) for i in range(200))
    plain = json.loads(document.dumps(with_node(isolated=measurement(*values, host_ns=7.0))))
    samples = plain["regions"][0]["nodes"][0]["isolated"]["samples"]
    assert (samples["busy_ns"], samples["host_ns"], len(plain["columns"])) == (0, 1, 2)
    plain = json.loads(document.dumps(with_node(isolated=measurement(*values))))
    samples = plain["regions"][0]["nodes"][0]["isolated"]["samples"]
    assert (samples["busy_ns"], samples["host_ns"], len(plain["columns"])) == (0, 0, 1)


def test_a_row_measured_in_the_place_of_another_adds_no_samples_and_reads_back_as_the_very_same() -> None:
    own = measurement(*(float(i) for i in range(200)), timer="cupti")
    shared = dataclasses.replace(own, shared_with="a")
    one = profile(region([node("a", own)]), timer="cupti")
    two = profile(region([node("a", own), node("b", shared)]), timer="cupti")
    assert json.loads(document.dumps(two))["columns"] == json.loads(document.dumps(one))["columns"]
    first, second = document.loads(document.dumps(two)).regions[0].nodes
    assert first.isolated.samples is not None
    assert second.isolated.samples is not None
    assert first.isolated.samples.busy_ns is second.isolated.samples.busy_ns


def test_short_columns_stand_where_they_belong() -> None:
    plain = json.loads(document.dumps(with_node(isolated=measurement(1.0, 2.0))))
    assert plain["regions"][0]["nodes"][0]["isolated"]["samples"]["busy_ns"] == [1, 2]
    assert plain["columns"] == []


@pytest.mark.parametrize("make", [cpu_profile, gpu_profile])
@pytest.mark.parametrize("compact", [True, False])
def test_the_quick_decoder_reads_what_the_strict_one_reads(make: Callable[[], ProfileRecord], compact: bool) -> None:
    plain = json.loads(document.dumps(make(), compact=compact))
    plain.pop("sha256", None)
    pool = ColumnPool.read(plain.pop("columns", []))
    assert quick_decoder(ProfileRecord)(plain, pool) == codec(ProfileRecord).decode(plain, pool) == make()


def test_classes_that_a_quick_decoder_would_make_wrongly_are_refused() -> None:
    @dataclasses.dataclass
    class Loose:
        name: str

    with pytest.raises(TypeError, match="Loose: expected a dataclass with slots"):
        quick_decoder(Loose)


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
        (replaced(("regions", 0, "calls"), 2**70), "regions[0].calls", "beyond 64 bits", "64 bits"),
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
        ({"i4": "AAAA"}, "busy_ns"),
        (0, "busy_ns"),
        (-1, "busy_ns"),
        (True, "busy_ns"),
        ("0", "busy_ns"),
        ([1, "2"], "busy_ns[1]"),
        ([1, True], "busy_ns[1]"),
        ([1, 2**70], "busy_ns[1]"),
    ],
)
def test_a_column_that_is_neither_a_list_nor_the_index_of_one_is_named(column: object, field: str) -> None:
    text = replaced((*NODE, "isolated", "samples", "busy_ns"), column)
    with pytest.raises(ProfileFormatError) as caught:
        document.loads(text)
    assert caught.value.field == f"regions[0].nodes[0].isolated.samples.{field}"


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ({"i4": "AAA"}, "columns[1]"),
        ({"i4": "AAAA"}, "columns[1]"),
        ({"i4": 5}, "columns[1].i4"),
        ({"i2": "AAAA"}, "columns[1]"),
        ({"u2": "AAA=", "i4": ""}, "columns[1]"),
        ({"constant": 1, "n": 10**12}, "columns[1]"),
        ({"constant": 1}, "columns[1]"),
        ({"constant": "1", "n": 2}, "columns[1].constant"),
        ({}, "columns[1]"),
        (None, "columns[1]"),
        ({"f8": "AAAAAAAA8H8="}, "columns[1][0]"),
        ([1, "2"], "columns[1][1]"),
        ([0.5, 10**400], "columns[1][1]"),
    ],
)
def test_a_damaged_column_of_the_pool_is_named(column: object, field: str) -> None:
    text = edited(lambda plain: plain.update(columns=[[1, 2], column]))
    with pytest.raises(ProfileFormatError) as caught:
        document.loads(text)
    assert caught.value.field == field


def test_columns_that_are_no_list_are_named() -> None:
    with pytest.raises(ProfileFormatError, match="columns: found an object of 0 fields, expected a list of columns"):
        document.loads(edited(lambda plain: plain.update(columns={})))


def test_a_count_of_kernels_is_no_column_with_fractions() -> None:
    def change(plain: dict[str, Any]) -> None:
        plain["columns"] = [[0.5] * 10]
        plain["regions"][0]["nodes"][0]["isolated"]["samples"]["n_kernels"] = 0

    with pytest.raises(
        ProfileFormatError, match="n_kernels: found column 0, which has fractions, expected a column of"
    ):
        document.loads(edited(change, gpu_profile()))


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(literal: str) -> None:
    text = replaced(("regions", 0, "calls"), "HERE").replace('"HERE"', literal)
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
    with pytest.raises(ProfileFormatError, match="schema 10, expected at most 9") as caught:
        document.loads(replaced(("schema_version",), document.SCHEMA_VERSION + 1))
    assert "upgrade graphbench" in (caught.value.hint or "")


def test_an_older_schema_asks_to_measure_again() -> None:
    with pytest.raises(ProfileFormatError, match="schema 2, expected 9") as caught:
        document.loads(replaced(("schema_version",), 2))
    assert "measure again" in (caught.value.hint or "")


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
