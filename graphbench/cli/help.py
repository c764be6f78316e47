"""How `--help` and `--version` look."""

from __future__ import annotations

import argparse
import platform
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from graphbench.cli.common import version


class HelpFormatter(argparse.HelpFormatter):
    """Wraps a text of one line; keeps the lines of one that has several, such as examples.

    Source: `argparse.HelpFormatter._fill_text`, which formats descriptions and epilogs (Python 3.10 to 3.13).
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        def fill(part: str) -> str:
            return textwrap.indent(part, indent) if "\n" in part else wrap(part, width, indent)

        wrap = super()._fill_text
        return "\n\n".join(map(fill, text.strip().split("\n\n")))


class VersionAction(argparse.Action):
    """Prints the versions and ends; they are looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="print versions and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print and exit.

        Raises:
            SystemExit: always.
        """
        print(version_text())
        parser.exit()


def version_text() -> str:
    """Such as `graphbench 0.1.0, torch 2.13.0, Python 3.11.7`; torch is not imported for it."""
    import importlib.metadata  # here: nothing but this needs it

    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "(not installed)"
    return f"graphbench {version()}, torch {torch}, Python {platform.python_version()}"


def short_usage(parser: argparse.ArgumentParser) -> str:
    """A usage of one line: fifty flags in brackets say less than the list below.

    Source: `argparse.ArgumentParser._actions` (Python 3.10 to 3.13).
    """
    words = ["%(prog)s", "[options]"]
    for action in parser._actions:
        name = str(action.metavar or action.dest)
        if action.required and action.option_strings:
            words.append(f"{action.option_strings[-1]} {name}")
        elif not action.option_strings:
            words.append(name if action.required else f"[{name}]")
    return " ".join(words)


def with_examples(epilog: str | None, examples: Iterable[str]) -> str:
    """The text below a command's flags: what it says itself, then its examples."""
    shown = "\n".join(f"  {line}" for example in examples for line in example.splitlines())
    return "\n\n".join(part for part in (epilog, shown and f"examples:\n{shown}") if part)
