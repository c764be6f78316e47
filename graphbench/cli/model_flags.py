"""The flags that say which model: their declaration, and the `ModelSource` that follows from them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from graphbench.errors import UsageError
from graphbench.models.sources import ModelSource, parse_arguments

CHECKPOINT: Final = "--checkpoint"
UNSAFE_LOAD: Final = "--unsafe-load"


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that say which model."""
    group = parser.add_argument_group("model (either --model, or --custom-model-file with --model-class)")
    group.add_argument(
        "--model",
        metavar="ZOO:NAME|MODULE:FACTORY",
        help="torchvision:NAME, timm:NAME or hf:NAME (a model type, a config class or a model class), or of a plug-in "
        "zoo: random weights, no download; or a class, function or module of a Python module, also of the current "
        "folder",
    )
    group.add_argument("--custom-model-file", type=Path, metavar="FILE", help="a Python file that defines the model")
    group.add_argument(
        "--model-class", metavar="NAME", help="a module class in it, or a function that returns a module"
    )
    group.add_argument(
        "--model-arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the constructor, or of the configuration for hf:; repeatable",
    )
    group.add_argument(
        CHECKPOINT,
        type=Path,
        metavar="FILE",
        help="weights to load: .safetensors, an index of several, or .pt, .pth or .bin as torch.save writes a "
        "state_dict; what would run code is refused",
    )
    group.add_argument(
        UNSAFE_LOAD, action="store_true", help="let reading the checkpoint run code that is in it: trust who made it"
    )


def read_source(arguments: argparse.Namespace) -> ModelSource:
    """The model that a parsed command line names.

    Raises:
        UsageError: none, or two, or half of one.
    """
    _check_model_flags(arguments)
    return ModelSource(
        name=arguments.model,
        file=arguments.custom_model_file,
        target=arguments.model_class,
        arguments=parse_arguments(arguments.model_arg),
        train=arguments.train,
        checkpoint=arguments.checkpoint,
        unsafe_load=arguments.unsafe_load,
    )


def _check_model_flags(arguments: argparse.Namespace) -> None:
    checkpoint = arguments.checkpoint
    if arguments.unsafe_load and (checkpoint is None or checkpoint.suffix not in {".pt", ".pth", ".bin"}):
        found = "no --checkpoint is given" if checkpoint is None else f"{checkpoint.name} can hold no code"
        raise UsageError(
            f"{UNSAFE_LOAD}: it is for a {CHECKPOINT} of torch.save, but {found}",
            hint=f"leave out {UNSAFE_LOAD}" if checkpoint else f"add {CHECKPOINT} FILE, or leave out {UNSAFE_LOAD}",
            subject=UNSAFE_LOAD,
        )
    custom = (arguments.custom_model_file, arguments.model_class)
    if arguments.model is not None and custom != (None, None):
        raise UsageError(
            "--model excludes --custom-model-file and --model-class", hint="leave out one of the two", subject="--model"
        )
    if arguments.model is None and custom == (None, None):
        raise UsageError(
            "no model given",
            hint="--model torchvision:resnet18, --model my_package.models:Net, or --custom-model-file model.py "
            "--model-class Net",
            subject="--model",
        )
    if arguments.model is None and None in custom:
        file, target = custom
        hint = "add --custom-model-file FILE, the Python file that defines it"
        if target is None:
            hint = f"add --model-class NAME, a module class in {file} or a function there that returns a module"
        raise UsageError("--custom-model-file and --model-class go together", hint=hint, subject="--custom-model-file")
