"""Every kind of graph break is known once, with reason, line, cause and region; and why code was compiled again."""

from __future__ import annotations

import _bisect
import logging
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench import session
from graphbench.step_records import GraphBreak, Recompile
from tests.cpu.stories import compiled

BROKE = "Call to `torch._dynamo.graph_break()`"
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"


@pytest.fixture(autouse=True)
def _without_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo alone decides what breaks: its graphs run as they are."""
    monkeypatch.setattr("graphbench.inductor.compile.compile_region", lambda gm, *_: gm.forward)


def breaks_of(fn: Callable[..., Any], *args: Any, **options: Any) -> list[GraphBreak]:
    compiled(fn, **options)(*(args or (torch.ones(4, 4),)))
    return session.current().breaks()


def place(found: GraphBreak) -> tuple[str, str]:
    """Function and code of the line that broke."""
    assert found.source is not None
    assert found.source.file == __file__
    return found.source.function, found.source.code


# what breaks, and goes on in another graph


@torch.compiler.disable
def switched_off(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


@torch.compiler.disable(recursive=False)
def switched_off_alone(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


def explicit(x: torch.Tensor) -> torch.Tensor:
    x = x @ x
    torch._dynamo.graph_break()
    return x @ x


def with_item(x: torch.Tensor) -> torch.Tensor:
    y = x @ x
    return y * y.sum().item()


def with_float(x: torch.Tensor) -> torch.Tensor:
    y = x @ x
    scale = float(y.sum())
    return y * scale


def branching(x: torch.Tensor) -> torch.Tensor:
    y = x @ x
    if y.sum() > 0:
        return y + 1
    return y - 1


def calls_disabled(x: torch.Tensor) -> torch.Tensor:
    y = switched_off(x + 1)
    return y * 2


def calls_disabled_alone(x: torch.Tensor) -> torch.Tensor:
    y = switched_off_alone(x + 1)
    return y * 2


def over_lines(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    z = torch.add(
        y,
        switched_off(
            y,
        ),
    )
    return z * 2


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print(end="")  # noqa: T201 - the graph break
    return y * 2


def calls_c(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    at = _bisect.bisect_left([1, 2, 3], 2)
    return y * at


def calls_skipped_module(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    random.getstate()
    return y * 2


def dynamic_shape(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    found = torch.nonzero(y)
    return y * found.shape[0]


@pytest.mark.parametrize(
    ("fn", "kind", "reason", "code", "cause"),
    [
        (explicit, "break", BROKE, "torch._dynamo.graph_break()", "torch._dynamo.graph_break()"),
        (with_item, "break", ITEM, "return y * y.sum().item()", "y.sum().item()"),
        (with_float, "break", ITEM, "scale = float(y.sum())", "float(y.sum())"),
        (branching, "break", "Data-dependent branching", "if y.sum() > 0:", "y.sum() > 0"),
        (
            calls_disabled,
            "disabled",
            "Skip calling `torch.compiler.disable()`d function",
            "y = switched_off(x + 1)",
            "switched_off(x + 1)",
        ),
        (
            calls_disabled_alone,
            "disabled",
            "Skip inlining `torch.compiler.disable()`d function",
            "y = switched_off_alone(x + 1)",
            "switched_off_alone(x + 1)",
        ),
        (
            over_lines,
            "disabled",
            "Skip calling `torch.compiler.disable()`d function",
            "switched_off(",
            "switched_off(y)",
        ),
        (
            printing,
            "break",
            "Failed to trace builtin operator",
            'print(end="")  # noqa: T201 - the graph break',
            'print(end="")',
        ),
        (
            calls_c,
            "break",
            "Attempted to call function marked as skipped",
            "at = _bisect.bisect_left([1, 2, 3], 2)",
            "_bisect.bisect_left([1, 2, 3], 2)",
        ),
        (
            calls_skipped_module,
            "break",
            "Attempted to call function marked as skipped",
            "random.getstate()",
            "random.getstate()",
        ),
        (dynamic_shape, "break", "Dynamic shape operator", "found = torch.nonzero(y)", "torch.nonzero(y)"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_break_between_two_graphs_ends_the_first(
    fn: Callable[..., torch.Tensor], kind: str, reason: str, code: str, cause: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dynamo's own, of calls into C
        (found,) = breaks_of(fn)
    assert place(found) == (fn.__name__, code)
    assert (found.kind, found.reason, found.cause) == (kind, reason, cause)
    assert (found.region, found.count) == ("r0", 1)


def test_a_break_has_dynamos_advice() -> None:
    (found,) = breaks_of(with_item)
    assert found.hint.startswith("Set `torch._dynamo.config.capture_scalar_outputs = True`")


def test_a_branch_has_dynamos_advice() -> None:
    (found,) = breaks_of(branching)
    assert "Use `torch.cond` to express dynamic control flow." in found.hint


def test_the_users_words_are_in_the_reason() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break(msg="the sampler is slow to trace")
        return x @ x

    (found,) = breaks_of(fn)
    assert found.reason == f"{BROKE}: the sampler is slow to trace"


def test_a_second_break_behind_the_first_is_another_break_of_the_same_function() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = switched_off(x + 1)
        return y * y.sum().item()

    first, second = breaks_of(fn)
    assert [found.region for found in (first, second)] == ["r0", "r1"]
    assert place(first) == ("fn", "y = switched_off(x + 1)")
    assert place(second) == ("fn", "return y * y.sum().item()")


def test_a_while_on_a_tensor_breaks_at_every_graph_that_tests_it() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        while x.sum() < 100:
            x = x * 2
        return x

    found = breaks_of(fn)
    assert [(entry.region, place(entry)) for entry in found] == [
        ("r0", ("fn", "while x.sum() < 100:")),
        ("r1", ("fn", "while x.sum() < 100:")),
    ]


# breaks inside other functions


def inner(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return x * 2


def test_a_break_in_a_called_function_is_at_its_line_there() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return inner(x @ x) @ x

    (found,) = breaks_of(fn)
    assert place(found) == ("inner", "torch._dynamo.graph_break()")
    assert (found.region, found.count) == ("r0", 2)  # it ended the caller's graph, then one of its own without any op


def test_a_break_in_a_function_called_twice_is_one_break_counted() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return inner(inner(x))

    (found,) = breaks_of(fn)
    assert place(found) == ("inner", "torch._dynamo.graph_break()")
    assert (found.region, found.count) == (None, 3)  # in the caller at both calls, and in the function itself


class Halting(torch.autograd.Function):
    """Breaks in backward, which Dynamo traces with forward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return gradient * 2


def test_a_break_in_the_backward_of_an_autograd_function_is_at_its_line() -> None:
    found = breaks_of(lambda x: Halting.apply(x).sum(), torch.ones(4, requires_grad=True))
    assert [place(entry) for entry in found] == [("backward", "torch._dynamo.graph_break()")]


def halting_hook(gradient: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return gradient * 2


def test_a_break_in_a_gradient_hook_is_at_its_line() -> None:
    class Hooked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.register_hook(halting_hook)
            return y.sum()

    (found,) = breaks_of(Hooked(), torch.ones(4, requires_grad=True))
    assert (place(found), found.region) == (("halting_hook", "torch._dynamo.graph_break()"), "r0")


# frames that are given up


class Scope:
    """A context manager that Dynamo cannot break in."""

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def looping(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x @ x
        torch._dynamo.graph_break()
    return x


def looping_item(x: torch.Tensor) -> torch.Tensor:
    total = 0.0
    for _ in range(2):
        total += x.sum().item()
    return x * total


def in_scope(x: torch.Tensor) -> torch.Tensor:
    with Scope():
        y = switched_off(x)
    return y + 1


@pytest.mark.parametrize(
    ("fn", "code", "cause", "reason"),
    [
        (looping, "torch._dynamo.graph_break()", "torch._dynamo.graph_break()", f"{BROKE}; graph break in loop"),
        (looping_item, "total += x.sum().item()", "x.sum().item()", f"{ITEM}; graph break in loop"),
        (
            in_scope,
            "y = switched_off(x)",
            "switched_off(x)",
            "Skip calling `torch.compiler.disable()`d function; Graph break under GenericContextWrappingVariable",
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_frame_given_up_is_told_with_what_broke_in_it(
    fn: Callable[..., torch.Tensor], code: str, cause: str, reason: str
) -> None:
    (found,) = breaks_of(fn)
    assert place(found) == (fn.__name__, code)
    assert found.reason == f"{reason}; all of `{fn.__name__}` runs eagerly"
    assert (found.kind, found.cause, found.region, found.count) == ("skipped", cause, None, 1)


def test_a_frame_given_up_for_a_function_that_it_calls_names_both() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = inner(x)
        return x

    skipped = next(found for found in breaks_of(fn) if found.kind == "skipped")
    assert place(skipped) == ("inner", "torch._dynamo.graph_break()")
    assert skipped.reason.endswith("; all of `fn` runs eagerly")
    assert (skipped.frame.function if skipped.frame else "") == "fn"


def test_a_break_that_cannot_be_resumed_ends_the_graph_before_it_and_the_rest_is_eager() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x @ x
        y = y + 1
        try:
            y = y * 3
            torch._dynamo.graph_break()
        except ValueError:
            pass
        return y + 1

    (found,) = breaks_of(fn)
    assert place(found) == ("fn", "torch._dynamo.graph_break()")
    assert found.reason == f"{BROKE}; the rest of `fn` runs eagerly"
    assert (found.kind, found.cause, found.region) == ("skipped", "torch._dynamo.graph_break()", "r0")


def test_an_unresumable_break_in_a_called_function_is_told_where_the_graph_ended() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x @ x
        y = y + 1
        try:  # noqa: SIM105 - a context manager would be another kind of break
            y = inner(y)
        except ValueError:
            pass
        return y + 1

    found = next(entry for entry in breaks_of(fn) if entry.region == "r0")
    assert (found.kind, found.reason) == ("skipped", f"{BROKE}; the rest of `fn` runs eagerly")
    assert found.source is not None
    assert found.source.function == "fn"


def test_a_disabled_forward_that_torch_itself_calls_is_named() -> None:
    class Disabled(nn.Module):
        @torch.compiler.disable
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    found = breaks_of(Disabled())[0]
    assert found.kind == "disabled"
    assert found.cause.endswith("Disabled.forward")


def test_a_frame_marked_to_be_skipped_is_told() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.decorators.skip_frame()
        return x @ x

    (found,) = breaks_of(fn)
    assert (found.kind, place(found)) == ("skipped", ("fn", "torch._dynamo.decorators.skip_frame()"))


def test_a_generator_is_told_where_it_begins() -> None:
    def fn(x: torch.Tensor) -> Iterator[torch.Tensor]:
        yield x @ x

    assert len(list(compiled(fn)(torch.ones(4, 4)))) == 1
    (found,) = session.current().breaks()
    assert (found.kind, found.reason) == ("skipped", "Attempt to trace generator; all of `fn` runs eagerly")
    assert place(found) == ("fn", "def fn(x: torch.Tensor) -> Iterator[torch.Tensor]:")


def test_generators_that_torch_runs_while_it_compiles_a_backward_are_not_the_users() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).sum()
        y.backward()
        return y

    (found,) = breaks_of(fn, torch.ones(4, requires_grad=True))
    assert (found.cause, found.region) == ("y.backward()", "r0")


def test_a_frame_that_only_breaks_is_one_break_without_a_region() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x

    (found,) = breaks_of(fn)
    assert (found.kind, found.region, found.count) == ("break", None, 1)


def test_a_failure_under_fullgraph_is_no_break() -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported):
        breaks_of(explicit, fullgraph=True)
    assert session.current().breaks() == []


def test_a_frame_given_up_after_a_failure_under_fullgraph_is_a_break() -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported):
        breaks_of(explicit, fullgraph=True)
    (found,) = breaks_of(looping)
    assert place(found)[0] == "looping"


def test_a_frame_run_eagerly_because_errors_are_suppressed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("graphbench.inductor.compile.compile_region", refuse)
    with torch._dynamo.config.patch(suppress_errors=True):
        (found,) = breaks_of(sine)
    assert found.reason == "backend='graphbench' raised: OSError: the disk is full; all of `sine` runs eagerly"


def test_a_break_inside_pythons_library_is_at_the_users_line() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        logging.getLogger("a").info("shape %s", y.shape)
        return y * 2

    found = breaks_of(fn)
    assert {place(entry) for entry in found} == {("fn", 'logging.getLogger("a").info("shape %s", y.shape)')}


def test_code_without_a_break_has_none() -> None:
    assert breaks_of(lambda x: (x @ x).relu()) == []


# reading what Dynamo remembers


def test_breaks_asked_for_twice_are_the_same() -> None:
    first = breaks_of(looping)
    assert session.current().breaks() == first


def test_breaks_of_an_earlier_session_do_not_come_back() -> None:
    breaks_of(explicit)
    breaks_of(looping)
    graphbench.reset()
    assert [place(found) for found in breaks_of(with_item)] == [("with_item", "return y * y.sum().item()")]


def test_breaks_outlive_a_reset_of_dynamo() -> None:
    breaks_of(explicit)
    torch._dynamo.reset()
    found = breaks_of(with_item)
    assert [place(entry)[0] for entry in found] == ["explicit", "with_item"]
    assert [entry.region for entry in found] == ["r0", "r2"]


def test_breaks_are_found_although_the_user_cleared_dynamos_counters() -> None:
    breaks_of(looping)
    torch._dynamo.utils.counters.clear()
    found = breaks_of(looping_item)
    assert [place(entry)[0] for entry in found] == ["looping", "looping_item"]


def test_a_frame_that_dynamo_no_longer_remembers_is_known_by_its_reason() -> None:
    compiled(looping)(torch.ones(4, 4))
    torch._dynamo.utils.clear_compilation_metrics()
    reasons = {found.reason for found in session.current().breaks()}
    assert f"{BROKE}; graph break in loop; the frame runs eagerly" in reasons


def test_frames_before_a_graph_are_remembered() -> None:
    model = compiled(looping)
    model(torch.ones(4, 4))
    assert [place(found)[0] for found in breaks_of(with_item)] == ["with_item", "looping"]


def test_a_graph_that_dynamo_thinks_about_again_ends_at_one_break(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def compile_region(gm: torch.fx.GraphModule, *_: object) -> Callable[..., Any]:
        attempts.append(gm)
        if len(attempts) == 1:
            raise torch._dynamo.exc.TensorifyScalarRestartAnalysis
        return gm.forward

    monkeypatch.setattr("graphbench.inductor.compile.compile_region", compile_region)
    (found,) = breaks_of(branching)
    assert (found.region, found.count) == ("r1", 1)


def test_a_break_met_again_when_code_is_compiled_again_ends_another_region() -> None:
    model = compiled(explicit, dynamic=False)
    for size in (2, 3):
        model(torch.ones(size, size))
    assert [(found.region, place(found)[0]) for found in session.current().breaks()] == [
        ("r0", "explicit"),
        ("r2", "explicit"),
    ]


# recompiles


def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def resized(sizes: Sequence[int], fn: Callable[..., Any] = sine, limit: int = 8) -> list[Recompile]:
    with torch._dynamo.config.patch(recompile_limit=limit):
        model = compiled(fn, dynamic=False)
        for size in sizes:
            model(torch.ones(size, size))
    return session.current().recompiles()


def test_a_recompile_has_the_guard_that_failed() -> None:
    (found,) = resized((4, 8))
    assert found.guard == "tensor 'x' size mismatch at index 0. expected 4, actual 8"
    assert (found.compile_id, found.region) == ("0/1", "r1")


def test_a_recompile_names_the_function() -> None:
    (found,) = resized((4, 8))
    assert found.source is not None
    assert (found.source.function, found.source.code) == ("sine", "def sine(x: torch.Tensor) -> torch.Tensor:")


def test_the_guard_is_told_without_the_line_that_dynamo_remarks() -> None:
    class Switch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.on = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if self.on else x

    net = Switch()
    model = compiled(net)
    model(torch.ones(2))
    net.on = False
    model(torch.ones(2))
    (found,) = session.current().recompiles()
    assert ".on" in found.guard
    assert "#" not in found.guard


def test_a_recompile_that_made_no_graph_has_no_region() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[0] > 2 else x * 2

    (found,) = resized((2, 3), fn)
    assert (found.compile_id, found.region) == ("0/1", None)


def test_a_recompile_whose_metrics_are_gone_is_still_counted() -> None:
    model = compiled(sine, dynamic=False)
    for size in (2, 3):
        model(torch.ones(size, size))
        torch._dynamo.utils.clear_compilation_metrics()
    (found,) = session.current().recompiles()
    assert (found.compile_id, found.guard, found.region) == ("0/1", "", "r1")


def test_hitting_the_limit_on_recompiles_is_a_break_with_the_last_guard() -> None:
    resized((2, 3, 4, 5), limit=2)
    (found,) = session.current().breaks()
    assert (found.kind, found.reason, found.count) == ("limit", "Dynamo recompile limit exceeded", 1)
    assert found.cause == "tensor 'x' size mismatch at index 0. expected 3, actual 4"
    assert place(found) == ("sine", "def sine(x: torch.Tensor) -> torch.Tensor:")
    assert "torch._dynamo.config.recompile_limit" in found.hint


def test_the_recompile_that_hit_the_limit_is_counted_as_torch_logs_it() -> None:
    found = resized((2, 3, 4, 5), limit=2)
    assert [(entry.compile_id, entry.region) for entry in found] == [("0/1", "r1"), ("0/2", None)]


def test_recompiles_of_an_earlier_session_do_not_come_back() -> None:
    resized((2, 3))
    graphbench.reset()
    assert resized((2, 3, 4), lambda x: x.cos())[0].compile_id == "0/1"
    assert len(session.current().recompiles()) == 2
