"""Colours for a terminal, put into a finished report: layout knows nothing of them, and no name can bring its own.

Words say everything that colours say: who cannot tell them apart misses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from graphbench.plaintext import clean_lines
from graphbench.report.cells import spaced

BOLD: Final = "1"
RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
MAGENTA: Final = "35"
_WORDS: Final[Mapping[str, str]] = {
    "faster": GREEN,
    "slower": RED,
    "ok": GREEN,
    "warning": YELLOW,
    "problem": RED,
}
_JUDGING: Final = ("verdict", "1 call", "state")
"""Headers of the columns whose words are coloured."""

_RULE = re.compile(r"-+(?: {1,2}-+)*")
_IMPOSSIBLE = re.compile(r"!\d\S*")
_TITLE = re.compile(r"[A-Z]")
_COUNTED = re.compile(r"\b[1-9]\d* (faster|slower)\b")
_LABELS: Final = (
    ("suspicious:", MAGENTA),
    ("slower than what it replaced:", RED),
    ("problem:", RED),
    ("hint:", BOLD),
)
_VERDICT = re.compile(r"(?<= )(faster|slower)(?=: )")
_COUNTS: Final = ("nodes: ", "fusions: ")
_WARNING: Final = "warning:"
_CONTINUED: Final = "  "
_BESIDE: Final = "\x00"


class _Span(NamedTuple):
    """A column of a table: where it starts and ends in a line, and the last line of its header."""

    start: int
    end: int
    header: str


def paint(text: str) -> str:
    """The text with headings bold, verdicts, warnings and suspicious values coloured. Its lines stay as wide.

    Args:
        text: a report as `grid.wrap` makes it. Control characters in it are replaced first, however they came there.
    """
    # A column of characters is one of the screen only with something beside each wide one; no text has this character.
    lines = [spaced(line, _BESIDE) for line in clean_lines(text).split("\n")]
    return "\n".join(_painted(lines)).replace(_BESIDE, "")


def _painted(lines: Sequence[str]) -> Iterator[str]:
    heads = _heads(lines)
    columns: list[_Span] = []
    warned = after_blank = False
    opening = True  # until the first blank line: what a comparison says first is its verdict
    for position, line in enumerate(lines):
        warned = line.startswith(_WARNING) or (warned and line.startswith(_CONTINUED))
        if _is_rule(line):
            columns = _columns(lines, position, heads)
            yield line
        elif columns and _is_row(line, columns):
            yield _row(line, columns)
        else:
            columns = []
            bold = position == 0 or position in heads or (after_blank and _TITLE.match(line) is not None)
            yield _warning(line) if warned else _opening(line, bold=bold) if opening else _prose(line, bold=bold)
        after_blank = not line
        opening = opening and not after_blank


def _is_rule(line: str) -> bool:
    return bool(line) and _RULE.fullmatch(line.strip()) is not None


def _heads(lines: Sequence[str]) -> set[int]:
    """Positions of the lines that head a table: those above its rule that keep to its columns."""
    found = set()
    for rule, line in enumerate(lines):
        if _is_rule(line):
            spans = _spans(line)
            position = rule - 1
            while position >= 0 and lines[position] and _is_row(lines[position], spans):
                found.add(position)
                position -= 1
    return found


def _spans(rule: str) -> list[_Span]:
    return [_Span(*match.span(), "") for match in re.finditer("-+", rule)]


def _columns(lines: Sequence[str], rule: int, heads: set[int]) -> list[_Span]:
    header = lines[rule - 1] if rule - 1 in heads else ""
    return [span._replace(header=header[span.start : span.end].strip()) for span in _spans(lines[rule])]


def _is_row(line: str, columns: Sequence[_Span]) -> bool:
    """Whether a line leaves the room between the columns free."""
    ends = [(left.end, right.start) for left, right in pairwise(columns)]
    return bool(line) and not any(line[end:start].strip() for end, start in ends) and not line[columns[-1].end :]


def _row(line: str, columns: Sequence[_Span]) -> str:
    """A table's row; painted from its end, so that positions stay what they are."""
    for span in reversed(columns):
        cell = line[span.start : span.end]
        words = cell.split()
        color = _WORDS.get(words[0], "") if words and span.header in _JUDGING else ""
        found = words[0] if color else ""
        if not found and (impossible := _IMPOSSIBLE.search(cell)) is not None and len(words) == 1:
            found, color = impossible[0], MAGENTA
        if found:
            start = span.start + cell.index(found)
            line = line[:start] + _in(found, color) + line[start + len(found) :]
    return line


def _warning(line: str) -> str:
    return _in(line, YELLOW)


def _opening(line: str, *, bold: bool) -> str:
    judged = _VERDICT.sub(lambda match: _in(match[0], _WORDS[match[0]]), line)
    return judged if judged != line else _prose(line, bold=bold)


def _prose(line: str, *, bold: bool) -> str:
    for label, color in _LABELS:
        if line.lstrip().startswith(label):
            return line.replace(label, _in(label, color), 1)
    if line.startswith(_COUNTS):
        return _COUNTED.sub(lambda match: _in(match[0], _WORDS[match[1]]), line)
    if bold:
        return _in(line, BOLD)
    return line


def _in(text: str, color: str) -> str:
    return f"\x1b[{color}m{text}\x1b[0m" if text else text
