"""Ambient state: recorded as it is, in force while replaying, and as it was afterwards, exceptions included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from graphbench.capture import ambient
from graphbench.capture.ambient import restored, rng_untouched
from graphbench.condition_records import Ambient, AutocastState


def now() -> Ambient:
    return ambient.current(("cpu",))


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """The states under test are global: put them back whatever a test found."""
    before = now()
    yield
    ambient._set_globals(before)


OTHER_STATES: dict[str, Callable[[Ambient], Ambient]] = {
    "grad mode": lambda state: replace(state, grad_enabled=False),
    "inference mode": lambda state: replace(state, grad_enabled=False, inference_mode=True),
    "autocast": lambda state: replace(
        state, autocast=(AutocastState(device_type="cpu", enabled=True, dtype="float16"),)
    ),
    "autocast without cache": lambda state: replace(
        state, autocast=(AutocastState(device_type="cpu", enabled=True, dtype="bfloat16"),), autocast_cache=False
    ),
    "default dtype": lambda state: replace(state, default_dtype="float64"),
    "float32 precision": lambda state: replace(
        state, fp32_precision=tuple((name, "ieee") for name, _ in state.fp32_precision)
    ),
    "deterministic": lambda state: replace(state, deterministic=True, deterministic_warn_only=True),
    "SDPA backends": lambda state: replace(state, sdpa_backends=("math",)),
    "flags": lambda state: replace(state, flags=tuple((name, not value) for name, value in state.flags)),
    "threads": lambda state: replace(state, num_threads=state.num_threads + 1),
}


@pytest.mark.parametrize("name", OTHER_STATES)
def test_a_recorded_state_is_in_force_inside(name: str) -> None:
    wanted = OTHER_STATES[name](now())
    with restored(wanted):
        assert now() == wanted


@pytest.mark.parametrize("name", OTHER_STATES)
def test_the_state_before_is_back_afterwards(name: str) -> None:
    before = now()
    with restored(OTHER_STATES[name](before)):
        pass
    assert now() == before


@pytest.mark.parametrize("name", OTHER_STATES)
def test_the_state_before_is_back_after_an_exception(name: str) -> None:
    before = now()
    with pytest.raises(KeyError), restored(OTHER_STATES[name](before)):
        raise KeyError
    assert now() == before


def test_a_state_without_autocast_switches_a_surrounding_autocast_off() -> None:
    plain = now()
    with torch.autocast("cpu", torch.bfloat16), restored(plain):
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32


def test_recorded_autocast_casts_again() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        recorded = now()
    with restored(recorded):
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.bfloat16


def test_a_surrounding_inference_mode_is_left_for_a_recorded_grad_mode() -> None:
    recorded = now()
    x = torch.ones(2, requires_grad=True)
    with torch.inference_mode(), restored(recorded):
        assert (x * 2).requires_grad


def test_generators_are_bit_equal_after_drawing() -> None:
    before = torch.get_rng_state()
    with rng_untouched():
        torch.manual_seed(99)
        torch.randn(10)
    assert torch.equal(torch.get_rng_state(), before)


def test_generators_are_bit_equal_after_an_exception() -> None:
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError), rng_untouched():
        torch.randn(10) + torch.randn(3)
    assert torch.equal(torch.get_rng_state(), before)
