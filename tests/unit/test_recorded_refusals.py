"""The CUPTI timer answered by recorded sessions: the same numbers again, or the refusal that belongs to the fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from graphbench.condition_records import Policy
from graphbench.errors import ClockError, OffThreadLaunchError, RecordsLostError, TimingError
from graphbench.timing.base import Recording, Session
from graphbench.timing.cupti import CuptiTimer
from graphbench.timing.cupti_library import ClockReading
from graphbench.timing.cupti_records import Decoded
from graphbench.timing.cupti_session import Attempt
from graphbench.timing.loop import measure
from tests.recorded import RecordedSession, attributed, load


class Replay:
    """Instrument and device in one: answers with a recorded session. Its labels get the ids of the session asked."""

    notes: tuple[str, ...] = ()

    def __init__(self, recorded: RecordedSession) -> None:
        self.recorded = recorded
        self.session: Attempt | None = None
        self.decoded_calls = 0
        self._clock = list(recorded.clock)
        self._pushed: list[int] = []
        self._stack: list[int] = []

    def verify(self, device: object) -> None:
        pass

    def start(self, buffer_bytes: int, *, waits: bool = False) -> None:
        self._clock, self._pushed = list(self.recorded.clock), []

    def stop(self) -> int:
        return self.recorded.dropped

    def abort(self) -> None:
        pass

    def other_client(self) -> str:
        return ""

    def read_clock(self) -> ClockReading:
        return self._clock.pop(0) if len(self._clock) > 1 else self._clock[0]

    def push(self, kind: int, identifier: int, /) -> None:
        self._pushed.append(identifier)
        self._stack.append(identifier)

    def pop(self, kind: int, /) -> int:
        return self._stack.pop()

    def decoded(self) -> Decoded:
        self.decoded_calls += 1
        assert self.session is not None
        probes = (self._pushed[0], self._pushed[-1])
        given = {owner: i for i, owner in self.session.owners.items() if i not in probes}
        ids = {i: given[owner] for i, owner in self.recorded.owners.items() if owner in given}
        ids |= dict(zip(self.recorded.probes, probes, strict=True))
        external_ids = {c: ids.get(i, i) for c, i in self.recorded.external_ids.items()}
        return Decoded(list(self.recorded.activities), external_ids)

    def drain(self) -> None:
        pass

    def probe(self) -> None:
        pass

    def probe_all_kinds(self) -> None:
        pass

    def profiler_running(self) -> bool:
        return False


class ReplayTimer(CuptiTimer):
    """The CUPTI timer on a recorded session."""

    def __init__(self, recorded: RecordedSession) -> None:
        self.replay = Replay(recorded)
        super().__init__("cuda:0", "warm", instrument=self.replay, devices=self.replay)

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        def seen(session: Session) -> None:
            assert isinstance(session, Attempt)
            self.replay.session = session
            body(session)

        return super().record(seen, repeats=repeats)

    def again(self) -> Recording:
        """Enter every label of the recording, and ask for its numbers."""

        def body(session: Session) -> None:
            for row, sample, _ in self.replay.recorded.expected["labelled"]:
                with session.label(row, sample):
                    pass

        return self.record(body, repeats=1)


class NamedUnit:
    """A unit that stands for the calls of a recording."""

    device = "cuda:0"
    may_launch_nothing = False
    needs_restore = False

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self) -> None:
        pass

    def run(self) -> object:
        return None

    def allocations(self) -> int | None:
        return None


def altered(recorded: RecordedSession, row: str, **fields: Any) -> tuple[RecordedSession, str]:
    """The recording with the first activity of `row` changed, since such damage cannot be recorded on demand."""
    mine = {i for i, owner in recorded.owners.items() if owner == (row, 0)}
    at = next(at for at, a in enumerate(recorded.activities) if recorded.external_ids.get(a.correlation_id) in mine)
    activities = list(recorded.activities)
    activities[at] = activities[at]._replace(**fields)
    return replace(recorded, activities=tuple(activities)), activities[at].name


@pytest.mark.parametrize("scenario", ["labels", "windows", "off_thread", "two_threads", "graph_replay", "two_devices"])
def test_a_session_answered_by_a_recording_gives_its_numbers(scenario: str) -> None:
    recorded = load(scenario)
    rows = ReplayTimer(recorded).again().rows
    found = attributed(recorded)
    for row, sample, counts in recorded.expected["labelled"]:
        cost = rows[row][sample]
        assert cost.n_kernels == counts.get("kernel", 0)
        assert cost.busy_ns == (found.rows[row][sample].busy_ns if counts else 0)


def test_a_view_is_a_measured_zero() -> None:
    cost = ReplayTimer(load("labels")).again().rows["view"][0]
    assert (cost.busy_ns, cost.span_ns, cost.n_kernels, cost.device_kernels) == (0, 0, 0, ())


def test_isolated_samples_leave_nothing_unattributed() -> None:
    assert ReplayTimer(load("labels")).again().unattributed == ()


def test_lost_records_are_refused_with_their_number_and_never_read() -> None:
    recorded = load("lost")
    assert recorded.dropped > 0
    timer = ReplayTimer(recorded)
    with pytest.raises(RecordsLostError, match=rf"lost {recorded.dropped}, {recorded.dropped} records in 2 session"):
        timer.again()
    assert timer.replay.decoded_calls == 0


def test_what_arrives_of_a_lossy_session_would_pass_for_a_smaller_time() -> None:
    recorded = load("lost")
    arrived = {activity.kind for activity in recorded.activities}
    launched = {kind for _, _, counts in recorded.expected["labelled"] for kind in counts}
    assert arrived
    assert arrived < launched


def test_backward_of_another_thread_is_refused_by_name() -> None:
    recorded = load("off_thread")
    loose = [a for a in recorded.activities if a.correlation_id not in recorded.external_ids]
    policy = Policy(timer="cupti", cache="warm", values="captured", warmup=0, repeat=3)
    with pytest.raises(OffThreadLaunchError, match=r"^step: launched ") as caught:
        measure(ReplayTimer(recorded), NamedUnit("step"), policy)
    assert all(activity.name in str(caught.value) for activity in loose)


def test_an_id_that_the_timed_code_pushed_is_refused_with_id_and_kernel() -> None:
    recorded = load("other_ids")
    foreign = recorded.expected["foreign_id"]
    correlation = next(c for c, i in recorded.external_ids.items() if i == foreign)
    kernel = next(a.name for a in recorded.activities if a.correlation_id == correlation)
    with pytest.raises(TimingError, match=str(foreign)) as caught:
        ReplayTimer(recorded).again()
    assert caught.value.subject == kernel


def test_a_clock_in_ticks_is_refused_by_its_rate() -> None:
    with pytest.raises(ClockError, match=r"CUPTI's clock counted \d+\.\d ms while \d+\.\d ms passed"):
        ReplayTimer(load("bent_clock")).again()


def test_stamps_in_ticks_are_refused_by_name_even_when_the_clock_reads_well() -> None:
    recorded = load("bent_clock")
    straight = tuple(ClockReading(reading.host_ns, reading.host_ns, reading.host_ns) for reading in recorded.clock)
    with pytest.raises(ClockError, match="outside the session") as caught:
        ReplayTimer(replace(recorded, clock=straight)).again()
    assert caught.value.subject in {activity.name for activity in recorded.activities}


@pytest.mark.parametrize("row", ["add", "copy", "fill"])
def test_a_record_without_stamps_is_refused_by_name(row: str) -> None:
    altered_from_labels, name = altered(load("labels"), row, start_ns=0, end_ns=0)
    with pytest.raises(TimingError, match="recorded no time stamp") as caught:
        ReplayTimer(altered_from_labels).again()
    assert caught.value.subject == name


@pytest.mark.parametrize("row", ["add", "copy", "fill"])
def test_a_record_that_ends_before_it_starts_is_refused_by_name(row: str) -> None:
    recorded = load("labels")
    start_ns = max(activity.end_ns for activity in recorded.activities) + 1
    altered_from_labels, name = altered(recorded, row, start_ns=start_ns)
    with pytest.raises(TimingError, match="ends before it starts") as caught:
        ReplayTimer(altered_from_labels).again()
    assert caught.value.subject == name


@pytest.mark.parametrize("end", [0, 1])
def test_a_session_whose_test_launch_left_no_record_is_refused(end: int) -> None:
    recorded = load("labels")
    probe = next(c for c, i in recorded.external_ids.items() if i == recorded.probes[end])
    without = tuple(activity for activity in recorded.activities if activity.correlation_id != probe)
    with pytest.raises(TimingError, match=f"did not record the {('opening', 'closing')[end]} test launch"):
        ReplayTimer(replace(recorded, activities=without)).again()
