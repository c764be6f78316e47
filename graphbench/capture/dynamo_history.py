"""What Dynamo remembers of its work, read piece by piece: why graphs ended, how each frame went, what it counted.

Dynamo keeps all of it also for what happened before a session began: torch imports a backend only for the first graph.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar

import torch

from graphbench.probes.features import why_not

UNSUPPORTED = "unimplemented"  # Dynamo's counter of what it met and cannot trace, breaks apart
SOFT = ("Unsupported", "UserError")
"""Failures after which Dynamo runs the frame eagerly; others reach the user, unless he has errors suppressed."""

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class News:
    """What came since the last reading, oldest first.

    `ended`: one `GraphCompileReason` per graph that a break ended, empty graphs too. `frames`: one `CompilationMetrics`
    per frame that Dynamo compiled or gave up. `messages`: what it counted as unsupported, once per time.
    """

    ended: tuple[Any, ...]
    frames: tuple[Any, ...]
    messages: tuple[str, ...]


class DynamoHistory:
    """A place in Dynamo's memory, from which on there are news.

    Metrics are kept for 64 frames only: a session reads at every graph. Of frames pushed out between two readings the
    messages are still there.

    Source: `torch._dynamo.utils.graph_break_reasons`, `counters` and `get_compilation_metrics`, torch 2.11 to 2.14.
    """

    def __init__(self) -> None:
        self._generators: list[CodeType] = []
        self._ended: Any = None
        self._frame: Any = None
        self._messages: Counter[str] = Counter()
        self._given_up = 0

    def read(self) -> News:
        """Everything since the last reading; nothing with a torch that does not keep it as expected."""
        if why_not("breaks"):
            return News((), (), ())
        ended = list(torch._dynamo.utils.graph_break_reasons)
        frames = torch._dynamo.utils.get_compilation_metrics()
        messages = _counts(UNSUPPORTED)
        news = News(
            ended=_after(ended, self._ended),
            frames=tuple(frame for frame in _after(frames, self._frame) if _is_of_a_frame(frame)),
            messages=tuple(_more(messages, self._messages).elements()),
        )
        self._ended = ended[-1] if ended else None
        self._frame = frames[-1] if frames else None
        self._messages = messages
        return news

    def given_up(self) -> int | None:
        """How many frames ended in an exception since this was last asked, `None` when Dynamo's count was set back.

        Only to be asked while Dynamo compiles nothing. Frames compiled with `fullgraph` are not among the counted.
        """
        counted = _counts("frames")
        before, self._given_up = self._given_up, counted["total"] - counted["ok"]
        return self._given_up - before if self._given_up >= before else None

    def generators(self) -> list[CodeType]:
        """Generators that Dynamo saw since this was last asked, and cannot compile; it keeps no metrics of them.

        Source: `torch._dynamo.convert_frame.input_codes`, torch 2.11 to 2.14.
        """
        codes = [] if why_not("breaks") else [seen() for seen in torch._dynamo.convert_frame.input_codes.seen]
        known = {id(code) for code in self._generators}
        fresh = [code for code in codes if code is not None and isgenerator(code) and id(code) not in known]
        self._generators.extend(fresh)
        return fresh


def isgenerator(code: CodeType) -> bool:
    """Whether calling this code makes a generator."""
    return bool(code.co_flags & inspect.CO_GENERATOR)


def runs_eagerly(failures: Sequence[Any], given_up: int | None) -> list[Any]:
    """Of frames with a failure, those that Dynamo gave up and runs eagerly instead.

    A failure under `fullgraph` has metrics too but is not counted as `given_up`; it was raised, and the user knows.
    Where both kinds are among the failures, the latest are taken for frames that run.
    """
    if given_up is not None and given_up < len(failures):
        failures = failures[len(failures) - given_up :]
    return [frame for frame in failures if frame.fail_type in SOFT or frame.config_suppress_errors]


def _counts(kind: str) -> Counter[str]:
    """Dynamo's counters of one kind, without making them where there are none."""
    if why_not("breaks"):
        return Counter()
    counts: Mapping[str, Mapping[str, int]] = torch._dynamo.utils.counters
    return Counter({str(text): int(count) for text, count in counts.get(kind, {}).items()})


def _is_of_a_frame(metrics: Any) -> bool:
    """Not of a backward graph, nor of something done while a compiled graph ran."""
    return metrics.is_forward is not False and not metrics.is_runtime


def _after(entries: Sequence[Entry], last: Entry | None) -> tuple[Entry, ...]:
    """The entries behind the last one read; all when that is gone, as after `torch._dynamo.reset`."""
    for index in range(len(entries) - 1, -1, -1):
        if entries[index] is last:
            return tuple(entries[index + 1 :])
    return tuple(entries)


def _more(counts: Counter[str], before: Counter[str]) -> Counter[str]:
    """What was counted since; a count that fell was set back, and counts from nothing."""
    return Counter({text: count - before[text] if count >= before[text] else count for text, count in counts.items()})
