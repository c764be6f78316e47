"""Ops that are not torch's own: whether a call is of one, what of it a copy does not repeat, and who benchmarks it."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

import torch
from torch import fx
from torch._library import opaque_object
from torch._library.custom_ops import OPDEFS
from torch.utils import _pytree as pytree

from graphbench.bench_protocol import BENCH, BenchInputs
from graphbench.errors import IsolationError
from graphbench.isolate.specs import PLAIN

TORCHS: Final = frozenset(
    (
        *("aten", "prims", "prim", "inductor", "inductor_prims", "quantized", "quantization", "_quantized", "mkl"),
        *("mkldnn", "mkldnn_prepacked", "prepacked", "onednn", "sparse", "c10d", "c10d_functional", "_c10d_functional"),
        *("_c10d_functional_autograd", "_dtensor", "fsdp", "symm_mem", "rngprims", "debugprims", "debug_mode_ops"),
        *("profiler", "flex_lib", "static_runtime", "streams", "export", "onnx", "onnx_symbolic", "coor", "mempool"),
        *("_native", "higher_order", "_inductor_test", "_test"),
    )
)
"""Namespaces of ops that come with torch: all that `torch._C._dispatch_get_all_op_names` knows, torch 2.11 to 2.14."""
_OWN_MODULES: Final = ("torch", "builtins", "_operator", "operator", "math", "graphbench")
_AUTOGRAD: Final = "trampoline_autograd_apply"  # calls an `autograd.Function` that Dynamo leaves whole
_NONSTRICT: Final = "flat_apply_capture"  # calls a function marked with `nonstrict_trace`
_TRITON: Final = "triton_kernel_wrapper"

Op = torch._ops.OpOverload | torch._ops.OpOverloadPacket
Inputs = Callable[[tuple[Any, ...], Mapping[str, Any]], BenchInputs]


@dataclass(frozen=True, slots=True)
class CustomBench:
    """How an op says that it is benchmarked: `make` is its `__graphbench_bench__`, `inputs` what that is given."""

    name: str
    make: Callable[[BenchInputs], object]
    inputs: Inputs = BenchInputs

    def ready(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[], object]:
        """What makes one call with these arguments.

        Raises:
            IsolationError: it is not callable.
        """
        found = self.make(self.inputs(args, kwargs))
        if not callable(found):
            kind = type(found).__name__
            raise IsolationError(f"{BENCH} of {self.name} returned {kind}, expected a callable without arguments")
        return found


def bench_of(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CustomBench | None:
    """How a call is benchmarked by its own account, or `None` where it says nothing.

    Asked are the function, an operator's packet and its `torch.library.custom_op`, the class of an `autograd.Function`,
    what `nonstrict_trace` marked, a Triton kernel, and at last the objects among the arguments.
    """
    inputs: Inputs = BenchInputs
    if _is_named(function, _NONSTRICT):
        inputs = _nonstrict_inputs
    elif _is_triton(function):
        inputs = _triton_inputs
    for owner in (*_owners(function, args, kwargs), *_objects(args, kwargs)):
        if inspect.getattr_static(owner, BENCH, None) is not None:
            return CustomBench(op_name(owner), getattr(owner, BENCH), inputs)
    return None


def _owners(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    yield function
    if isinstance(function, Op):
        packet = function.overloadpacket if isinstance(function, torch._ops.OpOverload) else function
        yield packet
        definition = OPDEFS.get(packet._qualified_op_name)
        if definition is not None:
            yield definition
            yield definition._init_fn
    else:
        called = users_function(function, args, kwargs)
        yield called
        if _is_triton(function):
            yield getattr(called, "fn", None)  # below an autotuner


def users_function(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What of the user's a function of torch's calls, a Triton kernel among others; any other function itself.

    Source: closures of `torch._dynamo.variables.misc.produce_trampoline_autograd_apply` and of
        `TorchInGraphFunctionVariable._call_nonstrict_traceable_function`; torch 2.11 keeps the latter in a `TreeSpec`,
        2.13 and 2.14 in a `_LeafCallable`.
    """
    if _is_triton(function):
        return _kernel_table().get_kernel(kwargs["kernel_idx"])
    if _is_named(function, _AUTOGRAD):
        return inspect.getclosurevars(function).nonlocals.get("fn_cls", function)
    if _is_named(function, _NONSTRICT) and args:
        held = getattr(getattr(args[0], "context", None), "value", None)
        patched = getattr(args[0], "_fn", getattr(held, "func", None))
        if isinstance(patched, FunctionType):
            return inspect.getclosurevars(patched).nonlocals.get("fn", function)
    return function


def _is_named(function: Any, name: str) -> bool:
    """Whether it is the function of that name that Dynamo makes."""
    return isinstance(function, FunctionType) and function.__name__ == name and "torch._dynamo" in function.__module__


def _is_triton(function: Any) -> bool:
    return isinstance(function, torch._ops.HigherOrderOperator) and function.name().startswith(_TRITON)


def _kernel_table() -> Any:
    """Users' Triton kernels by the numbers that graphs have in their place."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table  # a second; Dynamo has imported it

    return kernel_side_table


def _triton_inputs(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BenchInputs:
    """Source: `torch._higher_order_ops.triton_kernel_wrap.triton_kernel_wrapper_mutation`, torch 2.11 to 2.14."""
    constants = _kernel_table().get_constant_args(kwargs["constant_args_idx"])
    return BenchInputs((), {**constants, **kwargs["kwargs"], "grid": kwargs["grid"]})


def _nonstrict_inputs(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BenchInputs:
    """Source: `torch._higher_order_ops.flat_apply.flat_apply`: a function, a tree, its leaves. torch 2.11 to 2.14."""
    given, named = pytree.tree_unflatten(args[2:], args[1])
    return BenchInputs(tuple(given), named)


def is_foreign(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call is of an op that is not torch's own, or runs a graph that calls one.

    Args:
        function: an operator, or what a node of a Dynamo graph calls.
        args: its arguments, among them the graphs of a higher-order op.
    """
    bodies = [module for body in args if isinstance(body, fx.GraphModule) for module in body.modules()]
    nodes = [node for body in bodies if isinstance(body, fx.GraphModule) for node in body.graph.nodes]
    if any(node.op == "call_function" and is_foreign(node.target, node.args) for node in nodes):
        return True
    if isinstance(function, torch._ops.HigherOrderOperator):
        return _is_triton(function) or any(isinstance(entry, Op) and is_foreign(entry, ()) for entry in args)
    if isinstance(function, Op):
        return op_name(function).partition(".")[0] not in TORCHS
    if _is_named(function, _AUTOGRAD) or _is_named(function, _NONSTRICT):
        return True
    return _module_of(function).partition(".")[0] not in _OWN_MODULES


def op_name(op: Any) -> str:
    """What an op is called: `demo.scale` of an operator, whatever its overload."""
    name = getattr(op, "_qualname", None) or getattr(op, "_qualified_op_name", None)
    if isinstance(op, torch._ops.OpOverload):
        name = op.overloadpacket._qualified_op_name
    if isinstance(name, str):
        return name.replace("::", ".")
    return str(getattr(op, "__qualname__", None) or getattr(op, "__name__", None) or type(op).__qualname__)


def _module_of(thing: Any) -> str:
    """Where it comes from; what tells nothing, as a method of a tensor, counts as torch's."""
    return getattr(thing, "__module__", None) or "torch"


def opaque_argument(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """The type of an argument whose state no copy of a tensor puts back, or `None`.

    Source: `torch._library.opaque_object.is_opaque_value_type`: what does not change. torch 2.11 to 2.14.
    """
    return next((type(entry).__qualname__ for entry in _objects(args, kwargs) if _may_change(entry)), None)


def _objects(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """The arguments that are neither tensors nor plain values nor torch's own."""
    for leaf in pytree.tree_leaves((args, dict(kwargs))):
        own = isinstance(leaf, (torch.Tensor, *PLAIN, type, FunctionType))
        if isinstance(leaf, torch.ScriptObject) or not (own or _module_of(type(leaf)).partition(".")[0] == "torch"):
            yield leaf


def _may_change(entry: Any) -> bool:
    return not (isinstance(entry, enum.Enum) or opaque_object.is_opaque_value_type(type(entry)))
