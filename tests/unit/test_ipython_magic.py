"""`%%graphbench` in a shell: where the cell runs, what the flags do, and what is left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import graphbench
from graphbench import api
from graphbench.errors import UsageError
from graphbench.plugins.ipython_magic import parser
from graphbench.report.table import TableReporter
from tests.factories import node, profile, region

RECORD = profile(region([node("relu", 5.0), node("gelu", 7.0)]))


class FakeCompiler:
    """Stands for IPython's compiler."""

    flags = 0

    def cache(self, code: str) -> str:
        return "<cell 1>"


class FakeShell:
    """A shell with a namespace and magics, in which `%now` is magic."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.compile = FakeCompiler()
        self.magics: dict[str, Callable[[str, str], None]] = {}

    def transform_cell(self, raw_cell: str) -> str:
        return raw_cell.replace("%now", "'now'")

    def register_magic_function(
        self, func: Callable[[str, str], None], magic_kind: str = "line", magic_name: str | None = None
    ) -> None:
        assert (magic_kind, magic_name) == ("cell", "graphbench")
        self.magics["graphbench"] = func


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace profiling by a single call of the step; collects the options."""
    collected: list[dict[str, Any]] = []

    def fake(fn: Callable[[], object], **options: Any) -> api.Profile:
        fn()
        collected.append(options)
        return api.Profile(RECORD)

    monkeypatch.setattr(api, "profile", fake)
    return collected


@pytest.fixture
def shell() -> FakeShell:
    made = FakeShell()
    graphbench.load_ipython_extension(made)
    return made


def test_the_cell_runs_in_the_users_namespace_magics_and_all(shell: FakeShell, calls: list[dict[str, Any]]) -> None:
    shell.user_ns["x"] = 2
    shell.magics["graphbench"]("", "y = x + 1\nwhen = %now\n")
    assert (shell.user_ns["y"], shell.user_ns["when"]) == (3, "now")


def test_the_tables_are_printed_as_show_prints_them(
    shell: FakeShell, calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    shell.magics["graphbench"]("--group-by op_type --width 90", "pass")
    assert capsys.readouterr().out == TableReporter().render(RECORD, group_by="op_type", width=90)


def test_the_profile_is_kept_under_the_name_that_was_given(shell: FakeShell, calls: list[dict[str, Any]]) -> None:
    shell.magics["graphbench"]("-o before", "pass")
    assert shell.user_ns["before"].record is RECORD


def test_flags_of_the_command_line_become_options(shell: FakeShell, calls: list[dict[str, Any]]) -> None:
    shell.magics["graphbench"]("--repeat 7 --noise 2% --select 'conv*' --warmup-steps 1", "pass")
    (options,) = calls
    assert (options["repeat"], options["noise"], options["select"], options["warmup_steps"]) == (7, 0.02, ("conv*",), 1)
    assert options["subject"] == "a cell of %%graphbench"


@pytest.mark.parametrize(
    ("line", "cell", "message"),
    [
        ("--repeat 0", "pass", "--repeat: found '0', expected a whole number above 0"),
        ("--no-such-flag", "pass", "unknown arguments: --no-such-flag"),
        ("--noise-ms 5", "pass", "it limits --noise, which is not given"),
        ("-o 1st", "pass", "-o 1st: expected a name"),
        ("--select 'conv", "pass", "No closing quotation"),
        ("", "  \n", "the cell is empty"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_the_cell_runs(
    shell: FakeShell,
    calls: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    cell: str,
    message: str,
) -> None:
    monkeypatch.delitem(sys.modules, "IPython.core.error", raising=False)
    with pytest.raises(UsageError) as caught:
        shell.magics["graphbench"](line, cell)
    assert message in str(caught.value)
    assert calls == []


def test_help_is_printed_and_nothing_runs(
    shell: FakeShell, calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    shell.magics["graphbench"]("--help", "raise ValueError")
    assert capsys.readouterr().out.startswith("usage: %%graphbench [--help] [-o NAME]")
    assert "--group-by" in (shell.magics["graphbench"].__doc__ or "")
    assert calls == []


def test_a_prediction_of_nothing_is_refused_after_the_profile_is_kept(
    shell: FakeShell,
    calls: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delitem(sys.modules, "IPython.core.error", raising=False)
    with pytest.raises(UsageError, match="matches 'nothing'"):
        shell.magics["graphbench"]("-o kept --what-if nothing", "pass")
    assert shell.user_ns["kept"].record is RECORD
    assert "Nodes, isolated" in capsys.readouterr().out


def test_every_flag_of_the_command_line_that_measures_is_there() -> None:
    text = parser().format_help()
    for flag in ("--timer", "--warmup", "--max-seconds", "--top", "--sort", "--wide", "--color"):
        assert flag in text


def test_in_a_real_shell(calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    pytest.importorskip("IPython", reason="the real shell needs IPython, of the extra `notebook`")
    from IPython.core import error
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.BaseIPythonApplication.ipython_dir = str(tmp_path)
    shell = InteractiveShell(config=config, ipython_dir=str(tmp_path))
    assert shell.run_cell("%load_ext graphbench").success
    assert shell.run_cell("%%graphbench -o found --top 1\ny = 1\nfolder = %pwd\n").success
    assert "Nodes, isolated (1 of 2" in capsys.readouterr().out
    assert (shell.user_ns["y"], shell.user_ns["found"].record) == (1, RECORD)
    assert isinstance(shell.user_ns["folder"], str)
    refused = shell.run_cell("%%graphbench --repeat 0\ny = 2\n")
    assert isinstance(refused.error_in_exec, error.UsageError)
    shown = capsys.readouterr()
    assert "expected a whole number above 0" in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err
    assert shell.user_ns["y"] == 1
