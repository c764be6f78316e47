"""The ways to compile that are compared: eager, Inductor's modes, and every backend that Dynamo knows."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphbench.analysis.configurations import SideKind
from graphbench.errors import UsageError
from graphbench.inductor.compile import inductor_modes

EAGER = "eager"
OWN_BACKEND = "graphbench"


@dataclass(frozen=True, slots=True)
class Side:
    """One way to run a model: not compiled at all, by Inductor in a mode, or by another Dynamo backend."""

    name: str
    kind: SideKind

    def compiled(
        self, model: Callable[..., Any], dynamic: bool | None, *, fullgraph: bool = False
    ) -> Callable[..., Any]:
        """The model so compiled; nothing happens before its first call."""
        if self.kind == "eager":
            return model
        if self.kind == "inductor":
            found: Callable[..., Any] = torch.compile(model, mode=self.name, dynamic=dynamic, fullgraph=fullgraph)
        else:
            found = torch.compile(model, backend=self.name, dynamic=dynamic, fullgraph=fullgraph)
        return found


def sides_named(names: Sequence[str]) -> tuple[Side, ...]:
    """The sides of these names, in order.

    Raises:
        UsageError: fewer than two, one twice, or one that nothing goes by.
    """
    if isinstance(names, str) or len(names) < 2 or not all(names):
        found = names if isinstance(names, str) else ", ".join(map(repr, names))
        raise UsageError(
            f"configurations {found or 'none'}: expected two or more names",
            hint="for instance eager, default, max-autotune",
            subject="compare",
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(f"configuration {twice[0]!r} is named twice", subject=twice[0])
    return tuple(map(_side, names))


def _side(name: str) -> Side:
    """Source: `torch._dynamo.list_backends`, torch 2.11 to 2.14."""
    modes = inductor_modes()
    if name == EAGER:
        return Side(name, "eager")
    if name in modes:
        return Side(name, "inductor")
    if name == OWN_BACKEND:
        raise UsageError(
            f"configuration {name!r}: graphbench compiles as Inductor does",
            hint=f"name the mode: {', '.join(modes)}",
            subject=name,
        )
    backends = [str(backend) for backend in torch._dynamo.list_backends(exclude_tags=()) if backend != OWN_BACKEND]
    if name in backends:
        return Side(name, "backend")
    near = difflib.get_close_matches(name, [EAGER, *modes, *backends], n=3)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    usual = [backend for backend in map(str, torch._dynamo.list_backends()) if backend != OWN_BACKEND]
    raise UsageError(
        f"no configuration {name!r}",
        hint=f"{meant}{EAGER}; Inductor's modes: {', '.join(modes)}; backends: {', '.join(usual)}, and any other that "
        "torch._dynamo.list_backends(exclude_tags=()) lists",
        subject=name,
    )
