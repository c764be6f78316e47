"""What a click on a row of one profile shows: measurements in words, source line, roles both ways, generated code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from graphbench.analysis.device import config_text
from graphbench.analysis.digest import Digest
from graphbench.analysis.generated_code import KernelCode, RegionCode
from graphbench.analysis.views import symbolic_text
from graphbench.measurements import Measurement
from graphbench.plaintext import clean, clean_lines
from graphbench.records import KernelRecord, NodeRecord, NodeRole, ProfileRecord, RegionRecord, Role
from graphbench.report.html.detail_facts import (
    Fact,
    comparison_facts,
    joined,
    measured_facts,
    series,
    source_facts,
)
from graphbench.report.html.model import Detail, kernel_id, node_id
from graphbench.units import count_text, format_traffic

Links = tuple[str, tuple[str, ...]]
OF_NODE: Final[Mapping[Role, str]] = {
    "executes": "executed by",
    "recomputes": "recomputed by",
    "prepares": "prepared for it by",
    "differentiates": "differentiated by",
    "contributes": "read by",
}
"""What a kernel is to a node, by the node's role in it."""
OF_KERNEL: Final[Mapping[Role, str]] = {
    "executes": "executes",
    "recomputes": "recomputes",
    "prepares": "prepares for",
    "differentiates": "backward of",
    "contributes": "reads",
}
"""What a node is to a kernel."""


def region_details(record: ProfileRecord, digest: Digest) -> dict[str, Detail]:
    """The details of all nodes and kernels, by id.

    Args:
        record: a profile.
        digest: statistics already computed for it.
    """
    in_step = _kernels_in_step(record)
    found: dict[str, Detail] = {}
    for region in record.regions:
        code = RegionCode(region)
        nodes, kernels = _Nodes(region), _Kernels(region)
        for node in region.nodes:
            found[node_id(region, node)] = nodes.detail(node, digest)
        for kernel in region.kernels:
            measured = in_step.get((region.key, kernel.key))
            found[kernel_id(region, kernel)] = kernels.detail(kernel, measured, code.of(kernel), digest)
    return found


def _kernels_in_step(record: ProfileRecord) -> dict[tuple[str | None, str], Measurement]:
    rows = record.step.rows if record.step else ()
    return {(row.region, row.kernel): row.in_graph for row in rows if row.kernel is not None}


class _Nodes:
    """What is looked up for every node of a region."""

    def __init__(self, region: RegionRecord) -> None:
        self._region = region
        self._names = {node.name for node in region.nodes}
        self._kernels: dict[str, dict[Role, list[str]]] = {}
        for kernel in region.kernels:
            for role in kernel.roles:
                kernels = self._kernels.setdefault(role.node, {}).setdefault(role.role, [])
                if kernel_id(region, kernel) not in kernels[-1:]:
                    kernels.append(kernel_id(region, kernel))
        self._readers: dict[str, list[str]] = {}
        for node in region.nodes:
            for name in dict.fromkeys(node.inputs):
                self._readers.setdefault(name, []).append(node_id(region, node))

    def detail(self, node: NodeRecord, digest: Digest) -> Detail:
        """One node."""
        region = self._region
        measured = (
            ("isolated", node.isolated),
            ("in-graph", node.in_graph),
            ("backward, isolated", node.backward_isolated),
            ("backward, in-graph", node.backward_in_graph),
        )
        return Detail(
            id=node_id(region, node),
            kind="node",
            title=clean(node.name),
            facts=(
                *source_facts(node.source),
                *([("calls", clean(node.callee))] if node.callee else []),
                *([("of any size", clean(told))] if (told := symbolic_text(node.outputs, node.symbolic)) else []),
                *([("module", clean(node.module))] if node.module else []),
                *measured_facts(measured, digest),
            ),
            links=tuple(self._links(node)),
            samples=series(measured),
        )

    def _links(self, node: NodeRecord) -> Iterator[Links]:
        roles = self._kernels.get(node.name, {})
        yield from ((words, tuple(roles[role])) for role, words in OF_NODE.items() if role in roles)
        inputs = tuple(node_id(self._region, name) for name in dict.fromkeys(node.inputs) if name in self._names)
        if inputs:
            yield "inputs", inputs
        if node.name in self._readers:
            yield "its results go to", tuple(self._readers[node.name])
        if node.isolated.shared_with:
            yield "measured in its place", (node_id(self._region, node.isolated.shared_with),)


class _Kernels:
    """What is looked up for every kernel of a region."""

    def __init__(self, region: RegionRecord) -> None:
        self._region = region
        self._readers: dict[str, dict[str, None]] = {}
        for kernel in region.kernels:
            for entry in kernel.traffic:
                self._readers.setdefault(entry.writer, {})[kernel_id(region, kernel)] = None
        self._refused: dict[str, list[tuple[str, str]]] = {}
        for refusal in region.refusals:
            for one, other in ((refusal.first, refusal.second), (refusal.second, refusal.first)):
                self._refused.setdefault(one, []).append((other, refusal.reason))

    def detail(
        self, kernel: KernelRecord, in_step: Measurement | None, code: KernelCode | None, digest: Digest
    ) -> Detail:
        """One kernel; `in_step` is what its calls in the recorded step took."""
        measured = [("isolated, one call", kernel.isolated), ("in-graph", kernel.in_graph)]
        measured += [("in the step", in_step)] if in_step is not None else []
        return Detail(
            id=kernel_id(self._region, kernel),
            kind="kernel",
            title=clean(kernel.key.split("/", 1)[-1]),
            facts=(*self._facts(kernel), *measured_facts(measured, digest), *self._refusals(kernel)),
            links=tuple(self._links(kernel)),
            code=_shown(code),
            samples=series(measured),
        )

    def _facts(self, kernel: KernelRecord) -> Iterator[Fact]:
        yield "called", f"{count_text(kernel.calls, 'time')} a run, in the {kernel.phase} of {self._region.key}"
        config = config_text(kernel.config)
        if config:
            yield "Triton config", clean(config)
        if kernel.roles:
            yield "roles", joined([_role_text(role) for role in kernel.roles])
        if kernel.untold:
            yield "traffic not known", clean(kernel.untold)
        yield from comparison_facts("result against eager", kernel.difference)

    def _refusals(self, kernel: KernelRecord) -> Iterator[Fact]:
        told = self._refused.get(kernel.key, ())
        if told:
            yield "not fused with", joined([f"{other}: {reason}" for other, reason in told])

    def _links(self, kernel: KernelRecord) -> Iterator[Links]:
        region = self._region
        for role, words in OF_KERNEL.items():
            names = dict.fromkeys(entry.node for entry in kernel.roles if entry.role == role)
            if names:
                yield words, tuple(node_id(region, name) for name in names)
        writers = dict.fromkeys(entry.writer for entry in kernel.traffic if entry.writer)
        if writers:
            yield "reads what these wrote", tuple(kernel_id(region, key) for key in writers)
        if kernel.key in self._readers:
            yield "what it wrote is read by", tuple(self._readers[kernel.key])
        refused = dict.fromkeys(other for other, _ in self._refused.get(kernel.key, ()))
        if refused:
            yield "not fused with", tuple(kernel_id(region, key) for key in refused)
        if kernel.isolated.shared_with:
            yield "measured in its place", (kernel_id(region, kernel.isolated.shared_with),)


def _role_text(role: NodeRole) -> str:
    """Such as `conv1: executes convolution, bytes moved 3.2 MB`."""
    through = f" by way of {', '.join(role.post_grad)}" if role.post_grad else ""
    moved = f", moves {format_traffic(role.moved_bytes)}" if role.moved_bytes else ""
    return f"{OF_KERNEL[role.role]} {role.node}{through}{moved}"


def _shown(code: KernelCode | None) -> KernelCode | None:
    """Code without characters that do not show; tabs as spaces."""
    if code is None:
        return None
    source, call = (clean_lines(text.expandtabs(4)) for text in (code.source, code.call))
    return replace(code, source=source, call=call)
