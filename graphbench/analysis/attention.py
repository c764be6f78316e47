"""Attention in pieces: a softmax between two products of matrices, whose scores pass through memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from graphbench.analysis.costs import Cost, add_costs, kernel_cost
from graphbench.analysis.opportunity import Found, Scene
from graphbench.analysis.roofline import limit_of
from graphbench.records import KernelRecord, Traffic
from graphbench.units import format_bytes, format_duration

EXPONENTIALS: Final = frozenset({"exp", "exp2", "_softmax", "prepare_softmax_online"})
SUMS: Final = frozenset({"sum", "_softmax", "prepare_softmax_online"})
PRODUCT: Final = "mm"
ADVICE: Final = "F.scaled_dot_product_attention keeps the scores in its kernel"
MATH_FORM: Final = "scaled_dot_product_attention ran in its math form: a mask, dropout or dtype rules its kernel out"
SDPA: Final = "scaled_dot_product_attention"


@dataclass(frozen=True, slots=True)
class Pieces:
    """The kernels of one attention: a product that makes scores, what makes weights of them, and the product of those.

    `scores` is what the first writes and the second reads, `weights` what the second writes and the third reads.
    """

    first: KernelRecord
    softmax: KernelRecord
    last: KernelRecord
    scores: str
    weights: str

    @property
    def kernels(self) -> list[KernelRecord]:
        """All three in order."""
        return [self.first, self.softmax, self.last]

    @property
    def passing_bytes(self) -> int:
        """Bytes of scores and weights that are written and read, in one call of each."""
        inside = (self.scores, self.weights)
        moved = [entry for kernel in self.kernels for entry in kernel.traffic if entry.buffer in inside]
        return sum(entry.read_bytes + entry.written_bytes for entry in moved)


def attention_opportunities(scene: Scene) -> Iterator[Found]:
    """Every attention in pieces: its gain is what the pieces take beyond the limit of one kernel that does it all."""
    for pieces in pieces_of(scene):
        in_graph_ns = scene.time_ns(*pieces.kernels)
        cost = _as_one(pieces, scene)
        calls = max(1, pieces.softmax.calls) * scene.runs("forward")
        limit = limit_of(cost, None, scene.ceilings)
        if in_graph_ns is None or limit.time_ns is None or not calls:
            continue
        gain_ns = in_graph_ns - calls * limit.time_ns
        if gain_ns > 0:
            advice = MATH_FORM if _is_asked_for(pieces, scene) else ADVICE
            tell = partial(_tell, pieces.passing_bytes, in_graph_ns / calls, limit.time_ns, advice)
            yield Found(kind="attention", gain_ns=gain_ns, kernels=pieces.kernels, tell=tell)


def _is_asked_for(pieces: Pieces, scene: Scene) -> bool:
    """Whether the model calls the one op already, of which these are the pieces."""
    nodes = {role.node for kernel in pieces.kernels for role in kernel.roles if role.role == "executes"}
    return any(node.name in nodes and node.op_type == SDPA for node in scene.region.nodes)


def _tell(passing_bytes: int, pieces_ns: float, limit_ns: float, advice: str) -> tuple[str, str]:
    what = f"in pieces: {format_bytes(passing_bytes)} of scores and weights pass through memory"
    return what, f"{format_duration(pieces_ns)}, one kernel {format_duration(limit_ns)} at the limit; {advice}"


def pieces_of(scene: Scene) -> Iterator[Pieces]:
    """The attentions in pieces of a region's forward."""
    kernels = {kernel.key: kernel for kernel in scene.region.kernels if kernel.phase == "forward"}
    readers: dict[tuple[str, str], list[KernelRecord]] = {}
    for kernel in kernels.values():
        for entry in kernel.traffic:
            if entry.read_bytes:
                readers.setdefault((entry.buffer, entry.writer), []).append(kernel)
    for kernel in kernels.values():
        found = _around(kernel, kernels, readers) if _is_softmax(kernel, scene) else None
        if found is not None:
            yield found


def _is_softmax(kernel: KernelRecord, scene: Scene) -> bool:
    nodes = scene.post_grad["forward"]
    targets = {nodes[name].target for name in kernel.executes if name in nodes}
    return bool(targets & EXPONENTIALS) and bool(targets & SUMS)


def _around(
    kernel: KernelRecord,
    kernels: Mapping[str, KernelRecord],
    readers: Mapping[tuple[str, str], list[KernelRecord]],
) -> Pieces | None:
    """The products before and behind a softmax, over its largest buffers."""
    scores = _largest([entry for entry in kernel.traffic if entry.writer in kernels], reading=True)
    weights = _largest([entry for entry in kernel.traffic if entry.written_bytes], reading=False)
    if scores is None or weights is None:
        return None
    first, behind = kernels[scores.writer], readers.get((weights.buffer, kernel.key), [])
    if len(behind) != 1 or not (PRODUCT in first.name and PRODUCT in behind[0].name):
        return None
    return Pieces(first, kernel, behind[0], scores.buffer, weights.buffer)


def _largest(entries: list[Traffic], *, reading: bool) -> Traffic | None:
    return max(entries, key=lambda entry: entry.read_bytes if reading else entry.written_bytes, default=None)


def _as_one(pieces: Pieces, scene: Scene) -> Cost:
    """What one kernel would have to do: all FLOPs, and the bytes that do not stay inside."""
    nodes, inside = scene.post_grad["forward"], (pieces.scores, pieces.weights)
    flops = add_costs((kernel_cost(kernel, nodes), 1.0) for kernel in pieces.kernels)
    outside = [entry for kernel in pieces.kernels for entry in kernel.traffic if entry.buffer not in inside]
    return Cost(
        flops=flops.flops,
        arithmetic=flops.arithmetic,
        read_bytes=sum(entry.read_bytes for entry in outside),
        written_bytes=sum(entry.written_bytes for entry in outside),
        no_flops=flops.no_flops,
    )
