"""The compiled side of a region: its kernel calls labelled in order, and each isolated where its live arguments are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from threading import get_ident
from typing import Any

import torch

from graphbench.conservation import post_grad_row
from graphbench.device_records import NO_GRAPHS, OUTSIDE_GRAPHS, TritonConfig
from graphbench.inductor import wrapper as wrappers
from graphbench.inductor.compile import CompiledGraph
from graphbench.inductor.cuda_graphs import not_used
from graphbench.inductor.partitions import lines_outside
from graphbench.inductor.sites import Site, all_kernels
from graphbench.inductor.triton_config import triton_config
from graphbench.isolate.compare import compare_tensors, how_different
from graphbench.measurements import Comparison, Measurement
from graphbench.measuring.calls import Call, Counted
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.kept_values import kernel_indexes
from graphbench.measuring.needs import Touched
from graphbench.measuring.runs import Label, MeasuredSide, unmeasured
from graphbench.measuring.traffic import GraphTraffic, Slice
from graphbench.provenance.ownership import Ownership, owned
from graphbench.provenance.sources import roles
from graphbench.records import FusionRefusal, GeneratedCode, KernelRecord, PostGradNode
from graphbench.runs.entries import UnitKind, UnitRow

LIBRARY_KINDS = ("extern", "fallback", "custom")  # torch ops, whose calls can be counted
RESHAPES = ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "alias")  # keep values and their order


@dataclass(slots=True)
class CompiledSide:
    """One compiled graph of a region, ready to be labelled, with what is known of its kernels so far.

    `calls` are counted while kernels are isolated; `stopped` says why that run came to no end. `unfused` has the ops of
    its lowered graph alone, by post-grad node, and `touched` what each reads, makes and scatters;
    `unfused_ran` says that the graph was run for them, `unfused_stopped` why some are missing. `traffic` is that of the
    run in which kernels are isolated.
    """

    graph: CompiledGraph
    wrapper: wrappers.Wrapper
    ownership: dict[str, Ownership]
    isolated: dict[str, Measurement] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    differences: dict[str, Comparison] = field(default_factory=dict)
    configs: dict[str, TritonConfig | None] = field(default_factory=dict)
    unfused: dict[str, Measurement] = field(default_factory=dict)
    touched: dict[str, Touched] = field(default_factory=dict)
    traffic: GraphTraffic = field(init=False)
    stopped: str = ""
    unfused_ran: bool = False
    unfused_stopped: str = ""

    def __post_init__(self) -> None:
        """Nothing has run yet."""
        self.traffic = GraphTraffic(self.touched)

    @classmethod
    def of(cls, graph: CompiledGraph) -> CompiledSide:
        """Prepare a graph's wrapper and work out what its kernels execute."""
        wrapper = wrappers.prepare(graph)
        return cls(graph, wrapper, owned(graph.post_grad, all_kernels(graph.kernels, wrapper.sites)))

    def recall(self, units: Mapping[tuple[UnitKind, str], UnitRow]) -> None:
        """Take over what was found of its kernels and ops: by an earlier process, or in a run that came to no end."""
        phase = self.graph.phase
        known = {row: unit.measurement for (kind, row), unit in units.items() if kind == "isolated"}
        self.isolated.update({row: known[row] for row in self.rows() if row in known})
        rows = {node.name: post_grad_row(phase, node.name) for node in self.graph.post_grad}
        self.unfused.update({name: known[row] for name, row in rows.items() if row in known})

    def row(self, site: Site) -> str:
        """The kernel's key within its region: `forward/name:position`."""
        return f"{self.graph.phase}/{site.name}:{site.position}"

    def rows(self) -> list[str]:
        """Keys of all kernel calls in the wrapper."""
        return [self.row(site) for site in self.wrapper.sites]

    def outside_graphs(self) -> frozenset[str]:
        """Keys of the kernel calls that are in none of the parts that Inductor makes CUDA graphs of."""
        lines = {site.line: self.row(site) for site in self.wrapper.sites if site.line is not None}
        return frozenset(lines[line] for line in lines_outside(self.wrapper.source, lines))

    def graph_notes(self) -> Iterator[str]:
        """What to know of its CUDA graphs, if any were asked for: that there are none, or what is outside of them."""
        phase, why = self.graph.phase, not_used(self.graph)
        if why:
            yield f"{NO_GRAPHS}: {phase}: {why}"
        elif self.graph.asked_for_cuda_graphs and (outside := self.outside_graphs()):
            whys = {self.graph.outside.get(site.key, "") for site in self.wrapper.sites if self.row(site) in outside}
            told = ", ".join(sorted(whys - {""})) or "Inductor does not say why"
            yield f"{OUTSIDE_GRAPHS}: {phase}: {', '.join(sorted(outside))} ({told})"

    def labelling(self, label: Label) -> AbstractContextManager[None]:
        """While inside, every kernel call of this graph by the calling thread goes under its label."""
        rows, thread = self.rows(), get_ident()

        # Written out instead of `label.call`: what this costs is paid between kernels, in the wrapper's time.
        def on_kernel(site: Site, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if label.session is None or get_ident() != thread:
                return function(*args, **kwargs)
            with label.session.label(rows[site.position - 1], label.sample):
                return function(*args, **kwargs)

        return wrappers.labelled(self.wrapper, on_kernel)

    def isolating(
        self, isolator: Isolator, expected: Mapping[str, tuple[str, torch.Tensor]], tick: Callable[[], None]
    ) -> AbstractContextManager[None]:
        """While inside, every kernel call of this graph by the calling thread is isolated when it is first reached.

        Replays run in the calling thread, backwards too; what other threads call meanwhile is the user's own work.

        Args:
            isolator: times the units.
            expected: node name and eager value by the post-grad node that should hold it.
            tick: called after every isolated kernel.
        """
        done: set[str] = set()
        self.calls.clear()
        thread = get_ident()

        def on_kernel(site: Site, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if get_ident() != thread:
                return function(*args, **kwargs)
            row = self.row(site)
            self.calls[row] = self.calls.get(row, 0) + 1
            if row in done:
                return function(*args, **kwargs)
            done.add(row)
            call = self._call(site, function, args, kwargs)
            result, verdict = isolator.isolate(call, lambda: function(*args, **kwargs))
            self.isolated[row] = replace(verdict.measurement, work=None)  # its traffic says it
            self.configs[row] = triton_config(function)
            self._note_traffic(site, function, args, verdict.counted)
            self._compare(site, args, kwargs, result, expected)
            tick()
            return result

        return wrappers.labelled(self.wrapper, on_kernel)

    def _call(self, site: Site, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        written = wrappers.written_arguments(self.wrapper, site, function, args, kwargs)
        tensors = tuple(
            value
            for position in written
            if isinstance(value := args[position] if isinstance(position, int) else kwargs.get(position), torch.Tensor)
        )
        # Generated kernels are told apart by their graph; library calls are the same everywhere.
        own = site.key if site.reduces_workspace else site.name
        library = site.kind in LIBRARY_KINDS and not site.reduces_workspace
        ownership = self.ownership.get(site.key, Ownership())
        executed = ownership.executes | ownership.recomputes
        return Call(
            self.row(site),
            function,
            args,
            kwargs,
            identity=site.name if library else (id(self.graph), own),
            written=tensors,
            synthetic=self.graph.phase == "backward",  # whose inputs descend from random tangents
            counted=is_library(site),
            keeps_values=not library and kernel_indexes(executed, {node.name: node for node in self.graph.post_grad}),
        )

    def begin_traffic(self, args: list[Any]) -> None:
        """The graph is called with these inputs."""
        if self.graph.lowered is not None:
            placeholders = self.graph.lowered.graph.find_nodes(op="placeholder")
            self.traffic.begin([node.name for node in placeholders], args)

    def _note_traffic(self, site: Site, function: Callable[..., Any], args: tuple[Any, ...], counted: Counted) -> None:
        row, owned_here = self.row(site), Slice.of(self.graph.post_grad, self.ownership.get(site.key, Ownership()))
        if is_library(site):
            work = counted.work
            untold = "its call was not counted" if work is None else work.reason if work.read_bytes is None else ""
            self.traffic.library(site, row, counted.spans, untold, owned_here)
        else:
            self.traffic.generated(site, row, function, args, self.wrapper, owned_here)

    def _compare(
        self,
        site: Site,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
        expected: Mapping[str, tuple[str, torch.Tensor]],
    ) -> None:
        """Compare what a kernel wrote with eager's value of the node that it holds; the largest difference is kept."""
        ownership = self.ownership.get(site.key)
        if ownership is None:
            return
        variables = dict(zip(site.arguments, args, strict=False))
        variables[site.target] = kwargs.get("out", result)
        for buffer, post_grad in ownership.holds.items():
            tensor = variables.get(buffer)
            if post_grad not in expected or not isinstance(tensor, torch.Tensor):
                continue
            node, value = expected[post_grad]
            if tensor.dtype != value.dtype or tensor.numel() != value.numel():
                continue
            if tensor.shape != value.shape:
                tensor, value = tensor.reshape(-1), value.reshape(-1)
            found = replace(compare_tensors(tensor, value, tolerance=10.0), note=node)
            known = self.differences.get(self.row(site), found)
            self.differences[self.row(site)] = max(known, found, key=how_different)

    def records(self, measured: MeasuredSide) -> tuple[KernelRecord, ...]:
        """The graph's kernels with what was measured of them, alone and in the run of the side."""
        nodes = {node.name: node for node in self.graph.post_grad}
        return tuple(self._record(site, nodes, measured) for site in self.wrapper.sites)

    def refusals(self) -> tuple[FusionRefusal, ...]:
        """Why kernels that share a buffer were not fused, as far as the scheduler told."""
        rows = {site.key: self.row(site) for site in self.wrapper.sites}
        shared: dict[str, set[str]] = {}
        for row, traffic in self.traffic.by_kernel.items():
            shared[row] = {entry.buffer for entry in traffic}
        known = (refusal for refusal in self.graph.refusals if refusal.first in rows and refusal.second in rows)
        named = (FusionRefusal(first=rows[a], second=rows[b], reason=reason) for a, b, reason in known)
        return tuple(entry for entry in named if shared.get(entry.first, set()) & shared.get(entry.second, set()))

    def _record(self, site: Site, nodes: Mapping[str, PostGradNode], measured: MeasuredSide) -> KernelRecord:
        row = self.row(site)
        ownership = self.ownership.get(site.key, Ownership())
        absent = unmeasured(measured.side.reason or self.stopped or "not executed by the replayed call")
        return KernelRecord(
            key=row,
            phase=self.graph.phase,
            name=site.name,
            handle=site.handle,
            kind=site.kind,
            calls=self.calls.get(row, 0) or measured.calls.get(row, 0),
            executes=tuple(name for name in nodes if name in ownership.executes | ownership.recomputes),
            recomputes=tuple(name for name in nodes if name in ownership.recomputes),
            parts=tuple((name, ownership.parts[name]) for name in nodes if name in ownership.parts),
            reads=ownership.reads,
            roles=roles(ownership, nodes),
            isolated=self.isolated.get(row, absent),
            in_graph=measured.rows.get(row, absent),
            difference=self.differences.get(row),
            config=self.configs.get(row),
            traffic=self.traffic.by_kernel.get(row, ()),
            untold=self.traffic.untold.get(row, ""),
            line=site.line,
        )

    def code(self) -> GeneratedCode:
        """What Inductor wrote for the graph."""
        return GeneratedCode(phase=self.graph.phase, text=self.wrapper.source)


def is_library(site: Site) -> bool:
    """Whether a kernel call is one of torch's own ops or made of such."""
    return site.kind in LIBRARY_KINDS or site.reduces_workspace


def held_nodes(side: CompiledSide, single: Collection[str]) -> dict[str, str]:
    """Dynamo node by post-grad node, where a kernel's buffer holds exactly that node's value.

    Args:
        side: the forward graph.
        single: Dynamo nodes with one output.

    A node lowers to a chain of post-grad nodes; only the last of the chain, before mere reshapes, has its value. Of
    nodes that a pass rewrote together, only the last one's value is left.
    """
    last: dict[str, str] = {}
    for node in side.graph.post_grad:
        if node.target != "getitem" and node.target not in RESHAPES:
            for source in node.sources:
                is_left = not node.rewrote or source == node.sources[-1]
                last[source] = node.name if is_left else ""
    holding = {name for ownership in side.ownership.values() for name in ownership.holds.values()}
    return {post_grad: node for node, post_grad in last.items() if post_grad in holding and node in single}
