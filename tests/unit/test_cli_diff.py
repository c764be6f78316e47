"""`graphbench diff`: it prints; asked for it, it judges too, and says what it judges and what it only shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphbench import cli, document
from graphbench.analysis import diff as analysis
from graphbench.analysis.diff_totals import DiffTotal
from graphbench.cli.diff import regression_text
from graphbench.records import SHARED_CPU_NOTE, ProfileRecord, Side
from graphbench.step_records import StepRecord
from tests.factories import FAILED, cpu_run, node, profile, region, steady

Script = Callable[[float | None], None]


def slower_row(slowdown: float) -> SimpleNamespace:
    """What a regression is told from."""
    return SimpleNamespace(
        region="r0", name="linear", before_ns=1e6, after_ns=1e6 * (1 + slowdown), ratio=1 + slowdown, verdict="slower"
    )


def test_regression_names_row_region_medians_and_limit() -> None:
    told = "regression: r0/linear: 1.000 ms before, 1.250 ms after, 25.0 % slower; allowed are 5.0 %"
    assert regression_text(slower_row(0.25), 0.05) == told  # type: ignore[arg-type]


def test_regression_of_a_total_says_so() -> None:
    total = DiffTotal(name="compiled forward", before_ns=2e3, after_ns=3e3, verdict="slower")
    assert regression_text(total, 0.1).startswith("regression: the total of compiled forward: 2.000 µs before")


@pytest.fixture
def worst(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Script the worst regression of a comparison of two equal profiles, `a` and `b`."""
    monkeypatch.setattr(document, "read", lambda path: profile(region([node("a", 100.0)]), subject=str(path)))

    def script(slowdown: float | None) -> None:
        found = None if slowdown is None else slower_row(slowdown)
        monkeypatch.setattr(analysis, "worst_regression", lambda result: found)

    return script


def test_diff_prints_and_does_not_judge_unasked(worst: Script, capsys: pytest.CaptureFixture[str]) -> None:
    worst(3.0)
    assert cli.main(["diff", "x/a.json", "x/b.json"]) == 0
    shown, told = capsys.readouterr()
    assert "before: a.json: x/a.json (" in shown
    assert "after:  b.json: x/b.json (" in shown
    assert told == ""


@pytest.mark.parametrize(("found", "code"), [(0.051, 5), (0.05, 0), (0.0, 0), (None, 0)])
def test_regression_beyond_the_limit_exits_with_5(worst: Script, found: float | None, code: int) -> None:
    worst(found)
    assert cli.main(["diff", "a.json", "b.json", "--fail-on-regression", "5%"]) == code


@pytest.mark.parametrize("text", ["5", "0.05", "five%", "-5%", ""])
def test_limit_must_be_a_percentage(worst: Script, text: str) -> None:
    worst(None)
    assert cli.main(["diff", "a.json", "b.json", f"--fail-on-regression={text}"]) == 2


# the gate


def side(ns: float) -> Side:
    return Side(plain=steady(ns))


def stepped(wall_ns: float) -> ProfileRecord:
    step = StepRecord(run=cpu_run([steady(1.0)]), rows=(), plain_wall_ns=(wall_ns,) * 3)
    return profile(region(), step=step)


def judge(monkeypatch: pytest.MonkeyPatch, before: ProfileRecord, after: ProfileRecord) -> int:
    """The exit code of the gate at 5 %, of two profiles that need no files."""
    monkeypatch.setattr(document, "read", {Path("a"): before, Path("b"): after}.__getitem__)
    return cli.main(["diff", "a", "b", "--fail-on-regression", "5%"])


@pytest.mark.parametrize(
    ("before", "after", "judged"),
    [
        (profile(region([node("a", 100.0)])), profile(region([node("a", 150.0)])), "r0/a:"),
        (profile(region(forward=side(100.0))), profile(region(forward=side(150.0))), "the total of compiled forward:"),
        (profile(region(backward=side(1e3))), profile(region(backward=side(2e3))), "the total of compiled backward:"),
        (stepped(100.0), stepped(150.0), "the total of step (wall):"),
    ],
    ids=["node", "forward", "backward", "step"],
)
def test_the_gate_judges_nodes_and_what_ran_compiled(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: ProfileRecord,
    after: ProfileRecord,
    judged: str,
) -> None:
    assert judge(monkeypatch, before, after) == 5
    assert capsys.readouterr().err.startswith(f"graphbench: regression: {judged}")


def test_a_slower_eager_total_is_shown_and_not_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = (profile(region(eager=side(ns), forward=side(50.0))) for ns in (100.0, 150.0))
    assert judge(monkeypatch, before, after) == 0
    shown, told = capsys.readouterr()
    assert next(line.split()[-1] for line in shown.splitlines() if line.startswith("eager ")) == "slower"
    assert told == ""


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_regression_on_a_shared_cpu_fails_and_says_so_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    records = {name: profile(region([node("a", ns)])) for name, ns in (("before", 100.0), ("after", 150.0))}
    note = f"{SHARED_CPU_NOTE}: 300 involuntary context switches a second"
    records[which] = replace(records[which], notes=("something else", note))
    assert judge(monkeypatch, records["before"], records["after"]) == 5
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"graphbench: {which}: {note}"
    assert told[1].startswith("graphbench: regression: r0/a:")


@pytest.mark.parametrize(
    "after",
    [profile(), profile(region([node("a", FAILED)])), profile(region([node("b", 100.0)]))],
    ids=["empty", "failed", "other nodes"],
)
def test_a_gate_that_judged_nothing_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], after: ProfileRecord
) -> None:
    before = profile(region([node("a", 100.0)]))
    assert judge(monkeypatch, before, after) == 2
    assert "error: --fail-on-regression: nothing was judged: " in capsys.readouterr().err


def test_a_gate_names_the_whole_run_that_the_second_profile_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = profile(region([node("a", 100.0)], forward=side(100.0)))
    after = profile(region([node("a", 100.0)], forward=Side(plain=FAILED)))
    assert judge(monkeypatch, before, after) == 0
    told = "--fail-on-regression: the total of compiled forward was not judged: after: "
    assert capsys.readouterr().err.startswith(f"graphbench: {told}")


def test_the_gate_says_what_it_judges(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["diff", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "compiled forwards, compiled backwards and steps, not the eager total" in told
