"""What implementations run in and cannot be given apart: global state of torch, and its random generators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import fields

import torch

from graphbench.capture import ambient
from graphbench.condition_records import Ambient, AutocastState
from graphbench.isolate.bench_unit import RngState


class GlobalState:
    """The ambient state of the calling thread, as it was when this was made.

    Args:
        device_types: of the tensors at hand; autocast is a state of each.
    """

    def __init__(self, device_types: Iterable[str] = ()) -> None:
        self._device_types = tuple(sorted({"cpu", "cuda", *device_types}))
        self._start = ambient.current(self._device_types)
        self._matmul_precision = _matmul_precision()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """In force inside, and again afterwards, whatever was changed inside."""
        with ambient.restored(self._start), _autocast_as_outside(len(self._start.autocast)):
            try:
                yield
            finally:
                if self._matmul_precision not in (None, _matmul_precision()):
                    torch.set_float32_matmul_precision(self._matmul_precision)

    def changed(self) -> list[str]:
        """What differs, as `num_threads: 2 -> 1`. Ask inside `kept`."""
        now = ambient.current(self._device_types)
        return [
            f"{field.name}: {_text(old, new)} -> {_text(new, old)}"
            for field in fields(Ambient)
            if (old := getattr(self._start, field.name)) != (new := getattr(now, field.name))
        ]


def _matmul_precision() -> str | None:
    """`torch.set_float32_matmul_precision` keeps this beside the settings in torch.backends that it also makes.

    `None` where those were made by themselves and contradict it, which torch refuses to read. torch 2.11 to 2.14.
    """
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


@contextlib.contextmanager
def _autocast_as_outside(entered: int) -> Iterator[None]:
    """Autocast's nesting without the contexts entered to restore it: outside of the last, it forgets its casts.

    Source: `torch.autocast.__exit__`, which clears the cache at nesting 0; torch 2.11 to 2.14.
    """
    for _ in range(entered):
        torch.autocast_decrement_nesting()
    try:
        yield
    finally:
        for _ in range(entered):
            torch.autocast_increment_nesting()


def _text(state: object, other: object) -> str:
    """A field's value; of a field with several, those that the other state lacks."""
    if not isinstance(state, tuple) or not isinstance(other, tuple):
        return str(state)
    return ", ".join(_entry_text(entry) for entry in state if entry not in other) or "none"


def _entry_text(entry: object) -> str:
    if isinstance(entry, AutocastState):
        return f"{entry.device_type} {entry.dtype if entry.enabled else 'off'}"
    return " ".join(map(str, entry)) if isinstance(entry, tuple) else str(entry)


class Generators:
    """The random generators of the CPU and, where CUDA is in use, of all its devices, as they were."""

    def __init__(self) -> None:
        cuda = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        devices = [torch.device("cuda", index) for index in cuda] or [torch.device("cpu")]
        self._states = [RngState(device) for device in devices]  # that of a CUDA device has the CPU's as well

    def moved(self) -> bool:
        """Whether any of them has drawn since."""
        return any(state.moved() for state in self._states)

    def restore(self) -> None:
        """Put them back."""
        for state in self._states:
            state.restore()
