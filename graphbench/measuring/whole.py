"""Measures everything a session captured, and puts the profile's record together."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata

import torch
from tqdm import tqdm

from graphbench.document import SCHEMA_VERSION
from graphbench.errors import CaptureError, GraphbenchError
from graphbench.measuring.apart import apart
from graphbench.measuring.environment import CpuWatch, environment
from graphbench.measuring.gap_ops import GapOp
from graphbench.measuring.gap_units import isolate_gap_ops
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.locking import clock_lock
from graphbench.measuring.options import MeasureOptions, Timers, policy_of, timers_for
from graphbench.measuring.recording import Recorded
from graphbench.measuring.region import Tick, measure_region, skipped, unit_count
from graphbench.records import HELD_NOTE, Policy, ProfileRecord, RegionRecord
from graphbench.regions import Region
from graphbench.session import Session
from graphbench.timing.clocks import ClockSource, NoClocks
from graphbench.units import count_text

NEVER_CALLED = "compiled, but never called"
NO_OPS = "its graph has no ops"


@apart
def measure_session(session: Session, options: MeasureOptions, *, recorded: Recorded | None = None) -> ProfileRecord:
    """Measure the session's regions, and the gap ops of a recorded step.

    Args:
        session: what was captured.
        options: how to measure.
        recorded: a step to go into the profile; regions that it did not run are skipped with that reason.

    Raises:
        CaptureError: nothing was captured; the message says why.
        UsageError: an option that does not fit the device.
        SetupError: the instrument for the device is missing, or its clock cannot be locked or reset.
    """
    if not session.regions and recorded is None:
        raise nothing_captured(session)
    device = recorded.device if recorded is not None else device_of_regions(session)
    reached = recorded.recorder.reached if recorded is not None else None
    gaps = list(recorded.recorder.gaps.rows.values()) if recorded is not None else []
    timers = timers_for(options, device)
    policy = policy_of(options, timers)
    records: list[RegionRecord] = []
    lock_notes: list[str] = []
    watch = CpuWatch()
    with (
        session.in_use("measure"),
        clock_lock(options, device, lock_notes),
        _progress(session.regions, gaps, options.progress) as tick,
    ):
        for region in session.regions:
            reason = _why_not(session, region, options, device, reached)
            records.append(skipped(region, reason) if reason else _measured(region, timers, policy, tick))
        alone = isolate_gap_ops(gaps, Isolator(device, timers, policy), tick)
        measured_on = environment(device, _options(session), timers)
    return ProfileRecord(
        schema_version=SCHEMA_VERSION,
        graphbench=_own_version(),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        subject=options.subject,
        environment=measured_on,
        policy=policy,
        regions=tuple(records),
        breaks=tuple(session.breaks()),
        recompiles=tuple(session.recompiles()),
        step=recorded.step(alone) if recorded is not None else None,
        notes=(
            *lock_notes,
            *_notes(session),
            *_clock_notes(timers.clocks),
            *(watch.notes() if device.type == "cpu" else ()),
        ),
    )


def _measured(region: Region, timers: Timers, policy: Policy, tick: Tick) -> RegionRecord:
    try:
        return measure_region(region, timers, policy, tick)
    except GraphbenchError as error:
        return replace(skipped(region, error.message), status="failed")


def _why_not(
    session: Session, region: Region, options: MeasureOptions, device: torch.device, reached: Collection[str] | None
) -> str:
    """Why a region is not measured; empty when it is."""
    if not region.calls:
        return region.problem or NEVER_CALLED
    if not region.nodes:
        return NO_OPS
    if region.capture is None:
        return region.problem or "every call raised, so no inputs were recorded"
    if reached is not None and region.key not in reached:
        return "the recorded step did not run it"
    successor = session.superseded(region)
    if reached is None and successor is not None and not options.superseded:
        return f"recompiled as {successor.key} and not called since"
    if region.capture.device != device:
        return f"it runs on {region.capture.device}, the others on {device}: measure one device at a time"
    return ""


def nothing_captured(session: Session) -> CaptureError:
    """The error that says why there is no region."""
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


@contextmanager
def _progress(regions: list[Region], gaps: list[GapOp], wanted: bool | None) -> Iterator[Tick]:
    """A progress bar on stderr for anything over two seconds; when not told otherwise, only on a terminal."""
    total = sum(unit_count(region) for region in regions) + len(gaps)
    disabled = None if wanted is None else not wanted
    with tqdm(
        total=total, desc="measuring", unit="unit", file=sys.stderr, delay=2.0, leave=False, disable=disabled
    ) as bar:

        def tick() -> None:
            bar.update()

        yield tick


def _notes(session: Session) -> tuple[str, ...]:
    notes = [f"{HELD_NOTE} {session.captured_bytes} bytes until graphbench.reset()"]
    if session.empty_graphs:
        notes.append(f"left out, since without ops: {count_text(session.empty_graphs, 'graph')}")
    return tuple(notes)


def _clock_notes(clocks: ClockSource) -> tuple[str, ...]:
    """Why the GPU's clocks are unknown, where it has some."""
    return (f"GPU clocks unknown: {clocks.reason}",) if isinstance(clocks, NoClocks) and clocks.reason else ()


def _own_version() -> str:
    try:
        return metadata.version("torch-graphbench")
    except metadata.PackageNotFoundError:
        return "not installed"
