"""A function from what the command line says about it: `package.module:function`, or `file.py:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphbench.errors import CaptureError, UsageError, first_line
from graphbench.models.sources import importable, load_file

SUFFIX = ".py"


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """Where a function is: `place` a dotted module name or a Python file, `name` the function, dotted for a method."""

    place: str
    name: str

    @classmethod
    def parse(cls, flag: str, text: str) -> FunctionSource:
        """Read `package.module:function`.

        Args:
            flag: whose argument the text is, for messages.
            text: what was given.

        Raises:
            UsageError: it is something else.
        """
        place, colon, name = text.rpartition(":")
        if not colon or not place or not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(
                f"{flag} {text!r}: expected MODULE:FUNCTION",
                hint="for instance my_package.kernels:fast_gelu, or kernels.py:fast_gelu",
                subject=flag,
            )
        return cls(place, name)

    @property
    def file(self) -> Path | None:
        """The file that it is in, where that is how it was named."""
        return Path(self.place) if self.place.endswith(SUFFIX) else None

    def load(self) -> Callable[..., Any]:
        """Import it; modules are also looked for in the current folder.

        Raises:
            UsageError: no such file, module or function, or it cannot be called.
            CaptureError: importing it raised.
        """
        with importable(self.file.resolve().parent if self.file is not None else Path.cwd()):
            found: Any = self._module() if self.file is None else load_file(self.file, "candidate")
        for part in self.name.split("."):
            found = getattr(found, part, None)
        if not callable(found):
            problem = "no such function" if found is None else f"found {type(found).__name__}, expected a function"
            raise UsageError(f"{self.place}: {self.name}: {problem}", subject=self.name)
        function: Callable[..., Any] = found
        return function

    def _module(self) -> Any:
        try:
            return importlib.import_module(self.place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{self.place}.".startswith(f"{error.name}."):
                raise self._raised(error) from error  # one that it imports itself
            raise UsageError(
                f"{self.place}: no such module",
                hint="name a module that can be imported from here, or a file as kernels.py:fast_gelu",
                subject=self.place,
            ) from error
        except Exception as error:
            raise self._raised(error) from error

    def _raised(self, error: Exception) -> CaptureError:
        return CaptureError(
            f"{self.place}: importing it raised {type(error).__name__}: {first_line(error)}",
            hint="--debug shows the traceback",
            subject=self.place,
        )
