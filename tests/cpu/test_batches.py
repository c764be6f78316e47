"""Batches asked for through an isolator, with a fake device: what they add to a row, and that they cost it nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphbench.errors import UsageError
from graphbench.measurements import Measurement
from graphbench.measuring import isolating
from graphbench.measuring.calls import Call
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.options import Timers, policy_of, timers_for
from graphbench.options import MeasureOptions
from graphbench.timing.fake import FakeTimer


def isolated(cost_ns: float, *, batch: int | None = 4) -> Measurement:
    timer = FakeTimer(lambda _row, _sample: cost_ns)
    timers = Timers(timer, timer)
    policy = policy_of(MeasureOptions(repeat=5, warmup=1, batch=batch), timers)
    x = torch.randn(8)
    call = Call("row", torch.relu, (x,), {}, identity="relu")
    _, verdict = Isolator(torch.device("cpu"), timers, policy).isolate(call, lambda: torch.relu(x))
    return verdict.measurement


def test_a_tiny_unit_is_also_timed_back_to_back() -> None:
    # A label costs what the script says however many calls it holds: four in a batch.
    assert isolated(1000.0).batch_ns == (250.0,) * 5


def test_a_long_unit_is_not() -> None:
    assert isolated(20_000.0).batch_ns is None


def test_nobody_is_batched_unasked() -> None:
    assert isolated(1000.0, batch=None).batch_ns is None


def test_a_batch_that_fails_costs_the_row_nothing_but_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("no room for the copies\nand more")

    monkeypatch.setattr(isolating, "batch_times", out_of_memory)
    found = isolated(1000.0)
    assert (found.status, found.batch_ns) == ("ok", None)
    assert found.samples is not None
    assert found.samples.busy_ns == (1000.0,) * 5
    assert "no batch: OutOfMemoryError: no room for the copies" in found.warnings


def test_batches_are_refused_where_nothing_is_queued() -> None:
    with pytest.raises(UsageError, match="batch=4: calls are queued on a CUDA device only"):
        timers_for(MeasureOptions(batch=4), torch.device("cpu"))


@pytest.mark.parametrize("batch", [1, 65])
def test_the_size_of_a_batch_is_bounded(batch: int) -> None:
    with pytest.raises(UsageError, match=f"batch={batch}: expected from 2 to 64 calls"):
        MeasureOptions(batch=batch)
