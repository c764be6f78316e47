"""Weights from files: read without running code, fitted to the model's names, refused with what differs."""

from __future__ import annotations

import argparse
import json
import os
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from graphbench.errors import UsageError
from graphbench.models.checkpoints import checkpoint_files, load_checkpoint
from graphbench.models.sources import ModelSource, build_model


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


class Batch(nn.Module):
    """A model whose own names begin as those of a wrapper do."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 2)


def linear() -> nn.Linear:
    return nn.Linear(3, 2)


def weights() -> dict[str, torch.Tensor]:
    return {"weight": torch.arange(6.0).view(2, 3), "bias": torch.tensor([7.0, 8.0])}


def saved(path: Path, value: object) -> Path:
    torch.save(value, path)
    return path


def load(module: nn.Module, path: Path, *, unsafe: bool = False) -> tuple[str, ...]:
    return load_checkpoint(module, path, unsafe=unsafe, subject="net.py:Net")


def refused(module: nn.Module, path: Path, *, unsafe: bool = False) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(module, path, unsafe=unsafe)
    return caught.value


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
def test_a_state_dict_of_torch_save_is_loaded(tmp_path: Path, suffix: str) -> None:
    net = linear()
    assert load(net, saved(tmp_path / f"w{suffix}", weights())) == ()
    assert torch.equal(net.weight, weights()["weight"])


def test_a_file_of_safetensors_is_loaded(tmp_path: Path) -> None:
    net = linear()
    save_file(weights(), tmp_path / "w.safetensors")
    load(net, tmp_path / "w.safetensors")
    assert torch.equal(net.bias, weights()["bias"])


def test_values_are_cast_to_the_models_dtype(tmp_path: Path) -> None:
    net = linear()
    load(net, saved(tmp_path / "w.pt", {key: value.bfloat16() for key, value in weights().items()}))
    assert (net.bias.dtype, net.bias.tolist()) == (torch.float32, [7.0, 8.0])


@pytest.mark.parametrize("wrapper", ["state_dict", "model", "model_state_dict"])
def test_weights_below_a_usual_key_are_found_and_that_is_told(tmp_path: Path, wrapper: str) -> None:
    net = linear()
    path = saved(tmp_path / "w.pt", {"epoch": 3, wrapper: weights(), "optimizer": {}})
    assert load(net, path) == (f"checkpoint w.pt: read from its {wrapper!r}; left out: epoch, optimizer",)
    assert torch.equal(net.bias, weights()["bias"])


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_what_wrappers_put_before_all_names_is_taken_off_and_that_is_told(tmp_path: Path, prefix: str) -> None:
    net = linear()
    path = saved(tmp_path / "w.pt", OrderedDict((prefix + key, value) for key, value in weights().items()))
    assert load(net, path) == (f"checkpoint w.pt: its names begin with {prefix}, which was taken off",)
    assert torch.equal(net.weight, weights()["weight"])


def test_a_prefix_that_the_models_own_names_have_stays(tmp_path: Path) -> None:
    net = Batch()
    wanted = {key: torch.ones_like(value) for key, value in net.state_dict().items()}
    assert load(net, saved(tmp_path / "w.pt", wanted)) == ()
    assert torch.equal(net.module.bias, torch.ones(2))


def test_a_name_that_shares_its_tensor_with_one_that_is_there_may_lack(tmp_path: Path) -> None:
    net = Tied()
    load(net, saved(tmp_path / "w.pt", {"embed.weight": torch.ones(5, 3)}))
    assert torch.equal(net.head.weight, torch.ones(5, 3))


def test_what_differs_is_named_and_the_rest_counted(tmp_path: Path) -> None:
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(3)])
    state = {"0.weight": torch.ones(3, 2), "1.bias": torch.ones(2), "other": torch.ones(1)}
    error = refused(net, saved(tmp_path / "w.pt", state))
    assert error.message == (
        f"checkpoint {tmp_path / 'w.pt'} does not fit net.py:Net: "
        "4 names missing (0.bias, 1.weight, 2.bias, and 1 more); 1 name unexpected (other); "
        "1 name of another shape (0.weight: found [3, 2], expected [2, 2])"
    )
    assert "--model-arg" in str(error.hint)


def test_names_that_differ_only_are_named_without_shapes(tmp_path: Path) -> None:
    error = refused(linear(), saved(tmp_path / "w.pt", {"weight": torch.ones(2, 3), "scale": torch.ones(1)}))
    assert error.message.endswith("does not fit net.py:Net: 1 name missing (bias); 1 name unexpected (scale)")


class Runs:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_a_checkpoint_that_would_run_code_is_refused_and_runs_none(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.pt", {"state_dict": weights(), "surprise": Runs(tmp_path / "made")})
    error = refused(linear(), path)
    assert f"checkpoint {path}: reading it would run code: it names posix.mkdir" in error.message
    assert "--unsafe-load" in str(error.hint)
    assert not (tmp_path / "made").exists()


def test_what_was_saved_beside_the_weights_is_read_only_when_allowed(tmp_path: Path) -> None:
    net = linear()
    path = saved(tmp_path / "w.pt", {"state_dict": weights(), "args": argparse.Namespace(width=3)})
    assert "it names argparse.Namespace" in refused(net, path).message
    assert load(net, path, unsafe=True)
    assert torch.equal(net.bias, weights()["bias"])


def test_a_whole_module_gives_its_weights_when_allowed(tmp_path: Path) -> None:
    net, other = linear(), linear()
    load(net, saved(tmp_path / "w.pt", other), unsafe=True)
    assert torch.equal(net.weight, other.weight)


@pytest.mark.parametrize("unsafe", [False, True])
def test_an_archive_that_unpacks_to_more_than_it_is_is_refused(tmp_path: Path, unsafe: bool) -> None:
    with zipfile.ZipFile(tmp_path / "w.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 1_000_000)
    assert (
        "found an archive that unpacks to 1000000 bytes" in refused(linear(), tmp_path / "w.pt", unsafe=unsafe).message
    )


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (torch.ones(2), "found a Tensor"),
        ({"weight": 3}, "found 'weight': int"),
        ({3: torch.ones(2)}, "found 3: Tensor"),
        ({}, "found a dict"),
    ],
)
def test_what_is_no_state_dict_says_what_it_is(tmp_path: Path, value: object, found: str) -> None:
    message = refused(linear(), saved(tmp_path / "w.pt", value)).message
    assert f"{found}, expected tensors by name" in message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.pt", b"garbage", "found a text file that cannot be read"),
        ("w.safetensors", b"\0\xff" * 20, "found a binary file that cannot be read"),
        ("w.npz", b"", "found suffix '.npz', expected .pt, .pth, .bin or .safetensors"),
        ("w.safetensors.index.json", b"{", "found a text file that cannot be read"),
        ("w.safetensors.index.json", b"[]", "found no weight_map"),
        ("w.safetensors.index.json", b'{"weight_map": {"a": "../w.safetensors"}}', "found no weight_map"),
        ("w.safetensors.index.json", b'{"weight_map": {"a": "gone.safetensors"}}', "gone.safetensors: no such file"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert message in refused(linear(), tmp_path / name).message


def test_a_missing_file_is_told() -> None:
    assert refused(linear(), Path("gone.pt")).message == "checkpoint gone.pt: no such file"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A checkpoint in two files."""
    state = weights()
    save_file({"weight": state["weight"]}, tmp_path / "one.safetensors")
    save_file({"bias": state["bias"]}, tmp_path / "two.safetensors")
    path = tmp_path / "w.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"weight": "one.safetensors", "bias": "two.safetensors"}}))
    return path


def test_a_checkpoint_in_several_files_is_loaded_by_its_index(index: Path) -> None:
    net = linear()
    load(net, index)
    assert (net.weight.tolist(), net.bias.tolist()) == ([[0, 1, 2], [3, 4, 5]], [7, 8])


def test_all_files_of_a_checkpoint_are_known(index: Path) -> None:
    names = [file.name for file in checkpoint_files(index)]
    assert names == ["w.safetensors.index.json", "one.safetensors", "two.safetensors"]


def test_the_subject_says_which_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from torch import nn\ndef make(): return nn.Linear(3, 2)\n")
    path = saved(tmp_path / "best.pt", weights())
    built = build_model(ModelSource(file=tmp_path / "net.py", target="make", arguments={}, checkpoint=path))
    assert built.subject == "net.py:make with best.pt"
    assert torch.equal(built.module.state_dict()["bias"], weights()["bias"])


def test_weights_of_another_dtype_are_told_to_be_cast(tmp_path: Path) -> None:
    module = linear()
    state = {"weight": weights()["weight"].bfloat16(), "bias": weights()["bias"]}
    assert load(module, saved(tmp_path / "w.pt", state)) == (
        "checkpoint w.pt: 1 tensor of bfloat16 became float32, as the model has them",
    )
    assert module.weight.dtype is torch.float32


def test_a_checkpoint_that_timm_would_read_is_refused() -> None:
    arguments = {"checkpoint_path": "w.pth"}
    with pytest.raises(UsageError, match="may run code") as caught:
        build_model(ModelSource(name="timm:resnet18", arguments=arguments))
    assert "--checkpoint w.pth" in str(caught.value.hint)
