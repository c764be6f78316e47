"""`graphbench export`: a saved profile for another program, or a row of it as a script. Runs without torch."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from graphbench.cli.common import (
    EXIT_OK,
    Command,
    emit,
    pick,
    refuse_overwrite,
    refuse_page_on_screen,
    say,
    write_text,
)
from graphbench.cli.show import TABLES, read_profile
from graphbench.errors import UsageError
from graphbench.report import FORMATS
from graphbench.report.base import RenderOptions

SCRIPT = Path("repro.py")
OP_LIST: Final = "op-list"
OF_ROWS: Final = ("repro", "ncu")
OVERLAY: Final = "model-explorer"
# Which format each flag is for; no other takes it.
_FLAGS: Final = {
    "row": OF_ROWS,
    "backward": OF_ROWS,
    "select": (OP_LIST, "dot"),
    "table": ("csv",),
    "metric": (OVERLAY,),
}
# What people mean by the name of a file where they name no format.
_BY_SUFFIX: Final = {".html": "html", ".csv": "csv", ".md": "markdown", ".dot": "dot", ".graphml": "graphml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of `export`. Without `output` the result is printed. Each format takes those that `_FLAGS` names."""

    profile: Path
    format: str
    row: str | None
    select: tuple[str, ...]
    backward: bool
    table: str | None
    metric: str | None
    output: Path | None
    force: bool


class ExportCommand(Command[ExportOptions]):
    """Write a saved profile as a page, a trace, a graph or an op list, or one row of it as a script."""

    name: ClassVar[str] = "export"
    examples: ClassVar[tuple[str, ...]] = (
        "# a page with tables and pictures, in one file that works offline",
        "graphbench export report --format html -o report.html",
        "# for ui.perfetto.dev and chrome://tracing",
        "graphbench export report --format trace -o trace.json",
        "# the graph of nodes and kernels",
        "graphbench export report --format dot -o graph.dot",
        "# a script that needs only torch and measures that row again",
        "graphbench export report --row conv1 -o repro.py",
        "graphbench export report --row linear_2 --backward -o repro.py",
        "graphbench export report --row r0/conv1 --format ncu",
        "# its ops, to be measured on another machine without the model",
        "graphbench export report --format op-list -o ops.yaml",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `export`."""
        parser.add_argument("profile", type=Path, metavar="PROFILE", help="a profile.json, or the directory of a run")
        parser.add_argument(
            "--format",
            choices=(*OF_ROWS, OP_LIST, *FORMATS),
            default="repro",
            metavar="FORMAT",
            help="of one row: repro, a Python script that needs only torch; ncu, the command line that profiles it. "
            "op-list: the ops, for graphbench run --op-list, here or on another machine. html: a page; trace: Chrome "
            "trace events; graphml, dot: the graph of nodes and kernels; model-explorer-graph, model-explorer: that "
            "graph, and times to lay over it; table, csv, json, markdown: what graphbench show prints. "
            "default: %(default)s",
        )
        parser.add_argument(
            "--row",
            metavar="ROW",
            help="of repro and ncu: a node as conv1 or r0/conv1, a post-grad node as forward:relu, or a kernel's key",
        )
        parser.add_argument("--backward", action="store_true", help="the backward of the node ROW")
        parser.add_argument(
            "--select",
            action="append",
            default=[],
            metavar="PATTERN",
            help="of op-list and dot: only nodes whose name, op type or module path matches, as 'conv*'; repeatable",
        )
        parser.add_argument("--table", choices=TABLES, help="of csv: which table; default: nodes")
        parser.add_argument(
            "--metric",
            metavar="METRIC",
            help="of model-explorer: isolated, backward_isolated, in_graph, compiled, compiled_backward, speedup, "
            "limit, bound, verdict or fate; default: isolated",
        )
        parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there")
        parser.add_argument("--force", action="store_true", help="overwrite FILE")

    def read_options(self, arguments: argparse.Namespace) -> ExportOptions:
        """Collect the options; each format has its own."""
        for name, formats in _FLAGS.items():
            if getattr(arguments, name) and arguments.format not in formats:
                flag = f"--{name}"
                raise UsageError(
                    f"{flag} with --format {arguments.format}: it is for --format {' or '.join(formats)}",
                    hint=f"leave out {flag}{', or choose ops with --select' if arguments.format == OP_LIST else ''}",
                    subject=flag,
                )
        if arguments.format in OF_ROWS and arguments.row is None:
            meant = _BY_SUFFIX.get(arguments.output.suffix.lower()) if arguments.output else None
            rows = "a node as conv1, a post-grad node as forward:relu, or a kernel's key"
            raise UsageError(
                f"--format {arguments.format} without --row: of which row?",
                hint=f"for {arguments.output} add --format {meant}" if meant else f"{rows}; or another --format",
                subject="--row",
            )
        if arguments.format == "html" and arguments.output is None:
            refuse_page_on_screen(f"graphbench export {arguments.profile} --format html -o report.html")
        arguments.select = tuple(arguments.select)
        return pick(ExportOptions, arguments)

    def run(self, options: ExportOptions) -> int:
        """Print or write what was asked for; with ncu, print the command."""
        if options.output is not None:
            refuse_overwrite({options.format: options.output}, force=options.force)
        if options.row is not None:
            return _script(options, options.row)
        text, then = _op_list(options) if options.format == OP_LIST else (_report(options), "")
        if options.output is None:
            emit(text)
        else:
            write_text(options.output, text)
            say(f"wrote {options.output}{then}")
        return EXIT_OK


def _script(options: ExportOptions, row: str) -> int:
    # Imported here: each command pays only for what it uses.
    from graphbench.report.repro import ncu_command, repro

    record = read_profile(options.profile)
    script = repro(record, row, backward=options.backward)
    file = options.output or SCRIPT
    command = ""
    if options.format == "ncu":
        command = ncu_command(record, row, str(file), backward=options.backward)
    if options.output is not None:
        write_text(options.output, script)
        say(f"wrote {options.output}")
    if command:
        if options.output is None:
            say(f"{file} is what --format repro -o {file} writes")
        emit(command)
    elif options.output is None:
        emit(script)
    return EXIT_OK


def _op_list(options: ExportOptions) -> tuple[str, str]:
    """The list, and what to do with it."""
    from graphbench.report.op_list import op_list

    then = f": graphbench run --op-list {options.output} measures it"
    return op_list(read_profile(options.profile), options.select), then


def _report(options: ExportOptions) -> str:
    from graphbench.collector import collector_paused
    from graphbench.report import REPORTERS

    chosen: RenderOptions = {}
    if options.table is not None:
        chosen["table"] = options.table
    if options.metric is not None:
        chosen["metric"] = options.metric
    if options.select:
        chosen["select"] = options.select
    with collector_paused():
        return REPORTERS[options.format].render(read_profile(options.profile), **chosen)
