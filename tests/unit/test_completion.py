"""`graphbench completion`: scripts that shells read, and what they then complete."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graphbench import cli

pytest.importorskip("shtab", reason="needs the extra `completion`")

COMPLETE = """source {script}
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_shtab_graphbench 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def bash() -> str:
    found = shutil.which("bash")
    if found is None:
        pytest.skip("needs bash")
    return found


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The script for bash."""
    assert cli.main(["completion", "bash"]) == 0
    file = tmp_path / "graphbench.bash"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    return file


def completed(bash: str, script: Path, words: str) -> list[str]:
    """What bash offers when the last word is completed, in the script's folder."""
    code = COMPLETE.format(script=script, words=words)
    done = subprocess.run([bash, "-c", code], capture_output=True, text=True, check=True, cwd=script.parent)
    return done.stdout.split()


def test_bash_can_read_the_script(bash: str, script: Path) -> None:
    assert subprocess.run([bash, "-n", script], capture_output=True, check=False).stderr == b""


def test_commands_complete(bash: str, script: Path) -> None:
    assert completed(bash, script, "graphbench sh") == ["show"]


def test_flags_complete(bash: str, script: Path) -> None:
    assert completed(bash, script, "graphbench show --group") == ["--group-by"]


def test_choices_complete(bash: str, script: Path) -> None:
    assert completed(bash, script, "graphbench diff --format mark") == ["markdown"]


def test_files_complete(bash: str, script: Path) -> None:
    (script.parent / "profile.json").touch()
    assert completed(bash, script, "graphbench show prof") == ["profile.json"]


def test_folders_complete_where_a_folder_is_wanted(bash: str, script: Path) -> None:
    (script.parent / "report.json").touch()
    (script.parent / "report").mkdir()
    assert completed(bash, script, "graphbench run --output-dir rep") == ["report"]


def test_pages_complete(bash: str, script: Path) -> None:
    assert completed(bash, script, "graphbench docs gloss") == ["glossary"]


def test_hidden_flags_are_not_offered(bash: str, script: Path) -> None:
    assert "--worker" not in completed(bash, script, "graphbench run --w")


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_have_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    assert "show" in capsys.readouterr().out


def test_without_shtab_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 3
    assert "pip install shtab" in capsys.readouterr().err
