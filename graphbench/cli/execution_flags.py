"""The flags that say how a model is compiled and run, and the `Execution` that follows from them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from graphbench.cli.common import pick
from graphbench.models.inputs import FLOAT_DTYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a model runs. `device` and `dynamic` may be left to torch (`None`); `dtype` is a short name."""

    device: str | None = None
    dtype: str | None = None
    seed: int = 0
    train: bool = False
    compile_mode: str | None = None
    dynamic: bool | None = None


def add_execution_flags(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Declare the fields of `Execution`, in a group that others may add to."""
    group = parser.add_argument_group("execution")
    group.add_argument("--train", action="store_true", help="a training step: forward, loss and backward")
    group.add_argument("--device", metavar="DEVICE", help="for instance cuda:1; default: the GPU if there is one")
    group.add_argument(
        "--dtype", choices=FLOAT_DTYPES, help="of the model and of inferred inputs; those given are left as they are"
    )
    group.add_argument("--compile-mode", metavar="MODE", help="torch.compile's mode, for instance max-autotune")
    group.add_argument(
        "--dynamic", action=argparse.BooleanOptionalAction, help="torch.compile's dynamic; default: torch decides"
    )
    group.add_argument("--seed", type=int, default=0, help="of weights and inputs; default: %(default)s")
    return group


def read_execution(arguments: argparse.Namespace) -> Execution:
    """How the model of a parsed command line runs."""
    return pick(Execution, arguments)
