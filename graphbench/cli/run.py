"""`graphbench run`: build a model from a name or a file, compile it, measure it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from graphbench.cli.common import Command, Parser, ViewOptions, add_view_flags, pick, positive_int, say
from graphbench.cli.configurations import add_compare_flag, compare_job, parse_names
from graphbench.cli.measure_flags import MeasureOptions, add_measure_flags
from graphbench.cli.output import OutputOptions, add_output_flags, add_to_report, deliver
from graphbench.cli.replacements import (
    ReplaceOption,
    add_replace_flags,
    load_candidates,
    parse_replacements,
    try_candidates,
)
from graphbench.cli.running import (
    RunDirectory,
    beginning_lost,
    check_allowed,
    check_continued,
    ended_in_order,
    parse_started,
    refuse_complete,
    supervise,
    told,
    work,
    worker_of,
)
from graphbench.errors import GraphbenchError, UsageError
from graphbench.models.inputs import FLOAT_DTYPES, SYNTAX, InputSpec, parse_inputs
from graphbench.models.sources import ModelSource, parse_arguments
from graphbench.runs.journal import read_journal
from graphbench.runs.ledger import Ledger

if TYPE_CHECKING:
    from graphbench.cli.execute import Job

SUPERVISE = True
"""The default of `--supervise`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of `run`. `dtype` is a short name; `dynamic` and `device` may be left to torch (`None`)."""

    source: ModelSource
    inputs: tuple[InputSpec, ...]
    example_inputs: Path | None
    device: str | None
    dtype: str | None
    seed: int
    train: bool
    compile_mode: str | None
    dynamic: bool | None
    replacements: tuple[ReplaceOption, ...]
    replace_tolerance: float
    compare: tuple[str, ...]
    measure: MeasureOptions
    view: ViewOptions
    output: OutputOptions
    words: tuple[str, ...]
    resume: Path | None
    supervise: bool
    worker: str | None
    debug: bool


class RunCommand(Command[RunOptions]):
    """Compile a model and measure every node and every kernel of it.

    Runs under torch.no_grad in eval mode unless --train is given.
    """

    name: ClassVar[str] = "run"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `run`."""
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = SYNTAX
        _add_model_flags(parser)
        _add_input_flags(parser)
        _add_execution_flags(parser)
        add_measure_flags(parser)
        add_view_flags(parser)
        add_output_flags(parser)
        _add_running_flags(parser)

    def read_options(self, arguments: argparse.Namespace) -> RunOptions:
        """Collect the options; refuse contradictions before anything is imported or built.

        Those of a run that goes on are read from its directory.
        """
        if arguments.resume is not None:
            return self._continued(arguments)
        _check_model_flags(arguments)
        if arguments.input and arguments.example_inputs:
            raise UsageError("--input and --example-inputs exclude each other", subject="--input")
        if arguments.batch_size and (arguments.input or arguments.example_inputs):
            raise UsageError(
                "--batch-size is for inferred inputs: those given have their sizes", subject="--batch-size"
            )
        source = ModelSource(
            name=arguments.model,
            file=arguments.custom_model_file,
            target=arguments.model_class,
            arguments=parse_arguments(arguments.model_arg),
            batch_size=arguments.batch_size,
            train=arguments.train,
        )
        return RunOptions(
            source=source,
            inputs=parse_inputs(arguments.input),
            example_inputs=arguments.example_inputs,
            device=arguments.device,
            dtype=arguments.dtype,
            seed=arguments.seed,
            train=arguments.train,
            compile_mode=arguments.compile_mode,
            dynamic=arguments.dynamic,
            replacements=parse_replacements(arguments.replace),
            replace_tolerance=arguments.replace_tolerance,
            compare=parse_names(arguments),
            measure=pick(MeasureOptions, arguments),
            view=pick(ViewOptions, arguments),
            output=pick(OutputOptions, arguments),
            words=arguments.words[arguments.words.index(self.name) + 1 :],
            resume=None,
            supervise=arguments.supervise,
            worker=arguments.worker,
            debug=arguments.debug,
        )

    def _continued(self, arguments: argparse.Namespace) -> RunOptions:
        """The options that a run was started with.

        Raises:
            UsageError: others are given too, or it runs a file that is not named again.
        """
        refuse_complete(arguments.resume)
        started = read_journal(arguments.resume).started
        parser = Parser(prog=f"graphbench {self.name}")
        self.prepare_parser(parser)
        check_continued(arguments, parser.parse_args([]))
        if started is None:
            raise beginning_lost(arguments.resume)
        original = parse_started(parser, started, arguments.resume)
        original.words, original.debug = (self.name, *started.command), arguments.debug
        options = self.read_options(original)
        check_allowed(options.source.file, arguments.custom_model_file, started, arguments.resume)
        if options.compare:
            raise UsageError("--compare leaves nothing to go on with", hint="start it again", subject="--resume")
        if options.replacements:  # their code would run because a journal says so
            say("--replace is left out of a run that goes on: start a new one for it")
        return replace(options, replacements=(), resume=arguments.resume, supervise=arguments.supervise)

    def run(self, options: RunOptions) -> int:
        """Build, compile, measure, report: in a worker, which is started again should it crash."""
        if options.compare:
            return compare_job(self._job(options), options.compare, options.measure, options.output)
        if options.worker is not None:
            return work(worker_of(options.worker), partial(self._measure, options), leave=True)
        folder = str(Path.cwd())
        if options.resume is not None:
            run, started = RunDirectory.again(options.resume)
            folder = started.folder
        else:
            options.output.check()
            files = [file for file in (options.source.file, options.example_inputs) if file is not None]
            run = RunDirectory.begin(options.output.output_dir, options.words, files, force=options.output.force)
            if run.temporary:
                say(f"should this be cut short, what was measured is in {run.folder}")
        with told(run, options.source.file, folder), ended_in_order():
            if options.supervise:
                limit_s = options.measure.unit_timeout_s
                return supervise(run, options.words, folder, limit_s, debug=options.debug)
            sys.path[:] = [entry for entry in sys.path if entry]  # the empty one would mean the folder of the run
            os.chdir(folder)
            return work(run, partial(self._measure, options), leave=False)

    def _job(self, options: RunOptions) -> Job:
        from graphbench.cli.execute import Job, pick_device

        return Job(
            source=options.source,
            inputs=options.inputs,
            example_inputs=options.example_inputs,
            device=pick_device(options.device),
            dtype=options.dtype,
            seed=options.seed,
            train=options.train,
            compile_mode=options.compile_mode,
            dynamic=options.dynamic,
        )

    def _measure(self, options: RunOptions, run: RunDirectory, ledger: Ledger, leave: Callable[[], None] | None) -> int:
        # Imported here: it needs torch, which show and diff must do without.
        from graphbench.cli.execute import measure_job

        job = self._job(options)
        candidates = load_candidates(options.replacements)
        went_on = ledger.conditions is not None
        profile = measure_job(job, options.measure, ledger=ledger, leave=leave)
        output = options.output
        if output.output_dir is not None:
            # It may have been moved since the run was started, and hold files that an earlier process came to write.
            output = replace(output, output_dir=run.folder, force=output.force or went_on)
        code = deliver(profile, output, options.view)
        if candidates:
            run.finish()  # everything is measured and delivered, should a candidate crash the process
            failed: GraphbenchError | None = None
            for found in try_candidates(candidates, profile, options.measure, options.replace_tolerance):
                failed = failed or (found if isinstance(found, GraphbenchError) else None)
                add_to_report(f"{str(found).rstrip()}\n", output)
            if failed is not None:
                raise failed
        return code


def _add_model_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model (either --model, or --custom-model-file with --model-class)")
    group.add_argument(
        "--model",
        metavar="ZOO:NAME",
        help="torchvision:NAME, timm:NAME or hf:NAME (a model type or a config class); random weights, no download",
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


def _add_input_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("inputs (inferred for zoo models, or from example_inputs() in the model file)")
    group.add_argument(
        "--input", action="append", default=[], metavar="SPEC", help="one input of the model, see below; repeatable"
    )
    group.add_argument(
        "--example-inputs", type=Path, metavar="FILE", help="saved tensors, .pt (no code in it is run) or .safetensors"
    )
    group.add_argument("--batch-size", type=positive_int, metavar="N", help="of inferred inputs; default: 1")
    group.add_argument("--seed", type=int, default=0, help="of weights and inputs; default: %(default)s")


def _add_execution_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("execution")
    group.add_argument("--train", action="store_true", help="a training step: forward, loss and backward")
    group.add_argument("--device", metavar="DEVICE", help="for instance cuda:1; default: the GPU if there is one")
    group.add_argument(
        "--dtype", choices=FLOAT_DTYPES, help="of the model and of inferred inputs; those given are left as they are"
    )
    add_replace_flags(group)
    add_compare_flag(group)
    group.add_argument("--compile-mode", metavar="MODE", help="torch.compile's mode, for instance max-autotune")
    group.add_argument(
        "--dynamic", action=argparse.BooleanOptionalAction, help="torch.compile's dynamic; default: torch decides"
    )


def _add_running_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("running")
    group.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with the run of this directory, with the options it had"
    )
    group.add_argument(
        "--supervise",
        action=argparse.BooleanOptionalAction,
        default=SUPERVISE,
        help="measure in a process of its own, which is started again should it crash; default: do",
    )
    group.add_argument("--worker", help=argparse.SUPPRESS)


def _check_model_flags(arguments: argparse.Namespace) -> None:
    custom = (arguments.custom_model_file, arguments.model_class)
    if arguments.model is not None and custom != (None, None):
        raise UsageError("--model excludes --custom-model-file and --model-class", subject="--model")
    if arguments.model is None and custom == (None, None):
        raise UsageError(
            "no model given",
            hint="--model torchvision:resnet18, or --custom-model-file model.py --model-class Net",
            subject="--model",
        )
    if arguments.model is None and None in custom:
        file, target = custom
        hint = "add --custom-model-file FILE, the Python file that defines it"
        if target is None:
            hint = f"add --model-class NAME, a module class in {file} or a function there that returns a module"
        raise UsageError("--custom-model-file and --model-class go together", hint=hint, subject="--custom-model-file")
