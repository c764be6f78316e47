"""Traffic of real kernels: buffers by who wrote them, and no byte more of them than the kernel's nodes need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import graphbench
from graphbench.cost_checks import check_costs
from graphbench.isolate.costs import Span
from graphbench.measuring.traffic import Contents, Written, _part_of
from graphbench.records import KernelRecord, ProfileRecord

ROWS, WIDTH, WORDS = 32, 64, 1000


class Model(nn.Module):
    """Rows gathered from a table, a product, two halves of it, and a loss that gathers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)

    def forward(self, words: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        left, right = self.up(self.table(words)).chunk(2, dim=-1)
        return F.cross_entropy(F.gelu(left) * right, target)


@pytest.fixture(scope="module")
def record() -> Iterator[ProfileRecord]:
    torch.manual_seed(0)
    graphbench.reset()
    model = torch.compile(Model(), backend="graphbench")
    words = torch.arange(ROWS) % 10  # ten different rows
    model(words, torch.zeros(ROWS, dtype=torch.int64)).backward()
    yield graphbench.measure(repeat=2, warmup=1, ceilings="off", progress=False).record
    graphbench.reset()


def kernels(record: ProfileRecord, phase: str = "forward") -> list[KernelRecord]:
    return [kernel for kernel in record.regions[0].kernels if kernel.phase == phase]


def test_of_a_table_that_is_gathered_from_the_rows_are_read(record: ProfileRecord) -> None:
    first = kernels(record)[0]
    assert sorted(entry.read_bytes for entry in first.traffic if entry.read_bytes) == [ROWS * 8, 10 * WIDTH * 4]


def test_a_library_call_reads_its_matrices_and_writes_its_result(record: ProfileRecord) -> None:
    mm = next(kernel for kernel in kernels(record) if "mm" in kernel.name)
    read = sum(entry.read_bytes for entry in mm.traffic)
    written = sum(entry.written_bytes for entry in mm.traffic)
    assert (read, written) == ((ROWS * WIDTH + 2 * WIDTH * WIDTH) * 4, ROWS * 2 * WIDTH * 4)


def test_what_a_kernel_reads_names_the_kernel_that_wrote_it(record: ProfileRecord) -> None:
    gather, mm, *_ = kernels(record)
    passed = [entry for entry in mm.traffic if entry.writer == gather.key]
    assert [entry.read_bytes for entry in passed] == [ROWS * WIDTH * 4]
    assert passed[0].buffer in {entry.buffer for entry in gather.traffic if entry.written_bytes}


def test_both_halves_of_a_product_are_read_once(record: ProfileRecord) -> None:
    _, mm, pointwise, *_ = kernels(record)
    assert sum(entry.read_bytes for entry in pointwise.traffic if entry.writer == mm.key) == ROWS * 2 * WIDTH * 4


def test_every_kernel_of_forward_and_backward_has_its_traffic(record: ProfileRecord) -> None:
    assert all(kernel.traffic and not kernel.untold for kernel in record.regions[0].kernels)
    assert kernels(record, "backward")
    check_costs("record", record)


def test_compiling_took_time(record: ProfileRecord) -> None:
    region = record.regions[0]
    assert region.forward.compile_ns is not None
    assert region.backward.compile_ns is not None
    assert region.forward.compile_ns > 10_000_000  # Dynamo, AOTAutograd and Inductor take more than that for any graph
    assert region.backward.compile_ns > 1_000_000


def test_refusals_are_of_kernels_that_share_a_buffer(record: ProfileRecord) -> None:
    region = record.regions[0]
    buffers = {kernel.key: {entry.buffer for entry in kernel.traffic} for kernel in region.kernels}
    assert all(buffers[refusal.first] & buffers[refusal.second] for refusal in region.refusals)


def test_memory_that_is_written_over_is_forgotten() -> None:
    contents = Contents()
    contents.put(Written(0, 100, "old", "", "k1"))
    contents.put(Written(0, 100, "new", "", "k2"))
    assert [(entry.buffer, part) for entry, part in contents.at(0, 100)] == [("new", 1.0)]


def test_pieces_share_what_is_read_over_them_by_size() -> None:
    contents = Contents()
    contents.put(Written(0, 25, "left", "", "k1"))
    contents.put(Written(25, 100, "right", "", "k2"))
    assert [(entry.buffer, part) for entry, part in contents.at(0, 100)] == [("left", 0.25), ("right", 0.75)]


def test_memory_that_nobody_wrote_is_unknown() -> None:
    contents = Contents()
    contents.put(Written(0, 25, "left", "", "k1"))
    assert contents.at(25, 50) == []


def test_scratch_that_is_used_again_is_not_read() -> None:
    torch.manual_seed(0)
    graphbench.reset()
    layers = nn.ModuleList(nn.LayerNorm(64) for _ in range(2))
    model = torch.compile(lambda x, w: layers[1](layers[0](x) @ w + x), backend="graphbench")
    with torch.no_grad():
        model(torch.randn(128, 64), torch.randn(64, 64))
    record = graphbench.measure(repeat=2, warmup=1, ceilings="off", progress=False).record
    graphbench.reset()
    (region,) = record.regions
    last = region.kernels[-1]
    # A matrix, a weight and a bias: not the sums of rows that the first layer left in the memory used again.
    assert sum(entry.read_bytes for entry in last.traffic) == (128 * 64 + 2 * 64) * 4


def only_kernel(function: Callable[..., Any], *args: Any) -> KernelRecord:
    """The one kernel that a function compiles to."""
    graphbench.reset()
    with torch.no_grad():
        torch.compile(function, backend="graphbench")(*args)
    record = graphbench.measure(repeat=2, warmup=1, ceilings="off", progress=False).record
    graphbench.reset()
    (kernel,) = record.regions[0].kernels
    return kernel


def test_an_input_that_is_written_over_is_read_before() -> None:
    def average(mean: torch.Tensor, x: torch.Tensor) -> None:
        mean.mul_(0.9).add_(x)

    kernel = only_kernel(average, torch.ones(128, 64), torch.ones(128, 64))
    moved = [(entry.read_bytes, entry.written_bytes) for entry in kernel.traffic]
    assert sorted(moved) == [(0, 128 * 64 * 4), (128 * 64 * 4, 0), (128 * 64 * 4, 0)]


def test_pieces_that_a_kernel_reads_back_itself_are_not_read() -> None:
    def twice(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        whole = torch.cat([x.relu(), y.exp()])
        return whole * 2, whole.sum(0)

    kernel = only_kernel(twice, torch.ones(128, 64), torch.ones(128, 64))
    assert sum(entry.read_bytes for entry in kernel.traffic) == 2 * 128 * 64 * 4


@pytest.mark.parametrize("apart", [0, 24], ids=["one behind the other", "interlaced"])
def test_of_a_concatenation_only_the_piece_of_another_kernel_is_read(apart: int) -> None:
    whole, own = Span(0, 96, 96, 0), Span(apart, 72 + apart, 0, 24 if apart else 72)
    assert _part_of(whole, [own]) == (0.25 if apart else 0.75)


@torch.library.custom_op("graphbench_traffic::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    """An op whose FLOPs nobody told."""
    return 2 * x


@double.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_a_users_own_op_has_traffic_though_its_flops_are_not_known() -> None:
    kernel = only_kernel(lambda x: double(x), torch.ones(128, 64))
    assert (kernel.kind, kernel.untold) == ("custom", "")
    assert [(t.read_bytes, t.written_bytes) for t in kernel.traffic] == [(128 * 64 * 4, 0), (0, 128 * 64 * 4)]


def test_of_a_cache_that_is_updated_in_place_the_new_rows_are_written() -> None:
    graphbench.reset()
    update = torch.compile(lambda cache, rows, values: cache.index_copy_(0, rows, values), backend="graphbench")
    with torch.no_grad():
        update(torch.zeros(1000, 64), torch.tensor([3, 7]), torch.randn(2, 64))
    (region,) = graphbench.measure(repeat=2, warmup=1, ceilings="off", progress=False).record.regions
    graphbench.reset()
    assert sum(entry.written_bytes for kernel in region.kernels for entry in kernel.traffic) == 2 * 64 * 4
