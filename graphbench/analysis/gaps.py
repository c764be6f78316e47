"""Rows of the gap table: what ran eagerly outside the compiled graphs of a step, by op and by source line. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.analysis.device import DeviceFacts
from graphbench.analysis.digest import Digest
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Summary, quantile
from graphbench.analysis.views import is_unfaithful, outputs_text, source_text
from graphbench.measurements import SourceLine
from graphbench.step_records import StepPhase, StepRecord, StepRow

NO_LINE = "(no source line)"


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow(ShownRow):
    """One gap op. Times in nanoseconds; `in_graph_ns` and `host_ns` are of all its calls, `isolated` of one alone.

    `share` is its part of all the step's time, as `whole_ns` has it.
    """

    row: StepRow
    share: float | None
    digest: Digest

    @property
    def in_graph_ns(self) -> float | None:
        """Time of all calls, where they ran."""
        return self.digest.median(self.row.in_graph)

    @property
    def host_ns(self) -> float | None:
        """Time to issue all calls."""
        return self.digest.median(self.row.in_graph, "host_ns")

    @property
    def launches(self) -> float | None:
        """Kernels that all calls launched; `None` where the timer does not count them."""
        return self.digest.median(self.row.in_graph, "n_kernels")

    @property
    def isolated(self) -> Summary | None:
        """Statistics of one call alone."""
        return self.digest.summary(self.row.isolated)

    @property
    def device(self) -> DeviceFacts:
        """What one call alone did on the device."""
        return DeviceFacts(self.row.isolated, self.digest)

    @property
    def shared_with(self) -> str | None:
        """The row whose isolated measurement it shows."""
        return self.row.isolated.shared_with

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of its isolated measurement."""
        return self.row.isolated.warnings

    @property
    def unfaithful(self) -> bool:
        """Whether it gave another result alone than in the step."""
        return is_unfaithful(self.row.isolated)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a time is missing."""
        in_step, alone = self.row.in_graph, self.row.isolated
        found = [in_step.reason] if in_step.samples is None else []
        return (*found, *([f"isolated: {alone.reason}"] if alone.samples is None else []))

    @property
    def outputs(self) -> str:
        """Shapes and dtypes of its first call's results."""
        return outputs_text(self.row.outputs)

    @property
    def source(self) -> str:
        """File and line; in backward those of the forward op."""
        return source_text(self.row.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapLine:
    """All gap ops of one source line, the backward of its ops included. Times in nanoseconds, of all calls.

    A time is `None` where no row of it has one; `missing` counts rows without.
    """

    line: str
    ops: tuple[str, ...]
    calls: int
    forward_ns: float | None
    backward_ns: float | None
    optimizer_ns: float | None
    time_ns: float | None
    share: float | None
    missing: int


def whole_ns(step: StepRecord) -> float:
    """All time that the parts of a step share: the device's busy time, overlapping work counted as often as it ran.

    On the CPU the wall time. Median over samples, in nanoseconds.
    """
    totals = [busy + overlap for busy, overlap in zip(step.run.busy_ns, step.run.overlap_ns, strict=True)]
    return quantile(totals, 0.5)


def gap_rows(step: StepRecord, digest: Digest | None = None) -> list[GapRow]:
    """One row per gap op, in order of the step. `digest` holds statistics already computed for this record."""
    digest, total_ns = digest or Digest(), whole_ns(step)
    found: list[GapRow] = []
    for row in step.rows:
        if row.kernel is None:
            time_ns = digest.median(row.in_graph)
            share = time_ns / total_ns if time_ns is not None and total_ns else None
            found.append(GapRow(row=row, share=share, digest=digest))
    return found


def known_sum(values: Sequence[float | None]) -> float | None:
    """Sum of those that are known; 0 of no values, `None` where none of them is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known or not values else None


def gap_lines(step: StepRecord, digest: Digest | None = None) -> list[GapLine]:
    """Gap ops added up by source line, the most expensive line first."""
    groups: dict[tuple[str, int] | None, list[GapRow]] = {}
    for row in gap_rows(step, digest):
        source = row.row.source
        groups.setdefault((source.file, source.line) if source else None, []).append(row)
    names = [_line(rows[0].row.source) for rows in groups.values()]
    whole = whole_ns(step)
    lines = [_gap_line(rows, whole, alone=names.count(_line(rows[0].row.source)) == 1) for rows in groups.values()]
    return sorted(lines, key=lambda line: -(line.time_ns or 0.0))


def _gap_line(rows: Sequence[GapRow], total_ns: float, *, alone: bool) -> GapLine:
    def time_of(*phases: StepPhase) -> float | None:
        return known_sum([row.in_graph_ns for row in rows if row.row.phase in phases])

    time_ns = time_of("forward", "backward", "optimizer")
    return GapLine(
        line=_line(rows[0].row.source, folders=not alone),
        ops=tuple(dict.fromkeys(row.row.op_type for row in rows)),
        calls=sum(row.row.calls for row in rows),
        forward_ns=time_of("forward"),
        backward_ns=time_of("backward"),
        optimizer_ns=time_of("optimizer"),
        time_ns=time_ns,
        share=time_ns / total_ns if time_ns is not None and total_ns else None,
        missing=sum(row.in_graph_ns is None for row in rows),
    )


def _line(source: SourceLine | None, *, folders: bool = False) -> str:
    if source is None:
        return NO_LINE
    place = f"{source.file}:{source.line}" if folders else source_text(source)
    return f"{place} {source.code.strip()}".strip()
