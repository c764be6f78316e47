"""Timelines of a real device: waits, device work and labels of one window on one clock."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

from graphbench.timing.base import Recording, TimelineEvent
from graphbench.timing.cupti import CuptiTimer
from tests.gpu.units import DEVICE

pytestmark = pytest.mark.gpu

if not torch.cuda.is_available() or importlib.util.find_spec("cupti") is None:
    if os.environ.get("GRAPHBENCH_REQUIRE_GPU", "0") != "0":
        raise RuntimeError("GRAPHBENCH_REQUIRE_GPU is set, but there is no CUDA device, or no cupti-python")
    pytest.skip("needs a CUDA device and cupti-python", allow_module_level=True)

CLOCKS_APART_NS = 50_000


@pytest.fixture(scope="module")
def recording() -> Recording:
    """One window: `add`, `item` (which waits), a wait under no label, a copy under no label."""
    timer = CuptiTimer(DEVICE, "warm")
    x = torch.randn(4 << 20, device=DEVICE)
    target = torch.empty_like(x)
    x.add_(1)
    x.sum().item()
    with timer.open(timeline=True) as opened, opened.session.window(0):
        with opened.session.label("add", 0):
            x.add_(1)
        with opened.session.label("item", 0):
            x.sum().item()
        torch.cuda.synchronize()
        target.copy_(x)
    return opened.recording()


def of_kind(recording: Recording, *kinds: str) -> list[TimelineEvent]:
    return [event for event in recording.timeline if event.kind in kinds]


def test_waits_can_be_read_on_this_release(recording: Recording) -> None:
    assert recording.notes == ()


def test_a_wait_has_its_label_and_the_lane_of_its_thread(recording: Recording) -> None:
    waits = [(event.name, event.row, event.lane) for event in of_kind(recording, "sync")]
    assert waits == [("cudaStreamSynchronize", "item", 0), ("cudaDeviceSynchronize", None, 0)]


def test_a_wait_lies_inside_its_label(recording: Recording) -> None:
    label = next(event for event in of_kind(recording, "host") if event.row == "item")
    wait = next(event for event in of_kind(recording, "sync") if event.row == "item")
    assert label.start_ns <= wait.start_ns
    assert wait.start_ns + wait.duration_ns <= label.start_ns + label.duration_ns + CLOCKS_APART_NS


def test_device_work_adds_up_to_the_rows_and_the_run(recording: Recording) -> None:
    work = of_kind(recording, "kernel", "copy", "memset")
    for row, samples in recording.rows.items():
        assert sum(event.duration_ns for event in work if event.row == row) == samples[0].busy_ns
    assert sum(event.duration_ns for event in work if event.row is None) == recording.runs[0].unattributed_ns
    assert [event.kind for event in work if event.row is None] == ["copy"]


def test_device_work_starts_after_its_label_and_ends_before_the_wait_for_it(recording: Recording) -> None:
    labels = {event.row: event for event in of_kind(recording, "host")}
    work = [event for event in of_kind(recording, "kernel", "copy") if event.row is not None]
    assert {event.row for event in work} == {"add", "item"}
    assert all(event.start_ns > labels[event.row].start_ns - CLOCKS_APART_NS for event in work)
    wait = next(event for event in of_kind(recording, "sync") if event.row == "item")
    done_ns = max(event.start_ns + event.duration_ns for event in work)
    assert done_ns <= wait.start_ns + wait.duration_ns + CLOCKS_APART_NS
