"""A Dynamo graph as records: one per call, with the prototype of its arguments, its outputs, source and module."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import fx

from graphbench.calls import callee, prototype
from graphbench.capture import source_lines
from graphbench.capture.control_flow import compilable, eagerly
from graphbench.measurements import TensorSpec
from graphbench.records import InputRecord, NodeKind, NodeRecord
from graphbench.symbolic import NO_SIZES, is_symbolic, symbolic_sizes
from graphbench.tensors import fake_specs, spec_of

STATE_NODES = re.compile(
    r"^(_set_grad_enabled|_?(enter|exit)_autocast|_(enter|exit)_inference_mode|_saved_tensors_hooks_\w+|set_stream|"
    r"(current_|set_|_)?stream\w*|record_event|wait_event|wait_stream|synchronize|_(vmap|grad|jvp|func)_\w+_nesting|"
    r"_set_fwd_grad_enabled|lazy_load_decompositions|_functorch\w*|manual_seed|set_default_dtype|"
    r"set_inplace_requires_grad_allowed|_(enter|exit)_dual_level|_maybe_load_decompositions)$"
)
MODULE_ROOT = re.compile(r"^L\['(self|fn)'\]")  # the compiled module itself; `fn` is Dynamo's, for torch's own modules
MODULE_KEY = re.compile(r"\['([^']+)'\]|\.(\w+)|\[(\d+)\]")


def copy_graph(gm: fx.GraphModule, *, to_compile: bool = False) -> fx.GraphModule:
    """A copy that Inductor's passes will not change: same node names, same tensors, metadata shared.

    Its control flow is Python's, to be run eagerly, or torch's, where the copy is `to_compile`.
    """
    graph = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    result = graph.graph_copy(gm.graph, copied, return_output_node=True)
    output = next(node for node in gm.graph.nodes if node.op == "output")
    if result is not None:
        value = result[0] if isinstance(result, tuple) else result
        graph.output(value).meta.update(output.meta)
    for original, twin in copied.items():
        twin.name = original.name
        if (source := getattr(original, "_dynamo_source", None)) is not None:
            vars(twin)["_dynamo_source"] = source
        twin.target = compilable(twin.target) if to_compile else eagerly(twin.target)
    return fx.GraphModule(gm, graph)


def node_records(gm: fx.GraphModule, sizes: Mapping[str, int] = NO_SIZES) -> tuple[NodeRecord, ...]:
    """Records of all calls of a graph, in program order, unmeasured; of any sizes, where its symbols have these."""
    return tuple(_node_record(node, sizes) for node in gm.graph.nodes if node.op.startswith("call_"))


def _node_record(node: fx.Node, sizes: Mapping[str, int]) -> NodeRecord:
    example = node.meta.get("example_value")
    outputs = tuple(fake_specs(example, sizes))
    return NodeRecord(
        name=node.name,
        op=node.op,
        op_type=op_type(node),
        kind=_static_kind(node, outputs),
        inputs=tuple(source.name for source in node.all_input_nodes),
        arguments={"args": prototype(node.args), "kwargs": prototype(node.kwargs)},
        outputs=outputs,
        module=_module_path(node),
        source=source_lines.from_text(node.meta.get("stack_trace")),
        callee=callee(node),
        symbolic=_symbolic(example) if outputs else (),
    )


def _symbolic(example: object) -> tuple[tuple[str, ...], ...]:
    return tuple(symbolic_sizes(example)) if is_symbolic(example) else ()


def op_type(node: fx.Node) -> str:
    """`linear`, `add`, `softmax`: the target's name without its module; `ns.op` for custom ops."""
    target = node.target
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload):
        return target._opname if target.namespace == "aten" else f"{target.namespace}.{target._opname}"
    return str(getattr(target, "__name__", target))


def _static_kind(node: fx.Node, outputs: Sequence[TensorSpec]) -> NodeKind:
    if STATE_NODES.match(op_type(node)):
        return "state"
    if not outputs and "example_value" in node.meta:
        return "host"
    return "compute"


def _module_path(node: fx.Node) -> str:
    """`layers.0.mlp` from the innermost entry of `meta["nn_module_stack"]`."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = MODULE_ROOT.sub("", str(list(stack.values())[-1][0]))
    parts = [name for groups in MODULE_KEY.findall(path) for name in groups if name]
    hidden = {"_modules", "_orig_mod"}
    return ".".join(part for part in parts if part not in hidden)


def written_by_user_kernels(gm: fx.GraphModule) -> set[str]:
    """Names of the inputs that user-written Triton kernels may write, directly or through views.

    Source: `torch.ops.higher_order.triton_kernel_wrapper_mutation`, whose writes autograd does not see, torch 2.13.
    """
    found: set[str] = set()
    for node in gm.graph.nodes:
        if op_type(node) != "triton_kernel_wrapper_mutation":
            continue
        for source in node.all_input_nodes:
            while source.op.startswith("call_") and source.all_input_nodes:
                source = source.all_input_nodes[0]  # what a view views is its first argument
            found.add(source.name)
    return found


def input_records(gm: fx.GraphModule, values: Sequence[Any]) -> tuple[InputRecord, ...]:
    """Records of a region's inputs as it was called with them; `mutated` is filled in later."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return tuple(_input_record(node, value) for node, value in zip(placeholders, values, strict=True))


def _input_record(node: fx.Node, value: Any) -> InputRecord:
    source, example = _source_name(node), node.meta.get("example_value")
    symbolic = symbolic_sizes(example)[0] if is_symbolic(example) else ()
    if not isinstance(value, torch.Tensor):
        return InputRecord(name=node.name, source=source, kind="value", value=prototype(value), symbolic=symbolic)
    if isinstance(value, torch.nn.Parameter):
        return InputRecord(name=node.name, source=source, kind="parameter", spec=spec_of(value), symbolic=symbolic)
    kind: Literal["buffer", "tensor"] = "buffer" if "_buffers" in source else "tensor"
    return InputRecord(name=node.name, source=source, kind=kind, spec=spec_of(value), symbolic=symbolic)


def _source_name(node: fx.Node) -> str:
    """Dynamo's expression for an input (`node._dynamo_source`, a method until 2.12, a property later)."""
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", None)
    return str(name() if callable(name) else name or node.target)
