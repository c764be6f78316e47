"""The printed report of a recorded step: golden texts, and what must be said."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphbench import document
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from graphbench.step_records import FOREIGN_GRAPHS, GraphBreak, Recompile, Timeline
from tests.factories import profile
from tests.samples import cpu_profile, gpu_profile
from tests.step_samples import device_step, eager_step, gap_op, host_step, training_step

MAKERS: tuple[Callable[[], ProfileRecord], ...] = (training_step, host_step, eager_step)


def table(record: ProfileRecord, **options: object) -> str:
    return REPORTERS["table"].render(record, **options)  # type: ignore[arg-type]


def lines(record: ProfileRecord, **options: object) -> list[str]:
    """On a page so wide that no prose is wrapped."""
    return table(record, width=400, **options).splitlines()


def with_step(record: ProfileRecord, **changes: Any) -> ProfileRecord:
    assert record.step is not None
    return dataclasses.replace(record, step=dataclasses.replace(record.step, **changes))


@pytest.mark.parametrize("make", MAKERS)
def test_a_recorded_step_reads_as_agreed(make: Callable[[], ProfileRecord], golden: Callable[[str, str], None]) -> None:
    golden(table(make()), f"table_{make.__name__}.txt")


def test_the_markdown_of_a_step_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(REPORTERS["markdown"].render(training_step()), "report_training_step.md")


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("options", [{}, {"wide": True}, {"sort": "host"}, {"group_by": "source"}])
def test_no_line_of_a_step_is_wider_than_the_page(make: Callable[[], ProfileRecord], options: dict[str, Any]) -> None:
    width = 200 if options.get("wide") else 100
    assert max(map(len, table(make(), **options).splitlines())) <= width


# --- above the tables -------------------------------------------------------------------------------------------------


def test_the_step_line_says_what_rows_explain_of_the_uninstrumented_time() -> None:
    assert (
        "step: 400.0 µs uninstrumented (p50 of 3), 500.0 µs recorded (1.25x); rows explain 343.8 µs of device time, "
        "busy 343.8 µs, device idle 14.0 % (recorded: 31.2 %)"
    ) in lines(training_step())


def test_launches_and_synchronisations_are_counted() -> None:
    assert "step: 17 kernels, 42.5 launches per ms, 1 synchronisation, in which the host waits 1.000 µs" in lines(
        training_step()
    )


def test_on_the_cpu_rows_and_what_lies_between_them_make_up_the_step() -> None:
    assert (
        "step: 800.0 µs uninstrumented (p50 of 1), 1.000 ms recorded (1.25x); rows 700.0 µs + 300.0 µs between them "
        "(wrapper); rows are 87.5 % of the uninstrumented time"
    ) in lines(host_step())


def test_a_step_that_took_no_time_without_instrument_has_no_part_explained() -> None:
    step = [line for line in lines(with_step(host_step(), plain_wall_ns=(0.0,))) if line.startswith("step: ")]
    assert step
    assert not any("of the uninstrumented time" in line for line in step)


@pytest.mark.parametrize(("wall_us", "said"), [(574.0, False), (576.0, True)])
def test_a_recording_that_changed_the_step_is_said_to(wall_us: float, said: bool) -> None:
    record = training_step()
    assert record.step is not None
    slow = with_step(record, run=device_step(record.step.rows, wall_us=wall_us), plain_wall_ns=(500_000.0,))
    assert any("recording made it longer" in line for line in lines(slow)) is said


def test_gaps_that_dominate_are_told_before_any_coverage() -> None:
    found = lines(host_step())
    dominate = found.index("gaps dominate: 90 % of the recorded step ran outside compiled graphs")
    assert dominate < next(index for index, line in enumerate(found) if line.startswith("coverage"))


def test_gaps_that_do_not_dominate_are_not_said_to() -> None:
    assert "gaps dominate" not in table(training_step())


def test_a_host_bound_step_says_how_long_and_where_the_device_waits() -> None:
    slow = with_step(training_step(), plain_wall_ns=(1_000_000.0,))
    assert (
        "host-bound: the device waits for the host in 66 % of the step; recorded, most of it before launches of "
        "r1/forward (30.00 µs), start (10.00 µs), after r0/forward (10.00 µs)"
    ) in lines(slow)


def test_a_step_busier_than_its_wall_time_is_said_to_be_rather_than_never_idle() -> None:
    fast = with_step(training_step(), plain_wall_ns=(300_000.0,))
    assert any("which is 14.6 % more than the whole uninstrumented step" in line for line in lines(fast))


def test_rows_that_no_kernel_was_counted_for_are_called_rows() -> None:
    assert any("attributed 100.00 % (3 rows, 0 unattributed" in line for line in lines(host_step()))


def test_a_step_that_nobody_asked_to_compile_is_said_to_be_one() -> None:
    text = lines(dataclasses.replace(eager_step(), breaks=()))
    assert (
        "nothing was compiled, every op ran eagerly: no graph break is known, so nothing was asked to compile" in text
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def test_places_that_idle_longer_than_they_work_are_marked_host_bound() -> None:
    marked = [line.split("  ")[0] for line in lines(training_step()) if "  host-bound" in line]
    assert marked == ["start", "after r0/forward"]


def test_the_longest_places_are_shown_in_the_order_of_the_step() -> None:
    text = table(training_step(), top=2)
    assert "in its order (the longest 2 of 9)" in text
    assert text.index("\nr1/backward ") < text.index("\nr0/backward ")


def test_gap_ops_stand_under_their_gap_the_most_expensive_gap_first() -> None:
    found = lines(training_step())
    first = found.index("after r0/backward: 22.00 µs in 3 calls, 6.4 % of the step")
    assert [line.split()[0] for line in found[first + 1 : first + 3]] == ["_foreach_add_", "add_"]
    assert first < found.index("after r1/forward: 10.00 µs in 2 calls, 2.9 % of the step")


def test_a_gap_adds_up_its_ops_that_are_not_shown_too() -> None:
    shown = lines(training_step(), top=3)
    assert "after r0/backward: 22.00 µs in 3 calls, 6.4 % of the step" in shown
    assert not any(line.startswith("add_ ") for line in shown)


def test_sorted_otherwise_gap_ops_name_their_place_in_a_column() -> None:
    found = lines(training_step(), sort="op")
    assert any(line.startswith("after r0/backward") and "_foreach_add_" in line for line in found)


def test_syncs_and_copies_are_marked_with_what_they_copied() -> None:
    found = lines(training_step())
    (item,) = (line for line in found if line.startswith("_local_scalar_dense"))
    assert "  sync " in item
    assert "4 B → cpu" in item
    (copy,) = (line for line in found if line.startswith("copy_ "))
    assert "4.00 KiB → cuda" in copy


def test_backward_ops_show_the_forward_line_and_the_autograd_node() -> None:
    (row,) = (line for line in lines(training_step()) if line.startswith("mul ") and " bwd " in line)
    assert row.split()[-2:] == ["model.py:21", "MulBackward0"]


def test_by_source_gap_ops_are_added_up_by_line() -> None:
    found = lines(training_step(), group_by="source")
    at = next(index for index, line in enumerate(found) if line.startswith("Gap ops by source (6, sorted by cost)"))
    (row,) = (line for line in found[at:] if line.startswith("model.py:21 "))
    assert row.split() == ["model.py:21", "mul", "3", "4.00", "3.00", "0", "7.00", "2.0"]


def test_a_step_of_which_nothing_was_compiled_has_its_ops_in_the_place_of_nodes_and_fusions() -> None:
    text = table(eager_step())
    assert "nothing was compiled, every op ran eagerly: generator in forward (src/model.py:10)" in text
    assert "Ops as they ran eagerly (2, sorted by cost)" in text
    assert not any(word in text for word in ("Nodes,", "Fusions:", "nodes: 0", "speedup", "nothing ran labelled"))


# --- breaks -----------------------------------------------------------------------------------------------------------


def test_a_break_tells_its_cause_cost_and_hint() -> None:
    found = lines(training_step())
    reason = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
    at = found.index(f"  src/model.py:22: {reason} (ends r0) (2 times)")
    assert found[at + 1 : at + 4] == [
        "    cause: x.sum().item()",
        "    cost: r0 | r1: 3 ops, 2 kernels, 6.000 µs, 40.00 µs idle around them; host 42.00 µs; copied 4 B cuda to "
        "cpu; 1 synchronisation: _local_scalar_dense at model.py:22",
        "    hint: Set torch._dynamo.config.capture_scalar_outputs = True.",
    ]


def test_a_break_is_named_by_its_kind() -> None:
    kinds = (("disabled", "r0"), ("skipped", None), ("limit", None), ("break", None))
    breaks = tuple(GraphBreak(reason="why", kind=kind, region=region) for kind, region in kinds)  # type: ignore[arg-type]
    text = table(dataclasses.replace(training_step(), breaks=breaks), width=400)
    assert "1. unknown place: disabled function: why (ends r0)" in text
    assert "2. unknown place: frame runs eagerly: why" in text
    assert "3. unknown place: recompile limit: why" in text
    assert "4. unknown place: why" in text


def test_a_step_without_gap_ops_does_not_say_that_nothing_ran_in_its_gaps() -> None:
    record = training_step()
    assert record.step is not None
    rows = tuple(row for row in record.step.rows if row.kernel is not None)
    found = lines(dataclasses.replace(record, step=dataclasses.replace(record.step, rows=rows, timeline=Timeline())))
    assert "gap ops: none, every op ran in a compiled graph" in found


def test_a_break_that_cannot_be_placed_says_so() -> None:
    record = dataclasses.replace(training_step(), breaks=(GraphBreak(reason="why"),))
    assert "    cost: not placed: its source line is not known" in lines(record)


def test_breaks_of_one_gap_tell_its_cost_once() -> None:
    breaks = (GraphBreak(reason="a", region="r0"), GraphBreak(reason="b", region="r0"))
    found = lines(dataclasses.replace(training_step(), breaks=breaks))
    assert "    cost: that of 1., the same ops" in found


def test_without_a_step_a_break_has_no_cost_line() -> None:
    text = table(dataclasses.replace(cpu_profile(), breaks=(GraphBreak(reason="print", region="r0"),)))
    assert "gaps: not recorded (use graphbench.profile(fn))" in text
    assert "print (ends r0)" in text
    assert "cost:" not in text


def test_only_the_most_expensive_breaks_are_listed_unless_wide() -> None:
    record = dataclasses.replace(profile(), breaks=tuple(GraphBreak(reason=f"why {i}") for i in range(25)))
    assert "  and 5 cheaper breaks; wide lists them" in lines(record)
    assert "why 24" in table(record, wide=True)


def test_long_texts_of_a_break_are_cut_unless_wide() -> None:
    record = dataclasses.replace(profile(), breaks=(GraphBreak(reason="why", hint="word " * 60 + "end"),))
    (hint,) = (line for line in lines(record) if "hint: " in line)
    assert len(hint) == len("    hint: ") + 160
    assert "word end" in " ".join(table(record, wide=True).split())


def test_a_recompile_names_the_guard_that_failed() -> None:
    assert "  recompile 0/1: from r0, whose guard failed: size of x changed: 4 to 8" in lines(gpu_profile())
    unknown = dataclasses.replace(profile(), recompiles=(Recompile(compile_id="3/1"),))
    assert "  recompile 3/1: the guard that failed is not known" in lines(unknown)


# --- safety -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_name", ["table", "markdown"])
def test_control_characters_of_a_step_reach_no_terminal(format_name: str) -> None:
    rows = (gap_op("mm\x1b[31m", 1.0, place="start"), gap_op("add", 1.0, place="after r0/forward\x1b[2J"))
    run = device_step(rows, wall_us=5.0)
    record = with_step(training_step(), rows=rows, run=run, places=(), timeline=Timeline())
    bad = GraphBreak(reason="a\x1b[31m", cause="b\x1b[0m", hint="c\x1b[0m", region="r0")
    text = REPORTERS[format_name].render(dataclasses.replace(record, breaks=(bad,)))
    assert "\x1b" not in text


@pytest.mark.parametrize("make", MAKERS)
def test_a_saved_step_reads_back_and_reports_the_same(make: Callable[[], ProfileRecord], tmp_path: Path) -> None:
    record = make()
    document.write(record, tmp_path / "profile.json")
    assert table(document.read(tmp_path / "profile.json")) == table(record)


def test_gaps_do_not_dominate_where_another_backend_compiled_their_ops() -> None:
    record = host_step()
    assert record.step is not None
    assert any(line.startswith("gaps dominate") for line in lines(record))
    foreign = with_step(record, notes=(f"{FOREIGN_GRAPHS} 3x, made by another backend",))
    assert not any(line.startswith("gaps dominate") for line in lines(foreign))


@pytest.mark.parametrize(("plain_us", "said"), [(1_000.0, True), (500.0, False)])
def test_a_plain_step_slower_than_the_recorded_one_is_said_to_be_noise(plain_us: float, said: bool) -> None:
    record = with_step(training_step(), plain_wall_ns=(plain_us * 1000,))
    noise = "step: the uninstrumented step, run once, was slower than the recorded one: its time is noise"
    assert (noise in lines(record)) is said
