"""The backward of one call alone: the right gradients, of its own arguments only, again and again, measured once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it
from torch.utils._python_dispatch import TorchDispatchMode

from graphbench.condition_records import Policy
from graphbench.isolate.backward_unit import BackwardUnit
from graphbench.measuring.calls import Call
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.options import Timers
from graphbench.timing.fake import FakeTimer
from graphbench.timing.wallclock import WallClock

CPU = torch.device("cpu")
Tensor = torch.Tensor


def unit(function: Callable[..., Any], *args: Any, **kwargs: Any) -> BackwardUnit:
    found = BackwardUnit("row", function, args, kwargs)
    found.trial()
    return found


def wants(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


class Triple(torch.autograd.Function):
    """Notes whether autocast is on in its backward."""

    autocast: bool | None = None

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        Triple.autocast = torch.is_autocast_enabled("cpu")
        return gradient * 3


def triple(x: Tensor) -> Tensor:
    found: Tensor = Triple.apply(x)  # type: ignore[no-untyped-call]
    return found


class Ops(TorchDispatchMode):
    """Names of the ops that run inside."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def ops_of(measured: BackwardUnit) -> list[str]:
    with Ops() as ops:
        measured.run()
    return ops.names


# gradients


def row_written(zero: Tensor, position: int, tangent: Tensor) -> Tensor:
    found = torch.zeros_like(zero)
    found[position] = tangent
    return found


@pytest.mark.parametrize(
    ("function", "make", "expected"),
    [
        (F.linear, lambda: (wants(3, 4), wants(2, 4)), lambda t, x, w: (t[0] @ w, t[0].t() @ x)),
        (Tensor.mul_, lambda: (wants(3) * 1, 3.0), lambda t, x, _: (3 * t[0],)),
        (Tensor.relu_, lambda: (wants(9) * 1,), lambda t, x: (t[0] * (x > 0),)),
        (torch.chunk, lambda: (wants(4), 2), lambda t, x, _: (torch.cat(t),)),
        (torch.expand_copy, lambda: (wants(1, 3), (2, 3)), lambda t, x, _: (t[0].sum(0, keepdim=True),)),
        (Tensor.expand, lambda: (wants(1, 3), 2, 3), lambda t, x, *_: (t[0].sum(0, keepdim=True),)),
        (Tensor.select, lambda: (wants(2, 3), 0, 1), lambda t, x, *_: (row_written(x, 1, t[0]),)),
        (F.embedding, lambda: (torch.tensor([1]), wants(2, 3)), lambda t, _, w: (row_written(w, 1, t[0][0]),)),
        (triple, lambda: (wants(3),), lambda t, x: (3 * t[0],)),
        (
            torch.mul,
            lambda: (wants(3, dtype=torch.complex64), wants(3, dtype=torch.complex64)),
            lambda t, x, y: (t[0] * y.conj(), t[0] * x.conj()),
        ),
        (
            operator.setitem,
            lambda: (wants(2, 3) * 1, 1, wants(3)),
            lambda t, y, _, v: (row_written(y, 0, t[0][0]), t[0][1]),
        ),
        (operator.setitem, lambda: (torch.zeros(2, 3), 1, wants(3)), lambda t, y, _, v: (t[0][1],)),
    ],
    ids=[
        *("linear", "mul_", "relu_", "two results", "expand_copy", "expand", "select", "embedding", "Function"),
        *("complex", "setitem", "setitem into what needs none"),
    ],
)
def test_gradients_are_right_and_repeat(
    function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], expected: Callable[..., tuple[Tensor, ...]]
) -> None:
    args = make()
    measured = unit(function, *args)
    with torch.no_grad():
        right = expected(measured.tangents, *args)
    for _ in range(2):
        found = measured.run()
        assert len(found) == len(right)
        for gradient, value in zip(found, right, strict=True):
            assert gradient is not None
            torch.testing.assert_close(gradient, value)


def test_an_argument_that_does_not_require_grad_gets_no_gradient() -> None:
    assert len(unit(F.linear, wants(3, 4), torch.randn(2, 4), wants(2)).run()) == 2


def test_an_argument_given_twice_gets_one_gradient() -> None:
    x = wants(3)
    measured = unit(torch.add, x, x)
    (gradient,) = measured.run()
    assert gradient is not None
    assert torch.equal(gradient, 2 * measured.tangents[0])


def test_every_run_of_a_dropout_uses_the_mask_of_its_one_forward() -> None:
    measured = unit(F.dropout, wants(64))
    first, second = measured.run()[0], measured.run()[0]
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)
    assert 0 < int((first == 0).sum()) < 64


def test_only_the_calls_own_backward_runs() -> None:
    assert ops_of(unit(torch.sin, wants(3).exp())) == ["cos", "mul"]


def test_originals_keep_values_gradients_and_history() -> None:
    leaf = torch.ones(3, requires_grad=True)
    x = leaf * 2
    before = x.grad_fn
    unit(Tensor.mul_, x, 3.0).run()
    assert (x.tolist(), x.grad_fn is before, x._version, leaf.grad) == ([2.0] * 3, True, 0, None)


def test_float8_results_get_tangents_too() -> None:
    (gradient,) = unit(Tensor.to, wants(3), torch.float8_e4m3fn).run()
    assert gradient is not None
    assert gradient.dtype is torch.float32


def test_autocast_is_off_in_the_backward_and_on_again_afterwards() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        unit(triple, wants(3))
        assert torch.is_autocast_enabled("cpu")
    assert Triple.autocast is False


@pytest.mark.parametrize(
    ("function", "args"),
    [(torch.argmax, (wants(3),)), (torch.sin, (torch.ones(3),)), (Tensor.detach, (wants(3),))],
    ids=["argmax", "nothing requires grad", "detach"],
)
def test_a_call_of_which_autograd_records_nothing_has_no_backward(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    assert not BackwardUnit("row", function, args, {}).has_backward


@pytest.mark.parametrize(
    ("function", "args", "nothing"),
    [
        (Tensor.t, (wants(2, 3),), True),
        (Tensor.contiguous, (wants(3),), True),
        (torch.sum, (wants(3),), True),
        (Tensor.select, (wants(2, 3), 0, 1), False),
        (Tensor.expand, (wants(1, 3), 2, 3), False),
        (torch.sin, (wants(3),), False),
        (torch.sin, (wants(0),), True),
    ],
    ids=["transpose", "returns its argument", "sum", "select", "expand", "sin", "sin of nothing"],
)
def test_only_a_backward_that_makes_nothing_new_may_launch_nothing(
    function: Callable[..., Any], args: tuple[Any, ...], nothing: bool
) -> None:
    assert unit(function, *args).may_launch_nothing is nothing


# measured


@pytest.fixture
def isolator() -> Isolator:
    policy = Policy(timer="wallclock", cache="warm", values="captured", warmup=1, repeat=2)
    return Isolator(CPU, Timers(isolated=WallClock(), running=WallClock()), policy)


def call(function: Callable[..., Any], *args: Any, row: str = "row") -> Call:
    return Call(row, function, args, {}, identity=function, with_grad=True)


def test_a_backward_is_measured_with_tangents_said_to_be_synthetic(isolator: Isolator) -> None:
    found = isolator.isolate_backward(call(torch.sin, wants(3)))
    assert (found.status, found.values, found.timer) == ("ok", "synthetic", "wallclock")
    assert found.samples is not None
    assert len(found.samples.busy_ns) == 2


def test_equal_backwards_are_measured_once_and_name_the_row_that_was(isolator: Isolator) -> None:
    first = isolator.isolate_backward(call(torch.sin, wants(3), row="first"))
    second = isolator.isolate_backward(call(torch.sin, wants(3), row="second"))
    assert (first.shared_with, second.shared_with) == (None, "first")
    assert second.samples is first.samples


def test_a_backward_never_shares_with_its_forward(isolator: Isolator) -> None:
    x = wants(3)
    isolator.isolate(call(torch.sin, x), lambda: torch.sin(x))
    backward = isolator.isolate_backward(call(torch.sin, x))
    _, forward = isolator.isolate(call(torch.sin, x, row="again"), lambda: torch.sin(x))
    assert (backward.shared_with, forward.measurement.shared_with) == (None, "row")
    assert forward.measurement.samples is not backward.samples


def test_backwards_of_calls_with_other_gradients_are_other_units(isolator: Isolator) -> None:
    isolator.isolate_backward(call(torch.mul, wants(3), wants(3), row="both"))
    assert isolator.isolate_backward(call(torch.mul, wants(3), torch.ones(3), row="one")).shared_with is None


def test_under_no_grad_there_is_no_backward(isolator: Isolator) -> None:
    with torch.no_grad():
        found = isolator.isolate_backward(call(torch.sin, wants(3)))
    assert (found.status, found.reason) == ("skipped", "none of its results requires grad")


class Stubborn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * torch.rand(())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise ValueError("no backward here")


def test_a_backward_that_raises_is_a_failed_row_and_moves_no_generator(isolator: Isolator) -> None:
    failing = call(Stubborn.apply, wants(3))
    before = torch.get_rng_state()
    found = isolator.isolate_backward(failing)
    assert (found.status, found.reason) == ("failed", "alone it raises ValueError: no backward here")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_tiny_backward_is_also_timed_back_to_back() -> None:
    timer = FakeTimer(lambda _row, _sample: 1000.0)
    policy = Policy(timer="fake", cache="warm", values="captured", warmup=1, repeat=5, batch=4)
    found = Isolator(CPU, Timers(timer, timer), policy).isolate_backward(call(torch.sin, wants(3)))
    assert found.batch_ns == (250.0,) * 5  # a label costs what the script says, whatever it holds
