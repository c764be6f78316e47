"""`graphbench diff`: compare two saved profiles, row by row. Runs without torch."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from graphbench.cli.common import EXIT_OK, EXIT_REGRESSION, Command, emit, percent, say
from graphbench.records import TOLD_FIRST, ProfileRecord
from graphbench.units import format_duration, format_percent

if TYPE_CHECKING:
    from graphbench.analysis.diff import Diff
    from graphbench.analysis.diff_rows import DiffRow
    from graphbench.analysis.diff_totals import DiffTotal


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
            help="exit with 5 if anything judged became slower by more than this, for instance 5%%; judged are the "
            "verdicts of nodes and the totals of compiled forwards, compiled backwards and steps, not the eager total, "
            "which is shown; a difference within the noise is `unclear` and passes",
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
        before, after = read(options.before), read(options.after)
        result = diff(before, after, names=names)
        emit(render_diff(result))
        if options.limit is None:
            return EXIT_OK
        worst = worst_regression(judged(result))
        if worst is None or worst.ratio is None or worst.ratio <= 1 + options.limit:
            return EXIT_OK
        for doubt in doubts(before, after):
            say(doubt)
        say(regression_text(worst, options.limit))
        return EXIT_REGRESSION


def judged(result: Diff) -> Diff:
    """What the gate looks at: everything but the eager totals, which say nothing of the code that was compiled."""
    from graphbench.analysis.diff_totals import EAGER_TOTALS

    return replace(result, totals=tuple(total for total in result.totals if total.name not in EAGER_TOTALS))


def doubts(before: ProfileRecord, after: ProfileRecord) -> Iterator[str]:
    """Why a regression may be none: the CPU was shared while a profile was measured, or the profile is partial."""
    for which, record in (("before", before), ("after", after)):
        for note in record.notes:
            if note.startswith(TOLD_FIRST):
                yield f"{which}: {note}"


def regression_text(worst: DiffRow | DiffTotal, limit: float) -> str:
    """Which row became slower, from what to what, and what was allowed."""
    region = getattr(worst, "region", None)
    backward = "the backward of " if getattr(worst, "phase", "forward") == "backward" else ""
    name = f"{backward}{region}/{worst.name}" if region is not None else f"the total of {worst.name}"
    slowdown = None if worst.ratio is None else worst.ratio - 1
    return (
        f"regression: {name}: {format_duration(worst.before_ns)} before, {format_duration(worst.after_ns)} after, "
        f"{format_percent(slowdown)} slower; allowed are {format_percent(limit)}"
    )
