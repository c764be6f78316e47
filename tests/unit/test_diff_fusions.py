"""Fusions of two profiles are joined by the nodes that they execute, whatever their kernels are called."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.diff import diff, worst_regression
from graphbench.analysis.diff_fusions import FusionDiffRow
from graphbench.measurements import Measurement
from graphbench.records import KernelRecord, NodeRole, PostGradNode, ProfileRecord, Traffic
from tests.factories import FAILED, differentiates, executes, kernel, node, post_grad, profile, region, spec, steady

NODES = ("a", "b", "c", "d")


def fused(name: str, nodes: str, ns: float | Measurement = 100.0, **changes: object) -> KernelRecord:
    """A kernel that executes nodes given by their letters, its handle being of no meaning."""
    made = kernel(name, ns, roles=tuple(executes(letter) for letter in nodes), handle=sum(map(ord, name + nodes)))
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def of(*kernels: KernelRecord, nodes: tuple[str, ...] = NODES, post: tuple[PostGradNode, ...] = ()) -> ProfileRecord:
    return profile(region([node(name, 10.0) for name in nodes], kernels, post_grad=post))


def fusions(before: ProfileRecord, after: ProfileRecord) -> list[FusionDiffRow]:
    return list(diff(before, after).fusions)


def changes(before: ProfileRecord, after: ProfileRecord) -> list[tuple[str, int, int]]:
    return [(row.change, len(row.kernels_before), len(row.kernels_after)) for row in fusions(before, after)]


def test_a_kernel_of_another_name_that_executes_the_same_nodes_is_the_same_fusion() -> None:
    (row,) = fusions(of(fused("triton_0", "ab", 100.0)), of(fused("triton_7", "ba", 200.0)))
    assert (row.change, row.ratio, row.verdict) == ("same", 2.0, "slower")


def test_a_name_that_now_executes_other_nodes_is_another_fusion() -> None:
    found = fusions(of(fused("k", "ab"), fused("l", "cd")), of(fused("k", "cd"), fused("l", "ab")))
    assert [(row.change, row.nodes) for row in found] == [("same", ("c", "d")), ("same", ("a", "b"))]
    assert [row.kernels_before[0][0] for row in found] == ["l", "k"]


def test_kernels_that_became_one_are_merged_and_their_times_added() -> None:
    (row,) = fusions(of(fused("k", "ab", 100.0), fused("l", "cd", 50.0)), of(fused("m", "abcd", 60.0)))
    assert (row.change, row.before_ns, row.after_ns, row.verdict) == ("merged", 150.0, 60.0, "faster")


def test_a_kernel_that_became_several_is_split() -> None:
    assert changes(of(fused("k", "abc")), of(fused("k", "a"), fused("l", "bc"))) == [("split", 1, 2)]


def test_kernels_that_exchanged_a_node_changed_together() -> None:
    before, after = of(fused("k", "ab"), fused("l", "cd")), of(fused("k", "a"), fused("l", "bcd"))
    assert changes(before, after) == [("changed", 2, 2)]


def test_a_node_that_a_kernel_recomputes_does_not_tie_it_to_the_one_that_computes_it() -> None:
    again = dataclasses.replace(
        fused("l", "cd"), roles=(executes("c"), executes("d"), NodeRole(node="a", role="recomputes"))
    )
    assert changes(of(fused("k", "ab"), fused("l", "cd")), of(fused("k", "ab"), again)) == [("same", 1, 1)] * 2


def test_a_kernel_of_nodes_that_only_one_side_has_is_added_or_gone() -> None:
    before, after = of(fused("k", "a"), nodes=("a",)), of(fused("k", "z"), nodes=("z",))
    found = fusions(before, after)
    assert [(row.change, row.delta_ns, row.verdict) for row in found] == [
        ("added", 100.0, None),
        ("gone", -100.0, None),
    ]
    assert [row.reason for row in found] == ["only in the second profile", "only in the first profile"]


def test_a_fusion_that_took_in_a_new_node_changed_and_is_not_the_same_work() -> None:
    (row,) = fusions(of(fused("k", "ab"), nodes=("a", "b")), of(fused("k", "abz"), nodes=("a", "b", "z")))
    assert (row.change, row.verdict, row.reason) == ("changed", None, "not the same work: other nodes")


def test_nodes_of_other_shapes_are_not_the_same_work() -> None:
    def wide(width: int) -> ProfileRecord:
        return profile(region([node("a", 1.0, outputs=(spec(4, width),))], [fused("k", "a")]))

    (row,) = fusions(wide(8), wide(16))
    assert (row.verdict, row.ratio) == (None, 1.0)
    assert row.reason == "not the same work: f32[4,8] before, f32[4,16] after"


def test_kernels_of_one_set_of_nodes_are_told_apart_by_what_they_execute() -> None:
    def products(first: str, second: str) -> ProfileRecord:
        """The backward of a linear: a product for its input and a sum for its bias."""
        kernels = [
            dataclasses.replace(
                kernel(name, ns, phase="backward", roles=(differentiates("a"),), handle=handle),
                executes=(name,),
            )
            for handle, (name, ns) in enumerate(
                ((first, 100.0 if first == "mm" else 10.0), (second, 100.0 if second == "mm" else 10.0))
            )
        ]
        post = (post_grad("mm", phase="backward"), post_grad("sum", phase="backward"))
        return of(*kernels, post=post)

    found = fusions(products("mm", "sum"), products("sum", "mm"))
    assert [(row.kernels_after[0].split(":")[0], row.ratio) for row in found] == [("sum", 1.0), ("mm", 1.0)]


def test_kernels_of_no_known_node_are_joined_by_what_they_execute() -> None:
    def of_nobody(*names: str) -> ProfileRecord:
        kernels = [kernel(name, 10.0, handle=i, post_grad=(f"seed_{name}",)) for i, name in enumerate(names)]
        return of(*kernels, post=tuple(post_grad(f"seed_{name}") for name in names))

    assert changes(of_nobody("k", "l"), of_nobody("l", "k")) == [("same", 1, 1)] * 2


def test_times_are_of_all_calls() -> None:
    before, after = of(fused("k", "a", 100.0, calls=3)), of(fused("k", "a", 100.0, calls=2))
    (row,) = fusions(before, after)
    assert (row.before_ns, row.after_ns) == (300.0, 200.0)


def test_bytes_are_what_the_kernels_get_and_give_in_all_calls() -> None:
    def moving(*sizes: int, calls: int = 1) -> ProfileRecord:
        letters = "ab" if len(sizes) == 1 else "a", "b"
        kernels = [
            fused("k", nodes, traffic=(Traffic(buffer=nodes, read_bytes=size, written_bytes=1),), calls=calls)
            for size, nodes in zip(sizes, letters, strict=False)
        ]
        return of(*kernels)

    (row,) = fusions(moving(100, 50), moving(100, calls=2))
    assert (row.change, row.before_bytes, row.after_bytes, row.delta_bytes) == ("merged", 152, 202, 50)


def test_bytes_that_are_not_known_of_every_kernel_are_not_added_up() -> None:
    counted = fused("k", "a", traffic=(Traffic(buffer="x", read_bytes=8),))
    (row,) = fusions(of(counted, fused("l", "b")), of(fused("m", "ab", traffic=(Traffic(buffer="x", read_bytes=8),))))
    assert (row.before_bytes, row.after_bytes) == (None, 8)


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_kernel_that_failed_on_one_side_does_not_hide_the_other(which: str) -> None:
    sides = of(fused("k", "a", FAILED)), of(fused("k", "a", steady(100.0)))
    (row,) = fusions(*(sides if which == "before" else sides[::-1]))
    known = row.after_ns if which == "before" else row.before_ns
    assert (row.change, row.verdict, known, row.reason) == ("same", None, 100.0, f"{which}: ran out of memory")


def test_fusions_follow_nodes_that_were_renamed() -> None:
    def named(*names: str) -> ProfileRecord:
        nodes = [
            node(names[0], 1.0, op_type="mm", inputs=("x",)),
            node(names[1], 1.0, op_type="relu", inputs=(names[0],)),
        ]
        kernels = [kernel("k", 1.0, roles=tuple(map(executes, names)))]
        return profile(region(nodes, kernels))

    (row,) = fusions(named("h", "y"), named("hidden", "out"))
    assert (row.change, row.nodes) == ("same", ("hidden", "out"))


def test_the_gate_sees_a_fusion_that_became_slower() -> None:
    worst = worst_regression(diff(of(fused("k", "ab", 100.0)), of(fused("k", "ab", 200.0))))
    assert isinstance(worst, FusionDiffRow)
    assert worst.ratio == 2.0


def test_a_view_is_not_judged_by_what_its_call_costs_the_host() -> None:
    before, after = (profile(region([node("view", ns, kind="view")])) for ns in (900.0, 5_000.0))
    (row,) = diff(before, after).rows
    assert (row.verdict, row.reason) == (None, "a view")
