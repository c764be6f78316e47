"""CUPTI's activity buffers, handed out and decoded without one Python object per record.

Only the record kinds that attribution needs are decoded; every other kind is stepped over by the size that CUPTI itself
gives. Offsets are checked against the binding before they are trusted (`cupti_library`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from graphbench.errors import TimingError
from graphbench.provenance.correlation import Activity, Launch

LABEL_KIND: Final = 5
"""`CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2`; Kineto uses CUSTOM0 and CUSTOM1."""


class Kind(IntEnum):
    """`CUpti_ActivityKind` of every record that this module knows (`cupti_activity.h` of CUDA 13.0)."""

    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    MEMCPY2 = 22
    EXTERNAL_CORRELATION = 39


COPY_NAMES: Final = {
    1: "memcpy HtoD",
    2: "memcpy DtoH",
    3: "memcpy HtoA",
    4: "memcpy AtoH",
    5: "memcpy AtoA",
    6: "memcpy AtoD",
    7: "memcpy DtoA",
    8: "memcpy DtoD",
    9: "memcpy HtoH",
    10: "memcpy PtoP",
}
"""`CUpti_ActivityMemcpyKind`."""

MEMSET_NAME: Final = "memset"

# Offsets as in cupti_activity.h of nvidia-cuda-cupti 13.0.85, compiled against it: CUpti_ActivityKernel10,
# CUpti_ActivityMemcpy6, CUpti_ActivityMemcpyPtoP4, CUpti_ActivityMemset4, CUpti_ActivityExternalCorrelation,
# CUpti_ActivityAPI.
_KIND = Struct("<I")
# Registers, start, end, device, stream, geometry, correlation, name, graph node, cluster.
_KERNEL = Struct("<6x H 8x QQ 8x I4xI 36s 4x I 8x Q 32x Q 24x 12s")
_GEOMETRY = Struct("<8i I")  # grid, block, static and dynamic shared memory, local memory per thread
_CLUSTER = Struct("<3I")
_MEMCPY = Struct("<4x B 11x QQ I4xI I 16x Q")  # copy kind, start, end, device, stream, correlation, graph node
_MEMCPY2 = Struct("<4x B 11x QQ I4xI 16x I 8x Q")  # copy kind, start, end, device, stream, correlation, graph node
_MEMSET = Struct("<16x QQ I4xI I 16x Q")  # start, end, device, stream, correlation, graph node
_EXTERNAL = Struct("<4x I Q I")  # external kind, external id, correlation
_API = Struct("<2I 2Q 4I")  # the fields of `ApiCall`

_READ: Final = {
    int(Kind.CONCURRENT_KERNEL): _KERNEL,
    int(Kind.MEMCPY): _MEMCPY,
    int(Kind.MEMCPY2): _MEMCPY2,
    int(Kind.MEMSET): _MEMSET,
    int(Kind.EXTERNAL_CORRELATION): _EXTERNAL,
    int(Kind.RUNTIME): _API,
    int(Kind.DRIVER): _API,
}

NameAt = Callable[[int], str]
SizeAt = Callable[[bytes, int], int]


WaitNames = Mapping[tuple[int, int], str]
"""Record kind and id of the API calls that wait for a device -> what they are called."""


class ApiCall(NamedTuple):
    """One call of the runtime's or the driver's API. Stamps of 0: CUPTI could not take them."""

    kind: int
    cbid: int
    start_ns: int
    end_ns: int
    process_id: int
    thread_id: int
    correlation_id: int
    return_value: int


class Wait(NamedTuple):
    """The host waiting for a device. `thread_id` is the lower half of the POSIX thread's id."""

    name: str
    start_ns: int
    end_ns: int
    thread_id: int
    correlation_id: int


@dataclass(slots=True)
class Decoded:
    """Records of one session. `external_ids` maps a correlation id to the id of the label that was pushed then."""

    activities: list[Activity] = field(default_factory=list)
    external_ids: dict[int, int] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    records: int = 0


def decode(
    chunks: Iterable[bytes],
    sizes: dict[int, int],
    size_at: SizeAt,
    name_at: NameAt,
    waits: WaitNames | None = None,
) -> Decoded:
    """Decode whole buffers.

    Args:
        chunks: contents of the buffers that CUPTI returned, each a sequence of whole records.
        sizes: record kind -> bytes; extended by what `size_at` says of kinds that are not in it.
        size_at: bytes of the record at an offset of a chunk.
        name_at: string at an address of this process; asked once per address.
        waits: the API calls to keep; all others only say that they happened.

    Raises:
        TimingError: the records do not fill a chunk exactly, so the layout is not the one expected.
    """
    decoded = Decoded()
    names: dict[int, str] = {}
    for chunk in chunks:
        _decode_chunk(chunk, decoded, sizes, size_at, names, name_at, waits or {})
    return decoded


def _decode_chunk(
    chunk: bytes,
    decoded: Decoded,
    sizes: dict[int, int],
    size_at: SizeAt,
    names: dict[int, str],
    name_at: NameAt,
    waits: WaitNames,
) -> None:
    # Locals, not attributes: this loop runs once per record, several per launch.
    kind_at, external_at, kernel_at = _KIND.unpack_from, _EXTERNAL.unpack_from, _KERNEL.unpack_from
    external_ids, append, launch_of = decoded.external_ids, decoded.activities.append, _launch
    end, offset, records = len(chunk), 0, 0
    while offset < end:
        if offset + _KIND.size > end:
            raise _misfit("a cut-off kind", _KIND.size, offset, end)
        kind = kind_at(chunk, offset)[0]
        size = sizes.get(kind)
        if size is None:
            size = sizes[kind] = size_at(chunk, offset)
        if size < _KIND.size or offset + size > end:
            raise _misfit(f"kind {kind}", size, offset, end)
        if kind == 39:
            external_kind, external_id, correlation = external_at(chunk, offset)
            if external_kind == LABEL_KIND:
                external_ids[correlation] = external_id
        elif kind == 10:
            registers, start, stop, device, stream, geometry, correlation, address, node, cluster = kernel_at(
                chunk, offset
            )
            name = names.get(address)
            if name is None:
                name = names[address] = name_at(address)
            launch = launch_of(registers, geometry, cluster)
            append(Activity("kernel", name, start, stop, correlation, node, stream, device, launch))
        elif kind in _COPIES_AND_FILLS:
            append(_COPIES_AND_FILLS[kind](chunk, offset))
        elif waits and kind in _API_KINDS:
            wait = wait_of(decode_api(chunk, offset), waits)
            if wait is not None:
                decoded.waits.append(wait)
        offset += size
        records += 1
    decoded.records += records


def _misfit(what: str, size: int, offset: int, end: int) -> TimingError:
    return TimingError(
        f"CUPTI buffer: record of {what} at byte {offset} claims {size} bytes, {end - offset} are left",
        hint="this CUPTI release lays its records out differently; report it, with the version of libcupti",
    )


def decode_record(raw: bytes, name_at: NameAt) -> Activity | tuple[int, int] | None:
    """Decode one record: device work, or (correlation id, label id), or `None` for any other kind.

    `raw` holds at least the `read_bytes` of its kind.
    """
    (kind,) = _KIND.unpack_from(raw)
    if kind == Kind.EXTERNAL_CORRELATION:
        external_kind, external_id, correlation = _EXTERNAL.unpack_from(raw)
        return (correlation, external_id) if external_kind == LABEL_KIND else None
    if kind == Kind.CONCURRENT_KERNEL:
        registers, start, stop, device, stream, geometry, correlation, address, node, cluster = _KERNEL.unpack_from(raw)
        launch = _launch(registers, geometry, cluster)
        return Activity("kernel", name_at(address), start, stop, correlation, node, stream, device, launch)
    reader = _COPIES_AND_FILLS.get(kind)
    return reader(raw, 0) if reader else None


def decode_api(raw: bytes, offset: int = 0) -> ApiCall:
    """Decode the record of a call of the runtime's or the driver's API."""
    return ApiCall._make(_API.unpack_from(raw, offset))


def wait_of(call: ApiCall, waits: WaitNames) -> Wait | None:
    """The wait that an API call is; `None` for every other call."""
    name = waits.get((call.kind, call.cbid))
    return None if name is None else Wait(name, call.start_ns, call.end_ns, call.thread_id, call.correlation_id)


@lru_cache(maxsize=4096)
def _launch(registers: int, geometry: bytes, cluster: bytes) -> Launch:
    """One object per kind of launch: thousands of records share a few."""
    numbers = _GEOMETRY.unpack(geometry)
    return Launch(numbers[0:3], numbers[3:6], _CLUSTER.unpack(cluster), registers, *numbers[6:])


def read_bytes(kind: int) -> int:
    """How many bytes of a record of this kind are read; less than its size."""
    return _READ.get(kind, _KIND).size


def copy_name(copy_kind: int) -> str:
    """What a copy is called in reports, as `memcpy HtoD`."""
    return COPY_NAMES.get(copy_kind, f"memcpy kind {copy_kind}")


def _memcpy(chunk: bytes, offset: int) -> Activity:
    copy_kind, start, stop, device, stream, correlation, node = _MEMCPY.unpack_from(chunk, offset)
    return Activity("copy", copy_name(copy_kind), start, stop, correlation, node, stream, device)


def _memcpy2(chunk: bytes, offset: int) -> Activity:
    copy_kind, start, stop, device, stream, correlation, node = _MEMCPY2.unpack_from(chunk, offset)
    return Activity("copy", copy_name(copy_kind), start, stop, correlation, node, stream, device)


def _memset(chunk: bytes, offset: int) -> Activity:
    start, stop, device, stream, correlation, node = _MEMSET.unpack_from(chunk, offset)
    return Activity("memset", MEMSET_NAME, start, stop, correlation, node, stream, device)


_COPIES_AND_FILLS: Final[dict[int, Callable[[bytes, int], Activity]]] = {
    int(Kind.MEMCPY): _memcpy,
    int(Kind.MEMCPY2): _memcpy2,
    int(Kind.MEMSET): _memset,
}

_API_KINDS: Final = (int(Kind.RUNTIME), int(Kind.DRIVER))

_U8P = ctypes.POINTER(ctypes.c_uint8)
_REQUESTED = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(_U8P), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_COMPLETED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, _U8P, ctypes.c_size_t, ctypes.c_size_t)
_ALIGNMENT: Final = 8
_SPARE: Final = 3


class Buffers:
    """Lends buffers to CUPTI and keeps the bytes that come back. One per process: CUPTI keeps its callbacks for good.

    The callbacks run in whatever thread launches or flushes, so they only move buffers between collections.

    Source: `cuptiActivityRegisterCallbacks`, `CUpti_BuffersCallbackRequestFunc` (libcupti 13.0.85).
    """

    def __init__(self) -> None:
        self.requested: Any = _REQUESTED(self._on_requested)
        self.completed: Any = _COMPLETED(self._on_completed)
        self._bytes = 0
        self._lent: dict[int, Any] = {}
        self._idle: list[Any] = []
        self._chunks: list[bytes] = []

    def begin(self, buffer_bytes: int) -> None:
        """Start a session with buffers of `buffer_bytes`; what an earlier one left is dropped."""
        if buffer_bytes != self._bytes:
            self._idle.clear()
        self._bytes = buffer_bytes
        self._chunks = []
        while len(self._idle) < _SPARE:  # making one takes the ms that a launch would wait for it
            self._idle.append(self._made())

    def take(self) -> list[bytes]:
        """Hand over the contents of all buffers that came back, in order of return. Call it after the flush."""
        chunks, self._chunks = self._chunks, []
        return chunks

    def _made(self) -> Any:
        return (ctypes.c_uint8 * (self._bytes + _ALIGNMENT))()

    # No lock: a collection of garbage inside a callback may launch work, which would re-enter it and wait for itself.
    # Every step below is one append, pop or item assignment.

    def _on_requested(self, buffer: Any, size: Any, max_records: Any) -> None:
        buffer_bytes = self._bytes
        try:
            storage = self._idle.pop()
        except IndexError:
            storage = self._made()
        address = ctypes.addressof(storage)
        address += -address % _ALIGNMENT
        self._lent[address] = storage
        buffer[0] = ctypes.cast(address, _U8P)
        size[0] = buffer_bytes
        max_records[0] = 0  # a limit on records, not an alignment; 0: fill the buffer

    def _on_completed(self, context: int, stream: int, buffer: Any, size: int, valid: int) -> None:
        address = ctypes.cast(buffer, ctypes.c_void_p).value or 0
        if valid:
            self._chunks.append(ctypes.string_at(address, valid))
        storage = self._lent.pop(address, None)
        if storage is not None and size == self._bytes:
            self._idle.append(storage)
