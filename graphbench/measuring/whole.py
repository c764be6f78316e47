"""Measures everything a session captured, and puts the profile's record together."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata

import torch

from graphbench.condition_records import Environment, Policy
from graphbench.document import SCHEMA_VERSION
from graphbench.errors import CaptureError, SetupError
from graphbench.measuring.apart import apart
from graphbench.measuring.ceilings import asked_ceilings
from graphbench.measuring.environment import CpuWatch, environment, stamp_grain
from graphbench.measuring.guard import Guard
from graphbench.measuring.locking import clock_lock
from graphbench.measuring.options import policy_of, timers_for
from graphbench.measuring.recording import Recorded
from graphbench.measuring.session_work import SessionWork
from graphbench.measuring.unmeasured_region import skipped
from graphbench.options import MeasureOptions
from graphbench.probes.features import HINT, torch_notes
from graphbench.records import HELD_NOTE, ProfileRecord
from graphbench.runs.entries import Conditions
from graphbench.runs.ledger import Ledger
from graphbench.runs.partial import CUT_SHORT
from graphbench.session import Session
from graphbench.timing.clocks import ClockSource, NoClocks
from graphbench.units import count_text


@apart
def measure_session(
    session: Session,
    options: MeasureOptions,
    *,
    recorded: Recorded | None = None,
    ledger: Ledger | None = None,
    leave: Callable[[], None] | None = None,
) -> ProfileRecord:
    """Measure the session's regions, and the gap ops of a recorded step.

    Args:
        session: what was captured.
        options: how to measure.
        recorded: a step to go into the profile; regions that it did not run are skipped with that reason.
        ledger: what an earlier process measured of the same work, and where what is found is noted.
        leave: ends the process when the device's context is lost; by default the rest is skipped.

    Raises:
        CaptureError: nothing was captured; the message says why.
        UsageError: an option that does not fit the device, or a ledger of other work.
        SetupError: the instrument for the device is missing, or its clock cannot be locked or reset.
        JournalError: what was found cannot be written.
    """
    if not session.regions and recorded is None:
        raise nothing_captured(session)
    device = recorded.device if recorded is not None else device_of_regions(session)
    reached = recorded.recorder.reached if recorded is not None else None
    gaps = list(recorded.recorder.gaps.rows.values()) if recorded is not None else []
    timers = timers_for(options, device)
    policy = policy_of(options, timers)
    ledger = Ledger() if ledger is None else ledger
    guard = Guard(unit_timeout_s=options.unit_timeout_s, leave=leave)
    lock_notes: list[str] = []
    watch = CpuWatch()
    work = SessionWork(session, gaps, device, timers, policy, guard, ledger)
    with session.in_use("measure"), clock_lock(options, device, lock_notes):
        measured_on = environment(device, _options(session), timers)
        work.begin(reached, superseded=options.superseded)
        _begin(session, ledger, options.subject, measured_on, policy, recorded)
        work.measure(options.progress)
        grain = None if guard.lost else stamp_grain(timers.running, device)
        ceilings, ceiling_notes = asked_ceilings(
            options, timers.running, device, measured_on, work.regions, lost=guard.is_lost(), now=now()
        )
    return ProfileRecord(
        schema_version=SCHEMA_VERSION,
        graphbench=own_version(),
        created=now(),
        subject=options.subject,
        environment=replace(measured_on, stamp_grain_ns=grain),
        policy=policy,
        regions=work.regions,
        breaks=tuple(session.breaks()),
        recompiles=tuple(session.recompiles()),
        ceilings=ceilings,
        step=recorded.step(work.alone) if recorded is not None else None,
        notes=(
            *fault_notes(guard, ledger),
            *lock_notes,
            *ceiling_notes,
            *_notes(session),
            *torch_notes(),
            *_clock_notes(timers.clocks),
            *(watch.notes() if device.type == "cpu" else ()),
        ),
    )


def _begin(
    session: Session,
    ledger: Ledger,
    subject: str,
    measured_on: Environment,
    policy: Policy,
    recorded: Recorded | None,
) -> None:
    """Write down what a profile of a run that is cut short needs."""
    if not ledger.journaled:
        return
    ledger.begin(
        Conditions(
            created=now(),
            subject=subject,
            environment=measured_on,
            policy=policy,
            breaks=tuple(session.breaks()),
            recompiles=tuple(session.recompiles()),
        )
    )
    for region in session.regions:
        ledger.book(region.key).known(skipped(region, CUT_SHORT))
    if recorded is not None:
        ledger.recorded(recorded.step())


def nothing_captured(session: Session) -> CaptureError | SetupError:
    """The error that says why there is no region."""
    if session.unfit:
        return SetupError(session.unfit, hint=HINT)
    reasons = [found.reason for found in session.breaks()]
    if reasons:
        return CaptureError(
            f"no graph was captured: everything broke. First reason: {reasons[0]}",
            hint="graphbench.profile(model, *inputs) measures what runs eagerly, and what each break costs",
        )
    return CaptureError(
        "no graph was captured: no model compiled with backend='graphbench' has been called since the last reset",
        hint="call torch.compile(model, backend='graphbench')(*inputs), then measure",
    )


def _options(session: Session) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({option for region in session.regions for option in region.options}))


def device_of_regions(session: Session) -> torch.device:
    """The device that most captured regions run on."""
    devices = [region.capture.device for region in session.regions if region.capture is not None and region.nodes]
    return max(set(devices), key=devices.count) if devices else torch.device("cpu")


def _notes(session: Session) -> tuple[str, ...]:
    host, disk = session.spilled_bytes
    held = f"{HELD_NOTE} {session.captured_bytes} bytes until graphbench.reset()"
    held += f"; {host} bytes more were moved to pinned host memory" if host else ""
    held += f"; {disk} bytes more were moved to a file in {tempfile.gettempdir()}" if disk else ""
    notes = [held]
    if session.unfit:
        notes.append(f"left out: graphs of which nothing is known: {session.unfit}")
    if session.empty_graphs:
        notes.append(f"left out, since without ops: {count_text(session.empty_graphs, 'graph')}")
    return tuple(notes)


def _clock_notes(clocks: ClockSource) -> tuple[str, ...]:
    """Why the GPU's clocks are unknown, where it has some."""
    return (f"GPU clocks unknown: {clocks.reason}",) if isinstance(clocks, NoClocks) and clocks.reason else ()


def fault_notes(guard: Guard, ledger: Ledger) -> Iterator[str]:
    """What kept the run from being an ordinary one."""
    if guard.lost:
        yield f"the device's context was lost, and what came after it was skipped: {guard.lost}"
    if ledger.resumed_units:
        rows = count_text(ledger.resumed_units, "row")
        yield f"the run was continued: {rows} had been measured by an earlier process"


def now() -> str:
    """The time, as profiles have it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def own_version() -> str:
    """Of graphbench, as installed."""
    try:
        return metadata.version("torch-graphbench")
    except metadata.PackageNotFoundError:
        return "not installed"
