"""The flags that say how a model is compiled and run, and the `Execution` that follows from them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from graphbench.errors import UsageError
from graphbench.models.inputs import FLOAT_DTYPES
from graphbench.models.losses import AUTO, FLAG, function_source
from graphbench.models.sources import literal

INDUCTOR: Final = "--inductor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a model runs. `device` and `dynamic` may be left to torch (`None`); `dtype` is a short name.

    `loss` is `auto`, `sum`, `own` or `MODULE:FUNCTION`; `inductor` are Inductor's options by name.
    """

    device: str | None = None
    dtype: str | None = None
    seed: int = 0
    train: bool = False
    loss: str = AUTO
    compile_mode: str | None = None
    inductor: Mapping[str, object] = field(default_factory=dict)
    dynamic: bool | None = None
    fullgraph: bool = False
    channels_last: bool = False


def add_execution_flags(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Declare the fields of `Execution`, in a group that others may add to."""
    group = parser.add_argument_group("execution")
    group.add_argument("--train", action="store_true", help="a training step: forward, loss and backward")
    group.add_argument(
        FLAG,
        metavar="auto|sum|own|MODULE:FUNCTION",
        help="with --train, what to go backward from: sum of all outputs, the model's own loss, auto: its own where it "
        "has one, else the sum; or a function of the model's result (and its inputs), MODULE may be a file; default: "
        "auto",
    )
    group.add_argument("--device", metavar="DEVICE", help="for instance cuda:1; default: the GPU if there is one")
    group.add_argument(
        "--dtype", choices=FLOAT_DTYPES, help="of the model and of inferred inputs; those given are left as they are"
    )
    group.add_argument(
        "--channels-last", action="store_true", help="lay out 4- and 5-dimensional weights and inputs channels last"
    )
    group.add_argument("--compile-mode", metavar="MODE", help="torch.compile's mode, for instance max-autotune")
    group.add_argument(
        INDUCTOR,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of Inductor's, for instance max_autotune=true or triton.cudagraphs=true; repeatable",
    )
    group.add_argument(
        "--dynamic",
        action=argparse.BooleanOptionalAction,
        help="torch.compile's dynamic; several sets of inputs are then measured as groups of sizes of what is compiled "
        "once; default: torch decides",
    )
    group.add_argument("--fullgraph", action="store_true", help="a graph break is an error, which says where it is")
    group.add_argument("--seed", type=seed, default=0, help="of weights and inputs; default: %(default)s")
    return group


def read_execution(arguments: argparse.Namespace) -> Execution:
    """How the model of a parsed command line runs.

    Raises:
        UsageError: a loss without `--train`, or one that is none; an Inductor option that is no `KEY=VALUE`.
    """
    if arguments.loss is not None and not arguments.train:
        raise UsageError(
            f"{FLAG} {arguments.loss}: it is for a training step",
            hint=f"add --train, or leave out {FLAG}",
            subject=FLAG,
        )
    loss = arguments.loss or AUTO
    function_source(loss)
    given = {entry.name: getattr(arguments, entry.name) for entry in fields(Execution)}
    return Execution(**{**given, "loss": loss, "inductor": parse_inductor(arguments.inductor)})


def seed(text: str) -> int:
    """An argument that torch takes for a seed.

    Source: `torch.manual_seed` (torch 2.11 to 2.14), whose range is that of int64 and of uint64 together.
    """
    try:
        value = int(text)
    except ValueError:
        value = None
    if value is None or not -(2**63) <= value < 2**64:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from -2**63 to 2**64 - 1")
    return value


def parse_inductor(texts: Iterable[str]) -> dict[str, object]:
    """Read `--inductor` values: `key=value`, the value a Python literal, else a string.

    Raises:
        UsageError: no `=`, no name before it, the same key twice, or a value nested too deeply.

    Example:
        >>> parse_inductor(["triton.cudagraphs=true", "max-autotune=false"])
        {'triton.cudagraphs': True, 'max_autotune': False}
    """
    options: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not all(part.isidentifier() for part in key.split(".")):
            raise UsageError(
                f"{INDUCTOR} {text!r}: expected KEY=VALUE",
                hint="for instance max_autotune=true or triton.cudagraphs=true",
                subject=INDUCTOR,
            )
        if key in options:
            raise UsageError(f"{INDUCTOR} {key} is given twice", hint="leave one of them out", subject=INDUCTOR)
        options[key] = literal(f"{INDUCTOR} {key}", value.strip())
    return options
