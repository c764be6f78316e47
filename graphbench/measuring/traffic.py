"""Which buffers a kernel reads and writes, and how many bytes of each: known from its live arguments, by address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch

from graphbench.inductor import wrapper as wrappers
from graphbench.inductor.sites import Site
from graphbench.isolate.costs import Span, span_of
from graphbench.measuring.needs import Touched, needed_bytes, scattered_bytes
from graphbench.provenance.ownership import Ownership
from graphbench.records import KernelKind, PostGradNode, Traffic

UNTOLD: Final[Mapping[KernelKind, str]] = {
    "user-triton": "a user-written kernel: which bytes it touches is not known",
    "collective": "it moves data between ranks",
}


class Written(NamedTuple):
    """Memory whose present content is known: which buffer it is, of which post-grad node, and which kernel wrote it."""

    first: int
    end: int
    buffer: str
    node: str
    writer: str


class Contents:
    """What lies where in memory, as far as kernels or ops have written it. What is written over is forgotten."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, int], Written] = {}

    @classmethod
    def of_inputs(cls, names: Iterable[str], values: Iterable[Any]) -> Contents:
        """What a graph finds that is called with these inputs."""
        contents = cls()
        for name, value in zip(names, values, strict=False):
            if isinstance(value, torch.Tensor) and (span := span_of(value)):
                contents.put(Written(span.first, span.end, name, name, ""))
        return contents

    def put(self, written: Written) -> None:
        """Note that memory was written; what it covers whole is gone."""
        first, end = written.first, written.end
        covered = [key for key in self._entries if key[0] >= first and key[1] <= end]
        for key in covered:
            del self._entries[key]
        self._entries[first, end] = written

    def at(self, first: int, end: int) -> list[tuple[Written, float]]:
        """What lies there, with the part of the range that is each one's; the parts add up to 1. Empty: unknown."""
        exact = self._entries.get((first, end))
        if exact is not None:
            return [(exact, 1.0)]
        sizes = [
            (entry, min(end, entry.end) - max(first, entry.first))
            for entry in self._entries.values()
            if entry.first < end and first < entry.end
        ]
        total = sum(size for _, size in sizes)
        return [(entry, size / total) for entry, size in sizes] if total else []


@dataclass(frozen=True, slots=True)
class Slice:
    """What a kernel executes in order, the node of every buffer that it writes, and what it gets from others."""

    executed: tuple[str, ...]
    holds: Mapping[str, str]
    reads: frozenset[str]

    @classmethod
    def of(cls, nodes: Iterable[PostGradNode], owned: Ownership) -> Slice:
        """A kernel's slice of its graph."""
        mine = owned.executes | owned.recomputes
        executed = tuple(node.name for node in nodes if node.name in mine)
        return cls(executed, owned.holds, frozenset(owned.reads))


@dataclass(slots=True)
class GraphTraffic:
    """The traffic of one compiled graph while it runs once; `touched` tells of every post-grad node that ran alone."""

    touched: Mapping[str, Touched]
    contents: Contents = field(default_factory=Contents)
    by_kernel: dict[str, tuple[Traffic, ...]] = field(default_factory=dict)
    untold: dict[str, str] = field(default_factory=dict)
    executed: dict[str, frozenset[str]] = field(default_factory=dict)

    def begin(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """The graph is called with these inputs."""
        self.contents = Contents.of_inputs(names, values)

    def generated(
        self, site: Site, row: str, function: Any, args: tuple[Any, ...], wrapper: wrappers.Wrapper, slice_: Slice
    ) -> None:
        """Note a generated kernel that was called: it reads and writes the tensors that it is given."""
        if site.kind in UNTOLD:
            self.untold[row] = UNTOLD[site.kind]
        written = wrappers.written_arguments(wrapper, site, function, args, {})
        updated = wrappers.updated_arguments(wrapper, site, function)
        spans: list[tuple[Span, str]] = []
        for position, value in enumerate(args):
            span = span_of(value) if isinstance(value, torch.Tensor) else None
            if span is not None:
                read = 0 if position in written and position not in updated else span.read
                variable = site.arguments[position] if position < len(site.arguments) else None
                span = span._replace(read=read, written=span.read if position in written else 0)
                spans.append((self._scattered(span, slice_), variable or ""))
        self._note(row, spans, slice_)

    def library(self, site: Site, row: str, spans: Sequence[Span], untold: str, slice_: Slice) -> None:
        """Note a library call that was counted while it was made; `untold` says why its bytes are not known."""
        if untold:
            self.untold[row] = untold
        only = sum(span.written > 0 for span in spans) == 1
        self._note(row, [(span, site.target or "" if only and span.written else "") for span in spans], slice_)

    def _scattered(self, span: Span, slice_: Slice) -> Span:
        """Of memory that has content already no more is touched than what is scattered there."""
        began = bool(self.contents.at(span.first, span.end))
        part = scattered_bytes(self.touched, slice_.executed, span.written) if span.written and began else None
        return span if part is None else span._replace(read=part, written=part)

    def _note(self, row: str, spans: Sequence[tuple[Span, str]], slice_: Slice) -> None:
        """Note what a call read, then what it wrote, of memory whose variable in the wrapper is given where known."""
        found: list[Traffic] = []
        made = [span for span, _ in spans if span.written and not span.read]
        needed = needed_bytes(self.touched, slice_.executed, slice_.holds.values()) or {}
        for index, (span, variable) in enumerate(spans):
            if span.read:
                own = _part_of(span, made)
                found += self._read(span, variable or f"{row}#{index}", needed, slice_, own)
        for index, (span, variable) in enumerate(spans):
            if span.written:
                buffer = variable or f"{row}#{index}"
                node = slice_.holds.get(variable, "")
                self.contents.put(Written(span.first, span.end, buffer, node, row))
                found.append(Traffic(buffer=buffer, written_bytes=span.written))
        self.executed[row] = frozenset(slice_.executed)
        if row not in self.untold:
            self.by_kernel[row] = tuple(found)

    def _read(self, span: Span, otherwise: str, needed: Mapping[str, int], slice_: Slice, own: float) -> list[Traffic]:
        """What a call read of one span; memory that nothing was seen to write is named `otherwise`.

        A buffer that it updates may also be scratch, in which values lie that nobody needs any more. Of which it writes
        a part, `own`, itself: pieces of a concatenation that it reads back, or an input that it writes over.
        """
        known = self.contents.at(span.first, span.end)
        over = bool(span.written) or own == 1
        if not known and over:
            return []  # scratch: nothing was there before
        if not over:
            span = span._replace(read=round(span.read * (1 - own)))
        if not known:
            return [Traffic(buffer=otherwise, read_bytes=span.read)]
        wanted = {self._base(name) for name in slice_.reads}
        found: list[Traffic] = []
        for entry, part in known:
            node = self._base(entry.node)
            if over and not (node in wanted if node and wanted else self._hands_on(entry.writer, slice_)):
                continue
            whole = round(span.read * part)
            nbytes = min(whole, needed.get(node, whole)) if not over else whole
            found.append(Traffic(buffer=entry.buffer, writer=entry.writer, read_bytes=nbytes))
        return found

    def _hands_on(self, writer: str, slice_: Slice) -> bool:
        """Whether the kernel that wrote a buffer of no known node made anything that a kernel reads."""
        return not writer or not slice_.reads or bool(self.executed[writer] & slice_.reads)

    def _base(self, node: str) -> str:
        """The node whose memory a node shows: its own, unless it is a view."""
        return (self.touched[node].base or node) if node in self.touched else node


def _part_of(span: Span, made: Sequence[Span]) -> float:
    """The part of what is read that lies in memory which the same call writes; pieces may be interlaced rows."""
    at, covered, written = span.first, 0, 0.0
    for piece in sorted(made):
        first, end = max(span.first, piece.first), min(span.end, piece.end)
        if first < end:
            written += piece.written * (end - first) / (piece.end - piece.first)
            covered, at = covered + max(0, end - max(at, first)), max(at, end)
    return min(1.0, covered / (span.end - span.first), written / span.read)
