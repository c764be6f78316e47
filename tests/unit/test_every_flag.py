"""Every flag of every command is named by a test, so that one that does nothing cannot stay unseen."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphbench.cli import build_parser

TESTS = Path(__file__).parents[1]
HIDDEN = ("--help", "--no-")


def flags() -> Iterator[tuple[str, str]]:
    parser = build_parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for name, child in commands.choices.items():
        for action in child._actions:
            for flag in action.option_strings:
                if flag.startswith("--") and not flag.startswith(HIDDEN):
                    yield name, flag


@pytest.fixture(scope="module")
def texts() -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py") if file != Path(__file__))


@pytest.mark.parametrize(("command", "flag"), list(flags()))
def test_a_flag_is_named_by_a_test(texts: str, command: str, flag: str) -> None:
    spellings = [f"{name}{end}" for name in (flag, f"--no-{flag[2:]}") for end in ('"', "=", " ")]
    assert any(spelling in texts for spelling in spellings), f"no test gives {command} {flag}"
