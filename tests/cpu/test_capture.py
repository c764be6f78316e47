"""What is recorded of a captured graph: nodes, inputs, breaks, recompiles, and what capturing refuses to hold."""

from __future__ import annotations

import errno
import inspect
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

from graphbench import session
from graphbench.capture import graphs
from graphbench.records import InputRecord, NodeRecord
from tests.cpu.stories import WIDTH, Regularised, Scores, Story, batch, captured, compiled, dynamo_graphs, quick


def nodes_of(fn: Callable[..., Any], *args: Any, **options: Any) -> list[NodeRecord]:
    """Records of all nodes of a function's only graph."""
    ((gm, _),) = dynamo_graphs(fn, *args, **options)
    return list(graphs.node_records(gm))


def the_node(fn: Callable[..., Any], op_type: str, *args: Any, **options: Any) -> NodeRecord:
    (found,) = [node for node in nodes_of(fn, *args, **options) if node.op_type == op_type]
    return found


def inputs_of(fn: Callable[..., Any], *args: Any, **options: Any) -> list[InputRecord]:
    ((gm, values),) = dynamo_graphs(fn, *args, **options)
    return list(graphs.input_records(gm, values))


def arguments(fn: Callable[..., Any], op_type: str, *args: Any) -> tuple[Any, Any]:
    """Positional and keyword arguments as recorded, without the outer tags."""
    found: Any = the_node(fn, op_type, *args).arguments
    return found["args"]["tuple"], dict(found["kwargs"]["dict"])


X = torch.ones(4, 6)

# nodes


def test_a_node_knows_its_target_and_what_it_reads() -> None:
    found = the_node(lambda x: torch.softmax(x + 1, -1), "softmax", X)
    assert (found.name, found.op, found.op_type, found.inputs) == ("softmax", "call_function", "softmax", ("add",))


def test_a_method_is_an_op_by_its_name() -> None:
    found = the_node(lambda x: x.masked_fill(x > 0, 1.0), "masked_fill", X)
    assert (found.op, found.op_type) == ("call_method", "masked_fill")


def test_outputs_have_shape_stride_and_dtype() -> None:
    (output,) = the_node(lambda x: x.t().double(), "double", X).outputs
    assert (output.shape, output.stride, output.dtype, output.device) == ((6, 4), (1, 6), "float64", "cpu")


def test_every_output_of_a_node_is_recorded() -> None:
    found = the_node(lambda x: x.chunk(3, -1), "chunk", X)
    assert [spec.shape for spec in found.outputs] == [(4, 2)] * 3


def test_scalars_keep_their_type() -> None:
    args, kwargs = arguments(lambda x: torch.sum(x, 1, keepdim=True), "sum", X)
    assert args == [{"node": "l_x_"}, 1]
    assert kwargs == {"keepdim": True}


def test_infinity_is_kept() -> None:
    args, _ = arguments(lambda x: x.masked_fill(x > 0, float("-inf")), "masked_fill", X)
    assert args[2] == {"float": "-inf"}


def test_none_is_kept() -> None:
    args, _ = arguments(lambda x: torch.clamp(x, None, 2.0), "clamp", X)
    assert args[1:] == [None, 2.0]


def test_a_dtype_is_kept() -> None:
    _, kwargs = arguments(lambda x: torch.sum(x, dtype=torch.float64), "sum", X)
    assert kwargs == {"dtype": {"dtype": "float64"}}


def test_a_device_is_kept() -> None:
    _, kwargs = arguments(lambda x: x + torch.ones(6, device=x.device), "ones", X)
    assert kwargs == {"device": {"device": "cpu"}}


def test_a_memory_format_is_kept() -> None:
    image = torch.ones(1, 2, 3, 3)
    _, kwargs = arguments(lambda x: x.contiguous(memory_format=torch.channels_last), "contiguous", image)
    assert kwargs == {"memory_format": {"memory_format": "channels_last"}}


def test_slices_ellipsis_and_indices_are_kept() -> None:
    args, _ = arguments(lambda x: x[..., 1:5:2], "getitem", X)
    assert args[1] == {"tuple": [{"ellipsis": True}, {"slice": [1, 5, 2]}]}


def test_nested_lists_of_tensors_are_kept() -> None:
    args, kwargs = arguments(lambda x, y: torch.cat([x, y, x], dim=1), "cat", X, X.clone())
    assert args[0] == {"list": [{"node": "l_x_"}, {"node": "l_y_"}, {"node": "l_x_"}]}
    assert kwargs == {"dim": 1}


def test_a_string_is_kept() -> None:
    _, kwargs = arguments(lambda x: F.interpolate(x[None], scale_factor=2.0, mode="nearest"), "interpolate", X)
    assert kwargs["mode"] == "nearest"


def test_a_complex_number_is_kept() -> None:
    args, _ = arguments(lambda x: x * 2j, "mul", X)
    assert args[1] == {"complex": [0.0, 2.0]}


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def test_a_node_knows_its_source_line() -> None:
    source = the_node(scaled, "mul", X).source
    assert source is not None
    first = inspect.getsourcelines(scaled)[1]
    assert (source.file, source.line, source.function, source.code) == (__file__, first + 1, "scaled", "return x * 3")


def test_a_node_inside_torchs_own_module_points_at_the_users_call() -> None:
    source = the_node(Scores(), "linear", batch()).source
    assert source is not None
    assert source.code == "return self.linear(x).softmax(-1)"


def test_a_node_knows_the_module_that_it_belongs_to() -> None:
    net = nn.Sequential(nn.Sequential(nn.Linear(6, 6)), nn.Linear(6, 2))
    found = [node.module for node in nodes_of(net, X) if node.op_type == "linear"]
    assert found == ["0.0", "1"]


def test_nodes_that_only_set_state_are_told_apart() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return x * 2

    kinds = {node.op_type: node.kind for node in nodes_of(fn, X.clone().requires_grad_())}
    assert kinds == {"_set_grad_enabled": "state", "mul": "compute"}


def test_a_node_without_tensors_out_is_a_host_node() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        found = nodes_of(lambda x: x * x.sum().item(), X)
    kinds = {node.op_type: node.kind for node in found}
    assert (kinds["sum"], kinds["item"], kinds["mul"]) == ("compute", "host", "compute")


def test_symbolic_sizes_are_recorded_by_their_example() -> None:
    (output,) = the_node(lambda x: x * 2, "mul", X, dynamic=True).outputs
    assert (output.shape, output.stride) == ((4, 6), (6, 1))


def test_a_copied_graph_keeps_every_name() -> None:
    ((gm, _),) = dynamo_graphs(lambda x: torch.softmax(x + 1, -1) + 1, X)
    copied = graphs.copy_graph(gm)
    assert [node.name for node in copied.graph.nodes] == [node.name for node in gm.graph.nodes]


def test_a_copied_graph_does_not_follow_the_original() -> None:
    ((gm, _),) = dynamo_graphs(lambda x: x + 1, X)
    copied = graphs.copy_graph(gm)
    with gm.graph.inserting_before():
        gm.graph.placeholder("later")
    assert "later" not in [node.name for node in copied.graph.nodes]


# inputs


def last_key(record: InputRecord) -> str:
    """`weight` of Dynamo's `L['self']._modules['norm']._parameters['weight']`."""
    return re.findall(r"\['(\w+)'\]", record.source)[-1]


def test_inputs_are_parameters_buffers_and_tensors() -> None:
    net = Regularised()
    kinds = {last_key(record): record.kind for record in inputs_of(net, batch())}
    assert kinds == {
        "weight": "parameter",
        "bias": "parameter",
        "running_mean": "buffer",
        "running_var": "buffer",
        "num_batches_tracked": "buffer",
        "x": "tensor",
    }


def test_a_size_is_an_input_with_its_value() -> None:
    found = [(record.kind, record.value) for record in inputs_of(lambda x: x.view(-1) * 2, X, dynamic=True)]
    assert ("value", 4) in found
    assert ("value", 6) in found


def test_an_input_has_its_spec() -> None:
    (record,) = inputs_of(lambda x: x * 2, X[:, 1:4])
    assert record.spec is not None
    assert (record.spec.shape, record.spec.stride, record.spec.storage_offset) == ((4, 3), (6, 1), 1)


def test_what_a_graph_writes_is_found(regularised_training: Story) -> None:
    (region,) = regularised_training.first.regions
    written = {last_key(record) for record in region.inputs if record.mutated}
    assert written == {"running_mean", "running_var", "num_batches_tracked"}


def test_a_jagged_tensor_is_captured_and_its_ragged_size_unknown() -> None:
    ragged = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)
    region = captured(lambda x: x @ torch.ones(4, 4), ragged)
    assert region.capture is not None
    specs = [record.spec.shape for record in region.capture.records if record.spec]
    assert (2, -1, 4) in specs


# breaks and recompiles


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x @ x
    torch._dynamo.graph_break()
    return x @ x


def test_a_graph_break_has_its_reason_line_and_region() -> None:
    compiled(broken)(torch.ones(4, 4))
    (found,) = session.current().breaks()
    assert "graph_break" in found.reason
    assert found.source is not None
    first = inspect.getsourcelines(broken)[1]
    assert (found.source.line, found.source.function, found.region) == (first + 2, "broken", "r0")


def test_the_code_around_a_break_is_two_regions() -> None:
    compiled(broken)(torch.ones(4, 4))
    assert [region.key for region in session.current().regions] == ["r0", "r1"]


def test_a_break_in_a_frame_without_a_graph_is_known_by_its_reason() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x @ x

    compiled(fn)(torch.ones(4, 4))
    assert ["graph_break" in found.reason for found in session.current().breaks()] == [True]


def test_recompiles_are_counted() -> None:
    model = compiled(lambda x: x @ x, dynamic=False)
    for size in (2, 3, 4):
        model(torch.ones(size, size))
    assert len(session.current().recompiles()) == 2


def test_without_a_recompile_none_is_counted() -> None:
    compiled(broken)(torch.ones(4, 4))
    assert session.current().recompiles() == []


# what capturing holds


def test_parameters_are_held_by_reference_and_cost_nothing() -> None:
    net = Scores()
    region = captured(net, batch())
    assert region.capture is not None
    held = [entry.value for entry in region.capture.values if entry.is_parameter]
    assert {id(tensor) for tensor in held} == {id(parameter) for parameter in net.parameters()}
    assert region.capture.nbytes == 8 * WIDTH * 4


def test_inputs_are_those_of_the_first_call() -> None:
    model = compiled(lambda x: x @ x)
    model(torch.ones(2, 2))
    model(torch.zeros(2, 2))
    (region,) = session.current().regions
    assert region.capture is not None
    assert region.calls == 2
    assert region.capture.values[0].value.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_inputs_beyond_the_budget_are_spilled_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session._Current, "session", session.Session(capture_budget_bytes=100))
    assert compiled(lambda x: x @ x)(torch.ones(8, 8)).sum() == 512
    record = quick()
    (region,) = record.regions
    assert (region.status, region.captured_bytes, region.spilled_bytes) == ("ok", 0, 256)
    assert record.notes[0].startswith(
        "captured inputs hold 0 bytes until graphbench.reset(); 256 bytes more were moved"
    )


def test_inputs_that_cannot_be_spilled_are_not_held_and_the_region_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(session._Current, "session", session.Session(capture_budget_bytes=100))
    monkeypatch.setattr(os, "pwrite", full)
    assert compiled(lambda x: x @ x)(torch.ones(8, 8)).sum() == 512
    (region,) = quick().regions
    assert region.status == "skipped"
    assert region.reason == (
        "its inputs hold 256 bytes, more than the 100 bytes that the capture budget leaves, and cannot be put on disk: "
        "No space left on device"
    )


def test_reset_lets_go_of_everything() -> None:
    compiled(lambda x: x @ x)(torch.ones(8, 8))
    assert session.current().captured_bytes == 256
    session.reset()
    assert (session.current().regions, session.current().captured_bytes) == ([], 0)


def test_a_parameter_that_moved_since_capture_is_named() -> None:
    net = Regularised()
    compiled(net)(batch())
    net.inner.double()
    (region,) = quick().regions
    assert region.status == "failed"
    assert "a parameter or buffer was replaced or moved since the region was captured" in region.reason
    assert "L['self']._modules['inner']._parameters['weight']" in region.reason
    assert "found float64[16, 16] on cpu" in region.reason
    assert "expected float32[16, 16] on cpu" in region.reason


def test_values_changed_in_place_since_capture_are_measured() -> None:
    net = nn.Linear(WIDTH, WIDTH)
    compiled(net)(batch())
    with torch.no_grad():
        net.weight.zero_()
    (region,) = quick().regions
    assert region.status == "ok"


def test_capturing_does_not_keep_the_results_graph_alive() -> None:
    x = batch().requires_grad_()
    region = captured(lambda x: x @ x.t(), x)
    assert region.capture is not None
    assert [entry.value.requires_grad for entry in region.capture.values] == [False]
    assert [entry.requires_grad for entry in region.capture.values] == [True]


def test_a_first_call_that_raises_leaves_a_region_that_says_so() -> None:
    calls = []

    @torch.library.custom_op("graphbench_test::fails_first", mutates_args=())
    def fails_first(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        raise ValueError("not today")

    fails_first.register_fake(torch.empty_like)
    with pytest.raises(ValueError, match="not today"):
        compiled(fails_first)(torch.ones(2))
    (region,) = quick().regions
    assert (region.status, region.reason) == ("skipped", "every call raised, so no inputs were recorded")


def test_a_measured_region_names_its_location(regularised_training: Story) -> None:
    (region,) = regularised_training.first.regions
    assert region.location is not None
    assert region.location.file.endswith("stories.py")
