"""`graphbench show`: print a saved profile. Runs without torch."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from graphbench.cli.common import EXIT_OK, Command, ViewOptions, add_view_flags, emit, pick, predictions
from graphbench.cli.output import PROFILE
from graphbench.errors import UsageError
from graphbench.report.base import DEFAULT_WIDTH

if TYPE_CHECKING:
    from graphbench.records import ProfileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """Options of `show`. `table` says which table a CSV holds; `None` unless asked for."""

    profile: Path
    format: str
    table: str | None
    view: ViewOptions


class ShowCommand(Command[ShowOptions]):
    """Print a saved profile as a table, CSV, JSON or Markdown."""

    name: ClassVar[str] = "show"
    examples: ClassVar[tuple[str, ...]] = (
        "graphbench show report",
        "graphbench show report/profile.json --wide --top 20",
        "graphbench show report --group-by module --depth 2",
        "graphbench show report --format csv --table fusions",
        "# what if every MLP took half its time?",
        "graphbench show report --what-if 'layers.*.mlp=2'",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `show`."""
        parser.add_argument(
            "profile",
            type=Path,
            metavar="PROFILE",
            help="a profile.json, or the directory of a run, also of one that is not done",
        )
        parser.add_argument(
            "--format", choices=("table", "csv", "json", "markdown"), default="table", help="default: %(default)s"
        )
        parser.add_argument(
            "--table",
            choices=("nodes", "fusions", "gaps", "places", "step", "breaks", "opportunities"),
            help="which table --format csv prints; default: nodes",
        )
        add_view_flags(parser)

    def read_options(self, arguments: argparse.Namespace) -> ShowOptions:
        """Collect the options; those that a format does not take, its reporter refuses."""
        if arguments.table is not None and arguments.format != "csv":
            raise UsageError(
                f"--table {arguments.table} is for --format csv; --format {arguments.format} prints every table",
                hint=f"graphbench show {arguments.profile} --format csv --table {arguments.table}",
                subject="--table",
            )
        if arguments.table is not None and arguments.group_by is not None:
            raise UsageError(
                f"--table {arguments.table} with --group-by {arguments.group_by}: groups are a table of their own",
                hint="leave out one of the two",
                subject="--table",
            )
        if arguments.what_if and arguments.format != "table":
            raise UsageError(f"--what-if with --format {arguments.format}: a prediction is text", subject="--what-if")
        return ShowOptions(
            profile=arguments.profile,
            format=arguments.format,
            table=arguments.table,
            view=pick(ViewOptions, arguments),
        )

    def run(self, options: ShowOptions) -> int:
        """Render the profile to stdout, or what is predicted from it."""
        # Imported here: each command pays only for what it uses.
        from graphbench.collector import collector_paused
        from graphbench.report import REPORTERS

        if options.view.what_if:
            width = options.view.on_screen().get("width", DEFAULT_WIDTH)
            emit(predictions(read_profile(options.profile), options.view, width), options.view.color)
            return EXIT_OK
        as_table = options.format == "table"
        keywords = options.view.on_screen() if as_table else options.view.keywords()
        if options.table is not None:
            keywords["table"] = options.table
        with collector_paused():
            text = REPORTERS[options.format].render(read_profile(options.profile), **keywords)
        emit(text, options.view.color if as_table else "never")
        return EXIT_OK


def read_profile(path: Path) -> ProfileRecord:
    """A saved profile, or that of a run's directory: what was measured so far where the run is not done.

    A profile that a run was to replace which was cut short is not taken for that run's.
    """
    from graphbench.document import read
    from graphbench.runs.journal import JOURNAL

    if not path.is_dir():
        return read(path)
    profile = read(path / PROFILE) if (path / PROFILE).is_file() else None
    if profile is not None and not (path / JOURNAL).is_file():
        return profile
    from graphbench.runs.partial import read_partial, stands_for

    if profile is not None and stands_for(profile, path):
        return profile
    return read_partial(path)
