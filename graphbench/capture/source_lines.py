"""Finds the user's line in stack traces: the innermost frame that is not torch's or graphbench's own."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

import torch

from graphbench.measurements import SourceLine

FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>[^\n]+)(?:\n\s+(?P<code>[^\n]+))?')
LIBRARY = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent))
OPTIMIZERS = f"{os.sep}torch{os.sep}optim{os.sep}"


def from_text(stack_trace: str | None) -> SourceLine | None:
    """The user's line of a node's `meta["stack_trace"]`, or the innermost line when all are torch's."""
    frames = [
        SourceLine(
            file=match["file"], line=int(match["line"]), function=match["function"], code=(match["code"] or "").strip()
        )
        for match in FRAME.finditer(stack_trace or "")
    ]
    return _innermost_user(frames)


def from_summary(frames: Iterable[traceback.FrameSummary]) -> SourceLine | None:
    """The user's line of a Dynamo `user_stack`."""
    found = [
        SourceLine(file=frame.filename, line=frame.lineno or 0, function=frame.name, code=(frame.line or "").strip())
        for frame in frames
    ]
    return _innermost_user(found)


def _innermost_user(frames: list[SourceLine]) -> SourceLine | None:
    users = [frame for frame in frames if not frame.file.startswith(LIBRARY)]
    found = users or frames
    return found[-1] if found else None


def of_caller() -> tuple[SourceLine | None, bool]:
    """The user's line that the calling thread is at, and whether an optimizer is at work below it.

    Frames are walked from the inside out, without building a traceback.
    """
    frame = sys._getframe(1)
    optimizer = False
    while frame is not None:
        file = frame.f_code.co_filename
        optimizer = optimizer or OPTIMIZERS in file
        if not file.startswith(LIBRARY) and not file.startswith("<"):
            return SourceLine(file=file, line=frame.f_lineno, function=frame.f_code.co_name), optimizer
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None, optimizer
