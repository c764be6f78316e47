"""Every graph break and recompile that Dynamo remembers, as records: why, where, and which region it ended or made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from graphbench.capture import causes, source_lines
from graphbench.capture.break_messages import Message, parse, steps
from graphbench.capture.dynamo_history import DynamoHistory, runs_eagerly
from graphbench.errors import first_line
from graphbench.measurements import SourceLine
from graphbench.step_records import GraphBreak, Recompile

JUMP = "generic_jump "
UNRESUMABLE = "step_unsupported"
LIMIT = "recompile limit exceeded"
GENERATOR = "Attempt to trace generator"
"""How Dynamo names a branch on a tensor's value, a break that it cannot go on behind, too many recompiles, and a frame
that it refuses before it begins to record."""


@dataclass(slots=True)
class _Event:
    """A break, and Dynamo's own object for it when a graph ended there; `region` when that graph was not empty."""

    found: GraphBreak
    reason: Any = None
    region: str | None = None
    abandoned: bool = False


@dataclass(slots=True)
class BreakLog:
    """Breaks and recompiles of one session, each read from Dynamo's memory once.

    `frame_ns` has by compile id the wall time that a frame took to compile: tracing, its graph, its forward.

    Source: `torch._dynamo.output_graph.GraphCompileReason` on `gm.compile_subgraph_reason`, which is the object that
    `torch._dynamo.utils.graph_break_reasons` holds, torch 2.11 to 2.14.
    """

    history: DynamoHistory = field(default_factory=DynamoHistory)
    frame_ns: dict[str, int] = field(default_factory=dict)
    _events: list[_Event] = field(default_factory=list)
    _recompiles: list[Recompile] = field(default_factory=list)
    _made: dict[str, tuple[str, SourceLine | None]] = field(default_factory=dict)
    _functions: dict[str, SourceLine] = field(default_factory=dict)
    _failures: list[tuple[Any, SourceLine | None]] = field(default_factory=list)
    _unplaced: list[str] = field(default_factory=list)

    @classmethod
    def from_now(cls) -> BreakLog:
        """A log without what Dynamo remembers already."""
        log = cls()
        log._forget_news()
        return log

    @contextlib.contextmanager
    def unheard(self) -> Iterator[None]:
        """What Dynamo does inside is not told. To be entered only while Dynamo compiles nothing."""
        self._settle()
        try:
            yield
        finally:
            self._forget_news()

    def _forget_news(self) -> None:
        self.history.read()
        self.history.given_up()
        self.history.generators()

    def graph_made(self, reason: Any, region: str, compile_id: str, location: SourceLine | None) -> None:
        """A graph with this `compile_subgraph_reason` was captured as `region`, which begins at `location`."""
        self.read()
        self._made[compile_id] = (region, location)
        for event in self._of(reason):
            event.region, event.abandoned = region, False

    def graph_abandoned(self, reason: Any, compile_id: str) -> None:
        """Dynamo thinks again about the graph just made."""
        self._made.pop(compile_id, None)
        for event in self._of(reason):
            event.region, event.abandoned = None, True

    def _of(self, reason: Any) -> list[_Event]:
        return [event for event in self._events if reason is not None and event.reason is reason]

    def read(self) -> None:
        """Take in what Dynamo did since the last reading, be it in the middle of compiling."""
        news = self.history.read()
        fresh = list(news.messages)
        for frame in news.frames:
            if frame.fail_type:  # what Dynamo counted on the way to this failure is no break of its own
                for text in steps(str(frame.fail_reason)):
                    _drop(text, fresh, self._unplaced)
            self._read_frame(frame)
        self._events.extend(_ended(news.ended, fresh))
        self._unplaced.extend(fresh)

    def _read_frame(self, frame: Any) -> None:
        function = _function_of(frame) or self._functions.get(_frame_id(frame))
        if function is not None:
            self._functions[_frame_id(frame)] = function
        if frame.entire_frame_compile_time_s is not None:
            self.frame_ns[str(frame.compile_id)] = round(frame.entire_frame_compile_time_s * 1e9)
        region, _ = self._made.pop(str(frame.compile_id), (None, None))
        if frame.recompile_reason:
            self._recompiles.append(
                Recompile(compile_id=str(frame.compile_id), guard=_guard(frame), source=function, region=region)
            )
        if frame.fail_type:
            self._failures.append((frame, function))

    def _settle(self) -> None:
        """Tell frames that run eagerly from those that raised, and what has no place from what Dynamo coped with.

        Frames beneath torch are left out: it runs many while it compiles a backward, and none of them has an op.
        """
        self.read()
        given_up = self.history.given_up()
        running = runs_eagerly([frame for frame, _ in self._failures], given_up)
        for frame, function in self._failures:
            beneath = function is not None and source_lines.is_beneath_torch(function.file)
            if not beneath and any(frame is other for other in running):
                self._events.append(_Event(_skipped(frame, function)))
        self._settle_unplaced((given_up or 0) - len(self._failures))
        self._failures.clear()
        self._unplaced.clear()

    def _settle_unplaced(self, frames: int) -> None:
        """So many frames were refused before Dynamo began to record them, or were pushed out of its memory."""
        generators = [text for text in self._unplaced if first_line(text) == GENERATOR]
        codes = self.history.generators()
        if generators:
            self._events.extend(_Event(found) for found in _of_generators(generators[0], codes))
        if frames > len(generators):
            rest = [text for text in self._unplaced if first_line(text) != GENERATOR]
            self._events.extend(_Event(_without_place(text)) for text in rest)

    def breaks(self) -> list[GraphBreak]:
        """Each break once: those of one line, reason and region are counted together.

        A break that ended no region of its own, as when the function with the break is called from several places, is
        counted with one that did.
        """
        self._settle()
        found: dict[GraphBreak, int] = {}
        for event in self._events:
            if not event.abandoned:
                placed = replace(event.found, region=event.region)
                found[placed] = found.get(placed, 0) + 1
        for placed in [entry for entry in found if entry.region is None]:
            same = next((other for other in found if other.region and replace(other, region=None) == placed), None)
            if same is not None:
                found[same] += found.pop(placed)
        return [replace(placed, count=count) for placed, count in found.items()]

    def recompiles(self) -> list[Recompile]:
        """One per recompilation that Dynamo logged, and those of regions whose metrics it no longer had."""
        self.read()
        unlogged = [
            Recompile(compile_id=compile_id, source=location, region=region)
            for compile_id, (region, location) in self._made.items()
            if compile_id.rpartition("/")[2] not in ("", "0")
        ]
        return [*self._recompiles, *unlogged]


def _drop(text: str, *lists: list[str]) -> None:
    """Remove it once, from the first list that has it."""
    for texts in lists:
        if text in texts:
            texts.remove(text)
            return


def _ended(reasons: Iterable[Any], unplaced: list[str]) -> list[_Event]:
    """Graphs that a break ended. What explains a branch or an unresumable break is taken from `unplaced`."""
    events = []
    for reason in reasons:
        text = str(reason.reason)
        if text.startswith(JUMP):
            events.append(_Event(_branch(reason, unplaced), reason))
        elif text == UNRESUMABLE:
            events.append(_Event(_unresumable(reason, unplaced), reason))
        else:
            events.append(_Event(_placed(parse(text), reason.user_stack), reason))
    return events


def _branch(reason: Any, unplaced: list[str]) -> GraphBreak:
    line = f"line {reason.user_stack[-1].lineno}," if reason.user_stack else ""
    branches = [text for text in unplaced if parse(text).is_branch]
    text = next((text for text in branches if line and line in text), branches[0] if branches else None)
    if text is not None:
        unplaced.remove(text)
        message = parse(text)
    else:
        message = Message(reason=first_line(reason.reason), hint="", is_branch=True)
    return _placed(message, reason.user_stack)


def _unresumable(reason: Any, unplaced: list[str]) -> GraphBreak:
    """A break that Dynamo cannot go on behind: the graph ends at an earlier line, and the rest of the frame is eager.

    Dynamo keeps that earlier line and, apart, its message. The message's own line is only told where the function has
    one such call.
    """
    source = source_lines.from_summary(reason.user_stack)
    rest = f"the rest of `{source.function}` runs eagerly" if source is not None else "the rest runs eagerly"
    located = [(text, _call_below(source, text)) for text in unplaced]
    fitting = [(text, call) for text, call in located if call is not None] or located
    if len(fitting) != 1:
        return GraphBreak(reason=f"a break that Dynamo cannot resume behind; {rest}", source=source, kind="skipped")
    text, call = fitting[0]
    unplaced.remove(text)
    message = parse(text)
    if source is not None and call is not None:
        source = replace(source, line=call[0], code=causes.code_at(source.file, call[0]))
    cause = call[1] if call is not None else message.called
    return GraphBreak(reason=f"{message.reason}; {rest}", source=source, kind="skipped", cause=cause, hint=message.hint)


def _call_below(source: SourceLine | None, text: str) -> tuple[int, str] | None:
    return causes.later_in_function(source.file, source.line, parse(text)) if source is not None else None


def _placed(message: Message, stack: Sequence[Any]) -> GraphBreak:
    source = source_lines.from_summary(stack)
    cause = ""
    if source is not None and not source_lines.is_library(source.file):  # torch's own call of it tells nobody anything
        frame = next((f for f in reversed(stack) if (f.filename, f.lineno) == (source.file, source.line)), None)
        columns = (getattr(frame, "colno", None), getattr(frame, "end_colno", None))
        if columns[0] is not None and columns[1] is not None:  # from torch 2.13 and Python 3.11 on
            cause = causes.at_position(source.file, source.line, (columns[0], columns[1]))
        cause = cause or causes.on_line(source.file, source.line, message)
    return GraphBreak(
        reason=message.reason,
        source=source,
        kind="disabled" if message.is_disabled else "break",
        cause=cause or message.called,
        hint=message.hint,
    )


def _skipped(frame: Any, function: SourceLine | None) -> GraphBreak:
    """A frame that Dynamo gave up."""
    message = parse(str(frame.fail_reason))
    if LIMIT in message.reason:
        return GraphBreak(reason=message.reason, source=function, kind="limit", cause=_guard(frame), hint=message.hint)
    name = f"`{function.function}`" if function is not None else "the frame"
    resumed = source_lines.user_function(str(frame.co_name)) != frame.co_name
    reason = f"{message.reason}; {'the rest' if resumed else 'all'} of {name} runs eagerly"
    file, line = frame.fail_user_frame_filename, frame.fail_user_frame_lineno
    if file is None or line is None or source_lines.is_library(file):
        return GraphBreak(reason=reason, source=function, kind="skipped", cause=message.called, hint=message.hint)
    source = SourceLine(
        file=file, line=line, function=causes.function_name(file, line), code=causes.code_at(file, line)
    )
    inner = function is not None and (function.file, function.function) != (file, source.function)
    return GraphBreak(
        reason=reason,
        source=source,
        kind="skipped",
        cause=causes.on_line(file, line, message) or message.called,
        hint=message.hint,
        frame=function if inner else None,
    )


def _without_place(text: str) -> GraphBreak:
    message = parse(text)
    reason = f"{message.reason}; the frame runs eagerly"
    return GraphBreak(reason=reason, kind="skipped", cause=message.called, hint=message.hint)


def _of_generators(text: str, codes: Iterable[CodeType]) -> Iterator[GraphBreak]:
    """Those of the user's own."""
    message = parse(text)
    for code in codes:
        if not source_lines.is_library(code.co_filename):
            source = _begin(code.co_filename, code.co_firstlineno, code.co_name)
            reason = f"{message.reason}; all of `{source.function}` runs eagerly"
            yield GraphBreak(reason=reason, source=source, kind="skipped", hint=message.hint)


def _function_of(frame: Any) -> SourceLine | None:
    """Where a frame's function begins; unknown of one that was refused before its tracing began."""
    if frame.co_filename is None or frame.co_firstlineno is None:
        return None
    return _begin(frame.co_filename, frame.co_firstlineno, str(frame.co_name))


def _begin(file: str, line: int, name: str) -> SourceLine:
    return SourceLine(file=file, line=line, function=source_lines.user_function(name), code=causes.code_at(file, line))


def _frame_id(frame: Any) -> str:
    return str(frame.compile_id).rpartition("/")[0]


def _guard(frame: Any) -> str:
    """Dynamo's text without the compile id of the entry that it belongs to, and without the line that it remarks.

    Source: `torch._dynamo.guards.get_verbose_code_part`, torch 2.11 to 2.14.
    """
    text = first_line(frame.recompile_reason) if frame.recompile_reason else ""
    head, _, guard = text.partition(": ")
    if not all(part.isdigit() for part in head.lstrip("!").split("/")):
        guard = text
    return guard.partition("  # ")[0].rstrip()
