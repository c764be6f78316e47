"""The ceilings that go into a profile: measured now, or taken from this machine's file of those measured before."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, get_args

import torch

from graphbench.analysis.stats import quantile
from graphbench.arguments import check_type
from graphbench.condition_records import Ceiling, CeilingKind, Environment
from graphbench.errors import GraphbenchError, UsageError
from graphbench.files import CACHE_VARIABLE, cache_folder, read_bounded, write_whole
from graphbench.isolate.bench_unit import RngState
from graphbench.measurements import Measurement
from graphbench.measuring.environment import CpuWatch
from graphbench.memory import available_bytes
from graphbench.options import MeasureOptions
from graphbench.put_back import put_back
from graphbench.records import RegionRecord
from graphbench.timing.base import Timer
from graphbench.timing.ceilings import find_ceilings

FILE_NAME: Final = "ceilings.json"
MOST_DAYS: Final = 30
"""After so many days what was measured is measured again."""
MOST_BYTES: Final = 1 << 20
OUTDONE: Final = 1.25
"""A ceiling that a row exceeds by so much was too low."""
UNTIMED: Final = ("fake",)


def asked_ceilings(
    options: MeasureOptions,
    timer: Timer,
    device: torch.device,
    measured_on: Environment,
    regions: Sequence[RegionRecord],
    *,
    lost: bool,
    now: str,
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """What the device can do, as far as that is asked for, and notes on it. After all rows: CUPTI slows launches.

    Args are those of `ceilings_of`; `lost` says that nothing can run on the device any more.
    """
    if options.ceilings == "off" or lost:
        return (), ()
    watch = CpuWatch()
    return ceilings_of(
        timer,
        device,
        measured_on,
        regions,
        locked_mhz=options.lock_gpu_clock,
        fresh=options.ceilings == "fresh",
        quiet=lambda: device.type != "cpu" or not watch.notes(),
        now=now,
    )


def ceilings_of(
    timer: Timer,
    device: torch.device,
    measured_on: Environment,
    regions: Sequence[RegionRecord],
    *,
    locked_mhz: int | None,
    fresh: bool,
    quiet: Callable[[], bool],
    now: str,
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """The ceilings of a device that its rows are set against.

    Args:
        timer: the instrument of the rows.
        device: the device.
        measured_on: the environment; ceilings measured in another one are not taken.
        regions: what was measured, for the arithmetics of its products.
        locked_mhz: what the clock is locked to.
        fresh: measure again whatever the file has.
        quiet: asked after measuring, whether nobody else took the CPU meanwhile; only then it is written down.
        now: the date.

    Returns:
        Ceilings, and notes on what could not be found or kept.
    """
    if timer.name in UNTIMED:
        return (), ()
    name = str(torch.empty(0, device=device).device)
    store = CeilingStore.open()
    key = key_of(measured_on, timer.name, locked_mhz)
    known = () if fresh else store.recall(key, name, now)
    if outdone(known, regions):
        known = ()  # what a row does, the device can do: it was measured on a bad day
    wanted = arithmetics_of(regions) - {entry.arithmetic for entry in known if entry.kind == "matmul"}
    if known and not wanted:
        return known, ()
    generators = RngState(device)
    with put_back(generators.restore):
        found = find_ceilings(
            timer, device, tuple(sorted(wanted)), when=now, room_bytes=available_bytes(device), only=bool(known)
        )
    notes = [f"ceiling not measured: {missing}" for missing in found.missing]
    if not quiet():
        return (*known, *found.ceilings), tuple(notes)
    try:
        store.keep(key, (*known, *found.ceilings))
    except UsageError as error:
        notes.append(f"ceilings are measured anew in every run: {error.message}")
    return (*known, *found.ceilings), tuple(notes)


def outdone(known: Iterable[Ceiling], regions: Iterable[RegionRecord]) -> bool:
    """Whether some row's products are faster than a ceiling says that any can be, by more than chance."""
    rates = {entry.arithmetic: entry.value for entry in known if entry.kind == "matmul"}
    for measured in _measured(regions):
        work, samples = measured.work, measured.samples
        if work is None or not work.flops or samples is None or not min(samples.busy_ns):
            continue
        rate = rates.get(work.arithmetic)
        if rate is not None and work.flops / quantile(samples.busy_ns, 0.5) * 1e9 > OUTDONE * rate:
            return True
    return False


def _measured(regions: Iterable[RegionRecord]) -> Iterator[Measurement]:
    for region in regions:
        yield from (node.isolated for node in region.nodes)
        yield from (node.backward_isolated for node in region.nodes)
        yield from (node.isolated for node in region.post_grad)


def arithmetics_of(regions: Iterable[RegionRecord]) -> set[str]:
    """What the products of all measured rows are done in."""
    works = (measured.work for measured in _measured(regions))
    return {work.arithmetic for work in works if work is not None and work.arithmetic}


def key_of(measured_on: Environment, timer: str, locked_mhz: int | None) -> str:
    """What ceilings depend on, in one word."""
    parts = (
        *(measured_on.gpu or measured_on.cpu, measured_on.driver, measured_on.cuda, measured_on.torch),
        *(None if measured_on.gpu else measured_on.num_threads, timer, locked_mhz),
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class CeilingStore:
    """The file of ceilings in the user's cache folder, or in that of `GRAPHBENCH_CACHE_DIR`.

    What cannot be read in it is as if it were not there: it is measured again, and written over.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries = self._read()

    @classmethod
    def open(cls) -> CeilingStore:
        """The file of this user."""
        return cls(cache_folder() / FILE_NAME)

    def _read(self) -> dict[str, list[Ceiling]]:
        try:
            content = read_bounded(self._path, MOST_BYTES)
            plain = json.loads(content or b"{}")
            return {str(key): [_checked(entry) for entry in entries] for key, entries in plain.items()}
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError, GraphbenchError):
            return {}

    def recall(self, key: str, device: str, now: str) -> tuple[Ceiling, ...]:
        """What was measured under a key in the last days, as of `device`; a machine's equal devices share it."""
        entries = [entry for entry in self._entries.get(key, []) if _days(entry.measured, now) < MOST_DAYS]
        if not any(entry.kind == "copy" for entry in entries):
            return ()
        return tuple(replace(entry, device=device, cached=True) for entry in entries)

    def keep(self, key: str, ceilings: Iterable[Ceiling]) -> None:
        """Write down what was measured.

        Raises:
            UsageError: the file cannot be written.
        """
        self._entries[key] = [replace(entry, cached=False) for entry in ceilings]
        plain = {key: [asdict(entry) for entry in entries] for key, entries in self._entries.items()}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make {self._path.parent}: {error.strerror}", subject=CACHE_VARIABLE) from error
        write_whole(self._path, json.dumps(plain, indent=1) + "\n", overwrite=True)


def _checked(plain: Mapping[str, Any]) -> Ceiling:
    """One entry of the file.

    Raises:
        UsageError, ValueError, TypeError: it is no ceiling.
    """
    entry = Ceiling(**plain)
    for name, kind in (("device", str), ("measured", str), ("arithmetic", str), ("how", str), ("value", float)):
        check_type(name, getattr(entry, name), kind)
    if not isinstance(entry.within_bytes, int | None):
        raise ValueError(entry.within_bytes)
    if entry.kind not in get_args(CeilingKind) or not 0 < entry.value < float("inf"):
        raise ValueError(entry.kind)
    datetime.datetime.fromisoformat(entry.measured)
    return entry


def _days(then: str, now: str) -> float:
    passed = datetime.datetime.fromisoformat(now) - datetime.datetime.fromisoformat(then)
    return abs(passed.total_seconds()) / 86400
