"""Recorded sessions of a real GPU: how the files of `tests/data` are written, read and looked at. No torch."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from graphbench import document
from graphbench.provenance.correlation import (
    PREPARATION,
    Activity,
    Attribution,
    Label,
    Launch,
    Owner,
    WindowStamp,
    attribute,
)
from graphbench.records import ProfileRecord
from graphbench.timing.cupti_library import ClockReading

DATA: Final = Path(__file__).parent / "data"
PROFILES: Final = DATA / "profiles"
SUFFIX: Final = ".json.gz"


def recorded_profile(name: str = "training_step") -> ProfileRecord:
    """A whole profile of a GPU, as `python -m tests.data.record_profile` wrote it."""
    file = PROFILES / (name + SUFFIX)
    return document.loads(gzip.decompress(file.read_bytes()).decode(), path=file.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """One session as it was just before attribution, and what the script knows that it launched.

    `probes` are the external ids of the opening and the closing test launch; `clock` holds the readings of both clocks
    in order; `expected` comes from the launching code alone (`record_activity.Scene`), never from attribution.
    """

    scenario: str
    made_with: Mapping[str, str]
    activities: tuple[Activity, ...]
    external_ids: Mapping[int, int]
    owners: Mapping[int, Owner]
    probes: tuple[int, int]
    windows: tuple[WindowStamp, ...]
    clock: tuple[ClockReading, ...]
    dropped: int
    expected: Mapping[str, Any]


def dump(recorded: RecordedSession, folder: Path = DATA) -> Path:
    """Write a session. Stamps are relative to `base_ns`, activities are columns, names and launches are tables."""
    base_ns = min((activity.start_ns for activity in recorded.activities), default=0)
    names = list(dict.fromkeys(activity.name for activity in recorded.activities))
    launches: list[Launch | None] = list(dict.fromkeys(activity.launch for activity in recorded.activities))
    columns: dict[str, list[Any]] = {name: [getattr(a, name) for a in recorded.activities] for name in Activity._fields}
    columns |= {name: [stamp - base_ns for stamp in columns[name]] for name in ("start_ns", "end_ns")}
    columns |= {"name": [names.index(name) for name in columns["name"]]}
    columns |= {"launch": [launches.index(launch) for launch in columns["launch"]]}
    document = {
        "scenario": recorded.scenario,
        "made_with": recorded.made_with,
        "base_ns": base_ns,
        "names": names,
        "launches": launches,
        "activities": columns,
        "external_ids": list(recorded.external_ids.items()),
        "owners": [[i, "preparation" if o is PREPARATION else o] for i, o in recorded.owners.items()],
        "probes": recorded.probes,
        "windows": [[w.sample, w.start_ns - base_ns, w.end_ns - base_ns] for w in recorded.windows],
        "clock": recorded.clock,
        "dropped": recorded.dropped,
        "expected": recorded.expected,
    }
    file = folder / (recorded.scenario + SUFFIX)
    text = json.dumps(document, separators=(",", ":"))
    file.write_bytes(gzip.compress(text.encode(), mtime=0))  # the same session gives the same bytes
    return file


def load(scenario: str, folder: Path = DATA) -> RecordedSession:
    """Read a session.

    Raises:
        FileNotFoundError: it was never recorded.
    """
    file = folder / (scenario + SUFFIX)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such recording; `python -m tests.data.record_activity` makes it on a GPU")
    document = json.loads(gzip.decompress(file.read_bytes()))
    base_ns, names = document["base_ns"], document["names"]
    launches = [_launch(sizes) for sizes in document["launches"]]
    rows = zip(*(document["activities"][column] for column in Activity._fields), strict=True)
    return RecordedSession(
        scenario=document["scenario"],
        made_with=document["made_with"],
        activities=tuple(
            Activity(kind, names[name], start + base_ns, end + base_ns, *rest, launches[launch])
            for kind, name, start, end, *rest, launch in rows
        ),
        external_ids=dict(document["external_ids"]),
        owners={i: PREPARATION if owner == "preparation" else (owner[0], owner[1]) for i, owner in document["owners"]},
        probes=(document["probes"][0], document["probes"][1]),
        windows=tuple(WindowStamp(s, start + base_ns, end + base_ns) for s, start, end in document["windows"]),
        # Sessions recorded before a steady clock was read: nobody set the host's clock meanwhile.
        clock=tuple(ClockReading(*(*reading, reading[1])[:3]) for reading in document["clock"]),
        dropped=document["dropped"],
        expected=document["expected"],
    )


def _launch(sizes: list[Any] | None) -> Launch | None:
    """A launch as JSON gives it back: its three sizes are lists there."""
    return None if sizes is None else Launch(*(tuple(size) if isinstance(size, list) else size for size in sizes))


def attributed(recorded: RecordedSession) -> Attribution:
    """What `provenance.correlation` makes of a session."""
    return attribute(recorded.activities, recorded.external_ids, recorded.owners, recorded.windows)


def owner_of(recorded: RecordedSession, activity: Activity) -> Owner | None:
    """The label or marker under which an activity was launched, worked out apart from `provenance.correlation`."""
    external = recorded.external_ids.get(activity.correlation_id)
    return None if external is None else recorded.owners[external]


def labelled(recorded: RecordedSession) -> dict[Label, list[Activity]]:
    """The work of every label that has any."""
    found: dict[Label, list[Activity]] = defaultdict(list)
    for activity in recorded.activities:
        label = owner_of(recorded, activity)
        if isinstance(label, tuple):
            found[label].append(activity)
    return found


def busy_by_sweep_ns(activities: Iterable[Activity]) -> int:
    """Union per device, summed, by counting what is open between one edge and the next: not as graphbench does it."""
    edges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for activity in activities:
        edges[activity.device_id] += [(activity.start_ns, 1), (activity.end_ns, -1)]
    total = 0
    for device in edges.values():
        ordered, running = sorted(device), 0
        for (at, step), (then, _) in itertools.pairwise(ordered):
            running += step
            total += (then - at) if running else 0
    return total
