"""Captured storages kept where they are in nobody's way: in pinned host memory, else in a file without a name."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from graphbench.errors import CaptureError
from graphbench.execution.replay import CapturedInput, Geometry
from graphbench.memory import available_bytes, forget, is_out_of_memory
from graphbench.tensors import has_storage
from graphbench.units import format_bytes

PIECE_BYTES = 64 << 20  # a power of two: torch's pinned allocator rounds up to one
HOST_PARTS = 4  # at most one part of the host's free memory is pinned
_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Absent:
    """Stands for a tensor whose storage is spilled. `storage` is the position of that among the spilled ones."""

    storage: int
    geometry: Geometry
    conj: bool
    neg: bool

    def over(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """The tensor again, over its storage brought back."""
        made = torch.empty(0, dtype=self.geometry.dtype, device=storage.device)
        made.set_(storage, self.geometry.offset, self.geometry.shape, self.geometry.stride)
        made = torch._conj(made) if self.conj else made
        return torch._neg_view(made) if self.neg else made


class SpillFile:
    """A file without a name in the folder for temporary ones: gone with its last user, and with the process.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self) -> None:
        with tempfile.TemporaryFile(prefix="graphbench-", buffering=0) as named:
            self._descriptor = os.dup(named.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self.nbytes = 0

    def append(self, piece: torch.Tensor) -> None:
        """Write bytes at the end, at a place of their own: a forked process shares the file's position.

        Raises:
            OSError: the disk is full.
        """
        array: Any = piece.cpu().numpy()
        left = memoryview(array)
        while left:
            written = os.pwrite(self._descriptor, left, self.nbytes)
            left, self.nbytes = left[written:], self.nbytes + written

    def read(self, start: int, nbytes: int) -> torch.Tensor:
        """Bytes from `start` on.

        Raises:
            OSError: they cannot be read.
        """
        piece = torch.empty(nbytes, dtype=torch.uint8)
        array: Any = piece.numpy()
        left = memoryview(array)
        while left:
            count = os.preadv(self._descriptor, [left], start)
            if not count:
                raise OSError(f"the file ends {len(left)} bytes early")
            left, start = left[count:], start + count
        return piece


@dataclass(slots=True)
class SpilledStorage:
    """The bytes of one storage: in pinned host tensors, or in a file from `start` on."""

    nbytes: int
    device: torch.device
    pinned: list[torch.Tensor] = field(default_factory=list)
    file: SpillFile | None = None
    start: int = 0

    @classmethod
    def pinned_copy(cls, storage: torch.UntypedStorage) -> SpilledStorage:
        """A copy in pinned host memory."""
        pieces = []
        for piece in _bytes_of(storage).split(PIECE_BYTES):
            host = torch.empty(piece.numel(), dtype=torch.uint8, pin_memory=True)
            pieces.append(host.copy_(piece))
        return cls(storage.nbytes(), storage.device, pinned=pieces)

    @classmethod
    def filed_copy(cls, storage: torch.UntypedStorage, file: SpillFile) -> SpilledStorage:
        """A copy at the end of a file.

        Raises:
            OSError: the disk is full.
        """
        start = file.nbytes
        for piece in _bytes_of(storage).split(PIECE_BYTES):
            file.append(piece)
        return cls(storage.nbytes(), storage.device, file=file, start=start)

    def back(self) -> torch.UntypedStorage:
        """A storage of the same bytes on its device.

        Raises:
            OSError: the file cannot be read.
            RuntimeError: no memory for it.
        """
        whole = torch.empty(self.nbytes, dtype=torch.uint8, device=self.device)
        at = 0
        for position, piece in enumerate(whole.split(PIECE_BYTES)):
            if self.file is None:
                piece.copy_(self.pinned[position])
            else:
                piece.copy_(self.file.read(self.start + at, piece.numel()))
            at += piece.numel()
        return whole.untyped_storage()


@dataclass(slots=True)
class Spilled:
    """What of a region's inputs was spilled: `absent` has the inputs with placeholders in its place."""

    absent: list[CapturedInput]
    storages: list[SpilledStorage]

    @property
    def host_bytes(self) -> int:
        """Bytes in pinned host memory."""
        return sum(storage.nbytes for storage in self.storages if storage.file is None)

    @property
    def disk_bytes(self) -> int:
        """Bytes on disk."""
        return sum(storage.nbytes for storage in self.storages if storage.file is not None)

    def brought_back(self) -> list[CapturedInput]:
        """The inputs as they were captured, over fresh storages: what shared one shares one again.

        Raises:
            CaptureError: there is no room for them, or their file cannot be read.
        """
        size = format_bytes(sum(storage.nbytes for storage in self.storages))
        try:
            with torch.no_grad(), torch.inference_mode(False):
                storages = [storage.back() for storage in self.storages]
                return [replace(entry, value=_present(entry.value, storages)) for entry in self.absent]
        except OSError as error:
            raise CaptureError(
                f"its spilled inputs ({size}) cannot be read again: {error.strerror or error}"
            ) from error
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            forget(error)
            raise CaptureError(f"does not fit: its spilled inputs need {size}, and memory ran out") from error


def spill(captured: Sequence[CapturedInput], owned: Iterable[torch.Tensor]) -> Spilled:
    """Copy what captured inputs alone keep alive to where it takes no device memory.

    Pinned host memory for CUDA tensors, as long as a quarter of what the host has free suffices; else a file in the
    folder for temporary ones (`TMPDIR`).

    Args:
        captured: the inputs.
        owned: tensors that stay alive anyway, as parameters; what shares storage with them is left as it is.

    Raises:
        OSError: the file cannot be written.
    """
    kept = {tensor.untyped_storage()._cdata for tensor in owned if has_storage(tensor)}
    found: dict[int, torch.UntypedStorage] = {}
    for entry in captured:
        for tensor in _tensors(entry):
            storage = tensor.untyped_storage()
            if storage._cdata not in kept and storage.nbytes():
                found.setdefault(storage._cdata, storage)
    places = {key: position for position, key in enumerate(found)}
    with torch.no_grad():
        storages = _copies(list(found.values()))
        absent = [replace(entry, value=_without(entry, places)) for entry in captured]
    return Spilled(absent, storages)


def captured_bytes(captured: Iterable[CapturedInput], owned: Iterable[torch.Tensor]) -> int:
    """Bytes that captured inputs keep alive beside what is owned by others; a storage counts once."""
    kept = {tensor.untyped_storage()._cdata for tensor in owned if has_storage(tensor)}
    storages = [tensor.untyped_storage() for entry in captured for tensor in _tensors(entry)]
    return sum({storage._cdata: storage.nbytes() for storage in storages if storage._cdata not in kept}.values())


def _copies(storages: Sequence[torch.UntypedStorage]) -> list[SpilledStorage]:
    room = (available_bytes(_CPU) or 0) // HOST_PARTS
    file: SpillFile | None = None
    made = []
    for storage in storages:
        if storage.device.type == "cuda" and storage.nbytes() <= room:
            with contextlib.suppress(RuntimeError):  # the system pins no more; the profile tells where things are
                made.append(SpilledStorage.pinned_copy(storage))
                room -= storage.nbytes()
                continue
        file = file or SpillFile()
        made.append(SpilledStorage.filed_copy(storage, file))
    return made


def _tensors(entry: CapturedInput) -> Iterator[torch.Tensor]:
    """The tensors of an input that have a storage of their own to copy; not parameters."""
    values = entry.value if isinstance(entry.value, list) else [entry.value]
    for value in values:
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter) and has_storage(value):
            yield value


def _without(entry: CapturedInput, places: dict[int, int]) -> Any:
    spilled = {id(tensor) for tensor in _tensors(entry) if tensor.untyped_storage()._cdata in places}

    def placeholder(value: Any) -> Any:
        if id(value) not in spilled:
            return value
        storage = places[value.untyped_storage()._cdata]
        return Absent(storage, Geometry.of(value), value.is_conj(), value.is_neg())

    return [placeholder(value) for value in entry.value] if isinstance(entry.value, list) else placeholder(entry.value)


def _present(value: Any, storages: Sequence[torch.UntypedStorage]) -> Any:
    if isinstance(value, list):
        return [_present(entry, storages) for entry in value]
    return value.over(storages[value.storage]) if isinstance(value, Absent) else value


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return flat.set_(storage, 0, (storage.nbytes(),), (1,))
