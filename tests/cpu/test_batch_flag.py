"""Measuring flags of the command line: refused on the CPU before a model is built, within the bounds of measuring."""

from __future__ import annotations

import pytest

from graphbench.cli import main


@pytest.mark.parametrize(
    "command",
    [["run", "--custom-model-file", "no_such_file.py", "--model-class", "Net"], ["demo"]],
    ids=["run", "demo"],
)
def test_a_batch_is_refused_on_the_cpu_before_the_model_is_built(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert main([*command, "--device", "cpu", "--batch-execute", "8"]) == 2
    told = capsys.readouterr().err
    assert "--batch-execute 8: calls are queued on a GPU only, but --device is cpu" in told
    assert "measuring" not in told
