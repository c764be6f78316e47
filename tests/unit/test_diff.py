"""Two profiles joined on nodes: pairs are found when names shift, verdicts carry noise, unlike things are refused."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.diff import diff, worst_regression
from graphbench.device_records import ClockState
from graphbench.errors import UsageError
from graphbench.measurements import TimerName
from graphbench.records import NodeRecord, ProfileRecord, Side
from graphbench.report.diff_table import render_diff
from graphbench.step_records import StepRecord
from tests.factories import FAILED, device_run, environment, node, profile, region, spec, steady


def of(*nodes: NodeRecord, plain_ns: float | None = None) -> ProfileRecord:
    return profile(region(nodes, forward=Side(plain=steady(plain_ns)) if plain_ns else None))


def test_a_node_is_compared_with_the_one_of_its_name() -> None:
    (row,) = diff(of(node("a", 100.0)), of(node("a", 80.0))).rows
    assert (row.change, row.delta_ns, row.ratio, row.verdict) == ("both", -20.0, 0.8, "faster")


def test_names_that_shifted_are_paired_by_op_type_in_the_order_of_source_lines() -> None:
    before = of(node("x", 1.0, op_type="relu", line=9), node("y", 2.0, op_type="relu", line=3))
    new = node("sum", 1.0, line=1)
    after = of(new, node("p", 1.0, op_type="relu", line=4), node("q", 1.0, op_type="relu", line=11))
    pairs = {row.name: row.name_before for row in diff(before, after).rows}
    assert pairs == {"sum": None, "p": "y", "q": "x"}


def test_a_name_that_now_means_another_op_is_no_pair() -> None:
    rows = diff(of(node("x", 1.0, op_type="relu")), of(node("x", 1.0, op_type="gelu"))).rows
    assert [(row.op_type, row.change) for row in rows] == [("gelu", "added"), ("relu", "gone")]


def test_an_extra_region_is_added() -> None:
    before = profile(region([node("a", 1.0)]))
    after = profile(region([node("a", 1.0)]), region([node("b", 1.0)], key="r1"))
    result = diff(before, after)
    assert [(row.region, row.change) for row in result.rows] == [("r0", "both"), ("r1", "added")]
    assert any("1 region before, 2 after" in note for note in result.notes)


@pytest.mark.parametrize(
    ("timer", "after_ns", "verdict"),
    [
        ("wallclock", 100.9, "same"),
        ("wallclock", 109.9, "unclear"),
        ("wallclock", 90.1, "unclear"),
        ("wallclock", 110.1, "slower"),
        ("wallclock", 89.9, "faster"),
        ("cuda-events", 109.9, "unclear"),
        ("cuda-events", 90.1, "unclear"),
        ("cuda-events", 110.1, "slower"),
        ("device-events", 109.9, "unclear"),
        ("device-events", 110.1, "slower"),
        ("cupti", 100.9, "same"),
        ("cupti", 101.9, "unclear"),
        ("cupti", 98.1, "unclear"),
        ("cupti", 104.1, "slower"),
        ("cupti", 95.9, "faster"),
    ],
)
def test_less_than_the_noise_between_runs_is_never_faster_or_slower(
    timer: TimerName, after_ns: float, verdict: str
) -> None:
    def of_timer(ns: float) -> ProfileRecord:
        row = steady(ns, timer=timer)
        return profile(region([node("a", row)], forward=Side(plain=row)), timer=timer)

    result = diff(of_timer(100.0), of_timer(after_ns))
    assert (result.rows[0].verdict, result.totals[0].verdict) == (verdict, verdict)


def test_wall_time_of_a_step_has_the_noise_of_a_wall_clock_on_a_device_too() -> None:
    def step(ns: float) -> ProfileRecord:
        run = device_run([steady(10.0, timer="cupti")])
        return profile(timer="cupti", step=StepRecord(run=run, rows=(), plain_wall_ns=(ns, ns, ns)))

    assert [total.verdict for total in diff(step(100.0), step(105.0)).totals] == ["unclear"]


def shared(*names: str, ns: float) -> ProfileRecord:
    """Nodes of which the first was measured, and the others show its measurement."""
    first, *others = names
    rows = [node(name, dataclasses.replace(steady(ns), shared_with=first)) for name in others]
    return of(node(first, ns), *rows)


def test_a_row_that_repeats_a_measurement_has_its_verdict_and_counts_once() -> None:
    result = diff(shared("a", "b", "c", ns=100.0), shared("a", "b", "c", ns=200.0))
    assert [(row.name, row.verdict, row.repeats) for row in result.rows] == [
        ("a", "slower", None),
        ("b", "slower", "a"),
        ("c", "slower", "a"),
    ]
    text = render_diff(result)
    assert "nodes: 0 faster, 1 slower, 0 same, 0 unclear, 0 added, 0 gone\n" in text
    assert "= repeats the measurements of an equal node, and is counted with it" in text


def test_a_row_that_was_measured_itself_on_one_side_counts() -> None:
    result = diff(of(node("a", 100.0), node("b", 100.0)), shared("a", "b", ns=200.0))
    assert [row.repeats for row in result.rows] == [None, None]


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_cpu_that_was_shared_is_told_of_either_side(side: str) -> None:
    note = "the CPU was shared: 300 involuntary context switches a second; times may be far too long"
    busy = dataclasses.replace(of(node("a", 1.0)), notes=("something else", note))
    sides = (busy, of(node("a", 1.0))) if side == "before" else (of(node("a", 1.0)), busy)
    assert diff(*sides).notes == (f"{side}: {note}",)


def test_profiles_are_named_by_file_and_subject_or_by_their_time() -> None:
    nameless = profile(subject="")
    result = diff(nameless, profile(), names=("old.json", ""))
    assert result.before == "old.json: a model (2026-01-02T03:04:05+00:00)"
    assert result.after == "Net (2026-01-02T03:04:05+00:00)"


def test_noisy_intervals_that_touch_are_unclear() -> None:
    before, after = of(node("a", steady(100.0, spread_ns=30.0))), of(node("a", steady(120.0, spread_ns=30.0)))
    assert diff(before, after).rows[0].verdict == "unclear"


def test_a_row_that_failed_on_one_side_has_no_verdict_and_says_why() -> None:
    (row,) = diff(of(node("a", 100.0)), of(node("a", FAILED))).rows
    assert (row.verdict, row.ratio, row.reason) == (None, None, "after: ran out of memory")


def test_other_shapes_or_dtypes_are_not_the_same_work() -> None:
    half = node("a", 50.0, outputs=(spec(4, 8, dtype="bfloat16"),))
    (row,) = diff(of(node("a", 100.0)), of(half)).rows
    assert (row.verdict, row.ratio) == (None, 0.5)
    assert row.reason == "not the same work: f32[4,8] before, bf16[4,8] after"


def test_results_on_another_kind_of_device_are_not_the_same_work() -> None:
    moved = node("a", 50.0, outputs=(spec(4, 8, device="cuda:0"),))
    (row,) = diff(of(node("a", 100.0)), of(moved)).rows
    assert (row.verdict, row.work) == (None, "f32[4,8] on cpu before, f32[4,8] on cuda after")


def test_inputs_of_other_shapes_are_not_the_same_work() -> None:
    def of_width(width: int) -> ProfileRecord:
        return of(node("x", 1.0, outputs=(spec(4, width),)), node("total", 2.0, inputs=("x",), outputs=(spec(4),)))

    row = diff(of_width(8), of_width(16)).rows[1]
    assert (row.name, row.verdict, row.work) == ("total", None, "reads f32[4,8] before, f32[4,16] after")


def test_another_layout_is_the_same_work() -> None:
    turned = dataclasses.replace(spec(4, 8), stride=(1, 4))
    (row,) = diff(of(node("a", 100.0)), of(node("a", 50.0, outputs=(turned,)))).rows
    assert row.verdict == "faster"


def test_profiles_of_different_timers_are_refused() -> None:
    with pytest.raises(UsageError, match="different timers: wallclock and cupti"):
        diff(profile(), profile(timer="cupti"))


def test_profiles_of_different_cache_states_are_refused() -> None:
    cold = profile(timer="cupti")
    warm = dataclasses.replace(cold, policy=dataclasses.replace(cold.policy, cache="warm"))
    with pytest.raises(UsageError, match="different cache states: cold-read and warm"):
        diff(cold, warm)


def test_differences_of_environment_policy_and_options_are_listed() -> None:
    before = profile(env=environment(options=(("max_autotune", "False"), ("same", "1"))))
    after = profile(env=environment(torch="2.14.1", options=(("max_autotune", "True"), ("same", "1"))))
    after = dataclasses.replace(after, policy=dataclasses.replace(after.policy, values="synthetic"))
    assert diff(before, after).environment == (
        ("torch", "2.13.0", "2.14.1"),
        ("option max_autotune", "False", "True"),
        ("policy values", "captured", "synthetic"),
    )


def test_what_one_side_does_not_have_is_told_in_words() -> None:
    before, after = of(), dataclasses.replace(of(), environment=environment(gpu="A GPU"))
    after = dataclasses.replace(after, policy=dataclasses.replace(after.policy, repeat=3))
    assert diff(before, after).environment == (("gpu", "none", "A GPU"), ("policy repeat", "not set", "3"))


def test_totals_compare_plain_runs() -> None:
    (total,) = diff(of(plain_ns=100.0), of(plain_ns=130.0)).totals
    assert (total.name, total.ratio, total.verdict) == ("compiled forward", 1.3, "slower")


def test_the_total_of_regions_is_the_sum_of_their_quantiles() -> None:
    def two(ns: float) -> ProfileRecord:
        sides = [Side(plain=steady(ns, n=n, spread_ns=1.0)) for n in (10, 20)]
        return profile(*(region(key=f"r{i}", forward=side) for i, side in enumerate(sides)))

    (total,) = diff(two(50.0), two(50.0)).totals
    assert (total.before_ns, total.verdict) == (pytest.approx(100.0), "same")


def test_the_worst_regression_is_that_of_slower_rows_and_totals() -> None:
    before = of(node("a", 100.0), node("b", 100.0), plain_ns=100.0)
    after = of(node("a", 120.0), node("b", 50.0), plain_ns=110.0)
    found = worst_regression(diff(before, after))
    assert found is not None
    assert (found.name, found.before_ns, found.after_ns) == ("a", 100.0, 120.0)


def test_without_a_slower_row_there_is_no_regression() -> None:
    noisy = of(node("a", steady(150.0, spread_ns=60.0)))
    assert worst_regression(diff(of(node("a", steady(100.0, spread_ns=60.0))), noisy)) is None


def test_a_diff_is_printed_with_conditions_first_and_reasons_last() -> None:
    before = profile(region([node("a", 1000.0), node("b", FAILED)]), env=environment())
    after = profile(region([node("a", 2000.0), node("b", 5.0)]), env=environment(torch="2.14.1"))
    lines = render_diff(diff(before, after)).splitlines()
    assert lines[0] == "rows differ, no whole run is faster or slower"
    assert lines[1] == "nodes: 0 faster, 1 slower, 0 same, 0 unclear, 0 added, 0 gone, 1 not compared"
    assert lines[4] == "differs: torch: 2.13.0 -> 2.14.1"
    assert lines[5].startswith("differences under 10.0 % between runs are noise on this timer (wallclock)")
    assert lines[-1] == "– before: ran out of memory: b"
    assert max(map(len, lines)) <= 100


def stamped(ns: float, grain_ns: int | None = 32) -> ProfileRecord:
    row = steady(ns, timer="cupti")
    env = environment(stamp_grain_ns=grain_ns)
    return profile(region([node("a", row)], forward=Side(plain=row)), timer="cupti", env=env)


@pytest.mark.parametrize(
    ("after_ns", "verdict"),
    [(1_032.0, "same"), (1_064.0, "unclear"), (1_065.0, "slower"), (936.0, "unclear"), (935.0, "faster")],
)
def test_a_difference_counts_beyond_two_steps_of_the_stamps(after_ns: float, verdict: str) -> None:
    result = diff(stamped(1_000.0), stamped(after_ns))
    assert (result.rows[0].verdict, result.totals[0].verdict, result.rule.grain_ns) == (verdict, verdict, 32.0)


def test_the_coarser_stamps_of_two_profiles_decide_and_are_told() -> None:
    result = diff(stamped(1_000.0, None), stamped(1_032.0))
    assert result.rows[0].verdict == "same"
    assert "within one step of the stamps (32 ns) too" in " ".join(render_diff(result).split())


def test_steps_of_stamps_that_each_profile_estimates_anew_are_no_difference_of_conditions() -> None:
    assert diff(stamped(1_000.0, 32), stamped(1_000.0, 1)).environment == ()


def test_on_a_wall_clock_the_steps_of_device_stamps_do_not_count() -> None:
    env = environment(stamp_grain_ns=1000)
    sides = [profile(region([node("a", ns)]), env=env) for ns in (1_000.0, 2_000.0)]
    assert diff(*sides).rows[0].verdict == "slower"


def clocked(mhz: int, lock: int | None = None) -> ProfileRecord:
    record = of(node("a", dataclasses.replace(steady(100.0), clocks=(ClockState(sm_mhz=mhz),) * 2)))
    return dataclasses.replace(record, policy=dataclasses.replace(record.policy, lock_gpu_clock_mhz=lock))


def test_clocks_that_differ_are_told_before_anything_else() -> None:
    result = diff(clocked(2000), clocked(1500))
    said = "the SM clock was 2000 MHz before, 1500 MHz after (medians): the difference may be the clock's"
    assert result.findings == (said,)
    assert render_diff(result, width=200).startswith(f"warning: {said}\n")


def test_clocks_within_2_percent_are_no_finding() -> None:
    assert diff(clocked(2000), clocked(1960)).findings == ()
    assert len(diff(clocked(2000), clocked(1959)).findings) == 1


@pytest.mark.parametrize(("locks", "which"), [((1500, None), "before"), ((None, 1500), "after")])
def test_a_clock_that_was_locked_on_one_side_only_is_told(locks: tuple[int | None, int | None], which: str) -> None:
    result = diff(clocked(1500, locks[0]), clocked(1500, locks[1]))
    assert result.findings == (
        f"the SM clock was locked only {which}, to 1500 MHz: measure both with it locked, or neither",
    )
