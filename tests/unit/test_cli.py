"""The command line without torch: parsing, exit codes, error style, the rule for files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from graphbench import cli
from graphbench.cli.common import Command, failed_rows
from graphbench.errors import GraphbenchError, SetupError, UsageError
from graphbench.records import Measurement, ProfileRecord, Side, StepRecord, StepRow
from tests.factories import cpu_run, kernel, measurement, node, profile, region

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
        path.write_text("saved")


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
    fakes = {name: FakeReporter(f"<{name}>") for name in ("table", "csv", "json", "markdown")}
    install(monkeypatch, "graphbench.report", REPORTERS=fakes)
    return fakes


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, reporters: dict[str, FakeReporter]) -> list[SimpleNamespace]:
    """Replace what needs torch; collects `(job, measure options)` and returns an empty profile."""
    collected: list[SimpleNamespace] = []

    def measure_job(job: SimpleNamespace, options: object) -> FakeProfile:
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


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make the only command raise."""

    def make(error: BaseException) -> None:
        class Raise(Command[None]):
            """Raise."""

            name = "raise"

            def prepare_parser(self, parser: Any) -> None: ...

            def read_options(self, arguments: object) -> None: ...

            def run(self, options: None) -> int:
                raise error

        monkeypatch.setattr(cli, "COMMANDS", (Raise(),))

    return make


# main: exit codes and error style


@pytest.mark.parametrize(
    ("error", "code"),
    [(GraphbenchError("no"), 1), (UsageError("no"), 2), (SetupError("no"), 3), (KeyboardInterrupt(), 130)],
)
def test_error_decides_the_exit_code(raising: Callable[[BaseException], None], error: BaseException, code: int) -> None:
    raising(error)
    assert cli.main(["raise"]) == code


def test_error_is_one_line_and_a_hint_on_stderr(
    raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    raising(GraphbenchError("node relu: it broke", hint="mend it"))
    cli.main(["raise"])
    assert capsys.readouterr() == ("", "graphbench: error: node relu: it broke\n  hint: mend it\n")


@pytest.mark.parametrize("words", [["--debug", "raise"], ["raise", "--debug"]])
def test_debug_shows_the_traceback(
    raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    raising(GraphbenchError("it broke"))
    assert cli.main(words) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_interrupt_is_one_line(raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]) -> None:
    raising(KeyboardInterrupt())
    cli.main(["raise"])
    assert capsys.readouterr().err == "graphbench: interrupted\n"


def test_closed_pipe_is_quiet(raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]) -> None:
    raising(BrokenPipeError())
    assert cli.main(["raise"]) == 141
    assert capsys.readouterr().err == ""


def test_unexpected_error_is_not_hidden(raising: Callable[[BaseException], None]) -> None:
    raising(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["raise"])


def test_version_names_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("graphbench ")


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["show"], ["show", "p.json", "--format", "pdf"]])
def test_wrong_command_line_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(command: Command[Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([command.name, "--help"])
    assert command.help() in " ".join(capsys.readouterr().out.split())


# run: what it refuses, and what it asks for


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no model given"),
        (["--model", "hf:gpt2", "--model-class", "Net"], "--model excludes"),
        (["--custom-model-file", "m.py"], "go together"),
        (["--model-class", "Net"], "go together"),
        (["--model", "hf:gpt2", "--input", "f32[1]", "--example-inputs", "x.pt"], "exclude each other"),
        (["--model", "hf:gpt2", "--input", "f32[1]", "--batch-size", "2"], "--batch-size is for inferred inputs"),
        (["--model", "hf:gpt2", "--input", "f33[1]"], "'f33'"),
        (["--model", "hf:gpt2", "--model-arg", "layers"], "expected NAME=VALUE"),
        (["--model", "hf:gpt2", "--model-arg", "a=1", "--model-arg", "a=2"], "given twice"),
        (["--model", "hf:gpt2", "--repeat", "0"], "above 0"),
        (["--model", "hf:gpt2", "--measure-ms", "inf"], "above 0"),
        (["--model", "hf:gpt2", "--timer", "sundial"], "sundial"),
    ],
)
def test_run_refuses_contradictions(
    jobs: list[SimpleNamespace], capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert cli.main(["run", *words]) == 2
    assert message in capsys.readouterr().err
    assert jobs == []


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
    assert cli.main(["run", "--model", "hf:gpt2", *words]) == 0
    assert jobs[0].options.keywords() == {
        "timer": "wallclock",
        "l2": None,
        "values": "synthetic",
        "warmup": None,
        "repeat": 7,
        "warmup_ms": 25.0,
        "measure_ms": 3.5,
        "progress": False,
    }


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
    }


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


def test_force_overwrites(jobs: list[SimpleNamespace], tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text("old")
    assert cli.main(["run", "--model", "hf:gpt2", "--output-dir", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "profile.json").read_text() == "saved"


# --strict


def fail_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["graphbench.cli.execute"]
    monkeypatch.setattr(module, "measure_job", lambda job, options: FakeProfile(make_record(isolated=FAILED)))


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


def test_row_that_failed_twice_counts_once() -> None:
    assert failed_rows(make_record(isolated=FAILED)) == ("r0 relu: it broke",)


def test_skipped_row_has_not_failed() -> None:
    assert failed_rows(make_record(isolated=Measurement(status="skipped", reason="a view"))) == ()


def test_failed_kernel_is_a_failed_row() -> None:
    record = profile(region(kernels=[kernel("mm", FAILED, handle=1, kind="extern")]))
    assert failed_rows(record) == ("r0 forward/mm:1: it broke",)


def test_failed_side_is_a_failed_row() -> None:
    assert failed_rows(profile(region(eager=Side(plain=FAILED)))) == ("r0 eager: it broke",)


def test_failed_gap_op_is_a_failed_row() -> None:
    run = cpu_run([measurement(1.0)])
    step = StepRecord(run=run, rows=(StepRow(name="aten.add", op_type="add", in_graph=FAILED),))
    assert failed_rows(profile(step=step)) == ("step aten.add: it broke",)


# demo


def test_demo_is_one_command(jobs: list[SimpleNamespace]) -> None:
    assert cli.main(["demo"]) == 0
    assert jobs[0].job.source.target == "SmallTransformer"
    assert jobs[0].options.progress is True


def test_demo_is_larger_on_a_gpu(jobs: list[SimpleNamespace]) -> None:
    cli.main(["demo", "--device", "cpu"])
    cli.main(["demo", "--device", "cuda:0"])
    small, large = (entry.job.source.arguments["width"] for entry in jobs)
    assert large > small


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


def test_show_prints_the_nodes_as_csv_unless_told(saved: list[Path], reporters: dict[str, FakeReporter]) -> None:
    cli.main(["show", "p.json", "--format", "csv"])
    cli.main(["show", "p.json", "--format", "csv", "--table", "fusions"])
    assert reporters["csv"].calls == [{"table": "nodes"}, {"table": "fusions"}]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_show_hands_every_option_on_for_the_reporter_to_judge(
    saved: list[Path], reporters: dict[str, FakeReporter], form: str
) -> None:
    cli.main(["show", "p.json", "--format", form, "--table", "nodes", "--top", "3", "--wide", "--sort", "name"])
    assert reporters[form].calls == [{"table": "nodes", "top": 3, "wide": True, "sort": "name"}]


# diff


@pytest.fixture
def worst(monkeypatch: pytest.MonkeyPatch, saved: list[Path]) -> Callable[[float | None], None]:
    """Script the worst regression of a comparison."""

    def script(value: float | None) -> None:
        install(
            monkeypatch, "graphbench.analysis.diff", diff=lambda a, b: (a, b), worst_regression=lambda result: value
        )
        install(monkeypatch, "graphbench.report.table", render_diff=lambda result: "<diff>")

    return script


def test_diff_prints_and_does_not_judge_unasked(
    worst: Callable[[float | None], None], saved: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    worst(3.0)
    assert cli.main(["diff", "a.json", "b.json"]) == 0
    assert saved == [Path("a.json"), Path("b.json")]
    assert capsys.readouterr() == ("<diff>\n", "")


@pytest.mark.parametrize(("found", "code"), [(0.051, 5), (0.05, 0), (0.0, 0), (None, 0)])
def test_regression_beyond_the_limit_exits_with_5(
    worst: Callable[[float | None], None], found: float | None, code: int
) -> None:
    worst(found)
    assert cli.main(["diff", "a.json", "b.json", "--fail-on-regression", "5%"]) == code


@pytest.mark.parametrize("text", ["5", "0.05", "five%", "-5%", ""])
def test_limit_must_be_a_percentage(worst: Callable[[float | None], None], text: str) -> None:
    worst(None)
    assert cli.main(["diff", "a.json", "b.json", f"--fail-on-regression={text}"]) == 2
