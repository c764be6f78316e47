"""What the device did in a row's isolated samples: parts of busy time, kernels and their launches, clocks. Pure."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.device_records import DeviceKernel, TritonConfig
from graphbench.measurements import Measurement

BATCH_BELOW_NS = 20_000
"""Units that take longer are not timed in batches: launch overhead does not drown them."""

Size = tuple[int, int, int]


@dataclass(frozen=True)
class DeviceFacts:
    """One measurement as the device saw it, worked out when asked for; `config` is that of a Triton kernel.

    Times are medians in nanoseconds. Whatever the instrument does not tell is `None`.
    """

    measurement: Measurement
    digest: Digest
    config: TritonConfig | None = None

    @property
    def kernel_ns(self) -> float | None:
        """Part of busy time with a kernel running."""
        return self.digest.median(self.measurement, "kernel_ns")

    @property
    def copy_ns(self) -> float | None:
        """Part of busy time with a copy running."""
        return self.digest.median(self.measurement, "copy_ns")

    @property
    def memset_ns(self) -> float | None:
        """Part of busy time with a fill running."""
        return self.digest.median(self.measurement, "memset_ns")

    @property
    def span_ns(self) -> float | None:
        """From first start to last end, gaps included: comparable only between rows of equal kernel count."""
        return self.digest.median(self.measurement, "span_ns")

    @property
    def batch_ns(self) -> float | None:
        """Per call of many calls queued back to back."""
        return self.digest.batch(self.measurement)

    @property
    def n_kernels(self) -> float | None:
        """Median number of kernels a sample."""
        return self.digest.median(self.measurement, "n_kernels")

    @functools.cached_property
    def n_kernels_range(self) -> tuple[int, int] | None:
        """Fewest and most kernels of any sample."""
        counts = self.measurement.samples.n_kernels if self.measurement.samples else None
        return (min(counts), max(counts)) if counts else None

    @property
    def kernels(self) -> tuple[DeviceKernel, ...]:
        """All device work, each kind of launch once, in order: kernels, copies and fills."""
        return self.measurement.device_kernels

    @functools.cached_property
    def main(self) -> DeviceKernel | None:
        """The first kernel; which one of several takes longest is not recorded."""
        return next((kernel for kernel in self.kernels if kernel.kind == "kernel"), None)

    @property
    def told(self) -> bool:
        """Whether there is anything to tell: not where nothing was launched, as for a view."""
        counts = self.n_kernels_range
        return bool(self.kernels or self.config or (counts != (0, 0) and (counts or self.measurement.clocks)))

    @property
    def sm_mhz(self) -> tuple[int | None, int | None]:
        """SM clock before the first sample and after the last, in MHz."""
        clocks = self.measurement.clocks
        return (clocks[0].sm_mhz, clocks[-1].sm_mhz) if clocks else (None, None)


def shared_bytes(kernel: DeviceKernel) -> int | None:
    """Static and dynamic shared memory of a block together; `None` unless both are known."""
    if kernel.static_shared_bytes is None or kernel.dynamic_shared_bytes is None:
        return None
    return kernel.static_shared_bytes + kernel.dynamic_shared_bytes


def size_text(size: Size | None) -> str | None:
    """A grid, block or cluster such as `432x16`; trailing ones say nothing and are left out, but never the first."""
    if size is None:
        return None
    x, y, z = size
    return f"{x}x{y}x{z}" if z != 1 else f"{x}x{y}" if y != 1 else str(x)


def config_text(config: TritonConfig | None) -> str | None:
    """A Triton configuration such as `XBLOCK=1024 w4 s1`: block constants, warps, stages."""
    if config is None:
        return None
    blocks = [f"{name}={value}" for name, value in config.blocks]
    return " ".join([*blocks, f"w{config.num_warps}", f"s{config.num_stages}"])
