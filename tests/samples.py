"""Two whole profiles for tests of reports: a CPU inference and a GPU training step, small, with every hard case."""

from __future__ import annotations

import dataclasses

from graphbench.records import (
    Comparison,
    Fate,
    GraphBreak,
    Measurement,
    NodeRole,
    ProfileRecord,
    Side,
    SourceLine,
    StepRecord,
    StepRow,
)
from tests.factories import (
    FAILED,
    cpu_run,
    device_run,
    environment,
    executes,
    kernel,
    node,
    profile,
    region,
    spec,
    steady,
)

CONV = "forward/extern_kernels.convolution:1"
POINTWISE = "forward/cpp_fused_add_relu_0:2"


def cpu_profile() -> ProfileRecord:
    """A convolution, a fused add and relu, a view, a dead node and one that failed; no gap recording."""
    image = (spec(16, 64, 56, 56),)
    nodes = [
        node(
            "conv1",
            steady(1_200_000.0, spread_ns=12_000.0),
            op_type="conv2d",
            fate=Fate(kind="kernel", kernels=(CONV,)),
            line=10,
            in_graph=steady(1_210_000.0),
            outputs=image,
            module="stem.conv",
        ),
        node(
            "add",
            steady(300_000.0, spread_ns=3_000.0),
            fate=Fate(kind="fused", kernels=(POINTWISE,)),
            line=11,
            in_graph=steady(310_000.0),
            outputs=image,
        ),
        node(
            "relu",
            steady(100_000.0, spread_ns=1_000.0),
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
            difference=Comparison(equal=True, max_abs=0.0),
        ),
        kernel(
            "cpp_fused_add_relu_0",
            steady(150_000.0, spread_ns=2_000.0),
            handle=2,
            roles=(executes("add"), executes("relu"), NodeRole(node="conv1", role="contributes")),
            in_graph=steady(155_000.0),
            difference=Comparison(equal=False, max_abs=1.2e-6),
        ),
    ]
    return profile(
        region(
            nodes,
            kernels,
            eager=Side(run=cpu_run([n.in_graph for n in nodes]), plain=steady(1_650_000.0)),
            forward=Side(run=cpu_run([k.in_graph for k in kernels]), plain=steady(1_360_000.0)),
        )
    )


def gpu_profile() -> ProfileRecord:
    """Two regions of a training step: forward and backward kernels, an unowned one, a gap op, a graph break."""

    def on_device(ns: float) -> Measurement:
        return steady(ns, timer="cupti")

    def side(rows: list[Measurement], plain_ns: float, wall_ns: float) -> Side:
        return Side(
            run=device_run(rows), plain=on_device(plain_ns), wall_ns=(wall_ns,) * 5, host_ns=(0.4 * wall_ns,) * 5
        )

    def one(key: str) -> tuple[list, list]:  # type: ignore[type-arg]
        wrong = dataclasses.replace(on_device(40_000.0), fidelity=Comparison(equal=False, max_abs=0.25))
        nodes = [
            node(
                "linear",
                wrong if key == "r1" else on_device(40_000.0),
                fate=Fate(kind="kernel", kernels=("forward/mm:1",)),
            ),
            node("gelu", on_device(9_000.0), fate=Fate(kind="fused", kernels=("forward/triton_poi_fused_gelu_0:2",))),
        ]
        kernels = [
            kernel("mm", on_device(39_900.0), handle=1, kind="extern", roles=(executes("linear"),)),
            kernel("triton_poi_fused_gelu_0", on_device(9_500.0), handle=2, kind="triton", roles=(executes("gelu"),)),
            kernel(
                "triton_poi_fused_gelu_backward_0",
                on_device(15_000.0),
                handle=3,
                phase="backward",
                kind="triton",
                roles=(NodeRole(node="gelu", role="differentiates"),) if key == "r0" else (),
            ),
        ]
        return nodes, kernels

    regions = []
    for key in ("r0", "r1"):
        nodes, kernels = one(key)
        nodes = [dataclasses.replace(n, in_graph=n.isolated) for n in nodes]
        kernels = [dataclasses.replace(k, in_graph=k.isolated) for k in kernels]
        regions.append(
            region(
                nodes,
                kernels,
                key=key,
                device="cuda:0",
                eager=side([n.in_graph for n in nodes], 49_100.0, 160_000.0),
                forward=side([k.in_graph for k in kernels[:2]], 49_500.0, 95_000.0),
                backward=side([k.in_graph for k in kernels[2:]], 15_100.0, 31_000.0),
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
    record = profile(*regions, timer="cupti", step=step, env=gpu)
    return dataclasses.replace(
        record,
        breaks=(GraphBreak(reason="print() called", source=SourceLine(file="model.py", line=20), region="r0"),),
        recompiles=1,
    )
