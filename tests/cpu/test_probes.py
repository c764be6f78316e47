"""A torch that differs from those that graphbench was checked with is refused by name, and the user's model runs."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import compile_fx, debug
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.scheduler import WhyNoFuse

import graphbench
from graphbench import session
from graphbench.errors import SetupError
from graphbench.inductor import compile as inductor
from graphbench.inductor import hook
from graphbench.probes import features
from graphbench.probes.probe import Probe
from graphbench.probes.relied_on import FEATURES, FeatureName
from graphbench.records import ProfileRecord, RegionRecord
from tests.cpu.stories import QUICK, captured, compiled, quick

PROBES = [(name, probe) for name, feature in FEATURES.items() for probe in feature.probes]
HOOK = "torch._inductor.debug.set_kernel_post_grad_provenance_tracing"


@pytest.fixture(autouse=True)
def _looked_at_anew() -> Iterator[None]:
    features.forget()
    yield
    features.forget()


def square(x: torch.Tensor) -> torch.Tensor:
    """No C++ kernel: compiles in no time."""
    return x @ x


def ones() -> torch.Tensor:
    return torch.ones(4, 4)


# the torch that is installed


@pytest.mark.parametrize("name", FEATURES)
def test_the_installed_torch_has_what_a_feature_relies_on(name: FeatureName) -> None:
    assert features.faults(name) == ()


@contextlib.contextmanager
def without(symbol: str) -> Iterator[None]:
    """While inside, torch lacks it, and the classes that its owner has it from; else the owner is another object."""
    owner_name, _, name = symbol.rpartition(".")
    owner = resolve_name(owner_name)
    classes = inspect.getmro(owner if inspect.isclass(owner) else type(owner))
    with pytest.MonkeyPatch.context() as patch:
        for place in (owner, *(base for base in classes if base is not object and name in vars(base))):
            with contextlib.suppress(AttributeError, KeyError):
                patch.delattr(place, name)
        if hasattr(owner, name) and not name.startswith("__"):
            above, _, last = owner_name.rpartition(".")
            patch.setattr(resolve_name(above), last, SimpleNamespace())
        yield


@pytest.mark.parametrize(("name", "probe"), PROBES, ids=lambda value: getattr(value, "symbol", value))
def test_a_symbol_that_is_gone_is_named(name: FeatureName, probe: Probe) -> None:
    if not probe.applies:
        pytest.skip("this torch is built without CUDA")
    with without(probe.symbol):
        assert probe.fault().startswith(probe.symbol)
        with pytest.raises(SetupError) as caught:
            features.require(name)
    assert probe.symbol in str(features.faults(name))
    assert caught.value.message.startswith(f"torch {torch.__version__} is not as {FEATURES[name].what} needs it: ")
    assert caught.value.message.endswith("; checked with torch 2.11, 2.13 and 2.14")


# a map that could be wrong is none


def renamed_argument(node_schedule: Any, name: str, is_extern: bool = False) -> Any:
    return _PLAIN_HOOK(node_schedule, name, is_extern)


_PLAIN_HOOK = debug.set_kernel_post_grad_provenance_tracing


def break_hook(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(debug, hook.HOOK, renamed_argument)


def break_marks(patch: pytest.MonkeyPatch) -> None:
    """Generated code is not marked any more."""
    patch.setattr(PythonWrapperCodegen, "write_provenance_debug_handle", lambda self, name, handle=None: None)
    patch.setitem(FEATURES, "labelling", FEATURES["Triton"])


def break_announcing(patch: pytest.MonkeyPatch) -> None:
    """Calls of library kernels are announced by another function."""
    patch.setattr(hook, "IMPORTERS", hook.IMPORTERS[1:])


def break_joint_pass(patch: pytest.MonkeyPatch) -> None:
    """Inductor calls no pass of the joint graph any more."""
    patch.setattr(inductor, "reading", lambda joint, given: {})


UNMAPPED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], list[str]]] = {
    "hook": (break_hook, [HOOK, "takes (node_schedule, name, is_extern)", "2.11, 2.13 and 2.14"]),
    "marks": (break_marks, ["no call in the generated code is marked with its kernel, such as extern_kernels.mm:"]),
    "announcing": (break_announcing, ["extern_kernels.mm:", "is called in the generated code, but was not announced"]),
    "joint pass": (break_joint_pass, ["Inductor did not show the joint graph (joint_custom_pre_pass)"]),
}


@pytest.mark.parametrize("kind", UNMAPPED)
def test_kernels_that_cannot_be_mapped_are_measured_and_have_no_nodes(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    breaking, expected = UNMAPPED[kind]
    breaking(monkeypatch)
    assert torch.equal(compiled(square)(ones()), square(ones()))
    (region,) = quick().regions
    (note,) = [note for note in region.notes if note.startswith("forward: kernels could not be mapped to nodes: ")]
    assert [words for words in expected if words not in note] == []
    (kernel,) = region.kernels
    assert (kernel.in_graph.status, kernel.isolated.status, kernel.roles) == ("ok", "ok", ())
    assert [node.fate.kind for node in region.nodes if node.kind == "compute"] == ["unknown"]


# wrappers of another shape are not labelled


def break_runner(patch: pytest.MonkeyPatch) -> None:
    def of_another_name(self: Any) -> int:
        self.prefix.splice("class Executor:\n    def call(self, args):\n")
        return 2

    patch.setattr(PythonWrapperCodegen, "write_launcher_fn_call_get_indent", of_another_name)


def test_a_torch_whose_wrappers_have_another_shape_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    captured(square, ones())
    break_runner(monkeypatch)
    record = quick()
    assert refused(record).reason.startswith(
        f"torch {torch.__version__} is not as labelling the kernel calls of a generated wrapper needs it: "
        "torch._inductor.codegen.wrapper.PythonWrapperCodegen.write_launcher_fn_call_get_indent does not write "
    )


def refused(record: ProfileRecord) -> RegionRecord:
    (region,) = record.regions
    assert (region.status, region.kernels) == ("failed", ())
    assert {node.isolated.status for node in region.nodes} == {"skipped"}
    return region


def test_code_without_a_runner_is_refused_by_name() -> None:
    x = ones()
    model = compiled(square, options={"inductor": {"graph_partition": False}})
    assert torch.equal(model(x), square(x))
    assert "this graph's code has no class Runner" in refused(quick()).reason


# nothing can be captured


def another_compile_fx(model_: Any, example_inputs_: Any, config_patches: Any = None) -> Any:
    return _PLAIN_COMPILE_FX(model_, example_inputs_, config_patches=config_patches)


_PLAIN_COMPILE_FX = compile_fx.compile_fx


def break_compile_fx(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(compile_fx, "compile_fx", another_compile_fx)
    return "torch._inductor.compile_fx.compile_fx takes (model_, example_inputs_, config_patches), expected"


def break_capturing(patch: pytest.MonkeyPatch) -> str:
    patch.delattr(torch._C._autograd, "_saved_tensors_hooks_enable")
    return "torch._C._autograd._saved_tensors_hooks_enable is not there"


@pytest.mark.parametrize("breaking", [break_compile_fx, break_capturing])
def test_a_model_that_cannot_be_captured_runs_as_inductors_and_measuring_says_why(
    monkeypatch: pytest.MonkeyPatch, breaking: Callable[[pytest.MonkeyPatch], str]
) -> None:
    with monkeypatch.context() as patch:
        expected = breaking(patch)
        with pytest.warns(RuntimeWarning, match="graphbench measures nothing of this model: torch "):
            result = compiled(square)(ones())
    assert torch.equal(result, square(ones()))
    assert session.current().regions == []
    with pytest.raises(SetupError) as caught:
        quick()
    assert expected in caught.value.message


def test_another_backend_needs_nothing_of_inductors(monkeypatch: pytest.MonkeyPatch) -> None:
    break_compile_fx(monkeypatch)
    (region,) = _regions_of(compiled(square, options={"inner": "eager"}))
    assert (region.calls, region.graphs) == (1, [])


def test_another_backend_runs_what_cannot_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []

    def inner(gm: Any, inputs: Any) -> Any:
        called.append(len(inputs))
        return gm

    break_capturing(monkeypatch)
    with pytest.warns(RuntimeWarning, match="measures nothing of this model"):
        assert _regions_of(compiled(square, options={"inner": inner})) == []
    assert called == [1]


def _regions_of(model: Callable[..., Any]) -> list[Any]:
    assert torch.equal(model(ones()), square(ones()))
    return session.current().regions


def test_modes_of_another_torch_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch._inductor.list_mode_options")
    assert torch.equal(compiled(square)(ones()), square(ones()))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="list_mode_options is not there"):
        torch.compile(square, backend="graphbench", options={"mode": "default"})(ones())


# measuring and recording

ENTRIES: dict[str, tuple[str, Callable[[], object]]] = {
    "measure": ("torch._C._dispatch_has_kernel_for_dispatch_key", lambda: graphbench.measure(**QUICK)),
    "compare": ("torch._C._dispatch_has_kernel_for_dispatch_key", lambda: graphbench.compare({"a": ones, "b": ones})),
    "profile": ("torch._C._current_graph_task_id", lambda: graphbench.profile(square, ones())),
    "record": ("torch._C._current_graph_task_id", graphbench.record),
    "replace": (
        "torch._functorch._aot_autograd.frontend_utils._try_get_metadata_from_dynamo",
        lambda: graphbench.replace("matmul", square),
    ),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_function_says_what_it_lacks_before_it_measures(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    captured(square, ones())
    symbol, call = ENTRIES[entry]
    monkeypatch.delattr(symbol)
    with pytest.raises(SetupError, match=f"{symbol} is not there"):
        call()


# what a profile can do without


def break_breaks(patch: pytest.MonkeyPatch) -> str:
    patch.delattr("torch._dynamo.utils.get_compilation_metrics")
    return "graph breaks and recompiles are unknown: torch"


def break_refusals(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(WhyNoFuse, "__call__", lambda self, why, *args: None)
    return "why kernels were not fused is unknown: torch"


def break_scalars(patch: pytest.MonkeyPatch) -> str:
    module = importlib.import_module("torch._functorch._aot_autograd.graph_compile")
    plain = module._apply_tensorify_python_scalars
    patch.setattr(module, "_apply_tensorify_python_scalars", lambda graph: plain(graph))
    return "kernels of Python numbers that became tensors may have no node: torch"


@pytest.mark.parametrize("breaking", [break_breaks, break_refusals, break_scalars])
def test_a_part_that_is_left_out_is_a_note_of_the_profile(
    monkeypatch: pytest.MonkeyPatch, breaking: Callable[[pytest.MonkeyPatch], str]
) -> None:
    with monkeypatch.context() as patch:
        expected = breaking(patch)
        captured(square, ones())
        record = quick()
    assert [region.status for region in record.regions] == ["ok"]
    (kernel,) = record.regions[0].kernels
    assert [role.node for role in kernel.roles if role.role == "executes"] == ["matmul"]
    assert sum(note.startswith(expected) for note in record.notes) == 1
    assert record.breaks == ()


def test_a_torch_that_was_checked_needs_no_note() -> None:
    captured(square, ones())
    assert not any("torch" in note for note in quick().notes)


def test_a_newer_torch_that_fits_is_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    captured(square, ones())
    monkeypatch.setattr(torch, "__version__", "2.15.0")
    (note,) = [note for note in quick().notes if note.startswith("torch 2.15.0 is newer")]
    assert "(2.11, 2.13 and 2.14)" in note
    assert note.endswith("parts of torch: they look as they do there")


def test_a_newer_torch_that_differs_is_no_torch_that_looks_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.15.0")
    monkeypatch.setattr(debug, hook.HOOK, renamed_argument)
    (note,) = features.torch_notes()
    assert note.endswith("1 of them differ: `graphbench doctor` names them")


def test_importing_graphbench_looks_at_nothing() -> None:
    assert features.faults.cache_info().currsize == 0
    importlib.reload(importlib.import_module("graphbench.probes.relied_on"))
    assert features.faults.cache_info().currsize == 0
