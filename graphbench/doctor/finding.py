"""What a probe finds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "problem", "warning", "not applicable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    `problem`: graphbench cannot measure here, or not on the device that it would choose; `warning`: it can, with
    something missing or less sure; `not applicable`: `found` says why. `fix` says what to do, "" where nothing is.
    """

    check: str
    state: State
    found: str
    fix: str = ""
