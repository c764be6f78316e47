"""Peak memory: what the device's allocator counted during a run, and which nodes' results are alive at eager's peak."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from graphbench.collector import collector_paused
from graphbench.errors import GraphbenchError
from graphbench.execution.interpreter import run_eager
from graphbench.execution.replay import shadow
from graphbench.measuring.runs import WholeRun, replaying
from graphbench.records import NodeRecord, RegionRecord, Side
from graphbench.regions import Region
from graphbench.tensors import has_storage, tensors_of


def device_peak(run: WholeRun) -> int | None:
    """The most bytes allocated at once during one run, above what was allocated before it.

    For a backward: above what was allocated before its forward, so that what autograd saved counts. The device's peak
    counter is started again: `torch.cuda.max_memory_allocated` afterwards tells nothing of the time before. It cannot
    be set back, and measuring would have raised it anyway.

    Returns:
        Bytes; `None` on devices without such a counter, and for runs of CUDA graphs, whose memory was taken when they
        were captured.

    Raises:
        CaptureError: the model's own code raised.

    Source: `torch.cuda.memory_stats_as_nested_dict()["allocated_bytes"]`, `reset_peak_memory_stats`, torch 2.11 to
        2.14.
    """
    device = torch.device(run.device)
    if device.type != "cuda" or run.replays_graphs:
        return None
    with collector_paused():  # what a collection frees meanwhile was counted before
        before = _allocated(device, "current")
        run.prepare()
        if not run.follows_forward:
            before = _allocated(device, "current")
        torch.cuda.reset_peak_memory_stats(device)
        result = run.run()
        peak = _allocated(device, "peak")
        del result
    return max(0, peak - before)


def with_device_peak(side: Side, run: WholeRun) -> Side:
    """A side with its peak; one that failed stays as it is, and one whose run fails now says so."""
    if side.reason:
        return side
    try:
        return replace(side, peak_bytes=device_peak(run))
    except GraphbenchError as error:
        return replace(side, reason=error.message)


def _allocated(device: torch.device, which: str) -> int:
    return int(torch.cuda.memory_stats_as_nested_dict(device)["allocated_bytes"]["all"][which])


NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class EagerPeak:
    """Where most bytes of results are alive: when `node` has just run. `held`: bytes by the node that made them."""

    node: str
    held: dict[str, int]

    @property
    def nbytes(self) -> int:
        """All of them."""
        return sum(self.held.values())


def eager_peak(region: Region, notes: list[str]) -> EagerPeak | None:
    """Run a region eagerly once and see which storages its nodes' results keep alive, on the region's own device.

    A storage belongs to the node that made it, until nothing refers to it: neither a value that a later node reads nor
    what autograd saved for backward, also inside of an op. Inputs, parameters and constants do not count.

    Args:
        region: a captured region.
        notes: extended where what ops save for themselves could not be seen.

    Returns:
        The peak; `None` when the run fails, which the eager side tells of, or when no node makes anything.

    Source: `torch.multiprocessing.reductions.StorageWeakRef`; `torch.autograd.graph.saved_tensors_hooks`, which
        functorch's transforms refuse. torch 2.11 to 2.14.
    """
    for looks_inside in (True, False):
        alive = _Alive(region)
        try:
            with alive.seeing_saved() if looks_inside else contextlib.nullcontext():
                alive.run()
        except GraphbenchError:
            continue
        if not looks_inside:
            notes.append("memory: what autograd saves inside ops is not seen: they refuse its hooks")
        return alive.peak
    return None


class _Alive:
    """The storages made by one eager run, looked at again whenever more than ever may be alive."""

    def __init__(self, region: Region) -> None:
        assert region.capture is not None
        self._region = region
        self._values = region.capture.values
        self._device = region.capture.device.type
        self._outside: set[int] = set()
        self._made: dict[int, _Made] = {}
        self._dying = _last_uses(region.gm.graph)
        self._waiting: list[str] = []
        self._alive_bytes = self._highest = 0
        self._node, self._number, self._peak_number, self._peak_node = "", 0, 0, ""
        self._results: dict[str, list[int]] = {}

    @property
    def peak(self) -> EagerPeak | None:
        """What was alive when most was; `None` when nothing was made."""
        if not self._highest:
            return None
        held: dict[str, int] = {}
        for made in self._made.values():
            if made.born <= self._peak_number < made.died:
                held[made.node] = held.get(made.node, 0) + made.nbytes
        return EagerPeak(self._peak_node, held)

    def run(self) -> None:
        torch.clear_autocast_cache()
        with replaying(f"{self._region.key} eager"):
            run_eager(self._region.gm, shadow(self._values), self._visit)

    @contextlib.contextmanager
    def seeing_saved(self) -> Iterator[None]:
        def pack(tensor: torch.Tensor) -> torch.Tensor:
            self._add([tensor])
            return tensor.detach()  # itself would keep the graph that keeps it

        with saved_tensors_hooks(pack, lambda saved: saved):
            yield

    def _visit(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        given = (tensor for tensor in tensors_of((args, kwargs)) if has_storage(tensor))
        self._outside |= {key for tensor in given if (key := tensor.untyped_storage()._cdata) not in self._made}
        self._bury()
        self._node, self._number = node.name, self._number + 1
        result = call()
        self._results[node.name] = self._add(tensors_of(result))
        self._waiting = self._dying.get(node.name, [])
        if self._alive_bytes > self._highest:
            self._highest, self._peak_number, self._peak_node = self._alive_bytes, self._number, node.name
        return result

    def _bury(self) -> None:
        """See which storages died since the last node: only values that it was the last to read can have."""
        for name in self._waiting:
            for key in self._results.pop(name, ()):
                made = self._made[key]
                if made.died == NEVER and made.reference.expired():
                    made.died = self._number + 1
                    self._alive_bytes -= made.nbytes

    def _add(self, tensors: Iterable[torch.Tensor]) -> list[int]:
        """Take in storages that are new; all that were given, by key."""
        found = []
        for tensor in tensors:
            if not has_storage(tensor):
                continue
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self._outside:
                continue
            found.append(key)
            if key not in self._made:
                nbytes = storage.nbytes() if tensor.device.type == self._device else 0
                # A weak reference keeps the address from being another storage's.
                self._made[key] = _Made(StorageWeakRef(storage), self._node, nbytes, self._number)
                self._alive_bytes += nbytes
        return found


@dataclass(slots=True)
class _Made:
    """A storage that a node made. `born` and `died` number the nodes at which it was there first, and no more."""

    reference: StorageWeakRef
    node: str
    nbytes: int
    born: int
    died: float = NEVER


def _last_uses(graph: fx.Graph) -> dict[str, list[str]]:
    """By node, the values that nobody reads after it. A value that nobody reads at all ends with its own node."""
    last: dict[str, str] = {}
    for node in graph.nodes:
        last[node.name] = node.name
        for source in node.all_input_nodes:
            last[source.name] = node.name
    found: dict[str, list[str]] = {}
    for value, reader in last.items():
        found.setdefault(reader, []).append(value)
    return found


def with_peak(region: RegionRecord, peak: EagerPeak | None) -> RegionRecord:
    """A region whose nodes have their parts of a peak, with the peak itself."""
    return region if peak is None else replace(region, peak_node=peak.node, peak_bytes=peak.nbytes)


def with_peaks(nodes: Iterable[NodeRecord], peak: EagerPeak | None) -> tuple[NodeRecord, ...]:
    """Nodes with the bytes of their results that are alive at eager's peak."""
    if peak is None:
        return tuple(nodes)
    return tuple(replace(node, peak_bytes=peak.held.get(node.name, 0)) for node in nodes)
