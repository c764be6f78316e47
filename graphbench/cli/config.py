"""Defaults from `[tool.graphbench]` in pyproject.toml, as words in front of the user's own.

So types, choices and errors are those of the command line, and a flag that is given wins. No torch import.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from graphbench.cli.common import PATH_READERS
from graphbench.errors import UsageError

NAME: Final = "pyproject.toml"
TABLE: Final = "tool.graphbench"
IGNORE_FLAG: Final = "--no-config"
# Beside these nothing is read: a run that goes on has its options, and so has the worker of one.
_INSTEAD: Final = (IGNORE_FLAG, "--resume", "--worker")
_RUNS_CODE: Final = "it decides which code runs"
_WHERE: Final = "it says where files go"
REFUSED: Final[Mapping[str, str]] = {
    "model": _RUNS_CODE,
    "custom-model-file": _RUNS_CODE,
    "model-class": _RUNS_CODE,
    "checkpoint": _RUNS_CODE,
    "unsafe-load": _RUNS_CODE,
    "replace": _RUNS_CODE,
    "import": _RUNS_CODE,
    "loss": _RUNS_CODE,
    "op-list": _RUNS_CODE,
    "inductor": "its options name compilers, which are programs that run",
    "example-inputs": "it names a file",
    "resume": _WHERE,
    "worker": _WHERE,
    "output-dir": _WHERE,
    "output": _WHERE,
    "force": "it overwrites files",
}
"""Flags that no file may set, by name: a folder that somebody else made must not decide these."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of the file; `key` is its dotted name, `flag` the part that is a flag's name."""

    key: str
    flag: str
    value: Any


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a file adds to a command line: `words`, by flag."""

    file: Path
    words: Mapping[str, tuple[str, ...]]

    def behind(self, text: str) -> str | None:
        """What to say of an error's text that names one of these flags."""
        for flag, words in self.words.items():
            if re.search(rf"\b{flag.replace('-', '[-_]')}\b", text):
                return f"{self.file} sets {' '.join(words)}, which {IGNORE_FLAG} leaves out"
        return None

    def flat(self) -> tuple[str, ...]:
        """All words in order."""
        return tuple(word for words in self.words.values() for word in words)


def defaults_for(
    command: str, parsers: Mapping[str, argparse.ArgumentParser], words: Sequence[str], folder: Path
) -> Defaults | None:
    """What the nearest pyproject.toml adds to a command line.

    Args:
        command: its name.
        parsers: of every command, by name: a key must be a flag of one of them.
        words: what the user gave. A flag among them is left out.
        folder: where to begin looking, upward.

    Returns:
        `None` where there is no such file or no such table in it, or the words forbid or make it pointless.

    Raises:
        UsageError: the file cannot be read, a key is unknown or refused, or a value does not fit. It names both.
    """
    if not flags_of(parsers[command]) or any(_may_mean(word, flag) for word in words for flag in _INSTEAD):
        return None
    file = next((path for at in (folder, *folder.parents) if (path := at / NAME).is_file()), None)
    table = None if file is None else _read(file)
    if file is None or table is None:
        return None
    flags = {name: flags_of(parser) for name, parser in parsers.items()}
    found: dict[str, tuple[str, ...]] = {}
    for entry in _entries(table, command, flags, file):
        action = flags[command].get(entry.flag)
        if action is None:  # of another command
            continue
        if not any(_may_mean(word, option) for word in words for option in action.option_strings):
            found[entry.flag] = tuple(_words(entry, action, file))
    return Defaults(file, found) if found else None


def current_folder() -> Path | None:
    """Where the command line was given; `None` where that folder was removed meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def blamed(defaults: Defaults | None) -> Iterator[None]:
    """Let an error that is about a flag which a file set say so: nobody looks for it there.

    Raises:
        UsageError: the one that was raised inside.
    """
    try:
        yield
    except UsageError as error:
        told = None if defaults is None else defaults.behind(f"{error.message} {error.subject}")
        error.hint = "; ".join(filter(None, (error.hint, told))) or None
        raise


def flags_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The flags that a user sees, by long name without dashes; of `--x` and `--no-x` the first.

    Source: `argparse.ArgumentParser._actions` (Python 3.10 to 3.13).
    """
    found = {}
    for action in parser._actions:
        name = next((option for option in action.option_strings if option.startswith("--")), None)
        if name is not None and action.help is not argparse.SUPPRESS and name not in ("--help", IGNORE_FLAG):
            found[name.removeprefix("--")] = action
    return found


def refusal(name: str, action: argparse.Action | None) -> str | None:
    """Why no file may set a flag, or `None` where it may. Whatever names a file is refused, known or not."""
    if name in REFUSED:
        return REFUSED[name]
    return "it names a file" if action is not None and action.type in PATH_READERS else None


def _may_mean(word: str, option: str) -> bool:
    """Whether argparse may take a word for a flag, which it also does when it is cut short: `--measure=5`."""
    name = word.partition("=")[0]
    return name == option or (len(name) > 2 and name.startswith("--") and option.startswith(name))


def _read(file: Path) -> dict[str, Any] | None:
    """The table of a file, or `None` where it has none."""
    hint = f"mend the file, or pass {IGNORE_FLAG}"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}", hint=hint, subject=str(file)) from error
    if "graphbench" not in text:
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: no valid TOML: {error}", hint=hint, subject=str(file)) from error
    tool = whole.get("tool")
    table = tool.get("graphbench") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise _wrong(file, TABLE, f"found {table!r}, expected a table")
    return table


def _entries(
    table: Mapping[str, Any], command: str, flags: Mapping[str, Mapping[str, argparse.Action]], file: Path
) -> Iterator[Entry]:
    """The values that are for all commands, then those for this one; the names of all tables are checked."""
    own: dict[str, Entry] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            if key not in flags:
                raise _wrong(file, f"{TABLE}.{key}", f"no such command; tables are {', '.join(flags)}")
            for flag, inner in value.items():
                _check_name(file, f"{TABLE}.{key}.{flag}", flag, (flags[key],))
                if key == command:
                    own[flag] = Entry(f"{TABLE}.{key}.{flag}", flag, inner)
        else:
            _check_name(file, f"{TABLE}.{key}", key, flags.values())
    general = {key: Entry(f"{TABLE}.{key}", key, value) for key, value in table.items() if not isinstance(value, dict)}
    yield from {**general, **own}.values()


def _check_name(file: Path, key: str, flag: str, flags: Iterable[Mapping[str, argparse.Action]]) -> None:
    """Refuse a key that is no flag, or that is none of a file's business."""
    known = {name: action for of_command in flags for name, action in of_command.items()}
    reason = refusal(flag, known.get(flag))
    if reason is not None:
        raise _wrong(file, key, f"a file may not set it: {reason}", hint=f"give --{flag} on the command line")
    if flag not in known:
        near = difflib.get_close_matches(flag.replace("_", "-"), known, n=1)
        hint = f"did you mean {near[0]}?" if near else "keys are flags without dashes in front, as measure-ms"
        raise _wrong(file, key, "no such flag", hint=hint)


def _words(entry: Entry, action: argparse.Action, file: Path) -> Iterator[str]:
    """The words that give a flag its value."""
    if action.nargs == 0:
        if not isinstance(entry.value, bool):
            raise _wrong(file, entry.key, f"found {entry.value!r}, expected true or false")
        if entry.value:
            yield f"--{entry.flag}"
        elif isinstance(action, argparse.BooleanOptionalAction):
            yield f"--no-{entry.flag}"
        return
    repeatable = isinstance(action, argparse._AppendAction)
    if isinstance(entry.value, list) and not repeatable:
        raise _wrong(file, entry.key, "found a list, expected one value")
    for value in entry.value if isinstance(entry.value, list) else [entry.value]:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise _wrong(file, entry.key, f"found {value!r}, expected a text or a number")
        _check_value(entry, action, str(value), file)
        yield f"--{entry.flag}={value}"


def _check_value(entry: Entry, action: argparse.Action, text: str, file: Path) -> None:
    """Refuse, in argparse's words, what argparse would refuse without naming the file."""
    try:
        value = action.type(text) if callable(action.type) else text
    except UsageError as error:
        raise _wrong(file, entry.key, error.message, hint=error.hint) from error
    except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
        raise _wrong(file, entry.key, str(error)) from error
    if action.choices is not None and value not in action.choices:
        choices = ", ".join(map(str, action.choices))
        raise _wrong(file, entry.key, f"found {text!r}, expected one of {choices}")


def _wrong(file: Path, key: str, what: str, *, hint: str | None = None) -> UsageError:
    return UsageError(f"{file}: {key}: {what}", hint=hint or f"mend the file, or pass {IGNORE_FLAG}", subject=str(file))
