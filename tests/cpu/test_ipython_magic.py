"""`%%graphbench` in a real shell, with a real model."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench import api


def test_a_cell_is_profiled_with_its_models_and_what_runs_around_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("IPython", reason="needs IPython, of the extra `notebook`")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config, ipython_dir=str(tmp_path))
    api.reset()
    shell.run_cell("%load_ext graphbench").raise_error()
    shell.run_cell(
        "import torch\n"
        "model = torch.compile(torch.nn.Linear(8, 8), backend='graphbench')\n"
        "x, runs = torch.ones(4, 8), 0\n"
    ).raise_error()
    shell.run_cell(
        "%%graphbench -o found --repeat 3 --ceilings off --warmup-steps 2\n"
        "runs += 1\n"
        "with torch.no_grad():\n"
        "    y = torch.relu(model(x))\n"
    ).raise_error()
    record = shell.user_ns["found"].record
    assert (shell.user_ns["runs"], tuple(shell.user_ns["y"].shape)) == (3, (4, 8))
    assert record.subject == "a cell of %%graphbench"
    assert [node.op_type for node in record.regions[0].nodes] == ["linear"]
    gap = next(row for row in record.step.rows if "relu" in row.op_type)
    assert gap.source is not None
    assert (gap.source.line, gap.source.file.startswith("<ipython-input-")) == (3, True)
    assert "Nodes, isolated (1" in capsys.readouterr().out
    api.reset()
