"""Files of inputs from anybody: tensors or a refusal by name; no code of theirs runs, no claim is believed."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from graphbench.errors import UsageError
from graphbench.models.inputs import make_inputs, parse_inputs
from graphbench.models.saved_inputs import load_inputs
from tests.hostile import outcome

FLIPS = 150


class Runs:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


def saved(path: Path, *, legacy: bool = False) -> Path:
    value = {"x": torch.arange(12.0).reshape(3, 4), "y": [torch.ones(2, dtype=torch.int64), 3]}
    torch.save(value, path, _use_new_zipfile_serialization=not legacy)
    return path


def archived(path: Path, data: bytes, **others: bytes) -> Path:
    """An archive as torch.save writes it, around a pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", b"3\n")
        archive.writestr("archive/byteorder", b"little")
        for name, content in others.items():
            archive.writestr(f"archive/data/{name.removeprefix('_')}", content)
    return path


def of_storage(size: int) -> bytes:
    """A pickle of a tensor of that many elements, made of a storage of one."""
    opened = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQ"
    length = b"\x8a\x08" + size.to_bytes(8, "little")
    return opened + storage + b"K\x00" + length + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR."


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_that_would_run_code_is_refused_and_runs_none(tmp_path: Path, legacy: bool) -> None:
    torch.save({"x": Runs(str(tmp_path / "ran"))}, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(UsageError, match="cannot be read"):
        load_inputs(tmp_path / "x.pt", device="cpu")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Runs(str(tmp_path / "ran"))))
    with pytest.raises(UsageError, match="cannot be read"):
        load_inputs(tmp_path / "plain.pt", device="cpu")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("suffix", [".pt", ".legacy.pt", ".safetensors"])
def test_a_file_with_flipped_bytes_is_read_or_refused(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"x{suffix}"
    if suffix == ".safetensors":
        save_file({"x": torch.arange(12.0).reshape(3, 4), "y": torch.ones(2)}, file)
    else:
        saved(file, legacy=suffix == ".legacy.pt")
    content, draw = file.read_bytes(), Random(0)
    for _ in range(FLIPS):
        flipped = bytearray(content)
        for _ in range(draw.choice([1, 1, 3])):
            flipped[draw.randrange(len(flipped))] = draw.randrange(256)
        file.write_bytes(flipped[: draw.randrange(len(flipped))] if draw.random() < 0.2 else flipped)
        outcome(lambda: load_inputs(file, device="cpu"))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_bytes_of_any_kind_are_refused(tmp_path: Path, suffix: str) -> None:
    file, draw = tmp_path / f"x{suffix}", Random(1)
    for start in (b"", b"PK\x03\x04", b"\x80\x02", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ", b"\xff" * 8):
        for length in (0, 1, 7, 300):
            file.write_bytes(start + draw.randbytes(length))
            outcome(lambda: load_inputs(file, device="cpu"))


def test_an_archive_that_unpacks_to_more_than_it_is_is_refused(tmp_path: Path) -> None:
    saved(tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as source, zipfile.ZipFile(tmp_path / "b.pt", "w") as bomb:
        for entry in source.infolist():
            bomb.writestr(entry.filename, source.read(entry))
        bomb.writestr("x/data/9", b"\0" * 50_000_000, compress_type=zipfile.ZIP_DEFLATED)
    with pytest.raises(UsageError, match="found an archive that unpacks to"):
        load_inputs(tmp_path / "b.pt", device="cpu")


def test_a_tensor_longer_than_its_data_is_refused(tmp_path: Path) -> None:
    assert load_inputs(archived(tmp_path / "a.pt", of_storage(1), _0=b"abcd"), device="cpu").args[0].shape == (1,)
    for size in (2_000_000, 2**50):
        with pytest.raises(UsageError, match="cannot be read"):
            load_inputs(archived(tmp_path / "b.pt", of_storage(size), _0=b"abcd"), device="cpu")


def test_containers_without_end_are_refused(tmp_path: Path) -> None:
    itself: list[object] = []
    itself.append(itself)
    doubled: object = torch.ones(1)
    for _ in range(60):
        doubled = [doubled, doubled]
    deep: object = torch.ones(1)
    for _ in range(200):
        deep = [deep]
    wide = [0] * 50_000
    for value in (itself, doubled, deep, [wide] * 50_000):
        torch.save(value, tmp_path / "x.pt")
        with pytest.raises(UsageError, match="containers that go on without end"):
            load_inputs(tmp_path / "x.pt", device="cpu")


@pytest.mark.parametrize("value", [torch.empty(3, device="meta"), {"x": torch.empty(2**40, device="meta")}])
def test_tensors_without_data_are_refused(tmp_path: Path, value: object) -> None:
    torch.save(value, tmp_path / "x.pt")
    with pytest.raises(UsageError, match="cannot be read"):
        load_inputs(tmp_path / "x.pt", device="cpu")


def test_an_input_larger_than_memory_is_refused() -> None:
    with pytest.raises(UsageError, match=r"input x=f32\[1000000000,1000000\]: it cannot be made"):
        make_inputs(parse_inputs(["x=f32[1000000000,1000000]"]), device="cpu", seed=0)
