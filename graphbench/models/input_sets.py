"""Sets of inputs: everything that a model is called with at once, and what tells several sets apart. No torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphbench.errors import UsageError
from graphbench.models.inputs import InputSpec, parse_input_set
from graphbench.models.saved_inputs import SUFFIXES

_UNSAFE = re.compile(r"[^\w.=,+-]+", re.ASCII)
_LONGEST_LABEL = 80  # characters: a file system takes 255 bytes, and reports stand below


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSet:
    """All inputs of one call: `specs`, a `file` of saved tensors, or inferred ones of a `batch_size`.

    `flag` is the one that gave them, for messages.
    """

    specs: tuple[InputSpec, ...] = ()
    file: Path | None = None
    batch_size: int | None = None
    flag: str = "--input"

    def __str__(self) -> str:
        if self.batch_size is not None:
            return f"batch={self.batch_size}"
        return str(self.file) if self.file is not None else " ".join(map(str, self.specs))


def parse_set(text: str) -> InputSet:
    """A whole set: the path of a file of saved tensors, or the specs of all inputs, separated by spaces.

    Raises:
        UsageError: a text with a `[` that is neither a file's path nor follows the syntax of specs.

    Example:
        >>> str(parse_set("x=f32[8,16] scale=f32[]"))
        'x=f32[8,16] scale=f32[]'
    """
    looks_like_specs = "[" in text or "{" in text or "(" in text
    if looks_like_specs and not text.endswith(SUFFIXES):
        return InputSet(specs=parse_input_set(text), flag="--example-inputs")
    return InputSet(file=Path(text), flag="--example-inputs")


def labels(sets: Sequence[InputSet]) -> tuple[str, ...]:
    """A short name of each set, from what differs between them, such as `input_ids=1x128`; all are safe file names.

    Raises:
        UsageError: two sets are equal.
    """
    for index, entry in enumerate(sets):
        if entry in sets[:index]:
            raise UsageError(
                f"the inputs {entry} are given twice",
                hint="every set is measured once: leave one out",
                subject=str(entry),
            )
    return _distinct(_safe(text) for text in _texts(sets))


def _texts(sets: Sequence[InputSet]) -> list[str]:
    if any(not entry.specs for entry in sets):
        return [entry.file.stem if entry.file is not None else str(entry) for entry in sets]
    if len({len(entry.specs) for entry in sets}) > 1:
        return [str(entry) for entry in sets]
    # As many inputs as it takes, in order: most often all change with one size.
    parts: list[list[str]] = [[] for _ in sets]
    for position, specs in enumerate(zip(*(entry.specs for entry in sets), strict=True)):
        if len(set(specs)) > 1:
            for part, text in zip(parts, _differing(position, specs), strict=True):
                part.append(text)
        if len({tuple(part) for part in parts}) == len(parts):
            break
    return [",".join(part) for part in parts]


def _differing(position: int, specs: Sequence[InputSpec]) -> list[str]:
    """What differs of one input: its dtype, its sizes, its range, or several of these."""
    facts = [(spec.dtype, "x".join(map(str, spec.shape)) or "scalar", f"{spec.least}to{spec.bound}") for spec in specs]
    kept = [column for column, values in enumerate(zip(*facts, strict=True)) if len(set(values)) > 1]
    names = [spec.name or str(position) for spec in specs]
    return [
        "=".join([name, *(["_".join(fact[i] for i in kept)] if kept else [])])
        for name, fact in zip(names, facts, strict=True)
    ]


def _safe(text: str) -> str:
    cleaned = _UNSAFE.sub("_", text)[:_LONGEST_LABEL]
    return f"_{cleaned}" if not cleaned or cleaned[0] in ".-" else cleaned


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The same names, with a number behind those that were there before, whatever their case."""
    found: list[str] = []
    for name in names:
        taken, number, given = {entry.casefold() for entry in found}, 1, name
        while name.casefold() in taken:
            number += 1
            name = f"{given}-{number}"
        found.append(name)
    return tuple(found)
