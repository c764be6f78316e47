"""`graphbench export`: a row of a saved profile as a script, or its ops as an op list. Runs without torch."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from graphbench.cli.common import EXIT_OK, Command, emit, pick, refuse_overwrite, say, write_text
from graphbench.cli.show import read_profile
from graphbench.errors import UsageError

SCRIPT = Path("repro.py")
OP_LIST: Final = "op-list"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of `export`. Without `output` the result is printed. `row` is of scripts, `select` of op lists."""

    profile: Path
    format: str
    row: str | None
    select: tuple[str, ...]
    backward: bool
    output: Path | None
    force: bool


class ExportCommand(Command[ExportOptions]):
    """Write a script that repeats one row of a saved profile, an ncu command line for it, or all ops as an op list."""

    name: ClassVar[str] = "export"
    examples: ClassVar[tuple[str, ...]] = (
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
            choices=("repro", "ncu", OP_LIST),
            default="repro",
            help="repro: a Python script that needs only torch; ncu: the command line that profiles it; "
            "op-list: the ops, for graphbench run --op-list, here or on another machine. "
            "default: %(default)s",
        )
        parser.add_argument(
            "--row",
            metavar="ROW",
            help="of repro and ncu: a node as conv1 or r0/conv1, a post-grad node as forward:relu, or a kernel's key",
        )
        parser.add_argument(
            "--select",
            action="append",
            default=[],
            metavar="PATTERN",
            help="of op-list: only nodes whose name, op type or module path matches, as 'conv*'; repeatable",
        )
        parser.add_argument("--backward", action="store_true", help="the backward of the node ROW")
        parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there")
        parser.add_argument("--force", action="store_true", help="overwrite FILE")

    def read_options(self, arguments: argparse.Namespace) -> ExportOptions:
        """Collect the options; each format has its own."""
        if arguments.format == OP_LIST:
            for flag, given in (("--row", arguments.row is not None), ("--backward", arguments.backward)):
                if given:
                    raise UsageError(
                        f"{flag} with --format {OP_LIST}: a list has ops with their backwards",
                        hint=f"choose ops with --select, and leave out {flag}",
                        subject=flag,
                    )
        elif arguments.select:
            raise UsageError(f"--select is for --format {OP_LIST}", hint="name one row with --row", subject="--select")
        elif arguments.row is None:
            raise UsageError(
                f"--format {arguments.format} without --row: of which row?",
                hint="a node as conv1, a post-grad node as forward:relu, or a kernel's key",
                subject="--row",
            )
        arguments.select = tuple(arguments.select)
        return pick(ExportOptions, arguments)

    def run(self, options: ExportOptions) -> int:
        """Print or write the script or the list; with ncu, print the command."""
        if options.row is None:
            return self._op_list(options)
        # Imported here: each command pays only for what it uses.
        from graphbench.report.repro import ncu_command, repro

        if options.output is not None:
            refuse_overwrite({"script": options.output}, force=options.force)
        record = read_profile(options.profile)
        script = repro(record, options.row, backward=options.backward)
        file = options.output or SCRIPT
        command = ""
        if options.format == "ncu":
            command = ncu_command(record, options.row, str(file), backward=options.backward)
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

    def _op_list(self, options: ExportOptions) -> int:
        from graphbench.report.op_list import op_list

        if options.output is not None:
            refuse_overwrite({"op list": options.output}, force=options.force)
        text = op_list(read_profile(options.profile), options.select)
        if options.output is None:
            emit(text)
        else:
            write_text(options.output, text)
            say(f"wrote {options.output}: graphbench run --op-list {options.output} measures it")
        return EXIT_OK
