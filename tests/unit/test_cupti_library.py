"""Switching CUPTI on and off and proving it, on a scripted binding. No torch, no GPU."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest

from graphbench.errors import ClockError, TimingError
from graphbench.timing import cupti_library
from graphbench.timing.cupti_binding import api_filter
from graphbench.timing.cupti_library import KINDS, Library
from graphbench.timing.cupti_records import LABEL_KIND, Kind, Wait


class CuptiError(Exception):
    """Stands for `cupti.cuptiError`."""


# Newer bindings name a call twice.
RUNTIME_CALLS = IntEnum(
    "RUNTIME_CALLS",
    {
        "INVALID": 0,
        "cudaMalloc": 1,
        "cudaLaunchKernel": 2,
        "LAUNCH_KERNEL": 2,
        "cudaMemcpyAsync": 3,
        "SIZE": 4,
        "cudaStreamSynchronize_ptsz_v7000": 5,
        "cudaStreamWaitEvent_v3020": 6,
    },
)
DRIVER_CALLS = IntEnum(
    "DRIVER_CALLS", {"cuMemsetD8": 7, "cuInit": 8, "cuCtxSynchronize_v2": 9, "FORCE_INT": 0x7FFFFFFF}
)


class FakeCupti:
    """A binding and a libcupti that log their calls; `refuse` makes calls fail, `losses` answers the drop counter."""

    runtime_api_trace_cbid = RUNTIME_CALLS
    driver_api_trace_cbid = DRIVER_CALLS

    def __init__(self) -> None:
        self.cuptiError = CuptiError
        self.log: list[tuple[Any, ...]] = []
        self.refuse: Callable[[tuple[Any, ...]], bool] = lambda call: False
        self.losses = 60
        self.subscription = 0
        self.clock = time.time_ns
        self.objects: list[Any] = []
        self.completed: Callable[[list[Any]], None] = lambda records: None

    def _do(self, *call: Any) -> None:
        self.log.append(call)
        if self.refuse(call):
            raise CuptiError(f"refused {call[0]}")

    def activity_enable(self, kind: int) -> None:
        self._do("enable", kind)

    def activity_disable(self, kind: int) -> None:
        self._do("disable", kind)

    def activity_enable_runtime_api(self, cbid: int, on: int) -> None:
        self._do("runtime", cbid, on)

    def activity_enable_driver_api(self, cbid: int, on: int) -> None:
        self._do("driver", cbid, on)

    def activity_register_timestamp_callback(self, function: object) -> None:
        self._do("clock", function)

    def activity_register_callbacks(self, requested: object, completed: Callable[[list[Any]], None]) -> None:
        self._do("objects")
        self.completed = completed

    def activity_flush_all(self, flag: int) -> None:
        self._do("flush", flag)
        self.completed(self.objects)

    def activity_get_num_dropped_records(self, context: int, stream: int, address: int) -> None:
        self._do("dropped")
        ctypes.c_size_t.from_address(address).value = self.losses

    def activity_push_external_correlation_id(self, kind: int, identifier: int) -> None:
        self._do("push", kind, identifier)

    def activity_pop_external_correlation_id(self, kind: int) -> None:
        self._do("pop", kind)

    def get_timestamp(self) -> int:
        return self.clock()

    def cuptiActivityRegisterCallbacks(self, requested: object, completed: object) -> int:  # noqa: N802
        self._do("direct", completed)
        return 0

    def cuptiSubscribe(self, *arguments: object) -> int:  # noqa: N802
        return self.subscription

    def cuptiUnsubscribe(self, subscriber: object) -> int:  # noqa: N802
        self._do("unsubscribe")
        return 0

    def cuptiActivityRegisterTimestampCallback(self, function: object) -> int:  # noqa: N802
        self._do("native clock", function)
        return 0


class IdleDevice:
    def drain(self) -> None:
        pass

    def probe(self) -> None:
        pass

    def probe_all_kinds(self) -> None:
        pass

    def profiler_running(self) -> bool:
        return False


def library(cupti: FakeCupti) -> Library:
    return Library(cupti, cupti, path="libcupti.so.13", version="13.0.1", demangle=str.upper)  # type: ignore[arg-type]


def start_and_stop(cuda: Library) -> None:
    cuda.start(1024)
    cuda.stop()


def traced(cupti: FakeCupti) -> set[tuple[str, int]]:
    """Which calls are traced after all that was switched."""
    switched = {(call[0], call[1]): call[2] for call in cupti.log if call[0] in ("runtime", "driver")}
    return {call for call, on in switched.items() if on}


# Fields of a kernel record that hold their own offset in `objects_of`.
LAUNCH = {
    **{f"grid_{axis}": 52 + 4 * i for i, axis in enumerate("xyz")},
    **{f"block_{axis}": 64 + 4 * i for i, axis in enumerate("xyz")},
    **{f"cluster_{axis}": 176 + 4 * i for i, axis in enumerate("xyz")},
    "static_shared_memory": 76,
    "dynamic_shared_memory": 80,
    "local_memory_per_thread": 84,
}


# Fields of an API record: offset and value.
API = {
    "cbid": (4, 5),
    "start": (8, 100),
    "end": (16, 250),
    "process_id": (24, 11),
    "thread_id": (28, 22),
    "correlation_id": (32, 33),
    "return_value": (36, 0),
}


def api_object(*changes: tuple[str, int]) -> Any:
    """The binding's object of a wait, over raw bytes that say the same but for `changes`."""
    raw = ctypes.create_string_buffer(40)
    ctypes.c_uint32.from_buffer(raw, 0).value = Kind.RUNTIME
    for offset, value in API.values():
        ctypes.c_uint32.from_buffer(raw, offset).value = value
    fields = {name: value for name, (_, value) in API.items()} | dict(changes)
    return SimpleNamespace(**fields, kind=Kind.RUNTIME, ptr=ctypes.addressof(raw), raw=raw)


def objects_of(*changes: tuple[str, int]) -> list[Any]:
    """The binding's objects of one record of each kind, each over raw bytes that say the same but for `changes`."""
    memory = ctypes.create_string_buffer(b"gemm")
    names = {"keep": memory, "address": ctypes.addressof(memory)}
    common = {"start": 10, "end": 20, "correlation_id": 3, "graph_node_id": 4, "stream_id": 5, "device_id": 6}
    offsets = {"start": 16, "end": 24, "device_id": 32, "stream_id": 40, "correlation_id": 44, "graph_node_id": 64}
    kernel = {**offsets, "device_id": 40, "stream_id": 48, "correlation_id": 92, "graph_node_id": 144, **LAUNCH}
    found = []
    for kind, places in ((Kind.CONCURRENT_KERNEL, kernel), (Kind.MEMCPY, offsets), (Kind.MEMSET, offsets)):
        raw = ctypes.create_string_buffer(216)
        ctypes.c_uint32.from_buffer(raw, 0).value = kind
        for name, offset in places.items():
            ctypes.c_uint32.from_buffer(raw, offset).value = common.get(name, offset)
        if kind == Kind.CONCURRENT_KERNEL:
            ctypes.c_uint64.from_buffer(raw, 104).value = names["address"]
        else:
            ctypes.c_uint8.from_buffer(raw, 4).value = 8 if kind == Kind.MEMCPY else 0
        found.append(
            SimpleNamespace(
                **{**common, **LAUNCH, "registers_per_thread": 0, **dict(changes)},
                kind=kind,
                name="gemm",
                copy_kind=8,
                ptr=ctypes.addressof(raw),
                raw=raw,
                names=names,
            )
        )
    raw = ctypes.create_string_buffer(24)
    ctypes.c_uint32.from_buffer(raw, 0).value = Kind.EXTERNAL_CORRELATION
    ctypes.c_uint32.from_buffer(raw, 4).value = LABEL_KIND
    ctypes.c_uint64.from_buffer(raw, 8).value = 77
    ctypes.c_uint32.from_buffer(raw, 16).value = 3
    found.append(
        SimpleNamespace(
            kind=Kind.EXTERNAL_CORRELATION,
            external_kind=LABEL_KIND,
            external_id=77,
            correlation_id=3,
            ptr=ctypes.addressof(raw),
            raw=raw,
        )
    )
    return found


def test_only_calls_that_put_work_on_the_device_are_traced() -> None:
    cupti = FakeCupti()
    start_and_stop(library(cupti))
    assert traced(cupti) == {("runtime", 2), ("runtime", 3), ("driver", 7)}
    assert ("runtime", 1, 0) in cupti.log


def test_calls_that_only_wait_are_known_by_name_whatever_their_version() -> None:
    waits = {(switch.kind, switch.cbid): switch.wait for switch in api_filter(FakeCupti()) if switch.wait}
    assert waits == {(Kind.RUNTIME, 5): "cudaStreamSynchronize", (Kind.DRIVER, 9): "cuCtxSynchronize"}


def test_waits_are_traced_in_the_session_that_asks_for_them_and_in_no_later_one() -> None:
    cupti = FakeCupti()
    cuda = library(cupti)
    cuda.start(1024, waits=True)
    cuda.stop()
    assert traced(cupti) == {("runtime", 2), ("runtime", 3), ("runtime", 5), ("driver", 7), ("driver", 9)}
    cuda.start(1024)
    assert traced(cupti) == {("runtime", 2), ("runtime", 3), ("driver", 7)}


def test_every_session_registers_then_enables_then_filters() -> None:
    cupti = FakeCupti()
    cuda = library(cupti)
    for _ in range(2):
        cupti.log.clear()
        cuda.start(1024)
        cuda.stop()
        steps = list(dict.fromkeys(call[0] for call in cupti.log))
        assert steps == ["direct", "clock", "dropped", "enable", "runtime", "driver", "flush", "disable"]


def test_the_clock_registered_is_the_hosts_in_nanoseconds() -> None:
    cupti = FakeCupti()
    library(cupti).start(1024)
    assert ("clock", time.time_ns) in cupti.log


def test_api_calls_that_this_libcupti_does_not_know_are_left_out_for_good() -> None:
    cupti = FakeCupti()
    cupti.refuse = lambda call: call == ("driver", 7, 1)
    cuda = library(cupti)
    cuda.start(1024)
    cuda.stop()
    cupti.log.clear()
    cuda.start(1024)
    assert ("driver", 7, 1) not in cupti.log
    assert ("runtime", 2, 1) in cupti.log


def test_stop_returns_the_number_of_lost_records() -> None:
    cupti = FakeCupti()
    cuda = library(cupti)
    cuda.start(1024)
    cupti.losses = 12
    assert cuda.stop() == 12


@pytest.mark.parametrize("refused", ["enable", "flush", "dropped", "clock"])
def test_a_refusal_is_a_timing_error_and_leaves_every_kind_off(refused: str) -> None:
    cupti = FakeCupti()
    cupti.refuse = lambda call: call[0] == refused
    with pytest.raises(TimingError, match=f"refused {refused}"):
        start_and_stop(library(cupti))
    assert {call[1] for call in cupti.log if call[0] == "disable"} == {int(kind) for kind in KINDS}


def test_sessions_do_not_nest() -> None:
    cuda = library(FakeCupti())
    cuda.start(1024)
    with pytest.raises(TimingError, match="one is already open"):
        cuda.start(1024)


def test_a_refused_second_session_leaves_the_first_one_running() -> None:
    cupti = FakeCupti()
    cuda = library(cupti)
    cuda.start(1024)
    with pytest.raises(TimingError):
        cuda.start(1024)
    assert not any(call[0] == "disable" for call in cupti.log)


def test_a_drop_counter_that_counts_nothing_is_refused() -> None:
    cupti = FakeCupti()
    cupti.losses = 0
    with pytest.raises(TimingError, match="drop counter read 0 after 20 launches"):
        library(cupti).verify(IdleDevice())


def test_a_layout_that_agrees_with_the_binding_is_decoded_directly() -> None:
    cupti = FakeCupti()
    cupti.objects = objects_of()
    cuda = library(cupti)
    cuda.verify(IdleDevice())
    cupti.log.clear()
    cuda.start(1024)
    assert cuda.notes == ()
    assert cupti.log[0][0] == "direct"


def test_a_layout_that_differs_falls_back_to_the_bindings_objects_and_says_so() -> None:
    cupti = FakeCupti()
    cupti.objects = objects_of(("stream_id", 99))
    cuda = library(cupti)
    cuda.verify(IdleDevice())
    assert "record kind 10 decoded as" in cuda.notes[0]
    cuda.start(1024)
    cuda.stop()
    found = cuda.decoded()
    assert [(work.kind, work.name, work.stream_id) for work in found.activities] == [
        ("kernel", "GEMM", 99),
        ("copy", "memcpy DtoD", 99),
        ("memset", "memset", 99),
    ]
    assert found.external_ids == {3: 77}


@pytest.mark.parametrize("field", ["grid_y", "block_z", "cluster_x", "registers_per_thread", "dynamic_shared_memory"])
def test_a_launch_field_that_lies_elsewhere_is_noticed(field: str) -> None:
    cupti = FakeCupti()
    cupti.objects = objects_of((field, 999))
    cuda = library(cupti)
    cuda.verify(IdleDevice())
    assert "record kind 10 decoded as" in cuda.notes[0]


def test_waits_of_a_session_that_asks_for_them_are_read() -> None:
    cupti = FakeCupti()
    cupti.objects = [*objects_of(), api_object()]
    cuda = library(cupti)
    cuda.verify(IdleDevice())
    cuda.start(1024, waits=True)
    cuda._buffers._chunks.append(bytes(api_object().raw)[:40])
    cuda._sizes[Kind.RUNTIME] = 40
    cuda.stop()
    assert cuda.notes == ()
    assert cuda.decoded().waits == [Wait("cudaStreamSynchronize", 100, 250, 22, 33)]


@pytest.mark.parametrize("field", list(API))
def test_an_api_record_that_is_laid_out_otherwise_costs_the_waits_and_says_so(field: str) -> None:
    cupti = FakeCupti()
    cupti.objects = [*objects_of(), api_object((field, 999))]
    cuda = library(cupti)
    cuda.verify(IdleDevice())
    cuda.start(1024)
    assert cuda.notes == ()
    cuda.stop()
    cuda.start(1024, waits=True)
    (note,) = cuda.notes
    assert note.startswith("the host's waits for the device are not recorded: record kind 5 decoded as ApiCall(")
    assert ("runtime", 5) not in traced(cupti)
    assert cupti.log[-1][0] == "driver"  # it records all the same


def test_without_an_api_record_to_check_against_waits_are_not_believed() -> None:
    cupti = FakeCupti()
    cupti.objects = objects_of()
    cuda = library(cupti)
    cuda.verify(IdleDevice())
    cuda.start(1024, waits=True)
    assert cuda.notes[0].endswith("no record of a known API call to check against")


def test_the_bindings_objects_tell_waits_too() -> None:
    cupti = FakeCupti()
    cupti.objects = [*objects_of(("stream_id", 99)), api_object()]
    cuda = library(cupti)
    cuda.verify(IdleDevice())
    cuda.start(1024, waits=True)
    cuda.stop()
    assert cuda.decoded().waits == [Wait("cudaStreamSynchronize", 100, 250, 22, 33)]


def test_a_forked_child_is_refused_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cupti = FakeCupti()
    cuda = library(cupti)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(TimingError, match=r"of which this one .* is a fork"):
        cuda.start(1024)
    cuda.retire()
    assert cupti.log == []


def test_a_label_popped_by_somebody_else_is_no_error_of_the_bindings() -> None:
    cupti = FakeCupti()
    cupti.refuse = lambda call: call[0] == "pop"
    assert library(cupti).pop(LABEL_KIND) is None


def test_an_attached_tool_ends_it_before_anything_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti_library, "attached_tool", lambda: "Nsight Compute (ncu)")
    cupti = FakeCupti()
    with pytest.raises(TimingError, match=r"Nsight Compute \(ncu\) is attached"):
        library(cupti).verify(IdleDevice())
    assert cupti.log == []


@pytest.mark.parametrize(("status", "client"), [(0, ""), (39, "a subscriber of CUPTI's callbacks (status 39)")])
def test_whoever_holds_the_subscription_is_named(status: int, client: str) -> None:
    cupti = FakeCupti()
    cupti.subscription = status
    assert library(cupti).other_client() == client
    assert (("unsubscribe",) in cupti.log) == (status == 0)


def test_a_layout_that_nothing_could_be_checked_against_is_not_trusted() -> None:
    cuda = library(FakeCupti())
    cuda.verify(IdleDevice())
    assert "no record of a known copy, kernel, label, memset" in cuda.notes[0]


def test_the_proofs_are_made_once() -> None:
    cupti = FakeCupti()
    cuda = library(cupti)
    cuda.verify(IdleDevice())
    cupti.log.clear()
    cuda.verify(IdleDevice())
    assert cupti.log == []


def test_a_clock_in_ticks_is_a_clock_error() -> None:
    cupti = FakeCupti()
    cupti.clock = lambda: 10**15
    with pytest.raises(ClockError, match="CUPTI's clock reads 1000000000000000"):
        library(cupti).read_clock()


def test_a_process_ends_with_nothing_of_pythons_registered() -> None:
    cupti = FakeCupti()
    cuda = library(cupti)
    start_and_stop(cuda)
    cuda.retire()
    last = {call[0]: call for call in cupti.log}
    libc = ctypes.CDLL(None)
    assert last["native clock"][1].value == ctypes.cast(libc.clock, ctypes.c_void_p).value
    assert last["direct"][1].value == ctypes.cast(libc.getpid, ctypes.c_void_p).value
    assert cupti.log[-2:] == [last["native clock"], last["direct"]]
