"""The generated code of a kernel: its own source, and the lines of the wrapper that call it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from graphbench.records import KernelRecord, Phase, RegionRecord

Language = Literal["triton", "cpp", "python"]
# `async_compile.METHOD(` of a definition, as PythonWrapperCodegen.define_kernel writes it: torch 2.11, 2.13 and 2.14.
_LANGUAGES: Final[Mapping[str, Language]] = {"triton": "triton", "cpp_pybinding": "cpp", "cpp": "cpp"}
_DEFINITION: Final = re.compile(r"(\w+) = async_compile\.(\w+)\(.*'''\s*$")
_END: Final = "'''"
_CALLED: Final = re.compile(r"(?:^|=)\s*(\w+)(?:\.run)?\(")
_MARK: Final = "[Provenance debug handles]"
_STREAM: Final = re.compile(r"\s*stream\d+ = get_raw_stream\(")
_LINES: Final = re.compile(r"\r\n|\r|\n")  # where Python counts a line: nowhere else, whatever `splitlines` says
_MOST_LINES: Final = 400  # of a call; what is longer is no call


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """What Inductor generated for one kernel.

    `source` is the kernel itself in its `language`, with the comment above it that tells the graph which it computes;
    empty where the wrapper calls a library, whose language is `python`. `call` are the lines of the wrapper that call
    it, from the comment that names its source nodes on; `line` is where the call begins, counted from 1.
    """

    language: Language
    source: str
    call: str
    line: int


class RegionCode:
    """The generated code of one region, read once.

    Args:
        region: the region.
    """

    def __init__(self, region: RegionRecord) -> None:
        self._graphs = {code.phase: _Graph(_LINES.split(code.text.removesuffix("\n"))) for code in region.code}

    def of(self, kernel: KernelRecord) -> KernelCode | None:
        """A kernel's code; `None` where none was recorded, or not where it is called."""
        graph = self._graphs.get(kernel.phase)
        if graph is None or kernel.line is None or not 0 < kernel.line <= len(graph.lines):
            return None
        return graph.code_at(kernel.line)

    def wrapper(self, phase: Phase) -> str | None:
        """The whole wrapper of a graph."""
        graph = self._graphs.get(phase)
        return None if graph is None else "\n".join(graph.lines)


class _Graph:
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._definitions = dict(_definitions(lines))

    def code_at(self, line: int) -> KernelCode:
        called = _CALLED.search(self.lines[line - 1])
        language, source = self._definitions.get(called[1] if called else "", ("python", ""))
        return KernelCode(language=language, source=source, call=_call(self.lines, line), line=line)


def _definitions(lines: Sequence[str]) -> list[tuple[str, tuple[Language, str]]]:
    """Kernels whose source is in the wrapper, with the comments above each."""
    found: list[tuple[str, tuple[Language, str]]] = []
    at = 0
    while at < len(lines):
        opened = _DEFINITION.match(lines[at])
        if opened is None or opened[2] not in _LANGUAGES:
            at += 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith(_END)), len(lines))
        source = [*_comments_above(lines, at), *lines[at + 1 : end]]
        found.append((opened[1], (_LANGUAGES[opened[2]], "\n".join(source).strip("\n"))))
        at = end + 1
    return found


def _comments_above(lines: Sequence[str], at: int) -> list[str]:
    """The comment lines directly above a line; neither the mark by which a call is known nor a path of a cache."""
    start = at
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return [line for line in lines[start:at] if _MARK not in line and not line.startswith("# kernel path:")]


def _call(lines: Sequence[str], line: int) -> str:
    """The statement that begins at a line, which ends where its brackets do, and the comments above it."""
    open_brackets, taken = 0, []
    for text in lines[line - 1 : line - 1 + _MOST_LINES]:
        taken.append(text)
        open_brackets += sum(text.count(sign) for sign in "([{") - sum(text.count(sign) for sign in ")]}")
        if open_brackets <= 0:
            break
    above = line - 1
    while above > 0 and _STREAM.match(lines[above - 1]):  # between the comment and the call
        above -= 1
    taken = [*_comments_above(lines, above), *taken]
    indent = min((len(text) - len(text.lstrip()) for text in taken if text.strip()), default=0)
    return "\n".join(text[indent:] for text in taken)
