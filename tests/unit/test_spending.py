"""A limit on time: how a first pass is cut down, and which rows are measured again first."""

from __future__ import annotations

import pytest

from graphbench.condition_records import Policy
from graphbench.measurements import Measurement, Samples
from graphbench.measuring import spending
from graphbench.measuring.spending import Purse, affordable, rough, rough_side, worth_again
from graphbench.runs.entries import UnitRow
from graphbench.runs.ledger import Book, Ledger

POLICY = Policy(timer="fake", cache="warm", values="captured", max_seconds=100.0)


def book(**rows: Measurement) -> Book:
    found = Ledger().book("r0")
    for row, measurement in rows.items():
        found.put(UnitRow(region="r0", kind="isolated", row=row.replace("__", ":"), measurement=measurement))
    return found


def timed(*busy_ns: float, shared_with: str | None = None) -> Measurement:
    samples = Samples(busy_ns=busy_ns, host_ns=None)
    return Measurement(status="ok", samples=samples, shared_with=shared_with)


def order(found: Book, calls: dict[tuple[str, str], int] | None = None, done: tuple[str, ...] = ()) -> list[str]:
    seen = [("r0", ("isolated", row)) for row in done]
    rows = worth_again({"r0": found}, calls or {}, POLICY, seen)  # type: ignore[arg-type]
    return [row for _, (_, row) in rows]


def test_rows_that_take_more_time_come_first() -> None:
    assert order(book(small=timed(*[10.0] * 5), large=timed(*[1000.0] * 5))) == ["large", "small"]


def test_of_rows_that_take_as_long_the_noisier_comes_first() -> None:
    quiet, noisy = timed(100, 100, 100, 100, 100), timed(60, 80, 100, 120, 140)
    assert order(book(quiet=quiet, noisy=noisy)) == ["noisy", "quiet"]


def test_a_row_counts_for_all_that_share_it_and_only_itself_is_measured() -> None:
    one, many = timed(*[150.0] * 5), timed(*[100.0] * 5)
    found = book(one=one, many=many, like_many=timed(*[100.0] * 5, shared_with="many"))
    assert order(found) == ["many", "one"]


def test_a_kernel_counts_for_all_its_calls() -> None:
    found = book(often=timed(*[10.0] * 5), once=timed(*[50.0] * 5))
    assert order(found, {("r0", "often"): 10}) == ["often", "once"]


def test_ops_of_the_lowered_graph_count_for_less_than_nodes_and_kernels() -> None:
    assert order(book(forward__relu=timed(*[100.0] * 5), relu=timed(*[50.0] * 5))) == ["relu", "forward:relu"]


def test_rows_known_well_failed_or_tried_already_are_left_alone() -> None:
    failed = Measurement(status="failed", reason="as a test")
    found = book(well=timed(*[100.0] * 10), failed=failed, tried=timed(*[100.0] * 5), zero=timed(*[0.0] * 5))
    assert order(found, done=("tried",)) == []


def test_a_first_pass_takes_less_than_half_of_the_time_and_fewer_samples_than_any_whole_one() -> None:
    found = rough(POLICY, 1000)
    assert 1000 * (found.warmup_ms + found.measure_ms) <= 0.5 * 100_000
    assert found.max_samples < POLICY.min_samples
    assert (found.noise, found.batch) == (None, None)


def test_with_plenty_of_time_a_first_pass_has_no_larger_budget_than_the_policy() -> None:
    found = rough(POLICY, 1)
    assert (found.warmup_ms, found.measure_ms) == (POLICY.warmup_ms, POLICY.measure_ms)


def test_counts_that_were_asked_for_are_never_raised() -> None:
    few = Policy(timer="fake", cache="warm", values="captured", max_seconds=100.0, warmup=0, repeat=2)
    assert [(found.warmup, found.repeat) for found in (rough(few, 10), rough_side(few))] == [(0, 2), (0, 2)]


def test_at_least_one_row_is_afforded_and_no_more_than_there_is_time_for() -> None:
    rows = [("r0", ("isolated", name)) for name in "abcdef"]
    assert len(affordable(rows, POLICY, 0.0)) == 1  # type: ignore[arg-type]
    assert len(affordable(rows, POLICY, 0.5)) == 3  # type: ignore[arg-type]


def test_a_part_of_the_time_ends_before_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(spending, "monotonic", lambda: clock[0])
    purse = Purse(10.0)
    half = purse.part(0.5)
    clock[0] = 5.0
    assert (half.is_empty, purse.is_empty, purse.left_s) == (True, False, 5.0)
    clock[0] = 11.0
    assert (purse.is_empty, purse.left_s) == (True, 0.0)
