"""`graphbench run`: build a model from a name or a file, compile it, measure it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from graphbench.cli.code_flags import Code, check_named_again, code_of, resume_command
from graphbench.cli.common import EXIT_INTERRUPTED, Command, Parser, pick, say
from graphbench.cli.configurations import add_compare_flag, compare_job, parse_names
from graphbench.cli.execution_flags import Execution, add_execution_flags, read_execution
from graphbench.cli.input_flags import add_input_flags, read_input_sets
from graphbench.cli.measure_flags import add_measure_flags, measure_options
from graphbench.cli.model_flags import add_model_flags, read_source
from graphbench.cli.op_list import (
    OpListOptions,
    add_op_list_flags,
    measure_ops_job,
    read_op_list_options,
    refuse_imports,
)
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
    check_continued,
    ended_in_order,
    parse_started,
    print_partial,
    refuse_complete,
    supervise,
    told,
    work,
    worker_of,
)
from graphbench.cli.series import Series, begin, files_of, measure_series
from graphbench.cli.view import ViewOptions, add_view_flags
from graphbench.errors import GraphbenchError, UsageError
from graphbench.models.checkpoints import checkpoint_files
from graphbench.models.input_sets import InputSet, labels
from graphbench.models.inputs import SYNTAX
from graphbench.models.losses import function_source
from graphbench.models.sources import ModelSource
from graphbench.options import MeasureOptions
from graphbench.probes.features import require
from graphbench.runs.journal import read_journal
from graphbench.runs.ledger import Ledger

if TYPE_CHECKING:
    from graphbench.api import Profile
    from graphbench.cli.execute import Job

NO_MODEL = ModelSource(arguments={})
SUPERVISE = True
"""The default of `--supervise`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of `run`. Without `input_sets` inputs are inferred. With an `op_list` there is no model."""

    source: ModelSource
    op_list: OpListOptions | None
    input_sets: tuple[InputSet, ...]
    execution: Execution
    replacements: tuple[ReplaceOption, ...]
    replace_tolerance: float
    compare: tuple[str, ...]
    measure: MeasureOptions
    view: ViewOptions
    output: OutputOptions
    code: tuple[Code, ...]
    words: tuple[str, ...]
    resume: Path | None
    supervise: bool
    worker: str | None
    debug: bool

    @property
    def as_groups(self) -> bool:
        """Whether sets of inputs are groups of sizes of what is compiled once, not a run each."""
        return bool(self.execution.dynamic) and len(self.input_sets) > 1


class RunCommand(Command[RunOptions]):
    """Compile a model and measure every node and every kernel of it.

    Runs under torch.no_grad in eval mode unless --train is given.
    """

    name: ClassVar[str] = "run"
    examples: ClassVar[tuple[str, ...]] = (
        "graphbench run --model torchvision:resnet50 --output-dir report",
        "graphbench run --model hf:gpt2 --model-arg n_layer=2 --train --dtype bf16",
        "graphbench run --custom-model-file net.py --model-class Net --input 'f32[8,3]'",
        "# quick, and only what costs most",
        "graphbench run --model timm:vit_tiny_patch16_224 --measure-ms 10 --top 20",
        "# several inputs: each measured, then how every node's time grows",
        "graphbench run --model hf:bert --batch-size 1,8,32 --output-dir batches",
        "# compiled once for any size, and measured on each",
        "graphbench run --model hf:bert --dynamic --batch-size 2,8,32",
        "graphbench run --custom-model-file net.py --model-class Net --select 'conv*'",
        "# within a minute: a rough pass over everything, then what matters",
        "graphbench run --model hf:gpt2 --max-seconds 60",
        "graphbench run --op-list ops.yaml --device cuda:1",
        "# an interrupted run goes on",
        "graphbench run --resume report",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `run`."""
        parser.epilog = SYNTAX
        add_model_flags(parser)
        add_op_list_flags(parser)
        add_input_flags(parser)
        execution = add_execution_flags(parser)
        add_replace_flags(execution)
        add_compare_flag(execution)
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
        op_list = read_op_list_options(arguments, self._defaults())
        sets = read_input_sets(arguments)
        labels(sets)
        return RunOptions(
            source=read_source(arguments) if op_list is None else NO_MODEL,
            op_list=op_list,
            input_sets=sets,
            execution=read_execution(arguments),
            replacements=parse_replacements(arguments.replace),
            replace_tolerance=arguments.replace_tolerance,
            compare=parse_names(arguments),
            measure=measure_options(arguments),
            view=pick(ViewOptions, arguments),
            output=pick(OutputOptions, arguments),
            code=code_of(arguments, Path.cwd()),
            words=arguments.words[arguments.words.index(self.name) + 1 :],
            resume=None,
            supervise=arguments.supervise,
            worker=arguments.worker,
            debug=arguments.debug,
        )

    def _parser(self) -> Parser:
        parser = Parser(prog=f"graphbench {self.name}")
        self.prepare_parser(parser)
        return parser

    def _defaults(self) -> argparse.Namespace:
        """What a command line without any flag gives."""
        return self._parser().parse_args([])

    def _continued(self, arguments: argparse.Namespace) -> RunOptions:
        """The options that a run was started with.

        Raises:
            UsageError: others are given too, or it runs code that is not named again.
        """
        refuse_complete(arguments.resume)
        started = read_journal(arguments.resume).started
        parser = self._parser()
        check_continued(arguments, parser.parse_args([]))
        if started is None:
            raise beginning_lost(arguments.resume)
        original = parse_started(parser, started, arguments.resume)
        original.words, original.debug = (self.name, *started.command), arguments.debug
        options = self.read_options(original)
        refuse_imports(options.op_list, arguments.resume)
        code = code_of(original, Path(started.folder))
        check_named_again(arguments, code, arguments.resume)
        if options.compare:
            raise UsageError("--compare leaves nothing to go on with", hint="start it again", subject="--resume")
        if options.replacements:  # their code would run because a journal says so
            say("--replace is left out of a run that goes on: start a new one for it")
        return replace(options, replacements=(), resume=arguments.resume, supervise=arguments.supervise, code=code)

    def run(self, options: RunOptions) -> int:
        """Build, compile, measure, report: in a worker, which is started again should it crash."""
        if options.compare:
            return compare_job(self._job(options), options.compare, options.measure, options.output, options.view)
        if options.worker is not None:
            return work(worker_of(options.worker), partial(self._measure, options), leave=True)
        if len(options.input_sets) > 1 and not options.as_groups:
            return self._run_series(options)
        run, folder, _ = self._directory(options, options.output.files())
        with told(run, options.code), ended_in_order():
            return self._start(options, run, folder)

    def _directory(self, options: RunOptions, written: Mapping[str, Path]) -> tuple[RunDirectory, str, list[Path]]:
        """Where the run keeps what it measures, the folder that it was started in, and the files that it reads.

        Args:
            options: of the run.
            written: what a new run will write.
        """
        if options.resume is not None:
            run, started = RunDirectory.again(options.resume)
            return run, started.folder, [Path(name) for name, _ in started.files]
        options.output.check(written)
        files = _files(options)
        run = RunDirectory.begin(options.output.output_dir, options.words, files, force=options.output.force)
        return run, str(Path.cwd()), files

    def _run_series(self, options: RunOptions) -> int:
        """A run for every set of inputs, in a directory of its own."""
        names = labels(options.input_sets)
        new = options.resume is None
        run, folder, files = self._directory(options, files_of(names, options.output) if new else {})
        again = resume_command(run.folder, options.code)
        series = Series(run=run, labels=names, words=options.words, files=files, again=again)
        if new:
            begin(series)

        def start(index: int, run: RunDirectory) -> int:
            chosen = replace(
                options,
                input_sets=(options.input_sets[index],),
                words=series.words_of(index),
                output=replace(options.output, output_dir=run.folder),
            )
            if not options.supervise:
                from graphbench.api import reset

                reset()  # what the set before left in this process would be measured again
            return self._start(chosen, run, folder)

        return measure_series(series, start, options.view)

    def _start(self, options: RunOptions, run: RunDirectory, folder: str) -> int:
        """Measure, in a worker or in this process, in the folder that the run was started in."""
        if options.supervise:
            limit_s = options.measure.unit_timeout_s
            code = supervise(run, options.words, folder, limit_s, debug=options.debug)
            if code == EXIT_INTERRUPTED:
                print_partial(run, options.view)
            return code
        sys.path[:] = [entry for entry in sys.path if entry]  # the empty one would mean the folder of the run
        os.chdir(folder)
        try:
            return work(run, partial(self._measure, options), leave=False)
        except KeyboardInterrupt:
            print_partial(run, options.view)
            raise

    def _job(self, options: RunOptions) -> Job:
        require("measuring", "recording")
        from graphbench.cli.execute import Job, pick_device

        given = options.input_sets[0] if options.input_sets else None
        return Job(
            source=replace(options.source, batch_size=given.batch_size if given is not None else None),
            input_set=given,
            more_sets=options.input_sets[1:] if options.as_groups else (),
            execution=replace(options.execution, device=pick_device(options.execution.device)),
        )

    def _measure(self, options: RunOptions, run: RunDirectory, ledger: Ledger, leave: Callable[[], None] | None) -> int:
        require("measuring", "recording")
        # Imported here: it needs torch, which show and diff must do without.
        from graphbench.cli.execute import measure_job

        candidates = load_candidates(options.replacements)
        went_on = ledger.conditions is not None
        if options.op_list is not None:
            profile = self._measure_ops(options, ledger, leave)
        else:
            kept = run.folder if options.output.output_dir is None and not went_on else None
            profile = measure_job(self._job(options), options.measure, ledger=ledger, leave=leave, kept=kept)
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
                add_to_report(f"{str(found).rstrip()}\n", output, options.view.color)
            if failed is not None:
                raise failed
        return code

    def _measure_ops(self, options: RunOptions, ledger: Ledger, leave: Callable[[], None] | None) -> Profile:
        from graphbench.cli.execute import check_options

        job = self._job(options)
        check_options(job, options.measure)
        assert options.op_list is not None
        return measure_ops_job(options.op_list, job.execution, options.measure, ledger=ledger, leave=leave)


def _files(options: RunOptions) -> list[Path]:
    """The files that a run reads.

    Raises:
        UsageError: there is no such checkpoint, or its index names other files.
    """
    source, function = options.source, function_source(options.execution.loss)
    files = [source.file, function.file if function is not None else None]
    files += [options.op_list.file] if options.op_list is not None else []
    files += [given.file for given in options.input_sets]
    checkpoint = checkpoint_files(source.checkpoint) if source.checkpoint is not None else ()
    return [*(file for file in files if file is not None), *checkpoint]


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
