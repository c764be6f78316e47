"""The check of traces finds what a viewer would drop, misplace or misread, and what the profile does not say."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from graphbench.records import ProfileRecord
from graphbench.report.trace import TraceReporter
from tests.step_samples import training_step
from tests.trace_format import DEEPEST, time_faults, trace_faults

Event = dict[str, Any]


def _in_modules(record: ProfileRecord) -> ProfileRecord:
    """The same, every node in a module."""
    regions = []
    for region in record.regions:
        nodes = tuple(dataclasses.replace(node, module=f"layers.{at}") for at, node in enumerate(region.nodes))
        regions.append(dataclasses.replace(region, nodes=nodes))
    return dataclasses.replace(record, regions=tuple(regions))


RECORD = _in_modules(training_step())
GOOD = json.loads(TraceReporter().render(RECORD))


def changed(change: Callable[[list[Event]], None]) -> str:
    document = copy.deepcopy(GOOD)
    change(document["traceEvents"])
    return json.dumps(document)


def first(events: list[Event], **wanted: str) -> Event:
    return next(event for event in events if all(event.get(key) == value for key, value in wanted.items()))


def last_of(events: list[Event], track: Event) -> int:
    return max(at for at, event in enumerate(events) if (event["pid"], event["tid"]) == (track["pid"], track["tid"]))


def _overlap(events: list[Event]) -> None:
    first(events, ph="X", cat="eager")["dur"] += 1.0


def _reach_out_of_a_module(events: list[Event]) -> None:
    first(events, ph="X", cat="module")["dur"] -= 0.002


def _go_back(events: list[Event]) -> None:
    first(events, ph="X", cat="idle")["ts"] = 1e9


def _start_without_end(events: list[Event]) -> None:
    events.remove(first(events, ph="f"))


def _end_without_start(events: list[Event]) -> None:
    events.remove(first(events, ph="s"))


def _another_category(events: list[Event]) -> None:
    first(events, ph="f")["cat"] = "other"


def _another_number(events: list[Event]) -> None:
    first(events, ph="f")["id"] = 10_000


def _start_twice(events: list[Event]) -> None:
    start = first(events, ph="s")
    events.insert(events.index(start), dict(start))


def _flow_outside(events: list[Event]) -> None:
    compiled = first(events, ph="f")
    at = last_of(events, compiled)
    events.insert(at + 1, {**compiled, "ts": events[at]["ts"] + 1e6, "id": 1})


def _flow_back_in_time(events: list[Event]) -> None:
    start, end = first(events, ph="s"), first(events, ph="f")
    start["ph"], end["ph"] = "f", "s"
    start["bp"] = "e"


def _unbound_flow(events: list[Event]) -> None:
    del first(events, ph="f")["bp"]


def _missing_key(events: list[Event]) -> None:
    del first(events, ph="X")["dur"]


def _negative(events: list[Event]) -> None:
    first(events, ph="X")["dur"] = -1.0


def _unknown_phase(events: list[Event]) -> None:
    first(events, ph="X")["ph"] = "Z"


def _bad_scope(events: list[Event]) -> None:
    events.append({**first(events, ph="i", cat="break"), "s": "x"})


def _no_track_name(events: list[Event]) -> None:
    events.remove(first(events, ph="M", name="thread_name"))


def _late_metadata(events: list[Event]) -> None:
    events.append(events.pop(0))


def _shared_thread(events: list[Event]) -> None:
    eager = first(events, ph="X", cat="eager")
    events.append({**eager, "pid": 1})


def _too_deep(events: list[Event]) -> None:
    idle = first(events, ph="X", cat="idle")
    at = last_of(events, idle) + 1
    events[at:at] = [{**idle, "ts": 1e6} for _ in range(DEEPEST + 1)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_overlap, "overlaps"),
        (_reach_out_of_a_module, "overlaps"),
        (_go_back, "stamps go back"),
        (_start_without_end, "has no end"),
        (_end_without_start, "ends before it starts"),
        (_another_category, "has no end"),
        (_another_number, "has no end"),
        (_start_twice, "starts twice"),
        (_flow_outside, "lies in no slice"),
        (_flow_back_in_time, "ends before it starts"),
        (_unbound_flow, "f without bp"),
        (_missing_key, "X without dur"),
        (_negative, "dur is -1.0"),
        (_unknown_phase, "unknown phase"),
        (_bad_scope, "scope"),
        (_no_track_name, "has no name"),
        (_late_metadata, "metadata between events"),
        (_shared_thread, "is taken for another one"),
        (_too_deep, "lies too deep"),
    ],
)
def test_a_broken_trace_is_told(change: Callable[[list[Event]], None], told: str) -> None:
    assert any(told in fault for fault in trace_faults(changed(change)))


def _wrong_node(events: list[Event]) -> None:
    first(events, ph="X", cat="eager")["dur"] -= 0.001


def _wrong_kernel(events: list[Event]) -> None:
    row = next(event for event in events if event.get("cat") == "compiled" and "region" in event["args"])
    row["dur"] -= 0.001


def _wrong_timeline(events: list[Event]) -> None:
    first(events, ph="X", cat="gap")["dur"] -= 0.001


def _late_timeline(events: list[Event]) -> None:
    first(events, ph="X", cat="gap")["ts"] += 0.001


def _lost_node(events: list[Event]) -> None:
    events.remove(first(events, ph="X", cat="eager"))


def _node_told_twice(events: list[Event]) -> None:
    events.append(dict(first(events, ph="X", cat="eager")))


def _lost_event(events: list[Event]) -> None:
    events.remove(first(events, ph="X", cat="gap"))


def _short_phase(events: list[Event]) -> None:
    first(events, ph="X", cat="phase")["dur"] -= 0.001


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_wrong_node, "the trace has"),
        (_wrong_kernel, "the trace has"),
        (_wrong_timeline, "1 missing, 1 too many"),
        (_late_timeline, "1 missing, 1 too many"),
        (_lost_node, "is told 0 times"),
        (_node_told_twice, "is told 2 times"),
        (_lost_event, "1 missing, 0 too many"),
        (_short_phase, "longer than its rows"),
    ],
)
def test_a_time_that_the_profile_does_not_have_is_told(change: Callable[[list[Event]], None], told: str) -> None:
    assert any(told in fault for fault in time_faults(changed(change), RECORD))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"displayTimeUnit":"ns","traceEvents":[],"x":NaN}', "NaN is no JSON"),
        ('{"displayTimeUnit":"ns","traceEvents":[],"x":-Infinity}', "Infinity is no JSON"),
        ('{"displayTimeUnit":"ns","traceEvents":[],"x":0.0001234567890123456789}', "is misread"),
        ('{"displayTimeUnit":"ns","traceEvents":[],"x":"\\ud83d\\ude00"}', "an escaped surrogate"),
        ('{"displayTimeUnit":"us","traceEvents":[]}', "displayTimeUnit"),
    ],
)
def test_text_that_a_reader_refuses_or_misreads_is_told(text: str, told: str) -> None:
    assert any(told in fault for fault in trace_faults(text))


def test_the_trace_that_was_broken_is_a_good_one() -> None:
    assert trace_faults(json.dumps(GOOD)) == []
    assert time_faults(json.dumps(GOOD), RECORD) == []
