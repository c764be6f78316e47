"""Small models, and what must be equal before and after graphbench measured them. Shared by the tests beside it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import thread as pools
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

import graphbench
from graphbench import session
from graphbench.capture import ambient
from graphbench.inductor.wrapper import is_plain
from graphbench.records import KernelRecord, NodeRecord, ProfileRecord, RegionRecord
from graphbench.regions import Region

QUICK: dict[str, Any] = {"repeat": 3, "warmup": 1, "progress": False}
WIDTH = 16


class Scores(nn.Module):
    """A linear layer and a softmax: one extern call, one C++ kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).softmax(-1)


class Regularised(nn.Module):
    """What a replay must not move: BatchNorm's buffers and dropout's generator."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.norm(self.inner(x)).relu())


@dataclass(frozen=True)
class Story:
    """A model measured twice: both profiles, what differed afterwards, and gradients of a backward left pending."""

    first: ProfileRecord
    second: ProfileRecord
    changes: list[str]
    gradients: tuple[torch.Tensor, ...] = ()
    expected_gradients: tuple[torch.Tensor, ...] = ()


def batch(*shape: int) -> torch.Tensor:
    """A fixed input of its own generator."""
    return torch.randn(shape or (8, WIDTH), generator=torch.Generator().manual_seed(7))


def compiled(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    found: Callable[..., Any] = torch.compile(model, backend="graphbench", **options)
    return found


def quick() -> ProfileRecord:
    """Everything captured, measured with tiny budgets."""
    return graphbench.measure(**QUICK).record


def captured(model: Callable[..., Any], *args: Any, **options: Any) -> Region:
    """The only region that a call of the model makes."""
    compiled(model, **options)(*args)
    (region,) = session.current().regions
    return region


def measured(model: Callable[..., Any], *args: Any, **options: Any) -> RegionRecord:
    """The only region that a call of the model makes, measured."""
    captured(model, *args, **options)
    (region,) = quick().regions
    return region


def node(region: RegionRecord, op_type: str) -> NodeRecord:
    """The first node of a type."""
    return next(entry for entry in region.nodes if entry.op_type == op_type)


def dynamo_graphs(fn: Callable[..., Any], *args: Any, **options: Any) -> list[tuple[fx.GraphModule, list[Any]]]:
    """The graphs that Dynamo makes of a call, with the values it called them with. Nothing is built by Inductor."""
    found: list[tuple[fx.GraphModule, list[Any]]] = []

    def keep(gm: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        values: list[Any] = []
        found.append((gm, values))

        def run(*inputs: Any) -> Any:
            values[:] = inputs
            return gm.forward(*inputs)

        return run

    torch.compile(fn, backend=keep, **options)(*args)
    return found


def world(module: nn.Module, *tensors: torch.Tensor) -> dict[str, Any]:
    """Everything of the user's that measuring could move, copied."""
    owned = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    owned.update({f"input {index}": tensor for index, tensor in enumerate(tensors)})
    found: dict[str, Any] = {"random state": torch.get_rng_state(), "ambient state": ambient.current(("cpu",))}
    for name, tensor in owned.items():
        found[f"value of {name}"] = tensor.detach().clone()
        found[f"version of {name}"] = None if tensor.is_inference() else tensor._version
        found[f"identity of {name}"] = (id(tensor), tensor.data_ptr(), tensor.requires_grad)
        found[f"gradient of {name}"] = None if tensor.grad is None else tensor.grad.clone()
        found[f"identity of the gradient of {name}"] = id(tensor.grad)
    return found


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Names of what is not bit-equal."""
    return [name for name, value in before.items() if not _same(value, after[name])]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    return bool(one == other)


def traces_left() -> list[str]:
    """What graphbench left behind in torch; empty when it is as if it had never been there."""
    hooked = [
        f"{region.key} {graph.phase}"
        for region in session.current().regions
        for graph in region.graphs
        if graph.artifact is not None and not is_plain(graph)
    ]
    mode = _get_current_dispatch_mode()
    patched = [name for name, (owner, attribute, before) in _PATCHABLE.items() if vars(owner)[attribute] is not before]
    return hooked + patched + ([f"dispatch mode {mode}"] if mode is not None else [])


_PATCHABLE: dict[str, tuple[type, str, object]] = {
    f"{owner.__name__}.{attribute}": (owner, attribute, vars(owner)[attribute])
    for owner, attribute in (
        (threading.Thread, "_bootstrap_inner"),
        (pools._WorkItem, "run"),
        (TorchDispatchMode, "__enter__"),
        (torch.cuda.CUDAGraph, "replay"),
    )
}


@contextlib.contextmanager
def clean() -> Iterator[None]:
    """Start from nothing captured, and prove at the end that nothing is left in torch."""
    graphbench.reset()
    before = ambient.current(("cpu",))
    try:
        yield
        assert traces_left() == []
        assert ambient.current(("cpu",)) == before
    finally:
        graphbench.reset()


def forward_kernels(region: RegionRecord) -> list[KernelRecord]:
    return [kernel for kernel in region.kernels if kernel.phase == "forward"]


def shape_of(record: ProfileRecord) -> list[tuple[object, ...]]:
    """Rows and states of a profile, without any number."""
    return [
        (region.key, region.status, row.name if isinstance(row, NodeRecord) else row.key, row.isolated.status,
         row.in_graph.status, row.isolated.shared_with)
        for region in record.regions
        for row in (*region.nodes, *region.kernels)
    ]  # fmt: skip
