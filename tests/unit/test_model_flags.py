"""The flags of `run` that say which model and how it runs: what they mean, what they refuse, no torch."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from graphbench.cli.common import Parser
from graphbench.cli.execution_flags import Execution, add_execution_flags, parse_inductor, read_execution
from graphbench.cli.model_flags import add_model_flags, read_source
from graphbench.errors import UsageError
from graphbench.models.sources import ModelSource


def parsed(*words: str) -> argparse.Namespace:
    parser = Parser()
    add_model_flags(parser)
    add_execution_flags(parser)
    parser.add_argument("--batch-size", type=int)
    return parser.parse_args(words)


def source(*words: str) -> ModelSource:
    return read_source(parsed(*words))


def execution(*words: str) -> Execution:
    return read_execution(parsed(*words))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Execution()),
        (["--train"], Execution(train=True)),
        (["--train", "--loss", "own"], Execution(train=True, loss="own")),
        (["--train", "--loss", "pack.losses:mine"], Execution(train=True, loss="pack.losses:mine")),
        (["--device", "cuda:1"], Execution(device="cuda:1")),
        (["--dtype", "bf16"], Execution(dtype="bf16")),
        (["--channels-last"], Execution(channels_last=True)),
        (["--compile-mode", "max-autotune"], Execution(compile_mode="max-autotune")),
        (["--dynamic"], Execution(dynamic=True)),
        (["--no-dynamic"], Execution(dynamic=False)),
        (["--fullgraph"], Execution(fullgraph=True)),
        (["--seed", "7"], Execution(seed=7)),
        (
            ["--inductor", "max-autotune=true", "--inductor", "triton.cudagraphs=false"],
            Execution(inductor={"max_autotune": True, "triton.cudagraphs": False}),
        ),
    ],
)
def test_a_flag_says_how_the_model_runs(words: list[str], expected: Execution) -> None:
    assert execution(*words) == expected


def test_values_of_inductor_options_are_literals_or_texts() -> None:
    assert parse_inductor(["a=3", "b=1.5", "c=none", "d=TRITON,ATEN", "e=[1, 2]", "f="]) == {
        "a": 3,
        "b": 1.5,
        "c": None,
        "d": "TRITON,ATEN",
        "e": [1, 2],
        "f": "",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loss", "sum"], "--loss sum: it is for a training step"),
        (["--train", "--loss", "mse"], "--loss 'mse': expected auto, sum, own or MODULE:FUNCTION"),
        (["--inductor", "max_autotune"], "--inductor 'max_autotune': expected KEY=VALUE"),
        (["--inductor", "=1"], "--inductor '=1': expected KEY=VALUE"),
        (["--inductor", "triton..x=1"], "expected KEY=VALUE"),
        (["--inductor", "max_autotune=1", "--inductor", "max-autotune=0"], "--inductor max_autotune is given twice"),
        (["--dtype", "f8"], "invalid choice: 'f8'"),
        (["--seed", "x"], "--seed: found 'x', expected a whole number from -2**63 to 2**64 - 1"),
        (["--seed", str(2**64)], "--seed: found '18446744073709551616', expected a whole number"),
        (["--seed", str(-(2**63) - 1)], "--seed: found '-9223372036854775809', expected a whole number"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        execution(*words)
    assert message in caught.value.message


def test_a_checkpoint_is_part_of_the_model() -> None:
    found = source("--model", "hf:gpt2", "--checkpoint", "w.pt", "--unsafe-load")
    assert (found.checkpoint, found.unsafe_load) == (Path("w.pt"), True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "but no --checkpoint is given"),
        (["--checkpoint", "w.safetensors"], "w.safetensors can hold no code"),
    ],
)
def test_permission_to_run_code_that_nothing_needs_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        source("--model", "hf:gpt2", "--unsafe-load", *words)
    assert message in caught.value.message


@pytest.mark.parametrize("name", ["hf:gpt2", "torchvision:resnet18", "timm:test_vit"])
def test_a_name_of_a_zoo_is_no_module_of_the_users(name: str) -> None:
    assert source("--model", name).module_path is None


def test_another_name_is_a_module_of_the_users() -> None:
    assert source("--model", "pack.nets:Net").module_path == "pack.nets:Net"
