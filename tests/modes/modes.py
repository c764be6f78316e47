"""The modes: how each is set up, how a model is compiled and called in it, and what is expected of it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import nn

from tests.modes.subclasses import distributed_model, quantised, twice

Kind = Literal["inference", "training"]
KINDS: Final[tuple[Kind, ...]] = ("inference", "training")
Model = Callable[[torch.Tensor], torch.Tensor]
BACKEND = ["graphbench"]
"""What modes compile with: Inductor, to see whether it is torch that cannot do something."""


def compiled(model: Any, **options: Any) -> Any:
    """`torch.compile` with the backend in force."""
    return torch.compile(model, backend=BACKEND[0], **options)


def _as_it_is(x: torch.Tensor) -> torch.Tensor:
    return x


def _one_call(x: torch.Tensor) -> Sequence[torch.Tensor]:
    return (x,)


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A way of compiling and calling a model.

    Args:
        name: as README calls it.
        compile: makes the callable from the eager model, on its device.
        around: settings in force while it is compiled, called and measured.
        calling: entered around each call.
        prepare: what the model is called with, from the plain batch.
        batches: the batches of several calls, from one.
        kinds: what it is meant for; the others are not run.
        refusal: how the sentence begins with which it is refused; empty where it is measured.
        beyond_torch: cells that torch itself cannot compile.
    """

    name: str
    compile: Callable[[nn.Module], Model] = compiled
    around: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    calling: Callable[[str], AbstractContextManager[Any]] = lambda _: contextlib.nullcontext()
    prepare: Callable[[torch.Tensor], torch.Tensor] = _as_it_is
    batches: Callable[[torch.Tensor], Sequence[torch.Tensor]] = _one_call
    kinds: tuple[Kind, ...] = KINDS
    refusal: str = ""
    beyond_torch: tuple[tuple[Kind, str], ...] = ()


def _option(**options: object) -> Callable[[nn.Module], Model]:
    return partial(compiled, options={"inductor": {name.replace("__", "."): value for name, value in options.items()}})


def _inductor(**settings: object) -> Callable[[], AbstractContextManager[Any]]:
    def patched() -> AbstractContextManager[Any]:
        from torch._inductor import config

        found: AbstractContextManager[Any] = config.patch(settings)
        return found

    return patched


def _dynamo(**settings: object) -> Callable[[], AbstractContextManager[Any]]:
    def patched() -> AbstractContextManager[Any]:
        found: AbstractContextManager[Any] = torch._dynamo.config.patch(**settings)
        return found

    return patched


def _autograd_cache() -> AbstractContextManager[Any]:
    from torch._functorch import config

    found: AbstractContextManager[Any] = config.patch(enable_autograd_cache=True)
    return found


class _Chain(nn.Module):
    """A model three times over, each behind `step`."""

    def __init__(self, model: nn.Module, step: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.model, self.step = model, step

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.step(self.model, x)
        return first + self.step(self.model, x + 1)


def _nested_regions(model: nn.Module) -> Model:
    step: Any = torch.compiler.nested_compile_region(lambda block, x: block(x))
    return compiled(_Chain(model, step))


def _per_block(model: nn.Module) -> Model:
    model.compile(backend=BACKEND[0])
    return _Chain(model, lambda block, x: block(x))


def _several(model: nn.Module) -> Model:
    one, other = compiled(model), compiled(lambda y: y * 2 + 1)
    return lambda x: other(one(x))


def _inside(model: nn.Module) -> Model:
    inner = compiled(model)
    return compiled(lambda x: inner(x) * 2 + 1)


def _after_inductor(model: nn.Module) -> Model:
    plain = torch.compile(model)
    measured = compiled(model)

    def call(x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            plain(x).sum().backward()
        else:
            plain(x)
        return measured(x)

    return call


@contextlib.contextmanager
def _one_rank() -> Iterator[None]:
    """A process group of one rank."""
    from torch import distributed

    with tempfile.TemporaryDirectory() as folder:
        store = distributed.FileStore(str(Path(folder) / "store"), 1)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, store=store, rank=0, world_size=1)
        try:
            yield
        finally:
            distributed.destroy_process_group()


def _data_parallel(model: nn.Module) -> Model:
    return compiled(nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1))


def _channels_last(model: nn.Module) -> Model:
    return compiled(model.to(memory_format=torch.channels_last))


def _strided_last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x


def _autocast_inside(model: nn.Module) -> Model:
    def call(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return model(x)

    return compiled(call)


def _any_first(x: torch.Tensor) -> Sequence[torch.Tensor]:
    """Batches of three sizes, of which the first says that any will do."""
    found = _sizes(x)
    torch._dynamo.mark_dynamic(found[0], 0)
    return found


def _unbacked_first(x: torch.Tensor) -> Sequence[torch.Tensor]:
    found = _sizes(x)
    for entry in found:
        torch._dynamo.decorators.mark_unbacked(entry, 0)
    return found


def _sizes(x: torch.Tensor) -> Sequence[torch.Tensor]:
    return tuple(x[: len(x) // part].clone() for part in (1, 2, 4))


def _inner(backend: str) -> Callable[[nn.Module], Model]:
    return partial(compiled, options={"inner": backend})


MODES: Final[tuple[Mode, ...]] = (
    Mode(name="default"),
    Mode(name="reduce-overhead", compile=partial(compiled, mode="reduce-overhead")),
    Mode(name="max-autotune", compile=partial(compiled, mode="max-autotune")),
    Mode(name="max-autotune-no-cudagraphs", compile=partial(compiled, mode="max-autotune-no-cudagraphs")),
    Mode(name="combo kernels", compile=_option(combo_kernels=True)),
    Mode(
        name="freezing, as option",
        compile=_option(freezing=True),
        refusal="graphbench: Inductor option 'freezing' cannot be measured",
    ),
    Mode(name="freezing, set globally", around=_inductor(freezing=True), kinds=("inference",)),
    Mode(
        name="cpp_wrapper, as option",
        compile=_option(cpp_wrapper=True),
        refusal="graphbench: Inductor option 'cpp_wrapper' cannot be measured",
    ),
    Mode(
        name="cpp_wrapper, set globally",
        around=_inductor(cpp_wrapper=True),
        refusal="graphbench: Inductor option 'cpp_wrapper' cannot be measured",
    ),
    Mode(name="compiled autograd", around=_dynamo(compiled_autograd=True), kinds=("training",)),
    Mode(name="nested_compile_region", compile=_nested_regions, beyond_torch=(("training", "conv"),)),
    Mode(name="block by block", compile=_per_block),
    Mode(name="several compiled models", compile=_several),
    Mode(name="compile inside compile", compile=_inside),
    Mode(name="split by DDP", compile=_data_parallel, around=_one_rank),
    Mode(name="AOTAutograd cache on", around=_autograd_cache),
    Mode(name="after plain Inductor", compile=_after_inductor),
    Mode(name="inference_mode", calling=lambda _: torch.inference_mode(), kinds=("inference",)),
    Mode(name="autocast outside", calling=lambda device: torch.autocast(device, dtype=torch.bfloat16)),
    Mode(name="autocast inside", compile=_autocast_inside),
    Mode(name="channels_last", compile=_channels_last, prepare=_strided_last),
    Mode(name="tensor subclass as input", prepare=twice),
    Mode(name="quantised weights (a subclass)", compile=lambda model: compiled(quantised(model)), kinds=("inference",)),
    Mode(name="DTensor", compile=lambda model: compiled(distributed_model(model)), around=_one_rank),
    Mode(name="dynamic=True", compile=partial(compiled, dynamic=True), batches=_sizes),
    Mode(name="mark_dynamic", batches=_any_first),
    Mode(name="automatic dynamic", batches=_sizes),
    Mode(
        name="mark_unbacked",
        batches=_unbacked_first,
        beyond_torch=(("inference", "conv"), ("training", "conv")),
    ),
    Mode(name="inner aot_eager", compile=_inner("aot_eager")),
    Mode(name="inner eager", compile=_inner("eager")),
)
