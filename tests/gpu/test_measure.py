"""The main job on a GPU: everything labelled, everything isolated, nothing of the user's changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import graphbench
from graphbench.analysis.stats import quantile
from graphbench.records import ProfileRecord, RegionRecord

pytestmark = pytest.mark.gpu
QUICK = {"repeat": 10, "warmup": 3}


class Block(torch.nn.Module):
    """A linear layer, GELU, batch normalisation, dropout: library calls, fusions, buffers, random numbers."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(512, 512)
        self.norm = torch.nn.BatchNorm1d(512)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.norm(torch.nn.functional.gelu(self.linear(x)) + x))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    graphbench.reset()
    torch.manual_seed(0)
    yield
    graphbench.reset()


def captured(**options: Any) -> tuple[Block, torch.Tensor]:
    model = Block(options.pop("dropout", 0.0)).cuda()
    compiled = torch.compile(model, backend="graphbench", **options)
    x = torch.randn(4096, 512, device="cuda")
    return model, compiled(x)


def only_region(record: ProfileRecord) -> RegionRecord:
    (region,) = record.regions
    assert region.status == "ok", region.reason
    return region


def test_every_kernel_of_forward_and_backward_is_labelled() -> None:
    captured()
    region = only_region(graphbench.measure(**QUICK).record)
    for side, phase in ((region.forward, "forward"), (region.backward, "backward")):
        assert side.run is not None, side.reason
        assert side.run.unattributed == ()
        assert max(side.run.unattributed_ns) == 0
        assert side.run.dropped == 0
        rows = [kernel.in_graph.samples for kernel in region.kernels if kernel.phase == phase]
        for sample, busy_ns in enumerate(side.run.busy_ns):
            total_ns = sum(row.busy_ns[sample] for row in rows if row) - side.run.overlap_ns[sample]
            assert total_ns == pytest.approx(busy_ns, rel=0.005)


def test_every_node_and_kernel_is_isolated_with_the_real_calls_result() -> None:
    captured()
    region = only_region(graphbench.measure(**QUICK).record)
    rows = [(node.name, node.isolated) for node in region.nodes]
    rows += [(kernel.key, kernel.isolated) for kernel in region.kernels]
    for name, measurement in rows:
        assert measurement.status == "ok", f"{name}: {measurement.reason}"
        assert measurement.timer == "cupti"
        assert measurement.cache == "cold-read"
        assert measurement.fidelity is not None
        assert measurement.fidelity.equal is True, f"{name}: {measurement.fidelity}"
    assert region.outputs is not None
    assert region.outputs.equal is True


def test_isolated_kernels_cost_about_what_they_cost_in_the_graph() -> None:
    captured()
    region = only_region(graphbench.measure(l2="warm").record)
    isolated = sum(quantile(k.isolated.samples.busy_ns, 0.5) for k in region.kernels if k.isolated.samples)
    in_graph = sum(quantile(k.in_graph.samples.busy_ns, 0.5) for k in region.kernels if k.in_graph.samples)
    assert isolated == pytest.approx(in_graph, rel=0.25)


def test_the_users_world_is_bit_equal_afterwards() -> None:
    model, result = captured(dropout=0.1)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    versions = {name: value._version for name, value in model.state_dict(keep_vars=True).items()}
    generator = torch.cuda.get_rng_state()
    graphbench.measure(**QUICK)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert {name: value._version for name, value in model.state_dict(keep_vars=True).items()} == versions
    assert torch.equal(torch.cuda.get_rng_state(), generator)
    assert all(parameter.grad is None for parameter in model.parameters())
    result.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_whole_training_step_is_attributed_to_the_last_kernel() -> None:
    model = Block(dropout=0.1).cuda()
    compiled = torch.compile(model, backend="graphbench")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4096, 512, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        compiled(x).square().mean().backward()
        optimizer.step()

    step_record = graphbench.profile(step, warmup_steps=3, **QUICK).record.step
    assert step_record is not None
    assert step_record.run.unattributed == ()
    phases = {row.phase for row in step_record.rows if row.kernel is None}
    assert phases == {"forward", "backward", "optimizer"}
    assert {row.phase for row in step_record.rows if row.kernel is not None} == {"forward", "backward"}
    total_ns = sum(row.in_graph.samples.busy_ns[0] for row in step_record.rows if row.in_graph.samples)
    assert total_ns - step_record.run.overlap_ns[0] == pytest.approx(step_record.run.busy_ns[0], rel=0.005)


def test_cuda_graphs_are_measured_uncaptured_and_replayed_afterwards() -> None:
    # Eight blocks, so that the replay's copy of the input is small beside the kernels.
    model = torch.nn.Sequential(*(Block() for _ in range(8))).cuda().eval()
    compiled = torch.compile(model, backend="graphbench", mode="reduce-overhead")
    x = torch.randn(4096, 512, device="cuda")
    with torch.no_grad():
        expected = compiled(x).clone()
        for _ in range(3):
            compiled(x)
        region = only_region(graphbench.measure(**QUICK).record)
        assert torch.equal(compiled(x), expected)
    side = region.forward
    assert side.run is not None, side.reason
    assert (side.run.unattributed, region.notes) == ((), ())
    assert side.graph_nodes is not None
    rows = [kernel.in_graph.samples for kernel in region.kernels]
    assert side.graph_nodes == sum(row.n_kernels[0] for row in rows if row and row.n_kernels)
    assert all(row is not None and row.host_ns is None for row in rows)
    assert side.run.beside_ns is not None
    assert min(side.run.beside_ns) > 0  # the copy of the input
    assert side.plain.samples is not None
    assert quantile(side.run.busy_ns, 0.5) == pytest.approx(quantile(side.plain.samples.busy_ns, 0.5), rel=0.05)


def test_backward_replays_are_split_too() -> None:
    model = torch.nn.Sequential(Block(), Block()).cuda()
    compiled = torch.compile(model, backend="graphbench", mode="reduce-overhead")
    x = torch.randn(4096, 512, device="cuda")
    for _ in range(4):
        model.zero_grad(set_to_none=True)  # gradients lie in the graph's memory, which the next replay overwrites
        compiled(x).sum().backward()
    region = only_region(graphbench.measure(**QUICK).record)
    assert region.notes == ()
    assert region.backward.graph_nodes is not None, region.backward.reason


def test_tuned_kernels_carry_their_configuration() -> None:
    captured()
    region = only_region(graphbench.measure(**QUICK).record)
    kernels = [kernel for kernel in region.kernels if kernel.kind == "triton"]
    assert kernels
    for kernel in kernels:
        config, (device, *_) = kernel.config, kernel.isolated.device_kernels
        assert config is not None, kernel.key
        assert device.block == (32 * config.num_warps, 1, 1)
        assert (device.registers or 0) >= (config.registers or 0) > 0  # registers are handed out in steps
        assert (config.spills, device.local_bytes) == (0, 0)


def test_clocks_are_read_around_every_row() -> None:
    captured()
    record = graphbench.measure(**QUICK).record
    states = [state for node in only_region(record).nodes for state in node.isolated.clocks]
    assert states
    assert all(200 <= (state.sm_mhz or 0) <= 3000 for state in states)
    assert record.environment.stamp_grain_ns in (1, 2, 4, 8, 16, 32, 64)


def test_a_factory_on_the_gpu_is_timed_although_it_has_no_tensor_arguments() -> None:
    def ramp(x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(1 << 20, device="cuda")

    torch.compile(ramp, backend="graphbench")(torch.randn(1 << 20, device="cuda"))
    region = only_region(graphbench.measure(**QUICK).record)
    arange = next(node for node in region.nodes if node.op_type == "arange")
    assert arange.isolated.status == "ok", arange.isolated.reason
    assert arange.isolated.samples is not None
    assert min(arange.isolated.samples.busy_ns) > 0


def test_a_wall_clock_is_refused_for_a_gpu() -> None:
    captured()
    with pytest.raises(graphbench.GraphbenchError, match="cannot see device time"):
        graphbench.measure(timer="wallclock")


def test_a_process_that_measured_ends_cleanly() -> None:
    program = (
        "import torch, graphbench\n"
        "f = torch.compile(lambda x: (x @ x).softmax(-1).sum(), backend='graphbench')\n"
        "f(torch.randn(512, 512, device='cuda', requires_grad=True)).backward()\n"
        "graphbench.measure(repeat=3, warmup=1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_users_triton_kernel_writes_the_users_tensor_only_when_the_user_calls_it() -> None:
    from tests.gpu.kernels import increment

    x = torch.zeros(1 << 16, device="cuda")
    torch.compile(increment, backend="graphbench")(x)
    region = only_region(graphbench.measure(**QUICK).record)
    assert x.unique().tolist() == [1.0]
    user = [kernel for kernel in region.kernels if kernel.kind == "user-triton"]
    assert [kernel.isolated.status for kernel in user] == ["ok"]
    assert region.outputs is not None
    assert region.outputs.equal is True


def test_tuned_templates_are_labelled_and_isolated() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()).cuda().bfloat16().eval()
    compiled = torch.compile(model, backend="graphbench", mode="max-autotune-no-cudagraphs")
    with torch.no_grad():
        compiled(torch.randn(256, 256, device="cuda", dtype=torch.bfloat16))
    region = only_region(graphbench.measure(**QUICK).record)
    assert region.forward.run is not None, region.forward.reason
    assert region.forward.run.unattributed == ()
    assert {kernel.isolated.status for kernel in region.kernels} == {"ok"}
    assert all(kernel.roles for kernel in region.kernels)


def test_autocast_entered_outside_the_model_is_replayed() -> None:
    linear = torch.nn.Linear(512, 512).cuda()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        torch.compile(linear, backend="graphbench")(torch.randn(512, 512, device="cuda"))
    region = only_region(graphbench.measure(**QUICK).record)
    (node,) = (node for node in region.nodes if node.op_type == "linear")
    assert node.outputs[0].dtype == "bfloat16"
    assert node.isolated.samples is not None
    assert node.isolated.samples.n_kernels is not None
    assert min(node.isolated.samples.n_kernels) >= 2  # a cast of input or weight, and the product
