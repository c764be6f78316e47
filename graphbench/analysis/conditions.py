"""Under what two compared profiles were measured: environment, policy, clocks, inputs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from graphbench.analysis.clocks import median_sm_mhz
from graphbench.records import TOLD_FIRST, ProfileRecord
from graphbench.units import count_text

ESTIMATED: Final = "stamp_grain_ns"
"""Found anew in every profile from its own samples: that it differs says nothing of the conditions."""
CLOCKS_SAME_WITHIN: Final = 0.02
"""Relative difference of the median SM clocks above which it may be what makes the times differ."""


def findings(before: ProfileRecord, after: ProfileRecord) -> Iterator[str]:
    """Why the times may differ though nothing else does: the clocks of the two profiles."""
    old, new = median_sm_mhz(before), median_sm_mhz(after)
    if old is not None and new is not None and abs(new - old) > CLOCKS_SAME_WITHIN * old:
        yield f"the SM clock was {old:.0f} MHz before, {new:.0f} MHz after (medians): the difference may be the clock's"
    locks = before.policy.lock_gpu_clock_mhz, after.policy.lock_gpu_clock_mhz
    if (locks[0] is None) != (locks[1] is None):
        which, mhz = ("before", locks[0]) if locks[1] is None else ("after", locks[1])
        yield f"the SM clock was locked only {which}, to {mhz} MHz: measure both with it locked, or neither"


def environment(before: ProfileRecord, after: ProfileRecord) -> Iterator[tuple[str, str, str]]:
    """What differs of environment, policy and Inductor options, as (what, before, after)."""
    for title, a, b in (("", before.environment, after.environment), ("policy ", before.policy, after.policy)):
        for field in fields(a):  # both are records of one type
            old, new = getattr(a, field.name), getattr(b, field.name)
            if field.name == "options":
                yield from _options(dict(old), dict(new))
            elif old != new and field.name != ESTIMATED:
                yield f"{title}{field.name}", str(old), str(new)
    if before.graphbench != after.graphbench:
        yield "graphbench", before.graphbench, after.graphbench


def _options(before: dict[str, str], after: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"option {name}", before.get(name, "not set"), after.get(name, "not set")


def notes(before: ProfileRecord, after: ProfileRecord) -> Iterator[str]:
    """What else may make the two unlike: a shared CPU, a run cut short, other regions, inputs or ambient state."""
    for which, record in (("before", before), ("after", after)):
        yield from (f"{which}: {note}" for note in record.notes if note.startswith(TOLD_FIRST))
    if len(before.regions) != len(after.regions):
        yield f"{count_text(len(before.regions), 'region')} before, {len(after.regions)} after: paired by order"
    for left, right in zip(before.regions, after.regions, strict=False):
        old = {entry.name: entry.spec for entry in left.inputs}
        new = {entry.name: entry.spec for entry in right.inputs}
        changed = [name for name in old if name in new and old[name] != new[name]]
        if changed:
            yield f"{right.key}: inputs differ in shape, dtype or layout: {', '.join(changed[:5])}"
        if left.ambient != right.ambient:
            yield f"{right.key}: the ambient state (autocast, grad mode, precision, ...) differs"
