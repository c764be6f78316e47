"""Code blocks of README.md and of the pages in the package, and the command lines in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from graphbench.cli.docs import pages

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted(file for file in pages().values() if file.suffix == ".md"))

# What a block is: run as Python, run as command lines, read as configuration, or shown only.
RUN = ("python", "sh")
READ = ("toml",)
SHOWN = ("console", "text", "json", "yaml", "markdown", "")

_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>.+) -->\s*\Z")
_FILE = re.compile(r"<!-- file: (?P<name>[\w.-]+) -->\s*\Z")
_SUBSTITUTED = re.compile(r"\$\((.*)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block. `line` counts from 1.

    The comment above it, which readers do not see, may say why it cannot run here (`not_run`), or that what follows on
    the page finds it in a file of that name.
    """

    page: Path
    line: int
    language: str
    code: str
    not_run: str | None
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.page.stem}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Every block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        not_run, file = (kind.search(text[: match.start()]) for kind in (_NOT_RUN, _FILE))
        code = "".join(line.removeprefix(match["indent"]) for line in match["code"].splitlines(keepends=True))
        line = text[: match.start()].count("\n") + 1
        why, name = not_run["why"] if not_run else None, file["name"] if file else None
        found.append(Block(page, line, match["language"], code, why, name))
    return found


def blocks(*languages: str) -> list[Block]:
    """The blocks of all pages in these languages."""
    return [block for page in PAGES for block in blocks_of(page) if block.language in languages]


def command_lines(code: str) -> list[str]:
    """The command lines of a `sh` block: continued lines joined, those joined by `&&` apart, comments left out."""
    joined = code.replace("\\\n", " ").splitlines()
    return [part.strip() for line in joined if line.strip() and line.strip()[0] != "#" for part in line.split(" && ")]


@dataclass(frozen=True)
class CommandLine:
    """A line that calls graphbench: its words, and the file that its output goes to, if it goes to one."""

    words: tuple[str, ...]
    output: str | None = None


def graphbench_call(line: str) -> CommandLine | None:
    """The call of graphbench that a line is, or that stands in a `$(...)` of it; `None` where there is none."""
    inner = _SUBSTITUTED.search(line)
    program, *words = shlex.split(inner[1] if inner else line, comments=True)
    if PurePosixPath(program).name != "graphbench":
        return None
    output = None
    for mark in (">", "|"):
        if mark in words:
            at = words.index(mark)
            output = words[at + 1] if mark == ">" else output
            words = words[:at]
    return CommandLine(tuple(words), output)


def graphbench_calls(code: str) -> list[CommandLine]:
    """All calls of graphbench in a `sh` block."""
    return [call for line in command_lines(code) if (call := graphbench_call(line)) is not None]
