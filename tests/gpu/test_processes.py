"""Streams, threads, forks and interrupts on a GPU: right numbers or a named refusal, and nothing left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench.isolate.bench_unit import BenchUnit
from graphbench.records import ProfileRecord
from tests.cpu.stories import QUICK, changes, shape_of
from tests.cpu.world import everything

pytestmark = pytest.mark.gpu
WIDTH = 256


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    graphbench.reset()
    torch.manual_seed(0)
    yield
    graphbench.reset()


class Model:
    """A compiled model on the GPU that has run once."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH)).cuda()
        self.x = torch.randn(64, WIDTH, device="cuda")
        self.compiled = torch.compile(self.net, backend="graphbench")
        with torch.no_grad():
            self.expected = self.compiled(self.x)

    def __call__(self) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = self.compiled(self.x)
            return found


def quick() -> ProfileRecord:
    return graphbench.measure(**QUICK).record


def test_measuring_on_a_side_stream_finds_the_same_rows_and_leaves_the_stream_current() -> None:
    Model()
    alone = shape_of(quick())
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert shape_of(quick()) == alone
        assert torch.cuda.current_stream() == side
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_an_interrupt_in_a_session_leaves_cupti_off_and_the_process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    alone = shape_of(quick())
    before = everything(model.net, model.x)
    real, calls = BenchUnit.prepare, iter(range(1 << 30))

    def prepare(unit: BenchUnit) -> None:
        if next(calls) == 12:
            raise KeyboardInterrupt
        real(unit)

    with monkeypatch.context() as patch:
        patch.setattr(BenchUnit, "prepare", prepare)
        with pytest.raises(KeyboardInterrupt):
            quick()
    assert changes(before, everything(model.net, model.x)) == []
    assert shape_of(quick()) == alone


def test_another_threads_calls_meanwhile_are_right_and_never_a_number() -> None:
    model = Model()
    stop = threading.Event()
    wrong: list[bool] = []

    def serve() -> None:
        while not stop.wait(0.005):  # without a rest it would hold the interpreter most of the time
            wrong.append(not torch.allclose(model(), model.expected, atol=1e-4))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        record = quick()
    finally:
        stop.set()
        thread.join()
    assert wrong
    assert not any(wrong)
    kernels = [kernel for region in record.regions for kernel in region.kernels]
    assert all(kernel.isolated.status == "ok" or kernel.isolated.reason for kernel in kernels)
    assert {kernel.calls for kernel in kernels} <= {0, 1}


def test_measuring_in_a_forked_child_is_refused_by_name() -> None:
    Model()
    assert "forked from one that used CUDA" in _in_child()


def _in_child() -> str:
    """What measuring raises in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said: Any = "nothing was raised"
        try:
            quick()
        except BaseException as error:  # noqa: BLE001 - the parent looks at it
            said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text
