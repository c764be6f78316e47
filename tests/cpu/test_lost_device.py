"""A device whose context is lost in the middle of a run, played on the CPU: one op breaks it, the rest cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench import document, session
from graphbench.document import SCHEMA_VERSION
from graphbench.errors import ContextLostError
from graphbench.measurements import Measurement
from graphbench.measuring import refining, spending
from graphbench.measuring.guard import Guard
from graphbench.measuring.spending import Key
from graphbench.measuring.whole import measure_session
from graphbench.options import MeasureOptions
from graphbench.records import ProfileRecord, RegionRecord
from graphbench.runs.entries import Started
from graphbench.runs.journal import Journal, read_journal
from graphbench.runs.ledger import Ledger
from tests.cpu.stories import QUICK, captured

LOSS = "device assert: CUDA error: device-side assert triggered"
OPTIONS = MeasureOptions(**QUICK)


class _Left(BaseException):
    """The process would have ended here."""


class _Device:
    """Whether it is broken, and whether it breaks where its op is given a copy."""

    broken = False
    fragile = True
    own: int | None = None


@torch.library.custom_op("graphbench_tests::breaks", mutates_args=())
def breaks(x: torch.Tensor) -> torch.Tensor:
    """Twice its input; on a copy it breaks the device, and on a broken device it raises."""
    if _Device.own is None:
        _Device.own = x.data_ptr()
    if _Device.fragile and x.data_ptr() != _Device.own:
        _Device.broken, _Device.fragile = True, False
    if _Device.broken:
        raise RuntimeError("CUDA error: device-side assert triggered")
    return x * 2


@breaks.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Net(nn.Module):
    """An op that is measured before the one that breaks, and one behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run it."""
        return self.layer(torch.sin(x)) + breaks(x)


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The guard finds the device broken, as a synchronisation of CUDA would."""

    def look(guard: Guard, device: torch.device, error: BaseException | None) -> None:
        if _Device.broken and not guard.lost:
            guard.lost = LOSS
            raise ContextLostError(LOSS) from error

    monkeypatch.setattr(Guard, "look", look)
    _Device.broken, _Device.fragile, _Device.own = False, True, None
    yield
    _Device.broken, _Device.fragile = False, False


def the_model() -> None:
    with torch.no_grad():
        captured(Net(), torch.randn(4, 8))


def rows(region: RegionRecord) -> dict[str, tuple[str, str]]:
    """Status and reason of what is measured alone."""
    found = {node.name: node.isolated for node in region.nodes}
    found |= {kernel.key: kernel.isolated for kernel in region.kernels}
    found |= {f"forward:{op.name}": op.isolated for op in region.post_grad if not op.is_view}
    return {name: (measurement.status, measurement.reason) for name, measurement in found.items()}


def test_the_unit_that_lost_it_fails_what_was_measured_stays_and_the_rest_is_skipped() -> None:
    the_model()
    record = measure_session(session.current(), OPTIONS)
    document.check(record)
    (region,) = record.regions
    found = rows(region)
    assert {name: reason for name, (status, reason) in found.items() if status == "failed"} == {"breaks_default": LOSS}
    assert {name for name, (status, _) in found.items() if status == "ok"} == {"sin", "linear"}
    assert {reason for status, reason in found.values() if status == "skipped"} == {f"context lost: {LOSS}"}
    assert {node.in_graph.status for node in region.nodes} == {"ok"}
    assert any("context was lost" in note for note in record.notes)


def test_a_worker_leaves_with_the_row_written_and_another_one_measures_the_rest(tmp_path: Path) -> None:
    def leave() -> None:
        raise _Left

    the_model()
    journal = Journal.open(tmp_path)
    try:
        journal.append(Started(schema_version=SCHEMA_VERSION, graphbench="test", command=(), folder="/"))
        with pytest.raises(_Left):
            measure_session(session.current(), OPTIONS, ledger=Ledger(journal), leave=leave)
        _Device.broken = False  # another process has another context
        record = measure_session(session.current(), OPTIONS, ledger=Ledger(journal, read_journal(tmp_path).entries))
    finally:
        journal.close()
    document.check(record)
    (region,) = record.regions
    missing = {name: reason for name, (status, reason) in rows(region).items() if status != "ok"}
    assert missing == {"breaks_default": LOSS}


def times_alone(record: ProfileRecord) -> dict[str, Measurement]:
    """What of a profile was measured alone, by row."""
    gaps = record.step.rows if record.step is not None else ()
    nodes = {node.name: node.isolated for region in record.regions for node in region.nodes}
    return nodes | {row.name: row.isolated for row in gaps if row.kernel is None}


@pytest.fixture
def lost_when_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is whole during the first pass, and breaks when rows are about to be measured again."""

    def breaking(*arguments: Any) -> list[tuple[str, Key]]:
        _Device.broken = True
        return spending.affordable(*arguments)

    monkeypatch.setattr(refining, "affordable", breaking)


LIMITED: dict[str, Any] = {
    "max_seconds": 60.0,
    "warmup_ms": 1.0,
    "measure_ms": 2.0,
    "ceilings": "off",
    "progress": False,
}


@pytest.mark.usefixtures("lost_when_measured_again")
def test_what_an_op_list_measured_before_the_loss_stays(tmp_path: Path) -> None:
    file = tmp_path / "ops.yaml"
    one = "target: torch.matmul, args: [{tensor: {shape: [64, 64]}}, {tensor: {shape: [64, 64]}}]"
    file.write_text(f"op-list: 1\nops:\n  - {{name: a, {one}}}\n  - {{name: b, {one}}}\n", encoding="utf-8")
    record = graphbench.measure_ops(file, device="cpu", **LIMITED).record
    assert {name: measured.status for name, measured in times_alone(record).items()} == {"a": "ok", "b": "ok"}
    assert any("not measured again: context lost" in note for note in record.regions[0].notes)


@pytest.mark.usefixtures("lost_when_measured_again")
def test_what_a_step_measured_before_the_loss_stays() -> None:
    graphbench.reset()
    model = torch.compile(lambda x: x.sin() @ x, backend="graphbench")
    record = graphbench.profile(lambda x: torch.relu(model(x) @ x), torch.rand(64, 64), **LIMITED).record
    assert {name: measured.status for name, measured in times_alone(record).items() if measured.status != "ok"} == {}
    (region,) = record.regions
    assert [kernel.isolated.status for kernel in region.kernels] == ["ok", "ok"]
    assert region.peak_bytes is not None
    assert region.outputs is not None
    assert region.outputs.equal
