"""Columns of what the device did: launches, parts of busy time, clocks, Triton's choices. CSV and `wide` show them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from graphbench.analysis.device import DeviceFacts, Size, config_text, shared_bytes, size_text
from graphbench.device_records import DeviceKernel, TritonConfig
from graphbench.report.column import Column
from graphbench.report.names import shorten_symbol, symbol_text
from graphbench.units import MISSING

KIB: Final = 1024
WHOLE: Final = 1 << 30
"""As `shrink`: a cut number would read as another one."""


class OnDevice(Protocol):
    """A row of which the device's side is known."""

    @property
    def device(self) -> DeviceFacts:
        """What its isolated call did."""


Get = Callable[[OnDevice], object]


def _main(pick: Callable[[DeviceKernel], object]) -> Get:
    """Of the first kernel of a row."""
    return lambda row: None if row.device.main is None else pick(row.device.main)


def _each(pick: Callable[[DeviceKernel], object]) -> Get:
    """Of all device work of a row: one value as it is, several as text with `;` between them."""

    def joined(row: OnDevice) -> object:
        values = [pick(kernel) for kernel in row.device.kernels]
        if len(values) <= 1:
            return values[0] if values else None
        known = any(value is not None for value in values)
        return ";".join("" if value is None else str(value) for value in values) if known else None

    return joined


def _chosen(pick: Callable[[TritonConfig], object]) -> Get:
    return lambda row: None if row.device.config is None else pick(row.device.config)


def _names(row: OnDevice) -> str | None:
    """The main kernel, and how much else was launched."""
    facts = row.device
    if not facts.kernels:
        return None
    name = symbol_text((facts.main or facts.kernels[0]).name)
    others = len(facts.kernels) - 1
    return f"{name} +{others}" if others else name


def _count(pick: Callable[[tuple[int, int]], int]) -> Get:
    return lambda row: None if row.device.n_kernels_range is None else pick(row.device.n_kernels_range)


def _count_range(row: OnDevice) -> object:
    if row.device.n_kernels_range is None:
        return None
    fewest, most = row.device.n_kernels_range
    return fewest if fewest == most else f"{fewest}-{most}"


def _clocks(row: OnDevice) -> object:
    before, after = row.device.sm_mhz
    if before == after:
        return before
    return "→".join(MISSING if mhz is None else str(mhz) for mhz in (before, after))


def _shared_kib(kernel: DeviceKernel) -> float | None:
    size = shared_bytes(kernel)
    return None if size is None else size / KIB


def _volume(size: Size | None) -> int | None:
    return None if size is None else math.prod(size)


def _size_column(name: str, pick: Callable[[DeviceKernel], Size | None]) -> Column[OnDevice]:
    """A grid, block or cluster as text, sorted by how much it holds."""
    return Column(
        name=name,
        key=name,
        kind="text",
        get=_each(lambda kernel: size_text(pick(kernel))),
        brief=_main(lambda kernel: size_text(pick(kernel))),
        order=_main(lambda kernel: _volume(pick(kernel))),
        shrink=WHOLE,
    )


def _number_column(name: str, key: str, pick: Callable[[DeviceKernel], int | None]) -> Column[OnDevice]:
    """A count of the first kernel, in CSV of all."""
    return Column(name=name, key=key, kind="number", get=_each(pick), brief=_main(pick), order=_main(pick))


_COUNTS: Final = ("n_kernels", "n_kernels_min", "n_kernels_max")
COUNT_COLUMN: Final[Column[OnDevice]] = Column(
    name="kern.",
    key="n_kernels",
    kind="number",
    get=lambda row: row.device.n_kernels,
    brief=_count_range,
)

LAUNCH_COLUMNS: Final[tuple[Column[OnDevice], ...]] = (
    Column(
        name="device kernel",
        key="device_kernels",
        kind="text",
        get=_each(lambda kernel: kernel.name),
        brief=_names,
        shrink=16,
        shorten=shorten_symbol,
    ),
    Column(name="fewest", key="n_kernels_min", kind="number", get=_count(min), shown="csv"),
    Column(name="most", key="n_kernels_max", kind="number", get=_count(max), shown="csv"),
    Column(name="kernel\ntime", key="kernel_p50", kind="time", get=lambda row: row.device.kernel_ns),
    Column(name="copy\ntime", key="copy_p50", kind="time", get=lambda row: row.device.copy_ns, shown="nonzero"),
    Column(name="memset\ntime", key="memset_p50", kind="time", get=lambda row: row.device.memset_ns, shown="nonzero"),
    Column(name="span", key="span_p50", kind="time", get=lambda row: row.device.span_ns),
    Column(
        name="clock\nMHz",
        key="sm_clock_before_mhz",
        kind="number",
        get=lambda row: row.device.sm_mhz[0],
        brief=_clocks,
    ),
    Column(name="after", key="sm_clock_after_mhz", kind="number", get=lambda row: row.device.sm_mhz[1], shown="csv"),
    _size_column("grid", lambda kernel: kernel.grid),
    _size_column("block", lambda kernel: kernel.block),
    _size_column("cluster", lambda kernel: kernel.cluster),
    _number_column("regs", "registers_per_thread", lambda kernel: kernel.registers),
    Column(
        name="shared\nKiB",
        key="static_shared_bytes_per_block",
        kind="number",
        get=_each(lambda kernel: kernel.static_shared_bytes),
        brief=_main(_shared_kib),
        order=_main(shared_bytes),
    ),
    Column(
        name="dynamic",
        key="dynamic_shared_bytes_per_block",
        kind="number",
        get=_each(lambda kernel: kernel.dynamic_shared_bytes),
        order=_main(lambda kernel: kernel.dynamic_shared_bytes),
        shown="csv",
    ),
    _number_column("local\nB", "local_bytes_per_thread", lambda kernel: kernel.local_bytes),
    _number_column("stream", "stream", lambda kernel: kernel.stream),
)

CONFIG_COLUMNS: Final[tuple[Column[OnDevice], ...]] = (
    Column(name="config", key="config", kind="text", get=_chosen(config_text), shrink=32),
    Column(name="warps", key="num_warps", kind="number", get=_chosen(lambda config: config.num_warps), shown="csv"),
    Column(name="stages", key="num_stages", kind="number", get=_chosen(lambda config: config.num_stages), shown="csv"),
    Column(name="spills", key="spills", kind="number", get=_chosen(lambda config: config.spills)),
)


def in_csv(columns: tuple[Column[Any], ...]) -> tuple[Column[Any], ...]:
    """The same columns, in CSV only."""
    return tuple(replace(column, shown="csv") for column in columns)


def of_one_call(columns: tuple[Column[Any], ...]) -> tuple[Column[Any], ...]:
    """The same columns in CSV only, for rows of several calls: times and counts say that they are of one call."""
    return tuple(
        replace(column, key=f"one_call_{column.key}") if column.kind == "time" or column.key in _COUNTS else column
        for column in in_csv(columns)
    )
