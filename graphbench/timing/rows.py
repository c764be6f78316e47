"""A finished recording read as records: raw samples per row, totals per run, and what to warn of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from graphbench.analysis.stats import compare, is_unstable, quantile
from graphbench.analysis.warning_kinds import COARSE, DRIFT, UNSTABLE
from graphbench.device_records import DeviceKernel
from graphbench.errors import TimingError
from graphbench.measurements import CacheState, Measurement, RunRecord, Samples, TimerName, ValuePolicy
from graphbench.timing.base import Recording, Sample
from graphbench.units import count_text, format_duration

COARSE_BELOW: Final = 20
"""Sample count under which a row is marked `coarse`."""


def in_graph(
    recording: Recording,
    rows: Sequence[str],
    n_samples: int,
    *,
    timer: TimerName,
    cache: CacheState,
    values: ValuePolicy | None = None,
) -> dict[str, Measurement]:
    """What every row cost inside whole runs, samples 0 to `n_samples` - 1.

    A row that some samples did not reach (a branch not taken) cost 0 ns there. A row that none reached was not
    executed, and is `skipped` with that reason.

    Args:
        recording: a session of windows.
        rows: rows wanted; rows not named here are left out.
        n_samples: how many runs there were.
        timer: instrument, stamped into every row.
        cache: cache state, stamped into every row.
        values: what the inputs were, stamped into every row.

    Raises:
        TimingError: `n_samples` is less than 1.
    """
    if n_samples < 1:
        raise TimingError(f"in-graph times of {n_samples} runs: expected at least 1", hint="raise the sample count")
    return {
        row: _in_graph_row(recording.rows.get(row, {}).get, n_samples, timer=timer, cache=cache, values=values)
        for row in rows
    }


def _in_graph_row(
    sample_at: Callable[[int], Sample | None],
    n_samples: int,
    *,
    timer: TimerName,
    cache: CacheState,
    values: ValuePolicy | None,
) -> Measurement:
    found = [sample_at(i) for i in range(n_samples)]
    reached = [sample for sample in found if sample is not None]
    if not reached:
        return Measurement(
            status="skipped",
            reason=f"not executed in any of {n_samples} runs",
            timer=timer,
            cache=cache,
            values=values,
        )
    absent = _zero_like(reached[0])
    samples = [absent if sample is None else sample for sample in found]
    return Measurement(
        status="ok",
        timer=timer,
        cache=cache,
        values=values,
        samples=columns(samples),
        device_kernels=device_kernels(reached),
        warnings=warnings([sample.busy_ns for sample in samples]),
    )


def run_record(recording: Recording, n_samples: int) -> RunRecord:
    """The totals of whole runs, samples 0 to `n_samples` - 1. `n_kernels` is the largest count of any run.

    Raises:
        TimingError: a run is missing in the recording.
    """
    missing = [i for i in range(n_samples) if i not in recording.runs]
    if missing or n_samples < 1:
        raise TimingError(
            f"run totals: {n_samples} runs expected, found samples {sorted(recording.runs) or 'none'}",
            hint="every run must be inside `Session.window(sample)`",
        )
    runs = [recording.runs[i] for i in range(n_samples)]
    return RunRecord(
        busy_ns=tuple(run.busy_ns for run in runs),
        wall_ns=tuple(run.wall_ns for run in runs),
        unattributed_ns=tuple(run.unattributed_ns for run in runs),
        overlap_ns=tuple(run.overlap_ns for run in runs),
        wrapper_ns=_known([run.wrapper_ns for run in runs]),
        beside_ns=_known([run.beside_ns for run in runs]),
        n_kernels=max((run.n_kernels for run in runs if run.n_kernels is not None), default=None),
        unattributed=recording.unattributed,
        dropped=recording.dropped,
        timer=recording.timer,
    )


def _known(entries: Sequence[float | None]) -> tuple[float, ...] | None:
    known = tuple(entry for entry in entries if entry is not None)
    return known if len(known) == len(entries) else None


def _zero_like(sample: Sample) -> Sample:
    """A measured nothing, with the columns that this instrument has."""
    return Sample(
        busy_ns=0.0,
        host_ns=None if sample.host_ns is None else 0.0,
        span_ns=None if sample.span_ns is None else 0.0,
        kernel_ns=None if sample.kernel_ns is None else 0.0,
        copy_ns=None if sample.copy_ns is None else 0.0,
        memset_ns=None if sample.memset_ns is None else 0.0,
        n_kernels=None if sample.n_kernels is None else 0,
        calls=0,
    )


def columns(samples: Sequence[Sample], inner: int = 1) -> Samples:
    """Turn samples of `inner` calls each into columns per call. A column that any sample lacks is `None`."""
    return Samples(
        busy_ns=tuple(sample.busy_ns / inner for sample in samples),
        host_ns=_column([sample.host_ns for sample in samples], inner),
        span_ns=_column([sample.span_ns for sample in samples], inner),
        kernel_ns=_column([sample.kernel_ns for sample in samples], inner),
        copy_ns=_column([sample.copy_ns for sample in samples], inner),
        memset_ns=_column([sample.memset_ns for sample in samples], inner),
        n_kernels=_counts([sample.n_kernels for sample in samples]),
    )


def _column(entries: Sequence[float | None], inner: int) -> tuple[float, ...] | None:
    known = _known(entries)
    return None if known is None else tuple(entry / inner for entry in known)


def _counts(entries: Sequence[int | None]) -> tuple[int, ...] | None:
    known = tuple(entry for entry in entries if entry is not None)
    return known if len(known) == len(entries) else None


def device_kernels(samples: Sequence[Sample]) -> tuple[DeviceKernel, ...]:
    """The device work of all samples, each kind of launch once, in order."""
    return tuple(dict.fromkeys(kernel for sample in samples for kernel in sample.device_kernels))


def warnings(busy_ns: Sequence[float]) -> tuple[str, ...]:
    """What a reader must know of these samples: `coarse` when they are few, `unstable` when they scatter."""
    found = []
    if len(busy_ns) < COARSE_BELOW:
        found.append(f"{COARSE}: {count_text(len(busy_ns), 'sample')}")
    if is_unstable(busy_ns):
        found.append(UNSTABLE)
    return tuple(found)


def drift(busy_ns: Sequence[float], *, grain_ns: float = 0.0) -> tuple[str, ...]:
    """`drift_warning` of the first and the second half of one row's samples; few samples have no halves."""
    middle = len(busy_ns) // 2
    return () if len(busy_ns) < COARSE_BELOW else drift_warning(busy_ns[:middle], busy_ns[middle:], grain_ns=grain_ns)


def drift_warning(first_ns: Sequence[float], second_ns: Sequence[float], *, grain_ns: float = 0.0) -> tuple[str, ...]:
    """What two halves of a row's samples say of it when they lie apart: heat, clocks or another process moved them."""
    if compare(first_ns, second_ns, grain_ns=grain_ns) not in ("faster", "slower"):
        return ()
    medians = [format_duration(quantile(half, 0.5)) for half in (first_ns, second_ns)]
    return (f"{DRIFT}: {medians[0]} in the first half, {medians[1]} in the second",)
