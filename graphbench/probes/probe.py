"""One thing of torch's that graphbench relies on, and how the installed torch differs from what is expected of it."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from graphbench.errors import first_line


@dataclass(frozen=True, slots=True)
class Probe:
    """One symbol of torch's, and what must hold of it beside that it exists.

    Args:
        symbol: its dotted name, from `torch` on.
        given: how it is called: so many arguments by position, then those of these names.
        parameters: the names of all its parameters, in order: graphbench stands in for it, or is called in its place.
        has: attributes of it, or of the objects of a class: declared, or named in the code of the class.
        writes: texts that its code, or that of the methods of a class, puts together, or names of functions inside: the
            shape of what it makes.
        value: what it is equal to.
        cuda: only a torch that is built for CUDA has it; another one is not looked at.
    """

    symbol: str
    given: tuple[int, tuple[str, ...]] | None = None
    parameters: tuple[str, ...] | None = None
    has: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    value: Any = None
    cuda: bool = False

    @property
    def applies(self) -> bool:
        """Whether the installed torch is one that has it."""
        import torch

        return not self.cuda or torch.version.cuda is not None

    def fault(self) -> str:
        """How the installed torch differs, with what was found and what was expected; "" when it does not."""
        if self.cuda and not self.applies:
            return ""
        try:
            found = pkgutil.resolve_name(self.symbol)
        except (ImportError, AttributeError) as error:
            return f"{self.symbol} is not there ({first_line(error)})"
        except Exception as error:  # noqa: BLE001 - importing a module may raise anything, and is what is asked about
            return f"{self.symbol} cannot be looked at ({type(error).__name__}: {first_line(error)})"
        return next(self._differences(found), "")

    def _differences(self, found: Any) -> Iterator[str]:
        if self.parameters is not None and _parameters(found) != self.parameters:
            yield f"{self.symbol} takes {_list(_parameters(found) or ())}, expected {_list(self.parameters)}"
        if self.given is not None and not _takes(found, *self.given):
            number, names = self.given
            wanted = [f"{number} by position"] if number else []
            yield f"{self.symbol} takes {_list(_parameters(found) or ())}, expected {_list((*wanted, *names))}"
        missing = sorted(set(self.has) - _attributes(found)) if self.has else []
        if missing:
            yield f"{self.symbol} has no {', '.join(missing)}"
        texts = list(_texts(found)) if self.writes else []
        unwritten = [wanted for wanted in self.writes if not any(wanted in text for text in texts)]
        if unwritten:
            yield f"{self.symbol} does not write {', '.join(map(repr, unwritten))}"
        if self.value is not None and found != self.value:
            yield f"{self.symbol} is {found!r}, expected {self.value!r}"


def _list(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})"


def _signature(found: Any) -> inspect.Signature | None:
    """`None` for what is built in and does not tell."""
    try:
        return inspect.signature(found)
    except (TypeError, ValueError):
        return None


def _parameters(found: Any) -> tuple[str, ...] | None:
    signature = _signature(found)
    return None if signature is None else tuple(signature.parameters)


def _takes(found: Any, number: int, names: tuple[str, ...]) -> bool:
    """Whether a call with so many arguments by position and these by name can be made."""
    signature = _signature(found)
    if signature is None:
        return callable(found)
    try:
        signature.bind(*[None] * number, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def _attributes(found: Any) -> set[str]:
    """What it has; of a class also what its objects have: fields that it declares, and what its code sets or reads."""
    names = set(dir(found))
    for base in inspect.getmro(found) if inspect.isclass(found) else ():
        names.update(vars(base).get("__annotations__", ()))
        for code in _codes(base):
            names.update(code.co_names)
    return names


def _texts(found: Any) -> Iterator[str]:
    for code in _codes(found):
        yield code.co_name
        yield from (constant for constant in code.co_consts if isinstance(constant, str))


def _codes(found: Any) -> Iterator[CodeType]:
    """The code of a function or of a class's own methods, and of the functions inside."""
    members = vars(found).values() if inspect.isclass(found) else (found,)
    for member in members:
        function = inspect.unwrap(member.__func__ if isinstance(member, (classmethod, staticmethod)) else member)
        code = getattr(function, "__code__", None)
        pending = [code] if isinstance(code, CodeType) else []
        while pending:
            yield (current := pending.pop())
            pending += [constant for constant in current.co_consts if isinstance(constant, CodeType)]
