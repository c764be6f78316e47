"""Fusions that Inductor missed: kernels that read again what another one just wrote or read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from graphbench.analysis.roofline import Ceilings
from graphbench.analysis.unfused import PHASES
from graphbench.records import KernelKind, KernelRecord, Phase, PostGradNode, RegionRecord, Traffic

GENERATED: Final[frozenset[KernelKind]] = frozenset({"triton", "template", "cpp"})
"""What Inductor writes itself; it can fuse nothing into the others, but a template in the place of a library call."""
EPILOGUE: Final = "epilogue of a library call: a template (max-autotune) could take it"
PROLOGUE: Final = "prologue of a library call: a template (max-autotune) could take it"
_TEMPLATES = ("mm", "linear", "convolution")
_REDUCING = frozenset(
    (
        *("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "var", "var_mean"),
        *("std", "logsumexp", "norm", "_softmax", "_log_softmax", "prepare_softmax_online", "cumsum", "cumprod"),
        *("native_layer_norm", "native_group_norm", "native_batch_norm", "sort", "topk"),
    )
)
"""What no template of a product takes along: its result needs more than one element of its input."""

_Buffer = tuple[str, str]  # its name, and who wrote what is in it


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedFusion:
    """Two kernels of one graph, by key in the wrapper's order, that one kernel could stand for.

    `read_bytes` are read by the second although the first has them at hand, `written_bytes` are written for nobody but
    the second: what the fusion saves at most in one run of the graph, since whether a value is also returned is not
    known. `saved_ns` is that at the ceilings' rate, `None` without them. `reason` is the scheduler's own, empty where
    it gave none; `how` says what else would have to change.
    """

    region: str
    phase: Phase
    first: str
    second: str
    buffers: tuple[str, ...]
    read_bytes: int
    written_bytes: int
    saved_ns: float | None
    reason: str = ""
    how: str = ""


@dataclass(slots=True)
class _Saved:
    """What a fusion of two kernels would save, as far as it was found."""

    buffers: list[str] = field(default_factory=list)
    read_bytes: int = 0
    written_bytes: int = 0


def missed_fusions(region: RegionRecord, ceilings: Ceilings) -> list[MissedFusion]:
    """Pairs of kernels of one graph that move a buffer twice and could be one kernel, in the wrapper's order.

    The second reads what the first wrote, or both read the same and are the next readers of it. Pairs that cannot be
    one kernel are left out: library calls and what Inductor did not write, a kernel between them that needs the one
    and is needed by the other, kernels that run differently often.

    Args:
        region: a region whose kernels' traffic is known; others have no pairs.
        ceilings: of its device.
    """
    reasons = {frozenset((entry.first, entry.second)): entry.reason for entry in region.refusals}
    kept = _kept_for_backward(region)
    found = []
    for phase in PHASES:
        kernels = [kernel for kernel in region.kernels if kernel.phase == phase]
        targets = {node.name: node.target for node in region.post_grad if node.phase == phase}
        graph = _Order(kernels, {k.key for k in kernels if any(targets.get(n) in _REDUCING for n in k.executes)})
        for (first, second), saved in _possible_pairs(
            kernels, graph, kept if phase == "forward" else frozenset()
        ).items():
            one, other = kernels[first], kernels[second]
            time_ns = ceilings.memory_ns(saved.read_bytes, saved.written_bytes)
            calls = max(1, one.calls)
            missed = MissedFusion(
                region=region.key,
                phase=phase,
                first=one.key,
                second=other.key,
                buffers=tuple(saved.buffers),
                read_bytes=calls * saved.read_bytes,
                written_bytes=calls * saved.written_bytes,
                saved_ns=None if time_ns is None else calls * time_ns,
                reason=reasons.get(frozenset((one.key, other.key)), ""),
                how=_how(one, other, graph.reducing) or "",
            )
            found.append(missed)
    return found


class _Order:
    """Which kernels of one graph need which, directly or over others; kernels by their position in the wrapper.

    `reducing` are keys of those that reduce.
    """

    def __init__(self, kernels: Sequence[KernelRecord], reducing: Set[str]) -> None:
        self.reducing = reducing
        self.position = {kernel.key: index for index, kernel in enumerate(kernels)}
        self._needs: list[list[int]] = []
        self._ancestors: list[int] = []  # a set of positions as the bits of a number
        makers = {name: index for index, kernel in enumerate(kernels) for name in _made(kernel)}
        for index, kernel in enumerate(kernels):
            writers = {self.position.get(entry.writer, index) for entry in _read(kernel, kernels, self.position)}
            writers |= {makers.get(name, index) for name in kernel.reads}  # also of kernels whose traffic is not told
            needs = [writer for writer in writers if writer < index]
            ancestors = 0
            for writer in needs:
                ancestors |= self._ancestors[writer] | 1 << writer
            self._needs.append(needs)
            self._ancestors.append(ancestors)

    def stands_between(self, first: int, second: int) -> bool:
        """Whether a third kernel needs the first and is needed by the second."""
        return any(self._ancestors[need] >> first & 1 for need in self._needs[second] if need != first)


def _possible_pairs(
    kernels: Sequence[KernelRecord], graph: _Order, kept: frozenset[str]
) -> dict[tuple[int, int], _Saved]:
    """Pairs of positions, in order; a prologue's value must be for the template alone."""
    found = _pairs(kernels, graph, kept)
    how = {pair: _how(kernels[pair[0]], kernels[pair[1]], graph.reducing) for pair in found}
    return {pair: saved for pair, saved in sorted(found.items()) if how[pair] != PROLOGUE or saved.written_bytes}


def _pairs(kernels: Sequence[KernelRecord], graph: _Order, kept: frozenset[str]) -> dict[tuple[int, int], _Saved]:
    """What could be saved by pairs of positions."""
    found: dict[tuple[int, int], _Saved] = {}
    for (buffer, writer), readers in _readers(kernels, graph.position).items():
        first = graph.position.get(writer)
        if first is not None:
            for second, entry in readers:
                if first < second and _may_be_one(kernels, graph, first, second):
                    saved = _add(found, first, second, buffer, entry.read_bytes)
                    if len(readers) == 1 and kept.isdisjoint(kernels[first].executes):
                        saved.written_bytes += _written(kernels[first], buffer)
        generated = [(index, entry) for index, entry in readers if kernels[index].kind in GENERATED]
        for (one, _), (other, entry) in pairwise(generated):
            if _may_be_one(kernels, graph, one, other):
                _add(found, one, other, buffer, entry.read_bytes)
    return found


def _add(found: dict[tuple[int, int], _Saved], first: int, second: int, buffer: str, read_bytes: int) -> _Saved:
    saved = found.setdefault((first, second), _Saved())
    saved.buffers.append(buffer)
    saved.read_bytes += read_bytes
    return saved


def _readers(kernels: Sequence[KernelRecord], position: Mapping[str, int]) -> dict[_Buffer, list[tuple[int, Traffic]]]:
    """The kernels that read each buffer as one kernel left it, in order."""
    readers: dict[_Buffer, list[tuple[int, Traffic]]] = {}
    for index, kernel in enumerate(kernels):
        for entry in _read(kernel, kernels, position):
            readers.setdefault((entry.buffer, entry.writer), []).append((index, entry))
    return readers


def _read(kernel: KernelRecord, kernels: Sequence[KernelRecord], position: Mapping[str, int]) -> Iterator[Traffic]:
    """What a kernel reads; not memory that it is given again as scratch, with none of the values that it needs."""
    for entry in kernel.traffic:
        writer = position.get(entry.writer)
        scratch = writer is not None and kernel.reads and _made(kernels[writer]).isdisjoint(kernel.reads)
        if entry.read_bytes and not scratch:
            yield entry


def _made(kernel: KernelRecord) -> set[str]:
    return set(kernel.executes) - set(kernel.recomputes)


def _written(kernel: KernelRecord, buffer: str) -> int:
    return sum(entry.written_bytes for entry in kernel.traffic if entry.buffer == buffer)


def _may_be_one(kernels: Sequence[KernelRecord], graph: _Order, first: int, second: int) -> bool:
    one, other = kernels[first], kernels[second]
    if max(1, one.calls) != max(1, other.calls) or _how(one, other, graph.reducing) is None:
        return False
    return not graph.stands_between(first, second)


def _how(first: KernelRecord, second: KernelRecord, reducing: Set[str]) -> str | None:
    """What would have to change so that one kernel can do the work of both; `None` where none can.

    Source: `torch._inductor.scheduler.Scheduler.can_fuse`, torch 2.13: an epilogue is pointwise; a prologue too, with
    no other reader, and of a Triton template.
    """
    kinds = {first.kind, second.kind}
    if kinds <= GENERATED:
        return None if {"cpp", "triton"} <= kinds else ""
    if first.kind == "extern" and second.kind in GENERATED:
        return EPILOGUE if _has_template(first) and second.key not in reducing else None
    if second.kind == "extern" and first.kind == "triton":  # C++ templates have no prologue
        return PROLOGUE if _has_template(second) and first.key not in reducing else None
    return None


def _has_template(kernel: KernelRecord) -> bool:
    """Whether Inductor has templates of its own for a library call: products of matrices, and convolutions."""
    return any(word in kernel.name for word in _TEMPLATES)


def _kept_for_backward(region: RegionRecord) -> frozenset[str]:
    """Post-grad nodes of the forward whose values the backward reads: they are written in any case.

    AOTAutograd names the backward's inputs after the forward nodes that they are. Source:
    `torch._functorch.partitioners._extract_fwd_bwd_modules`, torch 2.11, 2.13 and 2.14.
    """
    forward = {node.name: node for node in region.post_grad if node.phase == "forward"}
    own = {node.name for node in region.post_grad if node.phase == "backward"}
    read = {name for kernel in region.kernels if kernel.phase == "backward" for name in _outside(kernel)}
    return frozenset(_behind_views(name, forward) for name in (read - own) & forward.keys())


def _outside(kernel: KernelRecord) -> Iterator[str]:
    """The names under which a kernel's graph knows what it reads and no kernel of the graph wrote."""
    yield from kernel.reads
    yield from (entry.buffer for entry in kernel.traffic if entry.read_bytes and not entry.writer)


def _behind_views(name: str, nodes: Mapping[str, PostGradNode]) -> str:
    """The node whose buffer a node's value is in."""
    seen = {name}
    while name in nodes and nodes[name].is_view and nodes[name].inputs:
        name = nodes[name].inputs[0]
        if name in seen:  # a hostile profile
            break
        seen.add(name)
    return name
