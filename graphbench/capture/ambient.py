"""Global state that changes what an op does: recorded when a region is called, restored in every replay."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import torch

from graphbench.condition_records import Ambient, AutocastState
from graphbench.put_back import put_back

FLAGS = {
    "cudnn.enabled": (torch.backends.cudnn, "enabled"),
    "cudnn.benchmark": (torch.backends.cudnn, "benchmark"),
    "cudnn.deterministic": (torch.backends.cudnn, "deterministic"),
    "cuda.matmul.fp16_reduction": (torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    "cuda.matmul.bf16_reduction": (torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
}
# What each backend does with float32 matrix products and convolutions, by the names of the settings in torch.backends.
FP32_SETTINGS = ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
DEVICE_TYPES = ("cpu", "cuda", "xpu", "hpu", "mps")  # those that autocast knows
SDPA = ("flash", "mem_efficient", "math", "cudnn")


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` of `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def current(device_types: tuple[str, ...] = ("cpu", "cuda")) -> Ambient:
    """The ambient state of the calling thread.

    Source: `torch.is_autocast_enabled(device_type)`, `torch.get_autocast_dtype`, torch 2.11 to 2.14.
    """
    return Ambient(
        grad_enabled=torch.is_grad_enabled(),
        inference_mode=torch.is_inference_mode_enabled(),
        autocast=tuple(
            AutocastState(
                device_type=kind,
                enabled=torch.is_autocast_enabled(kind),
                dtype=dtype_name(torch.get_autocast_dtype(kind)),
            )
            for kind in device_types
            if kind in DEVICE_TYPES
        ),
        autocast_cache=torch.is_autocast_cache_enabled(),
        default_dtype=dtype_name(torch.get_default_dtype()),
        fp32_precision=tuple((name, str(_backend(name).fp32_precision)) for name in FP32_SETTINGS),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        deterministic_warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
        sdpa_backends=tuple(name for name in SDPA if getattr(torch.backends.cuda, f"{name}_sdp_enabled")()),
        flags=tuple((name, bool(getattr(owner, attribute))) for name, (owner, attribute) in FLAGS.items()),
        num_threads=torch.get_num_threads(),
    )


@contextlib.contextmanager
def restored(ambient: Ambient) -> Iterator[None]:
    """Put a recorded state in force inside, and what was in force before back afterwards."""
    before = current(tuple(state.device_type for state in ambient.autocast))
    with contextlib.ExitStack() as stack:
        stack.enter_context(put_back(partial(_set_all, before)))
        stack.enter_context(_nesting_kept())
        _set_globals(ambient)
        stack.enter_context(torch.inference_mode(ambient.inference_mode))
        stack.enter_context(torch.set_grad_enabled(ambient.grad_enabled))
        for state in ambient.autocast:
            dtype = getattr(torch, state.dtype)
            stack.enter_context(
                torch.autocast(
                    state.device_type, dtype=dtype, enabled=state.enabled, cache_enabled=ambient.autocast_cache
                )
            )
        yield


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """The ambient state is afterwards what it is now, and so is the current stream of CUDA's current device."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(put_back(partial(_set_all, current())))
        stack.enter_context(_nesting_kept())
        if torch.cuda.is_initialized():
            stack.enter_context(put_back(partial(_set_stream, torch.cuda.current_stream())))
        yield


def _set_stream(stream: torch.cuda.Stream) -> None:
    with contextlib.suppress(RuntimeError):  # a device that is lost has no stream to go back to
        if torch.cuda.current_stream() != stream:
            torch.cuda.set_stream(stream)


@contextlib.contextmanager
def _nesting_kept() -> Iterator[None]:
    """Unwind what a graph that was interrupted between its state nodes left open: autocast, functorch, saved tensors.

    Source: `torch.autocast_increment_nesting`, `torch._C._functorch.get_dynamic_layer_stack_depth`,
    `torch._C._autograd._saved_tensors_hooks_is_enabled`, torch 2.11 to 2.14.
    """
    hooks: Any = torch._C._autograd
    layers = torch._C._functorch.get_dynamic_layer_stack_depth()
    with put_back(partial(_unwind, _autocast_depth(), layers, hooks._saved_tensors_hooks_is_enabled())):
        yield


def _unwind(depth: int, layers: int, hooks_were_enabled: bool) -> None:
    hooks: Any = torch._C._autograd
    while _autocast_depth() > depth:
        torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()
    if torch._C._functorch.get_dynamic_layer_stack_depth() > layers:
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(layers)
    if hooks_were_enabled and not hooks._saved_tensors_hooks_is_enabled():
        hooks._saved_tensors_hooks_enable()


def _backend(name: str) -> Any:
    """`torch.backends.` and the name."""
    return attrgetter(name)(torch.backends)


def _autocast_depth() -> int:
    """How deep autocast is nested; torch tells only who goes a level deeper and comes back."""
    try:
        torch.autocast_increment_nesting()
    finally:  # also when Ctrl-C comes in between
        depth = torch.autocast_decrement_nesting()
    return int(depth)


def _set_all(ambient: Ambient) -> None:
    """Inference mode is left out: torch lets go of it with the object that switched it on."""
    if torch.is_grad_enabled() != ambient.grad_enabled:
        torch.set_grad_enabled(ambient.grad_enabled)
    for state in ambient.autocast:
        if torch.is_autocast_enabled(state.device_type) != state.enabled:
            torch.set_autocast_enabled(state.device_type, state.enabled)
        dtype = getattr(torch, state.dtype)
        if torch.get_autocast_dtype(state.device_type) != dtype:
            torch.set_autocast_dtype(state.device_type, dtype)
    torch.set_autocast_cache_enabled(ambient.autocast_cache)
    _set_globals(ambient)


def _set_globals(ambient: Ambient) -> None:
    torch.set_default_dtype(getattr(torch, ambient.default_dtype))
    for name, precision in ambient.fp32_precision:
        if _backend(name).fp32_precision != precision:
            _backend(name).fp32_precision = precision
    torch.use_deterministic_algorithms(ambient.deterministic, warn_only=ambient.deterministic_warn_only)
    for name in SDPA:
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(name in ambient.sdpa_backends)
    for name, value in ambient.flags:
        owner, attribute = FLAGS[name]
        if getattr(owner, attribute) != value:
            setattr(owner, attribute, value)
    if torch.get_num_threads() != ambient.num_threads:
        torch.set_num_threads(ambient.num_threads)


@contextlib.contextmanager
def rng_untouched() -> Iterator[None]:
    """The generators of the CPU and of every CUDA device are bit-equal afterwards."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else range(0)
    with put_back(partial(_set_generators, torch.get_rng_state(), [torch.cuda.get_rng_state(i) for i in devices])):
        yield


def _set_generators(cpu: torch.Tensor, cuda: list[torch.Tensor]) -> None:
    torch.set_rng_state(cpu)
    for device, state in enumerate(cuda):
        torch.cuda.set_rng_state(state, device)
