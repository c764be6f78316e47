"""Global state in a comparison: the same for every implementation, and afterwards what it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench import Implementation
from graphbench.capture import ambient
from graphbench.errors import UsageError
from tests.cpu.half_timer import HalfTimer, boom, compare, nothing


@pytest.fixture(autouse=True)
def _state_survives() -> Iterator[None]:
    """Whatever a test does, the state is afterwards what it was."""
    before = ambient.current(), torch.get_float32_matmul_precision()
    yield
    assert (ambient.current(), torch.get_float32_matmul_precision()) == before


def enter_autocast() -> None:
    torch.autocast("cpu", dtype=torch.bfloat16).__enter__()  # and never leaves it


CHANGES: list[tuple[Callable[[], object], str]] = [
    (lambda: torch.set_float32_matmul_precision("high"), "fp32_precision: "),
    (lambda: torch.set_num_threads(torch.get_num_threads() + 1), "num_threads: "),
    (lambda: torch.set_grad_enabled(False), "grad_enabled: True -> False"),
    (enter_autocast, "autocast: cpu off -> cpu bfloat16"),
    (lambda: torch.set_default_dtype(torch.float64), "default_dtype: float32 -> float64"),
    (lambda: torch.use_deterministic_algorithms(True), "deterministic: False -> True"),
]
NAMES = ["precision", "threads", "grad mode", "autocast", "default dtype", "deterministic"]


@pytest.mark.parametrize(("change", "told"), CHANGES, ids=NAMES)
def test_an_implementation_that_changes_global_state_is_refused_by_name(
    change: Callable[[], object], told: str
) -> None:
    timer = HalfTimer()
    with pytest.raises(UsageError, match="B changes global state") as caught:
        compare({"A": nothing, "B": change}, timer=timer)
    assert told in caught.value.message
    assert caught.value.subject == "B"
    assert caught.value.hint is not None
    assert "put it back" in caught.value.hint
    assert timer.order == []


@pytest.mark.parametrize(("change", "told"), CHANGES, ids=NAMES)
def test_a_change_in_a_later_call_fails_that_row_and_no_other_sees_it(change: Callable[[], object], told: str) -> None:
    calls, seen = [0], set()

    def late() -> None:
        calls[0] += 1
        if calls[0] == 3:
            change()

    first, second = compare({"A": late, "B": lambda: seen.add(ambient.current())}).rows
    assert (first.measurement.status, second.measurement.status) == ("failed", "ok")
    assert told in first.measurement.reason
    assert first.measurement.reason.endswith("in a call after its first")
    assert seen == {ambient.current()}


def test_what_it_set_before_it_raised_is_put_back_for_the_others() -> None:
    seen = set()

    def half_way() -> None:
        torch.set_default_dtype(torch.float64)
        boom()

    rows = compare({"A": half_way, "B": lambda: seen.add(torch.get_default_dtype())}).rows
    assert [row.measurement.status for row in rows] == ["failed", "ok"]
    assert seen == {torch.float32}


def test_the_callers_state_is_what_implementations_run_in() -> None:
    seen = set()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        compare({"A": lambda: seen.add((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))})
    assert seen == {(False, True)}


def test_autocast_inside_a_call_forgets_its_casts_with_the_call() -> None:
    seen = set()

    def call() -> None:
        torch.autocast_increment_nesting()
        seen.add(torch.autocast_decrement_nesting())

    compare({"A": call})
    assert seen == {0}


def test_casts_of_the_callers_autocast_are_made_in_every_call() -> None:
    weight, x, found = torch.ones(1, 1, requires_grad=True), torch.ones(1, 1), []

    def linear(x: torch.Tensor) -> None:
        weight.data.fill_(len(found))  # a cast that is kept would hold what an earlier call filled in
        found.append(float(F.linear(x, weight).detach()))

    with torch.autocast("cpu", dtype=torch.bfloat16):
        (row,) = graphbench.compare({"A": linear}, inputs=(x,), repeat=4, warmup=1).rows
    assert row.measurement.inner == 1
    assert found == [float(index) for index in range(len(found))]


def draw() -> torch.Tensor:
    return torch.rand(1)


def test_a_reset_that_draws_does_not_move_what_its_call_draws() -> None:
    found = []
    a = Implementation("A", lambda _: found.append(float(draw())), inputs=(torch.ones(1),), reset=draw)
    b = Implementation("B", lambda: found.append(float(draw())))
    compare([a, b])
    assert len(found) > 10
    assert len(set(found)) == 1


class Generator:
    """Stands for the CUDA generators of a process that uses CUDA."""

    def __init__(self) -> None:
        self.states = [torch.zeros(1), torch.zeros(1)]

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 2)
        patch.setattr(torch.cuda, "get_rng_state", lambda device: self.states[torch.device(device).index].clone())
        patch.setattr(torch.cuda, "set_rng_state", self._set)

    def _set(self, state: torch.Tensor, device: Any) -> None:
        self.states[torch.device(device).index] = state.clone()


def test_generators_of_all_devices_are_watched_where_cuda_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphbench.comparing.surroundings import Generators

    cuda = Generator()
    cuda.patch(monkeypatch)
    generators = Generators()
    assert not generators.moved()
    cuda.states[1] += 1
    assert generators.moved()
    generators.restore()
    assert [state.tolist() for state in cuda.states] == [[0.0], [0.0]]
