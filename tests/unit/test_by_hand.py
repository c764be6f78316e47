"""The to-do list of a profile: ops that have to be benchmarked by hand, and what the report says of them."""

from __future__ import annotations

import dataclasses

from graphbench.analysis.by_hand import ByHandOp, by_hand_ops
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord
from graphbench.report.markdown import MarkdownReporter
from graphbench.report.overview import by_hand_lines
from graphbench.report.table import TableReporter
from tests.factories import kernel, node, profile, region, steady


def skipped(why: str) -> Measurement:
    return Measurement(status="skipped", reason=f"needs manual benchmark: {why}")


def measured(*names_and_reasons: tuple[str, str]) -> ProfileRecord:
    nodes = [node(name, isolated=skipped(why)) for name, why in names_and_reasons]
    return profile(region(nodes=(*nodes, node("fine", isolated=steady(100.0)))))


def test_rows_of_one_op_are_one_entry_with_its_first_reason() -> None:
    record = measured(("a", "mine.f: it raises: twice"), ("b", "mine.g: why"), ("c", "mine.f: later"))
    found = by_hand_ops(record)
    assert found == (
        ByHandOp(op="mine.f", rows=("a", "c"), why="it raises: twice"),
        ByHandOp(op="mine.g", rows=("b",), why="why"),
    )


def test_kernels_and_backwards_count_too() -> None:
    nodes = (node("a", isolated=steady(100.0), backward=skipped("mine.f: no backward")),)
    kernels = (kernel("f", skipped("mine.f: other"), handle=1),)
    (found,) = by_hand_ops(profile(region(nodes=nodes, kernels=kernels)))
    assert found.rows == ("backward of a", "forward/f:1")


def test_what_failed_or_was_skipped_for_another_reason_is_no_work_for_hands() -> None:
    other = Measurement(status="skipped", reason="a view")
    failed = dataclasses.replace(skipped("mine.f: why"), status="failed")
    nodes = (node("a", isolated=other), node("b", isolated=failed))
    assert by_hand_ops(profile(region(nodes=nodes))) == ()


def test_rows_of_several_regions_are_named_with_theirs() -> None:
    one = region(key="r0", nodes=(node("a", isolated=skipped("mine.f: why")),))
    other = region(key="r1", nodes=(node("a", isolated=skipped("mine.f: why")),))
    (found,) = by_hand_ops(profile(one, other))
    assert found.rows == ("r0/a", "r1/a")


def test_the_lines_say_what_to_do_and_why() -> None:
    ops = by_hand_ops(measured(("a", "mine.f: why"), ("b", "mine.g: because")))
    assert by_hand_lines(ops) == [
        "to benchmark by hand: 2 ops: mine.f, mine.g; implement __graphbench_bench__, see graphbench docs custom-ops",
        "by hand: mine.f: why (a)",
        "by hand: mine.g: because (b)",
    ]


def test_nothing_to_do_is_no_line() -> None:
    assert by_hand_lines(by_hand_ops(measured())) == []


def test_every_report_has_the_list_and_no_second_line_for_the_same_rows() -> None:
    record = measured(("a", "mine.f: why"))
    for text in (TableReporter().render(record), MarkdownReporter().render(record)):
        plain = text.replace("\\", "")
        assert "to benchmark by hand: 1 op: mine.f;" in plain
        assert "not measured: 1 node" not in plain


def test_text_from_a_file_cannot_steer_a_terminal() -> None:
    lines = by_hand_lines(by_hand_ops(measured(("a", "mine.\x1b[31mf: w\x1b[0mhy"))))
    assert not [line for line in lines if "\x1b" in line]
