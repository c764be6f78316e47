"""A trace of a step on a GPU keeps to the format, and calls device work what torch.profiler calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import graphbench
from graphbench.records import ProfileRecord
from graphbench.report.trace import TraceReporter
from tests.gpu.traced_step import WARM_UPS, training_step
from tests.trace_format import time_faults, trace_faults

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]
COPIES = ("gpu_memcpy", "gpu_memset")


@pytest.fixture(scope="module")
def record() -> Iterator[ProfileRecord]:
    graphbench.reset()
    profile = graphbench.profile(training_step("graphbench"), warmup_steps=WARM_UPS, measure_ms=5, warmup_ms=1)
    yield profile.record
    graphbench.reset()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The events of torch.profiler's trace of the same step, made in another process."""
    path = tmp_path_factory.mktemp("torch") / "trace.json"
    command = [sys.executable, "-m", "tests.gpu.traced_step", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return found


def device_work(text: str) -> list[dict[str, Any]]:
    """What the devices did in a step, in graphbench's trace."""
    events = json.loads(text)["traceEvents"]
    streams = {
        event["tid"]
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"].startswith("device ")
    }
    return [event for event in events if event["ph"] == "X" and event["tid"] in streams]


def kernels(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith(("Memcpy", "Memset"))}


def test_a_real_trace_keeps_to_the_format_and_its_times_are_the_profiles(record: ProfileRecord) -> None:
    text = TraceReporter().render(record)
    assert trace_faults(text) == []
    assert time_faults(text, record) == []


def test_the_kernels_of_a_step_are_those_of_torch_profiler_by_the_same_names(
    record: ProfileRecord, theirs: list[dict[str, Any]]
) -> None:
    ours = kernels(event["name"] for event in device_work(TraceReporter().render(record)))
    expected = {event["name"] for event in theirs if event.get("cat") == "kernel"}
    assert len(expected) > 5
    assert ours == expected


def test_copies_and_fills_are_called_what_torch_profiler_calls_them_but_for_the_memory(
    record: ProfileRecord, theirs: list[dict[str, Any]]
) -> None:
    names = {event["name"] for event in device_work(TraceReporter().render(record))}
    expected = {event["name"].partition(" (")[0] for event in theirs if event.get("cat") in COPIES}
    assert names - kernels(names) == expected


def test_compiled_kernels_have_the_same_names_on_the_regions_track(record: ProfileRecord) -> None:
    events = json.loads(TraceReporter().render(record))["traceEvents"]
    of_region = {event["name"] for event in events if event.get("cat") == "compiled" and "region" in event["args"]}
    in_step = {event["name"] for event in device_work(TraceReporter().render(record)) if event["cat"] == "compiled"}
    assert kernels(of_region) <= kernels(in_step)
