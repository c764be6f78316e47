"""The commands without torch: what they refuse, what they ask for, the rule for files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from graphbench import cli, document, files
from graphbench.cli.common import refuse_overwrite
from graphbench.errors import SetupError, UsageError, first_line
from graphbench.measurements import Measurement
from graphbench.options import MeasureOptions
from graphbench.records import ProfileRecord
from graphbench.report import FORMATS
from graphbench.runs.entries import Started
from tests.factories import node, profile, region
from tests.unit.test_hostile_journal import entries_of, journal_of

FAILED = Measurement(status="failed", reason="it broke")


def make_record(*, isolated: Measurement | None = None) -> ProfileRecord:
    """A profile without nodes, or with one node that was measured as given, alone and in the graph."""
    nodes = [] if isolated is None else [node("relu", isolated, in_graph=isolated)]
    return profile(region(nodes))


class FakeProfile:
    """What the API returns, with a save that writes a word."""

    def __init__(self, record: ProfileRecord) -> None:
        self.record = record

    def save(self, path: Path, overwrite: bool = False) -> None:
        if path.exists() and not overwrite:
            raise UsageError(f"{path} exists")
        files.write_whole(path, "saved", overwrite=True)


class FakeReporter:
    """Renders a constant and remembers how it was asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.calls: list[dict[str, object]] = []

    def render(self, record: ProfileRecord, **keywords: object) -> str:
        self.calls.append(keywords)
        return self.text


def install(monkeypatch: pytest.MonkeyPatch, name: str, **members: object) -> None:
    """Put a module in the place of one that is imported late."""
    module = ModuleType(name)
    for key, value in members.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def reporters(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeReporter]:
    fakes = {name: FakeReporter(f"<{name}>") for name in FORMATS}
    install(monkeypatch, "graphbench.report", REPORTERS=fakes, FORMATS=FORMATS)
    return fakes


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, reporters: dict[str, FakeReporter]) -> list[SimpleNamespace]:
    """Replace what needs torch; collects `(job, measure options)` and returns an empty profile."""
    collected: list[SimpleNamespace] = []

    def measure_job(job: SimpleNamespace, options: object, **running: object) -> FakeProfile:
        collected.append(SimpleNamespace(job=job, options=options))
        return FakeProfile(make_record())

    install(
        monkeypatch,
        "graphbench.cli.execute",
        Job=SimpleNamespace,
        measure_job=measure_job,
        pick_device=lambda asked: asked or "cpu",
    )
    return collected


# run: what it refuses, and what it asks for


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no model given"),
        (["--model", "hf:gpt2", "--model-class", "Net"], "--model excludes"),
        (["--custom-model-file", "m.py"], "hint: add --model-class NAME, a module class in m.py or a function there"),
        (["--model-class", "Net"], "hint: add --custom-model-file FILE, the Python file that defines it"),
        (["--model", "hf:gpt2", "--input", "f32[1]", "--example-inputs", "x.pt"], "exclude each other"),
        (["--model", "hf:gpt2", "--input", "f32[1]", "--batch-size", "2"], "--batch-size is for inferred inputs"),
        (["--model", "hf:gpt2", "--input", "f33[1]"], "'f33'"),
        (["--model", "hf:gpt2", "--model-arg", "layers"], "expected NAME=VALUE"),
        (["--model", "hf:gpt2", "--model-arg", "a=1", "--model-arg", "a=2"], "given twice"),
        (["--model", "hf:gpt2", "--repeat", "0"], "above 0"),
        (["--model", "hf:gpt2", "--measure-ms", "inf"], "above 0"),
        (
            ["--model", "hf:gpt2", "--warmup", "-1"],
            "--warmup: found '-1', expected a whole number, at least 0",
        ),
        (["--model", "hf:gpt2", "--warmup", "1.5"], "found '1.5', expected a whole number, at least 0"),
        (
            ["--model", "hf:gpt2", "--warmup-ms", "-1"],
            "--warmup-ms: found '-1', expected a number, at least 0",
        ),
        (["--model", "hf:gpt2", "--warmup-ms", "nan"], "found 'nan', expected a number, at least 0"),
        (["--model", "hf:gpt2", "--timer", "sundial"], "sundial"),
        (["--model", "hf:gpt2", "--sort", "foo"], "hint: sort by one of: cost, region, node, op, output, p50, p90"),
    ],
)
def test_run_refuses_contradictions(
    jobs: list[SimpleNamespace], capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert cli.main(["run", *words]) == 2
    assert message in capsys.readouterr().err
    assert jobs == []


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["run", "--modle", "x"], "unknown arguments: --modle x", "did you mean --model"),
        (["show", "p.json", "--widht=80"], "unknown arguments: --widht=80", "did you mean --width or --wide?"),
        (["doctor", "now"], "unknown arguments: now", "see graphbench doctor --help"),
    ],
)
def test_an_unknown_flag_is_met_with_those_like_it_of_its_command(words: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        cli.parse(words)
    assert (caught.value.message, (caught.value.hint or "")[: len(hint)]) == (message, hint)


def test_an_output_dir_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="--output-dir: found '', expected a folder"):
        cli.parse(["run", "--model", "hf:gpt2", "--output-dir", ""])


def test_a_folder_in_the_place_of_a_file_is_refused_whether_or_not_files_are_overwritten(tmp_path: Path) -> None:
    for force in (False, True):
        with pytest.raises(UsageError, match="found a folder, expected a file"):
            refuse_overwrite({"output": tmp_path}, force=force)


def test_a_line_that_announces_is_told_with_the_next() -> None:
    assert first_line("\nbad field 'a':\n    found a text\nmore") == "bad field 'a': found a text"


def test_a_line_that_announces_nothing_is_told_as_it_is() -> None:
    assert first_line("bad field 'a':\n\n") == "bad field 'a':"


def test_model_arguments_are_literals_or_strings(jobs: list[SimpleNamespace]) -> None:
    words = ["a=4", "b=gelu", "c=false", "d=(1, 2)", "e=None", "f=x=y", "g="]
    arguments = [word for pair in words for word in ("--model-arg", pair)]
    assert cli.main(["run", "--model", "hf:gpt2", *arguments]) == 0
    assert jobs[0].job.source.arguments == {
        "a": 4,
        "b": "gelu",
        "c": False,
        "d": (1, 2),
        "e": None,
        "f": "x=y",
        "g": "",
    }


def test_run_hands_measuring_options_on(jobs: list[SimpleNamespace]) -> None:
    words = ["--timer", "wallclock", "--values", "synthetic", "--repeat", "7", "--measure-ms", "3.5", "--no-progress"]
    words += ["--noise", "2%", "--noise-ms", "500", "--batch-execute", "64"]
    assert cli.main(["run", "--model", "hf:gpt2", *words]) == 0
    assert jobs[0].options == MeasureOptions(
        timer="wallclock",
        values="synthetic",
        repeat=7,
        measure_ms=3.5,
        noise=0.02,
        noise_ms=500.0,
        batch=64,
        progress=False,
    )


def test_no_warm_up_is_a_choice(jobs: list[SimpleNamespace]) -> None:
    assert cli.main(["run", "--model", "hf:gpt2", "--warmup", "0", "--warmup-ms", "0"]) == 0
    assert (jobs[0].options.warmup, jobs[0].options.warmup_ms) == (0, 0.0)


def test_result_goes_to_stdout(jobs: list[SimpleNamespace], capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["run", "--model", "hf:gpt2"])
    assert capsys.readouterr().out == "<table>\n"


def test_view_options_that_were_not_given_are_left_to_the_table(
    jobs: list[SimpleNamespace], reporters: dict[str, FakeReporter]
) -> None:
    cli.main(["run", "--model", "hf:gpt2", "--top", "5"])
    assert reporters["table"].calls == [{"top": 5}]


def test_output_dir_gets_every_file(jobs: list[SimpleNamespace], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "out"
    assert cli.main(["run", "--model", "hf:gpt2", "--output-dir", str(folder)]) == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "report.txt": "<table>\n",
        "nodes.csv": "<csv>\n",
        "fusions.csv": "<csv>\n",
        "profile.json": "saved",
        "trace.json": "<trace>\n",
        "report.html": "<html>\n",
    }


def test_without_the_extra_for_pages_all_else_is_written_and_said(
    jobs: list[SimpleNamespace],
    reporters: dict[str, FakeReporter],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def lacking(record: ProfileRecord) -> str:
        raise SetupError("the page needs jinja2", hint="pip install it")

    monkeypatch.setattr(reporters["html"], "render", lacking)
    assert cli.main(["run", "--model", "hf:gpt2", "--output-dir", str(tmp_path)]) == 0
    assert not (tmp_path / "report.html").exists()
    assert (tmp_path / "trace.json").exists()
    told = capsys.readouterr().err
    assert "no report.html: the page needs jinja2" in told
    assert "report.html" not in told.splitlines()[-1]


def test_csv_files_hold_the_table_of_their_name(
    jobs: list[SimpleNamespace], reporters: dict[str, FakeReporter], tmp_path: Path
) -> None:
    cli.main(["run", "--model", "hf:gpt2", "--output-dir", str(tmp_path)])
    assert reporters["csv"].calls == [{"table": "nodes"}, {"table": "fusions"}]


def test_existing_file_is_refused_before_measuring(
    jobs: list[SimpleNamespace], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nodes.csv").write_text("mine")
    assert cli.main(["run", "--model", "hf:gpt2", "--output-dir", str(tmp_path)]) == 2
    assert jobs == []
    assert (tmp_path / "nodes.csv").read_text() == "mine"
    assert "--force" in capsys.readouterr().err


def test_output_dir_that_is_a_file_is_refused_before_measuring(jobs: list[SimpleNamespace], tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    assert cli.main(["run", "--model", "hf:gpt2", "--output-dir", str(tmp_path / "out"), "--force"]) == 2
    assert jobs == []


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder in which nobody can create one")
def test_output_dir_that_cannot_be_made_is_refused_before_measuring(
    jobs: list[SimpleNamespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--model", "hf:gpt2", "--output-dir", "/proc/xx"]) == 2
    assert jobs == []
    assert "--output-dir /proc/xx: cannot be written to" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["profile.json", "report.txt", "fusions.csv"])
def test_file_that_cannot_be_written_after_measuring_loses_no_table(
    jobs: list[SimpleNamespace],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    file: str,
) -> None:
    written = files.write_whole

    def full(path: Path, text: str, *, overwrite: bool) -> None:
        if path.name == file:
            raise UsageError(f"cannot write {file}: No space left on device")
        written(path, text, overwrite=overwrite)

    monkeypatch.setattr("graphbench.cli.common.write_whole", full)
    monkeypatch.setattr(files, "write_whole", full)
    assert cli.main(["run", "--model", "hf:gpt2", "--output-dir", str(tmp_path)]) == 1
    told = f"graphbench: error: measured, but cannot write {file}: No space left on device\n"
    assert capsys.readouterr() == ("<table>\n", told + "  hint: the table above is whole\n")


def test_force_overwrites(jobs: list[SimpleNamespace], tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text("old")
    assert cli.main(["run", "--model", "hf:gpt2", "--output-dir", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "profile.json").read_text() == "saved"


def test_a_run_that_was_cut_short_while_its_files_were_written_goes_on(
    jobs: list[SimpleNamespace], tmp_path: Path
) -> None:
    words = ("--model", "hf:gpt2", "--output-dir", str(tmp_path))
    journal_of(tmp_path, *entries_of(make_record(), words))
    (tmp_path / "profile.json").write_text("of the process that was killed")
    assert cli.main(["run", "--resume", str(tmp_path)]) == 0
    assert (tmp_path / "profile.json").read_text() == "saved"


def test_a_run_of_a_users_module_goes_on_only_where_that_is_named_again(
    jobs: list[SimpleNamespace], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--model", "pack:Net", "--train", "--loss", "pack:mine", "--output-dir", str(tmp_path))
    journal_of(tmp_path, *entries_of(make_record(), words))
    (folder,) = {entry.folder for entry in entries_of(make_record(), words) if isinstance(entry, Started)}
    monkeypatch.chdir(folder)
    assert cli.main(["run", "--resume", str(tmp_path)]) == 2
    assert "runs the code of pack:Net and pack:mine: name it again to allow it" in capsys.readouterr().err
    assert jobs == []
    assert cli.main(["run", "--resume", str(tmp_path), "--model", "pack:Net", "--loss", "pack:mine"]) == 0
    assert jobs[0].job.execution.loss == "pack:mine"


# --strict


def fail_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["graphbench.cli.execute"]
    monkeypatch.setattr(
        module, "measure_job", lambda job, options, **running: FakeProfile(make_record(isolated=FAILED))
    )


def test_failed_rows_are_no_error_unless_strict(jobs: list[SimpleNamespace], monkeypatch: pytest.MonkeyPatch) -> None:
    fail_a_row(monkeypatch)
    assert cli.main(["run", "--model", "hf:gpt2"]) == 0


def test_strict_names_the_failed_rows(
    jobs: list[SimpleNamespace], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_a_row(monkeypatch)
    assert cli.main(["run", "--model", "hf:gpt2", "--strict"]) == 4
    assert "1 row failed: r0 relu: it broke" in capsys.readouterr().err


def test_strict_accepts_a_whole_profile(jobs: list[SimpleNamespace]) -> None:
    assert cli.main(["run", "--model", "hf:gpt2", "--strict"]) == 0


# demo


def test_demo_is_one_command(jobs: list[SimpleNamespace]) -> None:
    assert cli.main(["demo"]) == 0
    assert jobs[0].job.source.target == "SmallTransformer"


def test_demo_leaves_the_progress_bar_to_the_terminal(jobs: list[SimpleNamespace]) -> None:
    cli.main(["demo"])
    assert jobs[0].options.progress is None


def test_demo_is_larger_on_a_gpu(jobs: list[SimpleNamespace]) -> None:
    cli.main(["demo", "--device", "cpu"])
    cli.main(["demo", "--device", "cuda:0"])
    small, large = (entry.job.source.arguments["width"] for entry in jobs)
    assert large > small


def test_a_depth_without_modules_is_refused_before_anything_is_measured(jobs: list[SimpleNamespace]) -> None:
    assert cli.main(["demo", "--depth", "2"]) == 2
    assert jobs == []


def test_demo_can_be_silent(jobs: list[SimpleNamespace]) -> None:
    cli.main(["demo", "--no-progress"])
    assert jobs[0].options.progress is False


# show


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch, reporters: dict[str, FakeReporter]) -> list[Path]:
    """Replace reading; collects the paths that were read."""
    paths: list[Path] = []

    def read(path: Path) -> ProfileRecord:
        paths.append(path)
        return make_record()

    install(monkeypatch, "graphbench.document", read=read)
    return paths


@pytest.mark.parametrize("form", ["table", "csv", "json", "markdown"])
def test_show_renders_the_format(saved: list[Path], capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert cli.main(["show", "p.json", "--format", form]) == 0
    assert saved == [Path("p.json")]
    assert capsys.readouterr().out == f"<{form}>\n"


def test_show_leaves_the_table_of_a_csv_to_its_reporter_unless_told(
    saved: list[Path], reporters: dict[str, FakeReporter]
) -> None:
    cli.main(["show", "p.json", "--format", "csv"])
    cli.main(["show", "p.json", "--format", "csv", "--table", "fusions"])
    assert reporters["csv"].calls == [{}, {"table": "fusions"}]


def test_show_hands_groups_on(saved: list[Path], reporters: dict[str, FakeReporter]) -> None:
    cli.main(["show", "p.json", "--group-by", "module", "--depth", "2"])
    assert reporters["table"].calls == [{"group_by": "module", "depth": 2}]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--group-by", "layer"], "argument --group-by: invalid choice: 'layer'"),
        (["--group-by", "module", "--depth", "0"], "argument --depth: found '0', expected a whole number above 0"),
        (["--depth", "2"], "--depth 2 without --group-by module"),
        (["--group-by", "source", "--depth", "2"], "--depth 2 without --group-by module"),
        (["--format", "csv", "--table", "nodes", "--group-by", "module"], "--table nodes with --group-by module"),
    ],
)
def test_flags_of_groups_that_make_no_sense_are_refused(
    saved: list[Path], capsys: pytest.CaptureFixture[str], flags: list[str], told: str
) -> None:
    assert cli.main(["show", "p.json", *flags]) == 2
    assert saved == []
    assert told in capsys.readouterr().err


def test_show_hands_every_option_on_for_the_reporter_to_judge(
    saved: list[Path], reporters: dict[str, FakeReporter]
) -> None:
    cli.main(["show", "p.json", "--format", "csv", "--table", "nodes", "--top", "3", "--wide", "--sort", "name"])
    assert reporters["csv"].calls == [{"table": "nodes", "top": 3, "wide": True, "sort": "name"}]


@pytest.mark.parametrize("form", [[], ["--format", "json"], ["--format", "markdown"]])
def test_choosing_a_table_without_csv_names_the_flags_that_work(
    saved: list[Path], capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    assert cli.main(["show", "p.json", "--table", "fusions", *form]) == 2
    assert saved == []
    assert "hint: graphbench show p.json --format csv --table fusions" in capsys.readouterr().err


def test_full_disk_under_stdout_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    document.write(make_record(), path)
    words = [sys.executable, "-m", "graphbench", "show", str(path)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    told = "graphbench: error: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, told)
