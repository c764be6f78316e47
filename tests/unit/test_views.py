"""Rows of the node table: shares add up, texts are short, sorting puts missing values last."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.views import fate_text, node_rows, sort_rows, source_text, spec_text
from graphbench.errors import UsageError
from graphbench.measurements import SourceLine
from graphbench.records import Fate
from tests.factories import FAILED, node, profile, region, spec, steady


def test_shares_of_all_regions_together_add_up_to_one() -> None:
    rows = node_rows(profile(region([node("a", 30.0), node("f", FAILED)]), region([node("a", 10.0)], key="r1")))
    assert [row.share for row in rows] == [0.75, None, 0.25]


def test_rows_carry_their_region() -> None:
    rows = node_rows(profile(region([node("a", 1.0)]), region([node("a", 1.0)], key="r1")))
    assert [(row.region, row.name) for row in rows] == [("r0", "a"), ("r1", "a")]


@pytest.mark.parametrize("kind", ["state", "host"])
def test_nodes_that_compute_nothing_have_no_row(kind: str) -> None:
    assert node_rows(profile(region([node("s", None, kind=kind)]))) == []  # type: ignore[arg-type]


def test_a_row_takes_the_medians_of_its_measurements() -> None:
    (row,) = node_rows(profile(region([node("a", steady(30.0, timer="cupti"), in_graph=steady(28.0))])))
    assert row.isolated is not None
    assert (row.isolated.p50, row.in_graph_ns, row.host_ns, row.device.n_kernels) == (30.0, 28.0, 30.0, 1.0)


def test_a_row_that_failed_keeps_its_reason() -> None:
    (row,) = node_rows(profile(region([node("f", FAILED)])))
    assert (row.state, row.reason, row.isolated) == ("failed", "ran out of memory", None)


@pytest.mark.parametrize(
    ("dtype", "short"),
    [
        ("float32", "f32"),
        ("torch.float32", "f32"),
        ("bfloat16", "bf16"),
        ("int64", "i64"),
        ("uint8", "u8"),
        ("bool", "b8"),
        ("complex64", "c64"),
        ("float8_e4m3fn", "f8e4m3fn"),
    ],
)
def test_a_tensor_is_written_short(dtype: str, short: str) -> None:
    assert spec_text(spec(16, 64, dtype=dtype)) == f"{short}[16,64]"


def test_a_scalar_tensor_has_empty_brackets() -> None:
    assert spec_text(spec()) == "f32[]"


@pytest.mark.parametrize(
    ("fate", "text"),
    [
        (Fate(kind="fused", kernels=("forward/triton_poi_fused_relu_0:3",)), "fused → triton_poi_fused_relu_0:3"),
        (Fate(kind="split", kernels=("forward/a:1", "backward/b:2")), "split → a:1, b:2"),
        (Fate(kind="merged", note="add_1"), "merged → add_1"),
        (Fate(kind="view"), "view"),
    ],
)
def test_a_fate_names_what_the_node_became(fate: Fate, text: str) -> None:
    assert fate_text(fate) == text


@pytest.mark.parametrize("file", ["/home/me/net/model.py", "model.py", "C:\\net\\model.py"])
def test_a_source_line_is_file_and_line_without_folders(file: str) -> None:
    assert source_text(SourceLine(file=file, line=12)) == "model.py:12"


KEYS = {"n": lambda pair: pair[0], "text": lambda pair: pair[1]}
PAIRS = [(1.0, "b"), (None, "a"), (3.0, "c"), (3.0, "a")]


def test_numbers_sort_from_large_to_small_with_missing_ones_last() -> None:
    assert sort_rows(PAIRS, KEYS, "n", None) == [(3.0, "c"), (3.0, "a"), (1.0, "b"), (None, "a")]


def test_texts_sort_from_a_to_z() -> None:
    assert [pair[1] for pair in sort_rows(PAIRS, KEYS, "text", 3)] == ["a", "a", "b"]


def test_an_unknown_sort_key_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        sort_rows(PAIRS, KEYS, "cots", None)
    assert "n, text" in (caught.value.hint or "")


def test_top_below_one_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="top is 0"):
        sort_rows(PAIRS, KEYS, "n", 0)


def test_warnings_and_shared_units_are_kept() -> None:
    shared = dataclasses.replace(steady(5.0), shared_with="relu", warnings=("unstable",))
    (row,) = node_rows(profile(region([node("relu_1", shared)])))
    assert (row.shared_with, row.warnings) == ("relu", ("unstable",))
