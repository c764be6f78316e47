"""What is measured of a session: its regions and a step's gap ops, in one pass or, with limited time, in several."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch

from graphbench.condition_records import Policy
from graphbench.errors import ContextLostError, GraphbenchError, JournalError, first_line
from graphbench.measurements import Measurement
from graphbench.measuring.gap_ops import GapOp
from graphbench.measuring.gap_units import isolate_gap_ops
from graphbench.measuring.guard import Guard
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.means import Means
from graphbench.measuring.options import Timers
from graphbench.measuring.progress import Progress, progress
from graphbench.measuring.refining import refine
from graphbench.measuring.region import RegionMeasuring
from graphbench.measuring.selection import Selection
from graphbench.measuring.spending import TIME_UP, Key, Purse, rough
from graphbench.measuring.unmeasured_region import skipped, unit_count
from graphbench.records import NOT_SELECTED, RegionRecord
from graphbench.regions import Region
from graphbench.runs.entries import STEP, MeasuredRegion
from graphbench.runs.ledger import Book, Ledger
from graphbench.runs.partial import region_so_far
from graphbench.session import Session

NEVER_CALLED = "compiled, but never called"
NO_OPS = "its graph has no ops"


class SessionWork:
    """Measures regions and gap ops, and keeps what was found.

    Args:
        session: what was captured.
        gaps: gap ops of a recorded step.
        device: what is timed.
        timers: the instruments.
        policy: how to measure.
        guard: stands around every unit.
        ledger: what is known already, and where what is found is noted.
    """

    def __init__(
        self,
        session: Session,
        gaps: Sequence[GapOp],
        device: torch.device,
        timers: Timers,
        policy: Policy,
        guard: Guard,
        ledger: Ledger,
    ) -> None:
        self.alone: dict[str, Measurement] = {}
        self._session = session
        self._gaps = gaps
        self._device = device
        self._timers = timers
        self._policy = policy
        self._guard = guard
        self._ledger = ledger
        self._selection = Selection.of(policy)
        self._records: dict[str, RegionRecord] = {}
        self._measuring: dict[str, RegionMeasuring] = {}
        self._reasons: dict[str, str] = {}

    @property
    def regions(self) -> tuple[RegionRecord, ...]:
        """The regions as measured so far."""
        return tuple(self._records.values())

    def begin(self, reached: Collection[str] | None, *, superseded: bool) -> None:
        """Find out what is to be measured.

        Args:
            reached: keys of the regions that a recorded step ran; `None` without one.
            superseded: also those that a recompile took over from.

        Raises:
            UsageError: a pattern of the policy means nothing.
        """
        self._reasons = {
            region.key: self._why_not(region, reached, superseded=superseded)
            for region in tuple(self._session.regions)  # another thread may be compiling
        }
        known = self._known_regions()
        self._check_selection([region for region in known if not self._reasons[region.key]], known)

    def _known_regions(self) -> list[Region]:
        return [region for region in self._session.regions if region.key in self._reasons]

    def measure(self, progress_wanted: bool | None) -> None:
        """Measure everything that is asked for.

        Args:
            progress_wanted: as in `MeasureOptions`.

        Raises:
            JournalError: what was found cannot be written.
        """
        regions, reasons = self._known_regions(), self._reasons
        n_units = sum(unit_count(region) for region in regions if not reasons[region.key]) + len(self._gaps)
        purse = Purse(self._policy.max_seconds) if self._policy.max_seconds is not None else None
        first = rough(self._policy, n_units) if purse is not None else None
        with progress(n_units, progress_wanted) as bar:
            means = Means(self._timers, self._policy, self._guard, bar.tick, bar.watch, purse, first)
            left = n_units
            for region in regions:
                region.compile_ns = self._session.compile_ns(region)
                reason = reasons[region.key]
                mine = replace(means, purse=purse.part(unit_count(region) / left)) if purse and left else means
                self._records[region.key] = skipped(region, reason) if reason else self._measured(region, mine)
                left -= 0 if reason else unit_count(region)
            isolator = Isolator(
                self._device,
                self._timers,
                first or self._policy,
                self._guard,
                self._ledger.book(STEP),
                wanted=self._selection.gap_rows({op.name: op.op_type for op in self._gaps}),
                purse=purse,
                watch=bar.watch,
            )
            self.alone = isolate_gap_ops(self._gaps, isolator, bar.tick)
            if purse is not None and first is not None:
                self._refine(isolator, first, purse, bar)

    def _refine(self, isolator: Isolator, first: Policy, purse: Purse, bar: Progress) -> None:
        def in_gaps(rows: set[Key]) -> None:
            isolator.policy, isolator.again = self._policy, rows
            self.alone = isolate_gap_ops(self._gaps, isolator, bar.tick)

        refine(self._records, self._measuring, in_gaps, (first, self._policy), purse, self._ledger, bar)

    def _check_selection(self, measured: Sequence[Region], known: Sequence[Region]) -> None:
        """Refuse patterns that mean nothing."""
        if self._selection == Selection():
            return
        kernels = [kernel for region in measured for kernel in skipped(region, "").kernels]
        self._selection.check(
            {region.key: region.nodes for region in measured},
            kernels,
            {op.name: op.op_type for op in self._gaps},
            [(region.key, region.shapes_of, region.location) for region in known],
        )

    def _measured(self, region: Region, means: Means) -> RegionRecord:
        """A region's record; when something keeps it from being whole, what was measured of it, with the reason."""
        book, guard = self._ledger.book(region.key), self._guard
        if book.measured is not None:
            return book.measured
        if guard.lost:
            return skipped(region, guard.reason)
        if means.purse is not None and means.purse.is_empty:
            return skipped(region, TIME_UP)
        measuring = RegionMeasuring(region, means, book)
        try:
            record = measuring.measure()
            self._measuring[region.key] = measuring
        except JournalError:
            raise
        except GraphbenchError as error:
            record = _so_far(region, book, error.message)
        except Exception as error:  # noqa: BLE001 - whatever one region raises, what was measured is not lost
            record = _so_far(region, book, _fault(region, guard, error))
        if record.status == "ok" or guard.is_lost():
            # Of a device that is lost, whoever lost it has told and left, if anybody can be named: this region is over.
            book.put(MeasuredRegion(region=record))
            guard.leave_if_lost()
        return record

    def _why_not(self, region: Region, reached: Collection[str] | None, *, superseded: bool) -> str:
        """Why a region is not measured; empty when it is."""
        if not region.calls:
            return region.problem or NEVER_CALLED
        if not region.nodes:
            return NO_OPS
        if region.capture is None:
            return region.problem or "every call raised, so no inputs were recorded"
        if not self._selection.wants_region(region.key, region.shapes_of, region.location):
            return NOT_SELECTED
        if reached is not None and region.key not in reached:
            return "the recorded step did not run it"
        successor = self._session.superseded(region)
        if reached is None and successor is not None and not superseded:
            return f"recompiled as {successor.key} and not called since"
        if region.capture.device != self._device:
            return f"it runs on {region.capture.device}, the others on {self._device}: measure one device at a time"
        return ""


def _fault(region: Region, guard: Guard, error: Exception) -> str:
    """Why a region could not be measured whole: its device is lost, or graphbench has a fault."""
    assert region.capture is not None
    try:
        guard.look(region.capture.device, error)
    except ContextLostError:
        return guard.reason
    return f"graphbench raised {type(error).__name__}: {first_line(error)}: please report it"


def _so_far(region: Region, book: Book, reason: str) -> RegionRecord:
    book.region = skipped(region, reason)
    record = region_so_far(book, "failed", reason)
    assert record is not None
    return record
