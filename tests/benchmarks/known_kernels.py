"""The kernels whose times several instruments are asked for: 1 µs to about 1 ms, library, Triton and generated ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from harness import DEVICE, each
from triton.language.extra.cuda import globaltimer

STAMPED_BLOCK = 4096
Function = Callable[[], object]
Builder = Callable[[], Function]
NOT_IN_NCU = ("copy_64mib",)
"""ncu profiles kernels; a copy is none."""


@triton.jit  # type: ignore[untyped-decorator]
def _silu_kernel(source, target, n_elements, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(source + offsets, mask=mask)
    tl.store(target + offsets, x * tl.sigmoid(x), mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def _stamped_kernel(source, target, stamps, n_elements, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    started = globaltimer()
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(source + offsets, mask=mask)
    tl.store(target + offsets, x * tl.sigmoid(x), mask=mask)
    tl.debug_barrier()
    tl.store(stamps + 2 * tl.program_id(0), started)
    tl.store(stamps + 2 * tl.program_id(0) + 1, globaltimer())


class Stamped:
    """A kernel that reads the GPU's own clock when its blocks start and end: what no instrument can add to.

    Source: PTX `%globaltimer`, in nanoseconds, through `triton.language.extra.cuda.globaltimer` (triton 3.6).
    """

    def __init__(self, n_mib: int) -> None:
        self._source, self._target = _floats(n_mib), torch.empty(n_mib << 18, device=DEVICE)
        self._grid = (triton.cdiv(self._source.numel(), STAMPED_BLOCK),)
        self.stamps = torch.zeros(self._grid[0], 2, dtype=torch.int64, device=DEVICE)

    def __call__(self) -> object:
        kernel: Any = _stamped_kernel
        return kernel[self._grid](
            self._source, self._target, self.stamps, self._source.numel(), BLOCK=STAMPED_BLOCK, num_warps=8
        )

    def last_ns(self) -> float:
        """From the first block's start to the last one's end in the latest call."""
        return float(self.stamps[:, 1].max() - self.stamps[:, 0].min())


def _floats(n_mib: int) -> torch.Tensor:
    return torch.randn(n_mib << 18, device=DEVICE)


def _bf16(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)


def _relu() -> Function:
    x = torch.randn(1024, device=DEVICE)
    return lambda: torch.relu(x)


def _add(n_mib: int) -> Builder:
    def build() -> Function:
        x, y, z = _floats(n_mib), _floats(n_mib), torch.empty(n_mib << 18, device=DEVICE)
        return lambda: torch.add(x, y, out=z)

    return build


def _copy() -> Function:
    source, target = _floats(64), torch.empty(64 << 18, device=DEVICE)
    return lambda: target.copy_(source)


def _gemm(size: int) -> Builder:
    def build() -> Function:
        a, b, c = _bf16(size, size), _bf16(size, size), _bf16(size, size)
        return lambda: torch.mm(a, b, out=c)

    return build


def _convolution(memory_format: torch.memory_format) -> Builder:
    def build() -> Function:
        image = _bf16(32, 128, 56, 56).to(memory_format=memory_format)
        weight = _bf16(128, 128, 3, 3).to(memory_format=memory_format)
        return lambda: torch.nn.functional.conv2d(image, weight, padding=1)

    return build


def _attention() -> Function:
    q, k, v = (_bf16(4, 16, 2048, 64) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


def _softmax() -> Function:
    x = torch.randn(4096, 4096, device=DEVICE)
    return lambda: torch.softmax(x, dim=-1)


def _layer_norm() -> Function:
    x, weight, bias = _bf16(8192, 1024), _bf16(1024), _bf16(1024)
    return lambda: torch.nn.functional.layer_norm(x, (1024,), weight, bias)


def _sum() -> Function:
    x = _floats(64)
    return lambda: x.sum()


def _cumsum() -> Function:
    x, out = _floats(64), torch.empty(64 << 18, device=DEVICE)
    return lambda: torch.cumsum(x, dim=0, out=out)


def _sort() -> Function:
    x = _floats(16)
    return lambda: torch.sort(x)


def _triton() -> Function:
    source, target = _floats(64), torch.empty(64 << 18, device=DEVICE)
    n_elements = source.numel()
    kernel: Any = _silu_kernel
    grid = (triton.cdiv(n_elements, 1024),)
    return lambda: kernel[grid](source, target, n_elements, BLOCK=1024)


def _inductor() -> Function:
    x, y = _floats(32), _floats(32)

    @torch.compile(backend="inductor")
    def fused(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x * 2.0 + y)

    return lambda: fused(x, y)


BUILDERS: dict[str, Builder] = {
    "relu_1ki": _relu,
    "add_1mib": _add(1),
    "gemm_bf16_512": _gemm(512),
    "layer_norm_8192x1024": _layer_norm,
    "add_16mib": _add(16),
    "gemm_bf16_2048": _gemm(2048),
    "sum_64mib": _sum,
    "softmax_4096x4096": _softmax,
    "conv3x3_nchw": _convolution(torch.contiguous_format),
    "conv3x3_nhwc": _convolution(torch.channels_last),
    "copy_64mib": _copy,
    "cumsum_64mib": _cumsum,
    "sort_16mib": _sort,
    "triton_silu_64mib": _triton,
    "inductor_gelu_32mib": _inductor,
    **{f"stamped_{n_mib}mib": partial(Stamped, n_mib) for n_mib in (4, 16, 64, 256)},
    "attention_2048": _attention,
    "gemm_bf16_4096": _gemm(4096),
    "add_256mib": _add(256),
    "add_1024mib": _add(1024),
}


def build() -> tuple[dict[str, Function], dict[str, str]]:
    """All kernels, each called three times, and by name the errors of those that could not be built.

    The same in every process: same order, same seed.
    """
    torch.set_grad_enabled(False)
    torch.manual_seed(0)

    def ready(_: str, builder: Callable[[], Any]) -> Function:
        function: Function = builder()
        for _call in range(3):
            function()
        torch.cuda.synchronize()
        return function

    return each(BUILDERS, ready)
