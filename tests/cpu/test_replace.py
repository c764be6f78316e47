"""A candidate in a node's place: what is refused, what both graphs do, and that nothing of the user's changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import compile_fx
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench import session
from graphbench.errors import CaptureError, UsageError
from graphbench.replacing.replacement import Replacement
from tests.cpu.stories import WIDTH, batch, changes, compiled, quick, world

BUDGET: dict[str, Any] = {"repeat": 4, "warmup": 1}


class Layers(nn.Module):
    """Two equal layers; the second reads what the first wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.gelu(layer(x)) * x
        return x


def written_out(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))


def tried(fn: Callable[..., Any], node: str, candidate: Callable[..., Any], *args: Any, **options: Any) -> Replacement:
    """Compile, call once without grad, and replace."""
    with torch.no_grad():
        compiled(fn)(*args)
        return graphbench.replace(node, candidate, **BUDGET, **options)


def settings(found: Replacement) -> list[str]:
    return [row.setting for row in found.rows]


# what it tells


def test_inference_is_timed_alone_and_in_its_graph() -> None:
    found = tried(Layers(), "gelu", written_out, batch())
    assert settings(found) == ["alone", "in graph"]
    assert (found.nodes, found.candidate) == (("r0/gelu",), "written_out")
    for row in found.rows:
        assert row.original is not None
        assert row.candidate is not None
        assert [row.original.measurement.status, row.candidate.measurement.status] == ["ok", "ok"]
        assert [len(half.samples.busy_ns) for half in row.candidate.halves if half.samples] == [2, 2]
        assert row.difference is not None
        assert row.difference.equal is True
    assert found.row("in graph").kernels == (4, 4)
    text = str(found)
    assert "replacement of r0/gelu by written_out" in text
    assert "in graph: predicted to " in text


def test_training_is_timed_with_its_backward() -> None:
    compiled(Layers())(batch()).sum().backward()
    found = graphbench.replace("gelu_1", written_out, **BUDGET)
    assert settings(found) == ["alone", "alone, backward", "in graph", "in graph, with backward"]
    step = found.row("in graph, with backward")
    assert step.original_ns is not None
    assert step.difference is not None
    assert step.difference.equal is True
    assert step.kernels is not None
    assert step.kernels[0] > 4  # those of the backward too


def test_a_graph_that_the_candidate_takes_apart_has_more_kernels() -> None:
    @torch.library.custom_op("graphbench_test::opaque_gelu", mutates_args=())
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)

    opaque.register_fake(torch.empty_like)
    found = tried(lambda x: F.gelu(x + 1) * x, "gelu", opaque, batch())
    assert found.row("in graph").kernels == (1, 3)


def test_all_equal_replaces_the_same_call_of_every_layer() -> None:
    found = tried(Layers(), "gelu", written_out, batch(), all_equal=True)
    assert found.nodes == ("r0/gelu", "r0/gelu_1")
    difference = found.row("in graph").difference
    assert difference is not None
    assert difference.equal is True
    assert "r0/gelu and 1 equal node" in str(found)


def test_a_profile_predicts_from_the_kernels() -> None:
    with torch.no_grad():
        compiled(Layers())(batch())
        profile = graphbench.measure(repeat=3, warmup=1, progress=False)
        found = graphbench.replace("gelu", written_out, profile=profile, **BUDGET)
    assert "its part of its kernels' time" in found.how
    predicted = found.row("in graph").predicted_ns
    alone = found.row("alone")
    assert predicted is not None
    assert alone.ratio is not None
    from graphbench.analysis.compiled_costs import compiled_costs

    part = compiled_costs(profile.record.regions[0])["gelu"].forward_ns
    assert part is not None
    assert predicted == pytest.approx(part * (1 - alone.ratio))


# kinds of nodes and candidates


def test_a_node_of_several_results_takes_a_candidate_that_returns_a_tuple() -> None:
    def halves(x: torch.Tensor, n: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:, : WIDTH // 2], x[:, WIDTH // 2 :]

    def model(x: torch.Tensor) -> torch.Tensor:
        one, other = x.chunk(2, -1)
        return one * other.sin()

    difference = tried(model, "chunk", halves, batch()).row("in graph").difference
    assert difference is not None
    assert difference.equal is True


def test_a_node_that_writes_takes_a_candidate_that_writes_the_same() -> None:
    def clamp(x: torch.Tensor, **_: Any) -> torch.Tensor:
        return x.clamp_(min=0)

    found = tried(lambda x: F.relu((x + 1).sin(), inplace=True) * 2, "relu", clamp, batch())
    assert [row.difference.equal for row in found.rows if row.difference is not None] == [True, True]


def test_tensors_that_the_candidate_holds_are_inputs_of_its_graph() -> None:
    two = torch.full((WIDTH,), 2.0)
    row = tried(lambda x: (x * 2).sin(), "mul", lambda x, _: x * two, batch()).row("in graph")
    assert row.difference is not None
    assert (row.difference.equal, row.reason) == (True, "")


def test_a_method_call_takes_the_tensor_as_first_argument() -> None:
    found = tried(lambda x: x.softmax(-1) + 1, "softmax", lambda x, dim: torch.exp(x.log_softmax(dim)), batch())
    assert settings(found) == ["alone", "in graph"]


def test_a_candidate_that_dynamo_cannot_trace_is_timed_alone() -> None:
    @torch.compiler.disable
    def hidden(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)

    found = tried(Layers(), "gelu", hidden, batch())
    assert found.row("alone").candidate_ns is not None
    assert found.row("in graph").candidate is None
    assert "Dynamo cannot trace the candidate" in found.row("in graph").reason
    assert "torch.library.custom_op" in str(found)


def test_random_numbers_elsewhere_do_not_keep_results_from_being_compared() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.5))
    difference = tried(model, "input_2", lambda x, approximate: written_out(x), batch()).row("in graph").difference
    assert difference is not None
    assert difference.equal is True


def test_a_candidate_that_draws_is_not_compared_in_its_graph() -> None:
    found = tried(lambda x: F.dropout(x, 0.5) * 2, "dropout", lambda x, p: F.dropout(x, p), batch())
    difference = found.row("in graph").difference
    assert difference is not None
    assert difference.equal is None
    assert "random ops" in difference.note


def test_autocast_inside_the_graph_is_in_force_around_the_candidate() -> None:
    seen: list[bool] = []

    def multiply(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        seen.append(torch.is_autocast_enabled("cpu"))
        return x @ weight

    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ weight

    found = tried(model, "matmul", multiply, batch(), batch(WIDTH, WIDTH))
    assert all(seen)
    assert [row.difference.equal for row in found.rows if row.difference is not None] == [True, True]


def test_a_graph_of_dynamic_shapes_is_compiled_for_the_captured_ones() -> None:
    with torch.no_grad():
        model = compiled(lambda x: F.gelu(x).reshape(x.shape[0] * WIDTH) + x.shape[0], dynamic=True)
        model(batch())
        found = graphbench.replace("gelu", written_out, **BUDGET)
    assert found.row("in graph").reason == ""
    difference = found.row("in graph").difference
    assert difference is not None
    assert difference.equal is True


def test_parameters_stay_parameters_which_cuda_graphs_do_not_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = compile_fx.compile_fx_inner
    seen: list[list[int]] = []

    def heard(*args: Any, **kwargs: Any) -> Any:
        seen.append(list(kwargs["static_input_idxs"]))
        return inner(*args, **kwargs)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", heard)
    held = torch.ones(WIDTH)
    tried(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), "input_2", lambda x: x.tanh() * held, batch())
    model, original, candidate = seen
    assert len(model) == 2
    assert (original, candidate) == (model, model)


# what is refused


def test_other_values_are_refused_unless_the_tolerance_allows_them() -> None:
    with torch.no_grad():
        compiled(Layers())(batch())
        with pytest.raises(UsageError, match=r"r0/gelu: the candidate's result is not the node's: largest difference"):
            graphbench.replace("gelu", torch.relu, **BUDGET)
        found = graphbench.replace("gelu", torch.relu, tolerance=math.inf, **BUDGET)
    assert found.row("alone").candidate_ns is not None


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (lambda x: F.gelu(x).double(), "returns float64"),
        (lambda x: F.gelu(x).t().contiguous().t(), r"strides \[1, 8\], expected float32\[8, 16\] on cpu, strides \[16"),
        (lambda x: (F.gelu(x), x), "returns 2 tensors, expected 1"),
        (lambda x: x.copy_(F.gelu(x)), "writes to its argument 0, which the node does not"),
    ],
)
def test_what_does_not_fit_the_graph_is_refused(candidate: Callable[..., Any], message: str) -> None:
    with torch.no_grad():
        compiled(Layers())(batch())
        with pytest.raises(UsageError, match=message):
            graphbench.replace("gelu", candidate, tolerance=math.inf, **BUDGET)


def test_a_candidate_that_leaves_an_argument_unwritten_is_refused() -> None:
    with pytest.raises(UsageError, match="not the node's"):
        tried(lambda x: F.relu((x + 1).sin(), inplace=True) * 2, "relu", lambda x, **_: torch.relu(x), batch())


def test_a_candidate_without_the_nodes_backward_is_refused() -> None:
    compiled(Layers())(batch())
    with pytest.raises(UsageError, match="does not require grad, the node's does"):
        graphbench.replace("gelu", lambda x: F.gelu(x).detach(), **BUDGET)


def test_a_candidate_that_raises_says_what() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the weather is bad")

    with pytest.raises(CaptureError, match="r0/gelu: the candidate raised ValueError: the weather is bad") as error:
        tried(Layers(), "gelu", broken, batch())
    assert error.value.hint == "it is called with the node's own arguments: candidate(f32[8,16])"


def test_an_unknown_node_is_told_with_those_of_similar_names() -> None:
    with pytest.raises(UsageError, match="no node 'gelo' was captured") as error:
        tried(Layers(), "gelo", written_out, batch())
    assert error.value.hint == "nodes of similar names: r0/gelu, r0/gelu_1"


def test_a_name_that_two_regions_have_needs_the_regions_key() -> None:
    with torch.no_grad():
        for model in (Layers(), lambda x: F.gelu(x) + 1):
            compiled(model)(batch())
        with pytest.raises(UsageError, match="several regions have such a node: r0/gelu, r1/gelu"):
            graphbench.replace("gelu", written_out, **BUDGET)
        assert graphbench.replace("r1/gelu", written_out, **BUDGET).nodes == ("r1/gelu",)


def test_without_anything_captured_there_is_nothing_to_replace() -> None:
    with pytest.raises(CaptureError, match="no graph was captured"):
        graphbench.replace("gelu", written_out)


# the user's world


def test_nothing_of_the_users_changes() -> None:
    net, x = Layers(), batch()
    model = compiled(net)
    loss = model(x).sum()
    before = world(net, x)
    graphbench.replace("gelu", written_out, **BUDGET)
    assert changes(before, world(net, x)) == []
    loss.backward()


def test_the_session_hears_nothing_of_graphs_that_are_compiled_for_a_candidate() -> None:
    @torch.compiler.disable
    def hidden(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)

    with torch.no_grad():
        compiled(Layers())(batch())
        for candidate in (written_out, hidden):
            graphbench.replace("gelu", candidate, **BUDGET)
        assert [region.calls for region in session.current().regions] == [1]
        record = quick()
    assert (record.breaks, record.recompiles) == ((), ())
