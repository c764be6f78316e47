"""`graphbench docs`: the pages that come with the package. Runs without torch."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from graphbench.cli.common import EXIT_OK, Command, emit, pick

FOLDER: Final = Path(__file__).parent.parent / "docs"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocsOptions:
    """Options of `docs`. Without `page` they are listed."""

    page: str | None


class DocsCommand(Command[DocsOptions]):
    """List the pages about graphbench that come with it, or print one."""

    name: ClassVar[str] = "docs"
    examples: ClassVar[tuple[str, ...]] = (
        "graphbench docs",
        "graphbench docs how-it-measures",
        "# the JSON Schema of graphbench show --format json",
        "graphbench docs profile.schema.json",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `docs`."""
        parser.add_argument("page", nargs="?", choices=sorted(pages()), metavar="PAGE", help="its name in the list")

    def read_options(self, arguments: argparse.Namespace) -> DocsOptions:
        """Collect the options."""
        return pick(DocsOptions, arguments)

    def run(self, options: DocsOptions) -> int:
        """Print the list, or the page as it stands."""
        found = pages()
        if options.page is not None:
            emit(found[options.page].read_text(encoding="utf-8"))
            return EXIT_OK
        width = max(map(len, found))
        lines = [f"{name:{width}}  {title_of(file)}" for name, file in sorted(found.items())]
        emit("\n".join([*lines, "", "graphbench docs PAGE prints one."]))
        return EXIT_OK


def pages() -> Mapping[str, Path]:
    """The files by the names that users give: Markdown without its ending, others in full."""
    files = [file for file in FOLDER.iterdir() if file.suffix in (".md", ".json")]
    return {file.stem if file.suffix == ".md" else file.name: file for file in files}


def title_of(file: Path) -> str:
    """The heading of a page; of the schema what it describes."""
    if file.suffix == ".json":
        return "JSON Schema of a profile"
    with file.open(encoding="utf-8") as stream:
        return stream.readline().removeprefix("# ").strip()
