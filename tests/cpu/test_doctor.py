"""`graphbench doctor` on this machine, and on one whose torch is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from graphbench import cli
from graphbench.doctor import examine
from graphbench.doctor.packages import EXTRAS
from graphbench.inductor import toolchain
from graphbench.inductor.compile import torch_is_supported

ROOT = Path(__file__).parents[2]


def test_the_command_looks_at_this_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(examine, "EXTRAS", [extra for extra in EXTRAS if extra.distribution == "safetensors"])
    code = cli.main(["doctor", "--json"])
    printed = capsys.readouterr()
    plain = json.loads(printed.out)
    found = {entry["check"]: entry for entry in plain["findings"]}
    assert torch_is_supported()
    assert found["torch"]["state"] != "problem"
    assert found["torch"]["found"].startswith(torch.__version__)
    assert found["C++ compiler"]["state"] == "ok"
    assert found["Inductor's cache"]["found"].startswith(str(toolchain.cache_folder()))
    assert found["safetensors"]["state"] == "ok"
    assert code == (0 if plain["ok"] else 3)
    if not torch.cuda.is_available():
        assert found["CUPTI records"]["state"] == "not applicable"


def test_the_cache_folder_is_the_one_that_inductor_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    monkeypatch.setenv(toolchain.CACHE_VARIABLE, str(tmp_path))
    assert str(toolchain.cache_folder()) == cache_dir()
    monkeypatch.delenv(toolchain.CACHE_VARIABLE)
    expected = toolchain.cache_folder()
    assert str(expected) == cache_dir()  # which sets the variable


def test_a_torch_that_cannot_be_imported_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so: cannot open shared object file')\n")
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "graphbench", "doctor", "--json"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    found = {entry["check"]: entry for entry in json.loads(done.stdout)["findings"]}
    assert done.returncode == 3
    assert found["torch"]["state"] == "problem"
    assert "is installed but cannot be imported: libtorch_cpu.so: cannot open" in found["torch"]["found"]
    assert found["C++ compiler"]["found"] == "needs torch"
    assert "Traceback" not in done.stderr
