"""Rows of a comparison of implementations: what each one's samples say, against the first one's. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from graphbench.analysis.grain import stamp_grain_ns
from graphbench.analysis.stats import Summary, Verdict, compare, quantile, summarize
from graphbench.records import Comparison, Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class ImplementationRow:
    """One implementation. Times in nanoseconds; whatever could not be measured is `None`.

    `measurement` pools the samples of both `halves`; where one of them failed it says why. `baseline` is the first
    row's measurement. `difference` compares the result with the baseline's; it is `None` for the baseline itself.
    `grain_ns` is the step of the clock that stamped the samples, 0 where that does not matter.
    """

    name: str
    measurement: Measurement
    halves: tuple[Measurement, ...]
    baseline: Measurement
    difference: Comparison | None = None
    grain_ns: float = 0.0

    @property
    def summary(self) -> Summary | None:
        """Statistics of busy time over both halves."""
        samples = self.measurement.samples
        return None if samples is None else summarize(samples.busy_ns)

    @property
    def p50_ns(self) -> float | None:
        """Median over both halves."""
        return _median(self.measurement)

    @property
    def half_ns(self) -> tuple[float | None, ...]:
        """Median of each half, in the order in which they ran."""
        return tuple(map(_median, self.halves))

    @property
    def host_ns(self) -> float | None:
        """Median time to issue a call."""
        return _median(self.measurement, "host_ns")

    @property
    def n_kernels(self) -> float | None:
        """Median number of device kernels of a call."""
        return _median(self.measurement, "n_kernels")

    @property
    def ratio(self) -> float | None:
        """Its median over the baseline's: under 1 where it takes less time."""
        own_ns, baseline_ns = self.p50_ns, _median(self.baseline)
        return own_ns / baseline_ns if own_ns is not None and baseline_ns else None

    @property
    def verdict(self) -> Verdict | None:
        """What it is against the baseline; `None` for the baseline itself and where either has no samples."""
        samples, baseline = self.measurement.samples, self.baseline.samples
        if self.measurement is self.baseline or samples is None or baseline is None:
            return None
        return compare(baseline.busy_ns, samples.busy_ns, grain_ns=self.grain_ns)


def grain_of(measurements: Iterable[Measurement]) -> float:
    """The step of the device's clock in these samples, in nanoseconds; 0 for other clocks and where nothing tells."""
    known = [entry.samples.busy_ns for entry in measurements if entry.timer == "cupti" and entry.samples is not None]
    return float(stamp_grain_ns([busy for column in known for busy in column]) or 0)


def _median(measurement: Measurement, column: Literal["busy_ns", "host_ns", "n_kernels"] = "busy_ns") -> float | None:
    values = None if measurement.samples is None else getattr(measurement.samples, column)
    return quantile(values, 0.5) if values else None
