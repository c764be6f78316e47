"""A gated MLP on a GPU, with costs, traffic and ceilings: `gelu(x @ g) * (x @ u)` in bfloat16, by round figures."""

from __future__ import annotations

import dataclasses

from graphbench.condition_records import Ceiling
from graphbench.measurements import Measurement, TensorSpec
from graphbench.records import Fate, InputRecord, KernelRecord, NodeRecord, PostGradNode, ProfileRecord, Side
from tests.factories import (
    ceilings,
    device_run,
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
from tests.samples import moves

HIDDEN_BYTES = 8192 * 3072 * 2
"""Of the intermediate, [8192, 3072] in bfloat16: 50.3 MB."""
INPUT_BYTES = 8192 * 768 * 2
WEIGHT_BYTES = 768 * 3072 * 2
FLOPS = 2 * 8192 * 768 * 3072
POINTWISE = "forward/triton_poi_fused_gelu_mul_0:3"


def _ran(ns: float, *, host_ns: float = 5_000.0) -> Measurement:
    measured = steady(ns, timer="cupti")
    assert measured.samples is not None
    samples = dataclasses.replace(measured.samples, host_ns=(host_ns,) * len(measured.samples.busy_ns))
    return dataclasses.replace(measured, samples=samples)


def _product(ns: float) -> Measurement:
    return worked(_ran(ns), INPUT_BYTES + WEIGHT_BYTES, HIDDEN_BYTES, flops=FLOPS, arithmetic="bfloat16")


def _bf16(*shape: int) -> TensorSpec:
    return spec(*shape, dtype="bfloat16", device="cuda:0")


def _alone(handle: int) -> Fate:
    return Fate(kind="kernel", kernels=(f"forward/extern_kernels.mm:{handle}",))


def gated_nodes() -> list[NodeRecord]:
    """Two products, a gelu and their product; the gelu's and the last one's results are in one kernel."""
    hidden = (_bf16(8192, 3072),)
    fused = Fate(kind="fused", kernels=(POINTWISE,))
    return [
        node(
            "gate",
            _product(80_000.0),
            op_type="matmul",
            inputs=("x", "g"),
            outputs=hidden,
            module="mlp",
            line=3,
            fate=_alone(1),
        ),
        node(
            "up",
            _product(80_000.0),
            op_type="matmul",
            inputs=("x", "u"),
            outputs=hidden,
            module="mlp",
            line=4,
            fate=_alone(2),
        ),
        node(
            "gelu",
            worked(_ran(30_000.0), HIDDEN_BYTES, HIDDEN_BYTES),
            inputs=("gate",),
            outputs=hidden,
            module="mlp.act",
            line=5,
            fate=fused,
        ),
        node(
            "mul",
            worked(_ran(45_000.0), 2 * HIDDEN_BYTES, HIDDEN_BYTES),
            inputs=("gelu", "up"),
            outputs=hidden,
            module="mlp",
            line=5,
            fate=fused,
        ),
    ]


def gated_post_grad() -> tuple[PostGradNode, ...]:
    """The products, and the gelu in float32 in two steps, as far as this sample goes into it."""
    return (
        post_grad("mm", _product(80_000.0)),
        post_grad("mm_1", _product(80_000.0)),
        post_grad("convert", worked(_ran(45_000.0), HIDDEN_BYTES, 2 * HIDDEN_BYTES)),
        post_grad("erf_mul", worked(_ran(45_000.0), 2 * HIDDEN_BYTES, HIDDEN_BYTES)),
        post_grad("mul", worked(_ran(45_000.0), 2 * HIDDEN_BYTES, HIDDEN_BYTES)),
    )


def gated_kernels() -> list[KernelRecord]:
    """Two matrix products and what became of gelu and mul."""

    def product(handle: int, name: str, of: str) -> KernelRecord:
        return kernel(
            "extern_kernels.mm",
            _product(80_000.0),
            handle=handle,
            kind="extern",
            roles=(executes(of),),
            post_grad=(name,),
            traffic=moves(INPUT_BYTES + WEIGHT_BYTES, HIDDEN_BYTES),
        )

    return [
        product(1, "mm", "gate"),
        product(2, "mm_1", "up"),
        kernel(
            "triton_poi_fused_gelu_mul_0",
            _ran(40_000.0),
            handle=3,
            kind="triton",
            roles=(executes("gelu", 2 * HIDDEN_BYTES), executes("mul", 3 * HIDDEN_BYTES)),
            post_grad=("convert", "erf_mul", "mul"),
            traffic=moves(2 * HIDDEN_BYTES, HIDDEN_BYTES),
        ),
    ]


def gated_ceilings() -> tuple[Ceiling, ...]:
    """4 TB/s and 700 TFLOP/s of bfloat16, from the cache."""
    seen = ceilings(device="cuda:0", gb_per_s=4_000.0, gflops=700_000.0, launch_ns=1_500.0)
    return tuple(
        dataclasses.replace(entry, cached=True, arithmetic="bfloat16" if entry.kind == "matmul" else "")
        for entry in seen
    )


def gated_mlp(*, ceilings: tuple[Ceiling, ...] | None = None) -> ProfileRecord:
    """The whole profile; `ceilings` in the place of its own."""
    nodes = [dataclasses.replace(entry, in_graph=entry.isolated) for entry in gated_nodes()]
    kernels = [dataclasses.replace(entry, in_graph=entry.isolated) for entry in gated_kernels()]

    def side(rows: list[Measurement], plain_ns: float) -> Side:
        wall_ns = plain_ns + 20_000.0
        return Side(run=device_run(rows), plain=_ran(plain_ns), wall_ns=(wall_ns,) * 5, host_ns=(60_000.0,) * 5)

    made = region(
        nodes,
        kernels,
        device="cuda:0",
        post_grad=gated_post_grad(),
        eager=side([entry.in_graph for entry in nodes], 236_000.0),
        forward=side([entry.in_graph for entry in kernels], 201_000.0),
    )
    inputs = tuple(
        InputRecord(name=name, source=f"L['{name}']", kind="tensor", spec=shape)
        for name, shape in (("x", _bf16(8192, 768)), ("g", _bf16(768, 3072)), ("u", _bf16(768, 3072)))
    )
    made = dataclasses.replace(made, inputs=inputs)
    gpu = environment(gpu="A GPU", cuda="13.0")
    seen = gated_ceilings() if ceilings is None else ceilings
    return profile(made, timer="cupti", subject="GatedMLP", env=gpu, ceilings=seen)
