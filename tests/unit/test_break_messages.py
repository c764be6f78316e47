"""What Dynamo's messages about graph breaks say."""

from __future__ import annotations

import pytest

from graphbench.capture.break_messages import parse, steps

SEPARATOR = "\n\n*** While handling this graph break, another graph break occurred: ***\n\n"


def message(kind: str, explanation: str = "It is so.", hints: tuple[str, ...] = (), context: str = "") -> str:
    """In the layout of `torch._dynamo.exc.format_graph_break_message`, torch 2.13."""
    advice = "\n".join(f"  Hint: {hint}" for hint in hints)
    link = "\n\n For more details about this graph break, please visit: https://example.org/gb0.html"
    return f"{kind}\n  Explanation: {explanation}\n{advice}\n\n  Developer debug context: {context}{link}"


def test_the_reason_is_the_kind_of_break() -> None:
    assert parse(message("Dynamic shape operator")).reason == "Dynamic shape operator"


def test_what_the_user_wrote_about_a_break_is_part_of_the_reason() -> None:
    text = message("Call to `torch._dynamo.graph_break()`", "User-inserted graph break. Message: too slow")
    assert parse(text).reason == "Call to `torch._dynamo.graph_break()`: too slow"


def test_a_break_without_the_users_words_has_the_kind_alone() -> None:
    text = message("Call to `torch._dynamo.graph_break()`", "User-inserted graph break. Message: None")
    assert parse(text).reason == "Call to `torch._dynamo.graph_break()`"


def test_why_a_function_was_disabled_is_part_of_the_reason() -> None:
    disabled = message("Skip calling `torch.compiler.disable()`d function", "Skip calling it (reason: flaky kernel)")
    assert parse(disabled).reason == "Skip calling `torch.compiler.disable()`d function: flaky kernel"
    assert parse(disabled).is_disabled


def test_hints_are_joined_on_one_line() -> None:
    text = message("Failed to trace", hints=("Do not\n    do that.", "Report it."))
    assert parse(text).hint == "Do not do that. Report it."


def test_a_hint_that_only_points_to_an_earlier_break_is_left_out() -> None:
    filler = "This graph break may have been caused by an earlier graph break. Resolving that may resolve this one."
    assert parse(message("graph break in loop", hints=(filler, "Move it."))).hint == "Move it."


def test_a_break_on_the_way_to_another_is_told_first_and_names_the_call() -> None:
    first = message("Call to `print`", context="builtin print [<class 'X'>] True")
    text = first + SEPARATOR + message("graph break in loop", context="frame skipped: f (f.py line 3)")
    assert (parse(text).reason, parse(text).called) == ("Call to `print`; graph break in loop", "print")


def test_each_message_that_grew_into_the_last_is_a_step() -> None:
    text = "a" + SEPARATOR + "b" + SEPARATOR + "c"
    assert steps(text) == ["a", f"a{SEPARATOR}b", text]


@pytest.mark.parametrize(
    ("context", "called"),
    [
        ("Called `torch._dynamo.graph_break()` with args `[]`, kwargs `{}`", "torch._dynamo.graph_break"),
        ("call_method TensorVariable() item () {}", "item"),
        ("call_method ConstantVariable(str: 'a b') close", "close"),
        ("method: <Logger a (WARNING)>.info, args: [], kwargs: {}", "info"),
        ("<function off at 0x7fe2fcea0040>", "off"),
        ("<bound method Net.off of Net()>", "Net.off"),
        ("builtin print [<class 'torch._dynamo.variables.constant.ConstantVariable'>] True", "print"),
        ("module: random, qualname: Random.getstate, skip reason: file is under skip directory", "Random.getstate"),
        ("aten.nonzero.default", "nonzero"),
        ("Active generic context managers: [GenericContextWrappingVariable(CM)]", ""),
    ],
)
def test_the_call_is_what_the_context_names(context: str, called: str) -> None:
    assert parse(message("Some kind", context=context)).called == called


def test_a_branch_on_a_tensor_is_known_by_its_context() -> None:
    assert parse(message("Data-dependent branching", context="attempted to jump with TensorVariable()")).is_branch


def test_a_first_line_that_only_announces_is_told_with_the_next() -> None:
    assert parse("backend='x' raised:\nOSError: no space").reason == "backend='x' raised: OSError: no space"


def test_a_text_in_no_known_layout_is_its_first_line() -> None:
    plain = parse("\nsomething else\nwith more lines")
    assert (plain.reason, plain.hint, plain.called) == ("something else", "", "")
