"""Traces of profiles that were just measured."""

from __future__ import annotations

import json

from graphbench.report.trace import TraceReporter
from tests.cpu.stories import Story
from tests.trace_format import time_faults, trace_faults


def test_a_trace_of_a_training_region_keeps_to_the_format_and_its_times_are_the_profiles(
    transformer_training: Story,
) -> None:
    record = transformer_training.first
    text = TraceReporter().render(record)
    assert trace_faults(text) == []
    assert time_faults(text, record) == []


def test_every_kernel_that_works_for_a_node_is_reached_by_an_arrow(transformer_training: Story) -> None:
    record = transformer_training.first
    events = json.loads(TraceReporter().render(record))["traceEvents"]
    reached = {event["ts"] for event in events if event["ph"] == "f"}
    kernels = [event for event in events if event.get("cat") == "compiled"]
    (region,) = record.regions
    working = {
        f"{region.key}/{kernel.key}"
        for kernel in region.kernels
        if any(role.role != "contributes" for role in kernel.roles)
    }
    assert len(working) > 10
    assert {event["args"]["row"] for event in kernels if event["ts"] in reached} == working
