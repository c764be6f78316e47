"""CUDA events and batch-execute on a real device: the contract, and how far events may be believed beside CUPTI."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

import graphbench
from graphbench.analysis.stats import quantile
from graphbench.analysis.warning_kinds import EVENT_FLOOR, warning_kind
from graphbench.condition_records import Policy
from graphbench.errors import AttributionError, SetupError, UsageError
from graphbench.measurements import Measurement
from graphbench.timing.base import Session, Timer
from graphbench.timing.batch import CudaHold, batch_times
from graphbench.timing.cupti import CuptiTimer
from graphbench.timing.events import EventTimer, TorchEvents
from graphbench.timing.loop import Unit, measure
from tests.gpu.units import DEVICE, DeviceUnit
from tests.timer_contract import TimerContract, one_label

pytestmark = pytest.mark.gpu

if not torch.cuda.is_available():
    if os.environ.get("GRAPHBENCH_REQUIRE_GPU", "0") != "0":
        raise RuntimeError("GRAPHBENCH_REQUIRE_GPU is set, but there is no CUDA device")
    pytest.skip("needs a CUDA device", allow_module_level=True)

POLICY = Policy(timer="cuda-events", cache="warm", values="captured", warmup=5, repeat=30)
COPIES = 32


@pytest.fixture(scope="module")
def matrix() -> torch.Tensor:
    """Its product with itself takes the device far longer than the host to launch."""
    return torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)


@pytest.fixture
def timer() -> EventTimer:
    return EventTimer(DEVICE, "warm")


def tiny_units() -> list[Unit]:
    """Copies of one tiny call, each on tensors of its own."""

    def unit() -> Unit:
        x, out = torch.randn(1024, device=DEVICE), torch.empty(1024, device=DEVICE)
        return DeviceUnit(lambda: torch.add(x, 1.0, out=out))

    return [unit() for _ in range(COPIES)]


def median(measurement: Measurement) -> float:
    assert measurement.samples is not None, measurement.reason
    return quantile(measurement.samples.busy_ns, 0.5)


class TestContract(TimerContract):
    @pytest.fixture(params=["cold-read", "cold-write", "warm"])
    def timer(self, request: pytest.FixtureRequest) -> Timer:
        return EventTimer(DEVICE, request.param)

    @pytest.fixture
    def work(self, matrix: torch.Tensor) -> Callable[[], None]:
        out = torch.empty_like(matrix)

        def multiply() -> None:
            torch.mm(matrix, matrix, out=out)

        return multiply


def test_a_long_kernel_reads_like_cupti(timer: EventTimer, matrix: torch.Tensor) -> None:
    out = torch.empty_like(matrix)
    unit = DeviceUnit(lambda: torch.mm(matrix, matrix, out=out))
    found = measure(timer, unit, POLICY)
    assert median(found) == pytest.approx(median(measure(CuptiTimer(DEVICE, "warm"), unit, POLICY)), rel=0.15)
    assert (found.timer, EVENT_FLOOR in map(warning_kind, found.warnings)) == ("cuda-events", False)


def test_a_view_shows_the_event_floor_and_says_so(timer: EventTimer, matrix: torch.Tensor) -> None:
    found = measure(timer, DeviceUnit(lambda: matrix.view(-1), may_launch_nothing=True), POLICY)
    assert median(found) > 0
    assert any(warning_kind(warning) == EVENT_FLOOR for warning in found.warnings)


def test_a_tiny_kernel_reads_longer_than_by_cupti(timer: EventTimer) -> None:
    unit = tiny_units()[0]
    assert median(measure(timer, unit, POLICY)) > 1.5 * median(measure(CuptiTimer(DEVICE, "warm"), unit, POLICY))


def test_labels_follow_the_current_stream_of_their_thread(timer: EventTimer, matrix: torch.Tensor) -> None:
    out = torch.empty_like(matrix)

    def on_its_own_stream(session: Session) -> None:
        torch.mm(matrix, matrix, out=out)  # a thread's first call makes its cuBLAS handle
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream(DEVICE)), session.label("side", 0):
            torch.mm(matrix, matrix, out=out)

    def body(session: Session) -> None:
        thread = threading.Thread(target=on_its_own_stream, args=(session,))
        thread.start()
        thread.join()
        torch.cuda.synchronize()
        with session.label("main", 0):
            torch.mm(matrix, matrix, out=out)

    timer.record(body)  # the first call chooses an algorithm
    rows = timer.record(body).rows
    assert rows["side"][0].busy_ns == pytest.approx(rows["main"][0].busy_ns, rel=0.3)


def test_labels_at_once_on_two_streams_are_an_error(timer: EventTimer) -> None:
    side = torch.cuda.Stream(DEVICE)

    def body(session: Session) -> None:
        with session.window(0):
            with session.label("a", 0):
                torch.cuda._sleep(20_000_000)
            with torch.cuda.stream(side), session.label("b", 0):
                torch.cuda._sleep(20_000_000)

    with pytest.raises(AttributionError, match="has started"):
        timer.record(body)


def test_a_device_without_its_index_is_refused() -> None:
    with pytest.raises(SetupError, match="cuda: expected an index"):
        TorchEvents("cuda")


@pytest.mark.gpu(count=2)
def test_events_serve_a_device_that_is_not_current(matrix: torch.Tensor) -> None:
    x = torch.randn(4096, 4096, device="cuda:1")
    timer = EventTimer("cuda:1", "warm")
    assert timer.record(one_label(lambda: torch.mm(x, x))).rows["a"][0].busy_ns > 3 * timer.floor_ns


# --- batch-execute ----------------------------------------------------------------------------------------------------


def test_the_hold_lasts_for_at_least_what_was_asked(timer: EventTimer) -> None:
    hold = CudaHold(DEVICE)
    assert timer.record(one_label(lambda: hold(5e6))).rows["a"][0].busy_ns > 4.5e6


@pytest.mark.parametrize("instrument", [EventTimer, CuptiTimer])
def test_queued_tiny_calls_take_less_than_launched_ones(instrument: Callable[..., Timer]) -> None:
    units = tiny_units()
    queued = quantile(batch_times(instrument(DEVICE, "warm"), units, POLICY, hold=CudaHold(DEVICE)), 0.5)
    launched = median(measure(EventTimer(DEVICE, "warm"), units[0], POLICY))
    assert 0 < queued < launched


def test_events_and_cupti_agree_on_a_batch_behind_a_hold() -> None:
    units, hold = tiny_units(), CudaHold(DEVICE)
    by_events = quantile(batch_times(EventTimer(DEVICE, "warm"), units, POLICY, hold=hold), 0.5)
    by_cupti = quantile(batch_times(CuptiTimer(DEVICE, "warm"), units, POLICY, hold=hold), 0.5)
    assert 0.2 < by_events / by_cupti < 2.0  # tracing may widen the gaps between queued kernels


# --- the whole profile ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_events() -> graphbench.Profile:
    graphbench.reset()
    model = nn.Sequential(nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 2048)).to(DEVICE).eval()
    compiled = torch.compile(model, backend="graphbench")
    with torch.no_grad():
        compiled(torch.randn(4096, 2048, device=DEVICE))
    return graphbench.measure(timer="cuda-events", warmup=2, repeat=10)


def test_every_row_of_a_profile_is_stamped(by_events: graphbench.Profile) -> None:
    (region,) = by_events.record.regions
    stamps = {(row.isolated.status, row.isolated.timer) for row in region.kernels}
    assert stamps == {("ok", "cuda-events")}
    assert by_events.record.policy.timer == "cuda-events"


def test_a_profile_claims_only_what_its_labels_bracket(by_events: graphbench.Profile) -> None:
    (line,) = (line for line in str(by_events).splitlines() if line.startswith("coverage:"))
    assert "cuda-events cannot tell whether the other" in line


def test_it_is_not_compared_with_a_profile_by_cupti(by_events: graphbench.Profile) -> None:
    by_cupti = graphbench.measure(warmup=2, repeat=10)
    with pytest.raises(UsageError, match="different timers: cuda-events and cupti"):
        graphbench.diff(by_events, by_cupti)
