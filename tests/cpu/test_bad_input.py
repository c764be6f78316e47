"""What cannot be measured says so, in one clear message."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench.errors import CaptureError, UsageError
from graphbench.records import TimerName
from tests import factories
from tests.cpu.stories import QUICK, compiled


def called() -> None:
    compiled(lambda x: x @ x)(torch.ones(4, 4))


def test_measuring_before_any_call_says_what_to_do() -> None:
    with pytest.raises(CaptureError) as caught:
        graphbench.measure()
    assert "no model compiled with backend='graphbench' has been called since the last reset" in str(caught.value)
    assert "call torch.compile(model, backend='graphbench')(*inputs), then measure" in str(caught.value)


def test_measuring_after_reset_is_measuring_before_any_call() -> None:
    called()
    graphbench.reset()
    with pytest.raises(CaptureError, match="has been called since the last reset"):
        graphbench.measure()


def only_breaks(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return x


def test_a_model_that_only_breaks_says_why() -> None:
    compiled(only_breaks)(torch.ones(4))
    with pytest.raises(CaptureError) as caught:
        graphbench.measure()
    assert "everything broke. First reason: Call to `torch._dynamo.graph_break()`" in str(caught.value)


def test_a_step_that_only_breaks_says_why() -> None:
    with pytest.raises(CaptureError, match=r"everything broke\. First reason: Call to `torch\._dynamo\.graph_break"):
        graphbench.profile(compiled(only_breaks), torch.ones(4))


def test_reasons_of_an_earlier_session_are_not_given_again() -> None:
    compiled(only_breaks)(torch.ones(4))
    graphbench.reset()
    with pytest.raises(CaptureError, match="has been called since the last reset"):
        graphbench.measure()


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"repeats": 3}, r"unknown measuring option repeats\n  hint: known options: .*repeat"),
    "timer": ({"timer": "stopwatch"}, "timer='stopwatch': expected one of auto, cupti, wallclock"),
    "l2": ({"l2": "lukewarm"}, "l2='lukewarm': expected one of cold-read, cold-write, warm"),
    "values": ({"values": "invented"}, "values='invented': expected one of captured, synthetic"),
    "repeat": ({"repeat": 0}, "repeat=0: expected at least 1"),
    "warmup": ({"warmup": -1}, "warmup=-1: expected at least 0"),
    "measure_ms": ({"measure_ms": -1.0}, r"measure_ms=-1\.0: expected a number of milliseconds, at least 0"),
    "nan": ({"warmup_ms": float("nan")}, "warmup_ms=nan: expected a number of milliseconds, at least 0"),
    "cold CPU": ({"l2": "cold-read"}, "l2='cold-read': the CPU's caches are not cleared"),
    "CUPTI on the CPU": ({"timer": "cupti"}, "timer='cupti' times CUDA devices; this model runs on the CPU"),
}


@pytest.mark.parametrize("kind", BAD_OPTIONS)
def test_a_bad_option_is_named_with_what_was_expected(kind: str) -> None:
    options, message = BAD_OPTIONS[kind]
    called()
    with pytest.raises(UsageError, match=message):
        graphbench.measure(**options)


@pytest.mark.parametrize("kind", ["cold CPU", "CUPTI on the CPU"])
def test_profiling_a_step_refuses_the_same_options(kind: str) -> None:
    options, message = BAD_OPTIONS[kind]
    with pytest.raises(UsageError, match=message):
        graphbench.profile(nn.Linear(4, 4), torch.ones(2, 4), **options)


def profile_by(timer: TimerName) -> graphbench.Profile:
    record = factories.profile(factories.region(nodes=(factories.node("relu", 1000.0),)), timer=timer)
    return graphbench.Profile(record)


def test_profiles_of_different_timers_are_not_compared() -> None:
    with pytest.raises(UsageError, match="cannot compare profiles of different timers: wallclock and cupti"):
        graphbench.diff(profile_by("wallclock"), profile_by("cupti"))


def test_a_profile_is_compared_with_itself() -> None:
    called()
    profile = graphbench.measure(**QUICK)
    assert {row.verdict for row in graphbench.diff(profile, profile).result.rows} == {"same"}
