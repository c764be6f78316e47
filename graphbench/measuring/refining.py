"""With limited time: after a rough pass over everything, measures again what matters most, until the time is up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from graphbench.condition_records import Policy
from graphbench.errors import GraphbenchError, JournalError, first_line
from graphbench.measuring.progress import Progress
from graphbench.measuring.spending import TIME_UP, Key, Purse, affordable, worth_again
from graphbench.records import RegionRecord
from graphbench.runs.entries import STEP, MeasuredRegion
from graphbench.runs.ledger import Ledger


class MeasuresAgain(Protocol):
    """A region, some rows of which can be measured again."""

    def again(self, rows: set[Key], policy: Policy, purse: Purse, /) -> RegionRecord:
        """Measure these rows again by a policy, and those that time was up for, while there is time."""


def refine(
    records: dict[str, RegionRecord],
    measuring: Mapping[str, MeasuresAgain],
    again_in_gaps: Callable[[set[Key]], None],
    policies: tuple[Policy, Policy],
    purse: Purse,
    ledger: Ledger,
    progress: Progress,
) -> None:
    """Measure what time was up for, then rows again, those that take most time and are known least first.

    Args:
        records: regions as measured so far; those with rows that are measured again are replaced.
        measuring: by key, the regions that were measured in this process.
        again_in_gaps: measures gap ops again, by the whole policy.
        policies: that of the first pass, and the whole one.
        purse: the time there is.
        ledger: what is known of every row.
        progress: is told.
    """
    first, whole = policies
    for key, region in measuring.items():
        if not purse.is_empty and _lacks(records[key]):
            records[key] = _again(records[key], region, set(), first, purse, ledger)
    done: set[tuple[str, Key]] = set()
    while not purse.is_empty:
        books = {key: book for key, book in ledger.books.items() if key in measuring or key == STEP}
        rows = affordable(worth_again(books, _calls(records), whole, done), whole, purse.left_s)
        if not rows:
            return
        progress.again(len(rows))
        done.update(rows)
        for key in dict.fromkeys(book for book, _ in rows):
            chosen = {row for book, row in rows if book == key}
            if key == STEP:
                again_in_gaps(chosen)
            elif not purse.is_empty:
                records[key] = _again(records[key], measuring[key], chosen, whole, purse, ledger)


def _lacks(region: RegionRecord) -> bool:
    """Whether time was up for rows of a region."""
    isolated = [node.isolated for node in region.nodes] + [node.isolated for node in region.post_grad]
    isolated += [kernel.isolated for kernel in region.kernels]
    return region.status == "ok" and any(measured.reason == TIME_UP for measured in isolated)


def _again(
    before: RegionRecord, region: MeasuresAgain, rows: set[Key], policy: Policy, purse: Purse, ledger: Ledger
) -> RegionRecord:
    """The region with rows measured again; what keeps it from that leaves it as it was."""
    try:
        record = region.again(rows, policy, purse)
    except JournalError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it raises, the first measurement stands
        told = error.message if isinstance(error, GraphbenchError) else f"{type(error).__name__}: {first_line(error)}"
        notes = dict.fromkeys((*before.notes, f"some rows were not measured again: {told}"))
        return replace(before, notes=tuple(notes))
    if record.status != "ok":
        return before
    ledger.book(record.key).put(MeasuredRegion(region=record))
    return record


def _calls(records: Mapping[str, RegionRecord]) -> dict[tuple[str, str], int]:
    return {(key, kernel.key): kernel.calls for key, region in records.items() for kernel in region.kernels}
