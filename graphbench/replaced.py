"""Standing in for somebody else's attribute for a while: the one way in which graphbench patches. No torch import."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """While inside, `owner.name` is `value`; then what it was before, by a single call that nothing can cut in two.

    Several are entered one by one, on a stack: an interrupt that reaches the stack while it unwinds leaves it at once,
    and what is still on it is put back when Python lets go of it.

    Args:
        owner: a module, class, function or other object.
        name: an attribute that it has. One that a class inherits is its own meanwhile.
        value: what stands in.
    """
    inherited = isinstance(owner, type) and name not in vars(owner)
    before = getattr(owner, name)
    try:
        setattr(owner, name, value)
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
