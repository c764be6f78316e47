"""Under what two compared profiles were measured: environment, policy, clocks, inputs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Final

from graphbench.analysis.clocks import median_sm_mhz
from graphbench.analysis.diff_regions import Pair
from graphbench.analysis.graph_replays import launched_otherwise
from graphbench.condition_records import Ceiling
from graphbench.errors import first_line
from graphbench.records import TOLD_FIRST, ProfileRecord, RegionRecord
from graphbench.units import count_text, format_duration, format_number

ESTIMATED: Final = "stamp_grain_ns"
"""Found anew in every profile from its own samples: that it differs says nothing of the conditions."""
CLOCKS_SAME_WITHIN: Final = 0.02
"""Relative difference of the median SM clocks above which it may be what makes the times differ."""
CEILINGS_SAME_WITHIN: Final = 0.05
"""Relative difference of two ceilings above which they are told: a device's own repeat within a few percent."""
_FIRST: Final = ("torch", "gpu", "driver", "cuda", "triton")


def findings(before: ProfileRecord, after: ProfileRecord) -> Iterator[str]:
    """Why the times may differ though nothing else does: other devices, other clocks, kernels launched otherwise."""
    devices = other_device(before, after)
    if devices is not None:
        yield f"another device: {devices[0]} before, {devices[1]} after: no row is called faster or slower"
    elif device_kind(before) == "cpu" and before.environment.cpu != after.environment.cpu:
        cpus = f"{before.environment.cpu} before, {after.environment.cpu} after"
        yield f"another CPU: {cpus}: the difference may be the CPU's"
    old, new = median_sm_mhz(before), median_sm_mhz(after)
    if old is not None and new is not None and abs(new - old) > CLOCKS_SAME_WITHIN * old:
        yield f"the SM clock was {old:.0f} MHz before, {new:.0f} MHz after (medians): the difference may be the clock's"
    locks = before.policy.lock_gpu_clock_mhz, after.policy.lock_gpu_clock_mhz
    if (locks[0] is None) != (locks[1] is None):
        which, mhz = ("before", locks[0]) if locks[1] is None else ("after", locks[1])
        yield f"the SM clock was locked only {which}, to {mhz} MHz: measure both with it locked, or neither"
    if devices is None:
        yield from launched_otherwise(before, after)


def environment(before: ProfileRecord, after: ProfileRecord) -> Iterator[tuple[str, str, str]]:
    """What differs of environment, Inductor options, policy and ceilings, as (what, before, after)."""
    old, new = before.environment, after.environment
    names = [field.name for field in fields(old) if field.name not in (*_FIRST, "options", ESTIMATED)]
    yield from _fields("", old, new, (*_FIRST, *names), "none")
    yield from _differing("option ", dict(old.options), dict(new.options), "not set")
    yield from _fields(
        "policy ", before.policy, after.policy, [field.name for field in fields(before.policy)], "not set"
    )
    yield from _ceilings(before, after)
    if before.graphbench != after.graphbench:
        yield "graphbench", before.graphbench, after.graphbench


def _fields(
    title: str, before: object, after: object, names: Iterable[str], absent: str
) -> Iterator[tuple[str, str, str]]:
    for name in names:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield f"{title}{name}", absent if old is None else str(old), absent if new is None else str(new)


def _differing(
    title: str, before: Mapping[str, str], after: Mapping[str, str], absent: str
) -> Iterator[tuple[str, str, str]]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{title}{name}", before.get(name, absent), after.get(name, absent)


def _ceilings(before: ProfileRecord, after: ProfileRecord) -> Iterator[tuple[str, str, str]]:
    """Ceilings further apart than two measurements of one device are."""
    old, new = ({_title(entry): entry for entry in record.ceilings} for record in (before, after))
    for title in dict.fromkeys((*old, *new)):
        a, b = old.get(title), new.get(title)
        if a is None or b is None or abs(b.value - a.value) > CEILINGS_SAME_WITHIN * a.value:
            yield f"ceiling {title}", _value(a), _value(b)


def _title(ceiling: Ceiling) -> str:
    return " ".join(part for part in (ceiling.device, ceiling.kind, ceiling.arithmetic) if part)


def _value(ceiling: Ceiling | None) -> str:
    if ceiling is None:
        return "not measured"
    if ceiling.kind == "launch":
        return format_duration(ceiling.value)
    if ceiling.kind == "matmul":
        return f"{format_number(ceiling.value / 1e12)} TFLOP/s"
    return f"{format_number(ceiling.value / 1e9)} GB/s"


def device_kind(record: ProfileRecord) -> str | None:
    """`cpu`, or the type of the device that a profile's regions ran on; `None` where it has none."""
    kinds = [region.device.split(":")[0] for region in record.regions]
    return next((kind for kind in kinds if kind != "cpu"), kinds[0] if kinds else None)


def other_device(before: ProfileRecord, after: ProfileRecord) -> tuple[str, str] | None:
    """Names of the two devices, where they are of different kinds or different GPUs; `None` where times compare."""
    kinds = device_kind(before), device_kind(after)
    if None in kinds:
        return None
    gpus = before.environment.gpu, after.environment.gpu
    if kinds[0] == kinds[1] and (kinds[0] == "cpu" or gpus[0] == gpus[1]):
        return None
    names = [
        record.environment.cpu if kind == "cpu" else record.environment.gpu or str(kind)
        for record, kind in zip((before, after), kinds, strict=True)
    ]
    return names[0], names[1]


def notes(before: ProfileRecord, after: ProfileRecord, pairs: Sequence[Pair]) -> Iterator[str]:
    """What else may make the two unlike: a shared CPU, a run cut short, other regions, inputs or ambient state.

    `pairs` are the regions of both, joined.
    """
    for which, record in (("before", before), ("after", after)):
        yield from (f"{which}: {note}" for note in record.notes if note.startswith(TOLD_FIRST))
        if record.step is None and (before.step or after.step):
            yield f"{which}: no step was recorded, so that gap ops are not compared"
        failed = [f"{region.key} ({first_line(region.reason)})" for region in record.regions if region.status != "ok"]
        if failed:
            yield f"{which}: {', '.join(failed[:3])} not measured"
    if len(before.regions) != len(after.regions):
        yield f"{count_text(len(before.regions), 'region')} before, {len(after.regions)} after"
    moved = [f"{old.key} is now {new.key}" for old, new in pairs if old and new and old.key != new.key]
    if moved:
        yield f"regions were renumbered: {', '.join(moved[:5])}{' ...' if len(moved) > 5 else ''}"
    for old, new in pairs:
        if old is not None and new is not None:
            yield from _unlike(old, new)


def other_arithmetic(old: RegionRecord, new: RegionRecord) -> Iterator[str]:
    """Why two regions do other arithmetic whatever their sizes: dtypes of what they are given, ambient state."""
    dtypes = {entry.name: entry.spec.dtype for entry in old.inputs if entry.spec is not None}
    changed = [
        f"{entry.name} is {entry.spec.dtype}, not {dtypes[entry.name]}"
        for entry in new.inputs
        if entry.spec is not None and dtypes.get(entry.name, entry.spec.dtype) != entry.spec.dtype
    ]
    if changed:
        yield f"{new.key}: other dtypes: {', '.join(changed[:3])}{' ...' if len(changed) > 3 else ''}"
    if old.ambient != new.ambient:
        yield _other_ambient(new)


def _unlike(old: RegionRecord, new: RegionRecord) -> Iterator[str]:
    specs = {entry.name: entry.spec for entry in old.inputs}
    changed = [entry.name for entry in new.inputs if entry.name in specs and specs[entry.name] != entry.spec]
    if changed:
        yield f"{new.key}: inputs differ in shape, dtype or layout: {', '.join(changed[:5])}"
    if old.ambient != new.ambient:
        yield _other_ambient(new)


def _other_ambient(region: RegionRecord) -> str:
    return f"{region.key}: the ambient state (autocast, grad mode, precision, ...) differs"
