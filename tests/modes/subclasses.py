"""Models whose tensors are subclasses: two tensors in one, weights kept as int8, DTensors of one rank."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing


def twice(x: torch.Tensor) -> torch.Tensor:
    """A tensor that does everything twice."""
    found: torch.Tensor = TwoTensor(x, x.clone())
    return found


class Int8Weight(torch.Tensor):
    """A matrix kept as int8 with a scale for each row, which every op sees widened."""

    values: torch.Tensor
    scales: torch.Tensor

    @staticmethod
    def __new__(cls: type[Int8Weight], values: torch.Tensor, scales: torch.Tensor) -> Int8Weight:
        """Looks like a matrix of the scales' dtype."""
        found = torch.Tensor._make_wrapper_subclass(
            cls, values.shape, dtype=scales.dtype, device=values.device, requires_grad=False
        )
        assert isinstance(found, Int8Weight)
        return found

    def __init__(self, values: torch.Tensor, scales: torch.Tensor) -> None:
        self.values, self.scales = values, scales

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        """Its two plain tensors."""
        return ["values", "scales"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], _: None, size: Any, stride: Any) -> Int8Weight:
        """Made of two plain tensors again."""
        return Int8Weight(inner["values"], inner["scales"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Detached or moved as it is; anything else is done on the widened matrix."""
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            found = Int8Weight(func(args[0].values), func(args[0].scales))
            return return_and_correct_aliasing(func, args, kwargs or {}, found)
        return func(*map(_widened, args), **(kwargs or {}))


def _widened(value: Any) -> Any:
    return value.values.to(value.scales.dtype) * value.scales if isinstance(value, Int8Weight) else value


def quantised(model: nn.Module) -> nn.Module:
    """The model with the weights of its linear layers kept as int8."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            weight = layer.weight.detach()
            scales = weight.abs().amax(1, keepdim=True) / 127
            values = (weight / scales).round().to(torch.int8)
            layer.weight = nn.Parameter(Int8Weight(values, scales), requires_grad=False)
    return model


def distributed_model(model: nn.Module) -> nn.Module:
    """The model with its linear layers parted over a mesh of one rank."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    from torch.distributed.tensor.placement_types import Replicate

    device = next(model.parameters()).device.type
    mesh = init_device_mesh(device, (1,))
    plan = {
        name: ColwiseParallel(output_layouts=Replicate())
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear)
    }
    found: nn.Module = parallelize_module(model, mesh, plan)  # type: ignore[arg-type]
    return found
