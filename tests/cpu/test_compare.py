"""Comparing results: equal within what another order of additions explains, and not beyond."""

from __future__ import annotations

import pytest
import torch

from graphbench.isolate.compare import compare_tensors, compare_trees, how_different
from graphbench.measurements import Comparison

NAN, INF = float("nan"), float("inf")


def test_equal_tensors_differ_by_nothing() -> None:
    found = compare_tensors(torch.ones(3), torch.ones(3))
    assert (found.equal, found.max_abs) == (True, 0.0)


def test_the_largest_difference_is_reported() -> None:
    found = compare_tensors(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.5, 3.25]))
    assert (found.equal, found.max_abs) == (False, 0.5)


@pytest.mark.parametrize(
    ("dtype", "small", "large"),
    [
        (torch.float64, 1e-8, 1e-6),
        (torch.float32, 5e-4, 2e-3),
        (torch.float16, 2**-8, 2**-5),
        (torch.bfloat16, 2**-6, 2**-4),
    ],
)
def test_tolerance_follows_the_dtype(dtype: torch.dtype, small: float, large: float) -> None:
    one = torch.ones(2, dtype=dtype)
    verdicts = [compare_tensors(one + gap, one).equal for gap in (small, large)]
    assert verdicts == [True, False]


def test_integers_must_be_equal() -> None:
    assert compare_tensors(torch.tensor([1000]), torch.tensor([1001])).equal is False


def test_nan_equals_nan() -> None:
    assert compare_tensors(torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0])).equal is True


def test_nan_where_there_should_be_none_is_a_difference() -> None:
    found = compare_tensors(torch.tensor([NAN, 1.0]), torch.tensor([0.0, 1.0]))
    assert (found.equal, found.note) == (False, "NaN where the other result has none")


def test_numbers_where_there_should_be_nan_are_a_difference() -> None:
    found = compare_tensors(torch.tensor([0.0, 1.0]), torch.tensor([NAN, 1.0]))
    assert (found.equal, found.note) == (False, "NaN or infinite on one side only")


def test_infinities_of_one_sign_are_equal() -> None:
    assert compare_tensors(torch.tensor([-INF]), torch.tensor([-INF])).equal is True


def test_infinities_of_other_sign_differ() -> None:
    assert compare_tensors(torch.tensor([INF]), torch.tensor([-INF])).equal is False


def test_a_finite_value_is_not_infinity() -> None:
    assert compare_tensors(torch.tensor([1.0]), torch.tensor([INF])).equal is False


def test_fp8_is_compared() -> None:
    one = torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)
    other = torch.tensor([1.0, 8.0]).to(torch.float8_e4m3fn)
    assert [compare_tensors(one, one).equal, compare_tensors(one, other).equal] == [True, False]


def test_imaginary_parts_are_compared() -> None:
    found = compare_tensors(torch.tensor([1 + 1j]), torch.tensor([1 + 2j]))
    assert (found.equal, found.max_abs) == (False, 1.0)


def test_shape_and_dtype_must_be_equal() -> None:
    found = compare_tensors(torch.ones(2), torch.ones(2, dtype=torch.int32))
    assert (found.equal, found.note) == (False, "(2,) torch.float32 instead of (2,) torch.int32")


def test_empty_tensors_are_equal() -> None:
    assert compare_tensors(torch.empty(0, 3), torch.empty(0, 3)).equal is True


def test_what_has_no_storage_is_not_judged() -> None:
    sparse = torch.eye(2).to_sparse()
    assert compare_tensors(sparse, sparse).equal is None


def test_a_tree_is_as_different_as_its_worst_tensor() -> None:
    found = compare_trees({"a": torch.zeros(1), "b": [torch.ones(1)]}, {"a": torch.zeros(1), "b": [torch.zeros(1)]})
    assert (found.equal, found.max_abs) == (False, 1.0)


def test_another_number_of_tensors_is_a_difference() -> None:
    found = compare_trees([torch.ones(1)], [torch.ones(1), torch.ones(1)])
    assert (found.equal, found.note) == (False, "1 tensors instead of 2")


def test_nothing_to_compare_is_no_verdict() -> None:
    assert compare_trees([1, None], [1, None]).equal is None


def test_results_of_long_chains_get_more_room() -> None:
    one = torch.ones(1)
    verdicts = [compare_trees(one + 5e-3, one, tolerance=factor).equal for factor in (1.0, 10.0)]
    assert verdicts == [False, True]


def test_one_difference_among_many_elements_is_found() -> None:
    one = torch.zeros(1 << 16)
    other = one.clone()
    other[12345] = 1.0
    assert compare_tensors(one, other).max_abs == 1.0


def test_integers_beyond_float_precision_are_told_apart() -> None:
    assert compare_tensors(torch.tensor([2**53 + 1]), torch.tensor([2**53])).equal is False


def test_a_wrong_result_without_a_size_is_worse_than_any_small_difference() -> None:
    rounding = Comparison(equal=True, max_abs=1e-6)
    wrong = Comparison(equal=False, max_abs=0.5)
    nan = Comparison(equal=False, max_abs=None, note="NaN or infinite on one side only")
    unknown = Comparison(equal=None, max_abs=None)
    assert sorted([nan, rounding, unknown, wrong], key=how_different) == [unknown, rounding, wrong, nan]
