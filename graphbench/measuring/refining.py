"""With limited time: after a rough pass over everything, measures again what matters most, until the time is up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from graphbench.errors import GraphbenchError, JournalError, first_line
from graphbench.measuring.progress import Progress
from graphbench.measuring.spending import Key, Purse, affordable, worth_again
from graphbench.records import Policy, RegionRecord
from graphbench.runs.entries import STEP, MeasuredRegion
from graphbench.runs.ledger import Ledger


class MeasuresAgain(Protocol):
    """A region, some rows of which can be measured again."""

    def again(self, rows: set[Key], /) -> RegionRecord:
        """Measure these rows again."""


def refine(
    records: dict[str, RegionRecord],
    measuring: Mapping[str, MeasuresAgain],
    again_in_gaps: Callable[[set[Key]], None],
    policy: Policy,
    purse: Purse,
    ledger: Ledger,
    progress: Progress,
) -> None:
    """Measure rows again by the whole policy, those that take most time and are known least first.

    Args:
        records: regions as measured so far; those with rows that are measured again are replaced.
        measuring: by key, the regions that were measured in this process.
        again_in_gaps: measures gap ops again.
        policy: the whole one.
        purse: the time there is.
        ledger: what is known of every row.
        progress: is told.
    """
    done: set[tuple[str, Key]] = set()
    while not purse.is_empty:
        books = {key: book for key, book in ledger.books.items() if key in measuring or key == STEP}
        rows = affordable(worth_again(books, _calls(records), policy, done), policy, purse.left_s)
        if not rows:
            return
        progress.again(len(rows))
        done.update(rows)
        for key in dict.fromkeys(book for book, _ in rows):
            chosen = {row for book, row in rows if book == key}
            if key == STEP:
                again_in_gaps(chosen)
            elif not purse.is_empty:
                _again(records, measuring[key], key, chosen, ledger)


def _again(records: dict[str, RegionRecord], region: MeasuresAgain, key: str, rows: set[Key], ledger: Ledger) -> None:
    """What keeps a region from being measured again leaves it as it was."""
    try:
        record = region.again(rows)
    except JournalError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it raises, the first measurement stands
        told = error.message if isinstance(error, GraphbenchError) else f"{type(error).__name__}: {first_line(error)}"
        note = f"some rows were not measured again: {told}"
        records[key] = replace(records[key], notes=(*records[key].notes, note))
        return
    if record.status == "ok":
        records[key] = record
        ledger.book(key).put(MeasuredRegion(region=record))


def _calls(records: Mapping[str, RegionRecord]) -> dict[tuple[str, str], int]:
    return {(key, kernel.key): kernel.calls for key, region in records.items() for kernel in region.kernels}
