"""`graphbench show`: print a saved profile. Runs without torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from graphbench.cli.common import EXIT_OK, Command, emit, pick, refuse_page_on_screen
from graphbench.cli.output import PROFILE
from graphbench.cli.view import ViewOptions, add_view_flags, predictions
from graphbench.errors import UsageError
from graphbench.report import FORMATS
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.runs.series import is_series, read_series

if TYPE_CHECKING:
    from graphbench.records import ProfileRecord

TABLES: Final = ("nodes", "fusions", "gaps", "places", "step", "breaks", "opportunities", "sizes")
"""What CSV can hold, by the name used on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """Options of `show`. `table` says which table a CSV holds; `None` unless asked for.

    With `others`, or the directory of a series, all profiles are set against the sizes of their inputs.
    """

    profile: Path
    others: tuple[Path, ...]
    format: str
    table: str | None
    view: ViewOptions


class ShowCommand(Command[ShowOptions]):
    """Print a saved profile as a table, CSV, JSON or Markdown; of several, how times grow with the inputs' sizes."""

    name: ClassVar[str] = "show"
    examples: ClassVar[tuple[str, ...]] = (
        "graphbench show report",
        "graphbench show report/profile.json --wide --top 20",
        "graphbench show report --group-by module --depth 2",
        "graphbench show report --format csv --table fusions",
        "# what if every MLP took half its time?",
        "graphbench show report --what-if 'layers.*.mlp=2'",
        "# how does every node's time grow with the sequence?",
        "graphbench show short/profile.json long/profile.json",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `show`."""
        parser.add_argument(
            "profile",
            type=Path,
            nargs="+",
            metavar="PROFILE",
            help="a profile.json, or the directory of a run, also of one that is not done; of several, or of "
            "the directory of a series: how times grow with the sizes of the inputs",
        )
        parser.add_argument(
            "--format",
            choices=FORMATS,
            default="table",
            metavar="FORMAT",
            help="table, csv, json or markdown; or html, trace, graphml, dot, model-explorer, model-explorer-graph, as "
            "graphbench export writes them. default: %(default)s",
        )
        parser.add_argument(
            "--table",
            choices=TABLES,
            help="which table --format csv prints; default: nodes",
        )
        add_view_flags(parser)

    def read_options(self, arguments: argparse.Namespace) -> ShowOptions:
        """Collect the options; those that a format does not take, its reporter refuses."""
        if arguments.table is not None and arguments.format != "csv":
            raise UsageError(
                f"--table {arguments.table} is for --format csv; --format {arguments.format} prints every table",
                hint=f"graphbench show {arguments.profile[0]} --format csv --table {arguments.table}",
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
        first, *others = arguments.profile
        if others or is_series(first):
            _check_several(arguments)
        if arguments.format == "html":
            refuse_page_on_screen(f"graphbench export {first} --format html -o report.html")
        return ShowOptions(
            profile=first,
            others=tuple(others),
            format=arguments.format,
            table=arguments.table,
            view=pick(ViewOptions, arguments),
        )

    def run(self, options: ShowOptions) -> int:
        """Render the profile to stdout, or what is predicted from it."""
        # Imported here: each command pays only for what it uses.
        from graphbench.collector import collector_paused
        from graphbench.report import REPORTERS

        if options.others or is_series(options.profile):
            emit(_scaling_text(options), options.view.color if options.format == "table" else "never")
            return EXIT_OK
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


# What is said of one profile's tables.
_OF_ONE_PROFILE = ("table", "sort", "group_by", "depth", "what_if", "fold")
_OF_SEVERAL: Final = ("table", "csv", "json", "markdown", "html")


def _check_several(arguments: argparse.Namespace) -> None:
    if arguments.format not in _OF_SEVERAL:
        raise UsageError(
            f"--format {arguments.format} with several profiles: it is of one",
            hint=f"show one of them, or choose one of {', '.join(_OF_SEVERAL)}",
            subject="--format",
        )
    for name in _OF_ONE_PROFILE:
        if getattr(arguments, name) not in (None, [], "auto"):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} with several profiles: it is for the tables of one",
                hint=f"leave it out, or show one profile: graphbench show {_one_of(arguments.profile)} {flag} ...",
                subject=flag,
            )


def _one_of(paths: Sequence[Path]) -> Path:
    return paths[0] if len(paths) > 1 else read_series(paths[0])[0]


def _scaling_text(options: ShowOptions) -> str:
    """Several profiles over the sizes of their inputs; of a series, those that have been begun."""
    from graphbench.analysis.scaling import scaling
    from graphbench.cli.series import scaling_text
    from graphbench.report.profile_scaling import ProfileScaling
    from graphbench.runs.journal import JOURNAL

    paths, names = [options.profile, *options.others], []
    left_out: list[str] = []
    if not options.others:
        runs = read_series(options.profile)
        paths = [run for run in runs if any((run / name).is_file() for name in (PROFILE, JOURNAL))]
        names, left_out = [run.name for run in paths], [run.name for run in runs if run not in paths]
        if len(paths) < 2:
            raise UsageError(
                f"{options.profile}: {len(paths)} of the {len(runs)} runs of this series have been begun, expected two",
                hint=f"graphbench run --resume {options.profile} goes on with it",
                subject=str(options.profile),
            )
    found = ProfileScaling(scaling([read_profile(path) for path in paths], names=names, left_out=left_out))
    view, top = options.view, {} if options.view.top is None else {"top": options.view.top}
    if options.format == "csv":
        return found.csv()
    if options.format == "json":
        return found.to_json()
    if options.format == "html":
        return found.html()
    return found.markdown(**top) if options.format == "markdown" else scaling_text(found, view)


def read_profile(path: Path) -> ProfileRecord:
    """A saved profile, or that of a run's directory: what was measured so far where the run is not done.

    A profile that a run was to replace which was cut short is not taken for that run's.
    """
    from graphbench.document import read

    if not path.is_dir():
        return read(path)
    from graphbench.runs.journal import JOURNAL

    if is_series(path):
        raise UsageError(
            f"{path} is the directory of a series, expected one profile",
            hint=f"name one of its runs: {', '.join(str(run) for run in read_series(path)[:3])}",
            subject=str(path),
        )
    profile = read(path / PROFILE) if (path / PROFILE).is_file() else None
    if profile is not None and not (path / JOURNAL).is_file():
        return profile
    from graphbench.runs.partial import read_partial, stands_for

    if profile is not None and stands_for(profile, path):
        return profile
    return read_partial(path)
