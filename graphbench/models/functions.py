"""A function from what the command line says about it: `package.module:function`, or `file.py:function`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphbench.errors import UsageError
from graphbench.models.python_files import importable, load_file, load_module

SUFFIX = ".py"
_MODULE_HINT = "name a module that can be imported from here, or a file as kernels.py:fast_gelu"


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """Where a function is: `place` a dotted module name or a Python file, `name` the function, dotted for a method."""

    place: str
    name: str

    @classmethod
    def parse(cls, flag: str, text: str, *, words: str = "", example: str = "kernels.py:fast_gelu") -> FunctionSource:
        """Read `package.module:function`.

        Args:
            flag: whose argument the text is, for messages.
            text: what was given.
            words: what else the flag takes, followed by `or`, for messages.
            example: a function in a file, for messages.

        Raises:
            UsageError: it is something else.
        """
        place, colon, name = text.rpartition(":")
        if not colon or not place or not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(
                f"{flag} {text!r}: expected {words}MODULE:FUNCTION",
                hint=f"for instance {example}, or my_package.{example.replace(SUFFIX, '')}",
                subject=flag,
            )
        return cls(place, name)

    @property
    def file(self) -> Path | None:
        """The file that it is in, where that is how it was named."""
        return Path(self.place) if self.place.endswith(SUFFIX) else None

    def load(self, what: str = "candidate") -> Callable[..., Any]:
        """Import it; modules are also looked for in the current folder. `what` it is, for messages.

        Raises:
            UsageError: no such file, module or function, or it cannot be called.
            CaptureError: importing it raised.
        """
        with importable(self.file.resolve().parent if self.file is not None else Path.cwd()):
            module: Any = load_module(self.place, _MODULE_HINT) if self.file is None else load_file(self.file, what)
        found: Any = module
        for part in self.name.split("."):
            found = getattr(found, part, None)
        if not callable(found):
            problem = "no such function" if found is None else f"found {type(found).__name__}, expected a function"
            raise UsageError(f"{self.place}: {self.name}: {problem}", hint=_defined(module), subject=self.name)
        function: Callable[..., Any] = found
        return function


def _defined(module: Any) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    return f"functions defined there: {', '.join(names) or 'none'}"
