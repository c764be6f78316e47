"""After how many calls compiling has paid, and why that is not known."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.payoff import pay_offs, whole_pay_off
from graphbench.records import RegionRecord, Side
from graphbench.report.opportunities_table import pay_off_lines
from tests.factories import kernel, profile, region, steady


def side(wall_ns: float | None, compile_ns: int | None = None, *, spread_ns: float = 0.0) -> Side:
    walls = () if wall_ns is None else (wall_ns - spread_ns, wall_ns, wall_ns + spread_ns)
    return Side(wall_ns=walls, compile_ns=compile_ns)


def compiled(eager_ns: float | None, wall_ns: float | None, compile_ns: int | None, *, key: str = "r0") -> RegionRecord:
    return region(key=key, eager=side(eager_ns), forward=side(wall_ns, compile_ns))


def test_compiling_has_paid_once_the_calls_have_saved_what_it_took() -> None:
    (found,) = pay_offs(profile(compiled(3_000_000.0, 1_000_000.0, 10_000_000_000)))
    assert (found.saved_ns, found.calls) == (2_000_000.0, 5_000.0)


def test_a_backward_counts_in_what_compiling_took_and_in_what_a_call_saves() -> None:
    place = dataclasses.replace(
        compiled(3e6, 1e6, 6_000_000_000),
        kernels=(kernel("mm", phase="backward"),),
        eager_backward=side(5e6),
        backward=side(3e6, 2_000_000_000),
    )
    (found,) = pay_offs(profile(place))
    assert (found.compile_ns, found.saved_ns, found.calls) == (8_000_000_000, 4e6, 2_000.0)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (compiled(3e6, 1e6, None), "how long compiling took was not recorded"),
        (compiled(None, 1e6, 1), "no wall time of eager"),
        (compiled(3e6, None, 1), "no wall time of the compiled graph"),
        (compiled(1e6, 3e6, 1), "never pays: a compiled call takes longer than eager"),
        (compiled(1_000_000.0, 1_001_000.0, 1), "not known whether it pays: a call saves nothing beyond the noise"),
    ],
)
def test_what_does_not_pay_says_why(place: RegionRecord, reason: str) -> None:
    (found,) = pay_offs(profile(place))
    assert (found.calls, found.reason) == (None, reason)


def test_a_saving_within_the_noise_is_none() -> None:
    place = region(eager=side(1.2e6, spread_ns=4e5), forward=side(1e6, 1, spread_ns=4e5))
    assert pay_offs(profile(place))[0].reason.startswith("not known")


def test_compiling_that_took_less_than_a_call_saves_has_paid_after_the_first() -> None:
    assert pay_offs(profile(compiled(3e6, 1e6, 1)))[0].calls == 1.0


def test_regions_pay_together_as_often_as_each_is_called() -> None:
    record = profile(compiled(3e6, 1e6, 4_000_000_000), compiled(4e6, 2e6, 4_000_000_000, key="r1"))
    whole = whole_pay_off(record)
    assert whole is not None
    assert whole.calls == 2_000.0


def test_the_line_says_what_compiling_took_and_when_it_has_paid() -> None:
    record = profile(compiled(3e6, 1e6, 10_000_000_000))
    assert pay_off_lines(record) == ["compiling took 10.0 s: a call saves 2.00 ms of wall time, paid after 5,000 calls"]


def test_regions_with_another_answer_than_all_together_are_named() -> None:
    record = profile(compiled(9e6, 1e6, 1_000), compiled(1e6, 3e6, 1_000, key="r1"))
    lines = pay_off_lines(record)
    assert lines[0].startswith("compiling took 2.00 µs in all: a call of each region saves 6.00 ms")
    assert lines[1:] == ["compiling r1: never pays: a compiled call takes longer than eager"]


def test_where_nothing_was_compiled_there_is_no_line() -> None:
    assert pay_off_lines(profile()) == []


def test_compiling_that_never_pays_says_by_which_wall_times() -> None:
    (line,) = pay_off_lines(profile(compiled(1e6, 3e6, 1_000_000)))
    assert line.endswith("a compiled call takes longer than eager (wall: 1.00 ms eager, 3.00 ms compiled)")


def test_on_the_cpu_the_plain_runs_decide_which_are_wall_times_too() -> None:
    place = compiled(1e6, 3e6, 1)
    eager = dataclasses.replace(place.eager, plain=steady(4e6))
    forward = dataclasses.replace(place.forward, plain=steady(2e6))
    found = pay_offs(profile(dataclasses.replace(place, eager=eager, forward=forward)))[0]
    assert (found.eager_ns, found.compiled_ns) == (4e6, 2e6)
