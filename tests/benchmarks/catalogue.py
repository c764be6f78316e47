"""All benchmarks: which rows they settle, what they need, how long they take, how they are run and judged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks import bars_device, bars_host
from tests.benchmarks.findings import Bar, Finding, Found

SCRIPTS = Path("tests") / "benchmarks"
NEEDS = {
    "gpu": "a CUDA GPU",
    "cpu": "a machine without CUDA GPU",
    "ncu": "ncu (Nsight Compute)",
    "transformers": "transformers",
    "torchvision": "torchvision",
    "timm": "timm",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One script and what it settles.

    `command` follows the interpreter; `{device}` and `{output}` are filled in. `judge` turns the script's JSON into one
    finding per bar, in their order. `seconds` is what it takes, `limit_s` when it is killed.
    """

    name: str
    bars: tuple[Bar, ...]
    command: tuple[str, ...]
    judge: Callable[[Found], tuple[Finding, ...]]
    seconds: float
    limit_s: float
    needs: tuple[str, ...] = ()

    def lacks(self, has: Collection[str]) -> str:
        """What it needs and a machine has not, in words; "" when it can run."""
        there = {*has, *(() if "gpu" in has else ("cpu",))}
        missing = [need for need in self.needs if need not in there]
        named = ["gpu"] if "gpu" in missing else missing
        return f"needs {' and '.join(NEEDS[need] for need in named)}" if named else ""


def _script(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(SCRIPTS / f"{name}.py"), *arguments, "--output", "{output}")


BENCHMARKS = (
    Benchmark(
        name="accuracy",
        bars=(Bar("kernel time vs ncu, kernels of 10 µs and more", "median <= 1.5 %, worst <= 3 %"),),
        command=_script("accuracy"),
        judge=bars_device.judge_accuracy,
        seconds=60,
        limit_s=300,
        needs=("gpu", "ncu"),
    ),
    Benchmark(
        name="reference_models",
        bars=(
            Bar("device time attributed, inference of 3 models", "100 %"),
            Bar("kernels with an owner, inference of 3 models", "none without"),
            Bar("sum of in-graph rows vs device_busy, inference of 3 models", "within 0.5 %"),
            Bar("sums vs those known before (DESIGN fact 15)", "within 5 %"),
        ),
        command=_script("reference_models"),
        judge=bars_device.judge_reference_models,
        seconds=100,
        limit_s=300,
        needs=("gpu", "torchvision", "timm", "transformers"),
    ),
    Benchmark(
        name="conservation",
        bars=(
            Bar("time attributed, forward and backward of small models", "100 %"),
            Bar("kernel time with an owner, forward and backward of small models", "100 %"),
            Bar("sum of rows vs the whole run (CPU: kernels + wrapper vs wall)", "within 0.5 %"),
            Bar("CPU: kernels' part of the wall time, regions of 5 ms and more", ">= 95 %"),
            Bar("equal nodes measured once, shown per instance", "none again"),
        ),
        command=_script("conservation", "--device", "{device}"),
        judge=bars_host.judge_conservation,
        seconds=60,
        limit_s=400,
    ),
    *(
        Benchmark(
            name=f"suite_{mode}",
            bars=(
                Bar(f"time attributed, model suite, {mode}", "100 %"),
                Bar(f"kernel time with an owner, model suite, {mode}", "100 %"),
                Bar(f"sum of rows vs the whole run, model suite, {mode}", "within 0.5 %"),
                Bar(f"faults of the map, model suite, {mode}", "none"),
                Bar(f"equal nodes measured once, model suite, {mode}", "none again"),
            ),
            command=_script("conservation", "--device", "{device}", "--suite", mode),
            judge=bars_host.judge_suite,
            seconds=200,
            limit_s=560,
            needs=("gpu", "transformers"),
        )
        for mode in ("inference", "training")
    ),
    Benchmark(
        name="provenance",
        bars=(
            Bar("kernels with an owner, 24 recorded graphs", "none without"),
            Bar("nodes with a fate, 24 recorded graphs", "none without"),
        ),
        command=_script("provenance"),
        judge=bars_host.judge_provenance,
        seconds=10,
        limit_s=120,
    ),
    Benchmark(
        name="decoding",
        bars=(Bar("record decoding, buffers made up", "<= 2 µs per record"),),
        command=_script("decoding"),
        judge=bars_host.judge_decoding,
        seconds=15,
        limit_s=120,
    ),
    Benchmark(
        name="repeatability",
        bars=(Bar("same profile twice: rows of 5 µs and more within 2 %", ">= 95 %"),),
        command=_script("repeatability"),
        judge=bars_device.judge_repeatability,
        seconds=100,
        limit_s=500,
        needs=("gpu", "torchvision"),
    ),
    Benchmark(
        name="idle",
        bars=(Bar("steady step, backend graphbench ÷ inductor, not measuring", "<= 1.02"),),
        command=_script("overhead", "--part", "idle", "--device", "{device}"),
        judge=bars_host.judge_idle,
        seconds=40,
        limit_s=200,
    ),
    Benchmark(
        name="efficiency",
        bars=(
            Bar("wall time of measure() ÷ wall time of samples, flushes, warm-ups", "<= 1.5"),
            Bar("wall time of measure() ÷ the device's part of that alone", "<= 1.5"),
        ),
        command=_script("efficiency", "--device", "{device}"),
        judge=bars_device.judge_efficiency,
        seconds=90,
        limit_s=300,
    ),
    Benchmark(
        name="pressure",
        bars=(
            Bar("record decoding, in a session of 200,000 kernels", "<= 2 µs per record"),
            Bar("sessions under pressure", "none loses a kernel silently"),
        ),
        command=_script("pressure"),
        judge=bars_device.judge_pressure,
        seconds=20,
        limit_s=120,
        needs=("gpu",),
    ),
    Benchmark(
        name="memory",
        bars=(Bar("peak memory of measure()", "<= 1.25 × the step's peak + 2 × L2 + the largest unit's arguments"),),
        command=_script("memory"),
        judge=bars_host.judge_memory,
        seconds=170,
        limit_s=400,
        needs=("gpu", "torchvision", "timm", "transformers"),
    ),
    Benchmark(
        name="show_speed",
        bars=(
            Bar("graphbench show and diff start, no torch import", "< 0.3 s"),
            Bar("graphbench show, profile of 10,000 nodes", "< 2 s"),
            Bar("graphbench diff, two profiles of 10,000 nodes", "< 5 s"),
        ),
        command=_script("show_speed"),
        judge=bars_host.judge_show,
        seconds=60,
        limit_s=200,
    ),
    Benchmark(
        name="steps",
        bars=(
            Bar("device time attributed, AdamW training steps of 5 models", "100 %"),
            Bar("records lost or kernels without a row, training steps", "none"),
            Bar("sum of in-graph rows vs device_busy, training steps", "within 0.5 %"),
            Bar("recorded step ÷ plain step, where the device bounds it", "<= 1.15"),
        ),
        command=_script("steps"),
        judge=bars_device.judge_steps,
        seconds=210,
        limit_s=450,
        needs=("gpu", "torchvision", "timm", "transformers"),
    ),
    Benchmark(
        name="shapes",
        bars=(
            Bar("BERT on 2 lengths and 3 batches, dynamic=True", "1 region, 6 groups, a time in every row"),
            Bar("attention's exponent of the length less the linear layers'", ">= 0.4"),
            Bar("exponents of the linear layers less 1", "within 0.3"),
        ),
        command=_script("shapes", "--device", "{device}"),
        judge=bars_device.judge_shapes,
        seconds=80,
        limit_s=300,
        needs=("gpu", "transformers"),
    ),
    Benchmark(
        name="compile",
        bars=(
            Bar("compile CPU time ÷ Inductor's, cold", "<= 1.15"),
            Bar("kernels built again by a second process", "0"),
        ),
        command=_script("overhead", "--part", "compile", "--device", "{device}"),
        judge=bars_host.judge_compile,
        seconds=250,
        limit_s=560,
        needs=("transformers",),
    ),
    Benchmark(
        name="supervision",
        bars=(Bar("supervisor and journal, of the wall time of graphbench run", "< 2 %"),),
        command=_script("supervision", "--device", "{device}"),
        judge=bars_host.judge_supervision,
        seconds=250,
        limit_s=560,
    ),
    Benchmark(
        name="poison",
        bars=(Bar("disturbed measurements (other profilers, forks, tools)", "right, or refused by name"),),
        command=_script("poison"),
        judge=bars_device.judge_poison,
        seconds=40,
        limit_s=200,
        needs=("gpu",),
    ),
)
"""In order of value: what comes first is run first where time is short."""
