"""`graphbench run --compare A,B,...`: several configurations of one model in one run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.cli.common import EXIT_OK, EXIT_ROWS_FAILED, emit, say, write_text
from graphbench.cli.output import OutputOptions
from graphbench.cli.view import ViewOptions
from graphbench.errors import GraphbenchError, UsageError
from graphbench.options import MeasureOptions
from graphbench.report.base import DEFAULT_WIDTH

if TYPE_CHECKING:
    from graphbench.cli.execute import Job
    from graphbench.configurations.compare import Configurations

FLAG = "--compare"
REPORT = "report.txt"
# What says how a profile's tables look, or how one configuration is compiled.
_OF_ONE_PROFILE = ("compile_mode", "inductor", "replace", "top", "sort", "wide", "group_by", "depth")


def add_compare_flag(group: argparse._ArgumentGroup) -> None:
    """Declare `--compare`."""
    group.add_argument(
        FLAG,
        default="",
        metavar="NAMES",
        help="time several configurations of the model against each other, as eager,default,max-autotune: eager, "
        "Inductor's modes, any backend of torch._dynamo.list_backends(); in this process, so --resume cannot go on",
    )


def parse_names(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The configurations that `--compare` names; none without it.

    Raises:
        UsageError: an option that is for one profile beside it.
    """
    if not arguments.compare:
        return ()
    for name in _OF_ONE_PROFILE:
        if getattr(arguments, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} with {FLAG}: it is for a run of one configuration",
                hint=f"leave it out: {FLAG} takes modes, and graphbench show profile-NAME.json prints all tables",
                subject=flag,
            )
    return tuple(name.strip() for name in arguments.compare.split(","))


def files_of(names: Sequence[str], folder: Path | None) -> dict[str, Path]:
    """What a comparison may write, by kind; of configurations without a profile, nothing will be."""
    if folder is None:
        return {}
    return {"report": folder / REPORT, **{name: folder / f"profile-{name}.json" for name in names}}


def compare_job(
    job: Job, names: Sequence[str], measure: MeasureOptions, output: OutputOptions, view: ViewOptions
) -> int:
    """Compare configurations of a job's model, print the tables, write the files.

    Returns:
        The exit code.

    Raises:
        GraphbenchError: every configuration failed, or what went wrong before any was tried.
    """
    from graphbench import api
    from graphbench.cli.execute import prepare_job
    from graphbench.configurations.compare import compare_sides
    from graphbench.configurations.sides import sides_named
    from graphbench.configurations.subject import subject_of
    from graphbench.models.losses import loss_named

    sides_named(names)
    files = files_of(names, output.output_dir)
    output.check(files)
    loss = loss_named(job.execution.loss)
    built = prepare_job(job, measure)
    subject = subject_of(
        built.module,
        built.inputs.args,
        built.inputs.kwargs,
        train=job.execution.train,
        dynamic=job.execution.dynamic,
        name=built.subject,
        loss=loss,
        fullgraph=job.execution.fullgraph,
    )
    say(f"comparing {', '.join(names)} of {built.subject}, on {job.device}")
    found = compare_sides(api.current_session(), subject, names, measure)
    _deliver(found, files, output, view)
    failed = [row.name for row in found.rows if row.reason or row.no_profile]
    if len(failed) == len(names):
        raise GraphbenchError("every configuration failed", hint="the table above says why")
    if output.strict and failed:
        say(f"failed: {', '.join(failed)}")
        return EXIT_ROWS_FAILED
    return EXIT_OK


def _deliver(found: Configurations, files: Mapping[str, Path], output: OutputOptions, view: ViewOptions) -> None:
    """Profiles first: should printing fail, what was measured is not lost."""
    from graphbench import api

    written = []
    for name, record in found.profiles.items():
        if files:
            api.Profile(record).save(files[name], overwrite=output.force)
            written.append(files[name].name)
    emit(found.text(width=view.on_screen().get("width", DEFAULT_WIDTH)), view.color)
    if files:
        write_text(files["report"], found.text(width=view.width or DEFAULT_WIDTH))
        say(f"wrote {', '.join([REPORT, *written])} to {output.output_dir}")
