"""Replaying: fresh arguments that keep the user's tensors out of it, and an eager side that says where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx, nn

from graphbench.errors import CaptureError
from graphbench.execution.backward import Backward, backward_on_this_thread, edges_of
from graphbench.execution.interpreter import run_eager
from graphbench.execution.replay import CapturedInput, Geometry, shadow


def plain_call(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
    return call()


# arguments


def test_a_parameter_that_is_not_written_is_a_leaf_of_its_own_over_its_memory() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.register_hook(lambda gradient: pytest.fail("the user's hook ran"))
    (found,) = shadow([CapturedInput(weight, requires_grad=True, is_parameter=True)])
    (found * 2).sum().backward()
    assert (found.data_ptr(), found.is_leaf, weight.grad) == (weight.data_ptr(), True, None)


def test_a_tensor_that_is_not_written_shares_its_memory() -> None:
    x = torch.ones(2)
    (found,) = shadow([CapturedInput(x)])
    assert (found.data_ptr(), found is x) == (x.data_ptr(), False)


def test_a_tensor_that_required_grad_is_a_leaf_of_its_own() -> None:
    x = torch.ones(2)
    (found,) = shadow([CapturedInput(x, requires_grad=True)])
    (found * 2).sum().backward()
    assert (found.is_leaf, x.requires_grad, x.grad) == (True, False, None)


def test_a_written_tensor_is_a_copy_with_its_values() -> None:
    x = torch.arange(3.0)
    (found,) = shadow([CapturedInput(x, mutated=True)])
    assert torch.equal(found, x)
    assert found.data_ptr() != x.data_ptr()


def test_a_written_buffer_is_copied_afresh_for_every_run() -> None:
    counter = CapturedInput(torch.zeros(1), mutated=True)
    values = []
    for _ in range(3):
        (found,) = shadow([counter])
        values.append(float(found.add_(1)))
    assert values == [1.0, 1.0, 1.0]
    assert float(counter.value) == 0.0


def test_layout_and_offset_of_a_copy_are_kept() -> None:
    x = torch.arange(24.0).view(4, 6)[1:3, ::2]
    (found,) = shadow([CapturedInput(x, mutated=True)])
    assert (found.shape, found.stride(), found.storage_offset()) == (x.shape, x.stride(), x.storage_offset())


def test_what_shares_memory_with_a_written_tensor_is_copied_along() -> None:
    base = torch.zeros(4)
    written, read = shadow([CapturedInput(base[:3], mutated=True), CapturedInput(base[1:])])
    written.fill_(5.0)
    assert read.tolist() == [5.0, 5.0, 0.0]
    assert base.tolist() == [0.0] * 4


def test_views_of_one_base_stay_views_of_one_base() -> None:
    base = torch.zeros(4)
    whole = Geometry.of(base)
    views = [CapturedInput(part, mutated=True, base=whole) for part in (base[:2], base[2:])]
    one, other = shadow(views)
    assert one._base is other._base is not None
    assert one._base.shape == (4,)


def test_views_of_another_dtype_share_the_copy() -> None:
    base = torch.zeros(2)
    floats, ints = shadow([CapturedInput(base, mutated=True), CapturedInput(base.view(torch.int32), mutated=True)])
    floats.fill_(1.0)
    assert ints.tolist() == [1065353216] * 2


def test_a_written_tensor_that_requires_grad_may_be_written_again() -> None:
    (found,) = shadow([CapturedInput(torch.ones(2), requires_grad=True, mutated=True)])
    assert found.mul_(2).requires_grad
    assert not found._is_view()


def test_a_written_parameter_is_copied() -> None:
    weight = nn.Parameter(torch.ones(2))
    (found,) = shadow([CapturedInput(weight, requires_grad=True, is_parameter=True, mutated=True)])
    assert found.data_ptr() != weight.data_ptr()


def test_other_values_are_passed_on() -> None:
    assert shadow([CapturedInput(3), CapturedInput(None)]) == [3, None]


def test_a_written_tensor_without_storage_is_cloned() -> None:
    sparse = torch.eye(2).to_sparse()
    (found,) = shadow([CapturedInput(sparse, mutated=True)])
    assert found is not sparse
    assert torch.equal(found.to_dense(), torch.eye(2))


# backward


def test_backward_gives_gradients_and_touches_no_grad() -> None:
    x = torch.ones(3, requires_grad=True)
    pending = Backward.of_run(x * 2, edges_of([x]))
    assert pending is not None
    (gradient,) = pending.run()
    assert gradient is not None
    assert torch.allclose(gradient, 2 * pending.tangents[0])
    assert x.grad is None


def test_nothing_that_requires_grad_has_no_backward() -> None:
    x = torch.ones(3)
    assert Backward.of_run(x * 2, edges_of([x])) is None


def test_an_input_returned_as_it_is_has_no_backward() -> None:
    x = torch.ones(3, requires_grad=True)
    assert Backward.of_run([x], edges_of([x])) is None


def test_an_unused_input_gets_no_gradient() -> None:
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    pending = Backward.of_run(x * 2, edges_of([x, y]))
    assert pending is not None
    assert pending.run()[1] is None


def test_the_backwards_thread_setting_is_put_back() -> None:
    before = torch.autograd.is_multithreading_enabled()
    with backward_on_this_thread():
        assert not torch.autograd.is_multithreading_enabled()
    assert torch.autograd.is_multithreading_enabled() == before


# the eager side


class Net(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return (x + n).view(2, 2).sum()


def test_every_call_is_visited_in_order_and_nothing_else() -> None:
    seen = []

    def visit(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        seen.append(node.name)
        return call()

    result = run_eager(fx.symbolic_trace(Net()), [torch.ones(4), 1], visit)
    assert seen == ["add", "view", "sum_1"]
    assert float(result) == 8.0


def test_the_visitor_sees_live_arguments() -> None:
    seen: list[Any] = []

    def visit(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        seen.append(args)
        return call()

    run_eager(fx.symbolic_trace(Net()), [torch.ones(4), 1], visit)
    assert seen[0][0].tolist() == [1.0] * 4
    assert seen[1][1:] == (2, 2)


def test_a_node_that_raises_is_named() -> None:
    with pytest.raises(CaptureError, match=r"eager replay stopped at view: RuntimeError: shape '\[2, 2\]'") as caught:
        run_eager(fx.symbolic_trace(Net()), [torch.ones(5), 1], plain_call)
    assert caught.value.subject == "view"


def test_any_exception_of_an_op_names_its_node() -> None:
    class OddError(Exception):
        pass

    def visit(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        raise OddError("strange")

    with pytest.raises(CaptureError, match="eager replay stopped at add: OddError: strange"):
        run_eager(fx.symbolic_trace(Net()), [torch.ones(4), 1], visit)
