"""`graphbench doctor`: whether everything that measuring needs is here, and how to mend what is not."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import ClassVar, Final

from graphbench.cli.common import EXIT_OK, Command, emit, pick, say, version
from graphbench.cli.terminal import ColorChoice, add_terminal_flags, terminal_width
from graphbench.errors import SetupError, UsageError
from graphbench.report.base import DEFAULT_WIDTH

EXIT_SETUP: Final = SetupError.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """Options of `doctor`."""

    json: bool
    width: int | None
    color: ColorChoice

    def __post_init__(self) -> None:
        """Refuse what would change nothing.

        Raises:
            UsageError: a width of JSON.
        """
        if self.json and self.width is not None:
            raise UsageError("--width with --json: JSON has no lines to fit", hint="leave out one", subject="--width")


class DoctorCommand(Command[DoctorOptions]):
    """Look at torch, compilers, GPU, CUPTI and all else that measuring needs; say how to mend what is wrong.

    Exits with 3 where a problem is in the way.
    """

    name: ClassVar[str] = "doctor"
    examples: ClassVar[tuple[str, ...]] = ("graphbench doctor", "graphbench doctor --json")

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `doctor`."""
        parser.add_argument("--json", action="store_true", help="print the findings as JSON")
        add_terminal_flags(parser)

    def read_options(self, arguments: argparse.Namespace) -> DoctorOptions:
        """Collect the options."""
        return pick(DoctorOptions, arguments)

    def run(self, options: DoctorOptions) -> int:
        """Look, and print what was found."""
        from graphbench.doctor.examine import examine, problems
        from graphbench.doctor.machine import Machine
        from graphbench.doctor.text import as_json, as_text

        say("looking; optional packages are imported too, which takes a while")
        findings = examine(Machine())
        if options.json:
            emit(as_json(findings, version=version()))
        else:
            width = options.width or terminal_width() or DEFAULT_WIDTH
            emit(as_text(findings, version=version(), width=width), options.color)
        return EXIT_SETUP if any(problems(findings)) else EXIT_OK
