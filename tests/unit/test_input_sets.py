"""Sets of inputs: a file or specs, and the names that tell several apart; no torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench.errors import UsageError
from graphbench.models.input_sets import InputSet, labels, parse_set


def sets(*texts: str) -> list[InputSet]:
    return [parse_set(text) for text in texts]


@pytest.mark.parametrize("path", ["x.pt", "a/b.pth", "w[1].safetensors", "no_suffix"])
def test_a_path_is_a_file(path: str) -> None:
    assert parse_set(path).file == Path(path)


def test_a_text_with_brackets_is_specs() -> None:
    found = parse_set("x=f32[8,16] scale=f32[]")
    assert [str(spec) for spec in found.specs] == ["x=f32[8,16]", "scale=f32[]"]


def test_label_is_what_differs() -> None:
    found = labels(sets("input_ids=i64[1,128]<9 scale=f32[2]", "input_ids=i64[1,512]<9 scale=f32[2]"))
    assert found == ("input_ids=1x128", "input_ids=1x512")


def test_label_names_no_more_inputs_than_it_takes() -> None:
    found = labels(sets("a=f32[1] b=f32[1]", "a=f32[1] b=f32[2]", "a=f32[2] b=f32[2]"))
    assert found == ("a=1,b=1", "a=1,b=2", "a=2,b=2")


def test_label_of_an_input_without_name_is_its_position() -> None:
    assert labels(sets("f32[] i8[2]<3", "f32[] i8[4]<3")) == ("1=2", "1=4")


def test_label_tells_dtypes_and_ranges_apart() -> None:
    assert labels(sets("x=f32[]", "x=bf16[]")) == ("x=f32", "x=bf16")
    assert labels(sets("x=i64[2]<5", "x=i64[2]<7")) == ("x=0to5", "x=0to7")


def test_label_of_batch_sizes() -> None:
    assert labels([InputSet(batch_size=1), InputSet(batch_size=8)]) == ("batch=1", "batch=8")


def test_label_of_files_of_one_name_is_numbered() -> None:
    assert labels(sets("a/x.pt", "b/x.pt", "b/X.safetensors")) == ("x", "x-2", "X-3")


def test_label_is_a_safe_file_name() -> None:
    assert labels(sets(".. hidden.pt", "-x*y?.pt")) == ("_.._hidden", "_-x_y_")


def test_the_same_set_twice_is_refused() -> None:
    with pytest.raises(UsageError, match=r"x=f32\[2\] are given twice"):
        labels(sets("x=f32[2]", "x=f32[2]"))
