"""Rows of a comparison of implementations: what each one's samples say, against the first one's. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from graphbench.analysis.conditions import CLOCKS_SAME_WITHIN
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Summary, Verdict, compare, quantile, summarize
from graphbench.measurements import Comparison, Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class ImplementationRow(ShownRow):
    """One implementation. Times in nanoseconds; whatever could not be measured is `None`.

    `measurement` pools the samples of both `halves`; where one of them failed it says why. `baseline` is the first
    row's measurement, `baseline_halves` its halves. `difference` compares the result with the baseline's; it is `None`
    for the baseline itself. `grain_ns` is the step of the clock that stamped the samples, `None` where it is unknown.
    """

    name: str
    measurement: Measurement
    halves: tuple[Measurement, ...]
    baseline: Measurement
    baseline_halves: tuple[Measurement, ...] = ()
    difference: Comparison | None = None
    grain_ns: float | None = None

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
    def n_kernels_range(self) -> tuple[int, int] | None:
        """Fewest and most device kernels of any call."""
        counts = self.measurement.samples.n_kernels if self.measurement.samples else None
        return (min(counts), max(counts)) if counts else None

    @property
    def sm_mhz(self) -> float | None:
        """Median of the SM clocks read around and between its samples."""
        known = [state.sm_mhz for state in self.measurement.clocks if state.sm_mhz is not None]
        return quantile(known, 0.5) if known else None

    @property
    def ratio(self) -> float | None:
        """Its median over the baseline's: under 1 where it takes less time."""
        own_ns, baseline_ns = self.p50_ns, _median(self.baseline)
        return own_ns / baseline_ns if own_ns is not None and baseline_ns else None

    @property
    def verdict(self) -> Verdict | None:
        """What it is against the baseline; `None` for the baseline itself and where either has no samples.

        Pooled samples decide only what all halves bear out: a half may hold more samples than the other one, and a
        machine that was busy in one half would speak for both.
        """
        samples, baseline = self.measurement.samples, self.baseline.samples
        if self.measurement is self.baseline or samples is None or baseline is None:
            return None
        found = compare(baseline.busy_ns, samples.busy_ns, grain_ns=self.grain_ns or 0.0)
        own_ns = [median for median in self.half_ns if median is not None]
        baseline_ns = [median for half in self.baseline_halves if (median := _median(half)) is not None]
        if own_ns and baseline_ns:
            borne_out = {"faster": max(own_ns) < min(baseline_ns), "slower": min(own_ns) > max(baseline_ns)}
            return found if borne_out.get(found, True) else "unclear"
        return found


def clocks_apart(rows: Sequence[ImplementationRow]) -> str | None:
    """Says that rows ran at different SM clocks, which alone may be what makes their times differ; `None` if not."""
    medians = {row.name: row.sm_mhz for row in rows}
    known = {name: mhz for name, mhz in medians.items() if mhz is not None}
    if not known or max(known.values()) - min(known.values()) <= CLOCKS_SAME_WITHIN * max(known.values()):
        return None
    told = ", ".join(f"{name} {mhz:.0f}" for name, mhz in known.items())
    return f"SM clocks differ between rows ({told} MHz, medians): the ratios may be the clock's"


def _median(measurement: Measurement, column: Literal["busy_ns", "host_ns", "n_kernels"] = "busy_ns") -> float | None:
    values = None if measurement.samples is None else getattr(measurement.samples, column)
    return quantile(values, 0.5) if values else None
