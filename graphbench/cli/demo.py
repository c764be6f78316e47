"""`graphbench demo`: the whole tool on a small transformer, in about a minute."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from graphbench.cli.common import Command, pick
from graphbench.cli.execution_flags import Execution
from graphbench.cli.measure_flags import add_measure_flags, measure_options
from graphbench.cli.output import OutputOptions, add_output_flags, deliver
from graphbench.cli.view import ViewOptions, add_view_flags
from graphbench.models.input_sets import InputSet
from graphbench.models.inputs import InputSpec
from graphbench.models.sources import ModelSource
from graphbench.options import MeasureOptions
from graphbench.probes.features import require

_MODEL_FILE = Path(__file__).parent.parent / "models" / "demo.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSize:
    """A size of the demo's model and batch, chosen so that the device has work."""

    width: int
    heads: int
    layers: int
    vocabulary: int
    batch: int
    length: int
    dtype: str


CPU_SIZE = DemoSize(width=256, heads=4, layers=2, vocabulary=2000, batch=4, length=128, dtype="f32")
GPU_SIZE = DemoSize(width=1024, heads=16, layers=4, vocabulary=32000, batch=8, length=512, dtype="bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of `demo`. `device` is `None` for the GPU if there is one."""

    device: str | None
    measure: MeasureOptions
    view: ViewOptions
    output: OutputOptions


class DemoCommand(Command[DemoOptions]):
    """Measure a small transformer, to see what graphbench tells."""

    name: ClassVar[str] = "demo"
    examples: ClassVar[tuple[str, ...]] = (
        "graphbench demo",
        "graphbench demo --device cpu --measure-ms 10 --output-dir demo-report",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `demo`."""
        parser.add_argument("--device", metavar="DEVICE", help="default: the GPU if there is one")
        add_measure_flags(parser)
        add_view_flags(parser)
        add_output_flags(parser)

    def read_options(self, arguments: argparse.Namespace) -> DemoOptions:
        """Collect the options."""
        return DemoOptions(
            device=arguments.device,
            measure=measure_options(arguments),
            view=pick(ViewOptions, arguments),
            output=pick(OutputOptions, arguments),
        )

    def run(self, options: DemoOptions) -> int:
        """Build, compile, measure, report."""
        options.output.check()
        require("measuring", "recording")
        from graphbench.cli.execute import Job, measure_job, pick_device

        device = pick_device(options.device)
        size = GPU_SIZE if device.startswith("cuda") else CPU_SIZE
        arguments = {"width": size.width, "heads": size.heads, "layers": size.layers, "vocabulary": size.vocabulary}
        tokens = InputSpec(dtype="i64", shape=(size.batch, size.length), bound=size.vocabulary)
        job = Job(
            source=ModelSource(file=_MODEL_FILE, target="SmallTransformer", arguments=arguments),
            input_set=InputSet(specs=(tokens,)),
            execution=Execution(device=device, dtype=size.dtype),
        )
        return deliver(measure_job(job, options.measure), options.output, options.view)
