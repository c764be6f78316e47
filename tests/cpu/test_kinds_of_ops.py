"""Kinds of ops beyond the ordinary: each measured whole, every kernel owned, every node with a fate, in both modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench import session
from graphbench.capture import control_flow, graphs
from graphbench.measuring.eager import INSIDE_TRANSFORM
from graphbench.records import NodeRecord, ProfileRecord
from tests.cpu.stories import QUICK
from tests.suite.checks import faults

WIDTH = 16
Case = tuple[Callable[..., Any], tuple[Any, ...]]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    graphbench.reset()
    yield
    graphbench.reset()


def measured(fn: Callable[..., Any], *args: Any, train: bool = False) -> ProfileRecord:
    """A function compiled, called once and measured; nothing of its map may be missing."""
    with torch.set_grad_enabled(train):
        result = torch.compile(fn, backend="graphbench")(*args)
        if train:
            result = result.values() if result.is_nested else result
            result.sum().backward()
    record: ProfileRecord = graphbench.measure(**QUICK).record
    assert faults(record, "training" if train else "inference") == []
    return record


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def checkpointed() -> Case:
    from torch.utils.checkpoint import checkpoint

    block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU())
    return lambda x: checkpoint(block, x, use_reentrant=False), (leaf(4, WIDTH),)


def branched() -> Case:
    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: (y * 2).sin(), lambda y: (y * 3).cos(), (x,))

    return choose, (leaf(4, WIDTH),)


def looped() -> Case:
    from torch._higher_order_ops.while_loop import while_loop

    def loop(i: torch.Tensor, x: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, (x * 1.1).sin()), (i, x))

    return loop, (torch.tensor(0), torch.randn(4, WIDTH))


def scanned() -> Case:
    from torch._higher_order_ops.associative_scan import associative_scan

    return lambda x: associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic"), (torch.randn(5, WIDTH),)


def mapped() -> Case:
    weight = torch.randn(WIDTH, WIDTH)
    return lambda x: torch.func.vmap(lambda row: (row @ weight).relu())(x) * 2, (leaf(4, WIDTH),)


def differentiated() -> Case:
    weight = torch.randn(WIDTH, WIDTH)
    return lambda x: torch.func.grad(lambda y: (y @ weight).relu().sum())(x) + 1, (torch.randn(4, WIDTH),)


def listed() -> Case:
    def shrink(tensors: list[torch.Tensor]) -> Any:
        torch._foreach_mul_(tensors, 0.9)
        return torch._foreach_add(tensors, 1.0)

    return shrink, ([torch.randn(WIDTH, WIDTH) for _ in range(3)],)


def widened() -> Case:
    from torch._higher_order_ops.out_dtype import out_dtype

    a = torch.randint(-8, 8, (WIDTH, WIDTH), dtype=torch.int8)
    return lambda a, b: out_dtype(torch.ops.aten.mm.default, torch.int32, a, b), (a, a)


def of_8_bit_floats() -> Case:
    a, one = torch.randn(WIDTH, WIDTH).to(torch.float8_e4m3fn), torch.tensor(1.0)
    return lambda a, b: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16).relu(), (a, a.t())


def of_8_bit_integers() -> Case:
    a = torch.randint(-8, 8, (WIDTH, WIDTH), dtype=torch.int8)
    return lambda a, b: torch._int_mm(a, b).float() * 0.1, (a, a)


def of_complex_numbers() -> Case:
    return lambda c: torch.fft.fft(c * c).abs().relu(), (torch.randn(4, WIDTH, dtype=torch.complex64),)


def recurrent() -> Case:
    gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
    return lambda x: gru(x)[0], (torch.randn(2, 3, WIDTH),)


def printed() -> Case:
    def told(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._higher_order_ops.print("half way {}", 1)
        return y.relu()

    return told, (torch.randn(4, WIDTH),)


def attended() -> Case:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 2, 128, 128, device="cpu")
    q = torch.randn(1, 2, 128, 32)
    return lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j), block_mask=mask), (
        q,
        q,
        q,
    )


def of_ragged_tensors() -> Case:
    layer = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH))
    ragged = torch.nested.nested_tensor([torch.randn(3, WIDTH), torch.randn(5, WIDTH)], layout=torch.jagged)
    return layer, (ragged,)


KINDS: dict[Callable[[], Case], tuple[str, ...]] = {
    checkpointed: ("training",),
    branched: ("inference", "training"),
    looped: ("inference",),
    scanned: ("inference",),
    mapped: ("inference", "training"),
    differentiated: ("inference",),
    listed: ("inference",),
    widened: ("inference",),
    of_8_bit_floats: ("inference",),
    of_8_bit_integers: ("inference",),
    of_complex_numbers: ("inference",),
    recurrent: ("inference",),
    printed: ("inference",),
    attended: ("inference",),
    of_ragged_tensors: ("inference", "training"),
}
QUICK_ONES = (
    "branched-training",
    "looped-inference",
    "mapped-training",
    "listed-inference",
    "of_ragged_tensors-training",
)
"""What CI runs; the rest is `slow`."""


def every_kind() -> list[Any]:
    names = [(kind, mode, f"{kind.__name__}-{mode}") for kind, modes in KINDS.items() for mode in modes]
    return [
        pytest.param(kind, mode, id=name, marks=[] if name in QUICK_ONES else [pytest.mark.slow])
        for kind, mode, name in names
    ]


@pytest.mark.parametrize(("kind", "mode"), every_kind())
def test_a_kind_of_op_is_measured_whole(kind: Callable[[], Case], mode: str) -> None:
    fn, args = kind()
    with torch._dynamo.config.patch(allow_rnn=True):
        measured(fn, *args, train=mode == "training")


def test_a_part_inside_a_transform_is_timed_as_one_and_says_so() -> None:
    fn, args = differentiated()
    (region,) = measured(fn, *args).regions
    nodes = {node.name: node for node in region.nodes}
    whole = nodes["grad_input_1"]
    assert whole.isolated.samples is not None
    assert whole.isolated.fidelity is not None
    assert whole.isolated.fidelity.equal is True
    assert whole.isolated.work is not None
    assert whole.isolated.work.flops == 2 * 2 * 4 * WIDTH * WIDTH  # the product, and that of its gradient
    inside = [node for node in region.nodes if node.isolated.reason == INSIDE_TRANSFORM.format(row=whole.name)]
    assert {node.op_type for node in inside} >= {"matmul", "relu", "sum", "_autograd_grad"}
    assert nodes["add"].isolated.status == "ok"


def test_kernels_of_a_loop_run_as_often_as_the_loop_does() -> None:
    fn, args = looped()
    (region,) = measured(fn, *args).regions
    assert {kernel.calls for kernel in region.kernels} <= {5, 6}


def test_control_flow_is_pythons_where_it_runs_eagerly_and_torchs_where_it_is_compiled() -> None:
    fn, args = branched()
    (region,) = measured(fn, *args, train=True).regions
    (node,) = [node for node in region.nodes if node.op_type == "cond"]
    assert node.callee == "torch.ops.higher_order.cond"
    assert node.isolated.work is not None
    assert node.isolated.work.read_bytes == args[0].nbytes + 1  # and which branch
    (captured,) = session.current().regions
    for to_compile, target in ((False, control_flow.cond), (True, torch.ops.higher_order.cond)):
        copy = graphs.copy_graph(captured.gm, to_compile=to_compile)
        assert [entry.target for entry in copy.graph.nodes if entry.name == node.name] == [target]


def test_what_no_op_is_left_of_inside_a_transform_was_traced_through() -> None:
    fn, args = mapped()
    (region,) = measured(fn, *args, train=True).regions
    fates = {node.op_type: node.fate for node in region.nodes if isinstance(node, NodeRecord)}
    assert fates["_add_batch_dim"].kind == "rewritten"
    assert fates["_add_batch_dim"].note == "traced through by functorch"
    assert fates["_add_batch_dim"].kernels
