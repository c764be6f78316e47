"""What is compared: a name and a call, with inputs of its own where it writes to them. No torch import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to do the work that is compared: `call(*inputs)`.

    All that the call does is timed. Where it converts its inputs first (a cast, another layout, a transposed weight),
    do that inside the call: users of the implementation pay for it too. What it keeps from call to call, and holds
    ready before the first one, is its own affair.

    Args:
        name: the row's name.
        call: what is timed.
        inputs: arguments of its own, for a call that writes to them; `None` takes the shared ones.
        reset: puts its own inputs back to where every call starts. Called before each one, untimed, before the cache
            is cleared, so that what it writes is not left in the cache.

    Raises:
        UsageError: a field of another type.
    """

    name: str
    call: Callable[..., Any]
    inputs: Sequence[Any] | None = None
    reset: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        name: object = self.name
        if not isinstance(name, str) or not name:
            raise UsageError(f"an implementation's name is {name!r}, expected a text", subject="name")
        calls: dict[str, object] = (
            {"call": self.call} if self.reset is None else {"call": self.call, "reset": self.reset}
        )
        for field, value in calls.items():
            if not callable(value):
                raise UsageError(f"{name}: {field} is a {type(value).__name__}, expected a callable", subject=name)
        if self.inputs is not None:
            check_inputs(self.inputs, self.name)


def check_inputs(inputs: object, subject: str) -> None:
    """Refuse inputs that are no tuple or list: a bare tensor would be taken apart into its rows.

    Raises:
        UsageError: naming the subject and what was found.
    """
    if not isinstance(inputs, (tuple, list)):
        raise UsageError(
            f"{subject}: inputs is a {type(inputs).__name__}, expected a tuple or list of arguments",
            hint="write inputs=(x,) for a single argument",
            subject=subject,
        )


def as_implementations(
    given: Mapping[str, Callable[..., Any]] | Sequence[Implementation],
) -> tuple[Implementation, ...]:
    """The implementations in the order given; the first is the baseline.

    Raises:
        UsageError: there is none, two have one name, or an entry is something else.
    """
    if isinstance(given, Mapping):
        found = tuple(Implementation(name, call) for name, call in given.items())
    else:
        entries: list[Any] = list(given)
        strange = [type(entry).__name__ for entry in entries if not isinstance(entry, Implementation)]
        if strange:
            raise UsageError(
                f"implementations: found {', '.join(strange)}, expected graphbench.Implementation",
                hint="give a mapping of names to callables, or a list of graphbench.Implementation(name, call)",
                subject="implementations",
            )
        found = tuple(entries)
    if not found:
        raise UsageError("no implementations to compare, expected at least one", subject="implementations")
    twice = [name for name, count in Counter(entry.name for entry in found).items() if count > 1]
    if twice:
        raise UsageError(
            f"several implementations are called {', '.join(twice)}",
            hint="rows are told apart by name: give each its own",
            subject="implementations",
        )
    return found
