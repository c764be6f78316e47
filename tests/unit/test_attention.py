"""Attention in pieces is found by what its kernels pass on, and gains what one kernel would not have to move."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.opportunity import Opportunity
from graphbench.records import KernelRecord, ProfileRecord, Side, Traffic
from tests.factories import ceilings, cpu_run, executes, kernel, node, post_grad, profile, region, steady, worked

SCORES = 1_000_000
OUTER = 10_000
FLOPS = 1_000


def product(name: str, position: int, read: tuple[Traffic, ...], made: str, size: int) -> KernelRecord:
    traffic = (*read, Traffic(buffer=made, written_bytes=size))
    lowered, node_name = f"bmm_{position}", f"matmul_{position}"
    times = {"handle": position, "kind": "extern", "in_graph": steady(300_000.0)}
    roles = (executes(node_name),)
    return kernel(name, 300_000.0, roles=roles, post_grad=(lowered,), traffic=traffic, **times)  # type: ignore[arg-type]


def attention(*, softmax: tuple[str, ...] = ("amax", "exp", "sum"), readers: int = 1) -> ProfileRecord:
    """Two products and a softmax between them: 1 MB of scores and 1 MB of weights at 10 GB/s, 10 kB of all else."""
    first = product("extern_kernels.bmm", 1, (Traffic(buffer="query", read_bytes=OUTER),), "buf0", SCORES)
    middle = kernel(
        "triton_per_fused__softmax_0",
        300_000.0,
        handle=2,
        kind="triton",
        roles=(executes("softmax"),),
        in_graph=steady(300_000.0),
        post_grad=softmax,
        traffic=(
            Traffic(buffer="buf0", writer=first.key, read_bytes=SCORES),
            Traffic(buffer="buf1", written_bytes=SCORES),
        ),
    )
    passed = (Traffic(buffer="buf1", writer=middle.key, read_bytes=SCORES),)
    lasts = [product("extern_kernels.bmm", 3 + i, passed, f"buf{2 + i}", OUTER) for i in range(readers)]
    kernels = [first, middle, *lasts]
    lowered = [
        post_grad(name, worked(steady(1.0), 0, 0, flops=FLOPS), target="bmm")
        for name in (first.executes[0], *(last.executes[0] for last in lasts))
    ]
    lowered += [post_grad(name, worked(steady(1.0), SCORES, SCORES)) for name in softmax]
    names = [role.node for entry in kernels for role in entry.roles]
    run = Side(run=cpu_run([entry.in_graph for entry in kernels]), plain=steady(900_000.0))
    nodes = [node(name, 100.0) for name in names]
    found = region(nodes, kernels, forward=run, post_grad=tuple(lowered))
    return profile(dataclasses.replace(found, status="ok"), ceilings=ceilings())


def found(record: ProfileRecord) -> list[Opportunity]:
    return [entry for entry in opportunities(record) if entry.kind == "attention"]


def test_the_gain_is_what_the_pieces_take_beyond_one_kernel_at_its_limit() -> None:
    (entry,) = found(attention())
    # One kernel reads 10 kB and writes 10 kB: 2 µs at 10 GB/s; its 2,000 FLOPs take 20 ns of 100 GFLOP/s.
    assert entry.gain_ns == pytest.approx(900_000.0 - 2_000.0)
    assert len(entry.kernels) == 3
    assert "3.81 MiB of scores and weights" in entry.what  # 1 MB written and read, twice
    assert "scaled_dot_product_attention" in entry.note


@pytest.mark.parametrize("softmax", [("mul", "add"), ("exp",), ("amax", "sum")])
def test_what_lies_between_two_products_and_is_no_softmax_is_none(softmax: tuple[str, ...]) -> None:
    assert found(attention(softmax=softmax)) == []


def test_weights_that_others_read_too_are_needed_outside() -> None:
    assert found(attention(readers=2)) == []


def test_without_ceilings_nothing_is_claimed() -> None:
    assert found(dataclasses.replace(attention(), ceilings=())) == []


def test_who_calls_the_one_op_already_is_told_what_keeps_it_from_its_kernel() -> None:
    record = attention()
    (made,) = record.regions
    nodes = tuple(dataclasses.replace(entry, op_type="scaled_dot_product_attention") for entry in made.nodes)
    (entry,) = found(dataclasses.replace(record, regions=(dataclasses.replace(made, nodes=nodes),)))
    assert "ran in its math form" in entry.note
    assert "F.scaled_dot_product_attention keeps" not in entry.note
