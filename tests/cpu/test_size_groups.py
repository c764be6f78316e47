"""One graph for all sizes: a group for each, side by side in every row, in the profile, its reports and its diff."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import graphbench
from graphbench import cli
from tests.benchmarks.shapes import ATTENTION, LINEAR, Case, figures, profile_of
from tests.cpu.stories import QUICK

SMALL = Case(64, 1, (16, 32), (2, 3, 4), torch.float32)


@pytest.fixture(scope="module")
def bert() -> graphbench.Profile:
    pytest.importorskip("transformers")
    found = profile_of(SMALL, "cpu", **{key: value for key, value in QUICK.items() if key != "progress"})
    graphbench.reset()
    return found


def test_two_lengths_and_three_batches_are_one_region_in_six_groups(bert: graphbench.Profile) -> None:
    found = figures(bert)
    assert (found["regions"], found["groups"], found["measured_groups"]) == (1, 6, 6)
    (region,) = found["by_size"]
    assert region["sizes"] == ["input_ids[0]", "input_ids[1]"]
    assert region["groups"] == [[2, 16], [2, 32], [3, 16], [3, 32], [4, 16], [4, 32]]


def test_every_row_has_a_time_and_two_exponents(bert: graphbench.Profile) -> None:
    (found,) = bert.by_size()
    assert {ATTENTION, LINEAR} <= {row.op_type for row in found.nodes}
    for row in found.nodes:
        assert len(row.times_ns) == 6, row.name
        assert None not in row.times_ns, row.reason
        assert len(row.growths) == 2, row.reason


# graphbench run --dynamic

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x):
        return (self.inner(x) @ x.transpose(1, 2)).softmax(-1)


def example_inputs(batch_size=2):
    return torch.ones(batch_size, 4, 16)
"""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    quick = ["--repeat", "3", "--warmup", "1", "--ceilings", "off", "--output-dir", "out"]
    return ["run", "--custom-model-file", "net.py", "--model-class", "Net", "--dynamic", *quick]


def test_batch_sizes_of_a_dynamic_run_are_groups_of_one_region(net: list[str], tmp_path: Path) -> None:
    assert cli.main([*net, "--batch-size", "2,3,5"]) == 0
    profile = graphbench.load(tmp_path / "out" / "profile.json")
    assert [(region.key, region.shapes_of) for region in profile.record.regions] == [
        ("r0", ""),
        ("r0.2", "r0"),
        ("r0.3", "r0"),
    ]
    (found,) = profile.by_size()
    assert [axis.values for axis in found.result.axes] == [(2, 3, 5)]
    assert profile.record.step is not None
    assert {row.calls for row in profile.record.step.rows if row.kernel} == {1}
    assert "Nodes by size: r0 over x[0]" in (tmp_path / "out" / "report.txt").read_text()


def test_more_sets_than_groups_are_kept_by_default_are_all_groups(net: list[str], tmp_path: Path) -> None:
    sets = [word for length in range(4, 14) for word in ("--example-inputs", f"f32[3,{length},16]")]
    assert cli.main([*net, *sets, "--train", "--only-region", "r0", "--select", "inner*"]) == 0
    profile = graphbench.load(tmp_path / "out" / "profile.json")
    assert [region.status for region in profile.record.regions] == ["ok"] * 10
    (found,) = profile.by_size()
    assert found.result.axis.values == tuple(range(4, 14))


def test_equal_sets_are_refused_before_anything_is_built(net: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*net, "--batch-size", "2,2"]) == 2
    assert "batch=2 are given twice" in capsys.readouterr().err


def test_how_many_groups_are_kept_is_a_whole_number() -> None:
    model = torch.compile(lambda x: x + 1, backend="graphbench", options={"groups": 0})
    with pytest.raises(BackendCompilerFailed, match="option 'groups': found 0, expected a whole number above 0"):
        model(torch.ones(3))
