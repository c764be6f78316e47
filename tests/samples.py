"""Two whole profiles for tests of reports: a CPU inference and a GPU training step, small, with every hard case."""

from __future__ import annotations

import dataclasses

from graphbench.measurements import Comparison, Measurement, SourceLine
from graphbench.records import Fate, KernelRecord, NodeRecord, NodeRole, PostGradNode, ProfileRecord, Side, Traffic
from graphbench.step_records import GraphBreak, Recompile, StepRecord, StepRow
from tests.factories import (
    FAILED,
    ceilings,
    cpu_run,
    device_run,
    differentiates,
    environment,
    executes,
    kernel,
    node,
    post_grad,
    profile,
    region,
    spec,
    steady,
    worked,
)

CONV = "forward/extern_kernels.convolution:1"
POINTWISE = "forward/cpp_fused_add_relu_0:2"
IMAGE_BYTES = 16 * 64 * 56 * 56 * 4
MB = 1_000_000
GFLOP = 1_000_000_000


def cpu_profile() -> ProfileRecord:
    """A convolution, a fused add and relu, a view, a dead node and one that failed; no gap recording."""
    image = (spec(16, 64, 56, 56),)
    nodes = [
        node(
            "conv1",
            _convolution(steady(1_200_000.0, spread_ns=12_000.0)),
            op_type="conv2d",
            fate=Fate(kind="kernel", kernels=(CONV,)),
            line=10,
            in_graph=steady(1_210_000.0),
            outputs=image,
            module="stem.conv",
        ),
        node(
            "add",
            worked(steady(300_000.0, spread_ns=3_000.0), 2 * IMAGE_BYTES, IMAGE_BYTES),
            fate=Fate(kind="fused", kernels=(POINTWISE,)),
            line=11,
            in_graph=steady(310_000.0),
            outputs=image,
        ),
        node(
            "relu",
            worked(steady(100_000.0, spread_ns=1_000.0), IMAGE_BYTES, IMAGE_BYTES),
            fate=Fate(kind="fused", kernels=(POINTWISE,)),
            line=12,
            in_graph=steady(110_000.0),
            outputs=image,
        ),
        node("view", steady(900.0), kind="view", fate=Fate(kind="view"), line=13, in_graph=steady(1_000.0)),
        node("sort", FAILED, fate=Fate(kind="dead"), line=14, in_graph=steady(5_000.0)),
        node("size", None, kind="host", line=15),
    ]
    kernels = [
        kernel(
            "extern_kernels.convolution",
            steady(1_190_000.0, spread_ns=10_000.0),
            handle=1,
            kind="extern",
            roles=(executes("conv1"),),
            in_graph=steady(1_195_000.0),
            post_grad=("convolution",),
            traffic=moves(2 * MB, IMAGE_BYTES),
            difference=Comparison(equal=True, max_abs=0.0),
        ),
        kernel(
            "cpp_fused_add_relu_0",
            steady(150_000.0, spread_ns=2_000.0),
            handle=2,
            roles=(executes("add"), executes("relu"), NodeRole(node="conv1", role="contributes")),
            in_graph=steady(155_000.0),
            post_grad=("add", "relu"),
            traffic=moves(2 * IMAGE_BYTES, IMAGE_BYTES),
            difference=Comparison(equal=False, max_abs=1.2e-6),
        ),
    ]
    return profile(
        region(
            nodes,
            kernels,
            eager=Side(run=cpu_run([n.in_graph for n in nodes]), plain=steady(1_650_000.0)),
            forward=Side(run=cpu_run([k.in_graph for k in kernels]), plain=steady(1_360_000.0)),
            post_grad=(
                post_grad("convolution", _convolution(steady(1_210_000.0))),
                post_grad("add", worked(steady(320_000.0), 2 * IMAGE_BYTES, IMAGE_BYTES)),
                post_grad("relu", worked(steady(105_000.0), IMAGE_BYTES, IMAGE_BYTES)),
            ),
        ),
        ceilings=ceilings(gb_per_s=300.0, gflops=2_000.0),
    )


def _convolution(measured: Measurement) -> Measurement:
    return worked(measured, 2 * MB, IMAGE_BYTES, flops=2 * GFLOP)


def moves(read_bytes: int, written_bytes: int) -> tuple[Traffic, ...]:
    """The traffic of a kernel that reads one buffer and writes another."""
    return (Traffic(buffer="in", read_bytes=read_bytes), Traffic(buffer="out", written_bytes=written_bytes))


def on_device(ns: float) -> Measurement:
    """Steady samples as CUPTI takes them."""
    return steady(ns, timer="cupti")


def _training_nodes(*, wrong: bool) -> list[NodeRecord]:
    """A linear and a gelu with their backwards; `wrong`: alone the linear gave another result than in the run."""
    linear = worked(on_device(40_000.0), 40 * MB, 20 * MB, flops=20 * GFLOP)
    nodes = [
        node(
            "linear",
            dataclasses.replace(linear, fidelity=Comparison(equal=False, max_abs=0.25)) if wrong else linear,
            fate=Fate(kind="kernel", kernels=("forward/mm:1",)),
            backward=worked(on_device(82_000.0), 80 * MB, 40 * MB, flops=40 * GFLOP),
            backward_in_graph=on_device(82_500.0),
        ),
        node(
            "gelu",
            worked(on_device(9_000.0), 16 * MB, 16 * MB),
            fate=Fate(kind="fused", kernels=("forward/triton_poi_fused_gelu_0:2",)),
            backward=worked(on_device(16_000.0), 32 * MB, 16 * MB),
            backward_in_graph=on_device(15_900.0),
        ),
    ]
    return [dataclasses.replace(entry, in_graph=entry.isolated) for entry in nodes]


def _training_kernels(*, owned: bool) -> list[KernelRecord]:
    """Two kernels forward and three backward, one of which recomputes a product; `owned`: gelu's backward is known."""
    kernels = [
        kernel(
            "mm",
            on_device(39_900.0),
            handle=1,
            kind="extern",
            roles=(executes("linear"),),
            post_grad=("mm", "t"),
            traffic=moves(40 * MB, 20 * MB),
        ),
        kernel(
            "triton_poi_fused_gelu_0",
            on_device(9_500.0),
            handle=2,
            kind="triton",
            roles=(executes("gelu"),),
            post_grad=("gelu",),
            traffic=moves(16 * MB, 16 * MB),
        ),
        kernel(
            "triton_poi_fused_gelu_backward_0",
            on_device(15_000.0),
            handle=3,
            phase="backward",
            kind="triton",
            roles=(differentiates("gelu"),) if owned else (),
            post_grad=("mul", "gelu_backward"),
            traffic=moves(32 * MB, 16 * MB) if owned else (),
        ),
        kernel(
            "mm",
            on_device(79_000.0),
            handle=4,
            phase="backward",
            kind="extern",
            roles=(differentiates("linear", 3_000),),
            post_grad=("mm_1",),
            traffic=moves(60 * MB, 40 * MB),
        ),
        kernel(
            "triton_per_fused_mul_sum_1",
            on_device(5_000.0),
            handle=5,
            phase="backward",
            kind="triton",
            roles=(differentiates("linear", 1_000),),
            post_grad=("mul", "sum"),
            recomputes=("mul",),
            traffic=moves(23 * MB, 1 * MB),
        ),
    ]
    return [dataclasses.replace(entry, in_graph=entry.isolated) for entry in kernels]


def _training_post_grad() -> tuple[PostGradNode, ...]:
    """What Inductor lowered, each alone."""
    return (
        post_grad("mm", worked(on_device(40_000.0), 40 * MB, 20 * MB, flops=20 * GFLOP)),
        post_grad("gelu", worked(on_device(12_000.0), 32 * MB, 32 * MB)),
        post_grad("t", is_view=True),
        post_grad("mul", worked(on_device(5_000.0), 8 * MB, 8 * MB), phase="backward"),
        post_grad("gelu_backward", worked(on_device(16_000.0), 32 * MB, 16 * MB), phase="backward"),
        post_grad("mm_1", worked(on_device(80_000.0), 60 * MB, 40 * MB, flops=40 * GFLOP), phase="backward"),
        post_grad("sum", worked(on_device(3_000.0), 8 * MB, 1 * MB), phase="backward"),
    )


def gpu_profile() -> ProfileRecord:
    """Two regions of a training step: forward and backward kernels, an unowned one, a gap op, a graph break."""

    def side(rows: list[Measurement], plain_ns: float, wall_ns: float) -> Side:
        return Side(
            run=device_run(rows), plain=on_device(plain_ns), wall_ns=(wall_ns,) * 5, host_ns=(0.4 * wall_ns,) * 5
        )

    regions = []
    for key in ("r0", "r1"):
        nodes = _training_nodes(wrong=key == "r1")
        kernels = _training_kernels(owned=key == "r0")
        regions.append(
            region(
                nodes,
                kernels,
                key=key,
                device="cuda:0",
                post_grad=_training_post_grad(),
                eager=side([n.in_graph for n in nodes], 49_100.0, 160_000.0),
                eager_backward=side([n.backward_in_graph for n in nodes], 98_400.0, 240_000.0),
                forward=side([k.in_graph for k in kernels[:2]], 49_500.0, 95_000.0),
                backward=side([k.in_graph for k in kernels[2:]], 99_100.0, 150_000.0),
            )
        )
    rows = (
        StepRow(
            name="triton_poi_fused_gelu_0:2",
            op_type="triton",
            in_graph=on_device(9_500.0),
            region="r0",
            kernel="forward/triton_poi_fused_gelu_0:2",
            calls=1,
        ),
        StepRow(
            name="gap/optimizer/_foreach_add_@train.py:7",
            op_type="_foreach_add_",
            in_graph=on_device(20_000.0),
            calls=2,
            phase="optimizer",
            source=SourceLine(file="src/train.py", line=7),
        ),
    )
    step = StepRecord(
        run=device_run([row.in_graph for row in rows], unattributed_ns=500.0, unattributed=("ncclKernel",)),
        rows=rows,
        plain_wall_ns=(90_000.0, 91_000.0),
    )
    gpu = environment(
        gpu="A GPU",
        cuda="13.0",
        driver="580.1",
        libcupti="13.0 (/somewhere/libcupti.so.13)",
        gpu_l2_bytes=50 * 2**20,
        sm_clock_mhz=1980,
    )
    seen = ceilings(device="cuda:0", gb_per_s=4_000.0, gflops=700_000.0, launch_ns=1_500.0)
    record = profile(*regions, timer="cupti", step=step, env=gpu, ceilings=seen)
    return dataclasses.replace(
        record,
        breaks=(GraphBreak(reason="print() called", source=SourceLine(file="model.py", line=20), region="r0"),),
        recompiles=(Recompile(compile_id="0/1", guard="size of x changed: 4 to 8"),),
    )
