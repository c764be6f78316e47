"""The user's Python code, by its file or by its module's name. Importing it runs it."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from graphbench.errors import CaptureError, UsageError, first_line


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let the file import its neighbours, as it could if Python ran it."""
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


def load_file(file: Path, what: str = "model") -> ModuleType:
    """Import a Python file; `what` it defines is for messages.

    Raises:
        UsageError: no such file, or no Python.
        CaptureError: importing it raised.
    """
    if not file.is_file():
        raise _no_file(file, what)
    name = f"_graphbench_model_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{what} file {file}: found suffix {file.suffix!r}, expected .py", subject=str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and Dynamo look a class's module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise CaptureError(
            f"{what} file {file}: importing it raised {type(error).__name__}: {first_line(error)}",
            hint="--debug shows the traceback",
            subject=str(file),
        ) from error
    return module


def _no_file(file: Path, what: str) -> UsageError:
    """The error for a path that is no file; its hint names files like it, or what is there instead."""
    near = difflib.get_close_matches(file.name, [path.name for path in file.parent.glob("*.py")], n=3)
    hint = f"pass the Python file that defines the {what}, from here or with its whole path"
    if near:
        hint = f"did you mean {' or '.join(str(file.parent / name) for name in near)}?"
    elif not file.parent.is_dir():
        hint = f"there is no folder {file.parent} either"
    found = "found a folder, expected a Python file" if file.is_dir() else "no such file"
    return UsageError(f"{what} file {file}: {found}", hint=hint, subject=str(file))


def load_module(name: str, hint: str) -> ModuleType:
    """Import a module by its dotted name.

    Raises:
        UsageError: there is none of that name; `hint` says what to do.
        CaptureError: importing it raised.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _raised(name, error) from error  # one that it imports itself
        raise UsageError(f"{name}: no such module", hint=hint, subject=name) from error
    except Exception as error:
        raise _raised(name, error) from error


def _raised(name: str, error: Exception) -> CaptureError:
    return CaptureError(
        f"{name}: importing it raised {type(error).__name__}: {first_line(error)}",
        hint="--debug shows the traceback",
        subject=name,
    )
