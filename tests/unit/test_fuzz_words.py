"""Whatever stands behind `--input` and `--model-arg`, it is read or refused by name, and no code in it runs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench.errors import UsageError
from graphbench.models.inputs import parse_input, parse_inputs
from graphbench.models.sources import parse_arguments
from tests.hostile import FIXED, TEXTS, outcome

WORDS = st.sampled_from([*"x=[],<07-é\x00\u0663 ", "f32", "i64", "9" * 30])
SPECS = st.lists(WORDS, max_size=12).map("".join) | st.text(st.characters(), max_size=20)
LITERALS = st.sampled_from([*"1-()[]{}:,'b\n#\\", '"', "None", "e9"])
VALUES = st.lists(LITERALS, max_size=12).map("".join) | st.text(st.characters(), max_size=20) | st.sampled_from(TEXTS)


@settings(FIXED, max_examples=300)
@given(st.lists(SPECS, max_size=3))
def test_input_specs_are_read_or_refused(texts: list[str]) -> None:
    specs = outcome(lambda: parse_inputs(texts))
    if specs is not None:  # and what was read says what it is
        assert parse_inputs(map(str, specs)) == specs


@settings(FIXED, max_examples=300)
@given(st.lists(VALUES, max_size=3), st.text(max_size=5))
def test_model_arguments_are_read_or_refused(values: list[str], key: str) -> None:
    outcome(lambda: parse_arguments([f"a{index}={value}" for index, value in enumerate(values)]))
    outcome(lambda: parse_arguments([f"{key}={value}" for value in values]))


@pytest.mark.parametrize("size", ["9" * 19, "9" * 5000, "4000000000,4000000000", f"0,{2**62},4"])
def test_sizes_that_no_tensor_has_are_refused(size: str) -> None:
    with pytest.raises(UsageError, match=r"at most 9223372036854775807|digits"):
        parse_input(f"f32[{size}]")


def test_leading_zeros_and_the_largest_size_are_read() -> None:
    assert parse_input(f"f32[{'0' * 5000}7,0]").shape == (7, 0)
    assert parse_input(f"u8[{2**63 - 1}]").shape == (2**63 - 1,)


def test_numbers_of_other_scripts_are_no_sizes() -> None:
    with pytest.raises(UsageError, match="a character that no input has"):
        parse_input("f32[\u0663]")


@pytest.mark.parametrize("value", ["{[]: 1}", "__import__('os').getcwd()", "'" + "a" * 20_000 + "'", "-" * 20_000])
def test_a_value_that_is_no_literal_is_a_text(value: str) -> None:
    assert parse_arguments([f"a={value}"]) == {"a": value}


@pytest.mark.parametrize("value", ["-" * 9_000 + "1", "(" * 9_000, "[" * 90 + "]" * 90])
def test_a_deep_value_is_read_or_refused(value: str) -> None:
    made = outcome(lambda: parse_arguments([f"a={value}"]))
    assert made is None or isinstance(made["a"], (str, int, list))
