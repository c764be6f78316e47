"""The backend: found by name, equal to Inductor, options passed through or refused, nothing of ours left running."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._dynamo.exc import BackendCompilerFailed, Unsupported

import graphbench
from graphbench import session
from graphbench.errors import CaptureError, SetupError
from graphbench.inductor import compile as inductor
from graphbench.inductor import wrapper as wrappers
from graphbench.regions import Region
from tests.cpu.stories import QUICK, Scores, batch, captured, compiled, measured, node, quick, traces_left


def square(x: torch.Tensor) -> torch.Tensor:
    """No C++ kernel: compiles in no time."""
    return x @ x


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x @ x
    torch._dynamo.graph_break()
    return x @ x


def ones(size: int = 4) -> torch.Tensor:
    return torch.ones(size, size)


# found and equal


def test_torch_finds_the_backend_by_its_name() -> None:
    assert "graphbench" in torch._dynamo.list_backends(exclude_tags=())


def test_inference_is_equal_to_inductor() -> None:
    net, x = Scores().eval(), batch()
    with torch.no_grad():
        expected = torch.compile(net, backend="inductor")(x)
        torch._dynamo.reset()
        assert torch.equal(compiled(net)(x), expected)


def trained(backend: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Result and gradients of one training step of a fixed model."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    net, x = Scores(), batch().requires_grad_()
    result = torch.compile(net, backend=backend)(x)
    result.pow(2).sum().backward()
    return result.detach(), [tensor.grad for tensor in (x, *net.parameters()) if tensor.grad is not None]


def test_training_is_equal_to_inductor() -> None:
    expected, expected_gradients = trained("inductor")
    result, gradients = trained("graphbench")
    assert torch.equal(result, expected)
    assert len(gradients) == 3
    assert all(torch.equal(one, other) for one, other in zip(gradients, expected_gradients, strict=True))


def test_several_graphs_give_the_eager_result() -> None:
    assert torch.equal(compiled(broken)(ones()), broken(ones()))
    assert len(session.current().regions) == 2


# options that pass through


def test_a_mode_reaches_inductor() -> None:
    region = captured(square, ones(), mode="max-autotune-no-cudagraphs")
    assert ("max_autotune", "True") in region.options


def test_the_default_mode_changes_nothing() -> None:
    assert captured(square, ones(), mode="default").options == ()


def test_dynamic_makes_one_graph_for_all_sizes() -> None:
    model = compiled(square, dynamic=True)
    for size in (3, 4, 5):
        assert float(model(ones(size)).sum()) == size**3
    first, *others = session.current().regions
    assert [region.shapes_of for region in others] == [first.key, first.key]
    assert all(region.graphs is first.graphs for region in others)


def test_fullgraph_refuses_a_graph_break() -> None:
    with pytest.raises(Unsupported):
        compiled(broken, fullgraph=True)(ones())


def test_fullgraph_compiles_what_does_not_break() -> None:
    assert torch.equal(compiled(square, fullgraph=True)(ones()), square(ones()))


def test_mode_and_inductor_options_are_combined() -> None:
    options = {"mode": "max-autotune-no-cudagraphs", "inductor": {"epilogue-fusion": False}}
    region = captured(square, ones(), options=options)
    assert set(region.options) >= {("max_autotune", "True"), ("epilogue_fusion", "False")}


def test_an_inductor_option_is_in_the_profiles_header() -> None:
    captured(square, ones(), options={"inductor": {"epilogue_fusion": False}})
    assert ("epilogue_fusion", "False") in quick().environment.options


def test_an_inductor_option_is_in_force_while_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    original = inductor.hook.listening

    def spying() -> Any:
        from torch._inductor import config

        seen.append(config.epilogue_fusion)
        return original()

    monkeypatch.setattr(inductor.hook, "listening", spying)
    captured(square, ones(), options={"inductor": {"epilogue_fusion": False}})
    assert seen == [False]


# options that are refused

REFUSALS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown option": ({"options": {"repeat": 3}}, ["unknown option 'repeat'", "'mode'", "'inductor'"]),
    "unknown mode": ({"options": {"mode": "fastest"}}, ["unknown mode 'fastest'", "max-autotune", "reduce-overhead"]),
    "unknown Inductor option": (
        {"options": {"inductor": {"epilog_fusion": True}}},
        ["unknown Inductor option 'epilog_fusion'", "epilogue_fusion", "torch._inductor.list_options()"],
    ),
    "no dict": ({"options": {"inductor": True}}, ["option 'inductor' must be a dict, found bool"]),
    "freezing": ({"options": {"inductor": {"freezing": True}}}, ["'freezing' cannot be measured", "silently"]),
    "cpp_wrapper": ({"options": {"inductor": {"cpp_wrapper": True}}}, ["'cpp_wrapper' cannot be measured", "C++"]),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refused_option_says_what_is_known(kind: str) -> None:
    options, expected = REFUSALS[kind]
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(square, **options)(ones())
    missing = [words for words in expected if words not in str(caught.value)]
    assert missing == []


def test_a_refused_option_that_is_switched_off_is_no_problem() -> None:
    assert captured(square, ones(), options={"inductor": {"freezing": False}}).calls == 1


@pytest.mark.parametrize(("version", "supported"), [("2.10.1", False), ("2.11.0", True), ("2.13.0+cpu", True)])
def test_torch_must_be_2_11_or_newer(monkeypatch: pytest.MonkeyPatch, version: str, supported: bool) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    assert inductor.torch_is_supported() is supported


def test_an_older_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.10.1")
    with pytest.raises(SetupError, match=r"needs torch 2\.11 or newer, found 2\.10\.1"):
        session.backend(fx.symbolic_trace(nn.Identity()), [ones()])


# graphs that do nothing


def test_a_function_without_ops_makes_no_graph_and_measuring_says_why() -> None:
    x = ones()
    assert compiled(lambda x: x)(x) is x
    with pytest.raises(CaptureError, match="no graph was captured"):
        graphbench.measure()


def test_an_empty_graph_is_counted_passed_through_and_skipped() -> None:
    x = ones()
    run = session.backend(fx.symbolic_trace(_Tuple()), [x])
    assert run(x)[0] is x
    record = quick()
    assert [(region.status, region.reason) for region in record.regions] == [("skipped", "its graph has no ops")]
    assert "left out, since without ops: 1 graph" in record.notes


class _Tuple(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x,)


def test_a_graph_of_views_is_measured_and_has_no_kernels() -> None:
    region = measured(lambda x: x.view(2, 8).t(), ones())
    assert (region.status, region.kernels) == ("ok", ())
    assert any("Inductor made no kernels" in note for note in region.notes)
    assert {entry.fate.kind for entry in region.nodes} == {"view"}


def test_an_input_returned_beside_a_result_is_the_input() -> None:
    x = ones()
    result = compiled(lambda x: (x, x @ x))(x)
    assert result[0] is x
    assert quick().regions[0].status == "ok"


# recompiled regions


class Scaled(nn.Module):
    """Recompiles when its attribute changes, for the same inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.turned = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.t() if self.turned else x)


def twice_compiled() -> tuple[Scaled, Callable[..., Any]]:
    net = Scaled()
    model = compiled(net)
    model(ones())
    net.turned = True
    model(ones())
    return net, model


def test_a_recompiled_region_that_is_no_longer_called_is_skipped_and_counted() -> None:
    twice_compiled()
    record = quick()
    assert [(region.status, region.reason) for region in record.regions] == [
        ("skipped", "recompiled as r1 and not called since"),
        ("ok", ""),
    ]
    assert len(record.recompiles) == 1


def test_a_recompiled_region_that_is_called_again_is_measured() -> None:
    net, model = twice_compiled()
    net.turned = False
    model(ones())
    assert [region.status for region in quick().regions] == ["ok", "ok"]


def test_a_recompiled_region_is_measured_on_request() -> None:
    twice_compiled()
    record = graphbench.measure(superseded=True, **QUICK).record
    assert [region.status for region in record.regions] == ["ok", "ok"]


def test_a_region_for_another_shape_is_no_successor() -> None:
    model = compiled(square, dynamic=False)
    model(ones(2))
    model(ones(3))
    record = quick()
    assert [region.status for region in record.regions] == ["ok", "ok"]
    assert len(record.recompiles) == 1


def test_regions_around_a_break_do_not_supersede_each_other() -> None:
    compiled(broken)(ones())
    assert [region.status for region in quick().regions] == ["ok", "ok"]


def test_another_model_of_the_same_class_does_not_supersede_the_first() -> None:
    compiled(nn.Sequential(nn.Linear(4, 4)), dynamic=False)(ones())
    compiled(nn.Sequential(nn.Linear(4, 5)), dynamic=False)(ones())
    assert [(region.status, region.reason) for region in quick().regions] == [("ok", "")] * 2


# nothing of ours runs while not measuring


def loaded_code(region: Region) -> list[tuple[CodeType, Any]]:
    """The code that runs, and the callable that runs it, of every graph of a region."""
    artifacts = [graph.artifact for graph in region.graphs if graph.artifact is not None]
    return [(type(artifact.compiled_fn_runner).call.__code__, artifact.current_callable) for artifact in artifacts]


def test_inductors_own_code_is_in_place_before_and_after_measuring() -> None:
    compiled(Scores())(batch()).sum().backward()
    (region,) = session.current().regions
    before = loaded_code(region)
    quick()
    after = loaded_code(region)
    assert len(before) == 2
    assert [(id(code), id(call)) for code, call in after] == [(id(code), id(call)) for code, call in before]
    assert traces_left() == []


def graph_of(region: Region) -> inductor.CompiledGraph:
    found = region.graph("forward")
    assert found is not None
    return found


def test_while_labelled_the_code_is_not_plain() -> None:
    graph = graph_of(captured(square, ones()))
    wrapper = wrappers.prepare(graph)
    with wrappers.labelled(wrapper, lambda site, function, args, kwargs: function(*args, **kwargs)):
        assert not wrappers.is_plain(graph)
    assert wrappers.is_plain(graph)


def test_an_exception_inside_a_labelled_run_puts_the_code_back() -> None:
    region = captured(square, ones())
    wrapper, before = wrappers.prepare(graph_of(region)), loaded_code(region)

    def raising(*_: Any) -> Any:
        raise KeyError("mine")

    assert region.compiled is not None
    with pytest.raises(KeyError, match="mine"), wrappers.labelled(wrapper, raising):
        region.compiled(ones())
    assert loaded_code(region) == before
    assert traces_left() == []


def test_a_labelled_run_hands_over_every_kernel_and_keeps_the_result() -> None:
    region = captured(Scores(), batch())
    assert region.compiled is not None
    wrapper, seen = wrappers.prepare(graph_of(region)), []

    def on_kernel(site: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        seen.append(site.key)
        return function(*args, **kwargs)

    assert region.capture is not None
    inputs = [entry.value for entry in region.capture.values]
    expected = region.compiled(*inputs)[0]
    with wrappers.labelled(wrapper, on_kernel):
        result = region.compiled(*inputs)[0]
    assert torch.equal(result, expected)
    assert seen == [site.key for site in wrapper.sites]


def test_compiling_leaves_inductors_provenance_function_as_it_was() -> None:
    from torch._inductor import debug

    before = debug.set_kernel_post_grad_provenance_tracing
    captured(square, ones())
    assert debug.set_kernel_post_grad_provenance_tracing is before


def test_compiling_leaves_inductors_configuration_as_it_was() -> None:
    from torch._functorch import config as functorch_config
    from torch._inductor import config

    def state() -> tuple[object, ...]:
        level, cache = config.trace.provenance_tracking_level, config.fx_graph_cache
        return (level, cache, functorch_config.enable_autograd_cache)

    before = state()
    captured(square, ones())
    assert state() == before


def test_a_measured_node_keeps_its_type() -> None:
    assert node(measured(square, ones()), "matmul").isolated.status == "ok"
