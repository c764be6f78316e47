"""What a tensor is apart from its values: spec, storage, aliasing. Shared by capture, execution and isolation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from graphbench.errors import UsageError, first_line
from graphbench.measurements import TensorSpec
from graphbench.symbolic import NO_SIZES, size_hint, size_in

ALIGNMENT_BYTES = 64
PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """Everything about a tensor but its values."""
    ragged = tensor.is_nested and tensor.layout is torch.strided  # has no `shape` at all
    return TensorSpec(
        shape=(-1,) * tensor.dim() if ragged else tuple(size_hint(size) for size in tensor.shape),
        stride=tuple(int(step) for step in tensor.stride()) if has_storage(tensor) else (),
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        storage_offset=int(tensor.storage_offset()) if has_storage(tensor) else 0,
        requires_grad=tensor.requires_grad,
    )


def fake_specs(value: object, sizes: Mapping[str, int] = NO_SIZES) -> list[TensorSpec]:
    """Specs of the fake tensors in a node's meta data; symbolic sizes as of `size_in`."""
    if isinstance(value, torch.Tensor):
        return [_fake_spec(value, sizes)]
    if isinstance(value, (list, tuple)):
        return [spec for item in value for spec in fake_specs(item, sizes)]
    return []


def _fake_spec(tensor: torch.Tensor, sizes: Mapping[str, int]) -> TensorSpec:
    strided = tensor.layout is torch.strided and not tensor.is_nested
    return TensorSpec(
        shape=tuple(size_in(size, sizes) for size in tensor.shape),
        stride=tuple(size_in(step, sizes) for step in tensor.stride()) if strided else (),
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        storage_offset=size_in(tensor.storage_offset(), sizes) if strided else 0,
        requires_grad=tensor.requires_grad,
    )


def has_storage(tensor: torch.Tensor) -> bool:
    """Whether the tensor is an ordinary strided one: not sparse, nested, quantized, functorch-wrapped or a subclass."""
    return unpoolable(tensor) is None


def unpoolable(tensor: torch.Tensor) -> str | None:
    """Why a tensor cannot be copied byte by byte, or `None` when it can.

    Source: `torch._C._functorch.is_functorch_wrapped_tensor`, torch 2.13.
    """
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "values inside vmap or func.grad have no storage of their own"
    if type(tensor) not in PLAIN_TYPES:
        return f"tensor subclass {type(tensor).__name__}"
    if tensor.layout is not torch.strided:
        return f"{tensor.layout} layout"
    if tensor.is_quantized or tensor.is_nested:
        return "quantized or nested tensor"
    if tensor.device.type == "meta":
        return "meta tensor"
    if tensor.untyped_storage().nbytes() < byte_range(tensor)[1]:
        return "its storage is smaller than the tensor"
    return None


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a subclass that other tensors lie in, which it tells: DTensor, quantised or jagged ones.

    Source: `torch.utils._python_dispatch.is_traceable_wrapper_subclass`, torch 2.11 to 2.14.
    """
    return type(tensor) not in PLAIN_TYPES and is_traceable_wrapper_subclass(tensor)


def is_packed(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a weight in a library's own layout, which ops read and never write.

    Source: `torch._mkldnn`, what Inductor's freezing makes of constant weights on the CPU, torch 2.11 to 2.14.
    """
    return tensor.layout is torch._mkldnn  # type: ignore[attr-defined]


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors whose memory a tensor lies in: itself, or what a wrapper is made of; of a packed weight none."""
    if is_wrapper(tensor):
        names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
        return [part for name in names for part in _parts_of_attribute(getattr(tensor, name))]
    return [] if is_packed(tensor) else [tensor]


def _parts_of_attribute(value: Any) -> list[torch.Tensor]:
    """A wrapper may be made of other things too, as a device mesh."""
    return parts_of(value) if isinstance(value, torch.Tensor) else []


def rebuilt(tensor: torch.Tensor, made: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The same tensor over other memory: `made(part)` in the place of each of its `parts_of`.

    Source: `__tensor_flatten__` and `__tensor_unflatten__` of a traceable wrapper subclass, torch 2.11 to 2.14.
    """
    if not is_wrapper(tensor):
        return tensor if is_packed(tensor) else made(tensor)
    wrapper: Any = tensor
    names, context = wrapper.__tensor_flatten__()
    inner = {name: getattr(tensor, name) for name in names}
    inner = {name: rebuilt(part, made) if isinstance(part, torch.Tensor) else part for name, part in inner.items()}
    found: torch.Tensor = type(wrapper).__tensor_unflatten__(inner, context, wrapper.size(), wrapper.stride())
    return found


def byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First and one past the last byte that the tensor covers in its storage."""
    extent = 1 + sum((int(size) - 1) * int(step) for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    count = extent if tensor.numel() else 0
    first = int(tensor.storage_offset())
    return first * tensor.element_size(), (first + count) * tensor.element_size()


def tensors_of(tree: Any) -> list[torch.Tensor]:
    """All tensors of a nested structure, in order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def without_graph(tree: Any) -> Any:
    """A nested result with its values alone: what autograd saved below it can be freed."""
    return pytree.tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, tree)


def on_host(tree: Any) -> Any:
    """A nested result's values on the CPU, where keeping them takes no device memory. What cannot be moved stays."""

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().to("cpu") if has_storage(leaf) else leaf.detach()

    return pytree.tree_map(moved, tree)


def device_named(given: str | torch.device) -> torch.device:
    """The device of `device=`, with its index.

    Raises:
        UsageError: there is none of that name.
    """
    try:
        return torch.empty(0, device=given).device
    except (RuntimeError, AssertionError) as error:  # an unknown name; a torch without CUDA asserts
        message = f"device={str(given)!r}: {first_line(error)}"
        raise UsageError(message, hint="name a device of this machine, as 'cuda:0'", subject="device") from error


def device_of(tensors: list[torch.Tensor]) -> torch.device:
    """The device that a call's tensors are on: an accelerator's if any is there, else the CPU."""
    return next((tensor.device for tensor in tensors if tensor.device.type != "cpu"), torch.device("cpu"))


def shares_storage(tensor: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Whether a tensor aliases any of the others."""
    if is_wrapper(tensor):
        return any(shares_storage(part, others) for part in parts_of(tensor))
    if not has_storage(tensor):
        return any(tensor is other for other in others)
    own = tensor.untyped_storage()._cdata
    plain = (part for other in others for part in parts_of(other))
    return any(has_storage(part) and part.untyped_storage()._cdata == own for part in plain)


def random_tangent(output: torch.Tensor) -> torch.Tensor:
    """A random gradient for an output; random, since constant or expanded ones may take other kernels.

    Source: `torch.randn_like` draws no 8-bit floats, torch 2.11 to 2.14.
    """
    if output.is_floating_point() and output.dtype.itemsize == 1:
        return torch.randn_like(output, dtype=torch.float32).to(output.dtype)
    return torch.randn_like(output)


class Alias(torch.autograd.Function):
    """A non-leaf that is no view, over the same storage: what an op may write in place although it requires grad."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        """Share the storage."""
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Pass the gradient on."""
        return gradient


def alias(tensor: torch.Tensor) -> torch.Tensor:
    """`Alias` over a tensor that requires grad."""
    aliased: torch.Tensor = Alias.apply(tensor)  # type: ignore[no-untyped-call]
    return aliased


def device_allocations(device: torch.device) -> int | None:
    """Allocations of device memory (`cudaMalloc`) so far in this process; `None` on devices other than CUDA's.

    Source: `torch.cuda.memory_stats_as_nested_dict()["num_device_alloc"]`, torch 2.11 to 2.14: on an H200 a tenth of
        the time that `memory_stats` takes, and it is asked for twice a sample.
    """
    if device.type != "cuda":
        return None
    return int(torch.cuda.memory_stats_as_nested_dict(device)["num_device_alloc"])


def tensor_version(tensor: torch.Tensor) -> int | None:
    """Its count of writes; inference tensors have none, so that only their bytes tell."""
    return None if tensor.is_inference() else tensor._version
