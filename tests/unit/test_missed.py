"""Fusions that Inductor missed: which pairs of kernels could be one, and what that would save."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from graphbench.analysis.missed import EPILOGUE, PROLOGUE, MissedFusion, missed_fusions
from graphbench.analysis.roofline import Ceilings
from graphbench.records import FusionRefusal, KernelKind, KernelRecord, Phase, PostGradNode, Traffic
from tests.factories import ceilings, kernel, region

CEILINGS = Ceilings.of(ceilings(gb_per_s=1.0), "cpu")  # 1 byte takes 1 ns
MB = 1_000_000


def reads(buffer: str, writer: str = "", size: int = MB) -> Traffic:
    return Traffic(buffer=buffer, writer=f"forward/{writer}" if writer else "", read_bytes=size)


def writes(buffer: str, size: int = MB) -> Traffic:
    return Traffic(buffer=buffer, written_bytes=size)


def made(name: str, *traffic: Traffic, kind: KernelKind = "triton", phase: Phase = "forward") -> KernelRecord:
    return kernel(name, kind=kind, traffic=traffic, phase=phase, post_grad=(name,))


def missed(*kernels: KernelRecord, post_grad: Sequence[PostGradNode] = ()) -> list[MissedFusion]:
    return missed_fusions(region(kernels=kernels, post_grad=tuple(post_grad)), CEILINGS)


def pairs(found: Sequence[MissedFusion]) -> list[tuple[str, str]]:
    return [(one.first.split("/")[1], one.second.split("/")[1]) for one in found]


def test_a_value_for_one_reader_only_need_neither_be_read_nor_written() -> None:
    (found,) = missed(made("a", reads("x"), writes("b0")), made("b", reads("b0", "a:0"), writes("b1")))
    assert (found.read_bytes, found.written_bytes, found.saved_ns) == (MB, MB, pytest.approx(2.0 * MB))
    assert found.buffers == ("b0",)


def test_a_value_that_another_kernel_reads_too_is_still_written() -> None:
    found = missed(
        made("a", writes("b0")),
        made("b", reads("b0", "a:0"), writes("b1")),
        made("mm", reads("b0", "a:0"), kind="fallback"),
    )
    assert pairs(found) == [("a:0", "b:0")]
    assert (found[0].read_bytes, found[0].written_bytes) == (MB, 0)


def kept(*, recomputed: bool = False) -> list[PostGradNode]:
    """`view` of `a`, both of the forward; the backward has a node of the same name only where it is `recomputed`."""
    forward = [
        PostGradNode(name="a", phase="forward", op="call_function", target="relu", inputs=()),
        PostGradNode(name="view", phase="forward", op="call_function", target="view", inputs=("a",), is_view=True),
    ]
    return [*forward, *([dataclasses.replace(forward[1], phase="backward")] if recomputed else [])]


def test_what_the_backward_reads_is_still_written() -> None:
    kernels = [made("a", writes("b0")), made("b", reads("b0", "a:0")), made("c", reads("view"), phase="backward")]
    (found,) = missed(*kernels, post_grad=kept())
    assert (found.read_bytes, found.written_bytes) == (MB, 0)


def test_what_the_backward_computes_again_under_the_same_name_was_not_kept() -> None:
    kernels = [made("a", writes("b0")), made("b", reads("b0", "a:0")), made("c", reads("view"), phase="backward")]
    (found,) = missed(*kernels, post_grad=kept(recomputed=True))
    assert (found.read_bytes, found.written_bytes) == (MB, MB)


def test_two_readers_of_one_input_could_read_it_once() -> None:
    (found,) = missed(made("a", reads("x"), writes("b0")), made("b", reads("x"), writes("b1")))
    assert (found.read_bytes, found.written_bytes) == (MB, 0)


def test_many_readers_of_one_buffer_are_neighbouring_pairs_only() -> None:
    found = missed(*(made(name, reads("x"), writes(f"b{name}")) for name in "abcd"))
    assert pairs(found) == [("a:0", "b:0"), ("b:0", "c:0"), ("c:0", "d:0")]


def test_what_a_pair_shares_is_added_up() -> None:
    (found,) = missed(made("a", reads("x"), writes("b0")), made("b", reads("x"), reads("b0", "a:0")))
    assert (found.read_bytes, found.written_bytes) == (2 * MB, MB)


def test_a_kernel_in_between_that_needs_the_one_and_feeds_the_other_keeps_them_apart() -> None:
    found = missed(
        made("norm", writes("b0")),
        made("mm", reads("b0", "norm:0"), writes("b1"), kind="extern"),
        made("add", reads("b1", "mm:0"), reads("b0", "norm:0"), writes("b2")),
    )
    assert ("norm:0", "add:0") not in pairs(found)


def test_memory_that_is_given_again_as_scratch_is_not_read() -> None:
    again = dataclasses.replace(made("b", reads("b0", "a:0"), reads("x")), reads=("x",))
    assert missed(made("a", reads("y"), writes("b0")), again) == []


def test_a_kernel_of_unknown_traffic_keeps_apart_what_it_stands_between() -> None:
    between = dataclasses.replace(made("mine", kind="user-triton"), reads=("a",))
    last = dataclasses.replace(made("b", reads("b0", "a:0")), reads=("a", "mine"))
    assert missed(made("a", writes("b0")), between, last) == []


def test_a_library_call_takes_an_epilogue_or_a_prologue_as_a_template_only() -> None:
    found = missed(
        made("poi", reads("x"), writes("b0")),
        made("extern_kernels.mm", reads("b0", "poi:0"), writes("b1"), kind="extern"),
        made("gelu", reads("b1", "extern_kernels.mm:0"), writes("b2")),
    )
    assert [one.how for one in found] == [PROLOGUE, EPILOGUE]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("mm", "extern"), ("mm_1", "extern")),
        (("sdpa", "fallback"), ("gelu", "triton")),
        (("mine", "user-triton"), ("gelu", "triton")),
        (("gelu", "triton"), ("all_reduce", "collective")),
        (("extern_kernels.sort", "extern"), ("gelu", "triton")),
        (("cpp_fused_0", "cpp"), ("triton_poi_0", "triton")),
    ],
)
def test_what_cannot_be_one_kernel_is_no_missed_fusion(
    first: tuple[str, KernelKind], second: tuple[str, KernelKind]
) -> None:
    one = made(first[0], writes("b0"), kind=first[1])
    assert missed(one, made(second[0], reads("b0", f"{first[0]}:0"), kind=second[1])) == []


def test_what_others_read_too_is_no_prologue_of_a_template() -> None:
    found = missed(
        made("poi", writes("b0")),
        made("extern_kernels.mm", reads("b0", "poi:0"), writes("b1"), kind="extern"),
        made("sum", reads("b0", "poi:0"), writes("b2")),
    )
    assert pairs(found) == [("poi:0", "sum:0")]


def test_a_template_takes_no_reduction_along() -> None:
    kernels = [made("norm", writes("b0")), made("extern_kernels.mm", reads("b0", "norm:0"), kind="extern")]
    reducing = PostGradNode(name="norm", phase="forward", op="call_function", target="var_mean", inputs=())
    assert missed(*kernels, post_grad=[reducing]) == []
    assert len(missed(*kernels)) == 1


def test_kernels_that_run_differently_often_are_no_pair() -> None:
    often = dataclasses.replace(made("b", reads("b0", "a:0")), calls=3)
    assert missed(made("a", writes("b0")), often) == []


def test_all_calls_of_a_pair_count() -> None:
    both = [made("a", writes("b0")), made("b", reads("b0", "a:0"))]
    (found,) = missed(*(dataclasses.replace(entry, calls=3) for entry in both))
    assert (found.read_bytes, found.saved_ns) == (3 * MB, pytest.approx(6.0 * MB))


def test_the_scheduler_s_own_reason_is_told() -> None:
    kernels = [made("a", writes("b0")), made("b", reads("b0", "a:0"))]
    refusal = FusionRefusal(first=kernels[0].key, second=kernels[1].key, reason="intermediate nodes between node1")
    place = dataclasses.replace(region(kernels=kernels), refusals=(refusal,))
    assert [entry.reason for entry in missed_fusions(place, CEILINGS)] == ["intermediate nodes between node1"]


def test_without_ceilings_the_bytes_are_known_and_the_time_is_not() -> None:
    place = region(kernels=[made("a", writes("b0")), made("b", reads("b0", "a:0"))])
    (found,) = missed_fusions(place, Ceilings())
    assert (found.read_bytes, found.saved_ns) == (MB, None)


def test_graphs_do_not_share_buffers() -> None:
    forward = made("a", reads("x"))
    backward = made("b", reads("x"), phase="backward")
    assert missed(forward, backward) == []
