"""Fewer spans where there are too many: nothing of their work is lost, and what may not be one stays apart."""

from __future__ import annotations

from graphbench.analysis.spans import Span, SpanKind, fewer


def span(
    start: float, end: float, *, lane: int = 0, kind: SpanKind = "compiled", place: str = "", name: str = ""
) -> Span:
    return Span(lane=lane, kind=kind, start_ns=start, end_ns=end, work_ns=end - start, place=place, name=name)


def many(count: int, **changes: object) -> list[Span]:
    """Spans of 6 ns every 10 ns."""
    return [span(10.0 * i, 10.0 * i + 6.0, **changes) for i in range(count)]  # type: ignore[arg-type]


def test_as_many_as_wanted_stay_as_they_are() -> None:
    found = fewer(many(10), 10)
    assert (found.finest_ns, found.spans) == (0.0, tuple(many(10)))


def test_work_adds_up_and_gaps_within_are_no_work() -> None:
    found = fewer(many(1000), 50)
    assert len(found.spans) <= 50
    assert sum(one.work_ns for one in found.spans) == 6000.0
    assert sum(one.count for one in found.spans) == 1000
    assert any(one.work_ns < one.end_ns - one.start_ns for one in found.spans)


def test_lanes_kinds_and_places_stay_apart() -> None:
    mixed = sorted(
        [*many(100), *many(100, lane=1), *many(100, lane=1, kind="gap op"), *many(100, lane=2, place="r0/forward")],
        key=lambda one: one.start_ns,
    )
    found = fewer(mixed, 5).spans
    kept = {(one.lane, one.kind, one.place): 0.0 for one in found}
    for one in found:
        kept[one.lane, one.kind, one.place] += one.work_ns
    assert kept == {
        (0, "compiled", ""): 600.0,
        (1, "compiled", ""): 600.0,
        (1, "gap op", ""): 600.0,
        (2, "compiled", "r0/forward"): 600.0,
    }


def test_bands_are_never_put_together() -> None:
    bands = many(100, kind="phase")
    assert len(fewer([*bands, *many(100, lane=1)], 20).spans) >= 100


def test_the_longest_of_those_that_are_one_names_them() -> None:
    short = [span(10.0 * i, 10.0 * i + 1.0, name="short") for i in range(5)]
    found = fewer([*short, span(50.0, 55.0, name="long")], 1).spans
    assert [(one.name, one.longest_ns, one.count) for one in found] == [("long", 5.0, 6)]


def test_a_long_span_does_not_swallow_what_is_far_from_it() -> None:
    found = fewer([span(0.0, 1000.0), *[span(900_000.0 + 2 * i, 900_001.0 + 2 * i) for i in range(50)]], 2)
    assert [one.count for one in found.spans] == [1, 50]
