"""A limit on the time that measuring takes: a rough pass over everything, then again what matters most."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from graphbench.analysis.stats import median_noise, quantile
from graphbench.condition_records import Policy
from graphbench.runs.entries import UnitKind
from graphbench.runs.ledger import Book

TIME_UP: Final = "time was up before it was measured"
NODES_PART: Final = 0.5  # of a region's time in the first pass
OPS_PART: Final = 0.5  # of what the nodes left; kernels have the rest
_ROUGH_PART: Final = 0.4  # of the time, for a pass over everything
_SIDE_PART: Final = 0.02  # of the time, for one whole run
_FEWEST: Final = 5  # samples of a rough row
_FEWEST_CALLS: Final = 2  # of its warm-up
_FEWEST_RUNS: Final = 2  # of a whole side, in each of its measurements
ROWS_PART: Final = 0.5  # of a region's time that its rows have at least, however long whole runs take
_LEAST_NOISE: Final = 0.005  # few samples that agree by chance do not make a median known
_SPARE_S: Final = 0.02  # what measuring a row takes beside its samples
_OPS_COUNT: Final = 0.25  # post-grad nodes only say what the same kernels would take unfused

Key = tuple[UnitKind, str]


class Purse:
    """The time there is. It runs from when this is made.

    Args:
        seconds: how long.
    """

    def __init__(self, seconds: float) -> None:
        self._ends = monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self._ends - monotonic())

    @property
    def is_empty(self) -> bool:
        """Whether the time is up."""
        return self.left_s == 0

    def part(self, fraction: float) -> Purse:
        """So much of what is left, from now on."""
        return Purse(self.left_s * min(fraction, 1.0))


def rough(policy: Policy, n_units: int) -> Policy:
    """The policy of a first pass over so many units, within `_ROUGH_PART` of the policy's time."""
    assert policy.max_seconds is not None
    each_ms = _ROUGH_PART * 1000 * policy.max_seconds / max(n_units, 1)
    return replace(
        policy,
        warmup_ms=min(policy.warmup_ms, each_ms / 4),
        measure_ms=min(policy.measure_ms, each_ms / 2),
        warmup=min(policy.warmup if policy.warmup is not None else _FEWEST_CALLS, _FEWEST_CALLS),
        repeat=None if policy.repeat is None else min(policy.repeat, _FEWEST),
        min_samples=_FEWEST,
        max_samples=_most_rough(policy),
        noise=None,
        batch=None,
    )


def rough_side(policy: Policy) -> Policy:
    """The policy of whole runs, each of which takes as long as all units together."""
    assert policy.max_seconds is not None
    limit_ms = _SIDE_PART * 1000 * policy.max_seconds
    return replace(
        policy,
        warmup_ms=min(policy.warmup_ms, limit_ms / 4),
        measure_ms=min(policy.measure_ms, limit_ms),
        warmup=min(policy.warmup if policy.warmup is not None else 1, 1),
        repeat=None if policy.repeat is None else min(policy.repeat, _FEWEST),
        min_samples=min(policy.min_samples, _FEWEST_RUNS),
        noise=None,
    )


def _most_rough(policy: Policy) -> int:
    """Fewer samples than any row has that was measured again: so one can tell."""
    return max(_FEWEST, policy.min_samples - 1)


@dataclass(frozen=True, slots=True)
class _Candidate:
    book: str
    key: Key
    score: float


def worth_again(
    books: Mapping[str, Book], calls: Mapping[tuple[str, str], int], policy: Policy, done: Collection[tuple[str, Key]]
) -> list[tuple[str, Key]]:
    """Rows measured roughly, those first that take much time and are not known well.

    Args:
        books: what is known, by region, or `step`.
        calls: how often a row runs in a step, by region and row, where that is not once.
        policy: the whole one.
        done: rows that were measured again, or that it was tried for.
    """
    found = [entry for key, book in books.items() for entry in _candidates(key, book, calls, policy)]
    found = [entry for entry in found if (entry.book, entry.key) not in done]
    return [(entry.book, entry.key) for entry in sorted(found, key=lambda entry: -entry.score)]


def affordable(rows: list[tuple[str, Key]], policy: Policy, left_s: float) -> list[tuple[str, Key]]:
    """The first rows, as many as there is time for; at least one."""
    each_s = (policy.warmup_ms + policy.measure_ms) / 1000 + _SPARE_S
    return rows[: max(1, int(left_s / each_s))]


def _candidates(name: str, book: Book, calls: Mapping[tuple[str, str], int], policy: Policy) -> Iterator[_Candidate]:
    weights: dict[Key, float] = {}
    for (kind, row), unit in book.units.items():
        first = (kind, unit.measurement.shared_with or row)
        weights[first] = weights.get(first, 0.0) + calls.get((name, row), 1) * _importance(row)
    for key, unit in book.units.items():
        measured = unit.measurement
        if measured.samples is None or measured.status != "ok" or measured.shared_with is not None:
            continue
        busy_ns = measured.samples.busy_ns
        median_ns = quantile(busy_ns, 0.5)
        if len(busy_ns) <= _most_rough(policy) and median_ns > 0:
            noise = min(1.0, max(median_noise(busy_ns), _LEAST_NOISE))
            yield _Candidate(name, key, weights[key] * median_ns * noise)


def _importance(row: str) -> float:
    phase, colon, _ = row.partition(":")
    return _OPS_COUNT if colon and phase in ("forward", "backward") else 1.0
