"""The fault campaign, in process: seeded faults in units, timers, files and the user's own code.

After each of them no row is lost, none is wrong, the fault is named, and the process is as it was.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from graphbench import document
from graphbench.errors import (
    AttributionError,
    ClockError,
    ConservationError,
    GraphbenchError,
    JournalError,
    OffThreadLaunchError,
    ProfileFormatError,
    RecordsLostError,
)
from graphbench.isolate.backward_unit import BackwardUnit
from graphbench.isolate.bench_unit import BenchUnit
from graphbench.measuring.isolating import Isolator
from graphbench.runs import journal as journals
from graphbench.runs.journal import JOURNAL, Journal, read_journal
from graphbench.runs.partial import read_partial
from graphbench.tensors import tensors_of
from graphbench.timing.base import Recording
from graphbench.timing.base import Session as TimingSession
from tests.cpu.campaign import ALONE, OUTCOMES, Outcome, Record, ScriptedTimer, Stage, rows_of, staged
from tests.cpu.stories import clean, world

SEEDS = range(20)
FEW = range(4)
HANG_LIMIT_S = 2.0


@pytest.fixture(scope="module")
def stage() -> Stage:
    with clean():
        return staged()


def noted(stage: Stage, kind: str, subject: str, record: Any, named: str, *, before: dict[str, Any]) -> None:
    """Write down an injection's outcome, and fail where a row is lost or wrong, or the user's world has changed."""
    lost, wrong = stage.lost(record), stage.wrong(record)
    OUTCOMES.append(Outcome(kind, subject, named, lost=len(lost), wrong=len(wrong)))
    assert (lost, wrong) == ([], [])
    assert named
    assert changed(before, world(stage.net, stage.x)) == []


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    def same(one: Any, other: Any) -> bool:
        return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)

    return [name for name in before if not same(before[name], after[name])]


def chosen(stage: Stage, seed: int, kinds: tuple[str, ...] = ALONE) -> tuple[str, str]:
    """A unit to harm: one that is measured itself."""
    found = [
        name
        for name, measurement in stage.expected.items()
        if name[0] in kinds and measurement.status == "ok" and measurement.shared_with is None
    ]
    return random.Random(seed).choice(found)


# faults in a unit


@contextmanager
def in_unit(target: tuple[str, str], misbehave: Callable[[], Any]) -> Iterator[None]:
    """While inside, calls of one unit misbehave instead of returning."""
    kind, row = target
    cls: Any = BackwardUnit if kind == "backward" else BenchUnit
    original = cls.run

    def run(unit: Any) -> Any:
        return misbehave() if unit.name == row else original(unit)

    cls.run = run
    try:
        yield
    finally:
        cls.run = original


RAISED: tuple[Exception, ...] = (
    ValueError("a bad value"),
    RuntimeError("an error of torch's"),
    KeyError("a key"),
    AssertionError("an assertion"),
    StopIteration("an end"),
    MemoryError("the host's memory"),
    RecursionError("too deep"),
    GraphbenchError("one of graphbench's own"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB"),
    NotImplementedError("no such kernel"),
)


@pytest.mark.parametrize("seed", range(2 * len(RAISED)))
def test_a_unit_that_raises_fails_its_row_and_those_that_share_it(stage: Stage, seed: int) -> None:
    error, target, before = RAISED[seed % len(RAISED)], chosen(stage, seed), world(stage.net, stage.x)

    def misbehave() -> None:
        raise error

    with in_unit(target, misbehave):
        record = stage.measure()
    missing = stage.missing(record)
    assert list(missing) == [target]
    told = str(error.args[0])
    assert told in missing[target]
    kind = "out of memory in a unit" if isinstance(error, torch.OutOfMemoryError) else "a unit raises"
    noted(stage, kind, target[1], record, missing[target], before=before)


@pytest.mark.parametrize("seed", FEW)
def test_a_unit_that_hangs_fails_its_row(stage: Stage, seed: int) -> None:
    target, before = chosen(stage, seed), world(stage.net, stage.x)

    def misbehave() -> None:
        while True:
            time.sleep(0.01)

    with in_unit(target, misbehave):
        record = stage.measure(unit_timeout_s=HANG_LIMIT_S)
    missing = stage.missing(record)
    assert list(missing) == [target]
    assert missing[target] == f"timeout: not done after {HANG_LIMIT_S:g} s"
    noted(stage, "a unit hangs", target[1], record, missing[target], before=before)


@pytest.mark.parametrize("seed", range(10))
def test_a_unit_that_makes_nan_of_numbers_fails_its_row(stage: Stage, seed: int) -> None:
    target, before = chosen(stage, seed, ("node", "kernel")), world(stage.net, stage.x)
    original = Isolator._unit

    def unit(isolator: Isolator, call: Any, stream: Any) -> BenchUnit:
        return original(isolator, replace(call, function=spoilt(call)) if call.row == target[1] else call, stream)

    Isolator._unit = unit  # type: ignore[method-assign]
    try:
        record = stage.measure()
    finally:
        Isolator._unit = original  # type: ignore[method-assign]
    missing = stage.missing(record)
    assert list(missing) == [target]
    assert missing[target] == "alone it makes NaN where the other result has none"
    noted(stage, "a unit makes NaN of numbers", target[1], record, missing[target], before=before)


def spoilt(call: Any) -> Callable[..., Any]:
    """A call that writes NaN into whatever it returns or writes."""
    places = [index for index, value in enumerate(call.args) if any(value is tensor for tensor in call.written)]

    def function(*args: Any, **kwargs: Any) -> Any:
        result = call.function(*args, **kwargs)
        written = [args[index] for index in places]
        for tensor in [*tensors_of(result), *tensors_of(kwargs.get("out")), *written]:
            if tensor.is_floating_point():
                with torch.no_grad():
                    tensor.fill_(float("nan"))
        return result

    return function


# faults of the instrument

INSTRUMENT: tuple[GraphbenchError, ...] = (
    RecordsLostError("CUPTI lost 17 records in 4 session(s)"),
    ClockError("stamps are not nanoseconds of the host's clock: slope 2.1"),
    OffThreadLaunchError("kernels that no label claims: elementwise_kernel"),
    AttributionError("2 of 3 calls left no device work"),
)


@pytest.mark.parametrize("seed", range(8 * len(INSTRUMENT)))
def test_a_session_that_cannot_be_believed_fails_its_row(
    stage: Stage, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, before = INSTRUMENT[seed % len(INSTRUMENT)], world(stage.net, stage.x)
    target = chosen(stage, seed, ("post-grad", "kernel"))

    def around(record: Record, body: Callable[[TimingSession], None]) -> Recording:
        recording = record(body)
        if list(recording.rows) == [target[1]]:
            raise error
        return recording

    monkeypatch.setattr(stage, "timer", ScriptedTimer(around))
    record = stage.measure()
    missing = stage.missing(record)
    assert list(missing) == [target]
    assert missing[target] == error.message
    noted(stage, f"instrument, a unit: {type(error).__name__}", target[1], record, missing[target], before=before)


SIDES = ("eager", "eager_backward", "forward", "backward")


@pytest.mark.parametrize("error", INSTRUMENT, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("side", SIDES)
def test_a_labelled_run_that_cannot_be_believed_costs_its_own_rows(
    stage: Stage, side: str, error: GraphbenchError, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, sessions = world(stage.net, stage.x), []

    def around(record: Record, body: Callable[[TimingSession], None]) -> Recording:
        recording = record(body)
        if len(recording.runs) > 1 and len(recording.rows) > 1:
            sessions.append(side)
            if len(sessions) == SIDES_IN_ORDER.index(side) + 1:
                raise error
        return recording

    monkeypatch.setattr(stage, "timer", ScriptedTimer(around))
    record = stage.measure()
    missing = stage.missing(record)
    kind = {"eager": "in graph", "eager_backward": "backward in graph"}.get(side, "kernel in graph")
    assert missing
    assert {name[0] for name in missing} == {kind}
    assert set(missing.values()) == {error.message}
    assert getattr(record.regions[0], side).reason == error.message
    noted(stage, f"instrument, a run: {type(error).__name__}", side, record, error.message, before=before)


SIDES_IN_ORDER = ("eager", "forward", "eager_backward", "backward")


# faults of the run's files


class Interrupting:
    """A journal after whose entry number `at` the user interrupts, or the process is gone."""

    def __init__(self, journal: Journal, at: int) -> None:
        self._journal = journal
        self._left = at

    def append(self, entry: Any) -> None:
        self._journal.append(entry)
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole_journal(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of a run without a fault."""
    folder = tmp_path_factory.mktemp("whole")
    assert stage.wrong(stage.journaled(folder)) == []
    return (folder / JOURNAL).read_bytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_interrupted_goes_on_where_it_stopped(
    stage: Stage, seed: int, tmp_path: Path, whole_journal: bytes
) -> None:
    before, n_entries = world(stage.net, stage.x), whole_journal.count(b"\n")
    at = random.Random(seed).randrange(3, n_entries)
    with pytest.raises(KeyboardInterrupt):
        stage.journaled(tmp_path, lambda journal: Interrupting(journal, at))
    assert changed(before, world(stage.net, stage.x)) == []
    partial = read_partial(tmp_path)
    document.check(partial)
    assert stage.wrong(partial) == []
    known = {name: measurement.samples for name, measurement in rows_of(partial).items() if measurement.status == "ok"}
    record = stage.journaled(tmp_path, process=1)
    found = rows_of(record)
    assert {name: found[name].samples for name in known} == known
    assert stage.missing(record) == {}
    named = next((note for note in record.notes if "continued" in note), "" if known else "nothing was measured")
    noted(stage, "the run is interrupted", f"entry {at}", record, named, before=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_journal_that_is_cut_off_loses_its_last_line_only(
    stage: Stage, seed: int, tmp_path: Path, whole_journal: bytes
) -> None:
    first_line = whole_journal.index(b"\n") + 1
    at = random.Random(seed).randrange(first_line, len(whole_journal))
    (tmp_path / JOURNAL).write_bytes(whole_journal[:at])
    before, contents = world(stage.net, stage.x), read_journal(tmp_path)
    assert len(contents.entries) == whole_journal[:at].count(b"\n")
    record = stage.journaled(tmp_path, process=1)
    assert stage.missing(record) == {}
    assert read_journal(tmp_path).dropped == ()  # what is left of the line is not in the way of the next one
    named = contents.dropped[0] if contents.dropped else "cut between two lines"
    noted(stage, "the journal is truncated", f"byte {at}", record, named, before=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flipped_bit_costs_one_line_of_the_journal(
    stage: Stage, seed: int, tmp_path: Path, whole_journal: bytes
) -> None:
    rng, damaged = random.Random(seed), bytearray(whole_journal)
    at = rng.randrange(whole_journal.index(b"\n") + 1, len(damaged))
    damaged[at] ^= 1 << rng.randrange(8)
    (tmp_path / JOURNAL).write_bytes(damaged)
    before, contents = world(stage.net, stage.x), read_journal(tmp_path)
    assert contents.dropped
    record = stage.journaled(tmp_path, process=1)
    assert stage.missing(record) == {}
    noted(stage, "a bit of the journal is flipped", f"byte {at}", record, contents.dropped[0], before=before)


@pytest.mark.parametrize("seed", range(10))
def test_a_full_disk_is_an_error_and_what_was_written_stays(
    stage: Stage, seed: int, tmp_path: Path, whole_journal: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, before = random.Random(seed).randrange(2000, len(whole_journal)), world(stage.net, stage.x)
    refused: list[int] = []
    write = os.write

    def almost_full(fd: int, data: Any) -> int:
        left = room - os.fstat(fd).st_size
        if refused:  # there is room again: whoever goes on regardless has lost an entry
            return write(fd, data)
        if left <= 0:
            refused.append(fd)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, bytes(data)[:left])

    monkeypatch.setattr(journals.os, "write", almost_full)
    with pytest.raises(JournalError, match="No space left on device") as caught:
        stage.journaled(tmp_path)
    monkeypatch.undo()
    assert changed(before, world(stage.net, stage.x)) == []
    assert read_journal(tmp_path).dropped == ()
    record = stage.journaled(tmp_path, process=1)
    assert stage.missing(record) == {}
    noted(stage, "the disk is full", f"{room} bytes", record, caught.value.message, before=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_profile_is_refused_or_the_same(stage: Stage, seed: int, tmp_path: Path) -> None:
    rng, path, before = random.Random(seed), tmp_path / "profile.json", world(stage.net, stage.x)
    record = stage.measure()
    document.write(record, path)
    text = bytearray(path.read_bytes())
    at = rng.randrange(len(text))
    if seed % 2:
        text[at] ^= 1 << rng.randrange(8)
    else:
        del text[at:]
    path.write_bytes(text)
    try:
        named = "reads as the very same" if document.read(path) == record else ""
    except (ProfileFormatError, ConservationError) as error:
        named = error.message
    kind = "a bit of the profile is flipped" if seed % 2 else "the profile is truncated"
    noted(stage, kind, f"byte {at}", record, named, before=before)


# faults of the user's own code


@pytest.mark.parametrize("seed", range(10))
def test_a_call_that_raises_in_the_run_costs_what_comes_after_it(
    stage: Stage, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, target = world(stage.net, stage.x), chosen(stage, seed, ("node",))
    original = Isolator.isolate

    def isolate(isolator: Isolator, call: Any, real: Callable[[], Any]) -> Any:
        def broken() -> Any:
            raise RuntimeError("the real call broke")

        return original(isolator, call, broken if call.row == target[1] else real)

    monkeypatch.setattr(Isolator, "isolate", isolate)
    record = stage.measure()
    missing = stage.missing(record)
    assert missing
    assert {name[0] for name in missing} <= {"node", "backward"}
    assert all("the real call broke" in reason for reason in missing.values())
    noted(stage, "a call raises in the run itself", target[1], record, missing[target], before=before)
