"""What a GPU tells of launches, for tests of reports: measurements of named kernels, and a whole profile of them."""

from __future__ import annotations

import dataclasses

from graphbench.device_records import ClockState, DeviceKernel, TritonConfig
from graphbench.measurements import Measurement
from graphbench.records import Fate, ProfileRecord, Side
from tests.factories import device_run, environment, executes, kernel, node, profile, region, steady


def launch_profile() -> ProfileRecord:
    """Inference on a GPU, as CUDA graphs, with all that the instrument tells of launches, clocks and batches."""
    mm, gelu, pair = on_h200()
    nodes = [
        node("linear", mm, fate=Fate(kind="kernel", kernels=("forward/extern_kernels.mm:1",)), in_graph=mm),
        node("gelu", gelu, fate=Fate(kind="fused", kernels=("forward/triton_poi_fused_gelu_0:2",)), in_graph=gelu),
        node("sort", pair, fate=Fate(kind="kernel", kernels=("forward/torch.ops.aten.sort:3",)), in_graph=pair),
        node("view", steady(0.0, timer="cupti"), kind="view", fate=Fate(kind="view")),
    ]
    nodes[3] = dataclasses.replace(nodes[3], isolated=launched(0.0))
    fused = dataclasses.replace(
        gelu, device_kernels=(device_kernel("triton_poi_fused_gelu_0", grid=(2048, 1, 1), block=(128, 1, 1)),)
    )
    kernels = [
        kernel("extern_kernels.mm", mm, handle=1, kind="extern", roles=(executes("linear"),), in_graph=mm),
        kernel("triton_poi_fused_gelu_0", fused, handle=2, kind="triton", roles=(executes("gelu"),), in_graph=fused),
        kernel("torch.ops.aten.sort", pair, handle=3, kind="fallback", roles=(executes("sort"),), in_graph=pair),
    ]
    kernels[1] = dataclasses.replace(kernels[1], config=GELU_CONFIG)
    eager = Side(run=device_run([entry.in_graph for entry in nodes[:3]]), plain=steady(95_000.0, timer="cupti"))
    forward = Side(run=device_run([entry.in_graph for entry in kernels]), plain=mm, graph_nodes=35)
    gpu = environment(gpu="A GPU", cuda="13.0", driver="580.1", libcupti="13.0", sm_clock_mhz=1980, stamp_grain_ns=32)
    record = profile(region(nodes, kernels, device="cuda:0", eager=eager, forward=forward), timer="cupti", env=gpu)
    policy = dataclasses.replace(record.policy, noise=0.01, batch=64, lock_gpu_clock_mhz=1980)
    return dataclasses.replace(record, policy=policy)


GELU_CONFIG = TritonConfig(
    num_warps=4, num_stages=1, blocks=(("XBLOCK", 1024),), registers=24, spills=0, shared_bytes=0
)


def device_kernel(name: str, **changes: object) -> DeviceKernel:
    """A kernel of 432 blocks of 256 threads, on stream 7."""
    base = DeviceKernel(
        name=name,
        grid=(432, 1, 1),
        block=(256, 1, 1),
        registers=32,
        static_shared_bytes=0,
        dynamic_shared_bytes=0,
        local_bytes=0,
        stream=7,
        device=0,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def launched(
    busy_ns: float,
    *kernels: DeviceKernel,
    copy_ns: float = 0.0,
    memset_ns: float = 0.0,
    gaps_ns: float = 0.0,
    counts: tuple[int, ...] = (),
    clocks: tuple[int, int] = (1980, 1980),
    **changes: object,
) -> Measurement:
    """A CUPTI measurement of these launches; `counts` are kernels a sample, one each of `kernels` unless given."""
    made = steady(busy_ns, timer="cupti")
    assert made.samples is not None
    n = len(made.samples.busy_ns)
    once = (sum(entry.kind == "kernel" for entry in kernels),)
    samples = dataclasses.replace(
        made.samples,
        kernel_ns=(busy_ns - copy_ns - memset_ns,) * n,
        copy_ns=(copy_ns,) * n,
        memset_ns=(memset_ns,) * n,
        span_ns=(busy_ns + gaps_ns,) * n,
        n_kernels=((counts or once) * n)[:n],
    )
    return dataclasses.replace(
        made,
        samples=samples,
        device_kernels=kernels,
        clocks=tuple(ClockState(sm_mhz=mhz) for mhz in clocks),
        **changes,  # type: ignore[arg-type]
    )


def on_h200() -> tuple[Measurement, Measurement, Measurement]:
    """A matrix product with a fill, a pointwise kernel, and a sort that runs three or four kernels and a copy."""
    gemm = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize2x1x1_execute_segment_k_off_kernel"
    mm = launched(
        60_000.0,
        DeviceKernel(name="Memset", kind="memset", stream=7, device=0),
        device_kernel(
            gemm, grid=(16, 32, 1), block=(384, 1, 1), cluster=(2, 1, 1), registers=168, dynamic_shared_bytes=213_504
        ),
        memset_ns=1_500.0,
        gaps_ns=900.0,
    )
    pointwise = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)::"
        "{lambda(float)#1}, std::array<char*, 2ul> >(int, at::native::GeluCUDAKernelImpl)"
    )
    gelu = launched(
        9_024.0,
        device_kernel(pointwise),
        batch_ns=(7_000.0, 7_032.0, 7_064.0),
        clocks=(1980, 1755),
        warnings=("clock: SM 1980 -> 1755 MHz",),
    )
    sort = launched(
        26_000.0,
        device_kernel("radixSortKVInPlace", static_shared_bytes=1_024, dynamic_shared_bytes=512, local_bytes=48),
        device_kernel("fill_reverse_indices_kernel", registers=16),
        device_kernel("gather_kernel", grid=(8, 4, 2)),
        DeviceKernel(name="Memcpy DtoD", kind="copy", stream=7, device=0),
        copy_ns=2_000.0,
        gaps_ns=11_000.0,
        counts=(3, 4),
        warnings=("throttled: sw power cap", "coarse: 10 samples"),
    )
    return mm, gelu, sort
