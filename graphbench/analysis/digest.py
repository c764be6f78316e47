"""Order statistics of a record's sample columns, each computed once however many tables of a report need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from graphbench.analysis.stats import Summary, quantile, summarize
from graphbench.measurements import Measurement

Column = Literal["busy_ns", "host_ns", "span_ns", "kernel_ns", "copy_ns", "memset_ns", "n_kernels"]


class Digest:
    """Remembers summaries and medians by column, for as long as one report is made.

    Columns are told apart by identity: hashing hundreds of samples would cost as much as sorting them. Each is kept
    beside its result, so that no other column can take its place in memory meanwhile.
    """

    def __init__(self) -> None:
        self._summaries: dict[int, tuple[Sequence[float], Summary]] = {}
        self._medians: dict[int, tuple[Sequence[float], float]] = {}

    def summary(self, measurement: Measurement) -> Summary | None:
        """Statistics of busy time in nanoseconds; `None` when it was not measured."""
        if measurement.samples is None:
            return None
        column = measurement.samples.busy_ns
        known = self._summaries.get(id(column))
        return known[1] if known is not None else self._summarized(column)

    def median(self, measurement: Measurement, column: Column = "busy_ns") -> float | None:
        """Median of a column; `None` when there are no samples or this timer does not fill the column."""
        samples = measurement.samples
        if samples is None:
            return None
        if column == "busy_ns":  # its other statistics are needed as well, mostly
            known = self._summaries.get(id(samples.busy_ns))
            return (known[1] if known is not None else self._summarized(samples.busy_ns)).p50
        return self._median(getattr(samples, column))

    def batch(self, measurement: Measurement) -> float | None:
        """Median device time per call of many calls queued back to back; `None` when no batch was timed."""
        return self._median(measurement.batch_ns)

    def _summarized(self, column: Sequence[float]) -> Summary:
        found = summarize(column)
        self._summaries[id(column)] = (column, found)
        return found

    def _median(self, values: Sequence[float] | None) -> float | None:
        if not values:
            return None
        known = self._medians.get(id(values))
        if known is None:
            known = (values, quantile(values, 0.5))
            self._medians[id(values)] = known
        return known[1]
