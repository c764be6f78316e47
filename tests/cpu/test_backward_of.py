"""`backward_of`: the gradients of autograd, again and again, in the thread that asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

from graphbench import backward_of
from graphbench.errors import UsageError
from tests.cpu.half_timer import compare

Chain = tuple[torch.Tensor, list[torch.Tensor]]


@pytest.fixture
def chain() -> Chain:
    """A layer with normalisation: several backward nodes. Its output, and the leaves below."""
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((4, 8), (8, 8), (8,)))
    return F.layer_norm(F.gelu(F.linear(x, weight, bias)), (8,)), [x, weight, bias]


def equal(found: Sequence[torch.Tensor | None], expected: Sequence[torch.Tensor]) -> bool:
    return len(found) == len(expected) and all(
        one is not None and torch.equal(one, other) for one, other in zip(found, expected, strict=True)
    )


def test_a_chain_gives_the_gradients_of_autograd(chain: Chain) -> None:
    out, leaves = chain
    tangent = torch.randn_like(out)
    expected = torch.autograd.grad(out, leaves, tangent, retain_graph=True)
    assert equal(backward_of(out, leaves, tangent)(), expected)


def test_by_default_gradients_are_those_of_all_leaves_under_ones(chain: Chain) -> None:
    out, leaves = chain
    expected = torch.autograd.grad(out, leaves, torch.ones_like(out), retain_graph=True)
    found = backward_of(out)()
    assert len(found) == 3
    for gradient in expected:
        assert any(torch.equal(gradient, other) for other in found if other is not None)


def test_leaves_come_in_the_order_of_a_walk_and_once_each() -> None:
    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    assert backward_of(b * a * a)() == (torch.tensor(4.0), torch.tensor(20.0))


def test_a_backward_repeats_and_touches_no_grad(chain: Chain) -> None:
    out, leaves = chain
    backward = backward_of(out, leaves)
    first = [gradient for gradient in backward() if gradient is not None]
    assert equal(backward(), first)
    assert [leaf.grad for leaf in leaves] == [None] * 3


class Witness(torch.autograd.Function):
    """Notes in which thread its backward runs, and whether the engine may use others."""

    seen: tuple[int, bool] | None = None

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        Witness.seen = threading.get_ident(), torch.autograd.is_multithreading_enabled()
        return gradient * 2


def test_a_backward_runs_in_the_calling_thread_whichever_that_is() -> None:
    x = torch.ones(3, requires_grad=True)
    out: torch.Tensor = Witness.apply(x.sin()).cos()  # type: ignore[no-untyped-call]
    backward = backward_of(out)
    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    assert Witness.seen == (thread.ident, False)
    assert torch.autograd.is_multithreading_enabled()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: backward_of(torch.ones(2)), "backward of output 0, of shape (2,): it does not require grad"),
        (
            lambda: backward_of(torch.ones(2, requires_grad=True)),
            "backward of output 0, of shape (2,): it is a leaf that nothing computed",
        ),
        (lambda: backward_of([]), "backward: found nothing, expected a tensor or a sequence of tensors"),
        (
            lambda: backward_of(torch.ones(2, requires_grad=True) * 2, grad_outputs=torch.ones(3)),
            "backward: grad_outputs of shapes [(3,)], expected [(2,)]",
        ),
    ],
    ids=["no grad", "leaf", "nothing", "another shape"],
)
def test_what_has_no_backward_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.message == message


def test_a_graph_with_a_tensor_that_retains_its_gradient_is_refused_and_named() -> None:
    x = torch.ones(3, 2, requires_grad=True)
    hidden = x.sin()
    hidden.retain_grad()
    with pytest.raises(UsageError) as caught:
        backward_of(hidden.cos())
    assert caught.value.message.startswith(
        "backward: a tensor of shape (3, 2), made by SinBackward0, retains its gradient: every call would add to its"
    )
    assert caught.value.hint is not None
    assert "without retain_grad()" in caught.value.hint
    assert hidden.grad is None


def test_an_output_that_retains_its_gradient_is_refused() -> None:
    x = torch.ones(3, requires_grad=True)
    out = x.sin()
    out.retain_grad()
    with pytest.raises(UsageError, match="made by SinBackward0, retains"):
        backward_of(out, x)


def test_a_tensor_of_another_graph_may_retain_its_gradient(chain: Chain) -> None:
    x = torch.ones(3, requires_grad=True)
    other = x.sin()
    other.retain_grad()
    out, leaves = chain
    assert len(backward_of(out, leaves)()) == 3
    assert other.grad is None


def test_backwards_are_compared_like_any_other_call(chain: Chain) -> None:
    out, leaves = chain
    slow = backward_of(out, leaves)
    rows = compare({"chain": slow, "again": lambda: slow()}, repeat=2).rows
    assert rows[1].difference is not None
    assert (rows[1].measurement.status, rows[1].difference.equal) == ("ok", True)
