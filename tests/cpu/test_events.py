"""Timing events: the contract on a device whose clock only its own work moves, and what is theirs alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
import torch

from graphbench import document
from graphbench.analysis.diff import diff
from graphbench.analysis.diff_rule import noise_between_runs
from graphbench.analysis.summary import summary
from graphbench.analysis.warning_kinds import EVENT_FLOOR, warning_kind
from graphbench.condition_records import Policy
from graphbench.conservation import check
from graphbench.errors import (
    AttributionError,
    ClockError,
    ConservationError,
    ProfileFormatError,
    SetupError,
    UsageError,
)
from graphbench.measurements import Measurement, RunRecord, TimerName
from graphbench.measuring import options as options_module
from graphbench.measuring.options import timers_for
from graphbench.options import MeasureOptions
from graphbench.records import ProfileRecord, Side
from graphbench.report.overview import finding_lines, totals_table
from graphbench.timing.base import Session, Timer
from graphbench.timing.batch import batch_times
from graphbench.timing.events import EventTimer, TorchEvents
from graphbench.timing.loop import measure
from tests import factories
from tests.timer_contract import TimerContract, one_label

MARK_NS = 2_000
WORK_NS = 100_000_000  # far longer than any host time of these tests


@dataclass
class FakeEvent:
    """Reads the clock of the stream that it is recorded in; being recorded takes the stream a while."""

    clocks: dict[str, float]
    at_ns: float | None = None

    def record(self, stream: str) -> None:
        self.clocks[stream] += MARK_NS
        self.at_ns = self.clocks[stream]

    def elapsed_time(self, later: FakeEvent) -> float:
        assert self.at_ns is not None
        assert later.at_ns is not None
        return (later.at_ns - self.at_ns) / 1e6


@dataclass
class FakeDevice:
    """Two streams, each with a clock. Draining makes them meet."""

    clocks: dict[str, float] = field(default_factory=lambda: {"main": 0.0, "side": 0.0})
    here: threading.local = field(default_factory=threading.local)
    made: list[FakeEvent] = field(default_factory=list)

    def event(self) -> FakeEvent:
        self.made.append(FakeEvent(self.clocks))
        return self.made[-1]

    def stream(self) -> str:
        return getattr(self.here, "stream", "main")

    def drain(self) -> None:
        now = max(self.clocks.values())
        self.clocks.update(dict.fromkeys(self.clocks, now))

    def work(self, ns: float = WORK_NS) -> None:
        self.clocks[self.stream()] += ns

    @contextmanager
    def on(self, stream: str) -> Iterator[None]:
        self.here.stream = stream
        yield
        self.here.stream = "main"


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def timer(device: FakeDevice) -> EventTimer:
    return EventTimer("xpu:0", "warm", events=device)


class TestContract(TimerContract):
    @pytest.fixture
    def work(self, device: FakeDevice) -> Callable[[], None]:
        return device.work


def test_busy_and_span_are_the_time_between_two_events(timer: EventTimer, device: FakeDevice) -> None:
    cost = timer.record(one_label(device.work)).rows["a"][0]
    assert cost.busy_ns == cost.span_ns == pytest.approx(WORK_NS + MARK_NS)


def test_what_events_cannot_see_is_missing_not_zero(timer: EventTimer, device: FakeDevice) -> None:
    cost = timer.record(one_label(device.work)).rows["a"][0]
    assert (cost.kernel_ns, cost.copy_ns, cost.memset_ns, cost.n_kernels, cost.device_kernels) == (None,) * 4 + ((),)


def test_a_recording_leaves_it_to_the_report_to_say_what_busy_means(timer: EventTimer, device: FakeDevice) -> None:
    assert timer.record(one_label(device.work)).notes == ()


@pytest.mark.parametrize(("where", "name"), [("cuda:1", "cuda-events"), ("xpu:0", "device-events")])
def test_its_name_tells_cuda_from_other_devices(where: str, name: str, device: FakeDevice) -> None:
    assert EventTimer(where, "warm", events=device).name == name


def test_other_devices_know_only_a_warm_cache(device: FakeDevice) -> None:
    with pytest.raises(UsageError, match="'cold-read' on 'xpu:0': only a CUDA device's L2"):
        EventTimer("xpu:0", "cold-read", events=device)


def test_what_no_label_claims_is_the_wrappers(timer: EventTimer, device: FakeDevice) -> None:
    def body(session: Session) -> None:
        with session.window(0):
            with session.label("a", 0):
                device.work()
            device.work(5_000_000)

    timer.record(body)  # the first session makes events, which takes time between the labels
    run = timer.record(body).runs[0]
    assert run.wrapper_ns == pytest.approx(5_000_000 + 2 * MARK_NS)
    assert run.busy_ns == pytest.approx(WORK_NS + 5_000_000 + 3 * MARK_NS)
    assert (run.unattributed_ns, run.overlap_ns, run.n_kernels) == (0.0, 0.0, None)


def test_preparation_inside_a_window_is_no_part_of_it(timer: EventTimer, device: FakeDevice) -> None:
    def body(session: Session) -> None:
        with session.window(0):
            with session.preparation():
                device.work(50 * WORK_NS)
                time.sleep(0.05)
            with session.label("a", 0):
                device.work()

    run = timer.record(body).runs[0]
    assert run.busy_ns < 2 * WORK_NS
    assert run.wall_ns < 40_000_000


def test_events_are_recorded_on_the_stream_of_the_thread_that_launches(timer: EventTimer, device: FakeDevice) -> None:
    def body(session: Session) -> None:
        with device.on("side"), session.label("a", 0):
            device.work()

    assert timer.record(body).rows["a"][0].busy_ns == pytest.approx(WORK_NS + MARK_NS)


def test_events_are_made_before_they_bracket_anything_and_used_again(timer: EventTimer, device: FakeDevice) -> None:
    timer.record(one_label(device.work))
    made = len(device.made)
    timer.record(one_label(device.work))
    assert len(device.made) == made


def test_labels_at_once_on_two_streams_are_an_error_not_a_double_count(timer: EventTimer, device: FakeDevice) -> None:
    def body(session: Session) -> None:
        with session.window(0):
            with session.label("a", 0):
                device.work()
            with device.on("side"), session.label("b", 0):
                device.work(WORK_NS / 2)
            device.work()  # idle enough that the sum of the rows alone would not betray them

    with pytest.raises(AttributionError, match=r"sample 0: b ends \d+ ns after a has started") as caught:
        timer.record(body)
    assert "several streams" in str(caught.value)


def test_a_label_that_outlasts_its_window_is_an_error(timer: EventTimer, device: FakeDevice) -> None:
    def body(session: Session) -> None:
        with session.window(0), device.on("side"), session.label("a", 0):
            device.work()

    with pytest.raises(AttributionError, match=r"a ends \d+ ns after what comes after the run has started"):
        timer.record(body)


def test_nested_labels_are_an_error(timer: EventTimer, device: FakeDevice) -> None:
    def body(session: Session) -> None:
        with session.window(0), session.label("outer", 0), session.label("inner", 0):
            device.work()

    with pytest.raises(AttributionError, match=r"outer ends \d+ ns after inner has started"):
        timer.record(body)


def test_a_clock_that_runs_backward_is_an_error(timer: EventTimer, device: FakeDevice) -> None:
    with pytest.raises(ClockError, match=r"a: -\d+ ns between its events, expected at least 0"):
        timer.record(one_label(lambda: device.work(-WORK_NS)))


# --- the floor --------------------------------------------------------------------------------------------------------


@dataclass
class Call:
    """A unit that makes the fake device work."""

    work: Callable[[], object]
    name: str = "row"
    device: str = "xpu:0"
    may_launch_nothing: bool = True
    needs_restore: bool = False

    def prepare(self) -> None:
        pass

    def run(self) -> object:
        return self.work()

    def allocations(self) -> int | None:
        return None


POLICY = Policy(timer="device-events", cache="warm", values="captured", warmup=1, repeat=20)


def test_the_floor_is_what_an_empty_pair_reads(timer: EventTimer) -> None:
    assert timer.floor_ns == pytest.approx(MARK_NS)


def test_a_call_without_device_work_shows_the_floor_and_is_told_so(timer: EventTimer) -> None:
    found = measure(timer, Call(lambda: None), POLICY)
    assert found.samples is not None
    assert found.samples.busy_ns == pytest.approx((MARK_NS,) * 20)
    assert any(warning_kind(warning) == EVENT_FLOOR for warning in found.warnings)


def test_a_call_that_the_device_outlasts_is_not_called_a_floor(timer: EventTimer, device: FakeDevice) -> None:
    found = measure(timer, Call(device.work), POLICY)
    assert [warning for warning in found.warnings if warning.startswith("event floor")] == []
    assert (found.timer, found.cache) == ("device-events", "warm")


def test_of_many_rows_those_at_the_floor_are_named(timer: EventTimer, device: FakeDevice) -> None:
    def body(session: Session) -> None:
        with session.label("view", 0):
            pass
        with session.label("matmul", 0):
            device.work()

    (note,) = timer.record(body).notes
    assert note.startswith(f"{EVENT_FLOOR}: view: the device ended with")


def test_a_batch_does_not_count_the_time_held(timer: EventTimer, device: FakeDevice) -> None:
    units = [Call(device.work) for _ in range(4)]
    found = batch_times(timer, units, POLICY, hold=lambda _: device.work(50 * WORK_NS))
    assert found == pytest.approx((WORK_NS + MARK_NS / 4,) * 20)


# --- torch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["cpu", "meta"])
def test_a_device_without_events_is_a_setup_error(where: str) -> None:
    with pytest.raises(SetupError, match=f"{where}: expected an index and the accelerator of this process"):
        TorchEvents(where)


def test_events_that_keep_no_time_are_a_setup_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def accelerator(check_available: bool = False) -> torch.device:
        return torch.device("xpu")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", accelerator)
    with pytest.raises(SetupError, match="xpu:0: its events keep no time: "):
        TorchEvents("xpu:0")


def test_cuda_events_are_refused_on_the_cpu() -> None:
    with pytest.raises(UsageError, match="timer='cuda-events' times CUDA devices; this model runs on the CPU"):
        timers_for(MeasureOptions(timer="cuda-events"), torch.device("cpu"))


# --- profiles made with events ----------------------------------------------------------------------------------------


def with_timer(found: Measurement, timer: TimerName) -> Measurement:
    return replace(found, timer=timer)


def event_profile(timer: TimerName = "cuda-events", *, rows_ns: float = 60_000.0, **changes: object) -> ProfileRecord:
    """One region whose forward kernel takes 60 of 80 µs between the run's events, in 10 runs."""
    n = 10
    row = with_timer(factories.steady(rows_ns, n=n), timer)
    run = RunRecord(
        busy_ns=(80_000.0,) * n,
        wall_ns=(200_000.0,) * n,
        unattributed_ns=(0.0,) * n,
        overlap_ns=(0.0,) * n,
        wrapper_ns=(20_000.0,) * n,
        timer=timer,
    )
    run = replace(run, **changes)  # type: ignore[arg-type]
    kernel = replace(factories.kernel("k"), in_graph=row, isolated=row)
    side = Side(run=run, plain=with_timer(factories.steady(80_000.0), timer))
    return factories.profile(factories.region(kernels=[kernel], forward=side), timer=timer)


def test_rows_and_wrapper_are_busy_but_not_wall() -> None:
    check(event_profile())


def test_rows_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ConservationError, match=r"rows \+ wrapper - overlap is 60000 ns, expected busy = 80000 ns"):
        check(event_profile(rows_ns=40_000.0))


def test_a_run_between_events_has_a_wrappers_time() -> None:
    with pytest.raises(ProfileFormatError, match="expected a column, as of every run between events"):
        check(event_profile(wrapper_ns=None))


def test_the_coverage_line_claims_only_what_labels_bracket() -> None:
    record = event_profile()
    (line,) = (line for line in finding_lines(record, summary(record)) if line.startswith("coverage"))
    what = "labelled 75.00 % (1 row); cuda-events cannot tell whether the other 25.0 % was idle or unlabelled work"
    assert line == f"coverage: {what}"


def test_the_plain_run_is_not_called_device_busy() -> None:
    record = event_profile()
    _, rows = totals_table(summary(record), "cuda-events")
    assert "plain run (between events)" in [row[0] for row in rows]


def test_profiles_of_events_and_cupti_are_not_compared() -> None:
    with pytest.raises(UsageError, match="different timers: cupti and cuda-events"):
        diff(factories.profile(timer="cupti"), event_profile())


@pytest.mark.parametrize("timer", ["cuda-events", "device-events"])
def test_between_runs_events_are_as_noisy_as_the_host(timer: TimerName) -> None:
    assert noise_between_runs(timer) == noise_between_runs("wallclock") > noise_between_runs("cupti")


def test_a_profile_of_events_is_read_as_it_was_written() -> None:
    record = event_profile()
    assert document.loads(document.dumps(record)) == record


class _Chosen:
    """Stands in for `EventTimer` where no device is."""

    def __init__(self, device: str, cache: str) -> None:
        self.given = (device, cache)


def test_auto_takes_events_on_other_accelerators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options_module, "EventTimer", _Chosen)
    chosen: Timer = timers_for(MeasureOptions(), torch.device("meta")).isolated
    assert chosen.given == ("meta", "warm")  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "value"), [("timer", "cupti"), ("timer", "cuda-events"), ("l2", "cold-read")])
def test_what_only_cuda_has_is_refused_on_other_accelerators(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{name}='{value}' is for CUDA devices; this model runs on meta"):
        timers_for(MeasureOptions(**{name: value}), torch.device("meta"))  # type: ignore[arg-type]
