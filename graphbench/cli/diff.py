"""`graphbench diff`: compare two saved profiles, row by row. Runs without torch."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from graphbench.analysis.group_by import DIFF_GROUP_BY, meanings
from graphbench.cli.common import (
    EXIT_OK,
    EXIT_REGRESSION,
    Command,
    emit,
    percent,
    pick,
    positive_int,
    refuse_page_on_screen,
    say,
)
from graphbench.cli.show import read_profile
from graphbench.cli.terminal import ColorChoice, add_terminal_flags, terminal_width
from graphbench.errors import UsageError
from graphbench.records import TOLD_FIRST, ProfileRecord
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.units import format_duration, format_percent

if TYPE_CHECKING:
    from graphbench.analysis.diff import Diff, Judged
    from graphbench.analysis.group_by import DiffGroupBy


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Options of `diff`. `limit` is the slowdown that fails, as a fraction: 0.05 for 5 %.

    `table` says which table a CSV holds; `None` unless asked for. `top` is `None` where the format decides.
    """

    before: Path
    after: Path
    limit: float | None
    format: str
    table: str | None
    group_by: DiffGroupBy | None
    top: int | None
    every: bool
    width: int | None
    color: ColorChoice


class DiffCommand(Command[DiffOptions]):
    """Compare two saved profiles, joined on nodes and fusions, with a verdict per row."""

    name: ClassVar[str] = "diff"
    examples: ClassVar[tuple[str, ...]] = (
        "graphbench diff before.json after.json",
        "graphbench diff before.json after.json --format markdown --top 5",
        "graphbench diff before.json after.json --format html > diff.html",
        "# for CI: exit code 5 when anything became more than 5 % slower",
        "graphbench diff before.json after.json --fail-on-regression 5%",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `diff`."""
        parser.add_argument("before", type=Path, metavar="A", help="the profile to compare with, or a run's directory")
        parser.add_argument("after", type=Path, metavar="B", help="the profile to judge, or a run's directory")
        parser.add_argument(
            "--format",
            choices=("table", "csv", "json", "markdown", "html"),
            default="table",
            help="default: %(default)s",
        )
        parser.add_argument(
            "--table",
            choices=("nodes", "fusions", "gaps", "totals"),
            help="which table --format csv prints; default: nodes",
        )
        parser.add_argument(
            "--group-by",
            choices=DIFF_GROUP_BY,
            help=f"sums of nodes instead of rows. {meanings(DIFF_GROUP_BY)}",
        )
        parser.add_argument(
            "--top",
            type=positive_int,
            metavar="N",
            help="show the N rows of each table that changed most; default: 100, in Markdown 10",
        )
        parser.add_argument(
            "--all", dest="every", action="store_true", help="also the rows that are the same, or unclear"
        )
        parser.add_argument(
            "--fail-on-regression",
            dest="limit",
            type=percent,
            metavar="PERCENT",
            help="exit with 5 if anything judged became slower by more than this, for instance 5%%; judged are the "
            "verdicts of nodes and fusions and the totals of compiled forwards, compiled backwards and steps, not the "
            "eager total, which is shown; a difference within the noise is `unclear` and passes; the more rows are "
            "judged, the larger is the noise, so that at most 1%% of comparisons of the same code fail",
        )
        add_terminal_flags(parser)

    def read_options(self, arguments: argparse.Namespace) -> DiffOptions:
        """Collect the options, and refuse those that a format would ignore."""
        options = pick(DiffOptions, arguments)
        for flag, given, formats in (
            ("--table", options.table is not None, ("csv",)),
            ("--top", options.top is not None, ("table", "markdown")),
            ("--all", options.every, ("table",)),
            ("--group-by", options.group_by is not None, ("table", "markdown", "csv")),
            ("--width", options.width is not None, ("table",)),
        ):
            if given and options.format not in formats:
                raise UsageError(
                    f"{flag} is for --format {' or '.join(formats)}, and the format is {options.format}",
                    hint=f"leave out {flag}",
                    subject=flag,
                )
        if options.table is not None and options.group_by is not None:
            raise UsageError(
                f"--table {options.table} with --group-by {options.group_by}: groups are a table of their own",
                hint="leave out one of the two",
                subject="--table",
            )
        if options.format == "html":
            refuse_page_on_screen(f"graphbench diff {options.before} {options.after} --format html > diff.html")
        return options

    def run(self, options: DiffOptions) -> int:
        """Render the comparison to stdout; judge it if asked to."""
        from graphbench.analysis.diff import diff
        from graphbench.collector import collector_paused

        names = (options.before.name, options.after.name)
        if names[0] == names[1]:  # two folders of `run --output-dir`
            names = (str(options.before), str(options.after))
        with collector_paused():
            before, after = read_profile(options.before), read_profile(options.after)
            result = diff(before, after, names=names)
            text = _rendered(result, options)
        emit(text, options.color if options.format == "table" else "never")
        if options.limit is None:
            return EXIT_OK
        slower = regression(result, options.limit, asked_by="--fail-on-regression")
        for doubt in unjudged(judged(result)):
            say(doubt)
        if not slower:
            return EXIT_OK
        for doubt in doubts(before, after):
            say(doubt)
        say(slower)
        return EXIT_REGRESSION


def regression(result: Diff, limit: float, *, asked_by: str) -> str:
    """Which row became slower by more than `limit`, a fraction, beyond the noise; "" where none did.

    Errors name who asked.

    Raises:
        UsageError: nothing was judged, which must not pass for no regression.
    """
    from graphbench.analysis.diff import worst_regression

    if result.devices is not None:
        raise UsageError(
            f"{asked_by}: nothing was judged: {result.devices[0]} before, {result.devices[1]} after",
            hint="compare two profiles of one device",
            subject=asked_by,
        )
    gate = judged(result)
    entries: list[Judged] = [*gate.totals, *gate.rows, *gate.fusions]
    if not any(entry.verdict for entry in entries):
        reasons = [entry.reason for entry in entries if entry.reason] or ["no time stands on both sides"]
        raise UsageError(
            f"{asked_by}: nothing was judged: {reasons[0]}",
            hint="compare two profiles that were measured; graphbench show says what became of each",
            subject=asked_by,
        )
    worst = worst_regression(gate)
    if worst is None or worst.ratio is None or worst.ratio <= 1 + limit:
        return ""
    return regression_text(worst, limit)


def _rendered(result: Diff, options: DiffOptions) -> str:
    if options.format == "markdown":
        from graphbench.report.diff_markdown import SHOWN, markdown_diff

        return markdown_diff(result, top=SHOWN if options.top is None else options.top, group_by=options.group_by)
    if options.format == "html":
        from graphbench.report.html.diff_page import diff_page
        from graphbench.report.html.render import render_page

        return render_page(diff_page(result))
    if options.format in ("csv", "json"):
        from graphbench.report.diff_data import csv_diff, json_diff

        if options.format == "json":
            return json_diff(result)
        return csv_diff(result, table=options.table or "nodes", group_by=options.group_by)
    from graphbench.report.diff_table import SHOWN_ROWS, render_diff

    top = options.top or (None if options.every else SHOWN_ROWS)
    width = options.width or terminal_width() or DEFAULT_WIDTH
    return render_diff(result, top=top, width=width, every=options.every, group_by=options.group_by)


def judged(result: Diff) -> Diff:
    """What the gate looks at: everything but the eager totals, which say nothing of the code that was compiled."""
    from graphbench.analysis.diff_totals import EAGER_TOTALS

    return replace(result, totals=tuple(total for total in result.totals if total.name not in EAGER_TOTALS))


def unjudged(gate: Diff) -> Iterator[str]:
    """Whole runs that the baseline has and that could not be judged: a gate that passes does not speak for them."""
    for total in gate.totals:
        if total.before_ns is not None and total.verdict is None:
            yield f"--fail-on-regression: the total of {total.name} was not judged: {total.reason}"


def doubts(before: ProfileRecord, after: ProfileRecord) -> Iterator[str]:
    """Why a regression may be none: the CPU was shared while a profile was measured, or the profile is partial."""
    for which, record in (("before", before), ("after", after)):
        for note in record.notes:
            if note.startswith(TOLD_FIRST):
                yield f"{which}: {note}"


def regression_text(worst: Judged, limit: float) -> str:
    """Which row became slower, from what to what, and what was allowed."""
    region = getattr(worst, "region", None)
    of_node = not hasattr(worst, "kernels_after")  # a kernel's name has its phase
    backward = "the backward of " if of_node and getattr(worst, "phase", "forward") == "backward" else ""
    name = f"{backward}{region}/{worst.name}" if region is not None else f"the total of {worst.name}"
    slowdown = None if worst.ratio is None else worst.ratio - 1
    return (
        f"regression: {name}: {format_duration(worst.before_ns)} before, {format_duration(worst.after_ns)} after, "
        f"{format_percent(slowdown)} slower; allowed are {format_percent(limit)}"
    )
