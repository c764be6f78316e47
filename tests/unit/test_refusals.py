"""Why kernels were not fused: the scheduler's words, for the kernels that were made in the end."""

from __future__ import annotations

from graphbench.inductor.refusals import Refusal, Refused


def refused(*pairs: tuple[str, str, str], kernels: dict[str, str]) -> tuple[Refusal, ...]:
    found = Refused()
    for first, second, reason in pairs:
        found.pairs.pop((first, second), None)
        found.pairs[first, second] = (reason, ())
    for operation, kernel in kernels.items():
        found.emitted(kernel, [operation])
    return found.between_kernels()


def test_a_refusal_names_the_kernels_of_its_operations() -> None:
    assert refused(("op0", "op1", "no shared data"), kernels={"op0": "a:1", "op1": "b:2"}) == (
        Refusal("a:1", "b:2", "no shared data"),
    )


def test_what_was_fused_later_was_not_refused() -> None:
    assert refused(("op0", "op1", "no shared data"), kernels={"op0": "a:1", "op1": "a:1"}) == ()


def test_a_fused_node_stands_for_all_its_operations() -> None:
    kernels = {"op0": "a:1", "op1": "a:1", "op2": "b:2"}
    assert refused(("op0_op1", "op2", "too large"), kernels=kernels) == (Refusal("a:1", "b:2", "too large"),)


def test_a_node_that_was_taken_apart_again_says_nothing() -> None:
    kernels = {"op0": "a:1", "op1": "c:3", "op2": "b:2"}
    assert refused(("op0_op1", "op2", "too large"), kernels=kernels) == ()


def test_the_last_reason_is_that_of_the_kernels_as_they_are() -> None:
    pairs = (("op0", "op2", "no shared data"), ("op0_op1", "op2", "too large"))
    kernels = {"op0": "a:1", "op1": "a:1", "op2": "b:2"}
    assert refused(*pairs, kernels=kernels) == (Refusal("a:1", "b:2", "too large"),)


def test_operations_without_a_kernel_say_nothing() -> None:
    assert refused(("op0", "op9", "no shared data"), kernels={"op0": "a:1"}) == ()


def test_reasons_are_filled_in() -> None:
    found = Refused(pairs={("op0", "op1"): ("score %d is below %d", (1, 2))})
    found.kernel_of.update({"op0": "a:1", "op1": "b:2"})
    assert found.between_kernels()[0].reason == "score 1 is below 2"
