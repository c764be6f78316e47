"""`graphbench diff`: compare two saved profiles, row by row. Runs without torch."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from graphbench.cli.common import EXIT_OK, EXIT_REGRESSION, Command, emit, percent, say
from graphbench.units import format_duration, format_percent

if TYPE_CHECKING:
    from graphbench.analysis.diff import DiffRow, DiffTotal


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Options of `diff`. `limit` is the slowdown that fails, as a fraction: 0.05 for 5 %."""

    before: Path
    after: Path
    limit: float | None


class DiffCommand(Command[DiffOptions]):
    """Compare two saved profiles, joined on nodes, with a verdict per row."""

    name: ClassVar[str] = "diff"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `diff`."""
        parser.add_argument("before", type=Path, metavar="A", help="the profile to compare with")
        parser.add_argument("after", type=Path, metavar="B", help="the profile to judge")
        parser.add_argument(
            "--fail-on-regression",
            dest="limit",
            type=percent,
            metavar="PERCENT",
            help="exit with 5 if a row became slower by more than this, for instance 5%%",
        )

    def read_options(self, arguments: argparse.Namespace) -> DiffOptions:
        """Collect the options."""
        return DiffOptions(before=arguments.before, after=arguments.after, limit=arguments.limit)

    def run(self, options: DiffOptions) -> int:
        """Render the comparison to stdout; judge it if asked to."""
        from graphbench.analysis.diff import diff, worst_regression
        from graphbench.document import read
        from graphbench.report.table import render_diff

        names = (options.before.name, options.after.name)
        if names[0] == names[1]:  # two folders of `run --output-dir`
            names = (str(options.before), str(options.after))
        result = diff(read(options.before), read(options.after), names=names)
        emit(render_diff(result))
        worst = worst_regression(result)
        if options.limit is None or worst is None or worst.ratio is None or worst.ratio <= 1 + options.limit:
            return EXIT_OK
        say(regression_text(worst, options.limit))
        return EXIT_REGRESSION


def regression_text(worst: DiffRow | DiffTotal, limit: float) -> str:
    """Which row became slower, from what to what, and what was allowed."""
    region = getattr(worst, "region", None)
    name = f"{region}/{worst.name}" if region is not None else f"the total of {worst.name}"
    slowdown = None if worst.ratio is None else worst.ratio - 1
    return (
        f"regression: {name}: {format_duration(worst.before_ns)} before, {format_duration(worst.after_ns)} after, "
        f"{format_percent(slowdown)} slower; allowed are {format_percent(limit)}"
    )
