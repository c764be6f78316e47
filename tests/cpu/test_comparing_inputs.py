"""Inputs of compared implementations: nobody may change what others read, nor lose what it starts from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphbench
from graphbench import Implementation
from graphbench.errors import IsolationError, UsageError
from tests.cpu.half_timer import HalfTimer, boom, compare, nothing

Call = Callable[..., Any]


def nothing_of(*_: Any) -> None: ...


def nested() -> tuple[Any, ...]:
    return torch.ones(4), {"weights": [torch.arange(6.0).view(2, 3)]}


def write_first(x: torch.Tensor, _: Any) -> None:
    x.add_(1)


def write_nested(_: torch.Tensor, rest: Any) -> None:
    rest["weights"][0][1, 2] = 7


def write_through_a_view(x: torch.Tensor, _: Any) -> None:
    x[2:].numpy()[0] = 5  # no version moves


def turn(_: torch.Tensor, rest: Any) -> None:
    rest["weights"][0].t_()


def swap(x: torch.Tensor, _: Any) -> None:
    x.data = torch.ones(4)


@pytest.mark.parametrize(
    ("write", "where"),
    [
        (write_first, "input 0"),
        (write_nested, "input 1['weights'][0]"),
        (write_through_a_view, "input 0"),
        (turn, "input 1['weights'][0]"),
        (swap, "input 0"),
    ],
)
def test_a_shared_input_that_one_changes_is_refused_before_timing(write: Call, where: str) -> None:
    timer, inputs = HalfTimer(), nested()
    storage = inputs[0].untyped_storage().data_ptr()
    with pytest.raises(UsageError) as caught:
        compare({"A": lambda *_: None, "B": write}, *inputs, timer=timer)
    assert caught.value.message == f"B changes what all implementations share: {where}"
    assert caught.value.hint is not None
    assert "reset" in caught.value.hint
    assert timer.order == []
    assert inputs[0].tolist() == [1.0] * 4
    assert inputs[0].untyped_storage().data_ptr() == storage
    assert inputs[1]["weights"][0].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_all_views_of_what_was_changed_are_named() -> None:
    base = torch.zeros(4)
    with pytest.raises(UsageError, match=r"share: input 0, input 1\n") as caught:
        compare({"A": lambda whole, part: whole.zero_().add_(1)}, base, base[2:])
    assert caught.value.subject == "A"
    assert base.tolist() == [0.0] * 4


def test_a_gradient_left_on_a_shared_input_is_refused_and_taken_away() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(UsageError, match=r"share: input 0\.grad\n  hint: .*graphbench\.backward_of"):
        compare({"A": lambda x: x.sum().backward()}, x)
    assert x.grad is None


def test_an_own_input_that_shares_memory_with_a_shared_one_is_refused() -> None:
    x = torch.ones(4)
    mine = Implementation("B", lambda y: y.mul_(3), inputs=(x.view(2, 2),), reset=nothing)
    with pytest.raises(UsageError, match="B changes what all implementations share: input 0"):
        compare([Implementation("A", torch.relu), mine], x)


def test_own_inputs_that_reset_puts_back_may_be_written() -> None:
    x = torch.ones(4)
    own = x.clone()
    seen: list[float] = []

    def write(y: torch.Tensor) -> torch.Tensor:
        seen.append(float(y[0]))
        return y.mul_(3)

    mine = Implementation("B", write, inputs=(own,), reset=lambda: own.copy_(x))
    _, row = compare([Implementation("A", lambda x: x * 3), mine], x).rows
    assert set(seen) == {1.0}
    assert row.difference is not None
    assert (row.measurement.status, row.difference.equal, row.difference.max_abs) == ("ok", True, 0.0)


def test_own_inputs_hold_afterwards_what_they_held_before() -> None:
    own = torch.full((3,), 9.0)
    mine = Implementation("A", lambda y: y.mul_(3), inputs=(own,), reset=lambda: own.fill_(1.0))
    compare([mine])
    assert own.tolist() == [9.0] * 3


@pytest.mark.parametrize(
    ("reset", "words"),
    [(None, "and has no reset"), (nothing, "which its reset does not put back")],
    ids=["none", "in vain"],
)
def test_own_inputs_that_stay_changed_are_refused(reset: Call | None, words: str) -> None:
    own, timer = torch.ones(3), HalfTimer()
    with pytest.raises(UsageError, match=f"A changes its own input 0, {words}"):
        compare([Implementation("A", lambda y: y.add_(1), inputs=(own,), reset=reset)], timer=timer)
    assert timer.order == []
    assert own.tolist() == [1.0] * 3


def test_a_shared_input_changed_in_a_later_call_fails_that_row_and_is_put_back() -> None:
    x, calls = torch.ones(3), [0]

    def late(x: torch.Tensor) -> None:
        calls[0] += 1
        if calls[0] == 3:
            x.zero_()

    first, second = compare({"A": late, "B": torch.relu}, x).rows
    assert first.measurement.status == "failed"
    assert "changed input 0, which all implementations share" in first.measurement.reason
    assert second.measurement.status == "ok"
    assert x.tolist() == [1.0] * 3


def test_what_a_call_does_to_a_list_stays_with_that_call() -> None:
    entries, lengths = [torch.ones(2)], set()

    def growing(given: list[Any]) -> None:
        lengths.add(len(given))
        given.append(3)

    compare({"A": growing}, entries)
    assert (len(entries), lengths) == (1, {1})


def test_an_input_that_cannot_be_watched_is_refused() -> None:
    with pytest.raises(IsolationError, match=r"input 0: cannot tell whether it is changed: torch\.sparse_coo layout"):
        compare({"A": lambda x: x}, torch.eye(2).to_sparse())


# gradients and whether they are wanted


def test_a_shared_input_made_to_require_grad_is_refused_and_put_back() -> None:
    x = torch.ones(3)
    with pytest.raises(UsageError, match=r"share: input 0\.requires_grad\n  hint: .*x\.detach\(\)\.requires_grad_\(\)"):
        compare({"A": lambda x: x.requires_grad_()}, x)
    assert not x.requires_grad


def test_an_input_written_by_what_requires_grad_is_put_back_without_a_history() -> None:
    x, weight = torch.ones(3), torch.full((3,), 2.0, requires_grad=True)
    with pytest.raises(UsageError, match=r"share: input 0, input 0\.requires_grad"):
        compare({"A": lambda x: x.mul_(weight)}, x)
    assert (x.tolist(), x.requires_grad, x.is_leaf) == ([1.0] * 3, False, True)


def test_a_gradient_left_on_an_input_that_retains_it_is_refused_and_taken_away() -> None:
    leaf = torch.ones(3, requires_grad=True)
    x = leaf * 2
    x.retain_grad()
    with pytest.raises(UsageError, match=r"share: input 0\.grad"):
        compare({"A": lambda x: torch.autograd.grad(x.sum(), leaf, retain_graph=True)}, x)
    assert x.grad is None


# inputs of one's own, while they are timed


def after(calls: int, then: Call) -> Call:
    """A call that does something in its so many-th call, and nothing in others."""
    counted = [0]

    def call(*inputs: Any) -> None:
        counted[0] += 1
        if counted[0] == calls:
            then(*inputs)

    return call


@pytest.mark.parametrize("reset", [None, nothing], ids=["no reset", "a reset in vain"])
def test_own_inputs_changed_in_a_later_call_fail_that_row_and_are_put_back(reset: Call | None) -> None:
    own, seen = torch.ones(3), set()
    a = Implementation("A", after(3, lambda y: y.zero_()), inputs=(own,), reset=reset)
    first, second = compare([a, Implementation("B", lambda: seen.add(float(own[0])))]).rows
    assert first.measurement.reason == "it changed its own input 0 for good in a call after its first"
    assert (second.measurement.status, seen) == ("ok", {1.0})
    assert own.tolist() == [1.0] * 3


def test_own_inputs_that_reset_puts_back_may_be_written_in_any_call() -> None:
    own = torch.full((3,), 9.0)
    a = Implementation("A", after(3, lambda y: y.zero_()), inputs=(own,), reset=lambda: own.fill_(1.0))
    assert compare([a]).rows[0].measurement.status == "ok"
    assert own.tolist() == [9.0] * 3


def test_a_reset_that_raises_after_a_half_fails_its_row() -> None:
    own = torch.ones(3)
    resets = 1 + 1 + 3 + 4 + 1  # before and after the trial, calibration, samples, after the half
    a = Implementation("A", nothing_of, inputs=(own,), reset=after(resets, boom))
    rows = compare([a, Implementation("B", nothing)]).rows
    assert [row.measurement.reason for row in rows] == ["it raised ValueError: mine", ""]


def test_two_that_own_one_tensor_do_not_see_each_others_bytes() -> None:
    one, seen = torch.ones(3), set()
    writing = Implementation("A", lambda y: y.mul_(3), inputs=(one,), reset=lambda: one.fill_(5.0))
    reading = Implementation("B", lambda y: seen.add(float(y[0])), inputs=(one,))
    rows = compare([writing, reading, Implementation("C", lambda: seen.add(float(one[0])))]).rows
    assert [row.measurement.status for row in rows] == ["ok"] * 3
    assert seen == {1.0}


# what is prepared before every call is not amortised: by the real wall clock, which repeats short calls

TINY: dict[str, Any] = {"repeat": 3, "warmup": 1}


def test_short_calls_that_need_no_preparation_are_repeated_within_a_sample() -> None:
    rows = graphbench.compare({"A": nothing_of, "B": nothing_of}, inputs=(torch.ones(1),), **TINY).rows
    assert all(row.measurement.inner > 1 for row in rows)


def test_by_the_wall_clock_every_call_draws_the_same_and_no_row_is_amortised() -> None:
    drawn = set()
    rows = graphbench.compare({"A": lambda: drawn.add(float(torch.rand(1))), "B": nothing}, **TINY).rows
    assert len(drawn) == 1
    assert [row.measurement.inner for row in rows] == [1, 1]


def test_by_the_wall_clock_what_a_call_does_to_a_list_stays_with_that_call() -> None:
    lengths = set()

    def growing(given: list[Any]) -> None:
        lengths.add(len(given))
        given.append(3)

    rows = graphbench.compare({"A": growing, "B": nothing_of}, inputs=([torch.ones(2)],), **TINY).rows
    assert lengths == {1}
    assert [row.measurement.inner for row in rows] == [1, 1]


def test_by_the_wall_clock_a_reset_runs_before_every_call() -> None:
    own, seen = torch.ones(1), set()

    def write(y: torch.Tensor) -> None:
        seen.add(float(y))
        y.zero_()

    a = Implementation("A", write, inputs=(own,), reset=lambda: own.fill_(1.0))
    rows = graphbench.compare([a, Implementation("B", nothing)], **TINY).rows
    assert seen == {1.0}
    assert [row.measurement.inner for row in rows] == [1, 1]
