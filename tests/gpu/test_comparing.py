"""Comparing implementations on a real device: device time, attribution of backwards, writes that leave no version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench import Implementation, backward_of
from graphbench.errors import UsageError

pytestmark = pytest.mark.gpu

QUICK: dict[str, Any] = {"repeat": 10, "warmup": 4}
DEVICE = "cuda"


@pytest.fixture
def x() -> torch.Tensor:
    """16 MiB."""
    torch.manual_seed(0)
    return torch.randn(2048, 2048, device=DEVICE)


def test_rows_are_device_times_with_their_kernels(x: torch.Tensor) -> None:
    table = graphbench.compare({"one": torch.sin, "two": lambda x: x.sin().cos()}, inputs=(x,), **QUICK)
    one, two = table.rows
    assert (table.device, table.policy.timer, table.policy.cache) == ("cuda:0", "cupti", "cold-read")
    assert (one.n_kernels, two.n_kernels, two.verdict) == (1, 2, "slower")
    assert one.measurement.samples is not None
    assert len(one.measurement.samples.busy_ns) == 10
    assert [half.cache for half in (*one.halves, *two.halves)] == ["cold-read"] * 4


def test_an_own_conversion_is_in_the_row(x: torch.Tensor) -> None:
    table = graphbench.compare(
        {"as it is": lambda x: x @ x, "in bfloat16": lambda x: (x.bfloat16() @ x.bfloat16()).float()},
        inputs=(x,),
        **QUICK,
    )
    plain, converting = table.rows
    assert plain.n_kernels is not None
    assert converting.n_kernels is not None
    assert converting.n_kernels >= 4  # two casts, the product, a cast
    assert converting.measurement.status == "ok"


def test_what_reset_does_is_not_in_the_row(x: torch.Tensor) -> None:
    own = x.clone()
    mine = Implementation("in place", lambda y: y.mul_(2), inputs=(own,), reset=lambda: own.copy_(x))
    first, second = graphbench.compare([Implementation("fresh", lambda x: x * 2), mine], inputs=(x,), **QUICK).rows
    assert (first.n_kernels, second.n_kernels) == (1, 1)
    assert second.measurement.samples is not None
    assert second.measurement.samples.copy_ns == (0.0,) * 10
    assert second.difference is not None
    assert second.difference.equal is True


def test_a_write_that_moves_no_version_is_refused_and_put_back(x: torch.Tensor) -> None:
    from tests.gpu.kernels import increment

    before, version = x.clone(), x._version
    with pytest.raises(UsageError, match="kernel changes what all implementations share: input 0"):
        graphbench.compare({"eager": lambda x: (x + 1) * 2, "kernel": increment}, inputs=(x,), **QUICK)
    assert x._version == version
    assert torch.equal(x, before)


def test_random_implementations_draw_the_same_on_the_device(x: torch.Tensor) -> None:
    before = torch.cuda.get_rng_state()
    drop: Callable[[torch.Tensor], torch.Tensor] = lambda x: F.dropout(x, 0.5)  # noqa: E731
    _, row = graphbench.compare({"a": drop, "b": drop}, inputs=(x,), **QUICK).rows
    assert row.difference is not None
    assert row.difference.max_abs == 0.0
    assert torch.equal(torch.cuda.get_rng_state(), before)


def layer(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """A chain with several backward nodes, and its leaves."""
    leaves = [x.clone().requires_grad_(), torch.randn(2048, 2048, device=DEVICE, requires_grad=True)]
    return F.layer_norm(F.gelu(F.linear(*leaves)), (2048,)), leaves


def test_the_backward_of_a_chain_is_attributed(x: torch.Tensor) -> None:
    out, leaves = layer(x)
    (row,) = graphbench.compare({"chain": backward_of(out, leaves)}, **QUICK).rows
    assert (row.measurement.status, row.measurement.reason) == ("ok", "")
    assert row.n_kernels is not None
    assert row.n_kernels >= 4  # layer norm, GELU, two products
    names = {kernel.name for kernel in row.measurement.device_kernels if kernel.kind == "kernel"}
    assert len(names) >= 3
    assert any("gelu" in name.casefold() for name in names)
    assert any("norm" in name.casefold() for name in names)


def test_the_backward_of_a_single_node_is_attributed(x: torch.Tensor) -> None:
    leaf = x.clone().requires_grad_()
    (row,) = graphbench.compare({"gelu": backward_of(F.gelu(leaf), leaf)}, **QUICK).rows
    assert (row.measurement.status, row.n_kernels) == ("ok", 1)


def test_a_backward_from_the_engines_own_thread_is_refused_by_name(x: torch.Tensor) -> None:
    out, leaves = layer(x)
    tangent = torch.ones_like(out)
    rows = graphbench.compare(
        {
            "engine": lambda: torch.autograd.grad(out, leaves, tangent, retain_graph=True),
            "here": backward_of(out, leaves),
        },
        **QUICK,
    ).rows
    assert [row.measurement.status for row in rows] == ["failed", "ok"]
    assert "outside its label" in rows[0].measurement.reason
    assert "graphbench.backward_of" in rows[0].measurement.reason


def test_a_backward_gives_the_gradients_of_autograd_on_the_device(x: torch.Tensor) -> None:
    out, leaves = layer(x)
    tangent = torch.randn_like(out)
    expected = torch.autograd.grad(out, leaves, tangent, retain_graph=True)
    found = backward_of(out, leaves, tangent)()
    assert all(one is not None and torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_forward_and_backward_of_a_compiled_function_are_compared_with_eager(x: torch.Tensor) -> None:
    def act(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x) * x

    compiled = torch.compile(act)
    leaf = x.clone().requires_grad_()
    with torch.no_grad():
        _, forward = graphbench.compare({"eager": act, "compiled": compiled}, inputs=(x,), **QUICK).rows
    with torch._functorch.config.patch(donated_buffer=False):
        outs = {"eager": act(leaf), "compiled": compiled(leaf)}
    _, backward = graphbench.compare({name: backward_of(out, leaf) for name, out in outs.items()}, **QUICK).rows
    for row in (forward, backward):
        assert (row.measurement.status, row.measurement.reason, row.verdict) == ("ok", "", "faster")
        assert row.difference is not None
        assert row.difference.equal is True


def test_work_on_the_gpu_that_no_tensor_tells_of_asks_for_the_device(x: torch.Tensor) -> None:
    def hidden(_: torch.Tensor) -> torch.Tensor:
        x.sin()  # takes memory, which is what tells of it
        return torch.ones(1)

    with pytest.raises(UsageError, match="device"):
        graphbench.compare({"hidden": hidden}, inputs=(torch.ones(1),), **QUICK)


def test_a_device_that_the_inputs_contradict_is_refused(x: torch.Tensor) -> None:
    with pytest.raises(UsageError, match="cpu"):
        graphbench.compare({"one": torch.sin}, inputs=(x,), device="cpu", **QUICK)


def test_the_step_of_the_stamps_is_known_also_for_tiny_kernels() -> None:
    tiny = torch.ones(8, device=DEVICE)
    table = graphbench.compare({"sin": torch.sin, "cos": torch.cos}, inputs=(tiny,), **QUICK)
    assert table.environment is not None
    assert table.environment.stamp_grain_ns in (1, 2, 4, 8, 16, 32, 64)


def test_batches_of_tiny_units_stand_beside_their_times() -> None:
    def tiny(x: torch.Tensor) -> torch.Tensor:
        return x.relu()

    graphbench.reset()
    torch.compile(tiny, backend="graphbench")(torch.randn(1024, device=DEVICE))
    (region,) = graphbench.measure(repeat=20, warmup=5, batch=8).record.regions
    relu = next(node for node in region.nodes if node.op_type == "relu").isolated
    assert relu.samples is not None
    assert relu.batch_ns is not None, relu.warnings
    assert 0 < sorted(relu.batch_ns)[10] < 20_000
