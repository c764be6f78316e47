"""Width and colours of what is printed: as the terminal has them, never in files, and changing no text."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from graphbench import cli, document
from graphbench.analysis.diff import diff
from graphbench.analysis.group_by import DiffGroupBy
from graphbench.api import Profile
from graphbench.cli import terminal, view
from graphbench.cli.output import OutputOptions, deliver
from graphbench.cli.terminal import ColorChoice, terminal_width, wants_color
from graphbench.cli.view import ViewOptions
from graphbench.records import ProfileRecord
from graphbench.report.base import RenderOptions
from graphbench.report.diff_table import render_diff
from graphbench.report.paint import GREEN, MAGENTA, RED, YELLOW, paint
from graphbench.report.table import TableReporter
from tests.factories import node, profile, region
from tests.layer_samples import repeated
from tests.recorded import recorded_profile
from tests.samples import cpu_profile, gpu_profile
from tests.step_samples import training_step

ON_SCREEN: RenderOptions = {"fold": "auto", "blocks": True}
"""What a terminal that knows more than ASCII adds to a report."""
ESCAPES = re.compile(r"\x1b\[\d*m")
Stand = Callable[..., None]


def plain(text: str) -> str:
    return ESCAPES.sub("", text)


def widest(text: str) -> int:
    return max(map(len, plain(text).splitlines()))


@pytest.fixture
def stand_on(monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Let standard output be a terminal of so many columns, or none; with these environment variables."""

    def stand(columns: int | None, **environment: str) -> None:
        for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"COLUMNS": str(columns or 0), **environment}.items():
            monkeypatch.setenv(name, value)
        for module in (terminal, view):
            monkeypatch.setattr(module, "is_terminal", lambda: columns is not None)

    return stand


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    document.write(gpu_profile(), tmp_path / "p.json")
    return tmp_path / "p.json"


@pytest.mark.parametrize(("columns", "width"), [(132, 132), (48, 48), (5, 20), (None, None)])
def test_the_width_is_the_terminals_but_never_below_the_least(
    stand_on: Stand, columns: int | None, width: int | None
) -> None:
    stand_on(columns)
    assert terminal_width() == width


@pytest.mark.parametrize(
    ("columns", "environment", "choice", "expected"),
    [
        (100, {}, "auto", True),
        (None, {}, "auto", False),
        (100, {"NO_COLOR": "1"}, "auto", False),
        (100, {"NO_COLOR": ""}, "auto", True),
        (100, {"TERM": "dumb"}, "auto", False),
        (None, {"FORCE_COLOR": "1"}, "auto", True),
        (None, {"FORCE_COLOR": "0"}, "auto", False),
        (100, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
        (100, {}, "never", False),
        (None, {"NO_COLOR": "1"}, "always", True),
    ],
)
def test_colours_are_for_terminals_unless_somebody_says_otherwise(
    stand_on: Stand, columns: int | None, environment: dict[str, str], choice: ColorChoice, expected: bool
) -> None:
    stand_on(columns, **environment)
    assert wants_color(choice) is expected


def test_show_fits_the_terminal(stand_on: Stand, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stand_on(118, NO_COLOR="1")
    assert cli.main(["show", str(saved)]) == 0
    assert 100 < widest(capsys.readouterr().out) <= 118


def test_a_width_that_was_asked_for_counts_more_than_the_terminal(
    stand_on: Stand, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_on(118, NO_COLOR="1")
    assert cli.main(["show", str(saved), "--width", "140"]) == 0
    assert capsys.readouterr().out == TableReporter().render(gpu_profile(), width=140, **ON_SCREEN)


def test_every_column_needs_more_than_a_narrow_terminal(
    stand_on: Stand, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_on(80, NO_COLOR="1")
    assert cli.main(["show", str(saved), "--wide"]) == 0
    assert capsys.readouterr().out == TableReporter().render(gpu_profile(), wide=True, **ON_SCREEN)


@pytest.mark.parametrize("command", ["show", "diff"])
def test_a_width_in_which_no_table_fits_is_refused(
    saved: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert cli.main([command, *[str(saved)] * (1 + (command == "diff")), "--width", "20"]) == 2
    assert "argument --width: found '20', expected a whole number, at least 60" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("show",), ("diff",)])
def test_formats_without_lines_take_no_width(
    saved: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    files = [str(saved)] * (2 if words == ("diff",) else 1)
    assert cli.main([*words, *files, "--format", "csv", "--width", "80"]) == 2
    assert "width" in capsys.readouterr().err


def test_other_formats_are_the_same_on_a_terminal(
    stand_on: Stand, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for columns in (None, 130):
        stand_on(columns)
        cli.main(["show", str(saved), "--format", "markdown"])
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "\x1b" not in printed[1]


def test_diff_fits_the_terminal_and_has_colours_there(
    stand_on: Stand, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_on(72)
    assert cli.main(["diff", str(saved), str(saved), "--all"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b[" in printed
    assert plain(printed) == render_diff(
        diff(gpu_profile(), gpu_profile(), names=(str(saved),) * 2), top=None, width=72, every=True
    )


def test_a_report_file_has_neither_colours_nor_the_terminals_width(
    stand_on: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_on(130)
    view = ViewOptions(top=None, sort=None, wide=False, group_by=None, depth=None)
    deliver(Profile(gpu_profile()), OutputOptions(output_dir=tmp_path, force=False, strict=False), view)
    assert (tmp_path / "report.txt").read_text(encoding="utf-8") == TableReporter().render(gpu_profile())
    printed = capsys.readouterr().out
    assert "\x1b[" in printed
    assert plain(printed) == TableReporter().render(gpu_profile(), width=130, **ON_SCREEN)


def test_a_report_file_has_every_row(stand_on: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stand_on(130, NO_COLOR="1")
    view = ViewOptions(top=None, sort=None, wide=False, group_by=None, depth=None)
    deliver(Profile(repeated(20)), OutputOptions(output_dir=tmp_path, force=False, strict=False), view)
    assert (tmp_path / "report.txt").read_text(encoding="utf-8") == TableReporter().render(repeated(20))
    assert "folded from 102" in capsys.readouterr().out


def test_a_report_file_is_as_wide_as_was_asked_for(stand_on: Stand, tmp_path: Path) -> None:
    stand_on(130)
    view = ViewOptions(top=None, sort=None, wide=False, group_by=None, depth=None, width=90)
    deliver(Profile(gpu_profile()), OutputOptions(output_dir=tmp_path, force=False, strict=False), view)
    assert (tmp_path / "report.txt").read_text(encoding="utf-8") == TableReporter().render(gpu_profile(), width=90)


@pytest.mark.parametrize("made", [cpu_profile, gpu_profile, training_step], ids=lambda made: made.__name__)
@pytest.mark.parametrize("wide", [False, True])
def test_colours_change_no_character(made: Callable[[], object], wide: bool) -> None:
    text = TableReporter().render(made(), wide=wide)  # type: ignore[arg-type]
    assert plain(paint(text)) == text
    assert paint(text) != text


def test_verdicts_are_coloured_in_their_column_only() -> None:
    rows = [
        "graphbench profile of slower",
        "",
        "Nodes (2)",
        "name    verdict",
        "------  -------",
        "slower  faster",
        "faster  slower",
        "slower  –",
    ]
    painted = paint("\n".join(rows)).split("\n")
    assert painted[5:] == [
        f"slower  \x1b[{GREEN}mfaster\x1b[0m",
        f"faster  \x1b[{RED}mslower\x1b[0m",
        "slower  –",
    ]


def test_wide_characters_keep_no_row_from_its_colours() -> None:
    rows = [
        "graphbench profile",
        "",
        "Nodes (2)",
        "name    verdict",
        "------  -------",
        "层归一  faster",
        "slower  slower",
    ]
    painted = paint("\n".join(rows)).split("\n")
    assert painted[5:] == [f"层归一  \x1b[{GREEN}mfaster\x1b[0m", f"slower  \x1b[{RED}mslower\x1b[0m"]


def test_headings_are_bold_and_a_warning_is_yellow_to_its_last_line() -> None:
    text = "graphbench profile of Net\nwarning: clocks:\n  they moved\ncoverage: all\n\nFusions (1)\n"
    text += "kernel  verdict\n------  -------\nmm      same"
    painted = paint(text).split("\n")
    assert painted[0] == "\x1b[1mgraphbench profile of Net\x1b[0m"
    assert painted[1:3] == [f"\x1b[{YELLOW}mwarning: clocks:\x1b[0m", f"\x1b[{YELLOW}m  they moved\x1b[0m"]
    assert painted[3] == "coverage: all"
    assert painted[5:7] == ["\x1b[1mFusions (1)\x1b[0m", "\x1b[1mkernel  verdict\x1b[0m"]


def test_what_cannot_be_is_magenta() -> None:
    painted = paint(TableReporter().render(gpu_profile()))
    assert f"\x1b[{MAGENTA}msuspicious:\x1b[0m" in painted
    assert f"\x1b[{MAGENTA}m!120.0\x1b[0m" in painted


def test_the_verdict_of_a_comparison_is_coloured_where_it_stands_first() -> None:
    assert (
        paint("compiled forward faster: 2 µs -> 1 µs\n")
        == f"compiled forward \x1b[{GREEN}mfaster\x1b[0m: 2 µs -> 1 µs\n"
    )
    assert paint("nodes: 0 faster, 2 slower\n") == f"nodes: 0 faster, \x1b[{RED}m2 slower\x1b[0m\n"


def test_a_name_cannot_bring_escapes_of_its_own() -> None:
    record = profile(region([node("relu\x1b[31m", 5.0), node("gelu\x1b]0;title\x07", 5.0)]))
    painted = paint(TableReporter().render(record))
    assert set(re.findall(r"\x1b\[[\d;]*[^\d;]", painted)) <= {"\x1b[1m", "\x1b[0m", f"\x1b[{YELLOW}m"}
    assert "\x1b]" not in painted
    assert paint("relu\x1b[31m\x07") == "\x1b[1mrelu·[31m·\x1b[0m"


def on_terminal(columns: int, words: list[str], **environment: str) -> str:
    """What a command prints on a terminal of so many columns, with its colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    unset = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    environment = {**inherited, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environment}
    with subprocess.Popen([sys.executable, "-m", "graphbench", *words], stdout=slave, env=environment) as process:
        os.close(slave)
        printed = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # how Linux says that nobody holds the other end any more
                break
            if not piece:
                break
            printed += piece
    os.close(master)
    assert process.returncode == 0
    return printed.decode().replace("\r\n", "\n")


def test_on_a_real_terminal(saved: Path) -> None:
    text = on_terminal(77, ["show", str(saved), "--top", "1"])
    assert text.startswith("\x1b[1mgraphbench profile")
    assert plain(text) == TableReporter().render(gpu_profile(), top=1, width=77, **ON_SCREEN)


def test_a_terminal_folds_a_long_table_and_draws_bars(tmp_path: Path) -> None:
    document.write(repeated(20), tmp_path / "long.json")
    text = on_terminal(140, ["show", str(tmp_path / "long.json")], NO_COLOR="1")
    assert text == TableReporter().render(repeated(20), width=140, **ON_SCREEN)
    assert "Nodes, isolated (7, sorted by cost, folded from 102; --fold never shows all)\n" in text
    assert "████████" in text
    every = on_terminal(140, ["show", str(tmp_path / "long.json"), "--fold", "never"], NO_COLOR="1")
    assert "Nodes, isolated (102, sorted by cost)\n" in every


@pytest.mark.parametrize(
    "environment", [{"TERM": "dumb"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "ascii:replace"}]
)
def test_a_terminal_that_cannot_draw_gets_no_pictures(saved: Path, environment: dict[str, str]) -> None:
    text = on_terminal(140, ["show", str(saved), "--wide"], NO_COLOR="1", **environment)
    assert not set(text) & set("▏▎▍▌▋▊▉█▁▂▃▄▅▆▇")
    assert "Nodes, isolated" in text


def test_colours_that_are_not_wanted_take_no_pictures_away(saved: Path) -> None:
    text = on_terminal(140, ["show", str(saved)], NO_COLOR="1")
    assert "\x1b" not in text
    assert "█" in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_what_the_output_cannot_encode_is_shown_by_its_like(saved: Path, encoding: str) -> None:
    words = [sys.executable, "-m", "graphbench", "show", str(saved)]
    printed = subprocess.run(
        words, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=True
    ).stdout.decode(encoding)
    whole = TableReporter().render(gpu_profile())
    assert list(map(len, printed.splitlines())) == list(map(len, whole.splitlines()))
    assert " us" in printed
    assert "?" not in printed


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200, 300])
@pytest.mark.parametrize("make", [cpu_profile, gpu_profile, training_step, repeated, recorded_profile])
def test_no_line_of_a_report_is_wider_than_the_terminal(make: Callable[[], ProfileRecord], width: int) -> None:
    lines = TableReporter().render(make(), width=width, **ON_SCREEN).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("group_by", [None, "module"])
def test_no_table_of_a_comparison_is_wider_than_the_terminal(width: int, group_by: DiffGroupBy | None) -> None:
    before, after = recorded_profile(), repeated()
    text = render_diff(diff(before, after), top=None, width=width, every=True, group_by=group_by)
    assert max(map(len, text.splitlines())) <= width


def test_below_the_least_width_rows_are_cut_and_that_is_said() -> None:
    lines = TableReporter().render(gpu_profile(), width=40).splitlines()
    assert max(map(len, [line for line in lines if not line.startswith("  ")])) <= 40
    assert lines[-2:] == ["…: rows are cut at 40 characters; lines", "  of 60 have room for them"]
    assert "rows are cut" not in TableReporter().render(gpu_profile(), width=60)
