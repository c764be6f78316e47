"""What the halves of a row say together. No torch import."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from graphbench.analysis.stats import median_noise
from graphbench.analysis.warning_kinds import CLOCK, COARSE, DRIFT, NOISY, THROTTLED, UNSTABLE, VOID, warning_kind
from graphbench.condition_records import Policy
from graphbench.errors import TimingError
from graphbench.measurements import Measurement, Samples
from graphbench.timing import rows
from graphbench.timing.clocks import clock_warnings

# What is said of a half's samples and clocks is said again of all of them together.
RECOMPUTED = (COARSE, UNSTABLE, DRIFT, NOISY, VOID, CLOCK, THROTTLED)
VOID_COUNTS = re.compile(rf"{VOID}: (\d+) of (\d+) samples")


def pooled(name: str, halves: Sequence[Measurement], policy: Policy, *, grain_ns: float | None) -> Measurement:
    """One measurement of a row's halves: all samples together, and what must be said of them.

    Args:
        name: of the row.
        halves: in the order in which they ran.
        policy: the budget of the whole row.
        grain_ns: step of the clock that stamped the samples; `None` where it is unknown.

    Returns:
        The pooled measurement, or the half that failed.

    Raises:
        TimingError: the halves come from different timers or cache states.
    """
    refuse_mixed({f"half {number} of {name}": half for number, half in enumerate(halves, 1)})
    failed = [half for half in halves if half.samples is None]
    if failed:
        return failed[0]
    clocks = tuple(clock for half in halves for clock in half.clocks)
    return replace(
        halves[0],
        samples=_joined([half.samples for half in halves if half.samples is not None]),
        inner=min(half.inner for half in halves),
        warmup=sum(half.warmup for half in halves),
        device_kernels=tuple(dict.fromkeys(kernel for half in halves for kernel in half.device_kernels)),
        clocks=clocks,
        warnings=(*_sample_warnings(halves, policy, grain_ns), *clock_warnings(clocks), *_kept_warnings(halves)),
    )


def refuse_mixed(measurements: Mapping[str, Measurement]) -> None:
    """Refuse to put side by side what was not measured alike.

    Raises:
        TimingError: timers or cache states differ.
    """
    for what in ("timer", "cache"):
        found = {name: getattr(entry, what) for name, entry in measurements.items()}
        if len(set(found.values())) > 1:
            told = ", ".join(f"{name}: {value}" for name, value in found.items())
            raise TimingError(
                f"cannot compare measurements of different {what}s ({told})",
                hint="one instrument and one cache state must serve a whole comparison; measure again",
            )


def _joined(parts: Sequence[Samples]) -> Samples:
    """All samples one after another; a column that any part lacks is `None`."""
    columns: dict[str, Any] = {}
    for column in fields(Samples):
        values = [getattr(part, column.name) for part in parts]
        columns[column.name] = None if None in values else tuple(entry for value in values for entry in value)
    return Samples(**columns)


def _sample_warnings(halves: Sequence[Measurement], policy: Policy, grain_ns: float | None) -> Iterator[str]:
    parts = [half.samples.busy_ns for half in halves if half.samples is not None]
    busy_ns = [entry for part in parts for entry in part]
    yield from _void(halves)
    yield from rows.warnings(busy_ns)
    if len(parts) > 1:
        yield from rows.drift_warning(parts[0], parts[-1], grain_ns=grain_ns or 0.0)
    if policy.noise is not None and (noise := median_noise(busy_ns)) > policy.noise:
        yield f"{NOISY}: median known to {noise:.1%} after {policy.noise_ms:g} ms, asked for {policy.noise:.1%}"


def _void(halves: Sequence[Measurement]) -> Iterator[str]:
    """The halves' counts together; a half that says nothing of it lost no sample."""
    void = sampled = 0
    for half in halves:
        counts = next(filter(None, map(VOID_COUNTS.match, half.warnings)), None)
        void += int(counts[1]) if counts else 0
        sampled += int(counts[2]) if counts else len(half.samples.busy_ns if half.samples else ())
    if void:
        yield f"{VOID}: {void} of {sampled} samples allocated device memory"


def _kept_warnings(halves: Sequence[Measurement]) -> dict[str, None]:
    said = (warning for half in halves for warning in half.warnings)
    return dict.fromkeys(warning for warning in said if warning_kind(warning) not in RECOMPUTED)
