"""What cannot be measured says so, in one clear message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench.cli import main
from graphbench.errors import CaptureError, UsageError
from graphbench.measurements import TimerName
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


def test_a_step_that_only_breaks_ran_nothing() -> None:
    with pytest.raises(CaptureError, match="the step ran no tensor op"):
        graphbench.profile(compiled(only_breaks), torch.ones(4))


def test_reasons_of_an_earlier_session_are_not_given_again() -> None:
    compiled(only_breaks)(torch.ones(4))
    graphbench.reset()
    with pytest.raises(CaptureError, match="has been called since the last reset"):
        graphbench.measure()


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": (
        {"repeats": 3},
        r"unknown measuring option repeats\n  hint: did you mean repeat\? known options: ",
    ),
    "timer": ({"timer": "stopwatch"}, "timer='stopwatch': expected one of auto, cupti, wallclock"),
    "l2": ({"l2": "lukewarm"}, "l2='lukewarm': expected one of cold-read, cold-write, warm"),
    "values": ({"values": "invented"}, "values='invented': expected one of captured, synthetic"),
    "repeat": ({"repeat": 0}, "repeat=0: expected at least 1 and at most 1e9"),
    "warmup": ({"warmup": -1}, "warmup=-1: expected at least 0 and at most 1e9"),
    "measure_ms": ({"measure_ms": -1.0}, r"measure_ms=-1\.0: expected a number of milliseconds, at least 0"),
    "infinite": ({"measure_ms": float("inf")}, "measure_ms=inf: expected a number of milliseconds, at least 0"),
    "nan": ({"warmup_ms": float("nan")}, "warmup_ms=nan: expected a number of milliseconds, at least 0"),
    "cold CPU": ({"l2": "cold-read"}, "l2='cold-read': the CPU's caches are not cleared"),
    "CUPTI on the CPU": ({"timer": "cupti"}, "timer='cupti' times CUDA devices; this model runs on the CPU"),
}


WRONG_TYPES: list[tuple[str, Any, str]] = [
    ("measure_ms", "100", "a number"),
    ("measure_ms", None, "a number"),
    ("measure_ms", True, "a number"),
    ("warmup_ms", [25], "a number"),
    ("noise_ms", "1s", "a number"),
    ("repeat", "5", "a whole number or None"),
    ("repeat", 2.5, "a whole number or None"),
    ("repeat", True, "a whole number or None"),
    ("warmup", "x", "a whole number or None"),
    ("warmup", 1.5, "a whole number or None"),
    ("batch", "8", "a whole number or None"),
    ("lock_gpu_clock", "1500", "a whole number or None"),
    ("noise", "1%", "a number or None"),
    ("noise", False, "a number or None"),
    ("superseded", "x", "True or False"),
    ("superseded", 1, "True or False"),
    ("progress", "yes", "True or False or None"),
    ("subject", None, "a text"),
    ("subject", 3, "a text"),
    ("timer", None, "one of auto, cupti, wallclock, cuda-events"),
    ("timer", ["auto"], "one of auto, cupti, wallclock, cuda-events"),
    ("l2", True, "one of cold-read, cold-write, warm or None"),
]


@pytest.mark.parametrize(("name", "value", "expected"), WRONG_TYPES)
def test_an_option_of_another_type_is_refused_before_anything_is_looked_for(
    name: str, value: object, expected: str
) -> None:
    with pytest.raises(UsageError) as caught:
        graphbench.measure(**{name: value})
    assert (str(caught.value), caught.value.subject) == (f"{name}={value!r}: expected {expected}", name)


def test_a_whole_number_is_a_number() -> None:
    called()
    assert graphbench.measure(**QUICK, measure_ms=2).record.policy.measure_ms == 2


def test_zero_warm_up_is_taken() -> None:
    called()
    assert graphbench.measure(progress=False, repeat=2, warmup=0, warmup_ms=0).record.policy.warmup == 0


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


def never() -> None:
    raise AssertionError("the step was called")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fn": 3}, "fn=3 is not callable: expected a step, a model, or anything else that is"),
        ({"warmup_steps": "2"}, "warmup_steps='2': expected a whole number"),
        ({"warmup_steps": 1.5}, "warmup_steps=1.5: expected a whole number"),
        ({"warmup_steps": True}, "warmup_steps=True: expected a whole number"),
        ({"restore": [3]}, "restore: found 3, expected modules and optimizers"),
        ({"restore": None}, "restore: found None, expected modules and optimizers"),
        ({"restore": {"net": nn.ReLU()}}, "restore: found 'net', expected modules and optimizers"),
        ({"repeat": "5"}, "repeat='5': expected a whole number or None"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_bad_argument_of_profile_is_refused_before_the_step_is_called(
    arguments: dict[str, Any], message: str
) -> None:
    fn = arguments.pop("fn", never)
    with pytest.raises(UsageError) as caught:
        graphbench.profile(fn, **arguments)
    assert caught.value.message == message


def test_restore_takes_a_single_module_even_one_that_is_a_sequence() -> None:
    net = nn.Sequential(nn.Linear(4, 4))
    model, before = compiled(net), net[0].weight.detach().clone()

    def step() -> None:
        model(torch.ones(2, 4))
        with torch.no_grad():
            net[0].weight.add_(1.0)

    graphbench.profile(step, restore=net, **QUICK)
    assert torch.equal(net[0].weight, before)


def test_a_step_that_runs_nothing_compiled_is_no_profile_of_what_ran_before() -> None:
    called()
    record = graphbench.profile(lambda: torch.ones(4) + 1, **QUICK).record
    assert [(region.status, region.reason) for region in record.regions] == [
        ("skipped", "the recorded step did not run it")
    ]
    assert record.step is not None
    assert not record.step.compiled


def test_a_step_whose_recorded_call_runs_nothing_is_refused() -> None:
    model, calls = compiled(lambda x: x @ x), iter((True, True, True, False))
    with pytest.raises(CaptureError, match="the step ran no tensor op"):
        graphbench.profile(lambda: model(torch.ones(4, 4)) if next(calls) else None, **QUICK)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": "3"}, "top='3': expected a whole number or None"),
        ({"top": 1.5}, "top=1.5: expected a whole number or None"),
        ({"top": 0}, "top"),
        ({"sort": None}, "sort=None: expected a text"),
        ({"sort": "weight"}, "sort 'weight': no table has such a column"),
        ({"wide": "yes"}, "wide='yes': expected True or False"),
    ],
    ids=str,
)
def test_a_bad_option_of_a_table_is_named_with_what_was_expected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        profile_by("wallclock").table(**options)
    assert message in caught.value.message


@pytest.mark.parametrize("bad", [None, 3, b"p.json", nn.ReLU()], ids=repr)
def test_what_is_no_path_is_refused_with_what_was_expected(bad: Any) -> None:
    profile = profile_by("wallclock")
    calls: dict[str, Callable[[], object]] = {
        "path": lambda: graphbench.load(bad),
        "path of save": lambda: profile.save(bad),
        "before": lambda: graphbench.diff(bad, profile),
        "after": lambda: graphbench.diff(profile, bad),
    }
    for name, call in calls.items():
        with pytest.raises(UsageError) as caught:
            call()
        found, expected = caught.value.message.split(": ")
        assert found == f"{name.split()[0]}={bad!r}"
        assert expected == "expected a path, as str or pathlib.Path"


@pytest.mark.parametrize(("count", "held"), [(1, "1 region, 1 node"), (2, "2 regions, 2 nodes")])
def test_a_profile_says_what_it_holds(count: int, held: str) -> None:
    regions = [factories.region(nodes=(factories.node("relu", 1.0),), key=f"r{index}") for index in range(count)]
    assert repr(graphbench.Profile(factories.profile(*regions))) == f"<graphbench.Profile of Net: {held}>"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--lock-gpu-clock", "1500"], "leave out --lock-gpu-clock, or pass --device cuda: --device is cpu"),
        (["--l2", "warm"], "leave out --l2, or pass --device cuda: --device is cpu"),
        (["--device", "abacus"], "pass cpu, cuda, or one of several GPUs as cuda:1"),
    ],
)
def test_a_flag_that_does_not_fit_the_cpu_says_what_to_do(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--custom-model-file", "never_read.py", "--model-class", "Net", "--device", "cpu"]
    assert main(["run", *model, *words]) == 2
    assert capsys.readouterr().err.endswith(f"\n  hint: {hint}\n")
