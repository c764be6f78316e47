"""CUPTI as this process uses it: found, switched on and off, and proven before it is believed.

Everything here follows from how CUPTI 13.0 behaves: callbacks, clock and API filter belong to the process, not to a
session, and other tools (torch.profiler first of all) overwrite them without a word.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from graphbench.errors import ClockError, TimingError
from graphbench.timing.cupti_binding import ApiSwitch, LayoutCheck, api_filter, collect_objects
from graphbench.timing.cupti_records import LABEL_KIND, Buffers, Decoded, Kind, WaitNames, decode
from graphbench.timing.gpu import Device
from graphbench.timing.tools import attached_tool

KINDS: Final = (
    Kind.CONCURRENT_KERNEL,
    Kind.MEMCPY,
    Kind.MEMCPY2,
    Kind.MEMSET,
    Kind.EXTERNAL_CORRELATION,
    Kind.RUNTIME,
    Kind.DRIVER,
)
"""RUNTIME and DRIVER bring no number, but without them no external-correlation record is written at all."""

_TINY_BUFFER_BYTES: Final = 8
_PROOF_LAUNCHES: Final = 20
_CHECK_BUFFER_BYTES: Final = 1 << 20
_FLUSH_FORCED: Final = 1
_MAX_LIMIT_REACHED: Final = 12
_MULTIPLE_SUBSCRIBERS: Final = 39
_CLOCK_TOLERANCE_NS: Final = 1_000_000
_CHECK_LABEL: Final = 7


class ClockReading(NamedTuple):
    """CUPTI's clock, the host's (`time.time_ns`) and one that is never set (`time.perf_counter_ns`), read together."""

    cupti_ns: int
    host_ns: int
    steady_ns: int


class Instrument(Protocol):
    """What `CuptiTimer` needs of CUPTI; scripted in tests."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers should know about how they were read."""

    def verify(self, device: Device) -> None:
        """Prove the drop counter live and the record layout right, once per process."""

    def start(self, buffer_bytes: int, *, waits: bool = False) -> None:
        """Switch recording on, with buffers of `buffer_bytes`. `waits`: also record when the host waits."""

    def stop(self) -> int:
        """Flush, switch recording off, and return how many records were lost."""

    def abort(self) -> None:
        """Switch recording off, whatever state it is in, and forget what it recorded."""

    def decoded(self) -> Decoded:
        """The records of the session that `stop` ended."""

    def read_clock(self) -> ClockReading:
        """Both clocks at once."""

    def push(self, kind: int, identifier: int, /) -> object:
        """Label what this thread launches from now on."""

    def pop(self, kind: int, /) -> int | None:
        """End this thread's latest label. Returns its id, `None` when there is none."""

    def other_client(self) -> str:
        """Who else may be taking CUPTI's records in this process; "" when nobody is seen."""


class Library:
    """CUPTI through its Python binding; record buffers through libcupti itself. One per process (`cupti_setup.load`).

    Args:
        binding: module `cupti.cupti` of cupti-python.
        native: the same libcupti that the binding has loaded.
        path: where that libcupti lies.
        version: its version, as `13.0.1`.
        demangle: turns a C++ symbol into a readable name.

    Source: cupti-python 13.0.1, libcupti 13.0.85 (`cuptiActivity*`).
    """

    def __init__(
        self, binding: Any, native: ctypes.CDLL, *, path: str, version: str, demangle: Callable[[str], str]
    ) -> None:
        self.path = path
        self.version = version
        self.push = binding.activity_push_external_correlation_id
        self._process = os.getpid()
        self._binding = binding
        self._native = native
        self._demangle = demangle
        self._filter: list[ApiSwitch] = api_filter(binding)
        self._filter_known = False
        self._buffers = Buffers()
        self._sizes: dict[int, int] = {}
        self._verified = False
        self._active = False
        self._layout_fault = ""
        self._api_fault = ""
        self._wait_names: WaitNames = {(int(s.kind), s.cbid): s.wait for s in self._filter if s.wait}
        self._waits: WaitNames = {}
        self._waits_missed = ""
        self._objects: Decoded | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Says when records are read through the binding's objects, which is slow, or waits are missed, and why."""
        notes = []
        if self._layout_fault:
            why = self._layout_fault
            notes.append(f"CUPTI records read through cupti-python's objects, which slows launches down: {why}")
        if self._waits_missed:
            notes.append(f"the host's waits for the device are not recorded: {self._waits_missed}")
        return tuple(notes)

    def verify(self, device: Device) -> None:
        """Prove the drop counter live and the record layout right, once per process.

        Raises:
            TimingError: the counter cannot be proven, so that losses would go unseen.
        """
        if self._verified:
            return
        client = attached_tool()
        if client:
            raise TimingError(
                f"{client} is attached to this process: it takes CUPTI's records or slows kernels down",
                hint="run without it",
            )
        self._prove_drop_counter(device)
        self._check_layout(device)
        self._verified = True

    def start(self, buffer_bytes: int, *, waits: bool = False) -> None:
        """Register callbacks and clock, enable the kinds, then the API filter, which enabling resets.

        Args:
            buffer_bytes: size of one buffer.
            waits: also trace the calls that wait for a device. Where their records cannot be read, `notes` says so.

        Raises:
            TimingError: a recording is already open, or CUPTI refuses.
        """
        missed = self._api_fault if waits and not self._layout_fault else ""
        names: WaitNames = self._wait_names if waits and not missed else {}
        objects = Decoded() if self._layout_fault else None
        if objects is None:
            register = partial(self._register_direct, buffer_bytes)
        else:
            collect = partial(collect_objects, objects, self._demangle, names)
            register = partial(self._register_binding, buffer_bytes, collect)
        self._start(register, waits=bool(names))
        self._objects, self._waits, self._waits_missed = objects, names, missed

    def pop(self, kind: int, /) -> int | None:
        """End this thread's latest label. Returns its id, `None` when the timed code has popped it already."""
        try:
            identifier: int = self._binding.activity_pop_external_correlation_id(kind)
        except self._binding.cuptiError:
            return None
        return identifier

    def other_client(self) -> str:
        """Who else may be taking CUPTI's records: a tool seen in this process, or whoever holds the subscription.

        Source: `cuptiSubscribe`, which only one client at a time gets (libcupti 13.0.85).
        """
        subscriber = ctypes.c_void_p()
        status = self._native.cuptiSubscribe(ctypes.byref(subscriber), None, None)
        if status == 0:
            self._native.cuptiUnsubscribe(subscriber)
        taken = status in (_MAX_LIMIT_REACHED, _MULTIPLE_SUBSCRIBERS)
        return attached_tool() or (f"a subscriber of CUPTI's callbacks (status {status})" if taken else "")

    def stop(self) -> int:
        """Flush, switch recording off, and return how many records were lost.

        Raises:
            TimingError: CUPTI refuses; what it recorded is unusable.
        """
        try:
            self._call(self._binding.activity_flush_all, _FLUSH_FORCED)
            return self._dropped()
        finally:
            self._disable()

    def abort(self) -> None:
        """Switch recording off, whatever state it is in, and forget what it recorded."""
        if self._active:
            with contextlib.suppress(self._binding.cuptiError):
                self._binding.activity_flush_all(_FLUSH_FORCED)
            self._disable()
            self._buffers.take()

    def retire(self) -> None:
        """Leave CUPTI nothing of Python's to call or to write to: it lives on while the interpreter is taken down.

        Seen without this: a segmentation fault after `main` of a long run, now and then. The clock and the receiver of
        buffers become functions of the C library, which read no argument; lent buffers are never freed. A forked child
        has nothing of CUPTI's to leave, and calling it there would hang.
        """
        if os.getpid() != self._process:
            return
        self.abort()
        libc = ctypes.CDLL(None)
        clock, ignore = (ctypes.cast(function, ctypes.c_void_p) for function in (libc.clock, libc.getpid))
        self._native.cuptiActivityRegisterTimestampCallback(clock)
        self._native.cuptiActivityRegisterCallbacks(self._buffers.requested, ignore)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._buffers))

    def decoded(self) -> Decoded:
        """The records of the session that `stop` ended.

        Raises:
            TimingError: the records do not have the expected layout.
        """
        if self._objects is not None:
            return self._objects
        return decode(self._buffers.take(), self._sizes, self._size_at, self._name_at, self._waits)

    def read_clock(self) -> ClockReading:
        """CUPTI's clock between two readings of the host's.

        Raises:
            ClockError: it is not the host's clock in nanoseconds.
        """
        before, steady_ns = time.time_ns(), time.perf_counter_ns()
        stamp = int(self._call(self._binding.get_timestamp))
        after = time.time_ns()
        if not before - _CLOCK_TOLERANCE_NS <= stamp <= after + _CLOCK_TOLERANCE_NS:
            raise ClockError(
                f"CUPTI's clock reads {stamp}, the host's {after} ns: expected the same within 1 ms",
                hint="a torch.profiler session in the timed code, or another tool of this process, replaced CUPTI's "
                "clock; leave it out, or measure in a fresh process",
            )
        return ClockReading(cupti_ns=stamp, host_ns=(before + after) // 2, steady_ns=steady_ns)

    def _start(self, register: Callable[[], None], *, waits: bool = False) -> None:
        if os.getpid() != self._process:
            raise TimingError(
                f"CUPTI was set up in process {self._process}, of which this one ({os.getpid()}) is a fork",
                hint="start workers with multiprocessing's `spawn`, or measure in the parent",
            )
        if self._active:
            raise TimingError(
                "CUPTI recording: one is already open in this process",
                hint="sessions do not nest; finish the first one",
            )
        self._active = True
        try:
            register()
            # Undoes torch.profiler's TSC clock, under which every duration reads the TSC's GHz times too long.
            self._call(self._binding.activity_register_timestamp_callback, time.time_ns)
            self._dropped()
            for kind in KINDS:
                self._call(self._binding.activity_enable, int(kind))
            self._call(self._apply_filter, waits)
        except BaseException:
            self.abort()
            raise

    def _disable(self) -> None:
        for kind in KINDS:
            with contextlib.suppress(self._binding.cuptiError):
                self._binding.activity_disable(int(kind))
        self._active = False

    def _register_direct(self, buffer_bytes: int) -> None:
        self._buffers.begin(buffer_bytes)
        status = self._native.cuptiActivityRegisterCallbacks(self._buffers.requested, self._buffers.completed)
        if status != 0:
            raise TimingError(f"cuptiActivityRegisterCallbacks returned {status}, expected 0", hint=_OTHER_CLIENT)

    def _register_binding(self, buffer_bytes: int, completed: Callable[[Sequence[Any]], None]) -> None:
        self._call(self._binding.activity_register_callbacks, lambda: (buffer_bytes, 0), completed)

    def _apply_filter(self, waits: bool) -> None:
        if not self._filter_known:
            self._learn_filter()
        for switch in self._filter:
            switch.toggle(switch.cbid, int(switch.traced or (waits and bool(switch.wait))))

    def _learn_filter(self) -> None:
        """Leave out calls that this libcupti does not know, since the binding may be newer."""
        accepted = []
        for switch in self._filter:
            with contextlib.suppress(self._binding.cuptiError):
                switch.toggle(switch.cbid, int(switch.traced))
                accepted.append(switch)
        if not any(switch.traced for switch in accepted):
            raise TimingError("CUPTI refused to trace every API call that launches work", hint=_OTHER_CLIENT)
        self._filter = accepted
        self._filter_known = True

    def _dropped(self) -> int:
        count = ctypes.c_size_t()
        self._call(self._binding.activity_get_num_dropped_records, 0, 0, ctypes.addressof(count))
        return count.value

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        try:
            return function(*arguments)
        except self._binding.cuptiError as error:
            raise TimingError(f"CUPTI {function.__name__}: {error}", hint=_OTHER_CLIENT) from error

    def _prove_drop_counter(self, device: Device) -> None:
        self._start(partial(self._register_direct, _TINY_BUFFER_BYTES))
        try:
            for _ in range(_PROOF_LAUNCHES):
                device.probe()
            device.drain()
            lost = self.stop()
        finally:
            self.abort()
        if lost == 0:
            raise TimingError(
                f"CUPTI's drop counter read 0 after {_PROOF_LAUNCHES} launches into buffers of "
                f"{_TINY_BUFFER_BYTES} bytes, expected losses: real losses would go unseen",
                hint=_OTHER_CLIENT,
            )

    def _check_layout(self, device: Device) -> None:
        """Decode known launches directly and through the binding, and keep what differs."""
        check = LayoutCheck(self._demangle, self._name_at)
        self._start(partial(self._register_binding, _CHECK_BUFFER_BYTES, check.completed))
        try:
            self.push(LABEL_KIND, _CHECK_LABEL)
            try:
                device.probe_all_kinds()
            finally:
                self.pop(LABEL_KIND)
            self.stop()
        finally:
            self.abort()
        self._layout_fault, self._api_fault = check.fault(), check.api_fault()

    def _name_at(self, address: int) -> str:
        return self._demangle(ctypes.string_at(address).decode(errors="replace")) if address else "(unnamed kernel)"

    def _size_at(self, chunk: bytes, offset: int) -> int:
        """Size in bytes of the record at `offset`, from cuptiActivityGetNextRecord, which needs no CUDA context."""
        rest = chunk[offset:]
        storage = ctypes.create_string_buffer(rest, len(rest))
        address = ctypes.addressof(storage)
        record = ctypes.c_void_p(address)
        status = self._native.cuptiActivityGetNextRecord(
            ctypes.c_void_p(address), ctypes.c_size_t(len(rest)), ctypes.byref(record)
        )
        if status == _MAX_LIMIT_REACHED:
            return len(rest)
        if status != 0 or record.value is None:
            raise TimingError(
                f"CUPTI buffer: cuptiActivityGetNextRecord returned {status} at byte {offset} of {len(chunk)}",
                hint="the buffer is damaged; measure again in a fresh process",
            )
        return record.value - address


_OTHER_CLIENT: Final = (
    "another CUPTI client holds this process (nsys, ncu, compute-sanitizer, torch.profiler); measure without it"
)
