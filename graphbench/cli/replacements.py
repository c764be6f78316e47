"""`graphbench run --replace NODE=MODULE:FUNCTION`: candidates tried after measuring, printed below the report."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphbench.cli.common import say
from graphbench.errors import GraphbenchError, UsageError
from graphbench.models.functions import FunctionSource
from graphbench.options import MeasureOptions

if TYPE_CHECKING:
    from graphbench.api import Profile

FLAG = "--replace"


@dataclass(frozen=True, slots=True)
class ReplaceOption:
    """One `--replace`: a node's name, and where the candidate is."""

    node: str
    source: FunctionSource


def parse_replacements(texts: Iterable[str]) -> tuple[ReplaceOption, ...]:
    """Read `--replace` values.

    Raises:
        UsageError: one is no `NODE=MODULE:FUNCTION`.
    """
    found = []
    for text in texts:
        node, separator, function = text.partition("=")
        if not separator or not node:
            raise UsageError(
                f"{FLAG} {text!r}: expected NODE=MODULE:FUNCTION",
                hint="for instance gelu=kernels.py:fast_gelu; the report's tables list the nodes",
                subject=FLAG,
            )
        found.append(ReplaceOption(node, FunctionSource.parse(FLAG, function)))
    return tuple(found)


def add_replace_flags(group: argparse._ArgumentGroup) -> None:
    """Declare `--replace` and `--replace-tolerance`."""
    group.add_argument(
        FLAG,
        action="append",
        default=[],
        metavar="NODE=MODULE:FUNCTION",
        help="after measuring, try a function in a node's place: alone, and inside the compiled graph; MODULE may be a "
        "file; repeatable",
    )
    group.add_argument(
        "--replace-tolerance",
        type=tolerance,
        default=1.0,
        metavar="FACTOR",
        help="on the usual tolerance of each dtype, for functions that compute less exactly; inf takes any values; "
        "default: %(default)g",
    )


def tolerance(text: str) -> float:
    """An argument that is a number, at least 0, or `inf`."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0.0:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number, at least 0, or inf")
    return value


def load_candidates(options: Iterable[ReplaceOption]) -> tuple[tuple[str, Callable[..., Any]], ...]:
    """The candidates by node. To be called before minutes of measuring.

    Raises:
        UsageError: there is no such function.
        CaptureError: importing it raised.
    """
    return tuple((option.node, option.source.load()) for option in options)


def try_candidates(
    candidates: Sequence[tuple[str, Callable[..., Any]]],
    profile: Profile,
    measure: MeasureOptions,
    allowed: float,
) -> Iterator[str | GraphbenchError]:
    """Try every candidate in its node's place in what this process captured.

    Args:
        candidates: by node.
        profile: what was measured, from which savings are predicted.
        measure: how to measure.
        allowed: factor on the usual tolerance.

    Yields:
        A table, or why there is none.
    """
    from graphbench import api
    from graphbench.replacing.replace import replace_node

    options = MeasureOptions(**{name: getattr(measure, name) for name in api.COMPARE_OPTIONS})
    for node, candidate in candidates:
        say(f"trying {getattr(candidate, '__name__', candidate)} in the place of {node}")
        try:
            yield str(
                replace_node(api.current_session(), node, candidate, options, tolerance=allowed, profile=profile.record)
            )
        except GraphbenchError as error:
            yield error
