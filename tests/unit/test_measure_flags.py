"""The flags that say how to measure: what they take, what they refuse in their own words, and what they hand on."""

from __future__ import annotations

import pytest

from graphbench.cli import build_parser
from graphbench.cli.measure_flags import measure_options
from graphbench.errors import UsageError
from graphbench.options import MeasureOptions


@pytest.fixture(params=[["run", "--model", "hf:gpt2"], ["demo"]], ids=["run", "demo"])
def command(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param
    return words


def options(command: list[str], *words: str) -> MeasureOptions:
    return measure_options(build_parser().parse_args([*command, *words]))


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--noise", "0%", "more than 0% and less than 100%, such as 1%"),
        ("--noise", "100%", "more than 0% and less than 100%, such as 1%"),
        ("--noise", "0.01", "a percentage such as 5%"),
        ("--batch-execute", "1", "a whole number from 2 to 64"),
        ("--batch-execute", "65", "a whole number from 2 to 64"),
        ("--batch-execute", "few", "a whole number from 2 to 64"),
        ("--measure-ms", "inf", "a number above 0, at most 1e9"),
        ("--unit-timeout", "1e10", "a number above 0, at most 1e9"),
        ("--warmup-ms", "1e10", "a number, at least 0, at most 1e9"),
        ("--warmup", "-1", "a whole number, at least 0"),
        ("--warmup", "1000000001", "a whole number, at least 0, at most 1e9"),
        ("--repeat", "1000000001", "a whole number above 0, at most 1e9"),
        ("--memory-budget", "8388608TiB", "a size such as 8GiB or 512MiB"),
        ("--repeat", "0", "a whole number above 0"),
        ("--memory-budget", "0", "a size such as 8GiB or 512MiB"),
        ("--memory-budget", "0.1", "a size such as 8GiB or 512MiB"),
        ("--memory-budget", "8 apples", "a size such as 8GiB or 512MiB"),
    ],
)
def test_a_value_out_of_range_is_refused_when_it_is_read(
    command: list[str], flag: str, value: str, expected: str
) -> None:
    with pytest.raises(UsageError) as caught:
        options(command, flag, value)
    assert caught.value.message == f"argument {flag}: found {value!r}, expected {expected}"


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--noise", "0.1%"], 0.001),
        (["--noise", "99%"], 0.99),
        (["--batch-execute", "2"], 2),
        (["--batch-execute", "64"], 64),
        (["--noise", "1%", "--noise-ms", "500"], 500.0),
    ],
)
def test_the_ends_of_a_flags_range_are_handed_on(command: list[str], words: list[str], value: float) -> None:
    name = {"--noise": "noise", "--batch-execute": "batch", "--noise-ms": "noise_ms"}[words[-2]]
    assert getattr(options(command, *words), name) == pytest.approx(value)


def test_a_limit_of_noise_without_noise_is_refused(command: list[str]) -> None:
    with pytest.raises(UsageError, match="--noise-ms 500: it limits --noise, which is not given") as caught:
        options(command, "--noise-ms", "500")
    assert caught.value.hint == "add --noise 1%, or leave out --noise-ms"


def test_without_a_limit_of_noise_measuring_has_its_own(command: list[str]) -> None:
    assert options(command, "--noise", "2%").noise_ms == MeasureOptions().noise_ms


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("8GiB", 8 << 30), ("1.5 MiB", 3 << 19), ("2GB", 2 * 10**9), ("4g", 4 << 30), ("512k", 512 << 10), ("100", 100)],
)
def test_a_size_is_read_with_or_without_a_unit(command: list[str], text: str, nbytes: int) -> None:
    assert options(command, "--memory-budget", text).memory_budget == nbytes
