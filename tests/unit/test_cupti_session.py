"""The CUPTI timer's rules (fail closed, retry, attribute), on a scripted instrument. No torch, no GPU."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest

from graphbench.device_records import DeviceKernel
from graphbench.errors import ClockError, RecordsLostError, SetupError, TimingError
from graphbench.provenance.correlation import Activity
from graphbench.provenance.graph_replay import LaunchedWork
from graphbench.timing.base import Session, SplitsReplays
from graphbench.timing.cupti import BUFFER_BYTES, CuptiTimer
from graphbench.timing.cupti_library import ClockReading
from graphbench.timing.cupti_records import LABEL_KIND, Decoded, Wait
from graphbench.timing.cupti_session import Attempt
from graphbench.timing.cupti_setup import _agree, _mapped_libcupti, _not_newer, install_command
from graphbench.timing.cupti_timeline import outermost
from graphbench.timing.tools import attached_tool
from tests.timer_contract import TimerContract, one_label

GEMM = DeviceKernel(name="gemm", stream=7, device=0)


class ScriptedGpu:
    """Instrument and device in one: `launch` records a kernel of 1 µs under this thread's latest label."""

    notes: tuple[str, ...] = ()

    def __init__(self, dropped: Sequence[int] = ()) -> None:
        self.dropped = list(dropped)
        self.buffers: list[int] = []
        self.waits = False
        self.recording = False
        self.profiling = False
        self.client = ""
        self.slope = 1.0
        self.stepped_ns = 0
        self.deaf: Callable[[str], bool] = lambda name: False
        self.stamp: Callable[[int], int] = lambda now: now
        self._found = Decoded()
        self._stacks: dict[int, list[int]] = defaultdict(list)
        self._correlations = itertools.count(1)
        self._epoch = time.time_ns()

    def verify(self, device: object) -> None:
        pass

    def start(self, buffer_bytes: int, *, waits: bool = False) -> None:
        self.buffers.append(buffer_bytes)
        self.waits = waits
        self.recording = True
        self._found = Decoded()

    def stop(self) -> int:
        self.recording = False
        return self.dropped.pop(0) if self.dropped else 0

    def abort(self) -> None:
        self.recording = False

    def decoded(self) -> Decoded:
        return self._found

    def read_clock(self) -> ClockReading:
        now = time.time_ns()
        return ClockReading(self._epoch + int((now - self._epoch) * self.slope) + self.stepped_ns, now, now)

    def push(self, kind: int, identifier: int, /) -> None:
        self._stacks[threading.get_ident()].append(identifier)

    def pop(self, kind: int, /) -> int | None:
        stack = self._stacks[threading.get_ident()]
        return stack.pop() if stack else None

    def other_client(self) -> str:
        return self.client

    def launch(self, name: str = "kernel", graph_node: int = 0) -> None:
        if not self.recording or self.deaf(name):
            return
        correlation = self._correlation()
        start = self.stamp(time.time_ns())
        self._found.activities.append(Activity("kernel", name, start, start + 1000, correlation, graph_node, 7, 0))
        time.sleep(2e-6)

    def wait(self, name: str = "cudaStreamSynchronize") -> None:
        """Wait for 2 µs."""
        if self.recording and self.waits:
            start, thread = time.time_ns(), threading.get_ident() & 0xFFFFFFFF
            self._found.waits.append(Wait(name, start, start + 2000, thread, self._correlation()))
            time.sleep(4e-6)

    def _correlation(self) -> int:
        correlation = next(self._correlations)
        stack = self._stacks[threading.get_ident()]
        if stack:
            self._found.external_ids[correlation] = stack[-1]
        return correlation

    def drain(self) -> None:
        self.wait("cudaDeviceSynchronize")

    def probe(self) -> None:
        self.launch("probe")

    def probe_all_kinds(self) -> None:
        self.launch("probe")

    def profiler_running(self) -> bool:
        return self.profiling


@pytest.fixture
def gpu() -> ScriptedGpu:
    return ScriptedGpu()


@pytest.fixture
def timer(gpu: ScriptedGpu) -> CuptiTimer:
    return timer_of(gpu)


def timer_of(gpu: ScriptedGpu) -> CuptiTimer:
    return CuptiTimer("cuda:0", "warm", instrument=gpu, devices=gpu)


class TestContract(TimerContract):
    @pytest.fixture
    def work(self, gpu: ScriptedGpu) -> Callable[[], None]:
        return gpu.launch


def test_device_time_is_the_kernels_and_host_time_the_labels(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    def work() -> None:
        gpu.launch("gemm")
        time.sleep(0.001)

    cost = timer.record(one_label(work)).rows["a"][0]
    assert (cost.busy_ns, cost.n_kernels, cost.device_kernels) == (1000, 1, (GEMM,))
    assert cost.host_ns >= 1_000_000


def test_a_label_that_launches_nothing_is_a_measured_zero(timer: CuptiTimer) -> None:
    cost = timer.record(one_label(lambda: None)).rows["a"][0]
    assert (cost.busy_ns, cost.n_kernels, cost.device_kernels) == (0, 0, ())


def test_a_window_without_device_work_is_a_measured_zero(timer: CuptiTimer) -> None:
    def body(session: Session) -> None:
        with session.window(0):
            pass

    assert timer.record(body).runs[0].busy_ns == 0


def test_launches_outside_every_label_are_unattributed_by_name(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    def body(session: Session) -> None:
        with session.window(0):
            with session.label("a", 0):
                gpu.launch()
            gpu.launch("stray")

    recording = timer.record(body)
    assert recording.unattributed == ("stray",)
    assert (recording.runs[0].busy_ns, recording.runs[0].unattributed_ns) == (2000, 1000)


def test_the_test_launches_of_a_session_count_nowhere(timer: CuptiTimer) -> None:
    recording = timer.record(lambda session: None)
    assert (recording.rows, recording.runs, recording.unattributed) == ({}, {}, ())


def test_lost_records_are_measured_again_with_buffers_four_times_as_large() -> None:
    gpu = ScriptedGpu(dropped=[9, 5, 0])
    recording = timer_of(gpu).record(one_label(gpu.launch))
    assert gpu.buffers == [BUFFER_BYTES, 4 * BUFFER_BYTES, 16 * BUFFER_BYTES]
    assert (recording.rows["a"][0].calls, recording.dropped) == (1, 0)


def test_records_lost_every_time_are_an_error_that_says_how_many() -> None:
    gpu = ScriptedGpu(dropped=[9, 5, 3, 1, 0])
    with pytest.raises(RecordsLostError, match=r"lost 9, 5, 3, 1 records in 4 session\(s\), .* 536870912 bytes"):
        timer_of(gpu).record(one_label(gpu.launch))


def test_a_body_that_must_not_run_twice_does_not() -> None:
    gpu, calls = ScriptedGpu(dropped=[9, 0]), []
    with pytest.raises(RecordsLostError, match="lost 9 records"):
        timer_of(gpu).record(one_label(lambda: calls.append(1)), repeats=0)
    assert calls == [1]


def test_a_block_that_lost_records_says_so_behind_it() -> None:
    gpu = ScriptedGpu(dropped=[9, 0])
    with timer_of(gpu).open() as opened:
        pass
    with pytest.raises(RecordsLostError, match=r"lost 9 records in 1 session\(s\), .* 8388608 bytes"):
        opened.recording()
    assert len(gpu.buffers) == 1


def test_a_blocks_error_switches_recording_off(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    with pytest.raises(KeyboardInterrupt), timer.open(timeline=True):
        raise KeyboardInterrupt
    assert not gpu.recording


def test_a_timeline_has_all_device_work_of_the_window_and_no_preparation(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    with timer.open(timeline=True) as opened, opened.session.window(0):
        with opened.session.preparation():
            gpu.launch("flush")
        gpu.launch("stray")
        with opened.session.label("a", 0):
            gpu.launch("gemm")
    recording = opened.recording()
    device = [event for event in recording.timeline if event.device == 0]
    assert [(event.kind, event.row, event.name, event.lane) for event in device] == [
        ("kernel", None, "stray", 7),
        ("kernel", "a", "gemm", 7),
    ]
    assert [event.duration_ns for event in device] == [1000, 1000]
    label = next(event for event in recording.timeline if event.kind == "host")
    assert label.start_ns <= device[1].start_ns <= label.start_ns + label.duration_ns


def test_waits_are_in_the_timeline_with_their_label_and_thread(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    with timer.open(timeline=True) as opened, opened.session.window(0):
        gpu.wait("cudaEventSynchronize")
        with opened.session.label("item", 0):
            gpu.wait()
        thread = threading.Thread(target=gpu.wait, args=("cuCtxSynchronize",))
        thread.start()
        thread.join()
    waits = [event for event in opened.recording().timeline if event.kind == "sync"]
    assert [(event.row, event.name, event.lane, event.duration_ns, event.device) for event in waits] == [
        (None, "cudaEventSynchronize", 0, 2000, -1),
        ("item", "cudaStreamSynchronize", 0, 2000, -1),
        (None, "cuCtxSynchronize", 1, 2000, -1),
    ]
    assert all(event.start_ns > 0 for event in waits)


def test_what_the_session_itself_waits_for_is_not_in_the_timeline(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    with timer.open(timeline=True) as opened:
        for sample in range(2):
            with opened.session.window(sample), opened.session.preparation():
                timer.synchronize()
    assert len(gpu.decoded().waits) == 2 * 3 + 1
    assert opened.recording().timeline == ()


@pytest.mark.parametrize("timeline", [False, True])
def test_waits_are_traced_only_for_a_timeline(gpu: ScriptedGpu, timer: CuptiTimer, timeline: bool) -> None:
    with timer.open(timeline=timeline):
        assert gpu.waits is timeline


def test_a_wait_of_the_driver_inside_one_of_the_runtime_is_the_same_wait() -> None:
    waits = [Wait("inner", 12, 18, 1, 5), Wait("outer", 10, 20, 1, 4), Wait("other thread", 12, 18, 2, 6)]
    waits.append(Wait("next", 20, 30, 1, 7))
    assert [wait.name for wait in outermost(waits)] == ["outer", "other thread", "next"]


def test_recording_is_switched_off_after_an_error_of_the_body(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    def body(session: Session) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        timer.record(body)
    assert not gpu.recording


def test_a_running_profiler_is_refused_before_anything_is_recorded(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    gpu.profiling = True
    with pytest.raises(TimingError, match=r"torch\.profiler is running before the session"):
        timer.record(one_label(gpu.launch))
    assert gpu.buffers == []


def test_a_profiler_started_by_the_body_is_refused(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    with pytest.raises(TimingError, match=r"torch\.profiler is running inside the session"):
        timer.record(lambda session: setattr(gpu, "profiling", True))
    assert not gpu.recording


def test_a_session_without_any_record_is_an_error_not_zeros(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    gpu.deaf = lambda name: True
    with pytest.raises(TimingError, match="the opening and the closing test launch") as caught:
        timer.record(one_label(gpu.launch))
    assert "torch.profiler" in str(caught.value.hint)


def test_a_recording_that_dies_midway_is_an_error(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    def die() -> None:
        gpu.deaf = lambda name: True

    with pytest.raises(TimingError, match="did not record the closing test launch"):
        timer.record(one_label(die))


def test_a_clock_of_another_rate_is_an_error(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    gpu.slope = 2.1
    with pytest.raises(ClockError, match=r"counted \d+\.\d ms while \d+\.\d ms passed"):
        timer.record(one_label(gpu.launch))


@pytest.mark.parametrize("stepped_ns", [-40_000_000, 40_000_000])
def test_a_host_clock_that_was_set_meanwhile_is_an_error(gpu: ScriptedGpu, timer: CuptiTimer, stepped_ns: int) -> None:
    def step() -> None:
        gpu.stepped_ns = stepped_ns

    with pytest.raises(ClockError, match="the host's clock was set while measuring"):
        timer.record(one_label(step))


def test_stamps_outside_the_session_are_an_error(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    gpu.stamp = lambda now: now // 1000
    with pytest.raises(ClockError, match="probe: stamped"):
        timer.record(one_label(gpu.launch))


def test_a_missing_stamp_is_named_as_such(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    gpu.stamp = lambda now: 0
    with pytest.raises(TimingError, match="no time stamp"):
        timer.record(one_label(gpu.launch))


def test_what_the_instrument_notes_is_in_the_recording(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    gpu.notes = ("slow way",)
    assert timer.record(one_label(gpu.launch)).notes == ("slow way",)


def test_the_one_mapped_libcupti_is_found() -> None:
    line = "7f00-7f01 r-xp 00000000 08:01 5    {}\n"
    maps = line.format("/lib/libc.so.6") + 2 * line.format("/my env/lib/libcupti.so.13") + "7f02-7f03 rw-p 0 00:00 0\n"
    assert _mapped_libcupti(maps) == "/my env/lib/libcupti.so.13"


@pytest.mark.parametrize(("paths", "count"), [((), 0), (("/a/libcupti.so.12", "/b/libcupti.so.13"), 2)])
def test_no_or_several_libcuptis_are_a_setup_error(paths: Sequence[str], count: int) -> None:
    maps = "".join(f"7f00-7f01 r-xp 0 08:01 5 {path}\n" for path in paths)
    with pytest.raises(SetupError, match=f"libcupti: {count} copies are loaded"):
        _mapped_libcupti(maps)


def test_a_binding_of_another_cuda_major_is_a_setup_error_with_the_command_that_helps() -> None:
    with pytest.raises(SetupError, match=r"cupti-python 12\.8\.0 beside a torch built for CUDA 13") as caught:
        _agree("cupti-python", "12.8.0", 13)
    assert caught.value.hint == install_command(13) == 'pip install "cupti-python>=13.0.1,<14"'


def test_a_binding_of_the_same_cuda_major_is_accepted() -> None:
    assert _agree("cupti-python", "13.4.0", 13) is None


def test_ids_that_the_timed_code_pushes_over_a_label_are_named(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    def work() -> None:
        gpu.push(LABEL_KIND, 17)
        gpu.launch("gemm")
        gpu.pop(LABEL_KIND)

    with pytest.raises(TimingError, match="gemm: carries label id 17, which this session never gave out"):
        timer.record(one_label(work))


@pytest.mark.parametrize(("spoil", "found"), [("push", "17"), ("pop", "none")])
def test_a_label_that_is_not_on_top_when_it_ends_is_named(
    gpu: ScriptedGpu, timer: CuptiTimer, spoil: str, found: str
) -> None:
    def work() -> None:
        if spoil == "push":
            gpu.push(LABEL_KIND, 17)
        else:
            gpu.pop(LABEL_KIND)

    with pytest.raises(TimingError, match=f"expected id [0-9]+, found {found}") as caught:
        timer.record(one_label(work))
    assert gpu.pop(LABEL_KIND) is None  # nothing is left for the next session to trip over
    assert "CUSTOM2" in (caught.value.hint or "")


def test_sessions_give_out_ids_that_nobody_guesses(gpu: ScriptedGpu) -> None:
    first, second = (Attempt(gpu, gpu).next_id() for _ in range(2))
    assert first >> 20 != second >> 20


def test_the_client_that_takes_the_records_is_named(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    gpu.client = "Nsight Systems (nsys)"
    gpu.deaf = lambda name: True
    with pytest.raises(TimingError) as caught:
        timer.record(one_label(lambda: None))
    assert caught.value.hint == "Nsight Systems (nsys) takes the records; measure without it"


def test_a_binding_newer_than_the_library_is_refused() -> None:
    _not_newer("13.0.1", "13.0.1")
    _not_newer("13.0.1", "13.4.0")
    with pytest.raises(SetupError, match=r"cupti-python 13.2.0 beside libcupti 13.0.1") as caught:
        _not_newer("13.2.0", "13.0.1")
    assert caught.value.hint == 'pip install "cupti-python~=13.0.0"'


@pytest.mark.parametrize(
    ("mapped", "tool"),
    [
        ("7f00-7f01 r-xp 0 00:00 1 /opt/nvidia/nsight-compute/target/libcuda-injection.so\n", "Nsight Compute (ncu)"),
        ("7f00-7f01 r-xp 0 00:00 1 /usr/lib/libcuda.so.1\n", ""),
    ],
)
def test_an_attached_tool_is_known_by_its_library(mapped: str, tool: str) -> None:
    assert attached_tool(mapped) == tool


def test_a_replay_is_split_over_the_rows_of_a_labelled_run(gpu: ScriptedGpu, timer: CuptiTimer) -> None:
    def labelled(session: Session) -> None:
        with session.window(0):
            for row, name in (("a", "gemm"), ("b", "softmax")):
                with session.label(row, 0):
                    gpu.launch(name)

    order = timer.record(labelled).order
    assert order == (LaunchedWork("a", "gemm"), LaunchedWork("b", "softmax"))

    def replayed(session: Session) -> None:
        assert isinstance(session, SplitsReplays)
        with session.window(0), session.replay(0, order):
            gpu.launch("copy of the input")
            for node, name in enumerate(("gemm", "softmax")):
                gpu.launch(name, graph_node=node + 1)

    found = timer.record(replayed)
    assert {row: (samples[0].busy_ns, samples[0].host_ns) for row, samples in found.rows.items()} == {
        "a": (1000, None),
        "b": (1000, None),
    }
    run = found.runs[0]
    assert (run.busy_ns, run.beside_ns, run.unattributed_ns, run.n_kernels) == (3000 - run.overlap_ns, 1000, 0, 3)
