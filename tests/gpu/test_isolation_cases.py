"""Isolation on a GPU, which a wrong index ends for the process: indices, positions, strides, dtypes, custom ops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench.analysis.missing import isolated, mismatches
from graphbench.analysis.warning_kinds import OWN_BENCH
from graphbench.records import NodeRecord, RegionRecord

pytestmark = pytest.mark.gpu
DEVICE = "cuda"
VALUES = ("captured", "synthetic")
NO_NEWS = ("none of its results requires grad", "a view", "computes no tensor", "sets state only")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    graphbench.reset()
    torch.manual_seed(0)
    yield
    graphbench.reset()


def measured(
    model: Callable[..., Any], *args: Any, values: str = "captured", backward: bool = False, under: Any = None
) -> RegionRecord:
    """The only region of a model that is run once, under a context."""
    with under or contextlib.nullcontext():
        result = torch.compile(model, backend="graphbench")(*args)
    if backward:
        result.float().sum().backward()
    profile = graphbench.measure(repeat=5, warmup=2, progress=False, ceilings="off", values=values)
    (region,) = profile.record.regions
    return region


def troubles(region: RegionRecord) -> list[str]:
    """Whatever was not measured, or gave another result alone, or compiled, than it should."""
    said = [] if region.status == "ok" else [region.reason]
    said += [
        f"{row}: {entry.reason}"
        for row, entry in isolated(region)
        if entry.status != "ok" and not entry.reason.startswith(NO_NEWS)
    ]
    wrong = mismatches([region], many=False)
    return said + [f"{name}: {entry}" for name, entry in (*wrong.unfaithful, *wrong.regions, *wrong.kernels)]


def of(region: RegionRecord, op_type: str) -> list[NodeRecord]:
    return [entry for entry in region.nodes if op_type in entry.op_type]


class Chain(nn.Module):
    """Embeddings, sorted into buckets, added up per bucket: two indices, one of which is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.register_buffer("bounds", torch.linspace(-0.1, 0.1, 7))

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.table(ids)
        bucket = torch.bucketize(rows.mean(-1), self.bounds)
        return torch.zeros(8, 64, device=ids.device).index_add(0, bucket, rows)


@pytest.mark.parametrize("values", VALUES)
def test_embedding_bucketize_index_add_stays_within_its_tables(values: str) -> None:
    ids = torch.randint(0, 1000, (4096,), device=DEVICE)
    assert troubles(measured(Chain().to(DEVICE), ids, values=values, backward=True)) == []


def rows_at_sums(a: Tensor, b: Tensor, table: Tensor) -> Tensor:
    return table[a + b].relu()


def rows_at_floats(x: Tensor, table: Tensor) -> Tensor:
    return table[(x * 100).long()].relu()


def ignoring(x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(x * 2, y)


def masked(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    return x.masked_scatter(mask, source) * 2


def drawn(p: Tensor) -> Tensor:
    return torch.multinomial(p, 2).float() * 2


A = torch.randint(0, 10, (4096,), generator=torch.Generator().manual_seed(1))
MASK = torch.arange(64 * 64).reshape(64, 64) % 3 == 0
INDICES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "a sum of two": (rows_at_sums, (A, 9 - A, torch.ones(10, 64))),
    "computed from floats": (rows_at_floats, (torch.full((4096,), 0.08), torch.ones(9, 64))),
    "classes, some to be ignored": (ignoring, (torch.ones(4096, 10), torch.where(A > 7, -100, A))),
    "masks with as many values": (masked, (torch.ones(64, 64), MASK, torch.ones(int(MASK.sum())))),
    "odds to draw from": (drawn, (torch.full((64, 64), 0.5),)),
}


@pytest.mark.parametrize(("function", "args"), INDICES.values(), ids=INDICES)
def test_no_value_is_made_up_that_ends_in_an_assert(function: Callable[..., Tensor], args: tuple[Tensor, ...]) -> None:
    region = measured(function, *(tensor.to(DEVICE) for tensor in args), values="synthetic")
    assert region.status == "ok", region.reason
    assert [f"{row}: {entry.reason}" for row, entry in isolated(region) if entry.status == "failed"] == []
    torch.cuda.synchronize()  # nothing was lost


def test_an_in_place_cumsum_does_not_drift() -> None:
    def positions(ids: Tensor) -> Tensor:
        mask = ids.ne(1).int()
        mask.cumsum_(1)
        return mask.long() + 1

    assert troubles(measured(positions, torch.randint(0, 3, (64, 512), device=DEVICE))) == []


def test_as_strided_of_channels_last_keeps_its_strides() -> None:
    x = torch.randn(2, 4, 5, 6, device=DEVICE).to(memory_format=torch.channels_last)
    region = measured(lambda x: x.as_strided((2, 4, 5, 6), x.stride(), 0) * 2, x)
    assert troubles(region) == []
    assert [entry.outputs[0].stride for entry in of(region, "as_strided")] == [(120, 1, 24, 4)]


def test_autocast_outside_the_model_gives_the_same_dtypes_alone() -> None:
    linear = nn.Linear(256, 256, device=DEVICE)

    def model(x: Tensor) -> Tensor:
        low = linear(x)
        with torch.autocast("cuda", enabled=False):
            return low + F.linear(x, linear.weight)

    under = torch.autocast("cuda", dtype=torch.bfloat16)
    region = measured(model, torch.randn(256, 256, device=DEVICE), under=under, backward=True)
    linears = [entry for entry in region.nodes if "linear" in entry.callee]
    assert [entry.outputs[0].dtype for entry in linears] == ["bfloat16", "float32"]
    assert [entry.isolated.fidelity.equal for entry in linears if entry.isolated.fidelity] == [True, True]
    assert next(entry.isolated.work.arithmetic for entry in linears if entry.isolated.work) == "bfloat16"


KNOWN: set[int] = set()


@torch.library.custom_op("byteststoo::registered", mutates_args=(), schema="(Tensor x) -> Tensor")
def registered(x: Tensor) -> Tensor:
    if x.data_ptr() not in KNOWN:
        raise RuntimeError("this buffer was never registered")
    return x * 2


registered.register_fake(torch.empty_like)


def test_what_an_op_offers_in_its_place_is_timed_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(inputs: graphbench.BenchInputs) -> Callable[[], object]:
        (x,) = inputs.args
        KNOWN.add(x.data_ptr())
        return lambda: registered(x)

    monkeypatch.setattr(registered, "__graphbench_bench__", prepare, raising=False)
    x = torch.randn(4096, 512, device=DEVICE)
    KNOWN.add(x.data_ptr())
    region = measured(lambda x: registered(x) + 1, x)
    assert troubles(region) == []
    (found,) = [entry.isolated for entry in region.nodes if "registered" in entry.callee]
    assert found.samples is not None
    assert min(found.samples.busy_ns) > 0
    assert OWN_BENCH in found.warnings


def test_without_that_it_is_to_be_done_by_hand_and_the_rest_is_measured() -> None:
    x = torch.randn(4096, 512, device=DEVICE)
    KNOWN.clear()
    KNOWN.add(x.data_ptr())
    region = measured(lambda x: registered(x) + 1, x)
    found = {entry.callee: entry.isolated for entry in region.nodes}
    assert found["torch.ops.byteststoo.registered.default"].reason.startswith("needs manual benchmark: byteststoo.")
    assert found["_operator.add"].status == "ok"


def test_a_users_triton_kernel_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from tests.gpu import kernels

    seen: list[graphbench.BenchInputs] = []

    def prepare(inputs: graphbench.BenchInputs) -> Callable[[], object]:
        seen.append(inputs)
        given = dict(inputs.kwargs)
        (grid,) = given.pop("grid")
        return lambda: kernels._increment[grid](**given)

    monkeypatch.setattr(kernels._increment, "__graphbench_bench__", prepare, raising=False)
    x = torch.zeros(1 << 20, device=DEVICE)
    region = measured(lambda x: kernels.increment(x), x)
    (found,) = [entry.isolated for entry in region.nodes if "triton_kernel" in entry.callee]
    assert (found.status, found.reason) == ("ok", "")
    assert OWN_BENCH in found.warnings
    assert found.fidelity is not None
    assert found.fidelity.equal is True  # what it wrote in place
    assert seen[0].kwargs["BLOCK"] == 1024
