"""The flags that say what a model is called with, and the sets of inputs that follow from them."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphbench.cli.common import positive_int
from graphbench.errors import UsageError
from graphbench.models.inputs import InputSet, parse_inputs


def add_input_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that say what the model is called with."""
    group = parser.add_argument_group("inputs (inferred for zoo models, or from example_inputs() in the model file)")
    group.add_argument(
        "--input", action="append", default=[], metavar="SPEC", help="one input of the model, see below; repeatable"
    )
    group.add_argument(
        "--example-inputs", type=Path, metavar="FILE", help="saved tensors, .pt (no code in it is run) or .safetensors"
    )
    group.add_argument("--batch-size", type=positive_int, metavar="N", help="of inferred inputs; default: 1")


def read_input_sets(arguments: argparse.Namespace) -> tuple[InputSet, ...]:
    """What the model is called with, one set a run; none where inputs are to be inferred.

    Raises:
        UsageError: flags that exclude each other, or a spec that does not parse.
    """
    if arguments.input and arguments.example_inputs:
        raise UsageError("--input and --example-inputs exclude each other", subject="--input")
    if arguments.batch_size and (arguments.input or arguments.example_inputs):
        raise UsageError("--batch-size is for inferred inputs: those given have their sizes", subject="--batch-size")
    if arguments.example_inputs:
        return (InputSet(file=arguments.example_inputs),)
    return (InputSet(specs=parse_inputs(arguments.input)),) if arguments.input else ()
