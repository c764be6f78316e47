"""`graphbench run --op-list`: the ops of a file in the place of a model."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graphbench.cli.common import say
from graphbench.cli.execution_flags import Execution
from graphbench.cli.output import OutputOptions
from graphbench.cli.view import ViewOptions
from graphbench.errors import UsageError
from graphbench.options import MeasureOptions, described
from graphbench.runs.ledger import Ledger

if TYPE_CHECKING:
    from graphbench.api import Profile

_OWN: Final = ("op_list", "imports", "device", "train", "seed")
_OF_ANY_RUN: Final = ("resume", "supervise", "worker", "debug", "command", "words")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpListOptions:
    """An op list, and the modules that register its custom ops."""

    file: Path
    imports: tuple[str, ...] = ()


def add_op_list_flags(parser: argparse.ArgumentParser) -> None:
    """Declare `--op-list` and `--import`."""
    group = parser.add_argument_group("op list (instead of a model)")
    group.add_argument(
        "--op-list",
        type=Path,
        metavar="FILE",
        help="measure the ops of a YAML file, each alone, as graphbench export --format op-list writes them; with "
        "--train also their backwards. Data only: no code of it runs",
    )
    group.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="with --op-list: import this module, which registers custom ops; its code runs; repeatable",
    )


def read_op_list_options(arguments: argparse.Namespace, defaults: argparse.Namespace) -> OpListOptions | None:
    """The op list of a parsed command line; `None` where a model is measured.

    Args:
        arguments: as parsed.
        defaults: what a command line without any flag gives.

    Raises:
        UsageError: a flag beside it that is about a model, or `--import` without it.
    """
    if arguments.op_list is None:
        if arguments.imports:
            raise UsageError(
                f"--import {arguments.imports[0]} without --op-list: a model file imports what it needs",
                subject="--import",
            )
        return None
    allowed = {*_OWN, *_OF_ANY_RUN, *(option.name for option in described())}
    allowed |= {field.name for options in (ViewOptions, OutputOptions) for field in dataclasses.fields(options)}
    for name, default in vars(defaults).items():
        if name not in allowed and getattr(arguments, name) != default:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} with --op-list: the list has ops, and no model that {flag} could be about",
                hint=f"leave out {flag}, or --op-list",
                subject=flag,
            )
    return OpListOptions(file=arguments.op_list, imports=tuple(arguments.imports))


def refuse_imports(options: OpListOptions | None, folder: Path) -> None:
    """Refuse to run the code of a module because a journal says so.

    Raises:
        UsageError: the run that goes on imports one.
    """
    if options is not None and options.imports:
        raise UsageError(
            f"{folder}: the run imports {', '.join(options.imports)}, whose code is not run because a journal says so",
            hint="start it again, with --import",
            subject="--resume",
        )


def measure_ops_job(
    options: OpListOptions,
    execution: Execution,
    measure: MeasureOptions,
    *,
    ledger: Ledger,
    leave: Callable[[], None] | None,
) -> Profile:
    """Measure the list; `ledger` and `leave` are as of `graphbench.measuring.whole.measure_session`.

    Raises:
        GraphbenchError: what went wrong.
    """
    import torch

    from graphbench import api
    from graphbench.measuring.op_list import OpsJob, measure_op_list
    from graphbench.models.oplist import read_op_list
    from graphbench.session import current

    op_list = read_op_list(options.file)
    say(f"measuring {len(op_list.ops)} ops of {options.file} on {execution.device}")
    device = torch.empty(0, device=execution.device).device
    job = OpsJob(op_list, device, seed=execution.seed, train=execution.train, imports=options.imports)
    return api.checked(measure_op_list(job, measure, current(), ledger=ledger, leave=leave))
