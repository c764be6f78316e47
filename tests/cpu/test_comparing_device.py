"""The device of a comparison: named by the caller or by the tensors, and never taken for idle because none is seen."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import torch

from graphbench.comparing import device as comparing_device
from graphbench.comparing.device import CudaWatch, device_of_all
from graphbench.errors import TimingError, UsageError
from tests.cpu.half_timer import HalfTimer, compare, nothing

CPU, META, FIRST, SECOND = (torch.device(name) for name in ("cpu", "meta", "cuda:0", "cuda:1"))


@pytest.mark.parametrize(
    ("given", "found", "expected"),
    [
        (None, [], CPU),
        (None, [CPU, META], CPU),
        (None, [CPU, FIRST], FIRST),
        (FIRST, [CPU], FIRST),
        (FIRST, [FIRST, CPU], FIRST),
        (CPU, [CPU, META], CPU),
    ],
)
def test_the_device_is_the_one_given_or_where_tensors_are(
    given: torch.device | None, found: list[torch.device], expected: torch.device
) -> None:
    assert device_of_all(given, found) == expected


@pytest.mark.parametrize(
    ("given", "found", "words"),
    [
        (CPU, [FIRST], "device='cpu': inputs or results are on cuda:0, whose time would not be seen"),
        (FIRST, [CPU, SECOND], "device='cuda:0': inputs or results are on cuda:1"),
        (None, [FIRST, SECOND], "inputs and results are on cuda:0, cuda:1, expected one device"),
    ],
    ids=["cpu", "another", "two"],
)
def test_tensors_elsewhere_are_refused(given: torch.device | None, found: list[torch.device], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        device_of_all(given, found)


@pytest.mark.parametrize("given", [None, CPU])
def test_work_on_cuda_behind_tensors_on_the_cpu_asks_for_the_device(given: torch.device | None) -> None:
    with pytest.raises(UsageError, match=r"B, C: a CUDA device was at work, .*\n  hint: .*device='cuda:0'"):
        device_of_all(given, [CPU], ["B", "C"])
    assert device_of_all(FIRST, [CPU], ["B", "C"]) == FIRST


class Cuda:
    """A machine with two devices, of which the process uses the first."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.used, self.allocated, self.busy, self.drained = [0], [5, 0], False, 0
        cuda = torch.cuda
        patch.setattr(cuda, "is_initialized", lambda: bool(self.used))
        patch.setattr(cuda, "device_count", lambda: 2)
        patch.setattr(torch._C, "_cuda_hasPrimaryContext", lambda index: index in self.used, raising=False)
        patch.setattr(cuda, "synchronize", self._drain)
        patch.setattr(cuda, "current_stream", lambda _: SimpleNamespace(query=lambda: not self.busy))
        patch.setattr(cuda, "memory_stats_as_nested_dict", self._stats)

    def _drain(self, index: int) -> None:
        assert index in self.used
        self.busy, self.drained = False, self.drained + 1

    def _stats(self, index: int) -> dict[str, dict[str, dict[str, int]]]:
        return {"allocation": {"all": {"allocated": self.allocated[index]}}}


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    return Cuda(monkeypatch)


def test_a_device_that_did_nothing_is_idle(cuda: Cuda) -> None:
    assert CudaWatch().worked() is False
    assert cuda.drained == 2


def test_a_device_that_is_still_busy_worked_and_is_drained(cuda: Cuda) -> None:
    watch = CudaWatch()
    cuda.busy = True
    assert watch.worked() is True
    assert not cuda.busy


def test_work_from_before_is_not_the_calls(cuda: Cuda) -> None:
    cuda.busy = True
    assert CudaWatch().worked() is False


def test_a_device_that_allocated_worked(cuda: Cuda) -> None:
    watch = CudaWatch()
    cuda.allocated[0] += 1
    assert watch.worked() is True


def test_a_device_that_was_used_for_the_first_time_worked(cuda: Cuda) -> None:
    watch = CudaWatch()
    cuda.used.append(1)
    assert watch.worked() is True


def test_without_cuda_nothing_is_asked() -> None:
    assert CudaWatch().worked() is False


def test_a_closure_at_work_on_cuda_is_refused_before_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = iter([False, True])
    monkeypatch.setattr(CudaWatch, "worked", lambda _: next(worked))
    timer = HalfTimer()
    with pytest.raises(UsageError, match="B: a CUDA device was at work"):
        compare({"A": torch.relu, "B": torch.relu}, torch.ones(2), timer=timer)
    assert timer.order == []


# a device that an implementation broke


ILLEGAL = "CUDA error: an illegal memory access was encountered"


def broken(_: object = None) -> None:
    raise torch.AcceleratorError(f"{ILLEGAL}\nmore")


def test_one_that_breaks_the_device_in_its_trial_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fatal() -> None:
        monkeypatch.setattr(comparing_device, "drain_cuda", broken)
        broken()

    with pytest.raises(TimingError) as caught:
        compare({"A": nothing, "B": fatal, "C": nothing})
    assert caught.value.message == (f"B left the device unusable: {ILLEGAL}")


class Fragile(HalfTimer):
    """A device that stays broken once `broken` is set."""

    broken = False

    def synchronize(self) -> None:
        if self.broken:
            broken()


def test_one_that_breaks_the_device_while_timed_fails_the_rest_and_is_named() -> None:
    timer, calls = Fragile(), [0]

    def fatal() -> None:
        calls[0] += 1
        timer.broken = timer.broken or calls[0] == 3
        timer.synchronize()

    rows = compare({"A": nothing, "B": fatal, "C": nothing}, timer=timer).rows
    assert [row.measurement.status for row in rows] == ["failed"] * 3
    assert rows[1].measurement.reason == (f"it raised AcceleratorError: {ILLEGAL}; the device is unusable since")
    assert [row.measurement.reason for row in (rows[0], rows[2])] == ["not timed: B left the device unusable"] * 2


def test_inputs_on_a_broken_device_are_said_to_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphbench.comparing.snapshot import Snapshot

    timer, calls, x = Fragile(), [0], torch.ones(2)

    def fatal(_: torch.Tensor) -> None:
        calls[0] += 1
        if calls[0] == 3:
            timer.broken = True
            monkeypatch.setattr(Snapshot, "changed", broken)
            monkeypatch.setattr(Snapshot, "restore", broken)

    table = compare({"A": fatal, "B": torch.relu}, x, timer=timer)
    assert [row.measurement.reason for row in table.rows] == [
        f"it raised AcceleratorError: {ILLEGAL}; the device is unusable since",
        "not timed: A left the device unusable",
    ]
    assert f"inputs could not be put back: {ILLEGAL}" in table.notes
