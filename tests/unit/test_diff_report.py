"""What is printed of two profiles: text, Markdown for a pull request, CSV and JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graphbench import cli, document
from graphbench.analysis.diff import Diff, diff
from graphbench.errors import UsageError
from graphbench.records import SHARED_CPU_NOTE, KernelRecord, NodeRecord, ProfileRecord, Side, Traffic
from graphbench.report.diff_data import csv_diff, json_diff
from graphbench.report.diff_markdown import markdown_diff
from graphbench.report.diff_table import render_diff
from graphbench.report.diff_words import headline
from graphbench.report.profile_diff import ProfileDiff
from tests.factories import FAILED, environment, executes, kernel, node, profile, region, spec, steady
from tests.samples import cpu_profile, gpu_profile


def moves(name: str, read: int) -> tuple[Traffic, ...]:
    return (Traffic(buffer=name, read_bytes=read, written_bytes=read),)


def version(*, after: bool) -> ProfileRecord:
    """Two versions of a model: a gelu became a relu, two kernels one, one node slower, a batch another dtype."""
    dtype = "bfloat16" if after else "float32"
    activation = node("y", 30_000.0, op_type="relu") if after else node("h", 60_000.0, op_type="gelu", line=4)
    nodes: list[NodeRecord] = [
        node("linear", 100_000.0, line=3),
        dataclasses.replace(activation, inputs=("linear",)),
        node("add", 20_000.0 if after else 10_000.0, line=5),
        node("cast", 4_000.0, line=6, outputs=(spec(4, dtype=dtype),)),
        node("sort", FAILED if after else 5_000.0, line=7),
    ]
    mm = kernel("mm", 99_000.0, roles=(executes("linear"),), handle=1)
    if after:
        kernels: list[KernelRecord] = [
            mm,
            kernel("triton_add_cast", 9_000.0, roles=(executes("add"), executes("cast")), traffic=moves("a", 2_048)),
        ]
    else:
        kernels = [
            mm,
            kernel("triton_add", 8_000.0, roles=(executes("add"),), traffic=moves("a", 1_024)),
            kernel("triton_cast", 4_000.0, roles=(executes("cast"),), traffic=moves("b", 2_048)),
        ]
    sides = {"eager": Side(plain=steady(180e3)), "forward": Side(plain=steady(120e3 if after else 150e3))}
    env = environment(torch="2.14.1" if after else "2.13.0")
    return profile(region(nodes, kernels, **sides), env=env, subject="Net")


@pytest.fixture
def result() -> Diff:
    return diff(version(after=False), version(after=True), names=("main.json", "branch.json"))


def test_golden_text(result: Diff, golden: Callable[[str, str], None]) -> None:
    golden(render_diff(result), "diff.txt")


def test_golden_markdown(result: Diff, golden: Callable[[str, str], None]) -> None:
    golden(markdown_diff(result), "diff.md")


@pytest.mark.parametrize("record", [cpu_profile(), gpu_profile()], ids=["cpu", "gpu"])
def test_a_profile_against_itself_has_no_difference_and_empty_tables_say_so(record: ProfileRecord) -> None:
    result = diff(record, record)
    text = render_diff(result)
    assert text.startswith("no difference\n")
    assert "\nNodes: no difference\n" in text
    assert "\nFusions: no difference\n" in text
    assert "**no difference**" in markdown_diff(result)
    assert {total.verdict for total in result.totals} == {"same"}
    assert {row.change for row in result.fusions} == {"same"}


def test_rows_that_say_nothing_are_shown_on_request(result: Diff) -> None:
    text = render_diff(result)
    assert "not shown: 2 nodes (1 same, 1 not compared); --all shows them" in text
    assert not [line for line in text.splitlines() if line.startswith("linear ")]
    every = render_diff(result, every=True)
    assert [line for line in every.splitlines() if line.startswith("linear ")]
    assert "not shown" not in every


def test_of_many_rows_the_hundred_that_changed_most_are_shown() -> None:
    sides = [profile(region([node(f"n{i}", ns, op_type=f"op{i}") for i in range(101)])) for ns in (100.0, 200.0)]
    result = diff(*sides)
    assert "\nNodes (100 of 101)\n" in render_diff(result)
    assert "\nNodes (101)\n" in render_diff(result, top=None)


def test_the_first_line_is_the_verdict_of_what_ran_compiled(result: Diff) -> None:
    assert render_diff(result).splitlines()[0] == "compiled forward faster: 150.0 µs -> 120.0 µs (0.800x)"


def test_the_rate_of_false_alarms_is_not_claimed_of_a_shared_cpu() -> None:
    quiet = profile(region([node("a", 100.0)]))
    shared = dataclasses.replace(quiet, notes=(f"{SHARED_CPU_NOTE}: 300 involuntary context switches a second",))
    assert "at most 1 % call any row so" in render_diff(diff(quiet, quiet), width=1_000)
    text = render_diff(diff(quiet, shared), width=1_000)
    assert "at most 1 %" not in text
    assert "on a shared CPU equal code may well be called faster or slower" in text


def test_conditions_stand_above_all_tables(result: Diff) -> None:
    lines = render_diff(result).splitlines()
    differs = lines.index("differs: torch: 2.13.0 -> 2.14.1")
    assert differs < lines.index(next(line for line in lines if line.startswith("total (uninstrumented)")))


def test_one_side_that_failed_does_not_hide_the_other() -> None:
    whole = profile(region([node("a", 100.0)], forward=Side(plain=steady(100.0)), eager=Side(plain=steady(300.0))))
    lost = dataclasses.replace(region(key="r0"), status="failed", reason="out of memory")
    lost = dataclasses.replace(lost, forward=Side(plain=FAILED), eager=Side(plain=FAILED))
    result = diff(whole, profile(lost))
    forward = result.totals[1]
    assert (forward.before_ns, forward.after_ns, forward.verdict) == (100.0, None, None)
    assert forward.reason == "after: ran out of memory"
    text = render_diff(result)
    assert "note: after: r0 (out of memory) not measured" in text
    assert "– compiled forward: after: ran out of memory" in text
    assert [(row.change, row.before_ns) for row in result.rows] == [("gone", 100.0)]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (profile(), profile(), "nothing could be compared"),
        (profile(region([node("a", 1.0)])), profile(region([node("a", FAILED)])), "nothing could be compared"),
        (
            profile(region([node("a", 1.0)], forward=Side(plain=steady(1.0)))),
            profile(region([node("a", 1.0)], forward=Side(plain=FAILED))),
            "no difference (compiled forward not compared)",
        ),
    ],
)
def test_what_could_not_be_compared_is_not_told_as_no_difference(
    before: ProfileRecord, after: ProfileRecord, told: str
) -> None:
    assert headline(diff(before, after)) == told


def test_markdown_escapes_names() -> None:
    def named(ns: float) -> ProfileRecord:
        return profile(region([node("a|b", ns, op_type="<script>")]), subject="*Net* [x](y)")

    text = markdown_diff(diff(named(100.0), named(200.0)))
    assert "a\\|b" in text
    assert "\\<script>" in text
    assert "\\*Net\\* [x\\](y)" in text


def test_markdown_folds_all_rows_but_those_that_changed_most() -> None:
    def many(factor: float) -> ProfileRecord:
        return profile(region([node(f"n_{i}", 100.0 + (100.0 + i) * factor, op_type=f"op{i}") for i in range(30)]))

    text = markdown_diff(diff(many(1.0), many(3.0)), top=4)
    shown, _, folded = text.partition("<details><summary>26 more rows</summary>")
    assert [line.split(" | ")[0] for line in shown.splitlines() if line.startswith("| n")][1:] == [
        "| n\\_29",
        "| n\\_28",
        "| n\\_27",
        "| n\\_26",
    ]
    assert folded.count("| n\\_") == 26
    assert "<details><summary>26" not in markdown_diff(diff(many(1.0), many(3.0)), top=None)


def test_csv_has_every_row_and_json_every_table(result: Diff) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_diff(result))))
    assert [(row["name"], row["verdict"], row["change"]) for row in rows] == [
        ("linear", "same", "both"),
        ("y", "", "added"),
        ("add", "slower", "both"),
        ("cast", "", "both"),
        ("sort", "", "both"),
        ("h", "", "gone"),
    ]
    merged = list(csv.DictReader(io.StringIO(csv_diff(result, table="fusions"))))[1]
    assert (merged["change"], merged["before_ns"], merged["after_ns"]) == ("merged", "12000", "9000")
    assert (merged["before_bytes"], merged["after_bytes"]) == ("6144", "4096")
    read = json.loads(json_diff(result))
    assert [row["name"] for row in read["nodes"]] == [row["name"] for row in rows]
    assert read["verdict"] == "compiled forward faster: 150.0 µs -> 120.0 µs (0.800x)"
    assert read["environment"] == [{"what": "torch", "before": "2.13.0", "after": "2.14.1"}]
    assert read["totals"][1]["ratio"] == 0.8


def test_an_unknown_table_is_refused_with_those_that_there_are(result: Diff) -> None:
    with pytest.raises(UsageError, match="unknown table 'kernels'") as caught:
        csv_diff(result, table="kernels")
    assert caught.value.hint == "the tables are: totals, nodes, fusions, gaps"


def test_the_api_gives_rows_as_data_and_both_texts(result: Diff) -> None:
    found = ProfileDiff(result)
    assert str(found) == found.table() == render_diff(result)
    assert found.markdown() == markdown_diff(result)
    assert (found.nodes, found.fusions, found.gaps) == (result.rows, result.fusions, result.gaps)
    assert found.totals == result.totals
    assert "By shape" in found.table(group_by="shape")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top is 0"),
        ({"top": "3"}, "top='3': expected a whole number or None"),
        ({"group_by": "kernel"}, "cannot group by 'kernel'"),
    ],
    ids=str,
)
def test_a_bad_option_of_the_api_is_refused(result: Diff, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ProfileDiff(result).table(**options)  # type: ignore[arg-type]
    assert message in caught.value.message


# the command


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two profiles that need no files."""
    sides = {Path("a"): version(after=False), Path("b"): version(after=True)}
    monkeypatch.setattr(document, "read", sides.__getitem__)


@pytest.mark.parametrize(
    ("flags", "start"),
    [
        ((), "compiled forward faster"),
        (("--top", "1"), "compiled forward faster"),
        (("--all",), "compiled forward faster"),
        (("--group-by", "op_type"), "compiled forward faster"),
        (("--group-by", "module"), "compiled forward faster"),
        (("--group-by", "source"), "compiled forward faster"),
        (("--format", "markdown"), "### graphbench diff"),
        (("--format", "json"), "{"),
        (("--format", "csv"), "region,name"),
        (("--format", "csv", "--table", "totals"), "name,before_ns,after_ns"),
        (("--format", "csv", "--group-by", "shape"), "group,before_count"),
    ],
    ids=" ".join,
)
def test_the_command_prints_every_format(
    files: None, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], start: str
) -> None:
    assert cli.main(["diff", "a", "b", *flags]) == 0
    assert capsys.readouterr().out.startswith(start)


@pytest.mark.parametrize(
    "flags",
    [
        ("--table", "nodes"),
        ("--format", "csv", "--all"),
        ("--format", "json", "--top", "3"),
        ("--format", "json", "--group-by", "op_type"),
        ("--format", "csv", "--table", "gaps", "--group-by", "op_type"),
        ("--top", "0"),
        ("--group-by", "kernel"),
    ],
    ids=" ".join,
)
def test_options_that_a_format_would_ignore_are_refused(
    files: None, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    try:
        code = cli.main(["diff", "a", "b", *flags])
    except SystemExit as end:  # argparse itself
        code = int(end.code or 0)
    assert code == 2
    assert capsys.readouterr().err
