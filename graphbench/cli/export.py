"""`graphbench export`: one row of a saved profile as a script that repeats it. Runs without torch."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from graphbench.cli.common import EXIT_OK, Command, emit, pick, refuse_overwrite, say, write_text
from graphbench.cli.show import read_profile

SCRIPT = Path("repro.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of `export`. Without `output` a script is printed."""

    profile: Path
    format: str
    row: str
    backward: bool
    output: Path | None
    force: bool


class ExportCommand(Command[ExportOptions]):
    """Write a stand-alone script that repeats one row of a saved profile, or an ncu command line for it."""

    name: ClassVar[str] = "export"
    examples: ClassVar[tuple[str, ...]] = (
        "# a script that needs only torch and measures that row again",
        "graphbench export report --row conv1 -o repro.py",
        "graphbench export report --row linear_2 --backward -o repro.py",
        "graphbench export report --row r0/conv1 --format ncu",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `export`."""
        parser.add_argument("profile", type=Path, metavar="PROFILE", help="a profile.json, or the directory of a run")
        parser.add_argument(
            "--format",
            choices=("repro", "ncu"),
            default="repro",
            help="repro: a Python script that needs only torch; ncu: the command line that profiles it. "
            "default: %(default)s",
        )
        parser.add_argument(
            "--row",
            required=True,
            metavar="ROW",
            help="a node as conv1 or r0/conv1, a post-grad node as forward:relu, or a kernel's key",
        )
        parser.add_argument("--backward", action="store_true", help="the backward of the node ROW")
        parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the script there")
        parser.add_argument("--force", action="store_true", help="overwrite FILE")

    def read_options(self, arguments: argparse.Namespace) -> ExportOptions:
        """Collect the options."""
        return pick(ExportOptions, arguments)

    def run(self, options: ExportOptions) -> int:
        """Print or write the script; with ncu, print the command."""
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
