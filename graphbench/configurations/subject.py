"""What is compiled in several ways: a module or a function, the step that is made of it, and where it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphbench.configurations.steps import StepOf, inference_of, training_of
from graphbench.errors import UsageError
from graphbench.models.losses import Loss, auto_loss
from graphbench.tensors import device_of, tensors_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is compiled: a module or a function, how a step of it is made, and where it runs."""

    model: Callable[..., Any]
    step_of: StepOf
    device: torch.device
    dynamic: bool | None = None
    fullgraph: bool = False
    name: str = ""


def subject_of(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    train: bool,
    dynamic: bool | None,
    name: str,
    loss: Loss = auto_loss,
    fullgraph: bool = False,
) -> Subject:
    """A model with its arguments; it runs where its parameters and tensors are. `loss` is what it is trained on.

    Raises:
        UsageError: it cannot be called, is compiled already, or is to be trained and is no module.
    """
    if not callable(model):
        raise UsageError(f"model is a {type(model).__name__}, expected a module or a function", subject="model")
    compiled = torch._dynamo.eval_frame.OptimizedModule
    if isinstance(model, compiled) or hasattr(model, "_torchdynamo_orig_callable"):
        raise UsageError(
            "model is compiled already, expected the model itself", hint="give what torch.compile was given"
        )
    module = model if isinstance(model, torch.nn.Module) else None
    if train and module is None:
        raise UsageError(f"train with a {type(model).__name__}, expected a torch.nn.Module", subject="train")
    step_of = inference_of(args, kwargs or {})
    if train and module is not None:
        step_of = training_of(module, args, kwargs or {}, loss)
    owned = [*module.parameters(), *module.buffers()] if module is not None else []
    device = device_of([*owned, *tensors_of((list(args), dict(kwargs or {})))])
    return Subject(model=model, step_of=step_of, device=device, dynamic=dynamic, fullgraph=fullgraph, name=name)
