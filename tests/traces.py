"""Traces of profiles, read back for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from graphbench.records import ProfileRecord
from graphbench.report.trace import TraceReporter

Event = dict[str, Any]


def render(record: ProfileRecord) -> str:
    return TraceReporter().render(record)


def events(record: ProfileRecord) -> list[Event]:
    found: list[Event] = json.loads(render(record))["traceEvents"]
    return found


def of(found: Sequence[Event], category: str, phase: str = "X") -> list[Event]:
    return [event for event in found if event.get("cat") == category and event["ph"] == phase]


def track_names(found: Sequence[Event]) -> dict[int, str]:
    return {event["tid"]: event["args"]["name"] for event in found if event["name"] == "thread_name"}
