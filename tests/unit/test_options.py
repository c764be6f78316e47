"""Measuring options: one declaration, from which keywords, flags and their descriptions come."""

from __future__ import annotations

import argparse

import pytest

from graphbench.cli.measure_flags import add_measure_flags, measure_options
from graphbench.errors import UsageError
from graphbench.options import FEWEST_IN_BATCH, MOST_IN_BATCH, MeasureOptions, described

PYTHON_ONLY = {"subject", "superseded"}


def parsed(*words: str) -> MeasureOptions:
    parser = argparse.ArgumentParser()
    add_measure_flags(parser)
    return measure_options(parser.parse_args(words))


def test_every_option_is_a_flag_but_for_two_that_only_python_has() -> None:
    assert {entry.name for entry in described() if not entry.flag} == PYTHON_ONLY


def test_flags_left_out_mean_what_keywords_left_out_mean() -> None:
    assert parsed() == MeasureOptions()


@pytest.mark.parametrize(
    ("words", "keywords"),
    [
        (["--timer", "cupti"], {"timer": "cupti"}),
        (["--l2", "cold-write"], {"l2": "cold-write"}),
        (["--values", "synthetic"], {"values": "synthetic"}),
        (["--warmup-ms", "0"], {"warmup_ms": 0.0}),
        (["--measure-ms", "2.5"], {"measure_ms": 2.5}),
        (["--warmup", "0"], {"warmup": 0}),
        (["--repeat", "7"], {"repeat": 7}),
        (["--noise", "1%"], {"noise": 0.01}),
        (["--noise", "1%", "--noise-ms", "9"], {"noise": 0.01, "noise_ms": 9.0}),
        (["--batch-execute", "8"], {"batch": 8}),
        (["--select", "conv*", "--select", "relu"], {"select": ["conv*", "relu"]}),
        (["--exclude", "relu"], {"exclude": "relu"}),
        (["--only-region", "r1"], {"only_region": ("r1",)}),
        (["--max-seconds", "30"], {"max_seconds": 30.0}),
        (["--memory-budget", "1GiB"], {"memory_budget": 1 << 30}),
        (["--lock-gpu-clock", "1500"], {"lock_gpu_clock": 1500}),
        (["--ceilings", "off"], {"ceilings": "off"}),
        (["--unit-timeout", "3"], {"unit_timeout_s": 3.0}),
        (["--no-progress"], {"progress": False}),
    ],
)
def test_a_flag_and_its_keyword_mean_the_same(words: list[str], keywords: dict[str, object]) -> None:
    assert parsed(*words) == MeasureOptions(**keywords)  # type: ignore[arg-type]


def test_the_docstring_describes_every_option_once() -> None:
    text = MeasureOptions.__doc__ or ""
    assert all(text.count(f"\n    {entry.name}: ") == 1 for entry in described())
    assert "%%" not in text


def test_the_help_speaks_of_flags_not_of_keywords() -> None:
    parser = argparse.ArgumentParser()
    add_measure_flags(parser)
    text = " ".join(parser.format_help().split())
    assert "in the place of --warmup-ms" in text
    assert "as 1%, or --noise-ms are up" in text
    assert "default: 100" in text


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"batch": FEWEST_IN_BATCH - 1}, "batch=1: expected from 2 to 64 calls"),
        ({"batch": MOST_IN_BATCH + 1}, "batch=65: expected from 2 to 64 calls"),
        ({"max_seconds": 0}, "max_seconds=0: expected seconds, above 0 and at most 1e9"),
        ({"unit_timeout_s": 1e10}, "unit_timeout_s=10000000000.0: expected seconds, above 0 and at most 1e9"),
        ({"memory_budget": 2**63}, "memory_budget=9223372036854775808: expected a number of bytes below 2**63"),
        ({"repeat": 10**9 + 1}, "repeat=1000000001: expected at least 1 and at most 1e9"),
        ({"select": 3}, "select=3: expected a text, or several of them as a list"),
        ({"select": ["a", 3]}, "select=['a', 3]: expected a text, or several of them as a list"),
        ({"exclude": ""}, "exclude=('',): expected patterns that are not empty"),
        ({"measure_ms": "long"}, "measure_ms='long': expected a number"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(keywords: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        MeasureOptions(**keywords)  # type: ignore[arg-type]
    assert caught.value.message == message
