"""`graphbench run` on several sets of inputs, without torch: a run for each, failures, going on, and `show`."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from graphbench import cli, document
from graphbench.errors import CaptureError
from graphbench.records import InputRecord, ProfileRecord
from graphbench.runs.entries import Conditions
from graphbench.runs.journal import JOURNAL, Journal
from graphbench.runs.ledger import Ledger
from graphbench.runs.series import write_series
from tests.factories import node, profile, region, spec

MODEL = ["--model", "hf:gpt2"]
TWO = ["--example-inputs", "ids=i64[1,128]<1000", "--example-inputs", "ids=i64[1,512]<1000"]


def measured(size: int) -> ProfileRecord:
    """A profile of a linear that grows as n and a product that grows as n^2."""
    ids = InputRecord(name="ids", source="", kind="tensor", spec=spec(1, size))
    nodes = [node("linear", 1000.0 * size), node("matmul", 10.0 * size**2)]
    return dataclasses.replace(profile(region(nodes)), inputs=(ids,))


class Saved:
    """What the API returns."""

    def __init__(self, record: ProfileRecord) -> None:
        self.record = record

    def save(self, path: Path, overwrite: bool = False) -> None:
        document.write(self.record, path, overwrite=overwrite)


class Measuring:
    """Stands for what needs torch. `sizes` are those that were measured; `raises` what happens at one of them."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.raises: dict[int, BaseException] = {}
        self.begins_only: set[int] = set()

    def measure_job(self, job: SimpleNamespace, options: object, *, ledger: Ledger, **_: object) -> Saved:
        given = job.input_set
        size = given.batch_size or given.specs[0].shape[-1]
        self.sizes.append(size)
        if size in self.raises:
            if size in self.begins_only:
                record = measured(size)
                ledger._journal.append(  # what a run notes once it measures
                    Conditions(
                        created=record.created,
                        subject=record.subject,
                        environment=record.environment,
                        policy=record.policy,
                    )
                )
            raise self.raises[size]
        return Saved(measured(size))


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Measuring]:
    found = Measuring()
    module: Any = ModuleType("graphbench.cli.execute")
    module.Job, module.measure_job, module.pick_device = SimpleNamespace, found.measure_job, lambda asked: "cpu"
    monkeypatch.setitem(sys.modules, "graphbench.cli.execute", module)
    monkeypatch.setattr("graphbench.api.reset", lambda: None)
    monkeypatch.setattr("graphbench.cli.run.require", lambda *names: None)
    before = "torch" in sys.modules  # by other tests of this process
    yield found
    assert ("torch" in sys.modules) == before


def run(*words: object) -> int:
    return cli.main(["run", *map(str, words)])


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


PROFILES = {f"ids={size}/{name}" for size in ("1x128", "1x512") for name in ("report.txt", "nodes.csv")}


def test_every_set_has_a_run_and_all_are_compared(
    measuring: Measuring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*MODEL, *TWO, "--output-dir", tmp_path / "out") == 0
    assert measuring.sizes == [128, 512]
    assert {"report.txt", "scaling.csv", "series.json"} | PROFILES <= files(tmp_path / "out")
    assert not list((tmp_path / "out").rglob(JOURNAL))
    assert "matmul (matmul) grows fastest of all nodes: as n^2.00" in capsys.readouterr().out
    assert "as n^2.00" in (tmp_path / "out" / "report.txt").read_text()
    assert (tmp_path / "out" / "scaling.csv").read_text().startswith("region,name,op_type")


def test_several_batch_sizes_are_several_sets(measuring: Measuring, tmp_path: Path) -> None:
    assert run(*MODEL, "--batch-size", "1,8,32", "--output-dir", tmp_path / "out") == 0
    assert measuring.sizes == [1, 8, 32]
    assert json.loads((tmp_path / "out" / "series.json").read_text()) == {"sets": ["batch=1", "batch=8", "batch=32"]}


def test_a_set_that_fails_does_not_stop_the_others(
    measuring: Measuring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measuring.raises[256] = CaptureError("it broke")
    three = [*TWO[:2], "--example-inputs", "ids=i64[1,256]<1000", *TWO[2:]]
    assert run(*MODEL, *three, "--output-dir", tmp_path / "out") == 1
    assert measuring.sizes == [128, 256, 512]
    told = capsys.readouterr()
    assert "ids=1x256: it broke" in told.err
    assert "1 of 3 sets of inputs failed: ids=1x256 (exit code 1)" in told.err
    assert f"graphbench run --resume {tmp_path / 'out'} continues" in told.err
    assert "over 2 sets of inputs" in told.out
    assert "ids=1x256: left out, since it was not measured" in (tmp_path / "out" / "report.txt").read_text()


def test_a_series_of_which_nothing_could_be_measured_leaves_nothing(measuring: Measuring, tmp_path: Path) -> None:
    measuring.raises |= {128: CaptureError("it broke"), 512: CaptureError("it broke")}
    assert run(*MODEL, *TWO, "--output-dir", tmp_path / "out") == 1
    assert files(tmp_path / "out") == set()
    assert run(*MODEL, *TWO, "--output-dir", tmp_path / "out") == 1


def test_resume_measures_what_is_missing_and_keeps_the_rest(measuring: Measuring, tmp_path: Path) -> None:
    measuring.raises[512] = CaptureError("it broke")
    run(*MODEL, *TWO, "--output-dir", tmp_path / "out")
    first = (tmp_path / "out" / "ids=1x128" / "profile.json").stat().st_mtime_ns
    measuring.raises.clear()
    assert run("--resume", tmp_path / "out") == 0
    assert measuring.sizes == [128, 512, 512]
    assert (tmp_path / "out" / "ids=1x128" / "profile.json").stat().st_mtime_ns == first
    assert (tmp_path / "out" / "scaling.csv").is_file()


def test_resume_goes_on_with_the_set_that_was_cut_short(
    measuring: Measuring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measuring.raises[128], measuring.begins_only = KeyboardInterrupt(), {128}
    assert run(*MODEL, *TWO, "--output-dir", tmp_path / "out") == 130
    assert measuring.sizes == [128]
    assert (tmp_path / "out" / "ids=1x128" / JOURNAL).is_file()
    assert f"graphbench run --resume {tmp_path / 'out'} continues" in capsys.readouterr().err
    measuring.raises.clear()
    assert run("--resume", tmp_path / "out") == 0
    assert measuring.sizes == [128, 128, 512]
    assert not list((tmp_path / "out").rglob(JOURNAL))


def test_one_set_of_a_series_can_be_gone_on_with_alone(measuring: Measuring, tmp_path: Path) -> None:
    measuring.raises[512], measuring.begins_only = CaptureError("it broke"), {512}
    run(*MODEL, *TWO, "--output-dir", tmp_path / "out")
    measuring.raises.clear()
    assert run("--resume", tmp_path / "out" / "ids=1x512") == 0
    assert measuring.sizes == [128, 512, 512]
    assert (tmp_path / "out" / "ids=1x512" / "profile.json").is_file()


def test_a_complete_series_cannot_be_gone_on_with(
    measuring: Measuring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*MODEL, *TWO, "--output-dir", tmp_path / "out")
    assert run("--resume", tmp_path / "out") == 2
    assert f"the series of {tmp_path / 'out'} is complete" in capsys.readouterr().err


def test_a_series_is_overwritten_only_with_force(
    measuring: Measuring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*MODEL, *TWO, "--output-dir", tmp_path / "out"]
    run(*words)
    assert run(*words) == 2
    assert "will not overwrite" in capsys.readouterr().err
    assert run(*words, "--force") == 0
    assert measuring.sizes == [128, 512, 128, 512]


def test_the_directory_of_a_single_run_is_refused(
    measuring: Measuring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*MODEL, *TWO[:2], "--output-dir", tmp_path / "out")
    assert run(*MODEL, *TWO, "--output-dir", tmp_path / "out", "--force") == 2
    assert "holds a run of one set of inputs" in capsys.readouterr().err


def test_without_an_output_directory_nothing_is_left(
    measuring: Measuring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(*MODEL, *TWO) == 0
    assert "over 2 sets of inputs" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_a_set_is_not_followed(
    measuring: Measuring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "ids=1x512").symlink_to(tmp_path / "elsewhere")
    assert run(*MODEL, *TWO, "--output-dir", tmp_path / "out") == 2
    assert "is a symbolic link" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_series_that_is_being_written_is_locked(
    measuring: Measuring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    write_series(tmp_path / "out", ["ids=1x128"])
    journal = Journal.open(tmp_path / "out")
    assert run(*MODEL, *TWO, "--output-dir", tmp_path / "out", "--force") == 2
    assert "another graphbench run is writing to it" in capsys.readouterr().err
    journal.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--compare", "eager,default"], "--compare with 2 sets of inputs: it takes one"),
        (["--replace", "relu=f.py:g"], "--replace with 2 sets of inputs: it takes one"),
    ],
)
def test_what_knows_one_set_is_refused_by_name(
    measuring: Measuring, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(*MODEL, *TWO, *words) == 2
    assert message in capsys.readouterr().err


def test_a_set_that_is_given_twice_is_refused(measuring: Measuring, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*MODEL, "--batch-size", "8,8") == 2
    assert "batch=8 are given twice" in capsys.readouterr().err


def test_a_number_of_a_set_that_is_none_is_refused(measuring: Measuring, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*MODEL, *TWO, "--input-set", "2") == 2
    assert "--input-set 2: there are 2 sets of inputs" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["0"], ["1,x"], ["1,"]])
def test_batch_sizes_are_whole_numbers(
    measuring: Measuring, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert run(*MODEL, "--batch-size", *words) == 2
    assert "expected a whole number above 0" in capsys.readouterr().err


# show


@pytest.fixture
def series(measuring: Measuring, tmp_path: Path) -> Path:
    run(*MODEL, *TWO, "--output-dir", tmp_path / "out")
    return tmp_path / "out"


def show(*words: object) -> int:
    return cli.main(["show", *map(str, words)])


def test_show_of_a_series_is_its_comparison(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert show(series) == 0
    assert capsys.readouterr().out == (series / "report.txt").read_text()


def test_show_of_several_profiles_compares_them(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [series / "ids=1x512", series / "ids=1x128" / "profile.json"]
    capsys.readouterr()
    assert show(*paths, "--format", "csv") == 0
    assert capsys.readouterr().out == (series / "scaling.csv").read_text()


@pytest.mark.parametrize(("name", "start"), [("json", "{"), ("markdown", "### graphbench scaling")])
def test_show_has_the_comparison_in_every_format(
    series: Path, capsys: pytest.CaptureFixture[str], name: str, start: str
) -> None:
    capsys.readouterr()
    assert show(series, "--format", name) == 0
    assert capsys.readouterr().out.startswith(start)


def test_show_cuts_the_comparison_to_its_first_rows(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    show(series, "--top", "1")
    assert "Nodes (1 of 2)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--sort", "op"], ["--group-by", "module"], ["--what-if", "relu"], ["--format", "csv", "--table", "step"]]
)
def test_show_refuses_what_is_for_one_profile(
    series: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert show(series, *words) == 2
    assert "with several profiles: it is for the tables of one" in capsys.readouterr().err


def test_diff_of_a_series_says_which_runs_there_are(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", str(series), str(series / "ids=1x128")]) == 2
    assert f"name one of its runs: {series / 'ids=1x128'}" in capsys.readouterr().err
