"""The grammar of input specs; no torch."""

from __future__ import annotations

import pytest

from graphbench.errors import UsageError
from graphbench.models.inputs import DTYPES, InputSpec, parse_input, parse_input_set, parse_inputs


def test_named_input_has_name_dtype_and_sizes() -> None:
    assert parse_input("x=f32[16,3,224,224]") == InputSpec(name="x", dtype="f32", shape=(16, 3, 224, 224))


def test_input_without_name_is_positional() -> None:
    assert parse_input("bf16[4,8]") == InputSpec(name=None, dtype="bf16", shape=(4, 8))


def test_bound_limits_integers() -> None:
    assert parse_input("input_ids=i64[1,128]<32000").bound == 32000


def test_integers_may_begin_above_or_below_zero() -> None:
    assert parse_input("labels=i64[4]>=-1<10") == InputSpec(name="labels", dtype="i64", shape=(4,), bound=10, least=-1)


def test_empty_sizes_are_a_scalar() -> None:
    assert parse_input("scale=f64[]").shape == ()


def test_size_zero_is_allowed() -> None:
    assert parse_input("f32[0,3]").shape == (0, 3)


def test_spaces_do_not_matter() -> None:
    assert parse_input("  x = i32 [ 2 , 3 ] < 7 ") == InputSpec(name="x", dtype="i32", shape=(2, 3), bound=7)


def test_name_may_look_like_a_dtype() -> None:
    assert parse_input("f32=i8[2]") == InputSpec(name="f32", dtype="i8", shape=(2,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_parses(dtype: str) -> None:
    assert parse_input(f"{dtype}[1]").dtype == dtype


@pytest.mark.parametrize("text", ["x=f32[16,3]", "i64[1,128]<32000", "f32[]", "i8[2]>=-5<5"])
def test_str_gives_the_spec_back(text: str) -> None:
    assert str(parse_input(text)) == text


@pytest.mark.parametrize(
    ("text", "position", "found"),
    [
        ("", 1, "the end"),
        ("x=", 3, "the end"),
        ("x=f31[2]", 3, "'f31'"),
        ("x", 1, "'x'"),
        ("f32", 4, "the end"),
        ("f32[2", 6, "the end"),
        ("f32[2,]", 7, "']'"),
        ("f32[2 3]", 7, "'3'"),
        ("f32[-1]", 5, "-1"),
        ("f32[1e3]", 6, "'e3'"),
        ("f32[2.5]", 6, "a character"),
        ("f32[2]]", 7, "']'"),
        ("x=f32[b,3]", 7, "'b'"),
        ("x==f32[2]", 3, "'='"),
        ("3=f32[2]", 1, "'3'"),
        ("f32[2]<5", 7, "a bound for f32"),
        ("bool[2]<2", 8, "a bound for bool"),
        ("i64[2]<", 8, "the end"),
        ("i64[2]<0", 8, "bound 0"),
        ("i8[2]<129", 7, "bound 129"),
        ("i8[2]>=3", 9, "the end"),
        ("i8[2]>=3<3", 10, "bound 3"),
        ("i8[2]>=-129<3", 8, "-129"),
        ("u8[2]>=-1<3", 8, "-1"),
        ("c64[2]<5", 7, "a bound for c64"),
    ],
)
def test_error_names_what_was_found_and_where(text: str, position: int, found: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_input(text)
    assert f"found {found}" in caught.value.message
    assert f"at position {position}" in caught.value.message
    assert "x=f32[16,3,224,224]" in str(caught.value.hint)


def test_largest_bound_of_a_dtype_is_allowed() -> None:
    assert parse_input("i8[2]<128").bound == 128
    assert parse_input("u8[2]<256").bound == 256


def test_order_of_inputs_is_kept() -> None:
    assert [spec.shape for spec in parse_inputs(["f32[1]", "x=f32[2]", "f32[3]"])] == [(1,), (2,), (3,)]


def test_same_name_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="'x' is given 2 times"):
        parse_inputs(["x=f32[1]", "x=f32[2]"])


# several in one text


@pytest.mark.parametrize("between", [" ", ", ", ",", "\n"])
def test_one_text_holds_all_inputs_of_a_call(between: str) -> None:
    text = f"input_ids=i64[1,128]<1000{between}mask=bool[1,128]"
    assert parse_input_set(text) == (
        InputSpec(name="input_ids", dtype="i64", shape=(1, 128), bound=1000),
        InputSpec(name="mask", dtype="bool", shape=(1, 128)),
    )


def test_positions_in_a_text_of_several_are_those_of_the_whole() -> None:
    with pytest.raises(UsageError, match=r"found 'f33' at position 12"):
        parse_input_set("x=f32[2] y=f33[2]")


def test_a_name_twice_in_one_text_is_refused() -> None:
    with pytest.raises(UsageError, match="'x' is given 2 times"):
        parse_input_set("x=f32[2] x=f32[3]")


def test_who_writes_python_is_told_how_it_is_written_here() -> None:
    with pytest.raises(UsageError) as caught:
        parse_input_set("{'input_ids': torch.randint(0, 1000, (1, 128))}")
    assert "is written  ids=i64[1,128]<1000" in str(caught.value.hint)
