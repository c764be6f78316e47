"""What standard output is: how wide a line may be, and whether colours are understood; the flags that say otherwise."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Final, Literal, get_args

from graphbench.report.base import LEAST_WIDTH

ColorChoice = Literal["auto", "always", "never"]
COLOR_CHOICES: Final[tuple[ColorChoice, ...]] = get_args(ColorChoice)
_PLAIN: Final = str.maketrans("µΣ∂→–…×÷·≤≥", "uSd>-~x/.<>")
"""What stands for the signs of a report where only ASCII is known."""
_NARROWEST: Final = 20
"""Nothing can be read in narrower lines: such a terminal breaks them itself."""


def add_terminal_flags(group: argparse._ActionsContainer) -> None:
    """Declare `--width` and `--color`."""
    group.add_argument(
        "--width",
        type=width_argument,
        metavar="N",
        help=f"characters of a line, at least {LEAST_WIDTH}; default: the terminal's, 100 elsewhere and in files",
    )
    group.add_argument(
        "--color",
        choices=COLOR_CHOICES,
        default="auto",
        help="auto: on a terminal, unless NO_COLOR is set, and wherever FORCE_COLOR is; never in files; "
        "default: %(default)s",
    )


def width_argument(text: str) -> int:
    """An argument that is a number of characters in which a table can be drawn."""
    value = int(text) if text.strip().isdecimal() else 0
    if value < LEAST_WIDTH:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number, at least {LEAST_WIDTH}")
    return value


def terminal_width() -> int | None:
    """Characters of a line of the terminal that standard output is, but no fewer than 20; `None` where it is none.

    Source: `shutil.get_terminal_size`, which asks `COLUMNS` first; 0 stands for a size that is not known.
    """
    if not is_terminal():
        return None
    columns = shutil.get_terminal_size(fallback=(0, 0)).columns
    return max(_NARROWEST, columns) if columns else None


def draws_blocks() -> bool:
    """Whether standard output shows bars and lines of block elements: a terminal that knows more than ASCII.

    `NO_COLOR` is about colours only.
    """
    if not is_terminal() or os.environ.get("TERM") == "dumb":
        return False
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").startswith("utf8")


def encodable(text: str) -> str:
    """The text as standard output can encode it: character by character, so that columns stay columns."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    return text


def wants_color(choice: ColorChoice) -> bool:
    """Whether to print colours. What was asked for on the command line counts more than the environment."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal() and os.environ.get("TERM") != "dumb"


def painted(text: str, choice: ColorChoice) -> str:
    """A report with colours, where they are wanted."""
    if not wants_color(choice):
        return text
    from graphbench.report.paint import paint

    return paint(text)


def is_terminal() -> bool:
    """Whether standard output is one."""
    return sys.stdout is not None and sys.stdout.isatty()
