"""A profile of what a run has measured so far. Pure: no torch import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from graphbench.conservation import check, post_grad_row
from graphbench.document import SCHEMA_VERSION
from graphbench.errors import ProfileFormatError
from graphbench.measurements import Measurement, Status
from graphbench.records import (
    OP_LIST_REGION,
    PARTIAL_NOTE,
    VIEW,
    KernelRecord,
    NodeRecord,
    PostGradNode,
    ProfileRecord,
    RegionRecord,
    Side,
)
from graphbench.runs.entries import STEP, Conditions
from graphbench.runs.journal import JOURNAL, read_journal
from graphbench.runs.ledger import Book, Ledger
from graphbench.step_records import StepRecord
from graphbench.units import count_text

CUT_SHORT = "the run was cut short before it came to this"


def read_partial(folder: Path) -> ProfileRecord:
    """What the run of a directory has measured so far.

    Raises:
        ProfileFormatError: there is no journal, nothing was measured before it ended, or its lines do not fit.
        ConservationError: its rows do not add up.
    """
    contents = read_journal(folder)
    ledger = Ledger(entries=contents.entries)
    conditions, started = ledger.conditions, contents.started
    if conditions is None:
        raise ProfileFormatError(
            str(folder / JOURNAL),
            None,
            "a run that was cut short before it measured anything",
            "measured rows",
            hint=f"continue it: graphbench run --resume {folder}",
        )
    regions = tuple(
        region for book in ledger.books.values() if (region := region_so_far(book, "skipped", CUT_SHORT)) is not None
    )
    done = sum(book.measured is not None for book in ledger.books.values())
    record = ProfileRecord(
        schema_version=SCHEMA_VERSION,
        graphbench=started.graphbench if started is not None else "unknown",
        created=conditions.created,
        subject=conditions.subject,
        environment=conditions.environment,
        policy=conditions.policy,
        regions=regions,
        breaks=conditions.breaks,
        recompiles=conditions.recompiles,
        step=with_isolated(ledger.step, ledger.book(STEP)) if ledger.step is not None else None,
        notes=(
            f"{PARTIAL_NOTE}: the run was cut short; totals are of what it measured "
            f"({done} of {count_text(len(regions), 'region')} whole); graphbench run --resume {folder} continues it",
            *(f"the journal's {dropped}" for dropped in contents.dropped),
        ),
    )
    record = _without_lost_regions(record)
    check(record, path=str(folder / JOURNAL))
    return record


def stands_for(profile: ProfileRecord, folder: Path) -> bool:
    """Whether a profile is that of the run whose journal is there too: it was cut short after it was saved.

    Otherwise another run was to replace it.

    Raises:
        ProfileFormatError: there is no journal, or it cannot be read.
    """
    entries = read_journal(folder).entries
    began = next((entry.created for entry in entries if isinstance(entry, Conditions)), None)
    return began is not None and profile.created >= began  # both as ISO 8601 in UTC


def _without_lost_regions(record: ProfileRecord) -> ProfileRecord:
    """Leave out what refers to regions whose lines were damaged, or to kernels that a later line lacks."""
    keys = {region.key for region in record.regions} | {None}
    kernels = {(region.key, kernel.key) for region in record.regions for kernel in region.kernels}
    breaks = tuple(entry if entry.region in keys else replace(entry, region=None) for entry in record.breaks)
    recompiles = tuple(entry if entry.region in keys else replace(entry, region=None) for entry in record.recompiles)
    step, notes = record.step, record.notes
    rows = step.rows if step is not None else ()
    lost = sorted(
        {
            row.region
            for row in rows
            if row.region is not None
            and (row.region not in keys or (row.kernel is not None and (row.region, row.kernel) not in kernels))
        }
    )
    if lost:
        step, notes = (
            None,
            (*notes, f"the recorded step is left out: its kernels of region {lost[0]} are in no line that fits"),
        )
    return replace(record, breaks=breaks, recompiles=recompiles, step=step, notes=notes)


def region_so_far(book: Book, status: Status, reason: str) -> RegionRecord | None:
    """A region with the rows that were measured.

    Args:
        book: what is known of it.
        status: of the region, where it is not done: `skipped` is `ok` once anything of it was measured.
        reason: why it is not, also for every row without a result.

    Returns:
        The whole region where it is done; `None` where nothing is known of it.
    """
    if book.measured is not None or book.region is None:
        return book.measured
    region, missing = book.region, Measurement(status="skipped", reason=reason)
    sides = {name: dict(found.rows) for name, found in book.sides.items()}
    calls = {row: count for found in book.sides.values() for row, count in found.calls}
    notes = [note for found in book.sides.values() for note in found.notes]
    begun = any(found.side.run is not None for found in book.sides.values())
    if status == "skipped" and (begun or (region.key.startswith(OP_LIST_REGION) and book.units)):
        status, notes = "ok", [*notes, f"not whole: {reason}"]
    return replace(
        region,
        status=status,
        reason=reason if status != "ok" else "",
        nodes=tuple(_node(node, book, sides, missing) for node in region.nodes),
        post_grad=tuple(_post_grad(node, book, missing) for node in region.post_grad),
        kernels=tuple(_kernel(kernel, book, sides, calls, missing) for kernel in region.kernels),
        eager=_side(book, "eager", reason),
        eager_backward=_side(book, "eager_backward", reason),
        forward=_side(book, "forward", reason),
        backward=_side(book, "backward", reason),
        notes=tuple(dict.fromkeys(notes)),
    )


Sides = Mapping[str, Mapping[str, Measurement]]


def _side(book: Book, name: str, reason: str) -> Side:
    found = book.sides.get(name)
    return found.side if found is not None else Side(reason=reason)


def _node(node: NodeRecord, book: Book, sides: Sides, missing: Measurement) -> NodeRecord:
    isolated, backward = book.units.get(("isolated", node.name)), book.units.get(("backward", node.name))
    kind = node.kind
    if isolated is not None and isolated.has_effect is False:
        kind = "host"
    elif isolated is not None and isolated.is_view:
        kind = "view"
    return replace(
        node,
        kind=kind,
        isolated=isolated.measurement if isolated else missing,
        backward_isolated=backward.measurement if backward else missing,
        in_graph=sides.get("eager", {}).get(node.name, missing),
        backward_in_graph=sides.get("eager_backward", {}).get(node.name, missing),
    )


def _post_grad(node: PostGradNode, book: Book, missing: Measurement) -> PostGradNode:
    found = book.units.get(("isolated", post_grad_row(node.phase, node.name)))
    if found is None:
        return replace(node, isolated=missing)
    if found.is_view:  # which its schema does not tell
        return replace(node, isolated=Measurement(status="skipped", reason=VIEW), is_view=node.target != "getitem")
    return replace(node, isolated=found.measurement)


def _kernel(
    kernel: KernelRecord, book: Book, sides: Sides, calls: Mapping[str, int], missing: Measurement
) -> KernelRecord:
    found = book.units.get(("isolated", kernel.key))
    return replace(
        kernel,
        calls=calls.get(kernel.key, 0),
        isolated=found.measurement if found else missing,
        in_graph=sides.get(kernel.phase, {}).get(kernel.key, missing),
    )


def with_isolated(step: StepRecord, book: Book) -> StepRecord:
    """A recorded step with what was measured of its gap ops alone."""
    return replace(
        step,
        rows=tuple(
            replace(row, isolated=found.measurement) if (found := book.units.get(("isolated", row.name))) else row
            for row in step.rows
        ),
    )
