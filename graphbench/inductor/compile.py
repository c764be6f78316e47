"""Compiles a Dynamo graph through Inductor exactly as `backend="inductor"` would, and reports every graph it makes."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Final, cast, get_origin

import torch
from torch import fx

from graphbench.errors import UsageError
from graphbench.inductor import hook
from graphbench.inductor.joint import JointGraph, reading, reading_scalars
from graphbench.inductor.origins import DynamoGraphs
from graphbench.inductor.refusals import Refusal
from graphbench.inductor.sites import unheard
from graphbench.inductor.symbolic import SymbolicParts
from graphbench.probes.features import require, why_not
from graphbench.provenance.claims import KernelOrigins
from graphbench.records import Fate, GraphInput, Phase, PostGradNode
from graphbench.supported import OLDEST_TORCH, torch_release

OPTIONS = {
    "mode": "one of torch.compile's modes, such as 'max-autotune'",
    "inductor": "a dict of Inductor options, as torch.compile(..., options=) takes them",
    "inner": "another backend, by name or as a function, whose graphs are measured instead of Inductor's",
    "groups": "how many groups of sizes of a graph that takes any are kept to be measured",
}
NO_PYTHON = ("cpp_wrapper", "fx_wrapper")
MOST_GROUPS: Final = 8
"""So many groups of sizes of one graph are captured where nobody says."""
REFUSED = {
    "cpp_wrapper": "its generated wrapper is C++, in which kernel calls cannot be labelled",
    "fx_wrapper": "its generated wrapper is a graph, in which kernel calls cannot be labelled",
    "freezing": "Dynamo reads only the global setting, so the option would silently do nothing",
}
# Graphs must be lowered anew for the hook to hear of them; compiled kernels still come from their caches.
MEASURABLE = {"trace.provenance_tracking_level": 1, "fx_graph_cache": False, "fx_graph_remote_cache": False}


@dataclass(slots=True)
class CompiledGraph:
    """One graph that Inductor compiled for a region.

    `artifact` is its `CompiledFxGraph`, `None` for a no-op graph; `lowered` the graph after all of Inductor's passes,
    the very one that it lowered. `fault` says why its kernels could not be mapped. `vanished` are the fates of Dynamo
    nodes that a forward graph no longer names. `refusals` are pairs of kernels that the scheduler would not fuse, and
    why. `compile_ns` is the time that Inductor took. `prepared` is its `wrapper.Wrapper`, once somebody asked for it.
    `symbolic` is what depends on the sizes of a call, where it takes any. `outside` are the kernels that Inductor says
    cannot be in a CUDA graph, by their key, and why.

    Source: `torch._inductor.compile_fx._InProcessFxCompile.codegen_and_compile` changes the graph in place, and nothing
    changes it afterwards, torch 2.11, 2.13 and 2.14.
    """

    phase: Phase
    artifact: Any
    lowered: fx.GraphModule | None = None
    post_grad: tuple[PostGradNode, ...] = ()
    inputs: tuple[GraphInput, ...] = ()
    kernels: tuple[KernelOrigins, ...] = ()
    fault: str = ""
    vanished: Mapping[str, Fate] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    compile_ns: int | None = None
    prepared: Any = None
    symbolic: SymbolicParts | None = None
    asked_for_cuda_graphs: bool = False
    outside: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """What `torch.compile` passed beside the graph, as Inductor's `config_patches`; or the `inner` backend instead.

    So many `groups` of sizes of a graph that takes any are kept.
    """

    patches: Mapping[str, Any] = field(default_factory=dict)
    inner: Callable[..., Any] | None = None
    inner_name: str = ""
    groups: int = MOST_GROUPS

    @classmethod
    def parse(cls, mode: str | None, options: Mapping[str, Any] | None) -> BackendOptions:
        """Read `mode=` and `options=`.

        Raises:
            UsageError: an unknown option, mode or Inductor option, or one that cannot be measured.
        """
        given = dict(options or {})
        if given or mode is not None:
            require("options")
        unknown = sorted(set(given) - set(OPTIONS))
        if unknown:
            known = "; ".join(f"'{name}': {what}" for name, what in OPTIONS.items())
            raise UsageError(
                f"graphbench: unknown option {', '.join(map(repr, unknown))} in torch.compile(options=...)",
                hint=f"known options are {known}. Measuring options are keywords of graphbench.measure()",
            )
        patches = {**_mode_patches(given.get("mode", mode)), **_inductor_patches(given.get("inductor", {}))}
        inner, name = other_backend(given.get("inner", "inductor"))
        if inner is None:
            _refuse_global(patches)
        if inner is not None and patches:
            raise UsageError(
                f"graphbench: Inductor's modes and options mean nothing to the inner backend {name!r}",
                hint="leave out mode= and 'inductor', or 'inner'",
            )
        return cls(patches, inner, name, _groups(given.get("groups", MOST_GROUPS)))


def _groups(given: Any) -> int:
    if type(given) is not int or given < 1:
        raise UsageError(f"graphbench: option 'groups': found {given!r}, expected a whole number above 0")
    return given


def other_backend(given: Any) -> tuple[Callable[..., Any] | None, str]:
    """A backend of `torch.compile` other than Inductor, and what it is called; `None` for Inductor.

    Raises:
        UsageError: none of that name is registered, or it is graphbench's own.

    Source: `torch._dynamo.list_backends`, `torch._dynamo.backends.registry.lookup_backend`, torch 2.11 to 2.14.
    """
    if given in ("inductor", None):
        return None, ""
    known = [name for name in torch._dynamo.list_backends(exclude_tags=()) if name != "graphbench"]
    if isinstance(given, str):
        if given not in known:
            close = ", ".join(difflib.get_close_matches(given, known)) or ", ".join(known)
            raise UsageError(f"graphbench: unknown inner backend {given!r}", hint=f"known backends: {close}")
        found: Callable[..., Any] = torch._dynamo.backends.registry.lookup_backend(given)
        return found, given
    if not callable(given):
        raise UsageError(
            f"graphbench: option 'inner' must be a backend's name or function, found {type(given).__name__}",
            hint="for instance options={'inner': 'aot_eager'}",
        )
    return given, str(getattr(given, "__name__", type(given).__name__))


def _mode_patches(mode: str | None) -> dict[str, Any]:
    """Source: `torch._inductor.list_mode_options`, torch 2.13."""
    if mode is None or mode == "default":
        return {}
    from torch._inductor import list_mode_options

    known = list_mode_options()
    if mode not in known:
        raise UsageError(f"graphbench: unknown mode {mode!r}", hint=f"modes of this torch: {', '.join(sorted(known))}")
    return dict(known[mode])


def inductor_modes() -> tuple[str, ...]:
    """The names that `torch.compile(mode=)` takes, `default` first.

    Source: `torch._inductor.list_mode_options`, torch 2.11 to 2.14.
    """
    from torch._inductor import list_mode_options

    return ("default", *sorted(set(list_mode_options()) - {"default"}))


def _inductor_patches(given: Any) -> dict[str, Any]:
    from torch._inductor import config

    if not isinstance(given, Mapping):
        raise UsageError(f"graphbench: option 'inductor' must be a dict, found {type(given).__name__}")
    if not given:
        return {}
    known = config.get_config_copy()
    patches = {str(key).replace("-", "_"): value for key, value in given.items()}
    for key, value in patches.items():
        if key not in known:
            close = ", ".join(difflib.get_close_matches(key, known)) or "none"
            hint = f"known options of a similar name: {close}; all: torch._inductor.list_options()"
            raise UsageError(f"graphbench: unknown Inductor option {key!r}", hint=hint)
        if key in REFUSED and value:
            raise UsageError(
                f"graphbench: Inductor option {key!r} cannot be measured: {REFUSED[key]}", hint="leave it out"
            )
        _check_type(key, value)
    return patches


def _refuse_global(patches: Mapping[str, Any]) -> None:
    """Refuse a setting of the whole process that cannot be measured, unless the options override it."""
    from torch._inductor import config

    for key in NO_PYTHON:
        if patches.get(key, getattr(config, key, False)):
            raise UsageError(
                f"graphbench: Inductor option {key!r} cannot be measured: {REFUSED[key]}",
                hint=f"set torch._inductor.config.{key} = False, or pass options={{'inductor': {{{key!r}: False}}}}",
            )


def _check_type(key: str, value: Any) -> None:
    """Refuse a value of another type, as plain Inductor does; those of generic types it takes unseen.

    Source: `torch._TorchCompileInductorWrapper.apply_options`, `torch._inductor.config.get_type`, torch 2.11 to 2.14.
    """
    from torch._inductor import config

    expected = config.get_type(key)  # type: ignore[attr-defined]
    checkable = isinstance(expected, type) and get_origin(expected) is None
    if checkable and not isinstance(value, expected):
        raise UsageError(
            f"graphbench: Inductor option {key!r}: found {value!r}, expected a value of type {expected.__name__}",
            hint=f"its default is {config.get_config_copy()[key]!r}",
        )


def compile_region(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: BackendOptions,
    on_graph: Callable[[CompiledGraph], None],
) -> Callable[..., Any]:
    """Compile a Dynamo graph; `on_graph` hears of its forward graph now, of its backward graph when that is compiled.

    The AOTAutograd and FX graph caches are passed by, as a graph served from them is never lowered; the caches of
    compiled kernels are used and shared with plain Inductor.

    One graph at a time: the hook stands in a module of torch's, and backward graphs compile in whatever thread runs
    them first. The lock is the one that Dynamo holds while it compiles, also for other backends.

    Source: `torch._inductor.compile_fx.compile_fx` with `inner_compile=`, `torch._dynamo.convert_frame.compile_lock`,
        torch 2.11, 2.13 and 2.14.
    """
    from torch._dynamo.convert_frame import compile_lock
    from torch._functorch import config as functorch_config
    from torch._inductor import compile_fx, config

    unmapped = why_not("mapping")
    wants_graphs = bool(options.patches.get("triton.cudagraphs", config.triton.cudagraphs))
    joint = JointGraph(DynamoGraphs.of(gm))
    measurable = _measurable()
    if not unmapped:
        seen = reading(joint, options.patches.get("joint_custom_pre_pass", config.joint_custom_pre_pass))
        measurable = {**measurable, **seen}

    def inner(inner_gm: fx.GraphModule, inner_inputs: Sequence[Any], **kwargs: Any) -> Any:
        phase: Phase = "backward" if kwargs.get("is_backward") else "forward"
        started_ns = perf_counter_ns()
        with compile_lock, config.patch(_measurable()), _listening(unmapped) as emitted:
            artifact = compile_fx.compile_fx_inner(inner_gm, inner_inputs, **kwargs)
        compile_ns = perf_counter_ns() - started_ns
        if not hasattr(artifact, "source_code"):  # a graph that does nothing is run as it is
            on_graph(CompiledGraph(phase, None, compile_ns=compile_ns))
            return artifact
        found = _mapped(phase, artifact, emitted, inner_gm, joint)
        found.compile_ns, found.asked_for_cuda_graphs, found.outside = compile_ns, wants_graphs, emitted.outside()
        on_graph(found)
        return artifact

    with functorch_config.patch(enable_autograd_cache=False), reading_scalars(joint):
        compiled: Any = compile_fx.compile_fx(
            gm,
            example_inputs,
            inner_compile=inner,
            config_patches={**options.patches, **measurable},
        )
    return cast("Callable[..., Any]", compiled)


def _measurable() -> dict[str, Any]:
    """The switches that this torch has. The backward compiles later, outside `compile_fx`'s own patches."""
    from torch._inductor import config

    known = config.get_config_copy()
    return {key: value for key, value in MEASURABLE.items() if key in known}


def _listening(unmapped: str) -> contextlib.AbstractContextManager[hook.Emitted]:
    """Nothing is listened to where kernels cannot be mapped: what is misread would be a wrong map."""
    return contextlib.nullcontext(hook.Emitted(fault=unmapped)) if unmapped else hook.listening()


def compile_plainly(gm: fx.GraphModule, example_inputs: Sequence[Any], options: BackendOptions) -> Callable[..., Any]:
    """The result of Inductor, or of the backend that was asked for, of which nothing can be measured.

    Source: `torch._inductor.compile`, torch 2.11, 2.13 and 2.14.
    """
    import torch._inductor

    if options.inner is not None:
        return cast("Callable[..., Any]", options.inner(gm, example_inputs))
    return cast("Callable[..., Any]", torch._inductor.compile(gm, list(example_inputs), options=dict(options.patches)))


def _mapped(
    phase: Phase,
    artifact: Any,
    emitted: hook.Emitted,
    lowered: fx.GraphModule,
    joint: JointGraph,
) -> CompiledGraph:
    fault = emitted.fault or joint.fault or _unread(artifact, emitted, lowered, joint)
    if fault:
        return CompiledGraph(phase, artifact, lowered, fault=fault)
    try:
        nodes, kernels = hook.to_records(emitted, lowered.graph, phase, joint)
        inputs = hook.graph_inputs(lowered.graph, phase)
        symbolic = hook.symbolic_parts(emitted, lowered.graph)
        vanished = joint.vanished(lowered.graph) if phase == "forward" else {}
    except Exception as error:  # noqa: BLE001 - the user's model must run whatever we fail to read; reports say so
        return CompiledGraph(phase, artifact, lowered, fault=f"{type(error).__name__}: {error}")
    return CompiledGraph(
        phase, artifact, lowered, nodes, inputs, kernels, "", vanished, emitted.refusals(), symbolic=symbolic
    )


def _unread(artifact: Any, emitted: hook.Emitted, lowered: fx.GraphModule, joint: JointGraph) -> str:
    """Why what was heard while a graph was compiled is not all that there was to hear; "" if it is.

    What one kernel executes follows from what the others do: with one of them missing, the map of all is wrong.
    """
    if not joint.shown and any(node.op == "call_function" for node in lowered.graph.nodes):
        return "Inductor did not show the joint graph (joint_custom_pre_pass)"
    return unheard(artifact.source_code, [key for key, _, _ in emitted.kernels])


def reset_cuda_graphs() -> None:
    """Let go of captured CUDA graphs and their memory, as Inductor's own backend does on `torch._dynamo.reset()`.

    Source: `torch._inductor.cudagraph_trees.reset_cudagraph_trees`, torch 2.13.
    """
    if torch.cuda.is_initialized():
        from torch._inductor.cudagraph_trees import reset_cudagraph_trees

        reset_cudagraph_trees()


def options_in_force(options: BackendOptions) -> tuple[tuple[str, str], ...]:
    """Inductor options that the user passed to `torch.compile`, for the profile's header."""
    return tuple(sorted((key, repr(value)) for key, value in options.patches.items()))


def torch_is_supported() -> bool:
    """Whether this torch is 2.11 or newer; builds such as `2.11.0a0+vendor` count as 2.11."""
    return torch_release(torch.__version__) >= OLDEST_TORCH
