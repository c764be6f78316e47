"""What is timed: one call of a model, or one training step without an optimizer; and the model's state around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphbench.execution.backward import backward_on_this_thread
from graphbench.models.losses import Loss, auto_loss, inputs_of
from graphbench.tensors import tensors_of

Step = Callable[[], Any]
StepOf = Callable[[Callable[..., Any]], Step]
"""Makes the step of a model that may be compiled."""


def inference_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepOf:
    """One call under `torch.no_grad`. It returns the results."""

    def step_of(model: Callable[..., Any]) -> Step:
        def step() -> Any:
            with torch.no_grad():
                return model(*args, **kwargs)

        return step

    return step_of


def training_of(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], loss_of: Loss = auto_loss
) -> StepOf:
    """Forward, loss and backward. It returns the loss and the gradients of all parameters.

    The backward launches from the calling thread, or no timer could tell its work from others'.
    """

    def step_of(model: Callable[..., Any]) -> Step:
        def step() -> Any:
            module.zero_grad(set_to_none=True)
            loss = loss_of(model(*args, **kwargs), inputs_of(args, kwargs))
            with backward_on_this_thread():
                loss.backward()
            return loss.detach(), [parameter.grad for parameter in module.parameters()]

        return step

    return step_of


class ModelState:
    """What a step may change of a model: its buffers and its gradients, as they were when this was made.

    Args:
        model: a module, or a function without such state.
    """

    def __init__(self, model: Callable[..., Any]) -> None:
        module = model if isinstance(model, torch.nn.Module) else torch.nn.Module()
        self._buffers = [
            _Buffer(owner._buffers, name, buffer, buffer.detach().clone())
            for owner in module.modules()
            for name, buffer in owner._buffers.items()
            if buffer is not None
        ]
        self._gradients = [(parameter, parameter.grad) for parameter in module.parameters()]

    def moved(self) -> bool:
        """Whether a buffer holds other values."""
        return any(buffer.moved() for buffer in self._buffers)

    def put_back(self) -> None:
        """Everything as it was; what was not changed is not touched."""
        for buffer in self._buffers:
            if buffer.moved():
                buffer.put_back()
        for parameter, gradient in self._gradients:
            if parameter.grad is not gradient:
                parameter.grad = gradient


@dataclass(frozen=True, slots=True)
class _Buffer:
    """One buffer of one module: where it is held, and a copy of its values."""

    holder: dict[str, torch.Tensor | None]
    name: str
    tensor: torch.Tensor
    kept: torch.Tensor

    def moved(self) -> bool:
        return self.holder[self.name] is not self.tensor or not torch.equal(self.tensor, self.kept)

    def put_back(self) -> None:
        self.holder[self.name] = self.tensor
        with torch.no_grad():
            self.tensor.copy_(self.kept)


def copies_of(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, which may be written by the next call."""
    return [tensor.detach().clone() for tensor in tensors_of(result)]
