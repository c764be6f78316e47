"""YAML as plain data with line numbers, and a cursor over it whose errors say file, line and field. No torch import.

A subset that nobody can abuse: one document of mappings, lists and scalars; no anchors, aliases or tags; bounded in
size and depth. Of unquoted scalars `true`, `false`, `null`, `~` and numbers are read as such, all others are texts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from graphbench.errors import UsageError, first_line
from graphbench.files import read_bounded
from graphbench.plaintext import quoted

MOST_BYTES: Final = 8 << 20
MOST_ENTRIES: Final = 1_000_000
DEEPEST: Final = 24
MOST_DIGITS: Final = 19
_SHOWN: Final = 80
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,3})?")
_INFINITE: Final = re.compile(r"(?P<sign>[-+]?)\.?(?P<word>inf|nan)", re.IGNORECASE)
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(slots=True, eq=False)
class Entry:
    """A scalar, a list of entries or a mapping of them. `line` counts from 1; of a mapping's entry it is the key's."""

    value: Any
    line: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a file. `path` is the field as `ops[2].args[0].dtype`."""

    file: str
    path: str
    entry: Entry = field(repr=False)

    def error(self, expected: str, *, found: str | None = None, hint: str | None = None) -> UsageError:
        """The error for what stands here: file, line, field, what was found and expected."""
        shown = found if found is not None else described(self.entry.value)
        where = f"{self.file}:{self.entry.line}: {self.path or 'the file'}"
        return UsageError(f"{where}: found {shown}, expected {expected}", hint=hint, subject=self.file)

    def fields(self, known: Collection[str], what: str) -> dict[str, Cursor]:
        """The entries of a mapping, all of which must be known.

        Raises:
            UsageError: it is no mapping, or has another key.
        """
        found = self.mapping(what)
        for key, cursor in found.items():
            if key not in known:
                raise cursor.error(
                    f"one of {', '.join(known)}", found=f"the field {shown(key)}", hint=nearest(key, known)
                )
        return found

    def mapping(self, what: str) -> dict[str, Cursor]:
        """The entries of a mapping by key.

        Raises:
            UsageError: it is none.
        """
        if not isinstance(self.entry.value, dict):
            raise self.error(f"{what}: a mapping")
        dot = "." if self.path else ""
        return {key: Cursor(self.file, f"{self.path}{dot}{key}", entry) for key, entry in self.entry.value.items()}

    def items(self, what: str) -> list[Cursor]:
        """The entries of a list.

        Raises:
            UsageError: it is none.
        """
        if not isinstance(self.entry.value, list):
            raise self.error(f"{what}: a list")
        return [Cursor(self.file, f"{self.path}[{index}]", entry) for index, entry in enumerate(self.entry.value)]

    def text(self, what: str) -> str:
        """A text.

        Raises:
            UsageError: it is none, or an empty one.
        """
        value = self.entry.value
        if not isinstance(value, str) or not value:
            raise self.error(what)
        return str(value)

    def flag(self) -> bool:
        """`true` or `false`.

        Raises:
            UsageError: it is neither.
        """
        if not isinstance(self.entry.value, bool):
            raise self.error("true or false")
        return bool(self.entry.value)

    def number(self, what: str) -> float:
        """A number that is finite.

        Raises:
            UsageError: it is none.
        """
        value = self.entry.value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < float("inf"):
            raise self.error(what)
        return float(value)

    def chosen(self, known: Collection[str], what: str) -> str:
        """One of several names.

        Raises:
            UsageError: it is another one; the hint has those that are alike.
        """
        value = self.entry.value
        if not isinstance(value, str) or value not in known:
            hint = nearest(value, known) if isinstance(value, str) else None
            raise self.error(what, hint=hint or f"known: {', '.join(sorted(known))}")
        return str(value)


def nearest(name: str, known: Collection[str]) -> str | None:
    """A hint with the known names that are most like one."""
    close = difflib.get_close_matches(name[:_SHOWN], list(known), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else None


def shown(text: str) -> str:
    """A text of a file in a message."""
    return repr(quoted(text, _SHOWN))


def described(value: object) -> str:
    """What stands somewhere, in a few words."""
    if isinstance(value, dict):
        return f"a mapping of {', '.join(map(shown, list(value)[:4]))}" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return shown(value) if isinstance(value, str) else repr(value)


def read_yaml(path: Path, what: str) -> Cursor:
    """A file's content.

    Args:
        path: the file.
        what: it is, for messages.

    Raises:
        UsageError: it cannot be read, is too large, is no UTF-8 or no YAML of the kind that is read.
    """
    name = str(path)
    try:
        content = read_bounded(path, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{what} {name}: cannot be read: {error.strerror}", subject=name) from error
    if content is None:
        raise UsageError(f"{what} {name}: found more than {MOST_BYTES} bytes", hint="split it", subject=name)
    try:
        return parse_yaml(content.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {name}: found a byte that is no UTF-8 at {error.start}", subject=name) from error


def parse_yaml(text: str, name: str) -> Cursor:
    """The content of a text.

    Args:
        text: YAML.
        name: of the file, for messages.

    Raises:
        UsageError: with file and line.

    Source: `yaml.parse`, whose events say where they start; PyYAML 6.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is built in: ten times as fast
    composer = _Composer(name)
    try:
        for event in yaml.parse(text, Loader=loader):
            composer.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or first_line(error)
        raise UsageError(f"{name}{line}: no YAML that can be read: {problem}", subject=name) from error
    if composer.root is None:
        raise UsageError(f"{name}: found nothing in it, expected an op list", subject=name)
    return Cursor(name, "", composer.root)


class _Composer:
    """Makes entries of events, and refuses what is not of the subset where it stands."""

    def __init__(self, name: str) -> None:
        self.root: Entry | None = None
        self._name = name
        self._open: list[Entry] = []
        self._keys: list[tuple[str, int] | None] = []
        self._count = 0

    def take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise self._error(line, "a second document", "one")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._error(line, "an anchor or alias (& or *)", "each thing where it is used")
        if getattr(event, "tag", None) is not None:
            raise self._error(line, f"the tag {shown(str(event.tag))}", "plain data")
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin({} if isinstance(event, yaml.MappingStartEvent) else [], line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._open.pop()
            self._keys.pop()
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)

    def _begin(self, value: Any, line: int) -> None:
        entry = self._add(value, line)
        self._open.append(entry)
        self._keys.append(None)
        if len(self._open) > DEEPEST:
            raise self._error(line, f"more than {DEEPEST} levels", "a flat list of ops")

    def _scalar(self, event: Any, line: int) -> None:
        if self._open and isinstance(self._open[-1].value, dict) and self._keys[-1] is None:
            if event.value in self._open[-1].value:
                raise self._error(line, f"the field {shown(event.value)} twice", "each once")
            self._keys[-1] = (event.value, line)
            return
        plain = event.style is None or event.style == ""
        self._add(self._plain(event.value, line) if plain else event.value, line)

    def _add(self, value: Any, line: int) -> Entry:
        self._count += 1
        if self._count > MOST_ENTRIES:
            raise self._error(line, f"more than {MOST_ENTRIES} entries", "fewer")
        if not self._open:
            self.root = Entry(value, line)
            return self.root
        owner, key = self._open[-1].value, self._keys[-1]
        if isinstance(owner, list):
            owner.append(Entry(value, line))
            return owner[-1]  # type: ignore[no-any-return]
        if key is None:
            raise self._error(line, "a list or a mapping as the name of a field", "a name")
        self._keys[-1] = None
        owner[key[0]] = Entry(value, key[1])
        return owner[key[0]]  # type: ignore[no-any-return]

    def _plain(self, text: str, line: int) -> object:
        """The value of an unquoted scalar."""
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if _INTEGER.fullmatch(text):
            if len(text.lstrip("+-0")) > MOST_DIGITS:
                raise self._error(line, f"a number of {len(text)} digits", f"at most {MOST_DIGITS}")
            return int(text)
        if (infinite := _INFINITE.fullmatch(text)) is not None:
            return float(f"{infinite['sign']}{infinite['word']}")
        return float(text) if _FLOAT.fullmatch(text) else text

    def _error(self, line: int, found: str, expected: str) -> UsageError:
        return UsageError(f"{self._name}:{line}: found {found}, expected {expected}", subject=self._name)
