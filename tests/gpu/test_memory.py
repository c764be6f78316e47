"""Memory on a GPU: nothing grows, peaks are the allocator's, what does not fit or runs out is a row and frees all."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import graphbench
from graphbench import session
from graphbench.measuring.calls import Call
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.options import policy_of, timers_for
from graphbench.memory import available_bytes
from graphbench.options import MeasureOptions
from graphbench.records import RegionRecord

pytestmark = pytest.mark.gpu
DEVICE = torch.device("cuda:0")
MIB = 1 << 20
QUICK: dict[str, Any] = {"repeat": 3, "warmup": 1, "progress": False}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    graphbench.reset()
    torch.manual_seed(0)
    yield
    graphbench.reset()
    gc.collect()
    torch.cuda.empty_cache()


def isolator(**options: Any) -> Isolator:
    chosen = MeasureOptions(**{"timer": "cuda-events", "repeat": 2, "warmup": 1, **options})
    timers = timers_for(chosen, DEVICE)
    return Isolator(DEVICE, timers, policy_of(chosen, timers))


def allocated() -> int:
    gc.collect()
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated(DEVICE)


def pointwise(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).relu() * 2


def measured(*, mib: int = 64, grad: bool = False, **options: Any) -> RegionRecord:
    """Three pointwise ops on so many MiB."""
    x = torch.randn(mib * MIB // 4, device=DEVICE, requires_grad=grad)
    with torch.set_grad_enabled(grad):
        torch.compile(pointwise, backend="graphbench")(x)
    (region,) = graphbench.measure(**QUICK, **options).record.regions
    assert region.status == "ok", region.reason
    return region


def test_a_thousand_measurements_leave_no_byte_behind() -> None:
    def some(count: int) -> None:
        found = isolator()
        for size in range(count):
            x = torch.randn(64, 64, device=DEVICE, requires_grad=True)
            call = Call(f"row{size}", torch.exp, (x,), {}, identity=(torch.exp, size), with_grad=True)
            assert found.isolate_backward(call).status == "ok"
            _, verdict = found.isolate(call, lambda: torch.exp(x))  # noqa: B023 - called at once
            assert verdict.measurement.status == "ok"

    some(20)
    before = allocated()
    some(1000)
    assert allocated() == before


def test_a_measured_region_leaves_only_what_was_captured() -> None:
    measured()
    before = allocated()
    graphbench.measure(**QUICK)
    assert allocated() == before


def test_peaks_are_those_of_the_allocator() -> None:
    region = measured()
    # Eager holds a result and what it was made of, a fused kernel its result alone.
    assert region.eager.peak_bytes == pytest.approx(128 * MIB, rel=0.05)
    assert region.forward.peak_bytes == pytest.approx(64 * MIB, rel=0.05)
    assert region.peak_bytes == 128 * MIB
    assert {node.name: node.peak_bytes for node in region.nodes if node.peak_bytes} == {
        "add": 64 * MIB,
        "relu": 64 * MIB,
    }


def test_the_peak_of_a_backward_counts_what_its_forward_saved() -> None:
    region = measured(grad=True)
    assert region.eager_backward.peak_bytes is not None
    # The forward's result and the saved relu; the tangent, and a gradient on its way.
    assert region.eager_backward.peak_bytes >= 192 * MIB


def test_a_unit_past_the_budget_is_skipped_with_its_figure() -> None:
    region = measured(memory_budget=100 * MIB)
    assert {node.isolated.status for node in region.nodes} == {"skipped"}
    assert region.nodes[0].isolated.reason == (
        "does not fit: its copies need 192 MiB, the memory budget leaves 100 MiB"
    )
    assert region.eager.run is not None


def test_what_is_available_follows_what_torch_may_take() -> None:
    held = torch.empty(256 * MIB, dtype=torch.uint8, device=DEVICE)
    before = available_bytes(DEVICE)
    assert before is not None
    del held
    after = available_bytes(DEVICE)  # still reserved by the allocator, which will give it out again
    assert after is not None
    assert after - before == pytest.approx(256 * MIB, rel=0.05)


def test_a_unit_that_runs_out_of_memory_is_a_row_and_frees_everything() -> None:
    def greedy(x: torch.Tensor) -> torch.Tensor:
        held = x.exp().repeat(64)
        return held + torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE)

    x = torch.randn(MIB, device=DEVICE)
    found = isolator()
    before = allocated()
    gc.disable()
    try:
        row = found.alone(Call("row", greedy, (x,), {}, identity=greedy))
        torch.cuda.synchronize()
        assert torch.cuda.memory_allocated(DEVICE) == before
    finally:
        gc.enable()
    assert row.status == "failed"
    assert row.reason.startswith("out of memory, also after all unused memory was given back: CUDA out of memory.")
    assert found.alone(Call("next", torch.exp, (x,), {}, identity=torch.exp)).status == "ok"


def test_inputs_past_the_capture_budget_wait_in_pinned_host_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session._Current, "session", session.Session(capture_budget_bytes=MIB))
    x = torch.arange(16 * MIB, device=DEVICE, dtype=torch.float32)
    compiled = torch.compile(pointwise, backend="graphbench")
    with torch.no_grad():
        expected = compiled(x)
    (region,) = session.current().regions
    assert region.capture is not None
    assert region.capture.spilled is not None
    assert (region.capture.spilled.host_bytes, region.capture.spilled.disk_bytes) == (64 * MIB, 0)
    base = allocated()
    del x
    assert allocated() == base - 64 * MIB  # nothing of the region's holds it
    with region.inputs_present():
        (back,) = (entry.value for entry in region.capture.values)
        assert torch.equal(pointwise(back), expected)
        del back
    (record,) = graphbench.measure(**QUICK).record.regions
    assert (record.status, record.captured_bytes, record.spilled_bytes) == ("ok", 0, 64 * MIB)
    assert all(node.isolated.status == "ok" for node in record.nodes)
    assert allocated() - (base - 64 * MIB) < MIB
