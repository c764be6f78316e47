"""What was found beside a bar: met, missed, or not run and why. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["met", "missed", "not run"]
Found = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of the table: what is measured, and what it must reach."""

    what: str
    limit: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one bar's benchmark found. `met` is `None` where nothing can be said; `why` says why, or what missed it."""

    text: str = ""
    met: bool | None = None
    why: str = ""

    @property
    def verdict(self) -> Verdict:
        """`met`, `missed` or `not run`."""
        return {True: "met", False: "missed", None: "not run"}[self.met]  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Gathered:
    """One figure of several subjects, and by name why it is missing for others."""

    values: Mapping[str, float]
    missing: Mapping[str, str]


def gathered(found: Found, names: Sequence[str], figure: Callable[[Any], Any]) -> Gathered:
    """One figure of each part of a result that `names` lists; what a part lacks or failed with is told by name."""
    values: dict[str, float] = {}
    missing: dict[str, str] = {}
    for name in names:
        part = found.get(name)
        if part is None:
            missing[name] = "not in the result"
        elif isinstance(part, Mapping) and "error" in part:
            missing[name] = str(part["error"]).partition("\n")[0]
        else:
            try:
                values[name] = float(figure(part))
            except (KeyError, TypeError, ValueError) as error:
                missing[name] = f"the result has no such figure: {error!r}"
    return Gathered(values, missing)


def at_most(figures: Gathered, limit: float, unit: str = "", digits: int = 2) -> Finding:
    """Every figure at most `limit`; the worst is shown. One that is no number misses."""
    return _worst(figures, lambda value: value <= limit, lambda value: value, unit, digits)


def below(figures: Gathered, limit: float, unit: str = "", digits: int = 2) -> Finding:
    """Every figure below `limit`; the worst is shown."""
    return _worst(figures, lambda value: value < limit, lambda value: value, unit, digits)


def at_least(figures: Gathered, limit: float, unit: str = "", digits: int = 2) -> Finding:
    """Every figure at least `limit`; the worst is shown."""
    return _worst(figures, lambda value: value >= limit, lambda value: -value, unit, digits)


def within(figures: Gathered, limit: float, unit: str = "", digits: int = 2) -> Finding:
    """No figure further than `limit` from 0; the furthest is shown."""
    return _worst(figures, lambda value: abs(value) <= limit, abs, unit, digits)


def _worst(
    figures: Gathered, holds: Callable[[float], bool], badness: Callable[[float], float], unit: str, digits: int
) -> Finding:
    values = figures.values
    why = [f"{name}: {reason}" for name, reason in figures.missing.items()]
    if not values:
        return Finding("", None, "; ".join(why) or "nothing was measured")
    worst = max(values, key=lambda name: math.inf if math.isnan(values[name]) else badness(values[name]))
    of = f" ({worst}, worst of {len(values)})" if len(values) > 1 else f" ({worst})"
    text = f"{values[worst]:.{digits}f}{unit}{of}"
    over = [name for name, value in values.items() if not holds(value)]
    if over:
        return Finding(text, False, "; ".join([f"missed by {', '.join(over)}", *why]))
    return Finding(text, None if why else True, "; ".join(why))


def none_of(faults: Iterable[str], checked: int, what: str) -> Finding:
    """No fault among `checked` things; where nothing was checked nothing can be said."""
    listed = list(faults)
    if listed:
        return Finding(f"{len(listed)} of {checked} {what}", False, ", ".join(listed[:5]))
    if not checked:
        return Finding("", None, f"no {what} checked")
    return Finding(f"0 of {checked} {what}", True)
