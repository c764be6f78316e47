"""Isolation on what real models do: indices, positions, strides and dtypes alone are what they are in the run."""

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
from graphbench.errors import IsolationError
from graphbench.isolate.held import Stub
from graphbench.measurements import Measurement
from graphbench.records import RegionRecord
from tests.cpu.stories import clean, node

VALUES = ("captured", "synthetic")
GENERATOR = torch.Generator().manual_seed(3)
NEWS = ("failed", "skipped")
NO_NEWS = ("none of its results requires grad", "a view", "computes no tensor", "sets state only")


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=GENERATOR)


def integers(high: int, *shape: int) -> Tensor:
    return torch.randint(0, high, shape, generator=GENERATOR)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing captured, and nothing left behind."""
    with clean():
        yield


def regions(
    model: Callable[..., Any], *args: Any, values: str = "captured", backward: bool = False, under: Any = None
) -> tuple[RegionRecord, ...]:
    """A model run once, under a context, and measured outside of it."""
    with under or contextlib.nullcontext():
        result = torch.compile(model, backend="graphbench")(*args)
    if backward:
        result.float().sum().backward()
    return graphbench.measure(repeat=2, warmup=1, progress=False, ceilings="off", values=values).record.regions


def troubles(found: tuple[RegionRecord, ...]) -> list[str]:
    """Whatever was not measured, or gave another result alone, or compiled, than it should."""
    said = [f"{region.key}: {region.reason}" for region in found if region.status != "ok"]
    for region in found:
        said += [f"{row}: {entry.reason}" for row, entry in isolated(region) if _is_news(entry)]
    wrong = mismatches(found, many=True)
    return said + [f"{name}: {entry}" for name, entry in (*wrong.unfaithful, *wrong.regions, *wrong.kernels)]


def _is_news(entry: Measurement) -> bool:
    return entry.status in NEWS and not entry.reason.startswith(NO_NEWS)


# indices


class Chain(nn.Module):
    """Embeddings, sorted into buckets, added up per bucket: two indices, one of which is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.register_buffer("bounds", torch.linspace(-0.5, 0.5, 7))

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.table(ids)
        bucket = torch.bucketize(rows.mean(-1), self.bounds)
        return torch.zeros(8, 8).index_add(0, bucket, rows)


@pytest.mark.parametrize("values", VALUES)
def test_embedding_bucketize_index_add_stays_within_its_tables(values: str) -> None:
    found = regions(Chain(), integers(10, 32), values=values, backward=True)
    assert troubles(found) == []
    phases = {kernel.phase for kernel in found[0].kernels if kernel.isolated.status == "ok"}
    assert phases == {"forward", "backward"}


def rows_at_sums(a: Tensor, b: Tensor, table: Tensor) -> Tensor:
    return table[a + b].relu()


def rows_at_floats(x: Tensor, table: Tensor) -> Tensor:
    return table[(x * 100).long()].relu()


def rows_within_a_mask(x: Tensor, index: Tensor, mask: Tensor, table: Tensor) -> Tensor:
    return torch.where(mask, table[torch.where(mask, index, 0)], x)


def ignoring(x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(x * 2, y)


def gathered(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
    put = x.index_put((index[:, 0],), source, accumulate=True)
    return x.gather(1, index) + x.scatter(1, index, source) + x.scatter_add(1, index, source) + put


def masked(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    y = x.clone()
    y[mask] = source
    return y.masked_scatter(mask, source) * 2


def bags(table: Tensor, ids: Tensor, offsets: Tensor) -> Tensor:
    return F.embedding_bag(ids, table, offsets) * 2


def repeated(x: Tensor, counts: Tensor) -> Tensor:
    return x.repeat_interleave(counts, 0, output_size=10) * 2


def one_hot(ids: Tensor, table: Tensor) -> Tensor:
    return F.one_hot(ids, 10).float() @ table


A = integers(10, 32)
MASK = random(8, 8) > 0
COUNT = int(MASK.sum())
CLASSES = integers(5, 16).index_fill_(0, torch.arange(0, 16, 3), -100)
INDICES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "a sum of two, which only together stay below the end": (rows_at_sums, (A, 9 - A, random(10, 4))),
    "computed from floats": (rows_at_floats, (torch.rand(32, generator=GENERATOR) * 0.09, random(9, 4))),
    "legal where a mask says so": (rows_within_a_mask, (random(8, 8), torch.where(MASK, 3, 99), MASK, random(4))),
    "classes, some to be ignored": (ignoring, (random(16, 5), CLASSES)),
    "gather, scatter, index_put": (gathered, (random(8, 8), integers(8, 8, 8), random(8, 8))),
    "masks with as many values": (masked, (random(8, 8), MASK, random(COUNT))),
    "offsets of bags": (bags, (random(10, 4), integers(10, 20), torch.tensor([0, 5, 9, 19]))),
    "counts that add up": (repeated, (random(4, 3), torch.tensor([1, 2, 3, 4]))),
    "one-hot": (one_hot, (A, random(10, 4))),
}


@pytest.mark.parametrize(("function", "args"), INDICES.values(), ids=INDICES)
def test_no_index_is_made_up(function: Callable[..., Tensor], args: tuple[Tensor, ...]) -> None:
    assert troubles(regions(function, *args, values="synthetic")) == []


def test_a_kernel_that_indexes_keeps_its_values_and_says_so_and_others_do_not() -> None:
    def model(x: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        return rows_at_floats(x, table), (x.sin() @ x).cos()

    x, table = torch.rand(8, 8, generator=GENERATOR) * 0.09, random(9, 4)
    (region,) = regions(model, x, table, values="synthetic")
    found = {"index" in kernel.name: kernel.isolated.values for kernel in region.kernels if kernel.kind == "cpp"}
    assert found == {True: "captured", False: "synthetic"}
    assert node(region, "matmul").isolated.values == "synthetic"


def test_integers_that_were_not_kept_are_not_made_up() -> None:
    with pytest.raises(IsolationError, match=r"the torch.int64 argument of shape \(4,\) was not kept"):
        Stub((4,), (1,), torch.int64, torch.device("cpu"), 0).made()


# positions


def positions_in_place(ids: Tensor) -> Tensor:
    mask = ids.ne(1).int()
    mask.cumsum_(1)
    return mask.long() + 1


def test_an_in_place_cumsum_does_not_drift() -> None:
    (region,) = regions(positions_in_place, integers(3, 2, 12))
    assert troubles((region,)) == []
    assert node(region, "cumsum_").isolated.fidelity is not None
    assert node(region, "cumsum_").isolated.status == "ok"


def test_an_in_place_cumsum_of_an_input_leaves_the_users_as_the_call_left_it() -> None:
    def model(positions: Tensor) -> Tensor:
        return positions.cumsum_(0) * 2

    positions = torch.ones(12, dtype=torch.long)
    assert troubles(regions(model, positions)) == []
    assert positions.tolist() == list(range(1, 13))


@pytest.mark.parametrize("values", VALUES)
def test_camemberts_positions_repeat(values: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.CamembertConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        pad_token_id=1,
    )
    model = transformers.CamembertModel(config).eval()
    ids = integers(62, 2, 12) + 2
    ids[0, 8:] = 1
    with torch.no_grad():
        found = regions(lambda ids: model(ids).last_hidden_state, ids, values=values)
    assert troubles(found) == []
    assert node(found[0], "cumsum").isolated.values == "captured"  # a mask is all that it is made of


# strides

LAST = random(2, 4, 5, 6).to(memory_format=torch.channels_last)


def test_as_strided_of_channels_last_keeps_its_strides() -> None:
    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.as_strided((2, 4, 5, 6), x.stride(), 0) * 2, x.as_strided((2, 4, 30), (120, 1, 4)).sum(1)

    (region,) = regions(model, LAST)
    assert troubles((region,)) == []
    strides = [entry.outputs[0].stride for entry in region.nodes if entry.op_type == "as_strided"]
    assert strides == [(120, 1, 24, 4), (120, 1, 4)]
    assert node(region, "mul").isolated.fidelity is not None
    assert node(region, "mul").outputs[0].stride == (120, 1, 24, 4)


def turned(x: Tensor, y: Tensor) -> Tensor:
    return torch.copysign(x.mT, y) * 2


def enlarged(x: Tensor) -> Tensor:
    near = F.interpolate(x, size=(10, 12), mode="nearest")
    return near + F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


STRIDED: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "copysign of .mT": (turned, (random(4, 6), random(6, 4))),
    "interpolate of channels-last": (enlarged, (LAST,)),
    "expanded": (lambda x, index: x.gather(1, index) + 1, (random(8, 1).expand(8, 8), integers(8, 8, 1).expand(8, 8))),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize(("function", "args"), STRIDED.values(), ids=STRIDED)
def test_odd_strides_are_kept(function: Callable[..., Tensor], args: tuple[Tensor, ...], values: str) -> None:
    (region,) = regions(function, *args, values=values)
    assert troubles((region,)) == []


def test_a_node_alone_has_the_strides_of_eager() -> None:
    x, y = random(4, 6), random(6, 4)
    (region,) = regions(turned, x, y)
    assert node(region, "copysign").outputs[0].stride == torch.copysign(x.mT, y).stride() == (1, 6)


def views_in_place(x: Tensor) -> Tensor:
    y = x * 1
    y[:, 1:3].add_(1)
    y.t()[0].mul_(2)
    y.view(-1)[::2].zero_()
    return y + 1


@pytest.mark.parametrize("with_grad", [False, True])
def test_in_place_ops_on_views_write_only_their_part(with_grad: bool) -> None:
    x = random(4, 4).requires_grad_(with_grad)
    assert troubles(regions(views_in_place, x, backward=with_grad)) == []


# dtypes


class Mixed(nn.Module):
    """Half of it under the autocast of whoever calls it, half of it not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        low = self.inner(x)
        with torch.autocast("cpu", enabled=False):
            high = F.linear(x, self.inner.weight)
        return F.softmax(low + high, -1)


def test_autocast_outside_the_model_gives_the_same_dtypes_alone() -> None:
    under = torch.autocast("cpu", dtype=torch.bfloat16)
    (region,) = regions(Mixed(), random(8, 16), under=under, backward=True)
    assert troubles((region,)) == []
    linears = [entry for entry in region.nodes if "linear" in entry.callee]
    assert [entry.outputs[0].dtype for entry in linears] == ["bfloat16", "float32"]
    compared = [entry.isolated.fidelity for entry in linears]
    assert [found is not None and found.equal for found in compared] == [True, True]
    products = [
        entry for entry in region.post_grad if entry.target.startswith(("addmm", "mm")) and entry.phase == "forward"
    ]
    assert [entry.outputs[0].dtype for entry in products] == ["bfloat16", "float32"]
    assert {entry.isolated.status for entry in products} == {"ok"}
    assert [entry.isolated.work.arithmetic for entry in linears if entry.isolated.work] == ["bfloat16", "float32"]
