"""Leaving the process as it was: what is changed for a while is put back, also when Ctrl-C comes in between. No torch.

Python may raise `KeyboardInterrupt` at the start of any function, also of a context manager's exit, which then never
runs. So every change is noted down first, and `all_put_back`, entered around everything, puts back what was missed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


class _Notes(threading.local):
    """The changes that the calling thread has yet to put back, the latest last."""

    def __init__(self) -> None:
        self.undos: list[Callable[[], object]] = []


_NOTES = _Notes()


@contextmanager
def put_back(undo: Callable[[], object]) -> Iterator[None]:
    """`undo` is called when the block ends, or else by the `all_put_back` around it; never later.

    Args:
        undo: puts back what is changed inside the block. It may be called though nothing has been changed yet, and
            twice in a row.
    """
    undos = _NOTES.undos
    once = partial(undo)  # an object of its own: equal undos are told apart
    try:
        undos.append(once)
        yield
    finally:
        _down_to(undos, next((i for i, noted in enumerate(undos) if noted is once), len(undos)))


@contextmanager
def all_put_back() -> Iterator[None]:
    """When the block ends, everything that this thread changed inside is put back, the latest first."""
    undos = _NOTES.undos
    before = len(undos)
    try:
        yield
    finally:
        _down_to(undos, before)


def _down_to(undos: list[Callable[[], object]], number: int) -> None:
    """Put back until so many notes are left, the latest first: those of inner blocks that were missed come before.

    One that cannot be put back, as on a device that is lost, does not keep the others. Its error is raised at the end.
    """
    failed: list[Exception] = []
    while len(undos) > number:
        try:
            undos[-1]()
        except Exception as error:  # noqa: BLE001 - raised below, once the others are put back
            failed.append(error)
        undos.pop()
    if failed:
        raise failed[0]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """While inside, `owner.name` is `value`; then what it was before.

    Args:
        owner: a module, class, function or other object.
        name: an attribute that it has. One that a class inherits is its own meanwhile.
        value: what stands in.
    """
    before = getattr(owner, name)
    inherited = isinstance(owner, type) and name not in vars(owner)
    with put_back(partial(_forget, owner, name) if inherited else partial(setattr, owner, name, before)):
        setattr(owner, name, value)
        yield


def _forget(owner: type, name: str) -> None:
    if name in vars(owner):
        delattr(owner, name)
