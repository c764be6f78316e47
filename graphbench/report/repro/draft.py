"""What a row's script computes: the tensors that it builds, and the calls that it makes on them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphbench.measurements import JsonValue, TensorSpec
from graphbench.records import KernelRecord, NodeRecord, Phase, PostGradNode, RegionRecord
from graphbench.report.repro import expressions
from graphbench.report.repro.bounds import Step
from graphbench.report.repro.expressions import NotRebuilt, variable
from graphbench.torch_names import DTYPES, op_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an argument comes from: a tensor or several (`outputs`), a plain `value`, or a call that computes one."""

    outputs: tuple[TensorSpec, ...] = ()
    value: JsonValue = None
    leaf: bool = False
    made_by: NodeRecord | PostGradNode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A tensor that the script builds: `variable` is its name there, `name` that in the profile.

    Those of one `storage`, dtype and device share memory: it is the name of what they are views of.
    """

    name: str
    variable: str
    spec: TensorSpec
    leaf: bool
    storage: str


@dataclass(slots=True)
class Draft:
    """Body of the script's `call`, line by line, and all that it reads. `steps` are its calls as plain data."""

    sources: Mapping[str, Source]
    tensors: dict[str, Built] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    result: str = "None"
    compiled: bool = False
    _variables: set[str] = field(default_factory=set)
    _open: list[str] = field(default_factory=list)

    def resolve(self, name: str) -> str:
        """The expression for a value that comes from outside.

        Raises:
            NotRebuilt: the profile does not tell what it is.
        """
        source = self.sources.get(name)
        if source is None:
            raise NotRebuilt(f"it reads {name[:80]!r}, of which the profile holds nothing")
        if len(source.outputs) == 1:
            return self._tensor(name, source.outputs[0], leaf=source.leaf)
        if source.outputs:
            items = [
                self._tensor(f"{name}[{index}]", spec, leaf=source.leaf) for index, spec in enumerate(source.outputs)
            ]
            return f"({', '.join(items)})"
        return self._value(name, source)

    def spec(self, name: str) -> TensorSpec | None:
        """The spec of a value that is one tensor."""
        source = self.sources.get(name)
        return source.outputs[0] if source is not None and len(source.outputs) == 1 else None

    def fresh(self, name: str) -> str:
        """A free variable for a result."""
        return variable(name, self._variables)

    def note(self, result: str, callee: str, arguments: JsonValue) -> None:
        """Remember a call for what its arguments' values must be.

        Raises:
            NotRebuilt: it checks them, and a script's are synthetic.
        """
        if op_name(callee).startswith("_assert"):
            raise NotRebuilt("it checks values, and those of a script are synthetic")
        args, kwargs = expressions.parts(arguments)
        self.steps.append(Step(result=result, op=op_name(callee), args=args, kwargs=dict(kwargs)))

    def _tensor(self, name: str, spec: TensorSpec, *, leaf: bool) -> str:
        if name not in self.tensors:
            _check(name, spec)
            storage = self._viewed(name)
            self.tensors[name] = Built(name=name, variable=self.fresh(name), spec=spec, leaf=leaf, storage=storage)
        return self.tensors[name].variable

    def _viewed(self, name: str) -> str:
        """What a tensor is a view of, however indirectly; itself where it is none."""
        for _ in range(100):
            source = self.sources.get(name)
            node = source.made_by if source is not None else None
            is_view = node.kind == "view" if isinstance(node, NodeRecord) else node is not None and node.is_view
            if node is None or not is_view or not node.inputs:
                break
            name = node.inputs[0]
        return name

    def _value(self, name: str, source: Source) -> str:
        """A plain value, or the computation of one from sizes."""
        if source.made_by is None:
            if source.value is None:
                raise NotRebuilt(f"it reads {name[:80]!r}, a size of which there is no example")
            return expressions.expression(source.value, self.resolve)
        if name in self._open or len(self._open) > 50:
            raise NotRebuilt(f"it reads {name[:80]!r}, which is computed from itself: the profile is damaged")
        self._open.append(name)
        made = expressions.call(source.made_by.op, source.made_by.callee, source.made_by.arguments, self.resolve)
        self._open.pop()
        return made


def node_draft(region: RegionRecord, node: NodeRecord, *, backward: bool = False) -> Draft:
    """The script of a node: its own call, of which it may time the backward.

    Raises:
        NotRebuilt: the call cannot be rebuilt.
    """
    if node.kind == "state":
        raise NotRebuilt("it sets state only and is no timed row")
    if backward and not any(spec.requires_grad for spec in node.outputs):
        raise NotRebuilt("it has no backward: none of its results requires grad")
    return _one_call(Draft(node_sources(region)), node)


def node_sources(region: RegionRecord) -> dict[str, Source]:
    """What the nodes of a region may read, by name: its inputs, and what other nodes compute."""
    inputs = {
        entry.name: Source(
            outputs=() if entry.spec is None else (entry.spec,), value=entry.value, leaf=entry.kind == "parameter"
        )
        for entry in region.inputs
    }
    return {**inputs, **{entry.name: Source(outputs=entry.outputs, made_by=entry) for entry in region.nodes}}


def post_grad_draft(region: RegionRecord, node: PostGradNode) -> Draft:
    """The script of a post-grad node: its own call.

    Raises:
        NotRebuilt: the call cannot be rebuilt.
    """
    if "." in node.name:
        raise NotRebuilt("it is part of a graph that an op runs, of which the profile does not hold the arguments")
    return _one_call(Draft(_sources(region, node.phase)), node)


def kernel_draft(region: RegionRecord, kernel: KernelRecord) -> Draft:
    """The script of a kernel: the post-grad nodes that it executes, to be compiled where Inductor generated it.

    Raises:
        NotRebuilt: they cannot be rebuilt.
    """
    if not kernel.executes:
        raise NotRebuilt("it executes no post-grad node that is known, so that there is nothing to compile")
    draft = Draft(_sources(region, kernel.phase), compiled=kernel.kind in ("triton", "cpp", "template"))
    body = _Body(region, kernel, draft)
    for node in body.nodes.values():
        if node.name in body.executed:
            body.value(node.name)
    results = [body.assigned[node.name] for node in body.nodes.values() if body.is_result(node)]
    last = next((body.assigned[name] for name in reversed(kernel.executes) if name in body.assigned), "None")
    draft.result = f"({', '.join(results)},)" if results else last
    return draft


def _one_call(draft: Draft, node: NodeRecord | PostGradNode) -> Draft:
    read = [name for name in expressions.names_in(expressions.parts(node.arguments)[0][:1]) if name in draft.sources]
    if node.callee == "_operator.getitem" and read and draft.spec(read[0]) is None:
        raise NotRebuilt("it takes a result out of several, which moves nothing")
    draft.result = expressions.call(node.op, node.callee, node.arguments, draft.resolve)
    draft.note(node.name, node.callee, node.arguments)
    return draft


def _sources(region: RegionRecord, phase: Phase) -> dict[str, Source]:
    found = {
        entry.name: Source(outputs=() if entry.spec is None else (entry.spec,), value=entry.value)
        for entry in region.graph_inputs
        if entry.phase == phase
    }
    found.update(
        (node.name, Source(outputs=node.outputs, made_by=node)) for node in region.post_grad if node.phase == phase
    )
    return found


class _Body:
    """The statements of a kernel's function."""

    def __init__(self, region: RegionRecord, kernel: KernelRecord, draft: Draft) -> None:
        self.nodes = {node.name: node for node in region.post_grad if node.phase == kernel.phase}
        self.executed = set(kernel.executes)
        self.assigned: dict[str, str] = {}
        self._recomputed = set(kernel.recomputes)
        self._draft = draft
        self._users: dict[str, list[PostGradNode]] = {}
        for node in self.nodes.values():
            for source in node.inputs:
                self._users.setdefault(source, []).append(node)
        self._others = [
            set(other.executes)
            for other in region.kernels
            if other.phase == kernel.phase and other.key != kernel.key and other.executes
        ]

    def value(self, name: str, depth: int = 0) -> str:
        """The variable that holds a node's value; calls and views that the kernel makes are written first."""
        node = self.nodes.get(name)
        if name in self.assigned:
            return self.assigned[name]
        inside = node is not None and (name in self.executed or (self._draft.compiled and node.is_view))
        if node is None or not inside or not node.outputs:
            return self._draft.resolve(name)
        if depth > 200:
            raise NotRebuilt("its nodes read one another in a circle: the profile is damaged")
        made = expressions.call(node.op, node.callee, node.arguments, lambda source: self.value(source, depth + 1))
        self._draft.note(name, node.callee, node.arguments)
        self.assigned[name] = self._draft.fresh(name)
        self._draft.lines.append(f"{self.assigned[name]} = {made}")
        return self.assigned[name]

    def is_result(self, node: PostGradNode) -> bool:
        """Whether the kernel writes a node's value for others: the graph returns it, or another kernel reads it."""
        computed = node.name in self.executed - self._recomputed and not node.is_view and len(node.outputs) == 1
        return computed and (node.returned or self._is_read(node.name))

    def _is_read(self, name: str) -> bool:
        """Whether a kernel that does not compute a node itself reads it, directly or through views."""
        readers = [executed for executed in self._others if name not in executed]
        seen, pending = {name}, [name]
        while pending:
            for user in self._users.get(pending.pop(), ()):
                if any(user.name in executed for executed in readers):
                    return True
                if user.is_view and user.name not in seen:
                    seen.add(user.name)
                    pending.append(user.name)
        return False


def _check(name: str, spec: TensorSpec) -> None:
    shown = name[:80]
    if spec.dtype not in DTYPES:
        raise NotRebuilt(f"{shown!r} is a tensor of {spec.dtype[:40]!r}, which no script can build")
    expressions.device(spec.device)
    if len(spec.stride) != len(spec.shape):
        raise NotRebuilt(f"{shown!r} has no strides: a sparse, nested or wrapped tensor")
    if any(size < 0 for size in (*spec.shape, *spec.stride, spec.storage_offset)):
        raise NotRebuilt(f"{shown!r} has a size that is not known")
