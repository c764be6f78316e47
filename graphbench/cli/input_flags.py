"""The flags that say what a model is called with, and the sets of inputs that follow from them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from graphbench.cli.common import positive_int
from graphbench.errors import UsageError
from graphbench.models.input_sets import InputSet, parse_set
from graphbench.models.inputs import parse_inputs

# What is measured in ways that know one set of inputs only.
_OF_ONE_SET = ("compare", "replace", "op_list")


def add_input_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that say what the model is called with."""
    group = parser.add_argument_group("inputs (inferred for zoo models, or from example_inputs() in the model file)")
    group.add_argument(
        "--input", action="append", default=[], metavar="SPEC", help="one input of the model, see below; repeatable"
    )
    group.add_argument(
        "--example-inputs",
        action="append",
        default=[],
        metavar="FILE|SPECS",
        help="all inputs: saved tensors, .pt (no code in it is run) or .safetensors, or specs in one text; several of "
        "these are measured one after the other, with --dynamic in one run, and each node's time is set against their "
        "sizes",
    )
    group.add_argument(
        "--batch-size",
        type=batch_sizes,
        default=(),
        metavar="N[,N...]",
        help="of inferred inputs; default: 1; several, as 1,8,32, are measured one after the other, with --dynamic in "
        "one run",
    )
    group.add_argument("--input-set", type=int, help=argparse.SUPPRESS)  # which one of several a worker measures


def batch_sizes(text: str) -> tuple[int, ...]:
    """An argument that is one whole number above 0, or several with commas between them."""
    return tuple(positive_int(part) for part in text.split(","))


def read_input_sets(arguments: argparse.Namespace) -> tuple[InputSet, ...]:
    """What the model is called with, one set a run; none where inputs are to be inferred.

    Raises:
        UsageError: flags that exclude each other, or a spec that does not parse.
    """
    if arguments.input and arguments.example_inputs:
        raise UsageError(
            "--input and --example-inputs exclude each other",
            hint="--input adds one input to the only set; --example-inputs gives a whole set, again for another one",
            subject="--input",
        )
    if arguments.batch_size and (arguments.input or arguments.example_inputs):
        raise UsageError(
            "--batch-size is for inferred inputs: those given have their sizes",
            hint="leave out --batch-size, and write the size into the input",
            subject="--batch-size",
        )
    if arguments.input:
        return (InputSet(specs=parse_inputs(arguments.input)),)
    sets = [parse_set(text) for text in arguments.example_inputs]
    sets += [InputSet(batch_size=size) for size in arguments.batch_size]
    if len(sets) > 1:
        _check_one_set(arguments, sets)
    return tuple(sets) if arguments.input_set is None else (_chosen(sets, arguments.input_set),)


def _check_one_set(arguments: argparse.Namespace, sets: Sequence[InputSet]) -> None:
    for name in _OF_ONE_SET:
        if getattr(arguments, name, None):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} with {len(sets)} sets of inputs: it takes one",
                hint=f"call graphbench run {flag} once for each",
                subject=flag,
            )


def _chosen(sets: Sequence[InputSet], index: int) -> InputSet:
    """One of several; the index comes from a journal, which may say anything."""
    if not 0 <= index < len(sets):
        raise UsageError(f"--input-set {index}: there are {len(sets)} sets of inputs", subject="--input-set")
    return sets[index]
