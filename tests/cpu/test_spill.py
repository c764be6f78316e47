"""Inputs kept on disk: bit-equal when they come back, aliasing and layout included, and nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from graphbench import session
from graphbench.errors import CaptureError
from graphbench.execution import spill as spilling
from graphbench.execution.replay import CapturedInput, Geometry, shadow
from graphbench.execution.spill import Absent, captured_bytes, spill
from graphbench.records import RegionRecord
from graphbench.tensors import spec_of
from tests.cpu.stories import compiled, quick


def round_trip(*values: torch.Tensor, owned: Sequence[torch.Tensor] = ()) -> list[torch.Tensor]:
    return [entry.value for entry in spill([CapturedInput(value) for value in values], owned).brought_back()]


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(3, 5),
        torch.randn(4, 6)[1:3, ::2],
        torch.arange(7)[3:],
        torch.randn(1, 3).expand(4, 3),
        torch.tensor([float("nan"), -0.0, float("inf")]),
        torch.randn(4).to(torch.float8_e4m3fn),
        torch.tensor([True, False]),
        torch.randn(2, 3, dtype=torch.complex64).conj(),
        torch.randn(3, dtype=torch.complex64).conj().imag,
        torch.tensor(3),
    ],
    ids=["plain", "strided", "offset", "expanded", "nan", "fp8", "bool", "conj", "neg", "scalar"],
)
def test_a_tensor_comes_back_bit_for_bit_in_its_own_layout(value: torch.Tensor) -> None:
    (found,) = round_trip(value)
    assert spec_of(found) == spec_of(value)
    assert (found.is_conj(), found.is_neg()) == (value.is_conj(), value.is_neg())
    assert found.untyped_storage().tolist() == value.untyped_storage().tolist()
    assert found.data_ptr() != value.data_ptr()


def test_what_shared_a_storage_shares_one_again() -> None:
    base = torch.arange(6.0)
    first, second = round_trip(base[:4], base[2:])
    first[2] = 9.0
    assert second.tolist() == [9.0, 3.0, 4.0, 5.0]
    assert base[2] == 2.0


def test_views_of_one_base_are_still_shadowed_as_such() -> None:
    base = torch.zeros(4)
    whole = Geometry.of(base)
    given = [CapturedInput(part, mutated=True, base=whole) for part in (base[:2], base[2:])]
    left, right = shadow(spill(given, ()).brought_back())
    assert left._base is not None
    assert left._base is right._base


def test_what_is_known_of_an_input_stays_with_it() -> None:
    (found,) = spill([CapturedInput(torch.ones(2), requires_grad=True, mutated=True)], ()).absent
    assert isinstance(found.value, Absent)
    assert (found.requires_grad, found.mutated) == (True, True)


def test_parameters_and_what_lies_in_their_storage_stay_where_they_are() -> None:
    weight = torch.nn.Parameter(torch.ones(4))
    view = weight.detach()[1:]
    found = spill([CapturedInput(weight, is_parameter=True), CapturedInput(view), CapturedInput(3)], [weight])
    assert found.absent[0].value is weight
    assert found.absent[1].value is view
    assert (found.disk_bytes, found.host_bytes) == (0, 0)


def test_the_tensors_of_a_list_are_spilled_too() -> None:
    found = spill([CapturedInput([torch.ones(2), 5, torch.zeros(3)])], ())
    assert found.disk_bytes == 20
    one, number, other = found.brought_back()[0].value
    assert (one.tolist(), number, other.tolist()) == ([1.0, 1.0], 5, [0.0, 0.0, 0.0])


def test_a_storage_counts_once_however_many_views_it_has() -> None:
    base, weight = torch.zeros(4), torch.nn.Parameter(torch.zeros(4))
    given = [CapturedInput(base[:2]), CapturedInput(base[2:]), CapturedInput(weight.detach())]
    assert captured_bytes(given, [weight]) == 16


def test_large_storages_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilling, "PIECE_BYTES", 64)
    value, other = torch.arange(100), torch.randn(33)
    found = round_trip(value, other)
    assert torch.equal(found[0], value)
    assert torch.equal(found[1], other)


def test_every_coming_back_has_the_values_that_were_captured() -> None:
    found = spill([CapturedInput(torch.ones(2))], ())
    found.brought_back()[0].value.zero_()
    assert found.brought_back()[0].value.tolist() == [1.0, 1.0]


def open_files(folder: Path) -> int:
    """How many files of a folder this process has open, those without a name included."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            links.append(str(entry.readlink()))
    return sum(link.startswith(str(folder)) for link in links)


def test_no_file_has_a_name_and_none_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = spill([CapturedInput(torch.ones(2)), CapturedInput(torch.ones(3))], ())
    assert list(tmp_path.iterdir()) == []
    assert open_files(tmp_path) == 1
    del found
    gc.collect()
    assert open_files(tmp_path) == 0


def test_a_file_that_lost_its_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = spill([CapturedInput(torch.ones(2))], ())
    file = found.storages[0].file
    assert file is not None
    os.truncate(file._descriptor, 3)
    with pytest.raises(CaptureError, match=r"its spilled inputs \(8 B\) cannot be read again: the file ends 5 bytes"):
        found.brought_back()


def test_no_memory_to_come_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_left(*_: object) -> torch.UntypedStorage:
        raise torch.OutOfMemoryError("CUDA out of memory")

    found = spill([CapturedInput(torch.ones(2))], ())
    monkeypatch.setattr(spilling.SpilledStorage, "back", nothing_left)
    with pytest.raises(CaptureError, match="does not fit: its spilled inputs need 8 B, and memory ran out"):
        found.brought_back()


def whole(budget_bytes: int | None, monkeypatch: pytest.MonkeyPatch) -> tuple[RegionRecord, torch.Tensor]:
    """A region that writes a view of one of its inputs, reads another, and trains."""
    monkeypatch.setattr(session._Current, "session", session.Session(capture_budget_bytes=budget_bytes))
    torch.manual_seed(0)
    weight = torch.randn(4, 4, requires_grad=True)
    cache = torch.zeros(8, 4)

    def step(x: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        part.add_(1)
        return (x @ weight + part).relu()

    compiled(step)(torch.randn(4, 4), cache[2:6])
    (region,) = quick().regions
    return region, cache


def test_a_spilled_region_is_measured_as_one_that_was_held(monkeypatch: pytest.MonkeyPatch) -> None:
    held, _ = whole(None, monkeypatch)
    session.reset()
    spilled, cache = whole(1, monkeypatch)
    assert (held.status, spilled.status) == ("ok", "ok")
    assert held.captured_bytes == spilled.spilled_bytes > 0
    assert spilled.inputs == held.inputs
    rows = [(entry.name, entry.isolated.status, entry.isolated.fidelity) for entry in spilled.nodes]
    assert rows == [(entry.name, entry.isolated.status, entry.isolated.fidelity) for entry in held.nodes]
    assert spilled.outputs == held.outputs
    assert cache.sum() == 16.0  # written by the call, not by measuring
    (region,) = session.current().regions
    assert region.capture is not None
    assert any(isinstance(entry.value, Absent) for entry in region.capture.values)  # dropped again
